"""The reduction of a linearised horizon to the part of its states that the terms depend on.

The residuals of the steps k to N change by W_k G_k^T dz_k if the state z_k changes. W_k has
orthonormal columns, and G_k G_k^T is the observability Gramian. One sweep computes the factors,

    G_k X = M_k = [A_k^T G_{k+1}, rows_k^T],   X orthogonal,

and drops the columns M_k X_2 that are small. Damping makes the rank of G_k low, for any number of
terms. The coordinates xi_k = G_k^T dz_k follow small dense dynamics, in which a Riccati recursion
costs little.

Let J be the Jacobian of the weighted residuals, J' that of the reduced horizon, B the metric of the
control costs, H = B + J^T J and H' = B + J'^T J'. The dropped parts E_k = M_k X_2 of different
steps are orthogonal: |(J - J') d|^2 = sum_k |E_k^T dz_k|^2. With a bound e of the norm of
(J - J') H'^-1/2 and c = 2 e + e^2,

    (1 - c) H' <= H <= (1 + c) H'.

So the step of H' lowers the exact model by at least 1 - c^2 of what is possible. The gradient is
exact, and a plan converges to the same optimum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.evaluation import Evaluation
from pliant.planners.exact_penalty import ExactPenaltyLoss
from pliant.planners.plan_result import NO_COUPLING
from pliant.planners.sensitivity import control_cost_gradient
from pliant.problem import Observation

PROBES = 3
# Columns are dropped when their number has grown by this ratio: a step more of them costs less than
# to find the small ones.
MAX_COLUMN_GROWTH = 1.15
# |E| <= 10 sqrt(2 / pi) max_i |E^T omega_i| with probability 1 - 10^-PROBES [Halko2011, eq. 4.3]
PROBE_FACTOR = 10.0 * np.sqrt(2.0 / np.pi)


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRows:
    """The residuals of one observation: `factor` times its linear change."""

    observation: Observation
    factor: Array  # (r, m) Gauss-Newton factor of the loss, without zero rows
    loss_gradient: Array  # (m,)

    @property
    def is_constraint(self) -> bool:
        """Whether the rows are values with bounds instead of residuals."""
        return isinstance(self.observation.loss, ExactPenaltyLoss)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedHorizon:
    """The linearised horizon in the coordinates xi_k, and the gradient of the complete cost."""

    layout: AugmentedState
    A: tuple[Array, ...]  # of each step k: (r_{k+1}, r_k), d xi_{k+1} / d xi_k
    B: tuple[Array, ...]  # of each step k: (r_{k+1}, n_controls), d xi_{k+1} / d u_k
    rows: tuple[Array, ...]  # of steps 1 to N: (p_k, r_k) weighted residuals by xi_k
    limited: tuple[Array, ...]  # of steps 1 to N: (q_k, r_k) values of constraints by xi_k
    observations: tuple[tuple[WeightedRows, ...], ...]  # of steps 1 to N, those of `rows`
    constraints: tuple[tuple[WeightedRows, ...], ...]  # of steps 1 to N, those of `limited`
    gradient: Array  # (steps, n_controls), exact
    probes: Array  # (steps, n_controls, PROBES) (J - J')^T omega, omega random

    @property
    def steps(self) -> int:
        return len(self.B)

    @property
    def rank(self) -> int:
        """The largest number of coordinates of a step."""
        return max(len(B) for B in self.B)

    def residual_change(self, change: Array) -> list[Array]:
        """Return the change of the residuals of steps 1 to N for a change (steps, n_controls)."""
        return self.row_changes(change)[0]

    def row_changes(self, change: Array) -> tuple[list[Array], list[Array]]:
        """Return the changes of the residuals and of the constraints of steps 1 to N."""
        xi, residuals, limited = np.zeros(self.A[0].shape[1]), [], []
        for A, B, rows, others, u in zip(
            self.A, self.B, self.rows, self.limited, change, strict=True
        ):
            xi = A @ xi + B @ u
            residuals.append(rows @ xi)
            limited.append(others @ xi)
        return residuals, limited

    def residual_vjp(self, bars: Sequence[Array]) -> Array:
        """Return the transpose of `residual_change`, (steps, n_controls)."""
        return self._vjp(self.rows, bars)

    def limited_vjp(self, bars: Sequence[Array]) -> Array:
        """Return the transpose (steps, n_controls) of the change of the constraints."""
        return self._vjp(self.limited, bars)

    def _vjp(self, rows: Sequence[Array], bars: Sequence[Array]) -> Array:
        out, bar = np.zeros(self.gradient.shape), np.zeros(len(self.B[-1]))
        for k in range(self.steps - 1, -1, -1):
            bar = bar + rows[k].T @ bars[k]
            out[k] = self.B[k].T @ bar
            bar = self.A[k].T @ bar
        return out

    @cached_property
    def squared_size(self) -> float:
        """The squared Frobenius norm of J', because |xi|^2 is that of the residuals ahead."""
        return sum(float(np.sum(B**2)) for B in self.B)


