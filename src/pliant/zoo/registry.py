"""Look up experiments and robots by name."""

import os
from collections.abc import Iterable
from difflib import get_close_matches

from pliant.core import InputError
from pliant.robot import Robot
from pliant.robot.description import robot_of
from pliant.robot_files import load_robot
from pliant.swimming import LinkedRobot
from pliant.zoo import robots
from pliant.zoo.experiment import Experiment
from pliant.zoo.experiments import (
    arm_2d,
    arm_circle,
    arm_identify,
    arm_lengthen,
    arm_obstacles,
    arm_reach,
    arm_swingup,
    biped_cable,
    biped_cmaes,
    biped_codesign,
    biped_terrain,
    block_drop,
    cantilever,
    creature_stl,
    cylinder_air_water,
    diamond_mpc,
    diamond_nonlinear_mpc,
    diamond_two_goals,
    finger_codesign,
    finger_identify,
    finger_inverse,
    finger_mixed,
    fluid_weight,
    lay_cloth,
    legged_walkers,
    liandford,
    mpm_actuator,
    mpm_beam,
    mpm_bounce,
    mpm_slope,
    mpm_tear,
    pendulum,
    pendulum_hydraulic,
    pendulum_strike,
    rhino_walk,
    stiff_flop,
    stiffening_arm,
    swimmer_gait,
    swimmer_gradient,
    swimmer_plan,
    swimmer_ppo,
    whip,
    whip_feedback,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        arm_circle.EXPERIMENT,
        arm_obstacles.EXPERIMENT,
        arm_2d.EXPERIMENT,
        arm_reach.EXPERIMENT,
        swimmer_plan.EXPERIMENT,
        swimmer_gait.EXPERIMENT,
        cantilever.EXPERIMENT,
        block_drop.EXPERIMENT,
        *pendulum.EXPERIMENTS,
        pendulum_strike.EXPERIMENT,
        *whip.EXPERIMENTS,
        whip_feedback.EXPERIMENT,
        *lay_cloth.EXPERIMENTS,
        mpm_bounce.EXPERIMENT,
        mpm_beam.EXPERIMENT,
        mpm_slope.EXPERIMENT,
        mpm_tear.EXPERIMENT,
        mpm_actuator.EXPERIMENT,
        biped_cable.EXPERIMENT,
        biped_cmaes.EXPERIMENT,
        biped_codesign.EXPERIMENT,
        *legged_walkers.EXPERIMENTS,
        rhino_walk.EXPERIMENT,
        creature_stl.EXPERIMENT,
        biped_terrain.EXPERIMENT,
        arm_lengthen.EXPERIMENT,
        arm_swingup.EXPERIMENT,
        finger_identify.EXPERIMENT,
        arm_identify.EXPERIMENT,
        finger_codesign.EXPERIMENT,
        diamond_two_goals.EXPERIMENT,
        *stiff_flop.EXPERIMENTS,
        *liandford.EXPERIMENTS,
        diamond_mpc.EXPERIMENT,
        stiffening_arm.EXPERIMENT,
        diamond_nonlinear_mpc.EXPERIMENT,
        *fluid_weight.EXPERIMENTS,
        cylinder_air_water.EXPERIMENT,
        *finger_inverse.EXPERIMENTS,
        finger_mixed.EXPERIMENT,
        pendulum_hydraulic.EXPERIMENT,
        swimmer_gradient.EXPERIMENT,
        swimmer_ppo.EXPERIMENT,
    )
}


def find_robot(name: str) -> Robot | LinkedRobot:
    """Return the robot of a file, of `pliant.robots` or of an experiment.

    Raises `InputError` with similar names if the name is unknown.
    """
    if name.lower().endswith(".toml") or os.path.isfile(name):
        return load_robot(name)
    # irb14000 is a rigid arm, not a soft robot.
    known = [robot for robot in robots.__all__ if robot != "irb14000"]
    if name.replace("-", "_") in known:
        return vars(robots)[name.replace("-", "_")]()
    if name not in EXPERIMENTS:
        raise InputError(
            f"There is no robot or experiment '{name}'{_similar(name, [*known, *EXPERIMENTS])} "
            "`pliant list` shows all experiments. Give a robot file as FILE.toml."
        )
    robot = robot_of(EXPERIMENTS[name].probe(EXPERIMENTS[name].resolve_settings())[0])
    if not isinstance(robot, Robot | LinkedRobot):
        raise InputError(f"The experiment {name} has no robot. Choose one of {', '.join(known)}.")
    return robot


def find(name: str) -> Experiment:
    """Return an experiment by name. Raises `InputError` with similar names if it is unknown."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    raise InputError(
        f"There is no experiment '{name}'{_similar(name, EXPERIMENTS)} `pliant list` shows all "
        "experiments. Give a robot file as FILE.toml."
    )


def _similar(name: str, known: Iterable[str]) -> str:
    """Return the end of an error sentence, with up to three similar names."""
    close = get_close_matches(name, list(known))
    names = " or ".join(f"'{other}'" for other in close)
    return f"; did you mean {names}?" if close else "."
