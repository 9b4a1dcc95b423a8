"""The tangent stiffness of linear tetrahedra in one plain compiled loop: the reference of the
tangent in `pliant bench fem`."""

from typing import Any

import numpy as np
from numba import njit

from pliant.bodies.solid import Solid
from pliant.core import Array
from pliant.kernels import rotation
from pliant.materials import laws

LAW = laws.FIXED_COROTATED


def bare_tangent(body: Solid, places: Array, q: Array, moduli: Array) -> Array:
    """Return the blocks (n_pairs, 3, 3) [N/m] of the node pairs `body.pairs` for the fixed
    corotated law, at node positions q (n_dofs,). `places` are those of `pair_places`."""
    blocks = np.zeros((len(body.pairs), 3, 3))
    grads, volumes = body.cells.grads[:, 0], body.cells.weights[:, 0]
    _add_cells(blocks, places, q.reshape(-1, 3), body.cells.nodes, grads, volumes, moduli)
    return blocks


def pair_places(body: Solid) -> Array:
    """Return the pair (n_cells, 4, 4) of each two nodes of a cell in `body.pairs`, -1 without
    one."""
    nodes, n = body.cells.nodes, len(body.rest) // 3
    keys = body.pairs @ np.array([n, 1])
    order = np.argsort(keys)
    wanted = nodes[:, :, None] * n + nodes[:, None, :]
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1)


@njit(error_model="numpy", cache=True)
def _add_cells(
    blocks: Any, places: Any, x: Any, nodes: Any, grads: Any, volumes: Any, moduli: Any
) -> Any:
    A, Ag = np.empty((9, 9)), np.empty((9, 3))
    for cell in range(len(nodes)):
        g, F = grads[cell], np.zeros(9)
        for a in range(4):
            for i in range(3):
                for k in range(3):
                    F[3 * i + k] += x[nodes[cell, a], i] * g[a, k]
        f = (F[0], F[1], F[2], F[3], F[4], F[5], F[6], F[7], F[8])
        R, m = rotation(f), (moduli[cell, 0], moduli[cell, 1], moduli[cell, 2])
        for j in range(9):
            d = (
                1.0 * (j == 0),
                1.0 * (j == 1),
                1.0 * (j == 2),
                1.0 * (j == 3),
                1.0 * (j == 4),
                1.0 * (j == 5),
                1.0 * (j == 6),
                1.0 * (j == 7),
                1.0 * (j == 8),
            )
            A[:, j] = laws.differential(LAW, f, R, d, m, 0)
        for b in range(4):
            for row in range(9):
                for j in range(3):
                    column = 3 * j
                    Ag[row, j] = (
                        A[row, column] * g[b, 0]
                        + A[row, column + 1] * g[b, 1]
                        + A[row, column + 2] * g[b, 2]
                    )
            for a in range(4):
                if places[cell, a, b] >= 0:
                    block = blocks[places[cell, a, b]]
                    for i in range(3):
                        for j in range(3):
                            block[i, j] += volumes[cell] * (
                                g[a, 0] * Ag[3 * i, j]
                                + g[a, 1] * Ag[3 * i + 1, j]
                                + g[a, 2] * Ag[3 * i + 2, j]
                            )
