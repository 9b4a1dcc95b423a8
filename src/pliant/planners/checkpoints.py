"""The adjoint gradient of a problem in bounded memory.

A schedule (checkpointing.py) says which states are stored; the steps between them are simulated
again. All schedules give the same bits, because the step of a model is deterministic.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pliant.checkpointing import Schedule, best_schedule, reverse_sweep, uniform_schedule
from pliant.core import Array, InputError, Reversible, Step, nearest, require_number
from pliant.linalg import Analysis
from pliant.planners.sensitivity import control_cost_gradient
from pliant.problem import Problem

Checkpoints = str | float  # "all", "sqrt", or a memory limit [bytes]


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientEvaluation:
    """Controls, their cost, and the memory and steps that the gradient took.

    If a step failed, the cost is infinite and `failed` gives the reason.
    """

    controls: Array  # (steps, n_controls)
    cost: float
    failed: str = ""
    peak_bytes: int = 0  # largest memory of stored states and steps
    extra_steps: int = 0  # number of repeated steps


def cost_gradient(
    problem: Problem, controls: Array, schedule: Checkpoints | Schedule = "sqrt"
) -> tuple[GradientEvaluation, Array]:
    """Return the cost of controls and its gradient (steps, n_controls).

    `schedule` is "all" (store every step), "sqrt" (about sqrt(steps) segments of equal length) or a
    memory limit [bytes] for states and steps.
    """
    if not np.all(np.isfinite(controls)):
        return GradientEvaluation(
            controls=controls, cost=np.inf, failed="the controls are not finite"
        ), np.zeros_like(controls)
    run = _ReverseRun(problem, controls)
    try:
        plan = (
            schedule
            if isinstance(schedule, Schedule)
            else schedule_for(problem, controls, schedule)
        )
        g = _reverse(run, plan)
    except _Failed as why:
        return GradientEvaluation(
            controls=controls, cost=np.inf, failed=str(why), peak_bytes=run.peak_bytes
        ), np.zeros_like(controls)
    measured = not isinstance(schedule, Schedule | str)  # one more step, to measure its size
    return GradientEvaluation(
        controls=controls,
        cost=run.cost,
        peak_bytes=run.peak_bytes,
        extra_steps=run.simulated - problem.steps + measured,
    ), g


# Schedules


def schedule_for(problem: Problem, controls: Array, checkpoints: Checkpoints) -> Schedule:
    """Return the schedule for "all", "sqrt" or a memory limit [bytes].

    Raises InputError for another name or if the limit is less than one step needs.
    """
    N = problem.steps
    if isinstance(checkpoints, str):
        if checkpoints not in ("all", "sqrt"):
            raise InputError(
                f"The checkpoints are '{checkpoints}'; {nearest(checkpoints, ('all', 'sqrt'))} A "
                "memory limit is a number of bytes."
            )
        return Schedule(tapes=N) if checkpoints == "all" else uniform_schedule(N)
    budget = require_number("The memory limit of the checkpoints", checkpoints, "bytes")
    run = _ReverseRun(problem, controls)
    tape = run.size(run.step(0, problem.initial_state))
    if not budget >= tape:
        raise InputError(
            f"The memory limit of the checkpoints is {budget:g} bytes, but one step of this model "
            f"needs {tape}; give {tape} or more."
        )
    return best_schedule(N, min(budget, 1e18), problem.initial_state.nbytes, tape)


# The sweep


class _Failed(Exception):
    """A step could not be simulated."""


class _ReverseRun:
    """The simulation of a problem. It stores the observations of each state, not the state."""

    def __init__(self, problem: Problem, controls: Array) -> None:
        self.problem, self.controls = problem, controls
        self.model: Reversible = problem.model  # type: ignore[assignment]
        self.p = None if problem.params is None else np.asarray(problem.params, float)
        self.by_step: dict[int, list[tuple[int, int]]] = {}  # step -> (observation index, lag)
        for index, observation in enumerate(problem.observations):
            for lag in range(len(observation.states)):
                self.by_step.setdefault(max(observation.step - lag, 0), []).append((index, lag))
        self.pieces: list[dict[int, Array]] = [{} for _ in problem.observations]
        self.loss_gradients: list[Array] = []
        self.last_observed, self.simulated, self.peak_bytes, self.tape, self.cost = (
            -1,
            0,
            0,
            0,
            np.inf,
        )
        self.observe_state(0, problem.initial_state)

    def observe_state(self, k: int, x: Array) -> None:
        """Store the observations of state k if it is new."""
        if k <= self.last_observed:
            return
        self.last_observed = k
        for index, lag in self.by_step.get(k, ()):
            self.pieces[index][lag] = self.problem.observations[index].states[lag] @ x
        if k == self.problem.steps:
            self._compute_cost()

    def _compute_cost(self) -> None:
        """Compute the cost, summed in the order of Problem.value, and the loss gradients."""
        problem, first = self.problem, self.problem.previous_control
        seen = []
        for observation, pieces in zip(problem.observations, self.pieces, strict=True):
            y = np.zeros(observation.size)
            for lag in range(len(observation.states)):
                y = y + pieces[lag]
            for j, D in enumerate(observation.controls):
                y = y + D @ (
                    self.controls[observation.step - 1 - j] if observation.step > j else first
                )
            seen.append(y)
        observations = sum(
            observation.loss.value(y)
            for observation, y in zip(problem.observations, seen, strict=True)
        )
        self.cost = float(
            observations
            + sum(
                control_cost.value(self.controls, first) for control_cost in problem.control_costs
            )
        )
        if not np.isfinite(self.cost):
            raise _Failed("the cost is not finite")
        self.loss_gradients = [
            observation.loss.gradient(y)
            for observation, y in zip(problem.observations, seen, strict=True)
        ]

    def step(self, k: int, x: Array) -> Step:
        step = self.model.step(x, self.controls[k], self.p, k)
        self.simulated += 1
        if not step.status or not np.all(np.isfinite(step.x)):
            raise _Failed(
                f"step {k}: {step.status.text if not step.status else 'the state is not finite'}"
            )
        self.observe_state(k + 1, step.x)
        return step

    def update_peak(self, states: int, steps: Sequence[Step]) -> None:
        """Update the peak memory for a number of stored states and some stored steps."""
        self.tape = self.tape or self.size(steps[0])
        self.peak_bytes = max(
            self.peak_bytes, states * self.problem.initial_state.nbytes + len(steps) * self.tape
        )

    def size(self, step: Step) -> int:
        """Return the size [bytes] of a step with its tape, without arrays of the model."""
        return retained_bytes((step.x, step.tape), without=self.model)


def _reverse(run: _ReverseRun, plan: Schedule) -> Array:
    """Return the gradient (steps, n_controls) by a reverse sweep."""
    problem = run.problem
    g, bar = control_cost_gradient(problem, run.controls), np.zeros(problem.model.space.size)

    def advance(k: int, end: int, x: Array) -> Array:
        for j in range(k, end):
            x = run.step(j, x).x
        return x

    def reverse(k: int, end: int, x: Array, kept: int) -> None:
        nonlocal bar
        bar = _vjp_steps(run, bar, g, _simulate_steps(run, k, end, x), k, kept)

    reverse_sweep(problem.steps, plan, problem.initial_state, advance, reverse)
    return _add_direct_terms(run, g)


def _simulate_steps(run: _ReverseRun, k: int, end: int, x: Array) -> list[Step]:
    steps: list[Step] = []
    for j in range(k, end):
        steps.append(run.step(j, steps[-1].x if steps else x))
    return steps


def _vjp_steps(
    run: _ReverseRun, bar: Array, g: Array, steps: list[Step], first: int, states: int
) -> Array:
    """Return the adjoint before step `first` and add the steps' part to the gradient g."""
    run.update_peak(states, steps)
    for k in range(first + len(steps), first, -1):
        for index, lag in run.by_step.get(k, ()):
            bar = bar + run.problem.observations[index].states[lag].T @ run.loss_gradients[index]
        step = steps.pop()
        if not np.all(np.isfinite(bar)):
            raise _Failed(f"the gradient before step {k} is not finite")
        if bar.any():
            bar, by_u, _ = run.model.pullback(step, bar)
            g[k - 1] += by_u
    return bar


