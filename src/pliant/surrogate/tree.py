"""Interpolation on an adaptive tree of cells, C1 across cells of different size (the future work of
[Jia2019])."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from pliant.core import Array, InputError, counted, require_positive
from pliant.surrogate.corners import Corners, check_corners
from pliant.surrogate.domain import check_domain, check_lengths, check_query, each_axis, within
from pliant.surrogate.grid import require_values
from pliant.surrogate.hermite import (
    cell_table,
    contract,
    contraction_plan,
    corner_offsets,
    hermite_functions,
    mixed_derivatives,
)
from pliant.surrogate.sample import Sample

FINEST_LEVEL = 20  # nodes are integer points of the lattice of this level
Cell = tuple[int, bytes]  # (level, index (d,) as bytes)


class Tree:
    """A C1 interpolant on a 2^d tree. Cells around a query are split until their estimated error is
    below `tolerance`, at most to level `max_depth`.

    The estimate is the surplus over 16, since the scheme is of fourth order. The surplus is the
    error of the parent cell's interpolant at the cell's corners. A hanging corner, on a face of a
    larger neighbour, takes its data from that neighbour, so the interpolant is continuous. Raises
    InputError for invalid arguments.
    """

    def __init__(
        self,
        corners: Corners,
        *,
        cell: Array | float | Sequence[float],
        tolerance: float,
        origin: Array | float | None = None,
        domain: object = None,
        max_depth: int = 8,
    ) -> None:
        check_corners(corners)
        self.corners = corners
        self.tolerance = require_positive("The tolerance of a tree", tolerance, "units of the map")
        if not 1 <= max_depth <= FINEST_LEVEL:
            raise InputError(f"max_depth is {max_depth}. Give 1 to {FINEST_LEVEL} levels.")
        self.max_depth = int(max_depth)
        self.size = check_lengths("The cell of a tree", cell, self.dim)  # (d,) of the largest cells
        self.origin = (
            -self.size / 3.0
            if origin is None
            else each_axis("The origin of a tree", origin, self.dim)
        )
        self.domain = check_domain(domain, self.dim)
        self._split: set[Cell] = set()  # cells that are not leaves
        # node -> level and index of the finest cell that defines its mixed derivatives
        self._owner: dict[bytes, tuple[int, Array]] = {}
        self._tables: dict[Cell, Array] = {}
        self._data: dict[bytes, Array] = {}
        self._leaves: dict[Cell, list[tuple[int, Array]]] = {}  # the leaves that a leaf depends on
        self._surplus: dict[Cell, float] = {}
        self._cell_data: dict[Cell, Array] = {}  # data of corners from one cell only
        self._unresolved: dict[Cell, float] = {}  # deepest leaves and their estimated errors
        self.changes = 0  # increases when earlier results may have changed

    @property
    def dim(self) -> int:
        return self.corners.dim

    @property
    def evaluations(self) -> int:
        return self.corners.evaluations

    def covers(self, x: Array) -> bool:
        """Return whether a query at x needs no exact evaluation."""
        if not np.all(within(x, self.domain)):
            return False
        node, split, unresolved = (
            np.floor((x - self.origin) / self.size * 2.0**FINEST_LEVEL).astype(np.int64),
            self._split.copy(),
            self._unresolved.copy(),
        )
        try:  # split temporarily, as the query would
            while True:
                for leaf in self._dependencies(*self._leaf(node)):
                    if not self.corners.all_have_values(self._point(self._nodes(*leaf))):
                        return False
                    if self._too_coarse(*leaf):
                        self._split.add((leaf[0], leaf[1].tobytes()))
                        self._leaves.clear()
                        break
                else:
                    return True
        finally:
            self._split, self._unresolved = split, unresolved
            self._leaves.clear()

    def new_samples(self) -> list[Sample]:
        """Return the samples at corners that the largest cells do not have."""
        good = [s for s in self.corners.samples.values() if not s.failed]
        places = [(s.point - self.origin) / self.size for s in good]
        return [
            s for s, p in zip(good, places, strict=True) if np.any(np.abs(p - np.rint(p)) > 1e-9)
        ]

    @property
    def warnings(self) -> list[str]:
        """A warning if cells of the deepest level exceed the tolerance."""
        if not self._unresolved:
            return []
        level, index = max(self._unresolved, key=lambda cell: self._unresolved[cell])
        corner = self.origin + self.size * np.frombuffer(index, np.int64) / 2.0**level
        return [
            f"the tree stopped at its deepest level {self.max_depth} in "
            f"{counted(len(self._unresolved), 'cell')}. The largest estimated error is "
            f"{self._unresolved[level, index]:.1e}, above the tolerance {self.tolerance:.1e}, at "
            f"{np.array2string(corner, precision=4)}. Raise max_depth or the tolerance"
        ]

    def refined(self) -> "Tree":
        """Return a tree on the same corners with half the cell size and a sixteenth of the
        tolerance."""
        return Tree(
            self.corners,
            cell=self.size / 2.0,
            tolerance=self.tolerance / 16.0,
            origin=self.origin,
            domain=self.domain,
            max_depth=self.max_depth,
        )

    # Queries

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the value (N,) and the exact slope (N, d) of the interpolant at x (d,)."""
        return self.corners.expand(self.rows(x))

    def rows(self, x: Array, second: bool = False) -> Array:
        """Return the coefficients (1 + d, r) of value and slopes, with `second` also of the second
        derivatives."""
        place = (check_query(x, self.domain) - self.origin) / self.size
        while True:
            level, index = self._leaf(np.floor(place * 2.0**FINEST_LEVEL).astype(np.int64))
            coarse = next(
                (leaf for leaf in self._dependencies(level, index) if self._too_coarse(*leaf)), None
            )
            if coarse is None:
                break
            self._corner_values(*coarse)
            self._split.add((coarse[0], coarse[1].tobytes()))
            self._clear_caches()
        return contract(
            self._table(level, index),
            place * 2.0**level - index,
            self.size / 2.0**level,
            *contraction_plan(self.dim, second),
        )

    def _clear_caches(self) -> None:
        """Clear all data that depends on the tree, after a change of the tree."""
        self.changes += 1
        self._tables.clear()
        self._data.clear()
        self._leaves.clear()

    # Leaves and nodes; a node is an integer point (d,) of the finest lattice

    def _leaf(self, node: Array) -> tuple[int, Array]:
        """Return the leaf whose half-open box contains a node. The largest cells are always split,
        since only their children have an error estimate."""
        level = 1
        while (level, (node >> (FINEST_LEVEL - level)).tobytes()) in self._split:
            level += 1
        return level, node >> (FINEST_LEVEL - level)

    def _nodes(self, level: int, index: Array) -> Array:
        """Return the corners (2^d, d) of a cell."""
        return (index + corner_offsets(self.dim)) << (FINEST_LEVEL - level)

    def _point(self, node: Array) -> Array:
        return self.origin + self.size * (node / 2.0**FINEST_LEVEL)

    def _corner_values(self, level: int, index: Array) -> Array:
        """Return the exact values and slopes (2^d, 1 + d, r) at a cell's corners."""
        points = self._point(self._nodes(level, index))
        found = self.corners.fetch(points)
        require_values(points, found)
        width = max(corner.rows.shape[1] for corner in found)
        return np.stack(
            [np.pad(corner.rows, ((0, 0), (0, width - corner.rows.shape[1]))) for corner in found]
        )

    def _too_coarse(self, level: int, index: Array) -> bool:
        """Return whether a leaf's estimated error exceeds the tolerance."""
        key = (level, index.tobytes())
        if level >= self.max_depth:
            self._check_deepest(key, index)
            return False
        if key not in self._surplus:
            self._surplus[key] = self._compute_surplus(level, index)
        return self._surplus[key] / 16.0 > self.tolerance

    def _check_deepest(self, key: Cell, index: Array) -> None:
        """Record a leaf of the deepest level whose estimated error exceeds the tolerance. It takes
        no exact evaluation that the leaf does not need."""
        level = key[0]
        if not self.corners.all_have_values(self._point(self._nodes(level - 1, index >> 1))):
            return
        if key not in self._surplus:
            self._surplus[key] = self._compute_surplus(level, index)
        if self._surplus[key] / 16.0 > self.tolerance:
            self._unresolved[key] = self._surplus[key] / 16.0

    def _compute_surplus(self, level: int, index: Array) -> float:
        """Return the error of the parent cell's interpolant at the corners of a leaf."""
        d, h = self.dim, self.size / 2.0 ** (level - 1)
        coarse = cell_table(self._adini(level - 1, index >> 1))
        errors = self._corner_values(level, index)[:, 0].copy()
        for row, offset in zip(errors, corner_offsets(d), strict=True):
            predicted = contract(
                coarse, 0.5 * ((index & 1) + offset), h, *contraction_plan(d, False)
            )[0]
            row[: len(predicted)] -= predicted
        return float(np.linalg.norm(errors, axis=1).max())

    def _dependencies(self, level: int, index: Array) -> list[tuple[int, Array]]:
        """Return a leaf and all leaves that its hanging corners depend on, directly or
        indirectly."""
        key = (level, index.tobytes())
        if key not in self._leaves:
            found = {key: (level, index)}
            for node in self._nodes(level, index):
                larger = self._largest_leaf(node)
                if larger[0] < level and self._is_hanging(node, larger[0]):
                    found |= {
                        (one[0], one[1].tobytes()): one for one in self._dependencies(*larger)
                    }
            self._leaves[key] = list(found.values())
        return self._leaves[key]

    def _largest_leaf(self, node: Array) -> tuple[int, Array]:
        """Return the largest of the leaves around a node."""
        return min(
            (self._leaf(node - below) for below in corner_offsets(self.dim)),
            key=lambda leaf: leaf[0],
        )

    def _is_hanging(self, node: Array, level: int) -> bool:
        return bool(np.any(node & ((1 << (FINEST_LEVEL - level)) - 1)))

    # Tables

    def _table(self, level: int, index: Array) -> Array:
        key = (level, index.tobytes())
        while key not in self._tables:
            self._define_mixed_derivatives(level, index)
            before = self.changes
            data = [self._node_data(node) for node in self._nodes(level, index)]
            if self.changes != before:  # a larger leaf redefined the mixed derivatives of a node
                continue
            self._tables[key] = cell_table(data)
        return self._tables[key]

    def _define_mixed_derivatives(self, level: int, index: Array) -> None:
        """Define the mixed derivatives of a leaf's corners that have none, or those of a larger
        cell."""
        self._corner_values(level, index)
        for node in self._nodes(level, index):
            if self._owner.get(node.tobytes(), (-1, index))[0] < level:
                if node.tobytes() in self._owner:
                    self._clear_caches()
                self._owner[node.tobytes()] = (level, index)

    def _node_data(self, node: Array) -> Array:
        """Return the value and derivatives (2^d, r) of a node, or of the larger leaf's interpolant
        if the node is hanging."""
        key = node.tobytes()
        if key not in self._data:
            level, index = self._largest_leaf(node)
            self._data[key] = (
                self._trace(level, index, node)
                if self._is_hanging(node, level)
                else self._mixed(node)
            )
        return self._data[key]

    def _mixed(self, node: Array) -> Array:
        level, index = self._owner[node.tobytes()]
        which = int((((node >> (FINEST_LEVEL - level)) - index) << np.arange(self.dim)).sum())
        return self._adini(level, index)[which]

    def _adini(self, level: int, index: Array) -> Array:
        """Return the data (2^d, 2^d, r) of a cell's corners from this cell only."""
        key = (level, index.tobytes())
        if key not in self._cell_data:
            self._cell_data[key] = mixed_derivatives(
                self._corner_values(level, index), self.size / 2.0**level
            )
        return self._cell_data[key]

    def _trace(self, level: int, index: Array, node: Array) -> Array:
        """Return the derivatives (2^d, r), at most one along each axis, of a leaf's polynomial at a
        node on its boundary."""
        table, h = self._table(level, index), self.size / 2.0**level
        t = node / 2.0 ** (FINEST_LEVEL - level) - index
        axis_functions = []
        for axis in range(self.dim):
            functions = np.empty((3, 4))
            hermite_functions(t[axis], h[axis], functions)
            axis_functions.append(functions[:2])
        shaped = table.reshape(*(4,) * self.dim, -1)
        # contract axis by axis; axis 0 then varies fastest among the rows, like the bits of a set
        # of axes
        contracted = reduce(_contract_axis, reversed(axis_functions), shaped)
        return contracted.transpose(*reversed(range(self.dim)), self.dim).reshape(2**self.dim, -1)


def _contract_axis(part: Array, f: Array) -> Array:
    """Return (2, ..., r) from part (..., 4, r) and the functions f (2, 4) of its last axis, summed
    in the order of `contract`."""
    w = f.T.reshape(4, 2, *(1,) * (part.ndim - 1))
    return (
        w[0] * part[..., 0, :]
        + w[1] * part[..., 1, :]
        + w[2] * part[..., 2, :]
        + w[3] * part[..., 3, :]
    )
