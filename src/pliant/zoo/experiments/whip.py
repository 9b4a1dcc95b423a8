"""whip-1 and -2: a robot arm hits one and two targets with the tip of a foam rod
[Zimmermann2021, Fig. 1, Table I]."""

from collections.abc import Mapping
from functools import partial

from pliant.problem import Effort, Goal
from pliant.zoo import gripper_tasks
from pliant.zoo.experiment import Setting
from pliant.zoo.gripper_tasks import PlanningTask, velocity_goals
from pliant.zoo.robots.manipulated_objects import soft_rod

# (fraction of the horizon, position [m], direction of the hit) of each target
TARGETS = {
    1: [(1.0, (0.65, -0.15, 0.2), (1.0, 0.0, 0.0))],
    2: [(0.55, (0.5, -0.4, 0.15), (0.0, -1.0, 0.0)), (1.0, (0.6, 0.0, 0.2), (0.0, 1.0, 0.0))],
}
TABLE = {1: (40, 1.0), 2: (40, 0.889)}  # steps and overall time [s] of Table I


def make_task(count: int, settings: Mapping[str, Setting]) -> PlanningTask:
    """Return the task with 1 or 2 targets of the rod tip, hit at a given speed."""
    steps, time, targets = int(settings["steps"]), float(settings["time"]), TARGETS[count]
    goal = Goal(
        effector="tip",
        target=[position for _, position, _ in targets],
        time=[fraction * time for fraction, _, _ in targets],
        weight=500.0,
    )
    directions = [direction for _, _, direction in targets]
    return PlanningTask(
        robot=soft_rod(layers=int(settings["layers"])),
        steps=steps,
        time=time,
        targets=[goal],
        terms=[
            *velocity_goals(goal, directions, float(settings["speed"]), weight=0.05),
            Effort(weight=1e-3, order=2),
            Effort(weight=1e-2, order=1),
        ],
        paper={"nodes": 68, "arms": 1, "steps": TABLE[count][0], "time": TABLE[count][1]},
    )


TASK_FACTORIES = {f"whip-{count}": partial(make_task, count) for count in TABLE}
EXPERIMENTS = [
    gripper_tasks.experiment(
        f"whip-{count}",
        TASK_FACTORIES[f"whip-{count}"],
        size="68 nodes, 7 joints",
        takes="15 s",
        shows=f"a robot arm hits {count} target{'s' if count > 1 else ''} with the tip "
        "of a foam rod",
        settings={"steps": steps, "time": time, "speed": 3.0, "layers": 16},
        quick={"steps": 20, "layers": 8},
    )
    for count, (steps, time) in TABLE.items()
]
