"""The quadratic model of a shooting planner and its minimiser within a trust region and limits.

The Hessian is B + F^T F. B comes from the control costs and is banded for each control. F has the
few rows of all other terms. The trust region is a ball in the norm of B = L L^T, in which the
Hessian is I + G G^T with G = L^-1 F^T, so no scaling parameters are needed. Variables are ordered
one control after the other, with all steps of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpbtrf, dtbtrs

from pliant.core import Array, InputError
from pliant.planners.evaluation import Evaluation
from pliant.problem import Problem, apply_stencil


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustRegionStep:
    """The change of the controls that minimises a quadratic model."""

    change: Array  # (steps, n_controls)
    gain: float  # predicted decrease of the cost
    size: float  # in the norm of the trust region
    shift: float  # Lagrange multiplier of the trust region


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlMetric:
    """The metric B = L L^T of the control costs, with a shift that makes it positive definite."""

    banded: Array  # (width + 1, n_variables) lower diagonals
    lower: Array  # of its Cholesky factor
    extra: float = 0.0  # shift of the diagonal

    def solve_lower(self, y: Array) -> Array:
        """Return L^-1 y for y (n,) or (n, k)."""
        return dtbtrs(self.lower, y, uplo="L")[0]

    def solve_lower_transpose(self, w: Array) -> Array:
        """Return L^-T w."""
        return dtbtrs(self.lower, w, uplo="L", trans="T")[0]

    def multiply_lower(self, w: Array) -> Array:
        """Return L w."""
        n = self.lower.shape[1]
        return (
            sp.diags(
                [row[: n - k] for k, row in enumerate(self.lower)],
                [-k for k in range(len(self.lower))],
                shape=(n, n),
            )
            @ w
        )

    @cached_property
    def sparse(self) -> sp.csc_matrix:
        """The full symmetric matrix B."""
        n = self.banded.shape[1]
        lower = sp.diags(
            [row[: n - k] for k, row in enumerate(self.banded)],
            [-k for k in range(len(self.banded))],
            shape=(n, n),
        )
        return (lower + sp.tril(lower, -1).T).tocsc()


def control_metric(problem: Problem, scale: float) -> ControlMetric:
    """Return the metric of a problem.

    `scale` is a typical curvature of the other terms. It sets the shift for controls without cost.
    """
    width = min(
        max((len(s.stencil) for s in problem.control_costs), default=1) - 1, problem.steps - 1
    )
    diagonals = sum(
        (s.banded_hessian(problem.steps, width) for s in problem.control_costs),
        np.zeros((problem.model.n_controls, width + 1, problem.steps)),
    )
    banded = np.ascontiguousarray(np.swapaxes(diagonals, 0, 1).reshape(width + 1, -1))
    least = 1e-14 * float(banded[0].max()) or 0.0
    lower, info = dpbtrf(banded, lower=1)
    if info or not np.all(lower[0] ** 2 > least):
        extra = (1e-8 * scale if scale > 0.0 else 1.0) + 1e-12 * float(banded[0].max())
        banded[0] += extra
        return ControlMetric(banded=banded, lower=dpbtrf(banded, lower=1)[0], extra=extra)
    return ControlMetric(banded=banded, lower=lower)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustRegionModel:
    """The model g . d + 1/2 d^T H d of the cost for a change d of the controls.

    L^-1 H L^-T has the eigenvectors V with eigenvalues `curvature`, and 1 on their complement.
    """

    problem: Problem
    controls: Array  # (steps, n_controls) at d = 0
    gradient: Array  # (n_variables,)
    metric: ControlMetric
    V: Array  # (n_variables, k) orthonormal
    curvature: Array  # (k,)
    rows: Array  # (r, n_variables): H = B + rows^T rows if limits are active
    # returns the model at a nearby evaluation with the same Jacobian
    reuse_jacobian: Callable[[Evaluation], "TrustRegionModel"] | None = None

    @cached_property
    def _whitened(self) -> tuple[Array, Array, Array]:
        """Gradient in the norm of the trust region, its components along V, and the rest."""
        g = self.metric.solve_lower(self.gradient)
        a = self.V.T @ g
        return g, a, g - self.V @ a

    def minimise(self, radius: float) -> TrustRegionStep:
        """Return the minimiser within the trust region and the limits."""
        step = self._step_without_limits(radius)
        return step if self._within_limits(step.change) else self._step_within_limits(radius)

    def _step_without_limits(self, radius: float) -> TrustRegionStep:
        _, a, rest = self._whitened
        c = self.curvature
        least = max(0.0, -float(np.min(c, initial=0.0)))
        if not np.isfinite(radius):  # no trust region: take the absolute curvature
            c = np.maximum(np.abs(c), 1e-12 * np.abs(c).max(initial=1.0))
            return self._whitened_step(-(self.V @ (a / c)) - rest, 0.0)
        size = lambda s: float(np.sqrt((rest @ rest) / (1.0 + s) ** 2 + np.sum((a / (c + s)) ** 2)))
        low = least * (1.0 + 1e-12) + (1e-300 if least else 0.0)
        if least == 0.0 and size(0.0) <= radius:
            return self._whitened_step(-(self.V @ (a / c)) - rest, 0.0)
        # the hard case: add a step along the most negative curvature
        if least and size(low + 1e-9 * least) <= radius:
            w = -(self.V @ (a / (c + low + 1e-9 * least))) - rest / (1.0 + low)
            v = self.V[:, int(np.argmin(c))]
            return self._whitened_step(w + np.sqrt(max(radius**2 - float(w @ w), 0.0)) * v, low)
        high = low + max(1.0, float(np.linalg.norm(self._whitened[0])) / radius)
        while size(high) > radius:
            high *= 2.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if size(middle) > radius else (low, middle)
            if high - low <= 1e-6 * high:
                break
        return self._whitened_step(-(self.V @ (a / (c + high))) - rest / (1.0 + high), high)

    def _whitened_step(self, w: Array, shift: float) -> TrustRegionStep:
        g = self._whitened[0]
        along = self.V.T @ w
        gain = -float(g @ w + 0.5 * (w @ w + (self.curvature - 1.0) @ along**2))
        return TrustRegionStep(
            change=unflatten_controls(self.metric.solve_lower_transpose(w), self.controls.shape),
            gain=gain,
            size=float(np.linalg.norm(w)),
            shift=shift,
        )

    # Limits

    def _within_limits(self, change: Array) -> bool:
        return self.problem.limit_violation(self.controls + change) <= 1e-12

    def _step_within_limits(self, radius: float) -> TrustRegionStep:
        """Return the step from a quadratic program with limits.

        The shift grows from zero until the step is within the radius.
        """
        shift = 0.0
        for _ in range(30):
            d = clip_to_limits(self.problem, self.controls, self._solve_limited(shift))
            w = self._size(d)
            if w <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * w / radius - 1.0)
        gain = -float(self.gradient @ d + 0.5 * self._quadratic_form(d))
        return TrustRegionStep(
            change=unflatten_controls(d, self.controls.shape), gain=gain, size=w, shift=shift
        )

    def _size(self, d: Array) -> float:
        return float(np.sqrt(max(d @ (self.metric.sparse @ d), 0.0)))

    def _quadratic_form(self, d: Array) -> float:
        return float(d @ (self.metric.sparse @ d) + np.sum((self.rows @ d) ** 2))

    def _solve_limited(self, shift: float) -> Array:
        """Minimise g d + 1/2 (1 + shift) d B d + 1/2 |z|^2 with z = rows d within the limits."""
        n, r = len(self.gradient), len(self.rows)
        scale = max(float(np.abs(self.gradient).max()), 1e-300)
        P = sp.block_diag(
            [(1.0 + shift) / scale * self.metric.sparse, sp.identity(r) / scale], format="csc"
        )
        A = sp.hstack([sp.csc_matrix(self.rows), -sp.identity(r)], format="csc")
        G, low, high = limit_rows(self.problem, self.controls)
        out = solve_qp(
            P,
            np.concatenate([self.gradient / scale, np.zeros(r)]),
            A,
            np.zeros(r),
            sp.hstack([G, sp.csc_matrix((G.shape[0], r))], format="csc"),
            low,
            high,
        )
        return out[:n]


def unflatten_controls(d: Array, shape: tuple[int, ...]) -> Array:
    """Return variables (n_variables,) as controls of a shape (steps, n_controls)."""
    return d.reshape(shape[1], shape[0]).T


def clip_to_limits(problem: Problem, controls: Array, d: Array) -> Array:
    """Return d (n_variables,) with controls + d clipped to their bounds of order 0.

    A solver of quadratic programs meets them roughly.
    """
    flat = controls.T.ravel()
    for bound in problem.control_bounds:
        if bound.order == 0:
            lower, upper = (np.repeat(side, problem.steps) for side in (bound.lower, bound.upper))
            d = np.clip(flat + d, lower, upper) - flat
    return d


def limit_rows(problem: Problem, controls: Array) -> tuple[sp.csc_matrix, Array, Array]:
    """Return (G, low, high) of the limits low <= G d <= high on a change d of the controls.

    There is one row for each finite limit, control and step.
    """
    N = problem.steps
    G, low, high = [sp.csc_matrix((0, problem.n_variables))], [np.zeros(0)], [np.zeros(0)]
    for bound in problem.control_bounds:
        now = apply_stencil(bound.stencil, controls, problem.previous_control)
        D = sp.diags(
            [np.full(N - j, c) for j, c in enumerate(bound.stencil) if j < N],
            [-j for j in range(min(len(bound.stencil), N))],
            shape=(N, N),
        )
        bounded = np.isfinite(bound.lower) | np.isfinite(bound.upper)
        G.append(sp.kron(sp.diags(bounded.astype(float)).tocsr()[bounded], D))
        low.append((bound.lower - now).T[bounded].ravel())
        high.append((bound.upper - now).T[bounded].ravel())
    return sp.vstack(G, format="csc"), np.concatenate(low), np.concatenate(high)


def solve_qp(P: Any, c: Array, A: Any, b: Array, G: Any, low: Array, high: Array) -> Array:
    """Minimise 1/2 x P x + c x with A x = b and low <= G x <= high, by PIQP.

    P, A and G are all sparse (csc_matrix) or all dense. Raises InputError if the data are not
    finite or no x satisfies the limits.
    """
    import piqp

    numbers = (P.data, c, A.data) if sp.issparse(P) else (P, c, A)
    if not all(np.all(np.isfinite(part)) for part in numbers):
        raise InputError(
            "The quadratic program of a planner is not finite; scale the weights of the terms down."
        )
    solver = piqp.SparseSolver() if sp.issparse(P) else piqp.DenseSolver()
    solver.settings.verbose = False
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    # Infinite bounds are passed as such: PIQP treats 1e20 as a number and fails.
    solver.setup(P, c, A, b, G, low, high)
    status = solver.solve()
    x = np.array(solver.result.x)
    worst = (
        float(np.maximum(low - G @ x, G @ x - high).max(initial=0.0))
        if np.all(np.isfinite(x))
        else np.inf
    )
    if status != piqp.PIQP_SOLVED and worst > 1e-6 * max(
        1.0, float(np.abs(G @ x).max(initial=0.0))
    ):
        raise InputError(
            "No controls satisfy all limits: the bounds on the control, its rate and its "
            "acceleration contradict each other from the first step on; widen one of them or "
            "start from another control."
        )
    return x


def project_to_limits(problem: Problem, controls: Array, weight: Array | None = None) -> Array:
    """Return the closest controls (steps, n_controls) that satisfy all limits.

    `weight` (steps, n_controls) scales the squared distance of each entry; None for 1. Raises
    InputError if no controls satisfy the limits.
    """
    bounds = [bound for bound in problem.control_bounds if bound.order == 0]
    clipped = np.clip(
        controls,
        np.max([bound.lower for bound in bounds], axis=0),
        np.min([bound.upper for bound in bounds], axis=0),
    )
    if len(bounds) == len(problem.control_bounds) or problem.limit_violation(controls) <= 1e-9:
        return clipped
    G, low, high = limit_rows(problem, controls)
    n = problem.n_variables
    P = sp.identity(n, format="csc") if weight is None else sp.diags(weight.T.ravel(), format="csc")
    return controls + unflatten_controls(
        solve_qp(P, np.zeros(n), sp.csc_matrix((0, n)), np.zeros(0), G, low, high),
        controls.shape,
    )


def check_derivatives(*parts: Array) -> None:
    """Raise InputError if the square of a derivative would overflow."""
    if any(not np.abs(part).max(initial=0.0) < 1e140 for part in parts):
        raise InputError(
            "The derivatives of the objective overflow; scale the weights of its terms down."
        )


def low_rank_model(
    problem: Problem, controls: Array, gradient: Array, rows: Array
) -> TrustRegionModel:
    """Return the model with H = B + F^T F for few rows F (r, n_variables)."""
    check_derivatives(gradient, rows)
    r, n = rows.shape
    m = control_metric(problem, float(np.sum(rows**2)) / n)
    if r >= n:
        return dense_model(problem, controls, gradient, m, m.sparse.toarray() + rows.T @ rows)
    Q, T = (
        np.linalg.qr(m.solve_lower(np.ascontiguousarray(rows.T)))
        if r
        else (np.zeros((n, 0)), np.zeros((0, 0)))
    )
    values, E = np.linalg.eigh(T @ T.T)
    return TrustRegionModel(
        problem=problem,
        controls=controls,
        gradient=gradient,
        metric=m,
        V=Q @ E,
        curvature=1.0 + np.maximum(values, 0.0),
        rows=rows,
    )


def dense_model(
    problem: Problem, controls: Array, gradient: Array, m: ControlMetric, H: Array
) -> TrustRegionModel:
    """Return the model with a symmetric H (n_variables, n_variables).

    With active limits only the curvature above B is used.
    """
    check_derivatives(gradient, H)
    half = m.solve_lower(np.ascontiguousarray(H))
    white = m.solve_lower(np.ascontiguousarray(half.T))
    curvature, V = scipy.linalg.eigh(0.5 * (white + white.T))
    above = curvature > 1.0 + 1e-12
    rows = np.sqrt(curvature[above] - 1.0)[:, None] * m.multiply_lower(V[:, above]).T
    return TrustRegionModel(
        problem=problem,
        controls=controls,
        gradient=gradient,
        metric=m,
        V=V,
        curvature=curvature,
        rows=rows,
    )
