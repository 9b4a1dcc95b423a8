"""pendulum-1, -2 and -4: a robot arm swings a ball on a cable to one, two and four targets
[Zimmermann2021, Fig. 4, Table I]."""

from collections.abc import Mapping
from functools import partial

from pliant.problem import Effort, Goal
from pliant.zoo import gripper_tasks
from pliant.zoo.experiment import Setting
from pliant.zoo.gripper_tasks import PlanningTask, velocity_goals
from pliant.zoo.robots.manipulated_objects import pendulum

# (fraction of the horizon, position [m], direction of the hit) of each target
TARGETS = {
    1: [(1.0, (0.6, -0.15, 0.35), (1.0, 0.0, 0.0))],
    2: [
        (0.5, (0.5, -0.15, 0.3), (1.0, 0.0, 0.0)),
        (1.0, (0.2, -0.15, 0.3), (-1.0, 0.0, 0.0)),
    ],
    4: [  # on a circle, hit along its tangents
        (0.45, (0.5, -0.15, 0.3), (0.0, 1.0, 0.0)),
        (0.63, (0.35, 0.0, 0.3), (-1.0, 0.0, 0.0)),
        (0.81, (0.2, -0.15, 0.3), (0.0, -1.0, 0.0)),
        (0.99, (0.35, -0.3, 0.3), (1.0, 0.0, 0.0)),
    ],
}
TABLE = {1: (60, 0.667), 2: (60, 1.5), 4: (100, 1.667)}  # steps and overall time [s] of Table I


def make_task(count: int, settings: Mapping[str, Setting]) -> PlanningTask:
    """Return the task with 1, 2 or 4 targets of the ball, hit at a given speed."""
    steps, time, targets = int(settings["steps"]), float(settings["time"]), TARGETS[count]
    goal = Goal(
        effector="ball",
        target=[position for _, position, _ in targets],
        time=[fraction * time for fraction, _, _ in targets],
        weight=200.0,
    )
    directions = [direction for _, _, direction in targets]
    return PlanningTask(
        robot=pendulum(),
        steps=steps,
        time=time,
        targets=[goal],
        terms=[
            *velocity_goals(goal, directions, float(settings["speed"]), weight=0.05),
            Effort(weight=1e-3, order=2),
            Effort(weight=1e-2, order=1),
        ],
        paper={"nodes": 1, "arms": 1, "steps": TABLE[count][0], "time": TABLE[count][1]},
    )


TASK_FACTORIES = {f"pendulum-{count}": partial(make_task, count) for count in TABLE}
EXPERIMENTS = [
    gripper_tasks.experiment(
        f"pendulum-{count}",
        TASK_FACTORIES[f"pendulum-{count}"],
        size="1 node, 7 joints",
        takes="15 s",
        shows=f"an arm swings a ball on a cable to {count} target{'s' if count > 1 else ''}",
        settings={"steps": steps, "time": time, "speed": 3.0},
    )
    for count, (steps, time) in TABLE.items()
]
