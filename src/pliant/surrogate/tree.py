"""Tree: a grid whose cells are split where the map bends, C1 across cells of different size (the
future work of paper 000)."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from pliant.core import Array, InputError, require_positive
from pliant.surrogate.corners import Corners, check_corners
from pliant.surrogate.domain import check_domain, check_lengths, check_query, each_axis, within
from pliant.surrogate.grid import require_values
from pliant.surrogate.hermite import (
    assembled,
    axis_functions,
    contract,
    contraction,
    corner_offsets,
    mixed_derivatives,
)
from pliant.surrogate.sample import Sample

DEEPEST = 20  # levels: nodes are whole numbers of the finest lattice
Cell = tuple[int, bytes]  # (level, index (d,) as bytes)


class Tree:
    """A C1 interpolant on a 2^d tree that is split, where queries come, until a cell's estimated
    error is below `tolerance`.

    A cell's error is estimated by its surplus: how far the interpolant of the cell that it was
    split from misses the exact values at its corners, over 16, since the scheme is of fourth order.
    A corner that lies on a larger neighbour without being one of its corners takes its data from
    that neighbour's polynomial, so that both sides of the face are one function.
    """

    def __init__(
        self,
        corners: Corners,
        *,
        cell: Array | float | Sequence[float],
        tolerance: float,
        origin: Array | float | None = None,
        domain: object = None,
        deepest: int = 8,
    ) -> None:
        check_corners(corners)
        self.corners = corners
        self.tolerance = require_positive("The tolerance of a tree", tolerance, "units of the map")
        if not 1 <= deepest <= DEEPEST:
            raise InputError(f"The tree may be {deepest} levels deep; take 1 to {DEEPEST}.")
        self.deepest = int(deepest)
        self.size = check_lengths("The cell of a tree", cell, self.dim)  # (d,) of the largest cells
        self.origin = (
            -self.size / 3.0
            if origin is None
            else each_axis("The origin of a tree", origin, self.dim)
        )
        self.domain = check_domain(domain, self.dim)
        self._split: set[Cell] = set()  # cells that are no leaves
        self._owner: dict[
            bytes, tuple[int, Array]
        ] = {}  # node -> the finest cell, level and index, that gave its mixed derivatives
        self._tables: dict[Cell, Array] = {}
        self._data: dict[bytes, Array] = {}
        self._leaves: dict[Cell, list[tuple[int, Array]]] = {}  # what a leaf needs
        self._surplus: dict[Cell, float] = {}
        self._alone: dict[Cell, Array] = {}  # data of corners as a cell alone sees them
        self.changes = 0  # how often what was answered may have changed

    @property
    def dim(self) -> int:
        return self.corners.dim

    @property
    def evaluations(self) -> int:
        return self.corners.evaluations

    def holds(self, x: Array) -> bool:
        """Can a query be answered without another exact evaluation?"""
        if not np.all(within(x, self.domain)):
            return False
        node, split = (
            np.floor((x - self.origin) / self.size * 2.0**DEEPEST).astype(np.int64),
            self._split.copy(),
        )
        try:  # what the query would split, on trial
            while True:
                for leaf in self._needed(*self._leaf(node)):
                    if not self.corners.valued(self._point(self._nodes(*leaf))):
                        return False
                    if self._too_coarse(*leaf):
                        self._split.add((leaf[0], leaf[1].tobytes()))
                        self._leaves.clear()
                        break
                else:
                    return True
        finally:
            self._split = split
            self._leaves.clear()

    def new_samples(self) -> list[Sample]:
        """The exact values at corners that the largest cells do not have."""
        good = [s for s in self.corners.samples.values() if not s.failed]
        places = [(s.point - self.origin) / self.size for s in good]
        return [
            s for s, p in zip(good, places, strict=True) if np.any(np.abs(p - np.rint(p)) > 1e-9)
        ]

    @property
    def doubts(self) -> list[str]:
        """None: where the map does not go where its slopes lead, cells are split."""
        return []

    def refined(self) -> "Tree":
        """A tree on the same corners for a sixteenth of the error, as half the cell would bring."""
        return Tree(
            self.corners,
            cell=self.size / 2.0,
            tolerance=self.tolerance / 16.0,
            origin=self.origin,
            domain=self.domain,
            deepest=self.deepest,
        )

    # Queries

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(value (N,), slope (N, d)) of the interpolant at x (d,)."""
        return self.corners.expand(self.rows(x))

    def rows(self, x: Array, second: bool = False) -> Array:
        """(1 + d, r) the coefficients of value and slopes, with `second` also of the second
        derivatives."""
        place = (check_query(x, self.domain) - self.origin) / self.size
        while True:
            level, index = self._leaf(np.floor(place * 2.0**DEEPEST).astype(np.int64))
            coarse = next(
                (leaf for leaf in self._needed(level, index) if self._too_coarse(*leaf)), None
            )
            if coarse is None:
                break
            self._exact(*coarse)
            self._split.add((coarse[0], coarse[1].tobytes()))
            self._forget()
        return contract(
            self._table(level, index),
            place * 2.0**level - index,
            self.size / 2.0**level,
            *contraction(self.dim, second),
        )

    def _forget(self) -> None:
        """The tree has changed: what was derived from it is made anew when it is needed."""
        self.changes += 1
        self._tables.clear()
        self._data.clear()
        self._leaves.clear()

    # Leaves and nodes; a node is (d,) whole numbers of the finest lattice

    def _leaf(self, node: Array) -> tuple[int, Array]:
        """The leaf whose half-open box holds a node. The largest cells are always split, since only
        their parts have an estimate."""
        level = 1
        while (level, (node >> (DEEPEST - level)).tobytes()) in self._split:
            level += 1
        return level, node >> (DEEPEST - level)

    def _nodes(self, level: int, index: Array) -> Array:
        """(2^d, d) the corners of a cell."""
        return (index + corner_offsets(self.dim)) << (DEEPEST - level)

    def _point(self, node: Array) -> Array:
        return self.origin + self.size * (node / 2.0**DEEPEST)

    def _exact(self, level: int, index: Array) -> Array:
        """(2^d, 1 + d, r) the exact values and slopes at a cell's corners."""
        points = self._point(self._nodes(level, index))
        found = self.corners.fetch(points)
        require_values(points, found)
        width = max(corner.rows.shape[1] for corner in found)
        return np.stack(
            [np.pad(corner.rows, ((0, 0), (0, width - corner.rows.shape[1]))) for corner in found]
        )

    def _too_coarse(self, level: int, index: Array) -> bool:
        """Is a leaf's estimated error above the tolerance?"""
        if level >= self.deepest:
            return False
        key = (level, index.tobytes())
        if key not in self._surplus:
            self._surplus[key] = self._missed(level, index)
        return self._surplus[key] / 16.0 > self.tolerance

    def _missed(self, level: int, index: Array) -> float:
        """How far the cell that a leaf was split from, by itself, misses the exact values at the
        leaf's corners."""
        d, h = self.dim, self.size / 2.0 ** (level - 1)
        coarse = assembled(self._adini(level - 1, index >> 1))
        missed = self._exact(level, index)[:, 0].copy()
        for row, offset in zip(missed, corner_offsets(d), strict=True):
            guess = contract(coarse, 0.5 * ((index & 1) + offset), h, *contraction(d, False))[0]
            row[: len(guess)] -= guess
        return float(np.linalg.norm(missed, axis=1).max())

    def _needed(self, level: int, index: Array) -> list[tuple[int, Array]]:
        """A leaf and all those that its corners hang on, straight or through others."""
        key = (level, index.tobytes())
        if key not in self._leaves:
            found = {key: (level, index)}
            for node in self._nodes(level, index):
                larger = self._largest(node)
                if larger[0] < level and self._hangs(node, larger[0]):
                    found |= {(one[0], one[1].tobytes()): one for one in self._needed(*larger)}
            self._leaves[key] = list(found.values())
        return self._leaves[key]

    def _largest(self, node: Array) -> tuple[int, Array]:
        """The largest of the leaves around a node."""
        return min(
            (self._leaf(node - below) for below in corner_offsets(self.dim)),
            key=lambda leaf: leaf[0],
        )

    def _hangs(self, node: Array, level: int) -> bool:
        return bool(np.any(node & ((1 << (DEEPEST - level)) - 1)))

    # Tables

    def _table(self, level: int, index: Array) -> Array:
        key = (level, index.tobytes())
        while key not in self._tables:
            self._own(level, index)
            before = self.changes
            data = [self._node_data(node) for node in self._nodes(level, index)]
            if (
                self.changes != before
            ):  # a larger leaf that it hangs on gave better mixed derivatives to a node
                continue
            self._tables[key] = assembled(data)
        return self._tables[key]

    def _own(self, level: int, index: Array) -> None:
        """A leaf gives mixed derivatives to its corners that have none, or only those of a larger
        cell."""
        self._exact(level, index)
        for node in self._nodes(level, index):
            if self._owner.get(node.tobytes(), (-1, index))[0] < level:
                if node.tobytes() in self._owner:
                    self._forget()
                self._owner[node.tobytes()] = (level, index)

    def _node_data(self, node: Array) -> Array:
        """(2^d, r) a node's value and derivatives: its own, or where it hangs on a larger leaf,
        that leaf's."""
        key = node.tobytes()
        if key not in self._data:
            level, index = self._largest(node)
            self._data[key] = (
                self._trace(level, index, node) if self._hangs(node, level) else self._mixed(node)
            )
        return self._data[key]

    def _mixed(self, node: Array) -> Array:
        level, index = self._owner[node.tobytes()]
        which = int((((node >> (DEEPEST - level)) - index) << np.arange(self.dim)).sum())
        return self._adini(level, index)[which]

    def _adini(self, level: int, index: Array) -> Array:
        """(2^d, 2^d, r) the data of a cell's corners as this cell alone sees them."""
        key = (level, index.tobytes())
        if key not in self._alone:
            self._alone[key] = mixed_derivatives(self._exact(level, index), self.size / 2.0**level)
        return self._alone[key]

    def _trace(self, level: int, index: Array, node: Array) -> Array:
        """(2^d, r) the derivatives of a leaf's polynomial at a node on its boundary, at most one
        along each axis."""
        table, h = self._table(level, index), self.size / 2.0**level
        t = node / 2.0 ** (DEEPEST - level) - index
        ends = []
        for axis in range(self.dim):
            functions = np.empty((3, 4))
            axis_functions(t[axis], h[axis], functions)
            ends.append(functions[:2])
        shaped = table.reshape(*(4,) * self.dim, -1)
        # contract axis by axis; axis 0 then varies fastest among the rows, as the bits of a set of
        # axes do
        made = reduce(_contracted, reversed(ends), shaped)
        return made.transpose(*reversed(range(self.dim)), self.dim).reshape(2**self.dim, -1)


def _contracted(part: Array, f: Array) -> Array:
    """(2, ..., r) from part (..., 4, r) and the functions f (2, 4) of its last axis; in one order,
    as `contract` does."""
    w = f.T.reshape(4, 2, *(1,) * (part.ndim - 1))
    return (
        w[0] * part[..., 0, :]
        + w[1] * part[..., 1, :]
        + w[2] * part[..., 2, :]
        + w[3] * part[..., 3, :]
    )
