"""stiff-flop-middle and stiff-flop-tip: a pneumatic arm brings its middle or its end to a goal
within bounds (paper 001, Fig. 5)."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import paths
from pliant.zoo.experiment import Setting
from pliant.zoo.reach import ReachTask, Weights, rest
from pliant.zoo.reached import Maker, experiment
from pliant.zoo.robots import stiff_flop

# [of the highest pressure] in the chambers, those near the base first, that would hold the effector
# at its goal
HELD = {"middle": (0.9, 0.4, 0.0, 0.0, 0.0, 0.0), "tip": (0.8, 0.0, 0.0, 0.0, 0.6, 0.9)}


def maker(effector: str) -> Maker:
    def task(s: Mapping[str, Setting]) -> ReachTask:
        divisions = (int(s["core"]), int(s["around"]), int(s["layers"]))
        robot, dt, steps = (
            stiff_flop(divisions=divisions, order=int(s["order"])),
            float(s["dt"]),
            int(s["steps"]),
        )
        highest = robot.control_limits()[1]
        start, goal = (
            robot.place(effector, rest(robot, np.array(share) * highest))
            for share in (np.zeros(6), HELD[effector])
        )
        end = dt * steps
        way = paths.stops([0.0, end], np.array([start, goal]), pause=0.5 * end)
        return ReachTask(
            robot=robot,
            dt=dt,
            steps=steps,
            paths={effector: way},
            times=[end],
            weights=Weights(path=0.3, goal=100.0, effort=1e-4),
        )

    return task


EXPERIMENTS = tuple(
    experiment(
        f"stiff-flop-{effector}",
        maker(effector),
        shows=f"six pressures bring the {what} of a pneumatic arm to a goal, within bounds that "
        "become active",
        size="1,810 nodes, 6 chambers, 60 steps",
        takes="10 min",
        settings={"iterations": 30, "steps": 60, "core": 2, "around": 3, "layers": 1, "order": 2},
        quick={"steps": 20, "order": 1, "iterations": 20},
    )
    for effector, what in (("middle", "middle"), ("tip", "end"))
)
