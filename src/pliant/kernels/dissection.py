"""Nested dissection: an elimination order for a graph with vertex positions (George, 1973).

A plane splits the vertices into two halves. The vertices at the plane are eliminated last. Both
halves are split again until the parts are small. All parts of one depth are split together.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pliant.core import Array

MIN_SPLIT_SIZE = 8  # vertices; parts of this size or less are not split


def nested_dissection(points: Array, edges: Array) -> Array:
    """Return an elimination order (n,) with little fill for a graph with points (n, dim) and edges
    (k, 2)."""
    vertices, part, projections = (
        np.arange(len(points)),
        np.zeros(len(points), int),
        _projections(points),
    )
    separators = []
    while len(vertices):
        separator, right = _best_split(projections[vertices], part, edges)
        separators.append(vertices[separator])
        part, is_kept = 2 * part + right, ~separator
        edges = edges[is_kept[edges].all(axis=1)]
        edges = edges[part[edges[:, 0]] == part[edges[:, 1]]]
        edges, vertices = (np.cumsum(is_kept) - 1)[edges], vertices[is_kept]
        part = np.unique(part[is_kept], return_inverse=True)[1]
    return np.concatenate(separators[::-1]) if separators else vertices


def _projections(points: Array) -> Array:
    """Return the coordinates (n, k) along the axes and along the diagonals of each pair of axes.

    The edges of a lattice follow some diagonals and cross others. Coordinates are rounded, because
    all points of a lattice plane must have the same coordinate.
    """
    x = points / max(float(np.ptp(points)) if points.size else 0.0, 1e-300)
    pairs = [(x[:, a], x[:, b]) for a, b in combinations(range(x.shape[1]), 2)]
    diagonals = [a + sign * b for a, b in pairs for sign in (1.0, -1.0)]
    return np.round(np.column_stack([x, *diagonals]), 9)


def _best_split(projections: Array, part: Array, edges: Array) -> tuple[Array, Array]:
    """Return (is_separator (n,), is_right (n,)) of the cheapest split of each part.

    All vertices of a part are separator vertices if the part is small or no plane splits it.
    """
    n, size = len(part), np.bincount(part)
    separator, right = np.ones(n, bool), np.zeros(n, bool)
    best = np.where(size > MIN_SPLIT_SIZE, np.inf, -np.inf)
    for beyond, at_plane in _splits(projections, part, size, edges):
        left = np.bincount(part[~beyond & ~at_plane], minlength=len(size))
        rest = np.bincount(part[beyond & ~at_plane], minlength=len(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = (size - left - rest) / (left * rest)
        better = cost < best  # false if a side is empty: the cost is infinite or NaN
        best, chosen = np.where(better, cost, best), better[part]
        separator[chosen], right[chosen] = at_plane[chosen], beyond[chosen]
    return separator, right


def _splits(
    projections: Array, part: Array, size: Array, edges: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield (is_beyond (n,), at_plane (n,)) for each split of all parts at their medians.

    `at_plane` marks the vertices on one side of the plane with an edge across it.
    """
    middle = np.cumsum(size) - size + size // 2
    for x in projections.T:
        plane = x[np.lexsort((x, part))][middle][part]
        for beyond in (x > plane, x >= plane):
            i, j = edges[beyond[edges[:, 0]] != beyond[edges[:, 1]]].T
            for side in (beyond[i], ~beyond[i]):
                at_plane = np.zeros(len(x), bool)
                at_plane[np.where(side, i, j)] = True
                yield beyond, at_plane
