"""pendulum-strike: the planned pendulum strikes blocks, which fly off their posts
[Zimmermann2021, Fig. 4]."""

from collections.abc import Mapping

import numpy as np

from pliant.core import Array
from pliant.dynamics import BDF2
from pliant.planners import Options, gauss_newton
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.experiments import pendulum
from pliant.zoo.gripper_tasks import PlanningTask, problem_of
from pliant.zoo.robots.struck_blocks import TOUCHING_DISTANCE, with_blocks

TARGETS = 2
AFTERWARDS = 0.2  # [s] simulated after the plan
KNOCKED_OFF = 0.03  # [m] a block that moved farther was knocked off its post


def task_of(s: Mapping[str, Setting]) -> PlanningTask:
    """Return the planning task of `pendulum-2`, without blocks."""
    return pendulum.make_task(TARGETS, s)


def robot_with_blocks() -> Robot:
    """Return the pendulum with a block at each target."""
    targets = pendulum.TARGETS[TARGETS]
    return with_blocks(
        pendulum.pendulum(),
        [np.asarray(position, float) for _, position, _ in targets],
        [direction for _, _, direction in targets],
    )


def refined_controls(controls: Array, start: Array, factor: int, extra: int) -> Array:
    """Return controls of a time step `factor` times shorter: linear between the given ones, then
    constant for `extra` steps."""
    coarse = np.vstack([start, controls])
    times = np.arange(1, factor * len(controls) + 1) / factor
    knots = np.arange(len(coarse))
    fine = np.stack([np.interp(times, knots, column) for column in coarse.T], axis=1)
    return np.vstack([fine, np.tile(fine[-1], (extra, 1))])


def perform(run: ExperimentRun) -> Outcome:
    task = task_of(run.settings)
    options = Options(progress=run.progress, folder=run.folder / "plan", resume=run.resume)
    plan = gauss_newton(problem_of(task, task.model), options=options)
    if plan.interrupted:
        raise KeyboardInterrupt
    factor, robot = int(run.settings["substeps"]), robot_with_blocks()
    dt = task.time / task.steps / factor
    controls = refined_controls(
        plan.controls, robot.neutral_controls(), factor, round(AFTERWARDS / dt)
    )
    model = BDF2(robot, dt=dt)
    path = run.simulate(model, controls, count=len(controls), dt=dt)
    positions = path.path[:, : model.space.n_dofs].reshape(len(path.path), -1, 3)
    metrics = strike_metrics(positions, dt)
    moved = [metrics[f"block {k}: displacement"].value for k in range(1, TARGETS + 1)]
    reached = all(float(length) > KNOCKED_OFF for length in moved)
    drawn = slice(None, None, factor)
    return Outcome(
        metrics=metrics,
        plots=[speed_plot(positions, dt)],
        scene=robot_scene(
            robot,
            path.path[drawn, : model.space.n_dofs],
            dt=dt * factor,
            title=run.identity,
            ground=0.0,
            controls=np.vstack([robot.neutral_controls(), controls])[drawn],
            marked=("ball", *(f"block {k}" for k in range(1, TARGETS + 1))),
        ),
        reached=reached,
        message="done" if reached else "a block was not knocked off its post; raise the speed.",
    )


def speeds(positions: Array, dt: float) -> Array:
    """Return the speed of each mass in each step, (steps, masses) [m/s]."""
    return np.linalg.norm(np.diff(positions, axis=0), axis=2) / dt


def strike_metrics(positions: Array, dt: float) -> dict[str, Metric]:
    """Return for each block the time of the first touch, the speed of the ball before it, and the
    speed of the block after it. `positions` (steps + 1, 1 + blocks, 3) [m]."""
    speed, out = speeds(positions, dt), {}
    for k in range(1, positions.shape[1]):
        distance = np.linalg.norm(positions[:, 0] - positions[:, k], axis=1)
        touching = np.flatnonzero(distance < TOUCHING_DISTANCE)
        displacement = float(np.linalg.norm(positions[-1, k] - positions[0, k]))
        out[f"block {k}: displacement"] = Metric(value=displacement, unit="m")
        if touching.size:
            first = int(touching[0])
            free = np.flatnonzero(distance[first:] >= TOUCHING_DISTANCE)
            last = first + int(free[0]) if free.size else len(speed) - 1
            out[f"block {k}: time of the strike"] = Metric(value=first * dt, unit="s")
            out[f"block {k}: speed of the ball before it"] = Metric(
                value=float(speed[max(first - 1, 0), 0]), unit="m/s"
            )
            out[f"block {k}: speed of the block after it"] = Metric(
                value=float(speed[min(last, len(speed) - 1), k]), unit="m/s"
            )
    return out


def speed_plot(positions: Array, dt: float) -> Plot:
    """Return the plot of the speeds of the ball and the blocks."""
    speed = speeds(positions, dt)
    times = dt * np.arange(1, len(speed) + 1)
    names = ("ball", *(f"block {k}" for k in range(1, positions.shape[1])))
    return Plot(
        title="Speeds",
        x="time [s]",
        y="speed [m/s]",
        series={name: (times, column) for name, column in zip(names, speed.T, strict=True)},
    )


def probe(s: Mapping[str, Setting]) -> tuple:
    """Return the model, with the ball 1 mm inside the first block."""
    robot = robot_with_blocks()
    model = BDF2(robot, dt=1e-3)
    q = robot.body().rest.copy()
    q[:3] = q[3:6] - np.array([TOUCHING_DISTANCE - 1e-3, 0.0, 0.0])
    return model, model.state(q), robot.neutral_controls()


EXPERIMENT = Experiment(
    name="pendulum-strike",
    paper="003",
    shows="the planned pendulum knocks two blocks off their posts",
    size="3 point masses, 7 joints",
    takes="30 s",
    perform=perform,
    probe=probe,
    settings={"steps": 60, "time": 1.5, "speed": 3.0, "substeps": 20, "small_animation": False},
    quick={"substeps": 10, "small_animation": True},
)
