"""The point of a mesh's boundary that is closest to a point outside the mesh."""

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.cells import (
    FACETS,
    boundary_rows,
    cell_facets,
    shape_gradients,
    shape_values,
)

CURVED_REACH_FACTOR = 1.5  # a curved facet lies within this factor of its farthest node
CURVED_STEPS = 20  # Gauss-Newton steps to the nearest point of a curved facet


def nearest_on_boundary(points: Array, cells: Array, at: Array) -> tuple[Array, Array, Array]:
    """Return (cells (k,), barycentric (k, dim + 1), distance (k,) [m]) of the boundary points
    closest to `at` (k, dim) [m]."""
    dim, table = points.shape[1], np.array(FACETS[cells.shape[1]])
    facets = cell_facets(cells)
    rows = boundary_rows(cells)
    nodes = points[facets[rows]]
    centres = nodes.mean(axis=1)
    reach = CURVED_REACH_FACTOR * np.linalg.norm(nodes - centres[:, None], axis=2).max()
    tree, of_centres = cKDTree(nodes.reshape(-1, dim)), cKDTree(centres)
    owner, bary = np.zeros(len(at), dtype=np.int64), np.zeros((len(at), dim + 1))
    distance = np.zeros(len(at))
    for i, x in enumerate(at):
        bound = tree.query(x)[0]  # no facet whose centre is farther than this + reach is nearer
        near = np.array(of_centres.query_ball_point(x, (bound + reach) * (1.0 + 1e-9)))
        lam, gap = nearest_on_facets(nodes[near], x)
        best = gap.argmin()
        owner[i], side = divmod(rows[near[best]], len(table))
        bary[i, table[side][:dim]], distance[i] = lam[best], gap[best]
    return owner, bary, distance


def nearest_on_facets(nodes: Array, x: Array) -> tuple[Array, Array]:
    """Return (barycentric (m, dim), distance (m,) [m]) of the closest point to x (dim,) on each
    facet.

    `nodes` (m, n_nodes, dim) are edges or triangles. On a curved facet every step finds the closest
    point of the tangent simplex, a Gauss-Newton step with the bounds of the facet.
    """
    dim = nodes.shape[2]
    best = nearest_on_simplices(nodes[:, :dim], x)
    order = 1 if nodes.shape[1] == dim else 2
    gap, lam = _gap(nodes, best, x, order), best
    for _ in range(CURVED_STEPS if order == 2 else 0):
        place = np.einsum("ka,kai->ki", shape_values(lam, order), nodes)
        slope = np.einsum("kaj,kai->kij", shape_gradients(lam, order), nodes)
        ends = np.eye(dim)[:, 1:] - lam[:, None, 1:]  # (m, dim, dim - 1) from lam to each corner
        before, lam = (
            lam,
            nearest_on_simplices(place[:, None] + np.einsum("kij,kaj->kai", slope, ends), x),
        )
        trial = _gap(nodes, lam, x, order)
        better = trial < gap
        best, gap = np.where(better[:, None], lam, best), np.where(better, trial, gap)
        if np.abs(lam - before).max() < 1e-12:
            break
    return best, gap


def _gap(nodes: Array, lam: Array, x: Array, order: int) -> Array:
    place = np.einsum("ka,kai->ki", shape_values(lam, order), nodes)
    return np.linalg.norm(place - x, axis=1)


def nearest_on_simplices(corners: Array, x: Array) -> Array:
    """Return barycentric coordinates (m, n) of the closest point to x on each segment (n = 2) or
    triangle (n = 3).

    x is (dim,) or (m, dim), `corners` is (m, n, dim).
    """
    x = np.broadcast_to(x, corners[:, 0].shape)
    along = corners[:, 1:] - corners[:, :1]
    gram = np.einsum("kai,kbi->kab", along, along)
    right = np.einsum("kai,ki->ka", along, x - corners[:, 0])
    if corners.shape[1] == 2:
        share = np.clip(right / np.maximum(gram[:, 0], 1e-300), 0.0, 1.0)
        return np.hstack([1.0 - share, share])
    det = np.maximum(gram[:, 0, 0] * gram[:, 1, 1] - gram[:, 0, 1] ** 2, 1e-300)
    s = (gram[:, 1, 1] * right[:, 0] - gram[:, 0, 1] * right[:, 1]) / det
    t = (gram[:, 0, 0] * right[:, 1] - gram[:, 0, 1] * right[:, 0]) / det
    lam = np.stack([1.0 - s - t, s, t], axis=1)
    outside = np.flatnonzero(~(lam.min(axis=1) >= 0.0))
    lam[outside] = _nearest_on_edges(corners[outside], x[outside])
    return lam


def _nearest_on_edges(corners: Array, x: Array) -> Array:
    """Return barycentric coordinates (m, 3) of the closest point on the three edges of each
    triangle."""
    best, gap = np.zeros((len(corners), 3)), np.full(len(corners), np.inf)
    for edge in ([0, 1], [1, 2], [2, 0]):
        lam = np.zeros((len(corners), 3))
        lam[:, edge] = nearest_on_simplices(corners[:, edge], x)
        trial = np.linalg.norm(np.einsum("ka,kai->ki", lam, corners) - x, axis=1)
        better = trial < gap
        best[better], gap[better] = lam[better], trial[better]
    return best
