"""The pieces of a mesh that are connected through facets."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.cells import cell_facets, group_rows
from pliant.geometry.mesh import Mesh


def label_pieces(mesh: Mesh) -> Array:
    """Return the piece number (n_cells,) of each cell. Pieces are connected by facets; 0 is the
    largest."""
    facets = cell_facets(mesh.corners)
    owner = np.arange(len(facets)) // (mesh.dim + 1)
    order, start, count = group_rows(facets)
    a, b = order[start[count == 2]], order[start[count == 2] + 1]
    graph = coo_array((np.ones(len(a)), (owner[a], owner[b])), shape=2 * (mesh.n_cells,))
    _, piece = connected_components(graph, directed=False)
    rank = np.argsort(np.argsort(-np.bincount(piece, mesh.volumes()), kind="stable"))
    return rank[piece]
