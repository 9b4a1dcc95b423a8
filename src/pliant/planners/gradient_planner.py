"""Planning with gradients only, for every Reversible model: L-BFGS or Adam with adjoint gradients.

L-BFGS starts from the banded Hessian of the control costs, so it approximates only the rest of the
Hessian. If a step violates limits, a sparse quadratic program minimises the same model within all
limits (bounds, rates and accelerations). Adam projects every iterate. So all limits hold at every
iterate.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pliant.core import (
    Array,
    InputError,
    Reversible,
    counted,
    nearest,
    require_kind,
    require_positive,
)
from pliant.planners.adam import AdamMoments
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.checkpoints import (
    Checkpoints,
    GradientEvaluation,
    Schedule,
    cost_gradient,
    schedule_for,
)
from pliant.planners.evaluation import Evaluation, evaluate
from pliant.planners.options import with_progress
from pliant.planners.plan_result import INTERRUPTED, Options, Plan, SearchLog
from pliant.planners.trust_region import (
    ControlMetric,
    control_metric,
    limit_rows,
    project_to_limits,
    solve_qp,
    unflatten_controls,
)
from pliant.planners.trust_region_search import missed_goal_text
from pliant.problem import Problem

LBFGS_PAIRS = 20  # stored by L-BFGS
RATE_GROWTH = 1.2  # factor on Adam's rate after an improvement
PATIENCE = 8  # iterations without improvement after which Adam halves its rate
ACCURATE = "converged to the accuracy of the simulation"
STUCK = (
    "no step along the gradient lowers the cost any more; simulate more accurately "
    "(SolverOptions(tolerance=...)), or try another guess"
)


@with_progress
def gradient(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    optimiser: str = "lbfgs",
    rate: float = 0.05,
    checkpoints: Checkpoints = "sqrt",
) -> Plan:
    """Plan with gradients only.

    Parameters
    ----------
    problem, guess, options : as in `plan`
    optimiser : "lbfgs" or "adam"
    rate : Adam's step, relative to a typical control: half the width of its limits, or its size in
        the guess, or 1
    checkpoints : "sqrt", "all" or a memory limit [bytes] for the states and steps of a gradient

    Raises InputError if the model has no `pullback`.
    """
    require_kind(
        "The model of gradient",
        problem.model,
        Reversible,
        "take a rule with `pullback`, such as ImplicitEuler or SemiImplicit",
    )
    if optimiser not in ("lbfgs", "adam"):
        raise InputError(
            f"There is no optimiser '{optimiser}'; {nearest(optimiser, ('lbfgs', 'adam'))}"
        )
    rate = require_positive("The rate", rate, "of a typical control")
    if problem.constraints:
        return plan_with_constraints(
            problem,
            gradient,
            guess=guess,
            options=options,
            optimiser=optimiser,
            rate=rate,
            checkpoints=checkpoints,
        )
    log = SearchLog(problem=problem, method="gradient", options=options or Options(), keep=False)
    start = log.evaluate_guess(guess).controls
    search = _GradientSearch(
        problem=problem,
        log=log,
        schedule=schedule_for(problem, start, checkpoints),
        size=typical_controls(problem, start),
    )
    try:
        return search.finish(
            *(search.lbfgs(start) if optimiser == "lbfgs" else search.adam(start, rate))
        )
    except KeyboardInterrupt:
        return search.finish(False, INTERRUPTED, interrupted=True)


def typical_controls(problem: Problem, controls: Array) -> Array:
    """Return the typical size (n_controls,) of each control.

    It is half the width of the limits; without limits, the largest entry of `controls`, or 1.
    """
    width = np.min(
        [bound.upper - bound.lower for bound in problem.control_bounds if bound.order == 0], axis=0
    )
    seen = np.abs(controls).max(axis=0)
    size = np.where(np.isfinite(width), 0.5 * width, np.where(seen > 0.0, seen, 1.0))
    return np.where(size > 0.0, size, 1.0)


def flatten_controls(controls: Array) -> Array:
    """Return controls (steps, n_controls) as (n_variables,), one control after the other."""
    return controls.T.ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class BfgsHessian:
    """The BFGS Hessian B = M (c I + R V^T) (c I + R V^T)^T M^T in product form, with metric M M^T.

    See Dennis and Schnabel 1983, section 9.2.
    """

    metric: ControlMetric
    c: float
    R: Array  # (n_variables, k)
    V: Array  # (n_variables, k)

    def quadratic_form(self, d: Array) -> float:
        """Return d^T B d."""
        w = self.metric.solve_lower(self.metric.sparse @ d)  # M^T d
        b = self.c * w + self.V @ (self.R.T @ w)
        return float(b @ b)

    def solve(self, g: Array) -> Array:
        """Return B^-1 g."""
        w = self.metric.solve_lower(g)
        c, R, V = self.c, self.R, self.V
        small = c * np.eye(R.shape[1]) + V.T @ R
        w = (w - R @ np.linalg.solve(small, V.T @ w)) / c
        w = (w - V @ np.linalg.solve(small.T, R.T @ w)) / c
        return self.metric.solve_lower_transpose(w)

    def solve_within_limits(self, problem: Problem, controls: Array, g: Array) -> Array:
        """Minimise g d + 1/2 d B d within the limits.

        The quadratic program has the variables d and t = R^T M^T d and only a few dense rows.
        """
        n, k, scale = len(g), self.R.shape[1], float(np.abs(g).max()) or 1.0
        MR, MV = (
            self.metric.sparse @ self.metric.solve_lower_transpose(np.ascontiguousarray(Y))
            if k
            else Y
            for Y in (self.R, self.V)
        )
        cross = sp.csc_matrix(self.c * MV)
        P = (
            sp.bmat(
                [
                    [self.c**2 * self.metric.sparse, cross],
                    [cross.T, sp.csc_matrix(self.V.T @ self.V)],
                ],
                format="csc",
            )
            / scale
        )
        A = sp.hstack([sp.csc_matrix(MR.T), -sp.identity(k)], format="csc")
        G, low, high = limit_rows(problem, controls)
        G = sp.hstack([G, sp.csc_matrix((G.shape[0], k))], format="csc")
        return solve_qp(P, np.concatenate([g / scale, np.zeros(k)]), A, np.zeros(k), G, low, high)[
            :n
        ]


def bfgs_hessian(
    base: ControlMetric, first: float, pairs: list[tuple[Array, Array]]
) -> BfgsHessian:
    """Return B from pairs (M^T change, M^-1 change of the gradient), oldest first.

    Without pairs, B is `first` times the metric.
    """
    n = base.banded.shape[1]
    R, V = np.zeros((n, 0)), np.zeros((n, 0))
    # The smallest curvature of the pairs, which most directions have.
    c = float(np.sqrt(min((s @ y / (s @ s) for s, y in pairs), default=first)))
    for s, y in pairs:
        v = c * s + V @ (R.T @ s)
        v = np.sqrt(s @ y / (v @ v)) * v
        r = (y - c * v - R @ (V.T @ v)) / (v @ v)
        R, V = np.column_stack([R, r]), np.column_stack([V, v])
    return BfgsHessian(metric=base, c=c, R=R, V=V)


@dataclass(kw_only=True)
class _GradientSearch:
    """A search with either optimiser."""

    problem: Problem
    log: SearchLog
    schedule: Schedule
    size: Array  # (n_controls,) typical controls
    failed: int = 0  # simulations that failed since the last iteration
    peak_bytes: int = 0
    extra_steps: int = 0  # repeated steps of the last gradient

    def evaluate(self, controls: Array) -> tuple[GradientEvaluation, Array]:
        """Return cost and gradient (steps, n_controls)."""
        sweep, g = cost_gradient(self.problem, controls, self.schedule)
        self.failed += bool(sweep.failed)
        self.peak_bytes = max(self.peak_bytes, sweep.peak_bytes)
        self.extra_steps = sweep.extra_steps or self.extra_steps
        return sweep, g

    def _without_states(self, sweep: GradientEvaluation) -> Evaluation:
        """Return the evaluation without states, which only the result needs."""
        return Evaluation(
            controls=sweep.controls,
            states=np.zeros((0, self.problem.model.space.size)),
            steps=(),
            cost=sweep.cost,
        )

    def record(self, sweep: GradientEvaluation, step: float, regulariser: float = 0.0) -> None:
        self.log.record_iteration(
            self._without_states(sweep), step=step, regulariser=regulariser, failed=self.failed
        )
        self.failed = 0

    def finish(self, ok: bool, text: str, interrupted: bool = False) -> Plan:
        log = self.log
        assert log.best is not None
        log.best = now = evaluate(self.problem, log.best.controls, keep=False)
        return log.finish(
            ok,
            text + (missed_goal_text(self.problem, now) if ok else ""),
            interrupted=interrupted,
            notes={"peak_bytes": self.peak_bytes, "extra_steps": self.extra_steps},
        )

    def exhausted(self) -> tuple[bool, str]:
        return (
            False,
            f"not converged in {counted(self.log.options.iterations, 'iteration')}; allow more "
            "with Options(iterations=...)",
        )

    # L-BFGS

    def lbfgs(self, start: Array) -> tuple[bool, str]:
        """Minimise by L-BFGS. A step that fails or does not lower the cost is quartered."""
        options, pairs = self.log.options, deque[tuple[Array, Array]](maxlen=LBFGS_PAIRS)
        now, g = self.evaluate(start)
        base = control_metric(
            self.problem, 1e5 * (abs(now.cost) or 1.0) / float(np.mean(self.size**2))
        )
        while self.log.iterations_done < options.iterations:
            d, gain = self._step(base, now, g, list(pairs))
            if self.log.is_negligible(gain, options.tolerance):
                return True, f"converged in {counted(self.log.iterations_done, 'iteration')}"
            trial, slope = self._line_search(now, g, d)
            if trial is None and not pairs:
                small = self.log.is_negligible(gain, 1e-5)
                return small, ACCURATE if small else STUCK
            if trial is None:  # restart without the stored pairs
                pairs.clear()
                continue
            change = trial.controls - now.controls
            s, y = (
                base.solve_lower(base.sparse @ flatten_controls(change)),
                base.solve_lower(flatten_controls(slope - g)),
            )
            if s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
                pairs.append((s, y))
            now, g = trial, slope
            self.record(now, float(np.abs(change).max()))
        return self.exhausted()

    def _step(
        self,
        base: ControlMetric,
        now: GradientEvaluation,
        g: Array,
        pairs: list[tuple[Array, Array]],
    ) -> tuple[Array, float]:
        """Return the minimiser of the model within the limits and the predicted decrease.

        The first step is at most a typical control.
        """
        flat = flatten_controls(g)
        stretch = float(
            np.abs(
                unflatten_controls(bfgs_hessian(base, 1.0, []).solve(flat), g.shape) / self.size
            ).max(initial=0.0)
        )
        B = bfgs_hessian(base, max(stretch, 1.0), pairs)
        d = -B.solve(flat)
        if self.problem.limit_violation(now.controls + unflatten_controls(d, g.shape)) > 0.0:
            d = B.solve_within_limits(self.problem, now.controls, flat)
        return unflatten_controls(d, g.shape), -float(flat @ d + 0.5 * B.quadratic_form(d))

    def _line_search(
        self, now: GradientEvaluation, g: Array, d: Array
    ) -> tuple[GradientEvaluation | None, Array]:
        """Return the first of d, d/4, ... with sufficient decrease (Armijo), or None.

        After a failed simulation one more quartering keeps the iterate away from failing controls.
        """
        slope, careful = float(np.sum(g * d)), False
        for share in 0.25 ** np.arange(16):
            trial, g_trial = self.evaluate(now.controls + share * d)
            if trial.failed:
                careful = True
            elif careful:
                careful = False
            elif trial.cost < now.cost + 1e-4 * share * slope:
                return trial, g_trial
        return None, g

    # Adam

    def adam(self, start: Array, rate: float) -> tuple[bool, str]:
        """Minimise by projected Adam (Kingma and Ba 2015).

        The rate is halved without improvement or after a failed simulation. It grows back to its
        first value while the cost improves.
        """
        options, most, least = (
            self.log.options,
            rate,
            rate * np.sqrt(self.log.options.tolerance),
        )
        now, g = best, slope = self.evaluate(start)
        moments, waited = AdamMoments.zero(g.shape), 0
        learned = moments  # at the best
        while self.log.iterations_done < options.iterations:
            moments = moments.updated(g)
            root = moments.size * self.size
            # In another metric the projection would move an optimum on its limits.
            stiff = np.maximum(root, 1e-6 * root.max() or 1.0) / self.size**2
            away = rate * moments.direction / stiff
            trial, g_trial = self.evaluate(
                project_to_limits(self.problem, now.controls - away, stiff / stiff.max())
            )
            step = float(np.abs(trial.controls - now.controls).max())
            waited = (
                0 if trial.cost < best.cost - options.tolerance * abs(best.cost) else waited + 1
            )
            if trial.cost < best.cost:
                best, slope, learned = trial, g_trial, moments
            if waited == 0:
                rate = min(RATE_GROWTH * rate, most)
            now, g = trial, g_trial
            if (
                trial.failed or waited >= PATIENCE
            ):  # restart at the best iterate with a smaller rate
                now, g, rate, waited, moments = best, slope, 0.5 * rate, 0, learned
            self.record(now, step, rate)
            if rate < least:
                return (
                    True,
                    f"converged in {counted(self.log.iterations_done, 'iteration')}: smaller rates "
                    "bring no improvement",
                )
        return self.exhausted()
