"""The trust-region loop of gauss_newton and newton."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pliant.core import Array, InputError, counted
from pliant.planners.evaluation import Evaluation, evaluate
from pliant.planners.plan_result import INTERRUPTED, Plan, SearchLog
from pliant.planners.trust_region import TrustRegionStep
from pliant.problem import Problem

CONVERGED = "converged to the accuracy of the simulation"
STUCK = (
    "no step lowers the cost any more; simulate more accurately "
    "(SolverOptions(tolerance=...)), or try another guess"
)


class LocalModel(Protocol):
    """A quadratic model of the cost about an evaluation.

    `reuse_jacobian` returns the model at a nearby evaluation with the same Jacobian; None if the
    model cannot.
    """

    @property
    def reuse_jacobian(self) -> Callable[[Evaluation], "LocalModel"] | None: ...
    def minimise(self, radius: float) -> TrustRegionStep: ...


ModelAt = Callable[[Evaluation], LocalModel]


def minimise_by_trust_region(
    problem: Problem, model_at: ModelAt, guess: Array | None, log: SearchLog
) -> Plan:
    """Minimise the cost from a guess. Each iterate is simulated and lowers the cost."""
    now = log.evaluate_guess(guess)
    try:
        return _descend(problem, model_at, now, log)
    except InputError as error:  # such as a limit point, where derivatives do not exist
        if not log.iterations_done:
            raise
        return log.finish(False, f"stopped at the best iterate so far: {error}")
    except KeyboardInterrupt:
        return log.finish(False, INTERRUPTED, interrupted=True)


def _descend(problem: Problem, model_at: ModelAt, now: Evaluation, log: SearchLog) -> Plan:
    radius, options = np.inf, log.options
    while log.iterations_done < options.iterations:
        model = model_at(now)
        full = model.minimise(np.inf)
        if log.is_negligible(full.gain, options.tolerance):
            return log.finish(
                True,
                "converged in "
                f"{counted(log.iterations_done, 'iteration')}{missed_goal_text(problem, now)}",
            )
        found, radius, failed, move = _accept(problem, model, full, now, radius)
        if found is None:
            small = log.is_negligible(full.gain, 1e-5)
            return log.finish(small, CONVERGED + missed_goal_text(problem, now) if small else STUCK)
        now = found
        log.record_iteration(
            now, step=float(np.abs(move.change).max()), regulariser=move.shift, failed=failed
        )
    return log.finish(
        False,
        f"not converged in {counted(options.iterations, 'iteration')}; allow more with "
        "Options(iterations=...)",
    )


def _accept(
    problem: Problem, model: LocalModel, full: TrustRegionStep, now: Evaluation, radius: float
) -> tuple[Evaluation | None, float, int, TrustRegionStep]:
    """Return the first trial with a tenth of the predicted decrease, and the next radius."""
    move, failed = (full if full.size <= radius else model.minimise(radius)), 0
    for _ in range(60):
        trial = evaluate(problem, now.controls + move.change)
        failed += bool(trial.failed)
        ratio = (now.cost - trial.cost) / move.gain if move.gain > 0.0 else -1.0
        if ratio < 0.5 and model.reuse_jacobian is not None and not trial.failed:
            trial = _corrected(problem, model.reuse_jacobian(trial), trial, move)
            ratio = (now.cost - trial.cost) / move.gain if move.gain > 0.0 else -1.0
        if ratio > 0.1:
            grown = 2.0 * move.size if ratio > 0.75 and move.size > 0.9 * radius else radius
            return trial, (0.5 * move.size if ratio < 0.25 else grown), failed, move
        if move.gain <= 1e-13 * abs(now.cost):
            break
        radius = 0.25 * move.size
        move = model.minimise(radius)
    return None, radius, failed, move


def _corrected(
    problem: Problem, model: LocalModel, trial: Evaluation, move: TrustRegionStep
) -> Evaluation:
    """Return the better of a trial and a second-order correction of it.

    In a curved valley a straight step leaves the floor. One more step with the same Jacobian
    returns to it.
    """
    second = evaluate(problem, trial.controls + model.minimise(move.size).change)
    return second if second.cost < trial.cost else trial


def missed_goal_text(
    problem: Problem,
    now: Evaluation,
    why: str = "the closest that this objective and these limits allow",
) -> str:
    """Return a message about the goal with the largest error, "" if that error is small.

    It is small if it is at most a tenth of the largest goal error at the start. `why` explains it.
    """
    start = np.repeat(problem.initial_state[None], problem.steps + 1, axis=0)
    largest = max((e for _, _, e in problem.goal_errors(start, problem.guess())), default=0.0)
    name, time, worst = max(
        problem.goal_errors(now.states, now.controls),
        key=lambda error: error[2],
        default=("", 0.0, 0.0),
    )
    if worst <= 0.1 * largest:
        return ""
    return f"; the goal of '{name}' at t = {time:.3g} s is missed by {worst:.3g} m, {why}"
