"""Nested dissection: an elimination order for a graph whose vertices have positions (George, Nested
dissection of a regular finite element mesh, 1973).

A plane splits the vertices into two halves, and the vertices at the plane are eliminated last. Both
halves are split again until their parts are small. All parts of one depth are split at a time.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pliant.core import Array

SMALLEST = 8  # vertices of a part that is not split further


def nested_dissection(points: Array, edges: Array) -> Array:
    """Return the vertices (n,) in an elimination order with little fill; points (n, dim), edges
    (k, 2)."""
    vertices, part, places = np.arange(len(points)), np.zeros(len(points), int), _projected(points)
    last_first = []
    while len(vertices):
        separator, right = _best_split(places[vertices], part, edges)
        last_first.append(vertices[separator])
        part, kept = 2 * part + right, ~separator
        edges = edges[kept[edges].all(axis=1)]
        edges = edges[part[edges[:, 0]] == part[edges[:, 1]]]
        edges, vertices = (np.cumsum(kept) - 1)[edges], vertices[kept]
        part = np.unique(part[kept], return_inverse=True)[1]
    return np.concatenate(last_first[::-1]) if last_first else vertices


def _projected(points: Array) -> Array:
    """(n, k) the coordinates along the axes and along the diagonals of every two axes.

    The diagonals matter for lattices: their edges follow some of them and cross the others. Rounded
    because the points of a lattice plane must have the same coordinate."""
    x = points / max(float(np.ptp(points)) if points.size else 0.0, 1e-300)
    pairs = [(x[:, a], x[:, b]) for a, b in combinations(range(x.shape[1]), 2)]
    diagonals = [a + sign * b for a, b in pairs for sign in (1.0, -1.0)]
    return np.round(np.column_stack([x, *diagonals]), 9)


def _best_split(places: Array, part: Array, edges: Array) -> tuple[Array, Array]:
    """(separator (n,), right (n,)) of the cheapest split of each part. Of a part that is small or
    that no plane splits, all vertices are separator."""
    n, size = len(part), np.bincount(part)
    separator, right = np.ones(n, bool), np.zeros(n, bool)
    best = np.where(size > SMALLEST, np.inf, -np.inf)
    for beyond, at_plane in _splits(places, part, size, edges):
        left = np.bincount(part[~beyond & ~at_plane], minlength=len(size))
        rest = np.bincount(part[beyond & ~at_plane], minlength=len(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = (size - left - rest) / (left * rest)
        better = cost < best  # not where a side is empty: infinite or not a number
        best, chosen = np.where(better, cost, best), better[part]
        separator[chosen], right[chosen] = at_plane[chosen], beyond[chosen]
    return separator, right


def _splits(places: Array, part: Array, size: Array, edges: Array) -> Iterator[tuple[Array, Array]]:
    """(beyond (n,), at_plane (n,)) of every split of all parts at their medians: the vertices
    beyond the plane, and those on one side of it that have an edge across it."""
    middle = np.cumsum(size) - size + size // 2
    for x in places.T:
        plane = x[np.lexsort((x, part))][middle][part]
        for beyond in (x > plane, x >= plane):
            i, j = edges[beyond[edges[:, 0]] != beyond[edges[:, 1]]].T
            for side in (beyond[i], ~beyond[i]):
                at_plane = np.zeros(len(x), bool)
                at_plane[np.where(side, i, j)] = True
                yield beyond, at_plane