def reduce_horizon(
    layout: AugmentedState,
    now: Evaluation,
    tolerance: float,
    on_basis: Callable[[int, Array], None] | None = None,
) -> ReducedHorizon:
    """Reduce the horizon about an evaluation by one adjoint sweep.

    It drops directions of G_k below `tolerance` times the largest one so far. Each step takes rank
    + 1 + PROBES solves with its factor. `on_basis(k, G_k)` receives each G_k (layout.size, r_k),
    from the last step to the first. Raises InputError if no control affects the terms.
    """
    problem, n = layout.problem, layout.size
    model, N = problem.model, problem.steps
    G, others = np.zeros((n, 0)), np.zeros((n, 1 + PROBES))  # others: gradient and probes
    gradient = control_cost_gradient(problem, now.controls)
    probes = np.zeros((*now.controls.shape, PROBES))
    A, B, rows, limited, kept, limits, is_coupled = [], [], [], [], [], [], False
    columns_split = ColumnSplit(tolerance=tolerance)
    for k in range(N, 0, -1):
        found = weighted_rows(layout, now, k)
        kept.append(tuple(one for one in found if not one.is_constraint))
        limits.append(tuple(one for one in found if one.is_constraint))
        columns = [G]
        for one in (*kept[-1], *limits[-1]):
            C = layout.observation_matrix(one.observation)
            columns.append(C.T @ one.factor.T)
            others[:, 0] += C.T @ one.loss_gradient
        M = np.concatenate(columns, axis=1)
        X, dropped = columns_split.split(M)
        A.append(X[: G.shape[1]])
        first = G.shape[1] + sum(len(one.factor) for one in kept[-1])
        rows.append(X[G.shape[1] : first])
        limited.append(X[first:])
        if dropped is None:
            G = M
        else:
            G, others[:, 1:] = M @ X, others[:, 1:] + M @ dropped
        if on_basis is not None:
            on_basis(k, G)
        r = G.shape[1]
        lin = model.linearize(now.steps[k - 1])  # type: ignore[attr-defined]
        back, by_u = layout.vjp(lin, np.concatenate([G, others], axis=1))
        G, others = back[:, :r], back[:, r:]
        B.append(by_u[:, :r].T)
        gradient[k - 1] += by_u[:, r]
        probes[k - 1] = by_u[:, r + 1 :]
        is_coupled |= bool(by_u.any())
    if (any(kept) or any(limits)) and not is_coupled:
        raise InputError(NO_COUPLING)
    X, _ = columns_split.split(G)
    if on_basis is not None:
        on_basis(0, G @ X)
    return ReducedHorizon(
        layout=layout,
        A=(X, *reversed(A[1:])),
        B=tuple(reversed(B)),
        rows=tuple(reversed(rows)),
        limited=tuple(reversed(limited)),
        observations=tuple(reversed(kept)),
        constraints=tuple(reversed(limits)),
        gradient=gradient,
        probes=probes,
    )


def weighted_rows(layout: AugmentedState, now: Evaluation, k: int) -> tuple[WeightedRows, ...]:
    """Return the observations at step k that have a gradient or a curvature."""
    out = []
    for observation in layout.observations_at(k):
        y = observation.evaluate(now.states, now.controls, layout.problem.previous_control)
        F, slope = observation.loss.gauss_newton_factor(y), observation.loss.gradient(y)
        if not isinstance(observation.loss, ExactPenaltyLoss):
            F = F[np.any(F, axis=1)]
        if len(F) or slope.any():
            out.append(WeightedRows(observation=observation, factor=F, loss_gradient=slope))
    return tuple(out)


@dataclass
class ColumnSplit:
    """The choice of the directions that are kept, relative to the largest one of the sweep."""

    tolerance: float
    largest: float = 0.0
    kept: int = 0  # columns after the last choice

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def split(self, M: Array) -> tuple[Array, Array | None]:
        """Return X (c, r) with orthonormal columns, and random combinations of the others.

        The second is X_2 omega (c, PROBES), where M X_2 is dropped; None if X is the identity. X is
        orthogonal to round-off however small the directions are, so the square of M costs no
        accuracy.
        """
        c = M.shape[1]
        if c <= MAX_COLUMN_GROWTH * self.kept or not c or self.tolerance == 0.0:
            return np.eye(c), None
        values, X = np.linalg.eigh(M.T @ M)
        self.largest = max(self.largest, float(values[-1]))
        small = values <= self.tolerance**2 * self.largest
        self.kept = c - int(small.sum())
        omega = self._rng.standard_normal((c - self.kept, PROBES))
        return X[:, ~small], X[:, small] @ omega


def expand_gains(layout: AugmentedState, gains: Array, basis: Array) -> Array:
    """Return gains over (xi_k, past controls) as gains (n_controls, layout.size) over z_k.

    They are a product of factors (n_controls, r_k) and (r_k, layout.size).
    """
    r = basis.shape[1]
    out = gains[:, :r] @ basis.T
    past = layout.n_past_controls * len(gains)
    out[:, layout.n_state : layout.n_state + past] += gains[:, r:]
    return out
