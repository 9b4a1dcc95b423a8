"""The tasks of [Menager2024]: effectors go to goals one after the other, planned with condensed
derivatives and whole forward runs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pliant.core import Array
from pliant.dynamics import Condensed, Quasistatic, SemiImplicit, equilibrium
from pliant.planners import Options, Plan, ddp, gauss_newton
from pliant.problem import Effort, Goal, Problem, Term
from pliant.problem.paths import Path
from pliant.robot import Robot

CLOSE = 0.01  # of the motion's length: how near the end must come to its goal
WAYS = (
    "linear",
    "nonlinear",
    "exact",
)  # the two condensed derivatives of [Menager2024], and gauss_newton on the whole model


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Of the objective, each of a number without unit: ways over the motion's length, speeds over
    its mean, controls over their range."""

    path: float = 10.0
    goal: float = 10.0
    speed: float = 1e-3
    effort: float = 1e-3
    rate: float = (
        0.0  # of the effort of the controls' rates, over their range and the motion's time
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReachTask:
    """A robot, a horizon, and for each effector a path [m] to follow and the times [s] of its goals
    on it."""

    robot: Robot
    dt: float  # [s]
    steps: int
    paths: Mapping[str, Path]
    times: Sequence[float]
    weights: Weights = field(default_factory=Weights)
    start: Array | None = None  # (n_controls,) held before the first step; None: the neutral ones
    paper: Mapping[str, float] = field(
        default_factory=dict
    )  # what the paper reports: iterations by way

    @property
    def time(self) -> float:
        return self.steps * self.dt

    @property
    def first(self) -> Array:
        return self.robot.neutral_controls() if self.start is None else self.start

    def length(self, effector: str) -> float:
        """[m] how far an effector is to go, along its path."""
        way = np.array([self.paths[effector](self.dt * k) for k in range(self.steps + 1)])
        return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())

    def terms(self) -> list[Term]:
        w = self.weights
        out: list[Term] = []
        for name, path in self.paths.items():
            L = self.length(name)
            still = np.zeros(self.robot.body().dim)
            out += [
                Goal(effector=name, target=path, weight=w.path / (L * L * self.time)),
                Goal(
                    effector=name,
                    target=np.array([path(t) for t in self.times]),
                    time=self.times,
                    weight=w.goal / L**2,
                ),
                Goal(
                    effector=name,
                    target=still,
                    quantity="velocity",
                    weight=w.speed * self.time / L**2,
                ),
                Goal(
                    effector=name,
                    target=still,
                    quantity="velocity",
                    time=self.times,
                    weight=w.speed * self.time**2 / L**2,
                ),
            ]
        lower, upper = self.robot.control_limits()
        out.append(
            Effort(weight=w.effort / (self.time * (upper - lower) ** 2), reference=self.first)
        )
        return (
            [*out, Effort(weight=w.rate * self.time / (upper - lower) ** 2, order=1)]
            if w.rate
            else out
        )


def rest(robot: Robot, controls: Array) -> Array:
    """Return the equilibrium (n_dofs,) under constant controls."""
    return equilibrium(Quasistatic(robot), np.asarray(controls, float)).x


def problem_of(task: ReachTask, way: str, x0: Array) -> Problem:
    """Return the planning problem of the task on a condensed or a full model."""
    model = SemiImplicit(task.robot, dt=task.dt)
    seen = (
        model
        if way == "exact"
        else Condensed(model=model, effectors=tuple(task.paths), derivative=way)
    )
    return Problem(
        model=seen, steps=task.steps, terms=task.terms(), x0=x0, previous_control=task.first
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """A plan and how well its run does."""

    plan: Plan
    seconds: float
    places: Mapping[str, Array]  # effector -> (steps + 1, dim) [m]
    speeds: Mapping[str, Array]  # effector -> (steps + 1, dim) [m/s]
    misses: Mapping[str, Array]  # effector -> (goals,) [-] over the motion's length
    active: float  # share of the controls that are at a bound
    prediction: (
        float | None
        # largest difference between eq. 11 and the whole step, over the motion's length; None: not
        # affine
    )

    @property
    def worst(self) -> float:
        """Of all goals, over the motion's length."""
        return max(float(miss.max()) for miss in self.misses.values())


def reach(
    task: ReachTask, way: str, *, options: Options, search: str = "line", x0: Array | None = None
) -> Reached:
    """Plan one way and look at the run."""
    x0 = (
        SemiImplicit(task.robot, dt=task.dt).state(rest(task.robot, task.first))
        if x0 is None
        else x0
    )
    problem = problem_of(task, way, x0)
    began = time.perf_counter()
    found = (
        gauss_newton(problem, options=options)
        if way == "exact"
        else ddp(problem, options=options, search=search)
    )
    seconds = time.perf_counter() - began
    if found.interrupted:
        raise KeyboardInterrupt
    model, at = problem.model, np.rint(np.asarray(task.times) / task.dt).astype(int)
    rows = {name: model.effector_rows(name) for name in task.paths}
    places = {
        name: np.array([H @ model.space.position(x) for x in found.states])
        for name, H in rows.items()
    }
    speeds = {
        name: np.array([H @ model.space.velocity(x) for x in found.states])
        for name, H in rows.items()
    }
    wanted = {name: np.array([path(k * task.dt) for k in at]) for name, path in task.paths.items()}
    misses = {
        name: np.linalg.norm(places[name][at] - wanted[name], axis=1) / task.length(name)
        for name in task.paths
    }
    lower, upper = model.control_limits()
    near = 1e-6 * (upper - lower)
    active = float(np.mean((found.controls <= lower + near) | (found.controls >= upper - near)))
    return Reached(
        plan=found,
        seconds=seconds,
        places=places,
        speeds=speeds,
        misses=misses,
        active=active,
        prediction=prediction_error(task, found),
    )


def prediction_error(task: ReachTask, found: Plan) -> float | None:
    """How far eq. 11 with W_ea from a step under another control is from the whole step, at steps
    along the plan, over the length. None where a control moves springs, for which eq. 11 holds at
    the control itself alone, by construction."""
    model = SemiImplicit(task.robot, dt=task.dt)
    seen = Condensed(model=model, effectors=tuple(task.paths))
    if not seen.affine:
        return None
    lower, upper = model.control_limits()
    worst = 0.0
    for k in range(0, task.steps, max(1, task.steps // 8)):
        u = found.controls[k]
        predicted = seen.predict(model.step(found.states[k], 0.5 * (lower + upper), None, k), u)
        actual = seen.reduction @ model.step(found.states[k], u, None, k).x
        n = len(actual) // 2
        worst = max(worst, float(np.abs(predicted - actual)[:n].max()))
    return worst / max(task.length(name) for name in task.paths)
