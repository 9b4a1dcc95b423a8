"""liandford-spiral, -pick-place and -orient: six motors move the bar of a robot made of beams
[Menager2024, scenario 3, Fig. 6 and 7]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.problem import paths
from pliant.robot import Robot
from pliant.zoo.condensed_experiments import experiment
from pliant.zoo.condensed_tasks import ReachTask, Weights, equilibrium_positions
from pliant.zoo.experiment import Setting
from pliant.zoo.robots import liandford

WEIGHTS = Weights(path=100.0, effort=1e-4)  # position errors dominate
# The non-linear derivative plans with both drives. The linear one, which the paper uses, neglects
# that the legs hold the bar: with torques it plans (60 steps need search=trust), with angles not
MOTORS: Mapping[str, Setting] = {"drive": "torque", "derivatives": "nonlinear"}
# of the torques: differences with larger ones have relative errors of 1e-5, the limit of the check
PROBE_SHARE = 0.0
# [rad] motor angles whose equilibria define the two positions of pick and place, and the goal of
# orient
PICK, PLACE = (0.8, 0.5, -0.5, -0.6, -0.2, 0.4), (-0.6, 0.1, 0.8, 0.9, 0.5, -0.3)
ORIENTATION = (0.9, 0.8, 0.1, -0.7, -0.6, 0.1)


def _robot_and_times(s: Mapping[str, Setting]) -> tuple[Robot, float, int]:
    robot = liandford(cells=int(s["cells"]), drive=str(s["drive"]))
    return robot, float(s["dt"]), int(s["steps"])


def _start(robot: Robot, effector: str) -> Array:
    """Return the position (3,) [m] of an effector under neutral controls."""
    return robot.effector_position(effector, equilibrium_positions(robot, robot.neutral_controls()))


def _position_at(s: Mapping[str, Setting], effector: str, angles: tuple[float, ...]) -> Array:
    """Return the position (3,) [m] of an effector in equilibrium with angles of the motors. Motors
    with torques hold it as well."""
    robot = liandford(cells=int(s["cells"]))
    return robot.effector_position(effector, equilibrium_positions(robot, np.array(angles)))


def spiral(s: Mapping[str, Setting]) -> ReachTask:
    """Return the task with a goal at every step, on a spiral in the xz plane."""
    robot, dt, steps = _robot_and_times(s)
    start, end = _start(robot, "centre"), dt * steps
    path = paths.spiral(
        centre=start,
        radii=(0.0, float(s["radius"])),
        period=end,
        normal=(0.0, -1.0, 0.0),
        turns=2.0,
    )
    return ReachTask(
        robot=robot,
        dt=dt,
        steps=steps,
        paths={"centre": path},
        times=list(dt * np.arange(1, steps + 1)),
        weights=Weights(path=1000.0, velocity=1e-6, effort=1e-5),
    )


def pick_place(s: Mapping[str, Setting]) -> ReachTask:
    """Return the task that alternates between two positions, with a stop at each."""
    robot, dt, steps = _robot_and_times(s)
    start = _start(robot, "centre")
    pick, place = (_position_at(s, "centre", angles) for angles in (PICK, PLACE))
    times = dt * steps * np.array([0.25, 0.5, 0.75, 1.0])
    path = paths.minimum_jerk(
        [0.0, *times], np.array([start, pick, place, pick, place]), pause=0.3 * times[0]
    )
    return ReachTask(
        robot=robot, dt=dt, steps=steps, paths={"centre": path}, times=list(times), weights=WEIGHTS
    )


def orient(s: Mapping[str, Setting]) -> ReachTask:
    """Return the task that moves both ends of the bar to their goals."""
    robot, dt, steps = _robot_and_times(s)
    end = dt * steps
    path = {
        name: paths.minimum_jerk(
            [0.0, end],
            np.array([_start(robot, name), _position_at(s, name, ORIENTATION)]),
            pause=0.4 * end,
        )
        for name in ("top", "bottom")
    }
    return ReachTask(robot=robot, dt=dt, steps=steps, paths=path, times=[end], weights=WEIGHTS)


SIZE = "111 points with 6 unknowns each, 6 motors"
EXPERIMENTS = (
    experiment(
        "liandford-spiral",
        spiral,
        shows="a bar on six legs of beams follows a spiral, a new goal at every step",
        size=f"{SIZE}, 120 steps",
        takes="3 min",
        probe_share=PROBE_SHARE,
        # search=line stops at a goal error of 5.6 %
        settings={**MOTORS, "search": "trust", "steps": 120, "cells": 8, "radius": 0.004},
        quick={"steps": 40, "cells": 4, "iterations": 40},
    ),
    experiment(
        "liandford-pick-place",
        pick_place,
        shows="the bar alternates between two positions",
        size=f"{SIZE}, 120 steps",
        takes="1 min",
        probe_share=PROBE_SHARE,
        settings={**MOTORS, "steps": 120, "cells": 8},
        quick={"steps": 32, "cells": 3, "iterations": 40},
    ),
    experiment(
        "liandford-orient",
        orient,
        shows="both ends of the bar reach their goals",
        size=f"{SIZE}, 60 steps",
        takes="1 min",
        probe_share=PROBE_SHARE,
        settings={**MOTORS, "steps": 60, "cells": 8},
        quick={"steps": 24, "cells": 4, "iterations": 40},
    ),
)
