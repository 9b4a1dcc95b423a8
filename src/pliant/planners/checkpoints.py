"""The adjoint gradient of a problem in bounded memory: few states are kept, and what lies between
them is simulated again.

Which ones is a schedule (dynamics/schedule.py). All schedules give the same bits, since a model's
step is deterministic.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pliant.core import Array, InputError, Reversible, Step, nearest, require_number
from pliant.dynamics.schedule import Schedule, best_schedule, even_schedule, reverse
from pliant.linalg import Analysis
from pliant.planners.sensitivity import smooth_gradient
from pliant.problem import Problem

Checkpoints = str | float  # "all", "sqrt", or a budget [bytes]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """Controls, what they cost, and what the gradient took; the cost is infinite where a step
    failed, and then `failed` says which."""

    controls: Array  # (steps, n_controls)
    cost: float
    failed: str = ""
    peak: int = 0  # [bytes] most that states and tapes held at a time
    extra: int = 0  # steps that were simulated more than once


def gradient_of(
    problem: Problem, controls: Array, schedule: Checkpoints | Schedule = "sqrt"
) -> tuple[Sweep, Array]:
    """The cost of controls and its gradient (steps, n_controls). `schedule` is "all" (every tape),
    "sqrt" (as many segments as each has steps) or a budget [bytes] for states and tapes."""
    if not np.all(np.isfinite(controls)):
        return Sweep(
            controls=controls, cost=np.inf, failed="the controls are not finite"
        ), np.zeros_like(controls)
    run = _Run(problem, controls)
    try:
        plan = (
            schedule
            if isinstance(schedule, Schedule)
            else schedule_for(problem, controls, schedule)
        )
        g = _reverse(run, plan)
    except _Failed as why:
        return Sweep(controls=controls, cost=np.inf, failed=str(why), peak=run.peak), np.zeros_like(
            controls
        )
    measured = not isinstance(schedule, Schedule | str)  # the first step, for its size
    return Sweep(
        controls=controls,
        cost=run.cost,
        peak=run.peak,
        extra=run.simulated - problem.steps + measured,
    ), g


# Schedules


def schedule_for(problem: Problem, controls: Array, checkpoints: Checkpoints) -> Schedule:
    """The schedule by name or for a budget [bytes], whose sizes are those of the first step."""
    N = problem.steps
    if isinstance(checkpoints, str):
        if checkpoints not in ("all", "sqrt"):
            raise InputError(
                f"The checkpoints are '{checkpoints}'; {nearest(checkpoints, ('all', 'sqrt'))} A "
                "budget is a number of bytes."
            )
        return Schedule(tapes=N) if checkpoints == "all" else even_schedule(N)
    budget = require_number("The budget of the checkpoints", checkpoints, "bytes")
    run = _Run(problem, controls)
    tape = run.size(run.step(0, problem.start))
    if not budget >= tape:
        raise InputError(
            f"The checkpoints may take {budget:g} bytes, but one step of this model alone holds "
            f"{tape}; give {tape} or more."
        )
    return best_schedule(N, min(budget, 1e18), problem.start.nbytes, tape)


# The sweep


class _Failed(Exception):
    """A step could not be simulated."""


class _Run:
    """Steps of a problem under controls; sees each state once and keeps what the looks see of it,
    not the state."""

    def __init__(self, problem: Problem, controls: Array) -> None:
        self.problem, self.controls = problem, controls
        self.model: Reversible = problem.model  # type: ignore[assignment]
        self.p = None if problem.params is None else np.asarray(problem.params, float)
        self.by_step: dict[int, list[tuple[int, int]]] = {}  # state -> (look, lag)
        for index, look in enumerate(problem.looks):
            for lag in range(len(look.states)):
                self.by_step.setdefault(max(look.step - lag, 0), []).append((index, lag))
        self.pieces: list[dict[int, Array]] = [{} for _ in problem.looks]
        self.slopes: list[Array] = []
        self.seen, self.simulated, self.peak, self.tape, self.cost = -1, 0, 0, 0, np.inf
        self.see(0, problem.start)

    def see(self, k: int, x: Array) -> None:
        """State k, if it is new."""
        if k <= self.seen:
            return
        self.seen = k
        for index, lag in self.by_step.get(k, ()):
            self.pieces[index][lag] = self.problem.looks[index].states[lag] @ x
        if k == self.problem.steps:
            self._price()

    def _price(self) -> None:
        """All states were seen: what the run costs, summed as Problem.value does, and the slopes of
        the losses."""
        problem, first = self.problem, self.problem.first_control
        seen = []
        for look, pieces in zip(problem.looks, self.pieces, strict=True):
            y = np.zeros(look.size)
            for lag in range(len(look.states)):
                y = y + pieces[lag]
            for j, D in enumerate(look.controls):
                y = y + D @ (self.controls[look.step - 1 - j] if look.step > j else first)
            seen.append(y)
        looks = sum(look.loss.value(y) for look, y in zip(problem.looks, seen, strict=True))
        self.cost = float(
            looks + sum(smooth.value(self.controls, first) for smooth in problem.smooths)
        )
        if not np.isfinite(self.cost):
            raise _Failed("the cost is not finite")
        self.slopes = [look.loss.slope(y) for look, y in zip(problem.looks, seen, strict=True)]

    def step(self, k: int, x: Array) -> Step:
        step = self.model.step(x, self.controls[k], self.p, k)
        self.simulated += 1
        if not step.status or not np.all(np.isfinite(step.x)):
            raise _Failed(
                f"step {k}: {step.status.text if not step.status else 'the state is not finite'}"
            )
        self.see(k + 1, step.x)
        return step

    def hold(self, states: int, steps: Sequence[Step]) -> None:
        """So many kept states and these steps are held now."""
        self.tape = self.tape or self.size(steps[0])
        self.peak = max(self.peak, states * self.problem.start.nbytes + len(steps) * self.tape)

    def size(self, step: Step) -> int:
        """[bytes] of a step with its tape, beside what belongs to the model."""
        return held_bytes((step.x, step.tape), beside=self.model)


def _reverse(run: _Run, plan: Schedule) -> Array:
    """The gradient, last step first."""
    problem = run.problem
    g, bar = smooth_gradient(problem, run.controls), np.zeros(problem.model.space.size)

    def go(k: int, goal: int, x: Array) -> Array:
        for j in range(k, goal):
            x = run.step(j, x).x
        return x

    def pull(k: int, end: int, x: Array, kept: int) -> None:
        nonlocal bar
        bar = _pull(run, bar, g, _taped(run, k, end, x), k, kept)

    reverse(problem.steps, plan, problem.start, go, pull)
    return _with_direct(run, g)


def _taped(run: _Run, k: int, end: int, x: Array) -> list[Step]:
    steps: list[Step] = []
    for j in range(k, end):
        steps.append(run.step(j, steps[-1].x if steps else x))
    return steps


def _pull(run: _Run, bar: Array, g: Array, steps: list[Step], first: int, states: int) -> Array:
    """The adjoint before step `first`, from the one after its last; adds to the gradient g."""
    run.hold(states, steps)
    for k in range(first + len(steps), first, -1):
        for index, lag in run.by_step.get(k, ()):
            bar = bar + run.problem.looks[index].states[lag].T @ run.slopes[index]
        step = steps.pop()
        if not np.all(np.isfinite(bar)):
            raise _Failed(f"the gradient before step {k} is not finite")
        if bar.any():
            bar, by_u, _ = run.model.pullback(step, bar)
            g[k - 1] += by_u
    return bar


def _with_direct(run: _Run, g: Array) -> Array:
    """With what the looks see of the controls themselves."""
    for look, slope in zip(run.problem.looks, run.slopes, strict=True):
        for j, D in enumerate(look.controls):
            if look.step > j:
                g[look.step - 1 - j] += D.T @ slope
    return g


# Sizes


def held_bytes(thing: Any, *, beside: Any = None) -> int:
    """[bytes] of the arrays and sparse factors that a thing holds and `beside` does not, each
    counted once."""
    theirs = _found(beside)
    analyses = [part for part in theirs.values() if isinstance(part, Analysis)]
    return sum(_bytes(part, analyses) for key, part in _found(thing).items() if key not in theirs)


def _bytes(part: Any, analyses: list[Analysis]) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    if type(part).__name__ == "PyCapsule":  # CHOLMOD hides its factor
        return max((8 * analysis.fill for analysis in analyses), default=0)
    return 0


def _found(root: Any) -> dict[int, Any]:
    """Everything that a thing leads to, by id; an array is the one that owns its memory."""
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
