"""Arrays of simplex cells: facets, edges, Jacobians, and repair functions."""

from math import factorial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from pliant.core import Array

DIMENSION = {3: 2, 6: 2, 4: 3, 10: 3}  # nodes of a cell -> its dimension
EDGES = {
    1: ((0, 1),),
    2: ((0, 1), (1, 2), (2, 0)),
    3: ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)),
}
FACETS = {  # nodes of a cell -> its outward facets, corners first
    3: ((0, 1), (1, 2), (2, 0)),
    6: ((0, 1, 3), (1, 2, 4), (2, 0, 5)),
    4: ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)),
    10: ((1, 2, 3, 5, 9, 8), (0, 3, 2, 7, 9, 6), (0, 1, 3, 4, 8, 7), (0, 2, 1, 6, 5, 4)),
}
# The determinant of a quadratic map has degree 2 in the plane and 3 in space; these rules integrate
# it exactly.
QUADRATURE_RULES = {
    2: (np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]]) / 6, np.full(3, 1 / 3)),
    3: (
        np.vstack([np.full((1, 4), 1 / 4), (np.ones((4, 4)) + 2 * np.eye(4)) / 6]),
        np.array([-4 / 5] + 4 * [9 / 20]),
    ),
}


def group_rows(rows: Array) -> tuple[Array, Array, Array]:
    """Group equal rows, ignoring the order in a row. Return (order, start of each group, size of
    each group)."""
    rows = np.sort(rows, axis=1)
    order = np.lexsort(rows.T[::-1])
    ranked = rows[order]
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    start = np.flatnonzero(fresh)
    return order, start, np.diff(np.append(start, len(rows)))


def cell_facets(cells: Array) -> Array:
    """Return every outward facet of every cell, (n_facets per cell * n_cells, nodes per facet)."""
    table = np.array(FACETS[cells.shape[1]])
    return cells[:, table].reshape(-1, table.shape[1])


def boundary_facets(cells: Array) -> Array:
    """Return the outward facets (k, nodes per facet) that belong to one cell only."""
    return cell_facets(cells)[boundary_rows(cells)]


def boundary_rows(cells: Array) -> Array:
    """Return the rows (k,) of `cell_facets` that belong to one cell only.

    Divided by the facets per cell, they are the cells of the boundary facets.
    """
    order, start, count = group_rows(cell_facets(cells)[:, : DIMENSION[cells.shape[1]]])
    return np.sort(order[start[count == 1]])


def cells_with_common_facet(cells: Array) -> Array:
    """Return the pairs (k, 2) of cells that share a facet."""
    facets = cell_facets(cells)[:, : DIMENSION[cells.shape[1]]]
    order, start, count = group_rows(facets)
    first = start[count == 2]
    owner = order // (len(facets) // len(cells))
    return np.sort(np.stack([owner[first], owner[first + 1]], axis=1), axis=1)


def match_facets(facets: Array, boundary: Array, dim: int) -> Array:
    """Return the row (k,) of `boundary` with the same corners as each facet, -1 if there is
    none."""
    both = np.vstack([boundary[:, :dim], facets[:, :dim]])
    order, start, count = group_rows(both)
    group = np.empty(len(both), dtype=np.int64)
    group[order] = np.repeat(np.arange(start.size), count)
    row = np.full(start.size, -1)
    row[group[: len(boundary)]] = np.arange(len(boundary))
    return row[group[len(boundary) :]]


def add_midside_nodes(points: Array, cells: Array) -> tuple[Array, Array]:
    """Return (points, cells) with a new node in the middle of every edge, after the old nodes."""
    dim = cells.shape[1] - 1
    edges = cells[:, np.array(EDGES[dim])].reshape(-1, 2)
    order, start, count = group_rows(edges)
    middle = np.empty(len(edges), dtype=np.int64)
    middle[order] = np.repeat(np.arange(start.size), count)
    ends = edges[order[start]]
    new_points = np.vstack([points, points[ends].mean(axis=1)])
    return new_points, np.hstack([cells, len(points) + middle.reshape(len(cells), -1)])


def split_quadratic_triangles(facets: Array) -> Array:
    """Return flat triangles (4 k, 3) of 6-node triangles (k, 6)."""
    return facets[:, [0, 3, 5, 3, 1, 4, 5, 4, 2, 3, 4, 5]].reshape(-1, 3)


