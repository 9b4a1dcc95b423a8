"""cloth-thin, cloth-toss and cloth-flip: robot arms swing foam sheets onto a table
[Zimmermann2021, Fig. 6 and 7, Table I]."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from pliant.core import Array
from pliant.dynamics import simulate
from pliant.problem import Effort, Goal, Term
from pliant.robot import Robot
from pliant.store import Trajectory
from pliant.zoo import gripper_tasks
from pliant.zoo.experiment import Metric, Setting
from pliant.zoo.gripper_tasks import PlanningTask
from pliant.zoo.robots.manipulated_objects import cloth, thin_cloth

# (fraction of the horizon, x [m], z [m]) of each target of the lower edge
TARGETS = {
    "thin": [(1.0, 0.65, 0.01)],
    "toss": [(1.0, 0.65, 0.02)],
    "flip": [(0.6, 0.65, 0.5), (1.0, 0.75, 0.03)],
}
# nodes, arms, steps and time [s] of Table I
TABLE = {"thin": (120, 1, 40, 0.8), "toss": (160, 2, 40, 1.0), "flip": (160, 2, 40, 1.0)}
DIVISIONS = {"thin": (3, 14), "toss": (7, 9), "flip": (7, 9)}


def make_task(kind: str, settings: Mapping[str, Setting]) -> PlanningTask:
    """Return the task that brings both lower corners of a sheet to its targets."""
    steps, time = int(settings["steps"]), float(settings["time"])
    divisions = (1, int(settings["across"]), int(settings["along"]))
    make_robot = thin_cloth if kind == "thin" else cloth
    robot = make_robot(divisions=divisions, friction=float(settings["friction"]))
    rest, targets = robot.body().rest, TARGETS[kind]
    goals = [
        Goal(
            effector=corner,
            target=[(x, robot.effector_position(corner, rest)[1], z) for _, x, z in targets],
            weight=100.0,
            time=[fraction * time for fraction, _, _ in targets],
        )
        for corner in ("right corner", "left corner")
    ]
    nodes, arms, table_steps, table_time = TABLE[kind]
    return PlanningTask(
        robot=robot,
        steps=steps,
        time=time,
        targets=goals,
        terms=[*_constant_grip_distance(robot), *EFFORT],
        paper={"nodes": nodes, "arms": arms, "steps": table_steps, "time": table_time},
        measure=sliding_metrics,
    )


def sliding_metrics(task: PlanningTask, path: Trajectory) -> dict[str, Metric]:
    """Return how far the lower corners move on the table while the arms stand still after the plan,
    with the friction of the table and without."""
    frictionless = [replace(contact, friction=0.0) for contact in task.robot.contacts]
    cases = {"with": task.robot, "without": replace(task.robot, contacts=frictionless)}
    return {
        f"path of the corners in {SLIDING_TIME:g} s after the plan, {case} friction": Metric(
            value=slide(replace(task, robot=robot), path.path[-1], path.controls[-1]), unit="m"
        )
        for case, robot in cases.items()
    }


def slide(task: PlanningTask, x: Array, u: Array) -> float:
    """Return the mean length [m] of the horizontal paths of the corners from a state, with constant
    controls."""
    model = task.model
    count = round(SLIDING_TIME / model.dt)
    states = simulate(model, np.tile(u, (count, 1)), x0=x, progress=False).states
    steps = np.diff([model.space.position(state) for state in states], axis=0)
    paths = [model.effector_rows(goal.effector) @ steps.T for goal in task.targets]
    return float(np.mean([np.linalg.norm(path[:2], axis=0).sum() for path in paths]))


SLIDING_TIME = 0.4  # [s]
EFFORT: list[Term] = [Effort(weight=1e-3, order=2), Effort(weight=5e-2, order=1)]


def _constant_grip_distance(robot: Robot) -> list[Term]:
    """Return goals that keep the distance of the grips; compression would buckle the sheet."""
    grips = [name for name in robot.effectors if name.endswith("grip")]
    return [
        Goal(
            effector=grip,
            target=robot.effector_position(grip, robot.body().rest),
            axes="y",
            weight=1e3,
        )
        for grip in grips
    ]


TASK_FACTORIES = {f"cloth-{kind}": partial(make_task, kind) for kind in TABLE}
QUICK = {
    "thin": {"steps": 20, "across": 1, "along": 7},
    "toss": {"steps": 10, "across": 3, "along": 4},
    "flip": {"steps": 12, "across": 4, "along": 6},
}
SHOWS = {
    "thin": "one arm tosses a strip of foam onto a table",
    "toss": "two arms toss a sheet of foam onto a table",
    "flip": "two arms swing a sheet of foam up and over onto a table",
}
EXPERIMENTS = [
    gripper_tasks.experiment(
        f"cloth-{kind}",
        TASK_FACTORIES[f"cloth-{kind}"],
        size=f"{nodes} nodes, {7 * arms} joints",
        takes="30 s",
        shows=SHOWS[kind],
        settings={
            "steps": steps,
            "time": time,
            "across": DIVISIONS[kind][0],
            "along": DIVISIONS[kind][1],
            "friction": 0.5,
        },
        quick=QUICK[kind],
    )
    for kind, (nodes, arms, steps, time) in TABLE.items()
]
