"""Interpolation on a lattice whose corners are evaluated on demand [Jia2019, section IV-C]."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.core import Array, InputError, is_integer, quoted, require_kind
from pliant.store.digest import digest
from pliant.surrogate.corners import Corner, Corners, check_corners
from pliant.surrogate.domain import check_domain, check_lengths, check_query, each_axis, within
from pliant.surrogate.hermite import (
    cell_table,
    contract,
    contraction_plan,
    corner_offsets,
    mixed_derivatives,
)
from pliant.surrogate.sample import Sample, SampleError

MAX_CACHED_NUMBERS = 30_000_000  # in all cached tables
MAX_SLOPE_ERROR = 1.0  # relative to the change that a slope predicts


def require_values(points: Array, corners: Sequence[Corner]) -> None:
    """Raise SampleError unless the exact map has a value at every corner of a cell."""
    for x, corner in zip(points, corners, strict=True):
        if corner.failed:
            raise SampleError(
                f"The exact map has no value at the corner {np.array2string(x, precision=5)}, "
                f"which this cell needs ({corner.failed}). Keep away from it, or use a smaller "
                "cell."
            )


class Grid:
    """A C1 interpolant of fourth order on the lattice origin + cell / 2^level Z^d, built on demand.

    Corners have value, slope and mixed derivatives. The mixed derivatives come from the first cell
    that uses a corner. The store records that cell, so the interpolant does not depend on the order
    of later queries. `namespace` names these records: runs that share a store but have different
    namespaces do not change each other's interpolant, and still share all exact evaluations. Raises
    InputError for invalid arguments.
    """

    def __init__(
        self,
        corners: Corners,
        *,
        cell: Array | float | Sequence[float],
        origin: Array | float | None = None,
        level: int = 0,
        domain: object = None,
        namespace: str = "",
    ) -> None:
        check_corners(corners)
        require_kind("The namespace of a grid", namespace, str, "give a name such as 'seed-1'")
        if not is_integer(level) or not 0 <= level <= 50:
            raise InputError(
                f"The level of a grid is {quoted(level)}. Give a whole number from 0 to 50."
            )
        self.corners, self.level = corners, int(level)
        self.cell = check_lengths("The cell of a grid", cell, self.dim)  # at level 0
        # offset by a third of a cell: zero is then no corner on any level, so queries near zero
        # need one cell, not 2^d
        self.origin = (
            -self.cell / 3.0
            if origin is None
            else each_axis("The origin of a grid", origin, self.dim)
        )
        self.domain = check_domain(domain, self.dim)
        self.size = self.cell / 2.0**level  # (d,) of a cell here
        self.namespace = namespace
        self._lattice = digest(self.cell, self.origin, *([namespace] if namespace else []))
        self.warnings: list[str] = []
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
        """Zero: results never change."""
        return 0

    def refined(self) -> "Grid":
        """Return the grid with half the cell size on the same corners."""
        return self._changed(level=self.level + 1)

    def widened(self, domain: object) -> "Grid":
        """Return the same grid on another domain."""
        return self._changed(domain=domain)

    def in_namespace(self, namespace: str) -> "Grid":
        """Return the same grid with its own record of the first cells."""
        return self._changed(namespace=namespace)

    def _changed(self, **changes: Any) -> "Grid":
        arguments = {
            name: getattr(self, name) for name in ("cell", "origin", "level", "domain", "namespace")
        }
        return Grid(self.corners, **{**arguments, **changes})

    # Queries

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the value (N,) and the exact slope (N, d) of the interpolant at x (d,). Raises
        SampleError if an exact value is missing."""
        return self.corners.expand(self.rows(x))

    def rows(self, x: Array, second: bool = False) -> Array:
        """Return the coefficients (1 + d, r) of value and slopes, with `second` also of the second
        derivatives (0, 0), (0, 1), ..., (1, 1), ..."""
        place = (check_query(x, self.domain) - self.origin) / self.size
        index = np.floor(place).astype(np.int64)
        table = self.table(index)
        return contract(table, place - index, self.size, *contraction_plan(self.dim, second))

    def table(self, index: Array) -> Array:
        """Return the table (4^d, r) of the cell with the integer index (d,)."""
        table = self._tables.get(index.tobytes())
        return self._table(index) if table is None else table

    def new_samples(self) -> list[Sample]:
        """Return the samples at corners of this level that no coarser level has."""
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

    def visited_cells(self) -> Array:
        """Return the lower corners (n, d) of the cells that queries have used. A cell has the size
        `size`."""
        indices = np.array([np.frombuffer(key, np.int64) for key in self._tables])
        return self._points(indices.reshape(-1, self.dim))

    def covers(self, x: Array) -> bool:
        """Return whether a query at x needs no exact evaluation."""
        if not np.all(within(x, self.domain)):
            return False
        index = np.floor((x - self.origin) / self.size).astype(np.int64)
        return index.tobytes() in self._tables or self.corners.all_have_values(
            self._points(index + corner_offsets(self.dim))
        )

    # Cells

    def _points(self, index: Array) -> Array:
        """Return the coordinates (n, d) of corners (n, d), bitwise equal on all levels."""
        return self.origin + self.cell * (index / 2.0**self.level)

    def _table(self, index: Array) -> Array:
        d = self.dim
        around = index + corner_offsets(d)
        require_values(self._points(around), self.corners.fetch(self._points(around)))
        owners = self.corners.store.claim_owners(self.level, around, index, self._lattice)
        self._check_slopes(around)
        mixed = {index.tobytes(): self._mixed(index)}
        for corner, owner in zip(around, owners, strict=True):
            if corner.tobytes() not in self._data:
                if owner.tobytes() not in mixed:
                    mixed[owner.tobytes()] = self._mixed(owner)
                which = int(((corner - owner) << np.arange(d)).sum())
                self._data[corner.tobytes()] = mixed[owner.tobytes()][which].copy()
        table = cell_table([self._data[corner.tobytes()] for corner in around])
        if (1 + len(self._tables)) * table.size > MAX_CACHED_NUMBERS:
            self._tables.clear()  # they are rebuilt from the corners' data
        self._tables[index.tobytes()] = table
        return table

    def _check_slopes(self, around: Array) -> None:
        """Add a warning if the value at a corner is far from the prediction of its neighbour's
        slope. Then the cell is too large, or the corners lie on different branches."""
        rows = [corner.rows for corner in self.corners.fetch(self._points(around))]
        for i, bits in enumerate(corner_offsets(self.dim)):
            for axis in np.flatnonzero(bits == 0):
                here, there = rows[i], rows[i + (1 << axis)]
                r = min(here.shape[1], there.shape[1])
                along = self.size[axis] * here[1 + axis, :r]
                if np.linalg.norm(
                    there[0, :r] - here[0, :r] - along
                ) > MAX_SLOPE_ERROR * np.linalg.norm(along):
                    where = np.array2string(self._points(around[i]), precision=4)
                    self.warnings.append(
                        f"from {where} along axis {axis} the map is far from the prediction of "
                        "its slope: the cell is too large, or the corners lie on different branches"
                    )
                    return

    def _mixed(self, index: Array) -> Array:
        """Return the data (2^d, 2^d, r) of a cell's corners with this cell's mixed derivatives."""
        points = self._points(index + corner_offsets(self.dim))
        corners = self.corners.fetch(points)
        require_values(points, corners)
        found = [corner.rows for corner in corners]
        width = max(rows.shape[1] for rows in found)  # pad later basis vectors with zeros
        return mixed_derivatives(
            np.stack([np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in found]),
            self.size,
        )
