"""Overlaps between the connected bodies of one mesh. Contact between bodies is not modelled."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.distance import distance_to_simplices
from pliant.geometry.mesh import Mesh
from pliant.geometry.winding import cluster_triangles, winding_numbers

TOUCH_TOLERANCE = 1e-6  # of the mesh size; a smaller overlap is contact
FACET_SIMPLICES = {  # nodes of a facet -> straight simplices of it, with the same orientation
    2: ((0, 1),),
    3: ((0, 1, 2),),
    6: ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5)),
}
EDGE_SEGMENTS = {2: ((0, 1),), 3: ((0, 2), (2, 1))}


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Two bodies of a mesh and their penetration depth."""

    bodies: tuple[str, str]
    depth: float  # [m] the distance to the other's boundary

    @property
    def text(self) -> str:
        """Return a description of the overlap."""
        first, second = self.bodies
        return f"bodies {first} and {second} overlap by {1e3 * self.depth:.3g} mm"


@dataclass(frozen=True, kw_only=True, eq=False)
class ConnectedBodies:
    """The connected components of a mesh."""

    mesh: Mesh

    @cached_property
    def _labels(self) -> Array:
        """Return the component (n_points,) of each node."""
        cells, n = self.mesh.cells, self.mesh.n_points
        first = np.repeat(cells[:, 0], cells.shape[1] - 1)
        ones = np.ones(first.size, np.int8)
        graph = sp.coo_matrix((ones, (first, cells[:, 1:].ravel())), shape=(n, n))
        return connected_components(graph, directed=False)[1]

    @cached_property
    def count(self) -> int:
        return int(self._labels[self.mesh.cells[:, 0]].max()) + 1

    @cached_property
    def lengths(self) -> Array:
        """Return the longest side (count,) [m] of each body's bounding box at rest."""
        lower, upper = self._boxes(self.mesh.points[self._pieces])
        return (upper - lower).max(axis=1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the region that equals a body, in quotes, else its number counted from 1."""
        of_cells, out = self._labels[self.mesh.cells[:, 0]], []
        for k in range(self.count):
            cells = np.flatnonzero(of_cells == k)
            same = [n for n, r in self.mesh.regions.items() if np.array_equal(np.sort(r), cells)]
            out.append(f"'{same[0]}'" if same else str(k + 1))
        return tuple(out)

    @cached_property
    def _pieces(self) -> Array:
        """Return the boundary as segments (k, 2) or triangles (k, 3) of nodes, body by body."""
        facets = self.mesh.boundary()
        table = np.array(
            (FACET_SIMPLICES if self.mesh.dim == 3 else EDGE_SEGMENTS)[facets.shape[1]]
        )
        pieces = facets[:, table].reshape(-1, table.shape[1])
        return pieces[np.argsort(self._labels[pieces[:, 0]], kind="stable")]

    @cached_property
    def _starts(self) -> Array:
        """Return the index (count,) of the first piece of each body."""
        return np.flatnonzero(np.diff(self._labels[self._pieces[:, 0]], prepend=-1))

    def _boxes(self, corners: Array) -> tuple[Array, Array]:
        """Return the lower and upper corners (count, dim) of the bounding boxes of the bodies.

        `corners` (k, dim, dim) [m] are the corners of their pieces.
        """
        lower = np.minimum.reduceat(corners.min(axis=1), self._starts)
        return lower, np.maximum.reduceat(corners.max(axis=1), self._starts)

    def overlaps(self, points: Array) -> list[Overlap]:
        """Return the pairs of bodies that overlap at node positions (n_points, dim) [m], deepest
        first.

        Boundary nodes and facet centres of each body are tested against the others.
        """
        if self.count == 1 or not np.isfinite(points).all():
            return []
        stacked, found = points[self._pieces], []
        corners = np.split(stacked, self._starts[1:])
        for i, j in _close_pairs(*self._boxes(stacked)):
            depth = max(_deepest(corners[i], corners[j]), _deepest(corners[j], corners[i]))
            if depth > TOUCH_TOLERANCE * self.mesh.size:
                found.append(Overlap(bodies=(self.names[i], self.names[j]), depth=depth))
        return sorted(found, key=lambda overlap: -overlap.depth)

    def deepest(self, states: Sequence[Array]) -> Overlap | None:
        """Return the deepest overlap over several positions (n_points dim,), or None."""
        found = [
            overlap
            for q in states
            for overlap in self.overlaps(np.reshape(q, (-1, self.mesh.dim)))[:1]
        ]
        return max(found, key=lambda overlap: overlap.depth, default=None)


def _close_pairs(lower: Array, upper: Array) -> list[list[int]]:
    """Return the pairs (i, j), i < j, of boxes that intersect, from their corners (k, dim) [m]."""
    close = np.tri(len(lower), k=-1, dtype=bool).T
    for least, most in zip(lower.T, upper.T, strict=True):
        close &= (least[:, None] <= most) & (most[:, None] >= least)
    return np.argwhere(close).tolist()


def _deepest(one: Array, other: Array) -> float:
    """Return the depth [m] of the deepest corner or centre of one closed boundary inside another.

    The pieces have shape (k, dim, dim). The depth is 0 if all points lie outside.
    """
    lower, upper = other.min(axis=(0, 1)), other.max(axis=(0, 1))
    at = np.concatenate([one.reshape(-1, one.shape[2]), one.mean(axis=1)])
    at = np.unique(at[((at >= lower) & (at <= upper)).all(axis=1)], axis=0)
    inside = at[_windings(other, at) > 0.5] if len(at) else at
    if not len(inside):
        return 0.0
    return float(distance_to_simplices(inside, other).max())


def _windings(pieces: Array, at: Array) -> Array:
    """Return the winding number (k,) of a closed boundary around points (k, dim): 1 inside, 0
    outside."""
    if pieces.shape[2] == 3:
        return winding_numbers(cluster_triangles(pieces), at)
    a, b = (pieces[None, :, i] - at[:, None] for i in range(2))
    cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return np.arctan2(cross, np.sum(a * b, axis=2)).sum(axis=1) / (2.0 * np.pi)