def _add_direct_terms(run: _ReverseRun, g: Array) -> Array:
    """Return g with the direct dependence of the observations on the controls."""
    for observation, slope in zip(run.problem.observations, run.loss_gradients, strict=True):
        for j, D in enumerate(observation.controls):
            if observation.step > j:
                g[observation.step - 1 - j] += D.T @ slope
    return g


# Sizes


def retained_bytes(thing: Any, *, without: Any = None) -> int:
    """Return the size [bytes] of the arrays and sparse factors of an object.

    Each array counts once. Those that `without` also references do not count.
    """
    shared = _referenced(without)
    analyses = [part for part in shared.values() if isinstance(part, Analysis)]
    found = _referenced(thing).items()
    return sum(_bytes(part, analyses) for key, part in found if key not in shared)


def _bytes(part: Any, analyses: list[Analysis]) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    if type(part).__name__ == "PyCapsule":  # CHOLMOD hides its factor
        return max((8 * analysis.n_entries for analysis in analyses), default=0)
    return 0


def _referenced(root: Any) -> dict[int, Any]:
    """Return all objects reachable from an object, by id. Views count as their base array."""
    found: dict[int, Any] = {}
    left = [root]
    while left:
        part = left.pop()
        while isinstance(part, np.ndarray) and isinstance(part.base, np.ndarray):
            part = part.base
        if (
            part is None
            or id(part) in found
            or isinstance(part, type | ModuleType | str | bytes | int | float | complex)
        ):
            continue
        found[id(part)] = part
        left += _parts(part)
    return found


def _parts(part: Any) -> list[Any]:
    return (
        list(part.__closure__ or ()) if isinstance(part, FunctionType) else gc.get_referents(part)
    )  # not what is global to a function
