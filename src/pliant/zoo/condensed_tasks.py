"""The tasks of [Menager2024]: effectors visit goals in sequence. Plans use condensed derivatives
and simulate the full model."""

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

GOAL_TOLERANCE = 0.01  # accepted goal error, relative to the path length
# "linear" and "nonlinear" are the condensed derivatives of [Menager2024], planned by ddp. "exact"
# is the derivative of the full model, planned by gauss_newton.
DERIVATIVES = ("linear", "nonlinear", "exact")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights of the objective's dimensionless terms.

    Distances are relative to the path length, velocities to the mean velocity along the path,
    controls to their range.
    """

    path: float = 10.0
    goal: float = 10.0
    velocity: float = 1e-3
    effort: float = 1e-3
    rate: float = 0.0  # of the control rates, relative to range over duration


@dataclass(frozen=True, kw_only=True, eq=False)
class ReachTask:
    """A robot, a horizon, a path [m] for each effector, and the times [s] of the goals on it."""

    robot: Robot
    dt: float  # [s]
    steps: int
    paths: Mapping[str, Path]
    times: Sequence[float]  # [s] of the goals
    weights: Weights = field(default_factory=Weights)
    start: Array | None = None  # (n_controls,) before the first step; None: the neutral controls
    # derivative -> number of iterations in the paper
    paper: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return self.steps * self.dt

    @property
    def initial_controls(self) -> Array:
        """Controls (n_controls,) before the first step."""
        return self.robot.neutral_controls() if self.start is None else self.start

    def path_length(self, effector: str) -> float:
        """Return the length [m] of an effector's path."""
        points = np.array([self.paths[effector](self.dt * k) for k in range(self.steps + 1)])
        return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())

    def terms(self) -> list[Term]:
        """Return the terms of the objective: path, goals, velocities and control effort."""
        w, T = self.weights, self.duration
        out: list[Term] = []
        for name, path in self.paths.items():
            L = self.path_length(name)
            zero = np.zeros(self.robot.body().dim)
            out += [
                Goal(effector=name, target=path, weight=w.path / (L * L * T)),
                Goal(
                    effector=name,
                    target=np.array([path(t) for t in self.times]),
                    time=self.times,
                    weight=w.goal / L**2,
                ),
                Goal(
                    effector=name,
                    target=zero,
                    quantity="velocity",
                    weight=w.velocity * T / L**2,
                ),
                Goal(
                    effector=name,
                    target=zero,
                    quantity="velocity",
                    time=self.times,
                    weight=w.velocity * T**2 / L**2,
                ),
            ]
        lower, upper = self.robot.control_limits()
        effort = w.effort / (T * (upper - lower) ** 2)
        out.append(Effort(weight=effort, reference=self.initial_controls))
        if w.rate:
            out.append(Effort(weight=w.rate * T / (upper - lower) ** 2, order=1))
        return out


def equilibrium_positions(robot: Robot, controls: Array) -> Array:
    """Return the equilibrium positions (n_dofs,) [m] under constant controls."""
    return equilibrium(Quasistatic(robot), np.asarray(controls, float)).x


def problem_of(task: ReachTask, derivative: str, x0: Array) -> Problem:
    """Return the planning problem of a task, with a condensed model or the full one ("exact")."""
    model = SemiImplicit(task.robot, dt=task.dt)
    planned = (
        model
        if derivative == "exact"
        else Condensed(model=model, effectors=tuple(task.paths), derivative=derivative)
    )
    return Problem(
        model=planned,
        steps=task.steps,
        terms=task.terms(),
        x0=x0,
        previous_control=task.initial_controls,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReachResult:
    """A plan for a reach task, its effector motion and its errors."""

    plan: Plan
    planning_time: float  # [s]
    positions: Mapping[str, Array]  # effector -> (steps + 1, dim) [m]
    velocities: Mapping[str, Array]  # effector -> (steps + 1, dim) [m/s]
    goal_errors: Mapping[str, Array]  # effector -> (goals,) relative to the path length
    saturated_share: float  # share of the controls that are at a bound
    prediction_error: float | None  # see `prediction_error`

    @property
    def largest_goal_error(self) -> float:
        """Largest error of all goals, relative to the path length."""
        return max(float(errors.max()) for errors in self.goal_errors.values())


def plan_reach(
    task: ReachTask,
    derivative: str,
    *,
    options: Options,
    search: str = "line",
    x0: Array | None = None,
) -> ReachResult:
    """Plan a task with one of DERIVATIVES. Return the plan and its errors."""
    x0 = (
        SemiImplicit(task.robot, dt=task.dt).state(
            equilibrium_positions(task.robot, task.initial_controls)
        )
        if x0 is None
        else x0
    )
    problem = problem_of(task, derivative, x0)
    start = time.perf_counter()
    plan = (
        gauss_newton(problem, options=options)
        if derivative == "exact"
        else ddp(problem, options=options, search=search)
    )
    planning_time = time.perf_counter() - start
    if plan.interrupted:
        raise KeyboardInterrupt
    model, at = problem.model, np.rint(np.asarray(task.times) / task.dt).astype(int)
    rows = {name: model.effector_rows(name) for name in task.paths}
    positions = {
        name: np.array([H @ model.space.position(x) for x in plan.states])
        for name, H in rows.items()
    }
    velocities = {
        name: np.array([H @ model.space.velocity(x) for x in plan.states])
        for name, H in rows.items()
    }
    goals = {name: np.array([path(k * task.dt) for k in at]) for name, path in task.paths.items()}
    goal_errors = {
        name: np.linalg.norm(positions[name][at] - goals[name], axis=1) / task.path_length(name)
        for name in task.paths
    }
    lower, upper = model.control_limits()
    margin = 1e-6 * (upper - lower)
    at_bound = (plan.controls <= lower + margin) | (plan.controls >= upper - margin)
    return ReachResult(
        plan=plan,
        planning_time=planning_time,
        positions=positions,
        velocities=velocities,
        goal_errors=goal_errors,
        saturated_share=float(np.mean(at_bound)),
        prediction_error=prediction_error(task, plan),
    )


def prediction_error(task: ReachTask, plan: Plan) -> float | None:
    """Return the largest difference between [Menager2024, eq. 11] and the full step.

    It compares steps along the plan, with W_ea from a step under other controls, and is relative
    to the path length. None if the step is not affine in the controls, for example for controls
    that move springs: eq. 11 then holds only at the control of W_ea.
    """
    model = SemiImplicit(task.robot, dt=task.dt)
    condensed = Condensed(model=model, effectors=tuple(task.paths))
    if not condensed.affine:
        return None
    largest = 0.0
    for k in range(0, task.steps, max(1, task.steps // 8)):
        u = plan.controls[k]
        # a tenth of the way back: a sudden release of a stretched body inverts its cells
        other = model.step(plan.states[k], 0.9 * u + 0.1 * task.initial_controls, None, k)
        predicted = condensed.predict(other, u)
        actual = condensed.reduction @ model.step(plan.states[k], u, None, k).x
        n = len(actual) // 2
        largest = max(largest, float(np.abs(predicted - actual)[:n].max()))
    return largest / max(task.path_length(name) for name in task.paths)
