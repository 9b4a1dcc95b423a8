"""Grid: interpolation on a lattice whose corners are evaluated when a query first needs them (paper
000 section IV-C)."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array, InputError, is_whole, quoted
from pliant.store.digest import digest
from pliant.surrogate.corners import Corner, Corners, check_corners
from pliant.surrogate.domain import check_domain, check_lengths, check_query, each_axis, within
from pliant.surrogate.hermite import (
    assembled,
    contract,
    contraction,
    corner_offsets,
    mixed_derivatives,
)
from pliant.surrogate.sample import Sample, SampleError

MOST_NUMBERS = 30_000_000  # in all tables that are kept
FAR = 1.0  # of the way that a slope predicts; a map that bends as much as it moves


def require_values(points: Array, corners: Sequence[Corner]) -> None:
    """A sentence unless the exact map has a value at every one of a cell's corners."""
    for x, corner in zip(points, corners, strict=True):
        if corner.failed:
            raise SampleError(
                f"The exact map has no value at the corner {np.array2string(x, precision=5)}, "
                f"which this cell needs ({corner.failed}); keep away from it, or take a smaller "
                "cell."
            )


class Grid:
    """A C1 interpolant of fourth order on a lattice origin + cell / 2^level Z^d, built on demand.

    Corners carry value, slope and mixed derivatives. The last are taken from the first cell that a
    corner belongs to, and stay; the store remembers which cell that was, so that the same
    interpolant comes back whatever is asked first.
    """

    def __init__(
        self,
        corners: Corners,
        *,
        cell: Array | float | Sequence[float],
        origin: Array | float | None = None,
        level: int = 0,
        domain: object = None,
    ) -> None:
        check_corners(corners)
        if not is_whole(level) or not 0 <= level <= 50:
            raise InputError(
                f"The level of a grid is {quoted(level)}; give a whole number from 0 up."
            )
        self.corners, self.level = corners, int(level)
        self.cell = check_lengths("The cell of a grid", cell, self.dim)  # at level 0
        # a third of a cell off zero: zero then is a corner on no level, and what stays near it
        # needs one cell, not 2^d
        self.origin = (
            -self.cell / 3.0
            if origin is None
            else each_axis("The origin of a grid", origin, self.dim)
        )
        self.domain = check_domain(domain, self.dim)
        self.size = self.cell / 2.0**level  # (d,) of a cell here
        self._lattice = digest(self.cell, self.origin)
        self.doubts: list[str] = []
        self._tables: dict[bytes, Array] = {}  # cell -> (4^d, r)
        self._data: dict[bytes, Array] = {}  # corner -> (2^d, r), frozen

    @property
    def dim(self) -> int:
        return self.corners.dim

    @property
    def evaluations(self) -> int:
        return self.corners.evaluations

    @property
    def changes(self) -> int:
        """Never: what was answered stays."""
        return 0

    def refined(self) -> "Grid":
        """The grid of half the cell on the same corners."""
        return Grid(
            self.corners,
            cell=self.cell,
            origin=self.origin,
            level=self.level + 1,
            domain=self.domain,
        )

    def widened(self, domain: object) -> "Grid":
        """The same grid on another domain."""
        return Grid(
            self.corners, cell=self.cell, origin=self.origin, level=self.level, domain=domain
        )

    # Queries

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(value (N,), slope (N, d)) of the interpolant at x (d,): the slope is its exact
        derivative."""
        return self.corners.expand(self.rows(x))

    def rows(self, x: Array, second: bool = False) -> Array:
        """(1 + d, r) the coefficients of value and slopes, with `second` also of the second
        derivatives (0, 0), (0, 1), ..., (1, 1), ..."""
        place = (check_query(x, self.domain) - self.origin) / self.size
        index = np.floor(place).astype(np.int64)
        table = self._tables.get(index.tobytes())
        if table is None:
            table = self._table(index)
        return contract(table, place - index, self.size, *contraction(self.dim, second))

    def new_samples(self) -> list[Sample]:
        """The exact values at corners of this level that no larger cell has."""
        good = [s for s in self.corners.samples.values() if not s.failed]
        places = [(s.point - self.origin) / self.size for s in good]
        here = [
            bool(
                np.all(np.abs(p - np.rint(p)) < 1e-9)
                and (self.level == 0 or np.any(np.rint(p) % 2.0))
            )
            for p in places
        ]
        return [s for s, mine in zip(good, here, strict=True) if mine]

    def holds(self, x: Array) -> bool:
        """Can a query be answered without another exact evaluation?"""
        if not np.all(within(x, self.domain)):
            return False
        index = np.floor((x - self.origin) / self.size).astype(np.int64)
        return index.tobytes() in self._tables or self.corners.valued(
            self._points(index + corner_offsets(self.dim))
        )

    # Cells

    def _points(self, index: Array) -> Array:
        """(n, d) where corners (n, d) stand; the same bits on every level that has them."""
        return self.origin + self.cell * (index / 2.0**self.level)

    def _table(self, index: Array) -> Array:
        d = self.dim
        around = index + corner_offsets(d)
        require_values(self._points(around), self.corners.fetch(self._points(around)))
        owners = self.corners.store.own(self.level, around, index, self._lattice)
        self._doubt(around)
        made = {index.tobytes(): self._mixed(index)}
        for corner, owner in zip(around, owners, strict=True):
            if corner.tobytes() not in self._data:
                if owner.tobytes() not in made:
                    made[owner.tobytes()] = self._mixed(owner)
                which = int(((corner - owner) << np.arange(d)).sum())
                self._data[corner.tobytes()] = made[owner.tobytes()][which].copy()
        table = assembled([self._data[corner.tobytes()] for corner in around])
        if (1 + len(self._tables)) * table.size > MOST_NUMBERS:
            self._tables.clear()  # they are made again from the corners' data
        self._tables[index.tobytes()] = table
        return table

    def _doubt(self, around: Array) -> None:
        """Note where a corner is not where the slope at its neighbour leads: the cell is large, or
        they lie on different branches."""
        rows = [corner.rows for corner in self.corners.fetch(self._points(around))]
        for i, bits in enumerate(corner_offsets(self.dim)):
            for axis in np.flatnonzero(bits == 0):
                here, there = rows[i], rows[i + (1 << axis)]
                r = min(here.shape[1], there.shape[1])
                along = self.size[axis] * here[1 + axis, :r]
                if np.linalg.norm(there[0, :r] - here[0, :r] - along) > FAR * np.linalg.norm(along):
                    where = np.array2string(self._points(around[i]), precision=4)
                    self.doubts.append(
                        f"from {where} along axis {axis} the map does not go where its slope "
                        "leads: too large a cell, or these two corners lie on different branches"
                    )
                    return

    def _mixed(self, index: Array) -> Array:
        """(2^d, 2^d, r) the data of a cell's corners as this cell sees them."""
        points = self._points(index + corner_offsets(self.dim))
        corners = self.corners.fetch(points)
        require_values(points, corners)
        found = [corner.rows for corner in corners]
        width = max(rows.shape[1] for rows in found)  # directions that came later are zero
        return mixed_derivatives(
            np.stack([np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in found]),
            self.size,
        )
