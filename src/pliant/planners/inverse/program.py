"""The quadratic program of a tick (paper 002 eq. 3), and beneath it a second one for what the first
leaves open.

Both are in lengths: a control counts by how far it moves the node that it moves most, so that
newtons, pascals and radians compare. The first program brings the effectors as near as it can.
Where there are more controls than it takes, the second goes back towards the controls that do
nothing, without moving an effector, so that cables do not end up pulling against each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from pliant.core import Array, InputError
from pliant.planners.inverse.rows import Rows
from pliant.planners.quadratic import solve_program

# bounds further away than so many times what is missing cannot be reached: they count as none
OPEN = 1e5
NONE = 1e-7  # of the largest, below which a singular value counts as zero
PRICE = 1e4  # what a bound that cannot be kept costs beside a miss of the same length
RELAXES = 0.2  # of the reach, what the second program may move
ROUND = 1e-12  # [m] that is nothing
NEXT = 1e-5  # to a bound, in units of what is missing
ALMOST = 1e-10  # zero, in the same units
ROUNDS = 20  # of taking up and letting go of bounds
UNSURE = 1e-3  # damping, above which nothing is moved that the effectors do not need


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """min |J z - e|^2 + damping |z|^2 with lower <= z <= upper and low <= G z <= high. All but J
    and G in metres."""

    # (r, n) [-] how the wanted directions of the effectors answer, by the root of their weight
    J: Array
    e: Array  # (r,) what they miss at the end of the tick where no control changes
    damping: float
    lower: Array  # (n,)
    upper: Array  # (n,)
    G: Array  # (k, n) [-] rows of length one
    low: Array  # (k,)
    high: Array  # (k,)
    names: tuple[str, ...]  # (k,) what each row keeps
    unit: float  # the size of what is missing, for a solver that knows no metres

    @cached_property
    def quadratic(self) -> tuple[Array, Array, Array, Array, Array]:
        """(P, c, A, low, high) of min 1/2 z P z + c z with low <= A z <= high, in units of what is
        missing."""
        n, unit = self.J.shape[1], self.unit
        return (
            self.J.T @ self.J + self.damping * np.eye(n),
            -self.J.T @ self.e / unit,
            np.vstack([np.eye(n), self.G]),
            np.concatenate([self.lower, self.low]) / unit,
            np.concatenate([self.upper, self.high]) / unit,
        )

    def best(self) -> tuple[Array, tuple[str, ...]] | None:
        """((n,) z, what could not be kept), None where not even the limits of the controls can
        be."""
        z = _bounded(*self.quadratic)
        if z is not None:
            return self._clipped(self.unit * z), ()
        z = self._softened()
        if z is None:
            return None
        z = self._clipped(self.unit * z)
        return z, tuple(
            dict.fromkeys(self.names[j] for j in np.flatnonzero(self._excess(z) > 1e-3 * self.unit))
        )

    def _excess(self, z: Array) -> Array:
        return np.maximum(self.low - self.G @ z, self.G @ z - self.high)

    def _clipped(self, z: Array) -> Array:
        """Exactly within the limits of the controls, and at them where a program with its tolerance
        is."""
        near = max(1e-8 * self.unit, ROUND)
        return np.where(
            z <= self.lower + near, self.lower, np.where(z >= self.upper - near, self.upper, z)
        )

    def _softened(self) -> Array | None:
        """With one more variable s >= 0 by which all rows may be passed, at a price."""
        P, c, A, low, high = self.quadratic
        n = len(c)
        upper = np.column_stack([A, np.r_[np.zeros(n), np.ones(len(self.G))]])
        lower = np.column_stack([self.G, -np.ones(len(self.G))])
        rows = np.vstack([upper, lower, np.eye(n + 1)[n:]])
        bounds = (
            np.r_[low, np.full(len(self.G), -np.inf), 0.0],
            np.r_[high[:n], np.full(len(self.G), np.inf), high[n:], np.inf],
        )
        whole = np.zeros((n + 1, n + 1))
        whole[:n, :n], whole[n, n] = P, PRICE
        z = _bounded(whole, np.r_[c, PRICE], rows, *bounds)
        return None if z is None else z[:n]

    def relaxed(self, z: Array, away: Array, reach: float) -> Array:
        """(n,) z moved towards where `away` (n,) + z is zero, as far as no effector moves by it and
        everything is kept as z keeps it."""
        _, s, Vt = np.linalg.svd(self.J, full_matrices=True)
        N = Vt[int(np.sum(s > NONE * s.max(initial=0.0))) :].T
        wish = -N.T @ (away + z)
        size = float(np.abs(wish).max(initial=0.0))
        if size <= 1e-9 * reach or self.damping > UNSURE:
            return z
        unit = min(size, RELAXES * reach)
        rows = np.vstack([np.eye(len(z)), self.G])
        at = rows @ z
        low = np.minimum(np.concatenate([self.lower, self.low]) - at, 0.0) / unit
        high = np.maximum(np.concatenate([self.upper, self.high]) - at, 0.0) / unit
        y: Array | None
        if N.shape[1] == 1:
            y = _along(rows @ N[:, 0], wish[0] / size, low, high)
        else:
            y = _bounded(np.eye(N.shape[1]), -wish / size, rows @ N, low, high)
        return z if y is None else self._clipped(z + unit * (N @ y))

    def stops(self, z: Array) -> tuple[list[int], tuple[str, ...]]:
        """(the controls whose limits keep z from a better place, the names of the rows that do):
        those with a multiplier, by which they balance what pulls at z."""
        n, rows = len(z), np.vstack([np.eye(len(z)), self.G])
        room = (
            np.concatenate([self.upper - z, self.high - self.G @ z]),
            np.concatenate([z - self.lower, self.G @ z - self.low]),
        )
        (above,), (below,) = (np.nonzero(side <= 1e-6 * self.unit) for side in room)
        sides, pull = np.r_[above, below], self.J.T @ (self.e - self.J @ z)
        multipliers, _ = (
            nnls(np.vstack([rows[above], -rows[below]]).T, pull)
            if sides.size
            else (np.zeros(0), 0.0)
        )
        moves = np.linalg.norm(rows[sides] @ self.J.T, axis=1)  # what a step along each row does
        strong = multipliers > np.maximum(
            1e-3 * moves, 1e-6 * np.linalg.norm(self.J)
        ) * np.linalg.norm(self.e)
        held = np.unique(sides[strong]).tolist()
        return [j for j in held if j < n], tuple(
            dict.fromkeys(self.names[j - n] for j in held if j >= n)
        )


def program(
    J: Array,
    e: Array,
    lower: Array,
    upper: Array,
    rows: Sequence[Rows],
    scale: Array,
    damping: float,
    least: float,
) -> Program:
    """The program over z = scale du, from rows over du; scale (n,) [m per unit], and `least` [m] is
    nothing to speak of."""
    n = len(scale)
    G = np.vstack([np.zeros((0, n)), *(part.slope for part in rows)]) / scale
    low, high = (
        np.concatenate([np.zeros(0), *(part.low for part in rows)]),
        np.concatenate([np.zeros(0), *(part.high for part in rows)]),
    )
    names = [part.name for part in rows for _ in part.low]
    size = np.linalg.norm(G, axis=1)
    moved = size > 1e-9 * max(1.0, float(size.max(initial=0.0)))  # no control changes the others
    G, low, high = G[moved] / size[moved, None], low[moved] / size[moved], high[moved] / size[moved]
    asked = np.concatenate([np.abs(e), np.maximum(low, -high), [least]])
    kept = tuple(name for name, some in zip(names, moved, strict=True) if some)
    return Program(
        J=J / scale,
        e=e,
        damping=damping,
        lower=scale * lower,
        upper=scale * upper,
        G=G,
        low=low,
        high=high,
        names=kept,
        unit=float(asked.max()),
    )


def _along(a: Array, wish: float, low: Array, high: Array) -> Array:
    """(1,) the number y nearest to a wish with low <= a y <= high, where zero is one."""
    some = np.abs(a) > 1e-12
    ends = np.sort(np.stack([low[some], high[some]]) / a[some], axis=0)
    return np.clip([wish], ends[0].max(initial=-np.inf), ends[1].min(initial=np.inf))


def _bounded(P: Array, c: Array, A: Array, low: Array, high: Array) -> Array | None:
    """min 1/2 z P z + c z with low <= A z <= high, None where there is none or a number is not one:
    no solver looks for that."""
    if (
        not all(np.all(np.isfinite(part)) for part in (P, c, A))
        or np.any(np.isnan(low))
        or np.any(np.isnan(high))
        or np.any(low > high)
    ):
        return None
    z = np.linalg.solve(P, -c)
    if np.all((A @ z >= low) & (A @ z <= high)):  # nothing is in the way
        return z
    n = len(c)
    low, high = np.where(low < -OPEN, -np.inf, low), np.where(high > OPEN, np.inf, high)
    held = np.isfinite(low) | np.isfinite(high)
    try:
        z = solve_program(P, c, np.zeros((0, n)), np.zeros(0), A[held], low[held], high[held])
    except InputError:
        return None
    return _polished(P, c, A[held], low[held], high[held], z) if np.all(np.isfinite(z)) else None


def _polished(P: Array, c: Array, A: Array, low: Array, high: Array, z: Array) -> Array:
    """The optimum, exact to round-off, from an interior solution z next to it: bounds are taken up
    where they are passed and let go where they pull, for a few rounds; z where that does not
    end."""
    n, rows, sides = len(c), np.vstack([-A, A]), np.concatenate([-low, high])  # rows z <= sides
    held: list[int] = np.flatnonzero(sides - rows @ z < NEXT).tolist()
    for _ in range(ROUNDS):
        E = rows[held]
        matrix, right = (
            np.block([[P, E.T], [E, np.zeros((len(E), len(E)))]]),
            np.concatenate([-c, sides[held]]),
        )
        found = np.linalg.lstsq(matrix, right, rcond=1e-13)[0]
        if np.abs(matrix @ found - right).max() > ALMOST:  # bounds that contradict each other
            return z
        passed = rows @ found[:n] - sides
        if passed.max(initial=0.0) > ALMOST:
            held.append(int(passed.argmax()))
        elif found[n:].min(initial=0.0) < -ALMOST:
            held.pop(int(found[n:].argmin()))
        else:
            return found[:n]
    return z
