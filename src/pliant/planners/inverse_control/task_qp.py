"""The quadratic program of a control step [Rodriguez2017, eq. 3].

Controls are scaled by the displacement that they cause, so that newtons, pascals and radians
compare. The program minimises the error of the effectors. If there are more controls than
directions, a second program reduces the effort without moving an effector, so that cables do not
pull against each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import nnls

from pliant.core import Array
from pliant.planners.inverse_control.motion_constraints import ConstraintRows
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES, Tolerances


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskQP:
    """min |J z - e|^2 + damping |z|^2 with lower <= z <= upper and low <= G z <= high; all in
    metres but J and G."""

    J: Array  # (r, n) [-] Jacobian of the controlled directions, times the root of their weights
    e: Array  # (r,) their error at the end of the step if no control changes
    damping: float
    lower: Array  # (n,)
    upper: Array  # (n,)
    G: Array  # (k, n) [-] rows of length one
    low: Array  # (k,)
    high: Array  # (k,)
    names: tuple[str, ...]  # (k,) the constraint of each row
    unit: float  # [m] the size of the error, to scale the program
    tolerances: Tolerances = DEFAULT_TOLERANCES

    @cached_property
    def matrices(self) -> tuple[Array, Array, Array, Array, Array]:
        """(P, c, A, low, high) of min 1/2 z P z + c z with low <= A z <= high, in `unit`s."""
        n, unit = self.J.shape[1], self.unit
        return (
            self.J.T @ self.J + self.damping * np.eye(n),
            -self.J.T @ self.e / unit,
            np.vstack([np.eye(n), self.G]),
            np.concatenate([self.lower, self.low]) / unit,
            np.concatenate([self.upper, self.high]) / unit,
        )

    def solve(self) -> tuple[Array, tuple[str, ...]] | None:
        """Return (z (n,), the names of violated constraints), None if the limits of the controls
        contradict each other."""
        z = solve_qp(*self.matrices)
        if z is not None:
            return self._clipped(self.unit * z, self.unit), ()
        z = self._solve_softened()
        if z is None:
            return None
        z = self._clipped(self.unit * z, self.unit)
        excess = np.maximum(self.low - self.G @ z, self.G @ z - self.high)
        violated = np.flatnonzero(excess > 1e-3 * self.unit)
        return z, tuple(dict.fromkeys(self.names[j] for j in violated))

    def _solve_softened(self) -> Array | None:
        """Solve with one more variable s >= 0 by which all rows may be violated, at a cost."""
        (P, c, _, low, high), cost = self.matrices, self.tolerances.violation_cost
        n, k = len(c), len(self.G)
        none, one = np.full(k, np.inf), np.ones((k, 1))
        A = np.block([[np.eye(n + 1)], [self.G, one], [self.G, -one]])
        soft = np.diag(np.r_[np.zeros(n), cost])
        soft[:n, :n] = P
        z = solve_qp(
            soft,
            np.r_[c, cost],
            A,
            np.r_[low[:n], 0, low[n:], -none],
            np.r_[high[:n], np.inf, none, high[n:]],
        )
        return None if z is None else z[:n]

    def _clipped(self, z: Array, size: float) -> Array:
        """Exactly within the limits of the controls, and at those that are active. `size` [m] is
        the length of the step, which scales its round-off."""
        near = self.tolerances.round_off * size
        z = np.where(z >= self.upper - near, self.upper, z)
        return np.where(z <= self.lower + near, self.lower, z)

    def reduce_effort(self, z: Array, offset: Array, trust_radius: float) -> Array:
        """(n,) z moved towards -offset (n,), as far as no effector moves and no bound is violated
        further."""
        _, s, Vt = np.linalg.svd(self.J, full_matrices=True)
        rank = int(np.sum(s > 1e-7 * s.max(initial=0.0)))
        N = Vt[rank:].T
        wanted = -N.T @ (offset + z)
        size = float(np.abs(wanted).max(initial=0.0))
        if size <= self.tolerances.round_off * trust_radius:
            return z
        unit = min(size, 0.2 * trust_radius)
        A = np.vstack([np.eye(len(z)), self.G])
        low = np.minimum(np.concatenate([self.lower, self.low]) - A @ z, 0.0) / unit
        high = np.maximum(np.concatenate([self.upper, self.high]) - A @ z, 0.0) / unit
        y = solve_qp(np.eye(N.shape[1]), -wanted / size, A @ N, low, high)
        return z if y is None else self._clipped(z + unit * (N @ y), max(unit, self.unit))

    def active_constraints(self, z: Array) -> tuple[list[int], tuple[str, ...]]:
        """Return (the controls, the names of the rows) whose bounds keep z from a smaller error:
        those with a significant multiplier."""
        n, rows = len(z), np.vstack([np.eye(len(z)), self.G])
        near = self.tolerances.active_bound * self.unit
        at_upper = np.concatenate([self.upper - z, self.high - self.G @ z]) <= near
        at_lower = np.concatenate([z - self.lower, self.G @ z - self.low]) <= near
        above, below = np.flatnonzero(at_upper), np.flatnonzero(at_lower)
        if not above.size + below.size:
            return [], ()
        gradient = self.J.T @ (self.e - self.J @ z)
        multipliers, _ = nnls(np.vstack([rows[above], -rows[below]]).T, gradient)
        active = np.r_[above, below]
        effect = np.linalg.norm(rows[active] @ self.J.T, axis=1)  # of a step along each row
        least = np.maximum(1e-3 * effect, self.tolerances.active_bound * np.linalg.norm(self.J))
        strong = np.unique(active[multipliers > least * np.linalg.norm(self.e)]).tolist()
        names = dict.fromkeys(self.names[j - n] for j in strong if j >= n)
        return [j for j in strong if j < n], tuple(names)


def task_qp(
    J: Array,
    e: Array,
    lower: Array,
    upper: Array,
    rows: Sequence[ConstraintRows],
    scale: Array,
    damping: float,
    smallest: float,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
) -> TaskQP:
    """Return the program over z = scale du from J, bounds and rows over du; scale (n,) [m per
    unit], and lengths below `smallest` [m] are rounding errors."""
    G = np.vstack([np.zeros((0, len(scale))), *(part.slope for part in rows)]) / scale
    low = np.concatenate([np.zeros(0), *(part.low for part in rows)])
    high = np.concatenate([np.zeros(0), *(part.high for part in rows)])
    names = [part.name for part in rows for _ in part.low]
    size = np.linalg.norm(G, axis=1)
    some = size > tolerances.round_off * max(1.0, float(size.max(initial=0.0)))  # has an effect
    G, low, high = G[some] / size[some, None], low[some] / size[some], high[some] / size[some]
    return TaskQP(
        J=J / scale,
        e=e,
        damping=damping,
        lower=scale * lower,
        upper=scale * upper,
        G=G,
        low=low,
        high=high,
        names=tuple(name for name, one in zip(names, some, strict=True) if one),
        unit=float(np.concatenate([np.abs(e), np.maximum(low, -high), [smallest]]).max()),
        tolerances=tolerances,
    )


def solve_qp(P: Array, c: Array, A: Array, low: Array, high: Array) -> Array | None:
    """(n,) the minimum of 1/2 z P z + c z with low <= A z <= high, to round-off; None if there is
    none or a number is not finite.

    With P = L L^T and y = L^T (z - z_free) this is a least-distance problem, which one NNLS solves
    (Lawson and Hanson 1974, chapter 23).
    """
    finite = all(np.all(np.isfinite(part)) for part in (P, c, A))
    if not finite or np.any(np.isnan(low) | np.isnan(high)) or np.any(low > high):
        return None
    free = np.linalg.solve(P, -c)
    rows, sides = np.vstack([-A, A]), np.concatenate([-low, high])  # rows z <= sides
    rows, sides = rows[np.isfinite(sides)], sides[np.isfinite(sides)]
    slack = sides - rows @ free
    if np.all(slack >= 0.0):
        return free
    L = np.linalg.cholesky(P)
    G = dtrtrs(L, rows.T, lower=1)[0]  # without the checks of solve_triangular, which take 20 us
    size = np.maximum(np.linalg.norm(G, axis=0), 1e-300)
    G, slack = G / size, slack / size
    try:
        multipliers, _ = nnls(-np.vstack([G, slack]), np.r_[np.zeros(len(c)), 1.0])
    except RuntimeError:  # too many iterations
        return None
    active = multipliers > 0.0
    y = np.linalg.lstsq(G[:, active].T, slack[active], rcond=1e-13)[0]
    z = free + dtrtrs(L.T, y)[0]
    return z if np.all(rows @ z - sides <= 1e-9 * max(1.0, np.abs(z).max())) else None


def nearest_admissible(
    du: Array,
    bounds: tuple[Array, Array],
    rows: Sequence[ConstraintRows],
    scale: Array,
    smallest: float,
    tolerances: Tolerances,
) -> Array:
    """(n,) the change of the controls closest to du (n,) that satisfies the rows.

    At first each control moves between zero and the given change. If that violates a row, as when a
    dynamic robot swings into a bound, the controls that were to move may go back; then all controls
    may move within their bounds.
    """
    found, (lower, upper) = du, bounds
    within = np.minimum(du, 0.0), np.maximum(du, 0.0)
    back = np.where(du > 0.0, lower, within[0]), np.where(du < 0.0, upper, within[1])
    for ends in (within, back, bounds):
        qp = task_qp(np.diag(scale), scale * du, *ends, rows, scale, 0.0, smallest, tolerances)
        best = qp.solve()
        if best is not None:
            same = np.isclose(best[0], scale * du, rtol=tolerances.round_off, atol=0.0)
            found = np.where(same, du, best[0] / scale)
            if all(
                np.all(margin >= -spare) for margin, spare in _margins(rows, found, du, tolerances)
            ):
                break
    return found


def active_rows(
    rows: Sequence[ConstraintRows], du: Array, wanted: Array, tolerances: Tolerances
) -> tuple[str, ...]:
    """Return the names of the rows that a change du (n,) is at, of a `wanted` change (n,)."""
    margins = _margins(rows, du, wanted, tolerances)
    return tuple(
        part.name
        for part, (margin, spare) in zip(rows, margins, strict=True)
        if np.any(margin <= spare)
    )


def _margins(
    rows: Sequence[ConstraintRows], du: Array, wanted: Array, tolerances: Tolerances
) -> list[tuple[Array, Array]]:
    """Return ((k,) the distance of each row from its nearer bound, (k,) its tolerance)."""
    return [
        (
            np.minimum(part.high - part.slope @ du, part.slope @ du - part.low),
            tolerances.active_bound * (np.abs(part.slope) @ np.abs(wanted)),
        )
        for part in rows
    ]
