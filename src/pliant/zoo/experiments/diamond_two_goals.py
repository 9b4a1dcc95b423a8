"""diamond-two-goals: four cables move the tip of the Diamond to two goals in sequence
[Menager2024, scenario 1, Fig. 4]."""

from collections.abc import Mapping

import numpy as np

from pliant.problem import paths
from pliant.zoo.condensed_experiments import experiment
from pliant.zoo.condensed_tasks import ReachTask, equilibrium_positions
from pliant.zoo.experiment import Setting
from pliant.zoo.robots import diamond

# [N] cable tensions whose equilibria define the goals
GOAL_TENSIONS = ((5.0, 2.5, 0.0, 0.0), (0.0, 0.0, 2.5, 5.0))


def task(s: Mapping[str, Setting]) -> ReachTask:
    """Return the task: two goals, with a pause at each."""
    robot, dt, steps = diamond(along=int(s["along"])), float(s["dt"]), int(s["steps"])
    start, *goals = (
        robot.effector_position("tip", equilibrium_positions(robot, np.array(u)))
        for u in ((0.0, 0.0, 0.0, 0.0), *GOAL_TENSIONS)
    )
    times = dt * steps * np.array([0.5, 1.0])
    path = paths.minimum_jerk([0.0, *times], np.array([start, *goals]), pause=0.2 * times[0])
    return ReachTask(
        robot=robot,
        dt=dt,
        steps=steps,
        paths={"tip": path},
        times=list(times),
        paper={"linear": 208, "nonlinear": 1000},
    )


EXPERIMENT = experiment(
    "diamond-two-goals",
    task,
    shows="four cables bring the tip of a soft parallel robot to two goals; three derivatives are "
    "compared",
    size="702 nodes, 4 cables, 100 steps",
    takes="5 min",
    settings={"derivatives": "linear nonlinear exact", "steps": 100, "along": 19},
    quick={"derivatives": "linear exact", "steps": 20, "along": 5, "iterations": 20},
)
