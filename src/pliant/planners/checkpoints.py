"""The adjoint gradient of a problem in bounded memory.

A schedule (checkpointing.py) says which states are stored; the steps between them are simulated
again. All schedules give the same bits, because the step of a model is deterministic.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pliant.checkpointing import Schedule, best_schedule, reverse_sweep, uniform_schedule
from pliant.core import Array, InputError, Step, nearest, require_number
from pliant.linalg import Analysis
from pliant.planners.reverse_run import Adjoint, ReverseRun, RunFailed
from pliant.problem import Problem

Checkpoints = str | float  # "all", "sqrt", or a memory limit [bytes]


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientEvaluation:
    """Controls, their cost and its gradients, and the memory and steps that they took.

    If a step failed, the cost is infinite and `failed` gives the reason.
    """

    controls: Array  # (steps, n_controls)
    cost: float
    failed: str = ""
    peak_bytes: int = 0  # largest memory of stored states and steps
    extra_steps: int = 0  # number of repeated steps
    by_params: Array | None = None  # (n_params,) gradient by the parameters of the model
    by_initial: Array | None = None  # (n_state,) gradient by the initial state


def cost_gradient(
    problem: Problem,
    controls: Array,
    schedule: Checkpoints | Schedule = "sqrt",
    *,
    params: Array | None = None,
    start: Array | None = None,
) -> tuple[GradientEvaluation, Array]:
    """Return the cost of controls and its gradient (steps, n_controls).

    `schedule` is "all" (store every step), "sqrt" (about sqrt(steps) segments of equal length) or a
    memory limit [bytes] for states and steps. `params` (n_params,) and `start` (n_state,) replace
    the parameters and the initial state of the problem. The gradients by them are in the first
    result.
    """
    if not np.all(np.isfinite(controls)):
        return GradientEvaluation(
            controls=controls, cost=np.inf, failed="the controls are not finite"
        ), np.zeros_like(controls)
    run = ReverseRun(problem, controls, params=params, start=start)
    try:
        plan = schedule if isinstance(schedule, Schedule) else run_schedule(run, schedule)
        found = sweep(run, plan)
    except RunFailed as why:
        return GradientEvaluation(
            controls=controls, cost=np.inf, failed=str(why), peak_bytes=run.peak_bytes
        ), np.zeros_like(controls)
    measured = not isinstance(schedule, Schedule | str)  # one more step, to measure its size
    return GradientEvaluation(
        controls=controls,
        cost=run.cost,
        peak_bytes=run.peak_bytes,
        extra_steps=run.simulated - problem.steps + measured,
        by_params=found[0].params,
        by_initial=found[0].state,
    ), found[0].controls


# Schedules


def schedule_for(problem: Problem, controls: Array, checkpoints: Checkpoints) -> Schedule:
    """Return the schedule for "all", "sqrt" or a memory limit [bytes].

    Raises InputError for another name or if the limit is less than one step needs.
    """
    return run_schedule(ReverseRun(problem, controls), checkpoints)


def checked_checkpoints(checkpoints: Any) -> Checkpoints:
    """Return the checkpoints. Raises InputError for another name, and for a memory limit that is
    not positive."""
    if not isinstance(checkpoints, str):
        limit = require_number("The memory limit of the checkpoints", checkpoints, "bytes")
        if not limit > 0.0:
            raise InputError(
                f"The memory limit of the checkpoints is {limit:g} bytes; give a positive number."
            )
        return limit
    if checkpoints not in ("all", "sqrt"):
        raise InputError(
            f"The checkpoints are '{checkpoints}'; {nearest(checkpoints, ('all', 'sqrt'))} A "
            "memory limit is a number of bytes."
        )
    return checkpoints


def run_schedule(run: ReverseRun, checkpoints: Checkpoints) -> Schedule:
    """Return the schedule of a run, as `schedule_for` does."""
    N, budget = run.problem.steps, checked_checkpoints(checkpoints)
    if isinstance(budget, str):
        return Schedule(tapes=N) if budget == "all" else uniform_schedule(N)
    trial = ReverseRun(run.problem, run.controls, params=run.p, start=run.start)
    tape = step_bytes(trial, trial.step(0, run.start))
    if not budget >= tape:
        raise InputError(
            f"The memory limit of the checkpoints is {budget:g} bytes, but one step of this model "
            f"needs {tape}; give {tape} or more."
        )
    return best_schedule(N, min(budget, 1e18), run.start.nbytes, tape)


# The sweep


def sweep(
    run: ReverseRun,
    plan: Schedule,
    outputs: Callable[[ReverseRun], list[Adjoint]] = lambda run: [run.objective_adjoint()],
) -> list[Adjoint]:
    """Return the adjoints of the outputs of a run by one reverse sweep.

    `outputs` makes them when the run has reached its last step; by default there is one, of the
    objective.
    """
    adjoints: list[Adjoint] = []

    def advance(k: int, end: int, x: Array) -> Array:
        for j in range(k, end):
            x = run.step(j, x).x
        return x

    def reverse(k: int, end: int, x: Array, kept: int) -> None:
        steps = _simulate_steps(run, k, end, x)
        _update_peak(run, kept, steps)
        adjoints.extend([] if adjoints else outputs(run))
        for j in range(end, k, -1):
            step = steps.pop()
            for adjoint in adjoints:
                run.add_state(adjoint, j, step.x)
                run.step_back(adjoint, step, j)

    reverse_sweep(run.problem.steps, plan, run.start, advance, reverse)
    for adjoint in adjoints:
        run.finish(adjoint)
    return adjoints


def _simulate_steps(run: ReverseRun, k: int, end: int, x: Array) -> list[Step]:
    steps: list[Step] = []
    for j in range(k, end):
        steps.append(run.step(j, steps[-1].x if steps else x))
    return steps


def _update_peak(run: ReverseRun, states: int, steps: Sequence[Step]) -> None:
    """Update the peak memory of a run for a number of stored states and some stored steps."""
    run.tape = run.tape or step_bytes(run, steps[0])
    run.peak_bytes = max(run.peak_bytes, states * run.start.nbytes + len(steps) * run.tape)


def step_bytes(run: ReverseRun, step: Step) -> int:
    """Return the size [bytes] of a step with its tape, without arrays of the model."""
    return retained_bytes((step.x, step.tape), without=run.model)


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
