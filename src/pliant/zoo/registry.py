"""Experiments by name."""

from pliant.core import InputError, nearest
from pliant.zoo.experiment import Experiment
from pliant.zoo.experiments import (
    arm_2d,
    arm_circle,
    arm_obstacles,
    arm_reach,
    biped_cable,
    block_drop,
    cantilever,
    cylinder_air_water,
    diamond_mpc,
    diamond_two_goals,
    finger_inverse,
    fluid_weight,
    lay_cloth,
    liandford,
    mpm_beam,
    mpm_bounce,
    mpm_slope,
    pendulum,
    pendulum_hydraulic,
    stiff_flop,
    whip,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (arm_circle.EXPERIMENT, arm_obstacles.EXPERIMENT, arm_2d.EXPERIMENT, arm_reach.EXPERIMENT,
                       cantilever.EXPERIMENT, block_drop.EXPERIMENT, *pendulum.EXPERIMENTS, *whip.EXPERIMENTS,
                       *lay_cloth.EXPERIMENTS, mpm_bounce.EXPERIMENT, mpm_beam.EXPERIMENT, mpm_slope.EXPERIMENT,
                       biped_cable.EXPERIMENT, diamond_two_goals.EXPERIMENT,
                       *stiff_flop.EXPERIMENTS, *liandford.EXPERIMENTS, diamond_mpc.EXPERIMENT,
                       *fluid_weight.EXPERIMENTS, cylinder_air_water.EXPERIMENT, *finger_inverse.EXPERIMENTS, pendulum_hydraulic.EXPERIMENT)
}  # fmt: skip


def find(name: str) -> Experiment:
    """The experiment of a name, or a sentence with the nearest one."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    raise InputError(f"There is no experiment '{name}'; {nearest(name, EXPERIMENTS)}")
