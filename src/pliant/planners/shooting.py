"""The trust-region loop that gauss_newton and newton share: model, trial run, judge, shrink or
grow."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.plan import INTERRUPTED, Evaluation, Journal, Plan, evaluate
from pliant.planners.quadratic import Move
from pliant.problem import Problem

SETTLED = "converged to the accuracy of the simulation"
STUCK = (
    "no step along the model lowers the cost any more; step the model more exactly "
    "(Newton(tolerance=...)), or try another guess"
)


class LocalModel(Protocol):
    """A quadratic model of the cost about a run; `again` makes the model of a run nearby with the
    same Jacobian, where it can."""

    @property
    def again(self) -> Callable[[Evaluation], "LocalModel"] | None: ...
    def best(self, radius: float) -> Move: ...


ModelAt = Callable[[Evaluation], LocalModel]


def descend(problem: Problem, model_at: ModelAt, guess: Array | None, journal: Journal) -> Plan:
    """Minimise the cost from a guess. Every iterate is a whole simulated run, and none is worse
    than the one before."""
    now = journal.first(guess)
    try:
        return _descend(problem, model_at, now, journal)
    except InputError as error:  # such as a run that ends at a fold, where it has no derivative
        if not journal.done:
            raise
        return journal.finish(False, f"stopped at the best iterate so far: {error}")
    except KeyboardInterrupt:
        return journal.finish(False, INTERRUPTED, interrupted=True)


def _descend(problem: Problem, model_at: ModelAt, now: Evaluation, journal: Journal) -> Plan:
    radius, options = np.inf, journal.options
    while journal.done < options.iterations:
        model = model_at(now)
        full = model.best(np.inf)
        if journal.negligible(full.gain, options.tolerance):
            return journal.finish(
                True, f"converged in {journal.done} iterations{missed(problem, now)}"
            )
        found, radius, failed, move = _accept(problem, model, full, now, radius)
        if found is None:
            small = journal.negligible(full.gain, 1e-5)
            return journal.finish(small, SETTLED + missed(problem, now) if small else STUCK)
        now = found
        journal.note(
            now, step=float(np.abs(move.change).max()), regulariser=move.shift, failed=failed
        )
    return journal.finish(
        False,
        f"not converged in {options.iterations} iterations; allow more with "
        "Options(iterations=...)",
    )


def _accept(
    problem: Problem, model: LocalModel, full: Move, now: Evaluation, radius: float
) -> tuple[Evaluation | None, float, int, Move]:
    """The first trial that lowers the cost by a tenth of what the model promised, and the radius
    after it."""
    move, failed = (full if full.size <= radius else model.best(radius)), 0
    for _ in range(60):
        trial = evaluate(problem, now.controls + move.change)
        failed += bool(trial.failed)
        ratio = (now.cost - trial.cost) / move.gain if move.gain > 0.0 else -1.0
        if ratio < 0.5 and model.again is not None and not trial.failed:
            trial = _corrected(problem, model.again(trial), trial, move)
            ratio = (now.cost - trial.cost) / move.gain if move.gain > 0.0 else -1.0
        if ratio > 0.1:
            grown = 2.0 * move.size if ratio > 0.75 and move.size > 0.9 * radius else radius
            return trial, (0.5 * move.size if ratio < 0.25 else grown), failed, move
        if move.gain <= 1e-13 * abs(now.cost):
            break
        radius = 0.25 * move.size
        move = model.best(radius)
    return None, radius, failed, move


def _corrected(problem: Problem, model: LocalModel, trial: Evaluation, move: Move) -> Evaluation:
    """The better of a trial and the trial brought back to where the goals are met: along a curved
    valley a straight step leaves its floor, and one more run without new derivatives finds it
    again."""
    second = evaluate(problem, trial.controls + model.best(move.size).change)
    return second if second.cost < trial.cost else trial


def missed(
    problem: Problem,
    now: Evaluation,
    why: str = "the closest that this objective and these limits allow",
) -> str:
    """What to say of a goal that the end leaves more than a tenth of the way away, the way being
    the longest that any goal was away at the start; `why` is what an optimum means by it."""
    start = np.repeat(problem.start[None], problem.steps + 1, axis=0)
    way = max((miss for _, _, miss in problem.misses(start, problem.guess())), default=0.0)
    name, time, worst = max(
        problem.misses(now.states, now.controls), key=lambda miss: miss[2], default=("", 0.0, 0.0)
    )
    if worst <= 0.1 * way:
        return ""
    return f"; the goal of '{name}' at t = {time:.3g} s is missed by {worst:.3g} m, {why}"
