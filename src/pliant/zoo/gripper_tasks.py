"""The experiments of [Zimmermann2021]: robot arms move soft objects to targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pliant.actuators import Arm, FrameActuator
from pliant.core import Array
from pliant.dynamics import BDF2, Quasistatic, equilibrium
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.planners import Options, Plan, plan
from pliant.problem import Goal, Limit, Problem, Term
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.store import Trajectory
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanningTask:
    """A robot held by arms, a horizon, and the terms of the objective. `targets` are the goals that
    must be reached."""

    robot: Robot
    steps: int
    time: float  # [s]
    targets: Sequence[Goal]
    terms: Sequence[Term]  # in addition to the targets
    # Table I: "nodes", "arms", "steps" and "time"
    paper: Mapping[str, float | str] = field(default_factory=dict)
    # further metrics of the planned trajectory
    measure: Callable[["PlanningTask", Trajectory], Mapping[str, Metric]] = lambda task, path: {}

    @property
    def model(self) -> ImplicitModel:
        """The BDF2 model of the robot."""
        return BDF2(self.robot, dt=self.time / self.steps)


PlanningTaskFactory = Callable[[Mapping[str, Setting]], PlanningTask]


def experiment(
    name: str,
    make_task: PlanningTaskFactory,
    *,
    shows: str,
    size: str,
    takes: str,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting] | None = None,
) -> Experiment:
    """Return an experiment of [Zimmermann2021] that plans a task.

    `make_task` creates the task from the settings, which include `steps` and `time` [s].
    """
    return Experiment(
        name=name,
        paper="003",
        shows=shows,
        size=size,
        takes=takes,
        probe=_make_probe(make_task),
        perform=lambda run: perform(run, make_task(run.settings), str(run.settings["method"])),
        settings={**settings, "method": "gauss_newton", "small_animation": False},
        quick={**(quick or {}), "small_animation": True},
    )


def arms(robot: Robot) -> list[Arm]:
    """Return the arms that hold a robot, in the order of its controls."""
    frames = [
        actuator.frame
        for actuator in robot.actuators.values()
        if isinstance(actuator, FrameActuator)
    ]
    return [frame for frame in frames if isinstance(frame, Arm)]


def problem_of(task: PlanningTask, model: ImplicitModel) -> Problem:
    """Return the planning problem: start at rest under gravity, with limits on joint angles,
    velocities and accelerations."""
    robot = task.robot
    velocity, acceleration = (
        np.concatenate([getattr(arm, name) for arm in arms(robot)])
        for name in ("velocity", "acceleration")
    )
    limits = [
        Limit(lower=-velocity, upper=velocity, order=1),
        Limit(lower=-acceleration, upper=acceleration, order=2),
    ]
    return Problem(
        model=model,
        steps=task.steps,
        x0=equilibrium_state(model),
        terms=[*task.targets, *task.terms],
        limits=limits,
    )


def equilibrium_state(model: ImplicitModel) -> Array:
    """Return the state (n_state,) at rest under gravity, held by the grippers.

    The initial state of point masses on tethers is close to equilibrium and is used as it is.
    """
    robot = model.robot
    if not robot.body().volumes().any():
        return model.initial_state()
    return model.state(equilibrium(Quasistatic(robot), robot.neutral_controls()).x)


def perform(run: ExperimentRun, task: PlanningTask, method: str) -> Outcome:
    """Plan a task, replay the plan by simulation, and return metrics, plots and scene."""
    model = task.model
    problem = problem_of(task, model)
    options = Options(progress=run.progress, folder=run.folder / "plan", resume=run.resume)
    found = plan(problem, method=method, options=options)
    if found.interrupted:
        raise KeyboardInterrupt
    path = run.simulate(
        model, found.controls, count=task.steps, dt=model.dt, x0=problem.initial_state
    )
    replayed = problem.value(path.path, path.controls)
    largest = max(
        error
        for goal in task.targets
        for error in _target_errors(problem, path.path, path.controls, goal, model)
    )
    reached = bool(found.status) and largest <= 0.01 and found.limit_violation <= 1e-9
    metrics = {
        "largest target error": Metric(value=largest, unit="m"),
        **speed_metrics(model, path.path, task),
        **task.measure(task, path),
        "objective": Metric(value=found.cost),
        "iterations": Metric(value=len(found.history) - 1),
        "time per iteration": Metric(
            value=found.history[-1].seconds / max(len(found.history) - 1, 1), unit="s"
        ),
        "replay cost equals plan cost": Metric(value=replayed == found.cost),
        "joint limit violation": Metric(value=found.limit_violation, unit="of the joint range"),
        "nodes": Metric(
            value=len(model.equations.body.rest) // model.equations.body.dim,
            paper=task.paper.get("nodes"),
        ),
        "arms": Metric(value=len(arms(task.robot)), paper=task.paper.get("arms")),
        "steps": Metric(value=task.steps, paper=task.paper.get("steps")),
        "time": Metric(value=task.time, unit="s", paper=task.paper.get("time")),
    }
    return Outcome(
        metrics=metrics,
        plots=_plots(model, found, path.controls),
        reached=reached,
        scene=_scene(run, task, model, path),
        message="done" if reached else _failure_message(found, largest),
    )


def _failure_message(found: Plan, largest: float) -> str:
    if not found.status:
        return f"the planner stopped: {found.status.text}."
    if found.limit_violation > 1e-9:
        return (
            f"a joint limit is violated by {found.limit_violation:.2g} of the joint range. Plan "
            "with another method."
        )
    return (
        f"the largest target error is {largest:.3g} m, above 0.01 m ({found.status.text}). Move "
        "the target closer or increase its weight."
    )


def _target_errors(
    problem: Problem, states: Array, controls: Array, goal: Goal, model: ImplicitModel
) -> list[float]:
    """Return the distance [m] to the target at each time of a goal."""
    observations = goal.attach(model, problem.steps)
    pairs = [
        (observation.evaluate(states, controls, problem.previous_control), observation.loss.target)  # type: ignore[attr-defined]
        for observation in observations
    ]
    return [float(np.linalg.norm(y - target)) for y, target in pairs]


def velocity_goals(
    goal: Goal, directions: Sequence[Sequence[float]], speed: float, weight: float
) -> list[Goal]:
    """Return one goal for the velocity at each time of a goal: `speed` [m/s] along a direction.

    There are none for a speed of zero.
    """
    times = np.atleast_1d(np.asarray(goal.time, float))
    return [
        Goal(
            effector=goal.effector,
            quantity="velocity",
            target=np.multiply(speed, direction),
            time=float(time),
            weight=weight,
        )
        for time, direction in zip(times, directions, strict=True)
        if speed > 0.0
    ]


def speed_metrics(model: ImplicitModel, states: Array, task: PlanningTask) -> dict[str, Metric]:
    """Return the speed [m/s] of each effector at each of its targets."""
    return {
        f"speed of '{goal.effector}' at target {j}": Metric(
            value=_speed(model, states, goal.effector, time), unit="m/s"
        )
        for goal in task.targets
        for j, time in enumerate(np.atleast_1d(np.asarray(goal.time, float)), start=1)
    }


def _speed(model: ImplicitModel, states: Array, effector: str, time: float) -> float:
    """Return the speed [m/s] of an effector at a time [s]."""
    velocity = model.space.velocity(states[round(time / model.dt)])
    return float(np.linalg.norm(model.effector_rows(effector) @ velocity))


def _plots(model: ImplicitModel, found: Plan, controls: Array) -> list[Plot]:
    count = np.arange(len(found.history))
    times = model.dt * np.arange(1, len(controls) + 1)
    return [
        Plot(
            title="Convergence",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series={found.method: (count, np.array([row.cost for row in found.history]))},
        ),
        Plot(
            title="Joint angles",
            x="time [s]",
            y="angle [rad]",
            series={f"joint {j + 1}": (times, u) for j, u in enumerate(controls.T)},
        ),
    ]


def _scene(run: ExperimentRun, task: PlanningTask, model: ImplicitModel, path: Any) -> Any:
    controls = np.concatenate([task.robot.neutral_controls()[None], path.controls])
    targets = np.concatenate(
        [np.atleast_2d(np.asarray(goal.target, float)) for goal in task.targets]
    )
    marked = tuple(dict.fromkeys(goal.effector for goal in task.targets))
    return robot_scene(
        task.robot,
        path.path[:, : model.space.n_dofs],
        dt=model.dt,
        title=run.identity,
        targets=targets,
        ground=0.0,
        controls=controls,
        marked=marked,
    )


def _make_probe(make_task: PlanningTaskFactory) -> Callable[[Mapping[str, Setting]], tuple]:
    """Return a probe: the model after three steps of an arm motion."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        task = make_task(settings)
        model = task.model
        x, start = equilibrium_state(model), task.robot.neutral_controls()
        for k in range(3):
            u = start + 0.02 * (k + 1) * np.cos(np.arange(start.size))
            x = model.step(x, u, None, k).x
        return model, x, u

    return probe
