"""Experiments that plan: from a task to an outcome with its certificate, plots and animation."""

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
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanningTask:
    """A robot, how long and how finely to plan, and what is wanted; `targets` are the goals that
    must be hit, by effector and time."""

    robot: Robot
    steps: int
    time: float  # [s]
    targets: Sequence[Goal]
    terms: Sequence[Term]  # beside the targets
    paper: Mapping[str, float | str] = field(
        default_factory=dict
    )  # what Table I says: nodes, arms, steps, time

    @property
    def model(self) -> ImplicitModel:
        return BDF2(self.robot, dt=self.time / self.steps)


Maker = Callable[[Mapping[str, Setting]], PlanningTask]


def experiment(
    name: str,
    make: Maker,
    *,
    shows: str,
    size: str,
    takes: str,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting] | None = None,
) -> Experiment:
    """Return an experiment of [Zimmermann2021]. It makes its task from its settings, which
    include `steps` and `time` [s], and plans it."""
    return Experiment(
        name=name,
        paper="003",
        shows=shows,
        size=size,
        takes=takes,
        probe=_probe_of(make),
        perform=lambda run: perform(run, make(run.settings), str(run.settings["method"])),
        settings={**settings, "method": "gauss_newton", "small_animation": False},
        quick={**(quick or {}), "small_animation": True},
    )


def arms(robot: Robot) -> list[Arm]:
    """The arms that hold a robot, in the order of its controls."""
    held = [
        actuator.frame
        for actuator in robot.actuators.values()
        if isinstance(actuator, FrameActuator)
    ]
    return [frame for frame in held if isinstance(frame, Arm)]


def problem_of(task: PlanningTask, model: ImplicitModel) -> Problem:
    """The task from rest under gravity, within the joints' ranges, speeds and accelerations."""
    robot = task.robot
    speed, strength = (
        np.concatenate([getattr(arm, name) for arm in arms(robot)])
        for name in ("velocity", "acceleration")
    )
    limits = [
        Limit(lower=-speed, upper=speed, order=1),
        Limit(lower=-strength, upper=strength, order=2),
    ]
    return Problem(
        model=model,
        steps=task.steps,
        x0=hanging(model),
        terms=[*task.targets, *task.terms],
        limits=limits,
    )


def hanging(model: ImplicitModel) -> Array:
    """(n_state,) at rest under gravity in the grippers; a tethered ball already hangs."""
    robot = model.robot
    if not robot.body().volumes().any():
        return model.initial_state()
    return model.state(equilibrium(Quasistatic(robot), robot.neutral_controls()).x)


def perform(run: ExperimentRun, task: PlanningTask, method: str) -> Outcome:
    """Plan, replay with the simulator, and tell how the targets were met."""
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
    hits = [
        (goal.effector, miss)
        for goal in task.targets
        for miss in _misses(problem, path.path, path.controls, goal, model)
    ]
    worst = max(miss for _, miss in hits)
    reached = bool(found.status) and worst <= 0.01 and found.limit_violation <= 1e-9
    metrics = {
        "largest target error": Metric(value=worst, unit="m"),
        **{
            f"speed of '{goal.effector}' at its last target": Metric(
                value=_speed(model, path.path, goal), unit="m/s"
            )
            for goal in task.targets
        },
        "objective": Metric(value=found.cost),
        "iterations": Metric(value=len(found.history) - 1),
        "time per iteration": Metric(
            value=found.history[-1].seconds / max(len(found.history) - 1, 1), unit="s"
        ),
        "replay cost equals plan cost": Metric(value=replayed == found.cost),
        "joint limit violation": Metric(value=found.limit_violation, unit="of the range"),
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
        message="done" if reached else _why(found, worst),
    )


def _why(found: Plan, worst: float) -> str:
    if not found.status:
        return f"the planner stopped: {found.status.text}."
    if found.limit_violation > 1e-9:
        return (
            f"a joint goes {found.limit_violation:.2g} of its range beyond a limit; plan with "
            "another method."
        )
    return (
        f"the largest target error is {worst:.3g} m, above 0.01 m: {found.status.text}; move it "
        "closer or give it more weight."
    )


def _misses(
    problem: Problem, states: Array, controls: Array, goal: Goal, model: ImplicitModel
) -> list[float]:
    observations = goal.attach(model, problem.steps)
    seen = [
        (observation.evaluate(states, controls, problem.previous_control), observation.loss.target)  # type: ignore[attr-defined]
        for observation in observations
    ]
    return [float(np.linalg.norm(y - target)) for y, target in seen]


def _speed(model: ImplicitModel, states: Array, goal: Goal) -> float:
    last = round(float(np.max(goal.time)) / model.dt)  # type: ignore[arg-type]
    return float(
        np.linalg.norm(model.effector_rows(goal.effector) @ model.space.velocity(states[last]))
    )


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
            title="Joints",
            x="time [s]",
            y="angle [rad]",
            series={f"joint {j + 1}": (times, u) for j, u in enumerate(controls.T)},
        ),
    ]


def _scene(run: ExperimentRun, task: PlanningTask, model: ImplicitModel, path: Any) -> Any:
    shown = np.concatenate([task.robot.neutral_controls()[None], path.controls])
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
        controls=shown,
        marked=marked,
    )


def _probe_of(make: Maker) -> Callable[[Mapping[str, Setting]], tuple]:
    """The model a few steps into a motion of the arms."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        task = make(settings)
        model = task.model
        x, start = hanging(model), task.robot.neutral_controls()
        for k in range(3):
            u = start + 0.02 * (k + 1) * np.cos(np.arange(start.size))
            x = model.step(x, u, None, k).x
        return model, x, u

    return probe
