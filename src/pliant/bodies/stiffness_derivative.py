"""Compiled loops for cell matrices of a solid: stiffness, its directional derivative, viscous
forces."""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.bodies.assembly import (
    COMPLEX_STEP,
    cell_moduli,
    deformation_gradient,
    field_gradient,
    rotation_if_needed,
)
from pliant.bodies.stiffness import add_rotation_blocks, add_unrotated_blocks, transform_gradients
from pliant.kernels import (
    add,
    cofactor,
    mm,
    mmt,
    mtm,
    rotation_differential,
    scale,
    spin_inverse,
    sym,
)
from pliant.materials import laws


@njit(error_model="numpy", cache=True)
def _fill_symmetric(K: Any, T: Any, blocks: Any) -> Any:
    """Fill both triangles of K and T (nodes, dim, nodes, dim) from complex blocks a <= b.

    The imaginary parts are COMPLEX_STEP times the entries of T.
    """
    k, dim = 0, K.shape[1]
    for b in range(K.shape[0]):
        for a in range(b + 1):
            for i in range(dim):
                for j in range(dim):
                    K[a, i, b, j] = K[b, j, a, i] = blocks[k, i, j].real
                    T[a, i, b, j] = T[b, j, a, i] = blocks[k, i, j].imag / COMPLEX_STEP
            k += 1


@njit(error_model="numpy", cache=True, parallel=True)
def cell_stiffness_and_derivative(cells: Any, moduli: Any, q: Any, w: Any, dim: Any) -> Any:
    """Return each cell's elastic stiffness K [N/m] and its derivative T along w.

    Both have shape (n_cells, n_nodes, dim, n_nodes, dim). T is the complex-step derivative of the
    closed form.
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    K, T = np.empty((n, m, dim, m, dim)), np.empty((n, m, dim, m, dim))
    chunk = 32  # cells that share scratch arrays
    for part in prange((n + chunk - 1) // chunk):
        g, transformed = np.zeros((m, 3)), np.zeros((m, 3), dtype=np.complex128)
        blocks = np.empty((m * (m + 1) // 2, dim, dim), dtype=np.complex128)
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            law, nodes = cells.law[c], cells.nodes[c]
            blocks[:] = 0.0
            for k in range(points):
                grads, weight, step = (
                    cells.grads[c, k],
                    cells.weights[c, k],
                    complex(0.0, COMPLEX_STEP),
                )
                for a in range(m):
                    for i in range(dim):
                        g[a, i] = grads[a, i]
                F0, W = (
                    deformation_gradient(q, nodes, grads, dim),
                    field_gradient(w, nodes, grads, dim),
                )
                R0 = rotation_if_needed(law, F0, dim)
                dR = rotation_differential(F0, R0, W) if laws.needs_rotation(law) else W
                F, R = add(F0, scale(step, W)), add(R0, scale(step, dR))
                s, t, l, slope, curvature = laws.tangent(
                    law, F, R, cell_moduli(moduli, c), cells.power[c]
                )
                transform_gradients(transformed, cofactor(F), g)
                add_unrotated_blocks(
                    blocks, F, g, transformed, weight * s, weight * slope, weight * curvature, dim
                )
                if laws.needs_rotation(law):
                    transform_gradients(transformed, R, g)
                    add_rotation_blocks(
                        blocks,
                        mm(R, mmt(spin_inverse(F, R), R)),
                        transformed,
                        weight * t,
                        weight * l,
                        dim,
                    )
            _fill_symmetric(K[c], T[c], blocks)
    return K, T


@njit(error_model="numpy", cache=True, parallel=True)
def cell_viscous_matrices(
    cells: Any, moduli: Any, q: Any, level: Any, with_stress: Any, dim: Any
) -> Any:
    """Return `assembly.viscous_products` as matrices (n_cells, n_nodes, dim, n_nodes, dim).

    A block is mu ((ga . gb) F L^T + wb za^T) + lam wa zb^T, where F = F(q), L = F(level), w = F g,
    z = L g. `with_stress` adds (ga . S gb) I, where S is the stress of the strain sym(F^T L).
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m, dim, m, dim))
    chunk = 32  # cells that share scratch arrays
    for part in prange((n + chunk - 1) // chunk):
        g, w, z, s = np.zeros((m, 3)), np.zeros((m, 3)), np.zeros((m, 3)), np.zeros((m, 3))
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            for k in range(points):
                nodes, grads = cells.nodes[c], cells.grads[c, k]
                mu, lam = cells.weights[c, k] * moduli[c, 0], cells.weights[c, k] * moduli[c, 1]
                for a in range(m):
                    for i in range(dim):
                        g[a, i] = grads[a, i]
                F, L = (
                    field_gradient(q, nodes, grads, dim),
                    field_gradient(level, nodes, grads, dim),
                )
                transform_gradients(w, F, g)
                transform_gradients(z, L, g)
                if with_stress:
                    transform_gradients(s, laws.hooke(mu, lam, sym(mtm(F, L))), g)
                FL = mmt(F, L)
                for a in range(m):
                    for b in range(m):
                        gg = mu * (g[a, 0] * g[b, 0] + g[a, 1] * g[b, 1] + g[a, 2] * g[b, 2])
                        stress_term = g[a, 0] * s[b, 0] + g[a, 1] * s[b, 1] + g[a, 2] * s[b, 2]
                        for i in range(dim):
                            for j in range(dim):
                                out[c, a, i, b, j] += (
                                    gg * FL[3 * i + j]
                                    + mu * w[b, i] * z[a, j]
                                    + lam * w[a, i] * z[b, j]
                                )
                            out[c, a, i, b, i] += stress_term
    return out
