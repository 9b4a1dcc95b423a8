"""Plans by the gradient alone, for every Reversible model: L-BFGS or Adam on adjoint gradients with
checkpoints.

L-BFGS starts from the Hessian of the terms that see the controls alone, which is known and banded,
so that only what the looks add is learned from gradients. A step that would leave the limits is the
minimiser of the same model within all of them (bounds, rates and accelerations), by a sparse
quadratic program; Adam projects every iterate on them. So all limits hold at every iterate.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError, Reversible, nearest, require_kind, require_positive
from pliant.planners.checkpoints import Checkpoints, Schedule, Sweep, gradient_of, schedule_for
from pliant.planners.lagrangian import constrained
from pliant.planners.options import reported
from pliant.planners.plan import INTERRUPTED, Evaluation, Journal, Options, Plan, evaluate
from pliant.planners.quadratic import (
    Metric,
    limit_rows,
    metric,
    solve_program,
    table,
    within_limits,
)
from pliant.planners.shooting import missed
from pliant.problem import Problem

MEMORY = 20  # pairs of L-BFGS
GROWTH = 1.2  # of Adam's rate with every better cost
PATIENCE = 8  # iterations of Adam without a better cost before the rate is halved
ACCURATE = "converged to the accuracy of the simulation"
STUCK = (
    "no step along the gradient lowers the cost any more; ask the model for tighter steps or try "
    "another guess"
)


@reported
def gradient(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    optimiser: str = "lbfgs",
    rate: float = 0.05,
    checkpoints: Checkpoints = "sqrt",
) -> Plan:
    """Plan by gradient descent. `rate` is Adam's step in shares of a typical control (half the
    width of its limits, else its size in the guess, else 1). `checkpoints` is "sqrt", "all" or a
    budget [bytes] for the states and tapes of a gradient (checkpoints.py)."""
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
        return constrained(
            problem,
            gradient,
            guess=guess,
            options=options,
            optimiser=optimiser,
            rate=rate,
            checkpoints=checkpoints,
        )
    journal = Journal(problem=problem, method="gradient", options=options or Options(), keep=False)
    start = journal.first(guess).controls
    search = _Search(
        problem=problem,
        journal=journal,
        schedule=schedule_for(problem, start, checkpoints),
        size=typical(problem, start),
    )
    try:
        return search.finish(
            *(search.lbfgs(start) if optimiser == "lbfgs" else search.adam(start, rate))
        )
    except KeyboardInterrupt:
        return search.finish(False, INTERRUPTED, interrupted=True)


def typical(problem: Problem, controls: Array) -> Array:
    """(n_controls,) half the width of each control's limits, else its largest size in some
    controls, else 1."""
    width = np.min([band.upper - band.lower for band in problem.bands if band.order == 0], axis=0)
    seen = np.abs(controls).max(axis=0)
    size = np.where(np.isfinite(width), 0.5 * width, np.where(seen > 0.0, seen, 1.0))
    return np.where(size > 0.0, size, 1.0)


def _flat(table: Array) -> Array:
    """(n_variables,) one control after the other, all steps of each, as quadratic.py has them."""
    return table.T.ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """B = M (c I + R V^T) (c I + R V^T)^T M^T with the metric M M^T: BFGS in product form (Dennis
    and Schnabel 1983, section 9.2)."""

    metric: Metric
    c: float
    R: Array  # (n_variables, k)
    V: Array  # (n_variables, k)

    def bend(self, d: Array) -> float:
        """d^T B d."""
        w = self.metric.whiten(self.metric.sparse @ d)  # M^T d
        b = self.c * w + self.V @ (self.R.T @ w)
        return float(b @ b)

    def solve(self, g: Array) -> Array:
        """B^-1 g."""
        w = self.metric.whiten(g)
        c, R, V = self.c, self.R, self.V
        small = c * np.eye(R.shape[1]) + V.T @ R
        w = (w - R @ np.linalg.solve(small, V.T @ w)) / c
        w = (w - V @ np.linalg.solve(small.T, R.T @ w)) / c
        return self.metric.colour(w)

    def solve_within(self, problem: Problem, controls: Array, g: Array) -> Array:
        """The minimiser of g d + 1/2 d B d within the limits: a program in d and t = R^T M^T d,
        sparse but for a few rows."""
        n, k, scale = len(g), self.R.shape[1], float(np.abs(g).max()) or 1.0
        MR, MV = (
            self.metric.sparse @ self.metric.colour(np.ascontiguousarray(Y)) if k else Y
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
        return solve_program(
            P, np.concatenate([g / scale, np.zeros(k)]), A, np.zeros(k), G, low, high
        )[:n]


def learn(base: Metric, first: float, pairs: list[tuple[Array, Array]]) -> Learned:
    """B from pairs (M^T change, M^-1 change of the gradient), the oldest first; `first` stiffens
    the metric where there is none."""
    n = base.band.shape[1]
    R, V = np.zeros((n, 0)), np.zeros((n, 0))
    c = float(
        np.sqrt(min((s @ y / (s @ s) for s, y in pairs), default=first))
    )  # the least curvature seen: most directions have it
    for s, y in pairs:
        v = c * s + V @ (R.T @ s)
        v = np.sqrt(s @ y / (v @ v)) * v
        r = (y - c * v - R @ (V.T @ v)) / (v @ v)
        R, V = np.column_stack([R, r]), np.column_stack([V, v])
    return Learned(metric=base, c=c, R=R, V=V)


@dataclass(kw_only=True)
class _Search:
    """What both optimisers share: prices, the journal and the end."""

    problem: Problem
    journal: Journal
    schedule: Schedule
    size: Array  # (n_controls,) typical controls
    failed: int = 0  # since the last iteration
    peak: int = 0  # [bytes]
    extra: int = 0  # steps of the last gradient

    def price(self, controls: Array) -> tuple[Sweep, Array]:
        """Cost and gradient (steps, n_controls)."""
        sweep, g = gradient_of(self.problem, controls, self.schedule)
        self.failed += bool(sweep.failed)
        self.peak, self.extra = max(self.peak, sweep.peak), sweep.extra or self.extra
        return sweep, g

    def _light(self, sweep: Sweep) -> Evaluation:
        """Without states, which the last run alone needs."""
        return Evaluation(
            controls=sweep.controls,
            states=np.zeros((0, self.problem.model.space.size)),
            steps=(),
            cost=sweep.cost,
        )

    def note(self, sweep: Sweep, step: float, regulariser: float = 0.0) -> None:
        self.journal.note(
            self._light(sweep), step=step, regulariser=regulariser, failed=self.failed
        )
        self.failed = 0

    def finish(self, ok: bool, text: str, interrupted: bool = False) -> Plan:
        journal = self.journal
        assert journal.best is not None
        journal.best = now = evaluate(self.problem, journal.best.controls, keep=False)
        return journal.finish(
            ok,
            text + (missed(self.problem, now) if ok else ""),
            interrupted=interrupted,
            notes={"peak_bytes": self.peak, "extra_steps": self.extra},
        )

    def exhausted(self) -> tuple[bool, str]:
        return (
            False,
            f"not converged in {self.journal.options.iterations} iterations; allow more with "
            "Options(iterations=...)",
        )

    # L-BFGS

    def lbfgs(self, start: Array) -> tuple[bool, str]:
        """A step that does not lower the cost, or cannot be simulated, is shortened to a
        quarter."""
        options, pairs = self.journal.options, deque[tuple[Array, Array]](maxlen=MEMORY)
        now, g = self.price(start)
        base = metric(self.problem, 1e5 * (abs(now.cost) or 1.0) / float(np.mean(self.size**2)))
        while self.journal.done < options.iterations:
            d, gain = self._step(base, now, g, list(pairs))
            if self.journal.negligible(gain, options.tolerance):
                return True, f"converged in {self.journal.done} iterations"
            trial, slope = self._shorten(now, g, d)
            if trial is None and not pairs:
                small = self.journal.negligible(gain, 1e-5)
                return small, ACCURATE if small else STUCK
            if trial is None:  # what was learned may be wrong: once more without
                pairs.clear()
                continue
            change = trial.controls - now.controls
            s, y = base.whiten(base.sparse @ _flat(change)), base.whiten(_flat(slope - g))
            if s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
                pairs.append((s, y))
            now, g = trial, slope
            self.note(now, float(np.abs(change).max()))
        return self.exhausted()

    def _step(
        self, base: Metric, now: Sweep, g: Array, pairs: list[tuple[Array, Array]]
    ) -> tuple[Array, float]:
        """The minimiser of the model within the limits, and what it promises; the first step is no
        longer than a typical control."""
        flat = _flat(g)
        stretch = float(
            np.abs(table(learn(base, 1.0, []).solve(flat), g.shape) / self.size).max(initial=0.0)
        )
        B = learn(base, max(stretch, 1.0), pairs)
        d = -B.solve(flat)
        if self.problem.excess(now.controls + table(d, g.shape)) > 0.0:
            d = B.solve_within(self.problem, now.controls, flat)
        return table(d, g.shape), -float(flat @ d + 0.5 * B.bend(d))

    def _shorten(self, now: Sweep, g: Array, d: Array) -> tuple[Sweep | None, Array]:
        """The first of d, d/4, ... that lowers the cost (Armijo), or None. After a run that failed,
        the first that can be simulated is not taken but a quarter of it: an iterate at the edge of
        what can be simulated has nowhere to go."""
        slope, careful = float(np.sum(g * d)), False
        for share in 0.25 ** np.arange(16):
            trial, g_trial = self.price(now.controls + share * d)
            if trial.failed:
                careful = True
            elif careful:
                careful = False
            elif trial.cost < now.cost + 1e-4 * share * slope:
                return trial, g_trial
        return None, g

    # Adam

    def adam(self, start: Array, rate: float) -> tuple[bool, str]:
        """Kingma and Ba 2015 with a projection. The rate is halved where nothing better comes and
        after a run that fails, and grows again to what was asked for while things get better: or a
        few runs that fail would end the search."""
        options, most, least = (
            self.journal.options,
            rate,
            rate * np.sqrt(self.journal.options.tolerance),
        )
        now, g = best, slope = self.price(start)
        m, v, t, waited = np.zeros_like(g), np.zeros_like(g), 0, 0
        learned = m, v, t  # at the best
        while self.journal.done < options.iterations:
            t += 1
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            root = np.sqrt(v / (1.0 - 0.99**t)) * self.size
            stiff = (
                np.maximum(root, 1e-6 * root.max() or 1.0) / self.size**2
            )  # a projection in any other metric has no optimum at rest
            away = rate * (m / (1.0 - 0.9**t)) / stiff
            trial, g_trial = self.price(
                within_limits(self.problem, now.controls - away, stiff / stiff.max())
            )
            step = float(np.abs(trial.controls - now.controls).max())
            waited = (
                0 if trial.cost < best.cost - options.tolerance * abs(best.cost) else waited + 1
            )
            if trial.cost < best.cost:
                best, slope, learned = trial, g_trial, (m, v, t)
            if waited == 0:
                rate = min(GROWTH * rate, most)
            now, g = trial, g_trial
            if trial.failed or waited >= PATIENCE:  # from the best again, more carefully
                now, g, rate, waited, (m, v, t) = best, slope, 0.5 * rate, 0, learned
            self.note(now, step, rate)
            if rate < least:
                return (
                    True,
                    f"settled in {self.journal.done} iterations: smaller and smaller rates bring "
                    "nothing better",
                )
        return self.exhausted()
