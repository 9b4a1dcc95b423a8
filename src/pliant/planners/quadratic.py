"""The quadratic model of a shooting planner, and its minimiser within a trust region and the limits
of the controls.

The Hessian is B + F^T F: B of the terms that see the controls alone, banded for each control, F the
few rows of all others. The region is a ball in the norm of B, in which the model is I + G G^T with
G = L^-1 F^T, B = L L^T: nothing is to be scaled by hand. Variables are ordered one control after
the other, all steps of each.
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
from pliant.planners.plan import Evaluation
from pliant.problem import Problem, stencilled


@dataclass(frozen=True, kw_only=True, eq=False)
class Move:
    """A change of the controls that the model proposes."""

    change: Array  # (steps, n_controls)
    gain: float  # how much the model promises to lower the cost
    size: float  # in the norm of the trust region
    shift: float  # multiplier of the region


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """B = L L^T with what is missing to make it positive taken from the size of the other terms."""

    band: Array  # (width + 1, n_variables) lower diagonals
    lower: Array  # of its Cholesky factor
    extra: float = 0.0  # what was added to the diagonal

    def whiten(self, y: Array) -> Array:
        """L^-1 y, for (n,) or (n, k)."""
        return dtbtrs(self.lower, y, uplo="L")[0]

    def colour(self, w: Array) -> Array:
        """L^-T w."""
        return dtbtrs(self.lower, w, uplo="L", trans="T")[0]

    def unwhiten(self, w: Array) -> Array:
        """L w."""
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
        """The whole symmetric B."""
        n = self.band.shape[1]
        lower = sp.diags(
            [row[: n - k] for k, row in enumerate(self.band)],
            [-k for k in range(len(self.band))],
            shape=(n, n),
        )
        return (lower + sp.tril(lower, -1).T).tocsc()


def metric(problem: Problem, scale: float) -> Metric:
    """The metric of a problem; `scale` is a typical curvature of the other terms, for controls that
    no term holds."""
    width = min(max((len(s.stencil) for s in problem.smooths), default=1) - 1, problem.steps - 1)
    bands = sum(
        (s.band(problem.steps, width) for s in problem.smooths),
        np.zeros((problem.model.n_controls, width + 1, problem.steps)),
    )
    band = np.ascontiguousarray(np.swapaxes(bands, 0, 1).reshape(width + 1, -1))
    least = 1e-14 * float(band[0].max()) or 0.0
    lower, info = dpbtrf(band, lower=1)
    if info or not np.all(lower[0] ** 2 > least):
        extra = (1e-8 * scale if scale > 0.0 else 1.0) + 1e-12 * float(band[0].max())
        band[0] += extra
        return Metric(band=band, lower=dpbtrf(band, lower=1)[0], extra=extra)
    return Metric(band=band, lower=lower)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """g . d + 1/2 d^T H d, where L^-1 H L^-T is 1 on the complement of V and `curvature` along its
    columns."""

    problem: Problem
    controls: Array  # (steps, n_controls) where the model was made
    gradient: Array  # (n_variables,)
    metric: Metric
    V: Array  # (n_variables, k) orthonormal
    curvature: Array  # (k,)
    rows: Array  # (r, n_variables) H = B + rows^T rows where limits must be kept
    again: Callable[[Evaluation], "Model"] | None = (
        None  # the model at a run nearby, with the same Jacobian
    )

    @cached_property
    def _whitened(self) -> tuple[Array, Array, Array]:
        """The gradient in the norm of the region, its share along V, and the rest."""
        g = self.metric.whiten(self.gradient)
        a = self.V.T @ g
        return g, a, g - self.V @ a

    def best(self, radius: float) -> Move:
        """The minimiser within a radius, and within the limits."""
        move = self._free(radius)
        return move if self._kept(move.change) else self._limited(radius)

    def _free(self, radius: float) -> Move:
        _, a, rest = self._whitened
        c = self.curvature
        least = max(0.0, -float(np.min(c, initial=0.0)))
        if not np.isfinite(radius):  # no region: negative curvature counts as positive
            c = np.maximum(np.abs(c), 1e-12 * np.abs(c).max(initial=1.0))
            return self._move(-(self.V @ (a / c)) - rest, 0.0)
        size = lambda s: float(np.sqrt((rest @ rest) / (1.0 + s) ** 2 + np.sum((a / (c + s)) ** 2)))
        low = least * (1.0 + 1e-12) + (1e-300 if least else 0.0)
        if least == 0.0 and size(0.0) <= radius:
            return self._move(-(self.V @ (a / c)) - rest, 0.0)
        if (
            least and size(low + 1e-9 * least) <= radius
        ):  # the hard case: go along the most negative direction
            w = -(self.V @ (a / (c + low + 1e-9 * least))) - rest / (1.0 + low)
            v = self.V[:, int(np.argmin(c))]
            return self._move(w + np.sqrt(max(radius**2 - float(w @ w), 0.0)) * v, low)
        high = low + max(1.0, float(np.linalg.norm(self._whitened[0])) / radius)
        while size(high) > radius:
            high *= 2.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if size(middle) > radius else (low, middle)
            if high - low <= 1e-6 * high:
                break
        return self._move(-(self.V @ (a / (c + high))) - rest / (1.0 + high), high)

    def _move(self, w: Array, shift: float) -> Move:
        g = self._whitened[0]
        along = self.V.T @ w
        gain = -float(g @ w + 0.5 * (w @ w + (self.curvature - 1.0) @ along**2))
        return Move(
            change=table(self.metric.colour(w), self.controls.shape),
            gain=gain,
            size=float(np.linalg.norm(w)),
            shift=shift,
        )

    # Limits

    def _kept(self, change: Array) -> bool:
        return self.problem.excess(self.controls + change) <= 1e-12

    def _limited(self, radius: float) -> Move:
        """With the limits as a quadratic program; its shift grows from nothing until the radius is
        kept: the limits alone may do."""
        shift = 0.0
        for _ in range(30):
            d = self._clipped(self._program(shift))
            w = self._size(d)
            if w <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * w / radius - 1.0)
        gain = -float(self.gradient @ d + 0.5 * self._bend(d))
        return Move(change=table(d, self.controls.shape), gain=gain, size=w, shift=shift)

    def _clipped(self, d: Array) -> Array:
        """Exactly within the bounds of the controls themselves, which a program keeps to its
        tolerance."""
        flat = self.controls.T.ravel()
        for band in self.problem.bands:
            if band.order == 0:
                d = (
                    np.clip(
                        flat + d,
                        np.repeat(band.lower, self.problem.steps),
                        np.repeat(band.upper, self.problem.steps),
                    )
                    - flat
                )
        return d

    def _size(self, d: Array) -> float:
        return float(np.sqrt(max(d @ (self.metric.sparse @ d), 0.0)))

    def _bend(self, d: Array) -> float:
        return float(d @ (self.metric.sparse @ d) + np.sum((self.rows @ d) ** 2))

    def _program(self, shift: float) -> Array:
        """min g d + 1/2 (1 + shift) d B d + 1/2 |z|^2 with z = rows d, within the limits; sparse
        but for the few rows."""
        n, r = len(self.gradient), len(self.rows)
        scale = max(float(np.abs(self.gradient).max()), 1e-300)
        P = sp.block_diag(
            [(1.0 + shift) / scale * self.metric.sparse, sp.identity(r) / scale], format="csc"
        )
        A = sp.hstack([sp.csc_matrix(self.rows), -sp.identity(r)], format="csc")
        G, low, high = limit_rows(self.problem, self.controls)
        out = solve_program(
            P,
            np.concatenate([self.gradient / scale, np.zeros(r)]),
            A,
            np.zeros(r),
            sp.hstack([G, sp.csc_matrix((G.shape[0], r))], format="csc"),
            low,
            high,
        )
        return out[:n]


def table(d: Array, shape: tuple[int, ...]) -> Array:
    return d.reshape(shape[1], shape[0]).T


def limit_rows(problem: Problem, controls: Array) -> tuple[sp.csc_matrix, Array, Array]:
    """(G, low, high): low <= G d <= high for changes d of the controls, one row a finite limit,
    control and step."""
    N = problem.steps
    G, low, high = [sp.csc_matrix((0, problem.n_variables))], [np.zeros(0)], [np.zeros(0)]
    for band in problem.bands:
        now = stencilled(band.stencil, controls, problem.first_control)
        D = sp.diags(
            [np.full(N - j, c) for j, c in enumerate(band.stencil) if j < N],
            [-j for j in range(min(len(band.stencil), N))],
            shape=(N, N),
        )
        held = np.isfinite(band.lower) | np.isfinite(band.upper)
        G.append(sp.kron(sp.diags(held.astype(float)).tocsr()[held], D))
        low.append((band.lower - now).T[held].ravel())
        high.append((band.upper - now).T[held].ravel())
    return sp.vstack(G, format="csc"), np.concatenate(low), np.concatenate(high)


def solve_program(P: Any, c: Array, A: Any, b: Array, G: Any, low: Array, high: Array) -> Array:
    """min 1/2 x P x + c x with A x = b and low <= G x <= high, by PIQP; a sentence where there is
    none. P, A and G are sparse (csc_matrix), or all of them arrays, for a program of a few
    variables."""
    import piqp

    numbers = (P.data, c, A.data) if sp.issparse(P) else (P, c, A)
    if not all(np.all(np.isfinite(part)) for part in numbers):
        raise InputError(
            "The quadratic program of a planner is not finite; scale the weights of the terms down."
        )
    solver = piqp.SparseSolver() if sp.issparse(P) else piqp.DenseSolver()
    solver.settings.verbose = False
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    solver.setup(
        P, c, A, b, G, low, high
    )  # infinite sides as they are: PIQP takes 1e20 for a number and fails
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
            "No controls satisfy all limits together: a bound on the control, its rate and its "
            "acceleration contradict each other from the first step on; widen one of them or "
            "start from another control."
        )
    return x


def within_limits(problem: Problem, controls: Array, weight: Array | None = None) -> Array:
    """(steps, n_controls) the nearest controls that keep all limits, each entry's distance times a
    weight (None: all the same). A clip, or a quadratic program where rates are limited too."""
    bounds = [band for band in problem.bands if band.order == 0]
    clipped = np.clip(
        controls,
        np.max([band.lower for band in bounds], axis=0),
        np.min([band.upper for band in bounds], axis=0),
    )
    if len(bounds) == len(problem.bands) or problem.excess(controls) <= 1e-9:
        return clipped
    G, low, high = limit_rows(problem, controls)
    n = problem.n_variables
    P = sp.identity(n, format="csc") if weight is None else sp.diags(weight.T.ravel(), format="csc")
    return controls + table(
        solve_program(P, np.zeros(n), sp.csc_matrix((0, n)), np.zeros(0), G, low, high),
        controls.shape,
    )


def check_finite(*parts: Array) -> None:
    """A sentence where derivatives are too large to be squared."""
    if any(not np.abs(part).max(initial=0.0) < 1e140 for part in parts):
        raise InputError(
            "The derivatives of the objective overflow; scale the weights of its terms down."
        )


def low_rank_model(problem: Problem, controls: Array, gradient: Array, rows: Array) -> Model:
    """H = B + F^T F with few rows F (r, n_variables)."""
    check_finite(gradient, rows)
    r, n = rows.shape
    m = metric(problem, float(np.sum(rows**2)) / n)
    if r >= n:
        return dense_model(problem, controls, gradient, m, m.sparse.toarray() + rows.T @ rows)
    Q, T = (
        np.linalg.qr(m.whiten(np.ascontiguousarray(rows.T)))
        if r
        else (np.zeros((n, 0)), np.zeros((0, 0)))
    )
    values, E = np.linalg.eigh(T @ T.T)
    return Model(
        problem=problem,
        controls=controls,
        gradient=gradient,
        metric=m,
        V=Q @ E,
        curvature=1.0 + np.maximum(values, 0.0),
        rows=rows,
    )


def dense_model(problem: Problem, controls: Array, gradient: Array, m: Metric, H: Array) -> Model:
    """Any symmetric H (n_variables, n_variables); where limits must be kept, its part above B."""
    check_finite(gradient, H)
    half = m.whiten(np.ascontiguousarray(H))
    white = m.whiten(np.ascontiguousarray(half.T))
    curvature, V = scipy.linalg.eigh(0.5 * (white + white.T))
    above = curvature > 1.0 + 1e-12
    rows = np.sqrt(curvature[above] - 1.0)[:, None] * m.unwhiten(V[:, above]).T
    return Model(
        problem=problem,
        controls=controls,
        gradient=gradient,
        metric=m,
        V=V,
        curvature=curvature,
        rows=rows,
    )
