"""Triangles that have the same vertices and orientation as another."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.cells import group_rows
from pliant.geometry.holes import missing_edges


def orientations(triangles: Array) -> Array:
    """Return 1 for triangles (k, 3) that list their vertices in ascending cyclic order, else -1."""
    a, b, c = triangles.T
    return np.where((a < b).astype(int) + (b < c) + (c < a) == 2, 1, -1)


def repeated_triangles(triangles: Array) -> Array:
    """Return bool (k,): True for every copy of a triangle with the same orientation after the
    first."""
    order, start, count = group_rows(triangles)
    sense = orientations(triangles)[order]
    out = np.zeros(len(triangles), dtype=bool)
    for sign in (1, -1):
        chosen = sense == sign
        done = np.cumsum(chosen)
        rank = done - np.repeat((done - chosen)[start], count)
        out[order] |= chosen & (rank > 1)
    return out


def redundant_copies(triangles: Array) -> Array:
    """Return bool (k,): True for copies whose removal opens no closed edge.

    Two overlapping closed parts may share triangles that close both. A patch of copies is kept if
    it has a rim and the surface is closed along that rim.
    """
    out = repeated_triangles(triangles)
    copies = np.flatnonzero(out)
    if not copies.size:
        return out
    rim = missing_edges(triangles[copies])
    patch = connected_patches(triangles[copies])
    owner = np.full(triangles.max() + 1, -1)
    owner[triangles[copies]] = patch[:, None]
    with_rim, opened = owner[rim[:, 0]], _within(rim, missing_edges(triangles))
    shared = np.setdiff1d(with_rim, with_rim[opened])
    out[copies[np.isin(patch, shared)]] = False
    return out


def connected_patches(triangles: Array) -> Array:
    """Return the patch number (k,) of each triangle. Triangles of a patch are joined by
    vertices."""
    n = int(triangles.max()) + 1
    ends = triangles[:, [0, 1, 1, 2]].reshape(-1, 2).T
    links = sp.coo_array((np.ones(len(ends[0])), tuple(ends)), shape=(n, n))
    return connected_components(links, directed=False)[1][triangles[:, 0]]


def _within(edges: Array, others: Array) -> Array:
    """Return bool (k,): which undirected edges (k, 2) are among `others` (m, 2)."""
    n = int(max(edges.max(initial=0), others.max(initial=0))) + 1
    return np.isin(np.sort(edges, axis=1) @ [n, 1], np.sort(others, axis=1) @ [n, 1])
