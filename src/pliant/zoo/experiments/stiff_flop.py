"""stiff-flop-middle and stiff-flop-tip: a pneumatic arm moves its middle or tip to a goal within
pressure limits [Menager2024, Fig. 5]."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import paths
from pliant.zoo.condensed_experiments import TaskFactory, experiment
from pliant.zoo.condensed_tasks import ReachTask, Weights, equilibrium_positions
from pliant.zoo.experiment import Setting
from pliant.zoo.robots import stiff_flop

# Chamber pressures over the maximum pressure, from the base, whose equilibria define the goals
GOAL_PRESSURES = {"middle": (0.9, 0.4, 0.0, 0.0, 0.0, 0.0), "tip": (0.8, 0.0, 0.0, 0.0, 0.6, 0.9)}


def task_factory(effector: str) -> TaskFactory:
    """Return the function that creates the task of an effector, "middle" or "tip"."""

    def task(s: Mapping[str, Setting]) -> ReachTask:
        divisions = (int(s["core"]), int(s["around"]), int(s["layers"]))
        robot, dt, steps = (
            stiff_flop(divisions=divisions, order=int(s["order"])),
            float(s["dt"]),
            int(s["steps"]),
        )
        max_pressure = robot.control_limits()[1]
        start, goal = (
            robot.effector_position(
                effector, equilibrium_positions(robot, np.array(fraction) * max_pressure)
            )
            for fraction in (np.zeros(6), GOAL_PRESSURES[effector])
        )
        end = dt * steps
        path = paths.minimum_jerk([0.0, end], np.array([start, goal]), pause=0.5 * end)
        return ReachTask(
            robot=robot,
            dt=dt,
            steps=steps,
            paths={effector: path},
            times=[end],
            weights=Weights(path=0.3, goal=100.0, effort=1e-4),
        )

    return task


EXPERIMENTS = tuple(
    experiment(
        f"stiff-flop-{effector}",
        task_factory(effector),
        shows=f"six pressures move the {what} of a pneumatic arm to a goal, with active pressure "
        "limits",
        size="1,810 nodes, 6 chambers, 60 steps",
        takes="10 min",
        settings={"iterations": 200, "steps": 60, "core": 2, "around": 3, "layers": 1, "order": 2},
        quick={"steps": 20, "order": 1, "iterations": 20},
    )
    for effector, what in (("middle", "middle"), ("tip", "end"))
)
