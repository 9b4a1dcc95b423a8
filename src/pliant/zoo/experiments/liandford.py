"""liandford-spiral, -pick-place and -orient: six motors move the bar of a robot made of beams
(paper 001 scenario 3, Fig. 6 and 7)."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.problem import paths
from pliant.robot import Robot
from pliant.zoo.experiment import Setting
from pliant.zoo.reach import ReachTask, Weights, rest
from pliant.zoo.reached import experiment
from pliant.zoo.robots import liandford

WEIGHTS = Weights(path=100.0, effort=1e-4)  # the emphasis is on the place
# [rad] the motors' angles that would hold the bar at the two places of pick and place, and at the
# slant of orient
PICK, PLACE = (0.8, 0.5, -0.5, -0.6, -0.2, 0.4), (-0.6, 0.1, 0.8, 0.9, 0.5, -0.3)
SLANT = (0.9, 0.8, 0.1, -0.7, -0.6, 0.1)


def _start(s: Mapping[str, Setting]) -> tuple[Robot, float, int]:
    return liandford(cells=int(s["cells"])), float(s["dt"]), int(s["steps"])


def _held(robot: Robot, effector: str, angles: tuple[float, ...]) -> Array:
    return robot.place(effector, rest(robot, np.array(angles)))


def spiral(s: Mapping[str, Setting]) -> ReachTask:
    """A new goal at every step, in the plane of x and z, outwards from where the bar stands."""
    robot, dt, steps = _start(s)
    start, end = _held(robot, "centre", 6 * (0.0,)), dt * steps
    way = paths.spiral(
        center=start,
        radii=(0.0, float(s["radius"])),
        period=end,
        normal=(0.0, -1.0, 0.0),
        turns=2.0,
    )
    return ReachTask(
        robot=robot,
        dt=dt,
        steps=steps,
        paths={"centre": way},
        times=list(dt * np.arange(1, steps + 1)),
        weights=Weights(path=1000.0, speed=1e-6, effort=1e-5),
    )


def pick_place(s: Mapping[str, Setting]) -> ReachTask:
    """Back and forth between two places, with a stop at each."""
    robot, dt, steps = _start(s)
    start, pick, place = (_held(robot, "centre", angles) for angles in (6 * (0.0,), PICK, PLACE))
    times = dt * steps * np.array([0.25, 0.5, 0.75, 1.0])
    way = paths.stops(
        [0.0, *times], np.array([start, pick, place, pick, place]), pause=0.3 * times[0]
    )
    return ReachTask(
        robot=robot, dt=dt, steps=steps, paths={"centre": way}, times=list(times), weights=WEIGHTS
    )


def orient(s: Mapping[str, Setting]) -> ReachTask:
    """Both ends of the bar to their goals at once."""
    robot, dt, steps = _start(s)
    end = dt * steps
    way = {
        name: paths.stops(
            [0.0, end],
            np.array([_held(robot, name, angles) for angles in (6 * (0.0,), SLANT)]),
            pause=0.4 * end,
        )
        for name in ("top", "bottom")
    }
    return ReachTask(robot=robot, dt=dt, steps=steps, paths=way, times=[end], weights=WEIGHTS)


SIZE = "111 points with 6 unknowns each, 6 motors"
EXPERIMENTS = (
    experiment(
        "liandford-spiral",
        spiral,
        shows="a bar on six legs of beams follows a spiral, a new goal at every step",
        size=f"{SIZE}, 120 steps",
        takes="1 min",
        settings={"ways": "nonlinear", "steps": 120, "cells": 8, "radius": 0.004},
        quick={"steps": 40, "cells": 4, "iterations": 40},
    ),
    experiment(
        "liandford-pick-place",
        pick_place,
        shows="the bar goes back and forth between two places",
        size=f"{SIZE}, 120 steps",
        takes="1 min",
        settings={"ways": "nonlinear", "steps": 120, "cells": 8},
        quick={"steps": 32, "cells": 3, "iterations": 40},
    ),
    experiment(
        "liandford-orient",
        orient,
        shows="the bar is slanted: both its ends reach their goals",
        size=f"{SIZE}, 60 steps",
        takes="1 min",
        settings={"ways": "nonlinear", "steps": 60, "cells": 8},
        quick={"steps": 24, "cells": 4, "iterations": 40},
    ),
)