def shape_values(bary: Array, order: int) -> Array:
    """Return Lagrange shape functions (k, n_nodes) at barycentric coordinates (k, dim + 1)."""
    if order == 1:
        return bary
    a, b = np.array(EDGES[bary.shape[1] - 1]).T
    return np.hstack([bary * (2 * bary - 1), 4 * bary[:, a] * bary[:, b]])


def shape_gradients(bary: Array, order: int) -> Array:
    """Return derivatives (k, n_nodes, dim) of the shape functions by the last dim barycentric
    coordinates."""
    k, corners = bary.shape
    if order == 1:
        slope = np.broadcast_to(np.eye(corners), (k, corners, corners))
    else:
        a, b = np.array(EDGES[corners - 1]).T
        edge = np.arange(a.size)
        mid = np.zeros((k, a.size, corners))
        mid[:, edge, a] = 4 * bary[:, b]
        mid[:, edge, b] = 4 * bary[:, a]
        slope = np.concatenate([(4 * bary - 1)[:, :, None] * np.eye(corners), mid], axis=1)
    return slope[:, :, 1:] - slope[:, :, :1]


def determinants(J: Array) -> Array:
    """Return the determinants (k,) of matrices (k, 2, 2) or (k, 3, 3). This is faster than LU."""
    if J.shape[-1] == 2:
        return J[:, 0, 0] * J[:, 1, 1] - J[:, 0, 1] * J[:, 1, 0]
    return np.einsum("ki,ki->k", J[:, 0], np.cross(J[:, 1], J[:, 2]))


def jacobians(points: Array, cells: Array, bary: Array) -> Array:
    """Return the derivative dx/dxi (n_cells, dim, dim) of each cell's map at barycentric point (dim
    + 1,)."""
    order = 1 if cells.shape[1] == bary.size else 2
    slope = shape_gradients(bary[None], order)[0]
    return np.einsum("kai,aj->kij", points[cells], slope)


def signed_volumes(points: Array, cells: Array) -> Array:
    """Return the volume (n_cells,) [m^3] (area [m^2] in 2D), negative for inverted cells.

    It is exact for curved cells.
    """
    dim = points.shape[1]
    bary, weights = QUADRATURE_RULES[dim]
    if cells.shape[1] == dim + 1:
        bary, weights = np.full((1, dim + 1), 1 / (dim + 1)), np.ones(1)
    parts = [
        w * determinants(jacobians(points, cells, at)) for at, w in zip(bary, weights, strict=True)
    ]
    return np.sum(parts, axis=0) / factorial(dim)


def orient_cells(points: Array, cells: Array) -> Array:
    """Return `cells` with two vertices swapped in each inverted cell, including their midside
    nodes."""
    swap = np.array(
        {3: (0, 2, 1), 6: (0, 2, 1, 5, 4, 3), 4: (0, 1, 3, 2), 10: (0, 1, 3, 2, 4, 8, 7, 6, 5, 9)}[
            cells.shape[1]
        ]
    )
    corners = cells[:, : DIMENSION[cells.shape[1]] + 1]
    bad = signed_volumes(np.asarray(points, dtype=float), corners) < 0
    fixed = np.array(cells)
    fixed[bad] = fixed[bad][:, swap]
    return fixed


def first_coincident(points: Array, tolerance: float | None = None) -> Array:
    """Return for each point (n_points,) the first one within `tolerance` [m], by default 1e-9 of
    the size."""
    reach = 1e-9 * np.linalg.norm(np.ptp(points, axis=0)) if tolerance is None else tolerance
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
    graph = coo_array(
        (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points), len(points))
    )
    _, group = connected_components(graph, directed=False)
    _, first = np.unique(group, return_index=True)
    return first[group]


def merge_points(
    points: Array, cells: Array, *, tolerance: float | None = None
) -> tuple[Array, Array]:
    """Return (points, cells) with nodes closer than `tolerance` [m] merged, by default 1e-9 of the
    size."""
    return remove_unused_points(
        points, first_coincident(np.asarray(points, dtype=float), tolerance)[cells]
    )


def remove_unused_points(points: Array, cells: Array) -> tuple[Array, Array]:
    """Return (points, cells) without the points that no cell uses."""
    used, inverse = np.unique(cells, return_inverse=True)
    return np.asarray(points)[used], inverse.reshape(np.shape(cells))
