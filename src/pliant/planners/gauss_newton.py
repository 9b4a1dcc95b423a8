"""Structured Gauss-Newton, the default planner.

Rows of the residual's Jacobian come by adjoint sweeps with each step's own factor, so an iteration
costs (residual rows) x (steps) solves; the terms of the controls alone stay banded, and the normal
equations are solved as banded plus low rank. Where that is not the least work, rows come by forward
sweeps, or the whole step by Riccati's recursion.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant.core import Array, InputError, Linearizable, require_kind
from pliant.planners.augmented import Augmented
from pliant.planners.lagrangian import constrained
from pliant.planners.options import reported
from pliant.planners.plan import NO_COUPLING, Evaluation, Journal, Options, Plan, check_exact
from pliant.planners.quadratic import Metric, Model, Move, low_rank_model, metric
from pliant.planners.riccati import dense_stages, lq_change
from pliant.planners.sensitivity import (
    adjoint_rows,
    factor_rows,
    felt,
    forward_rows,
    slopes,
    smooth_gradient,
)
from pliant.planners.shooting import descend
from pliant.problem import Problem

ROUTES = ("adjoint", "forward", "riccati")


@reported
def gauss_newton(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    route: str | None = None,
) -> Plan:
    """Plan by Gauss-Newton with a trust region. `route` is "adjoint", "forward", "riccati", or None
    for the one with the least work."""
    require_kind(
        "The model of gauss_newton",
        problem.model,
        Linearizable,
        "take a rule that can be linearised, or method='gradient'",
    )
    check_exact(problem, "gauss_newton")
    if route is not None and route not in ROUTES:
        raise InputError(
            f"There is no route '{route}'; choose one of {', '.join(ROUTES)}, or None."
        )
    if problem.constraints:
        return constrained(problem, gauss_newton, guess=guess, options=options, route=route)
    chosen = route or least_work(problem)
    journal = Journal(problem=problem, method="gauss_newton", options=options or Options())
    build = (
        riccati_at if chosen == "riccati" else lambda problem, now: rows_at(problem, now, chosen)
    )
    plan = descend(problem, lambda now: build(problem, now), guess, journal)
    plan.notes["route"] = chosen
    return plan


def work(problem: Problem) -> dict[str, float]:
    """Floating-point operations of an iteration's derivatives by each route, roughly: a sparse
    sweep over a state is taken as a hundred operations a number, dense products as they are."""
    n, m, N = problem.model.space.size, problem.model.n_controls, problem.steps
    sweep, size = 100.0 * n, Augmented(problem=problem).size
    rows = sum(look.size for look in problem.looks)
    band = N * m * (rows**2 + 10.0)
    return {
        "adjoint": sweep * sum(look.size * look.step for look in problem.looks)
        + min(band, (N * m) ** 3),
        "forward": sweep * m * N * (N + 1) / 2 + min(band, (N * m) ** 3),
        "riccati": N * (sweep * n + 6.0 * size**3),
    }


def least_work(problem: Problem) -> str:
    costs = work(problem)
    return min(costs, key=lambda route: costs[route])


def rows_at(problem: Problem, now: Evaluation, route: str) -> Model:
    """The model from rows of the Jacobian, by adjoint or forward sweeps."""
    R = adjoint_rows(problem, now) if route == "adjoint" else forward_rows(problem, now)
    if not np.any(R) and any(felt(problem, now)):
        raise InputError(NO_COUPLING)
    return _model_with(problem, now, R)


def _model_with(problem: Problem, now: Evaluation, R: Array) -> Model:
    g = smooth_gradient(problem, now.controls) + np.tensordot(slopes(problem, now), R, axes=1)
    model = low_rank_model(problem, now.controls, g.T.ravel(), factor_rows(problem, now, R))
    return replace(model, again=lambda trial: _model_with(problem, trial, R))


def riccati_at(problem: Problem, now: Evaluation) -> "RiccatiModel":
    return RiccatiModel(problem=problem, now=now)


@dataclass(frozen=True, kw_only=True, eq=False)
class RiccatiModel:
    """The same quadratic model, minimised by Riccati's recursion over dense stages; limits are left
    to the rows."""

    problem: Problem
    now: Evaluation

    again: None = None

    @cached_property
    def _layout(self) -> Augmented:
        return Augmented(problem=self.problem)

    @cached_property
    def _stages(self) -> list[tuple[Array, Array]]:
        return dense_stages(self.problem.model, self._layout, self.now)  # type: ignore[arg-type]

    @cached_property
    def _gradient(self) -> Array:
        """(steps, n_controls) by one adjoint sweep over the dense stages."""
        problem, now = self.problem, self.now
        seen = problem.observations(now.states, now.controls)
        g = smooth_gradient(problem, now.controls)
        bar = np.zeros(self._layout.size)
        for k in range(problem.steps, 0, -1):
            for look, y in zip(problem.looks, seen, strict=True):
                if look.step == k:
                    bar = bar + self._layout.look_rows(look).T @ look.loss.slope(y)
            A, B = self._stages[k - 1]
            g[k - 1] += B.T @ bar
            bar = A.T @ bar
        return g

    @cached_property
    def _metric(self) -> Metric:
        looks = zip(
            self.problem.looks,
            self.problem.observations(self.now.states, self.now.controls),
            strict=True,
        )
        B = np.mean([np.sum(stage[1] ** 2) for stage in self._stages])
        return metric(
            self.problem, float(B * sum(np.sum(look.loss.factor(y) ** 2) for look, y in looks))
        )

    @cached_property
    def _rows(self) -> Model:
        return rows_at(self.problem, self.now, "adjoint")

    def best(self, radius: float) -> Move:
        """The minimiser within a radius, and within the limits."""
        shift = 0.0
        for _ in range(30):
            change = lq_change(
                self.problem, self._layout, self.now, self._stages, shift, self._metric.extra
            )
            d = change.T.ravel()
            size = float(np.sqrt(max(d @ (self._metric.sparse @ d), 0.0)))
            if size <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * size / radius - 1.0)
        if self.problem.excess(self.now.controls + change) > 1e-12:
            return self._rows.best(radius)
        gain = -0.5 * float(np.sum(self._gradient * change)) + 0.5 * shift * size**2
        return Move(change=change, gain=gain, size=size, shift=shift)
