"""Compiled loops of a solid: cell energies, forces and their derivatives along vectors, and the
sums over cells that share a node.

Cells write to their own place and nodes then gather in a fixed order, so that the bits do not
depend on the threads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import (
    add,
    det,
    dot,
    mm,
    mtm,
    plane_rotation,
    rotation,
    rotation_differential,
    scale,
    sym,
)
from pliant.materials import laws

TINY = 1e-30  # the complex step: its square is far below round-off


class Cells(NamedTuple):
    """What the loops read of a body's cells."""

    nodes: Array  # (n_cells, n_nodes)
    grads: Array  # (n_cells, n_points, n_nodes, dim) [1/m] shape gradients at the quadrature points
    weights: Array  # (n_cells, n_points) [m^3] quadrature volumes
    law: Array  # (n_cells,)
    power: Array  # (n_cells,)


class Viscous(NamedTuple):
    """The viscous share of a step: stress = sum over steps of rate * Green strain through viscosity
    times the moduli."""

    rate: float  # [1/s] weight of the new step's strain in the strain rate; 0: no viscosity
    time: float  # [s] viscosity: the viscous moduli are this times (mu, lam)
    moduli: Array  # (n_cells, 2) [Pa s] viscosity times (mu, lam)
    past: Array  # (n_cells, n_points, 9) [1/s] the older steps' share of the strain rate


@njit(error_model="numpy", cache=True)
def field_gradient(q, nodes, grads, dim):
    """sum_a q_a (x) grad N_a, a 3 x 3 tuple whose out-of-plane entries are zero in the plane."""
    a00 = a01 = a02 = a10 = a11 = a12 = a20 = a21 = a22 = 0.0
    for a in range(len(nodes)):
        k = nodes[a] * dim
        gx, gy = grads[a, 0], grads[a, 1]
        x, y = q[k], q[k + 1]
        a00 += x * gx
        a01 += x * gy
        a10 += y * gx
        a11 += y * gy
        if dim == 3:
            gz, z = grads[a, 2], q[k + 2]
            a02 += x * gz
            a12 += y * gz
            a20 += z * gx
            a21 += z * gy
            a22 += z * gz
    return (a00, a01, a02, a10, a11, a12, a20, a21, a22)


@njit(error_model="numpy", cache=True)
def deformation(q, nodes, grads, dim):
    """The deformation gradient F; plane strain in 2D."""
    A = field_gradient(q, nodes, grads, dim)
    return A if dim == 3 else (A[0], A[1], 0.0, A[3], A[4], 0.0, 0.0, 0.0, 1.0)


@njit(error_model="numpy", cache=True)
def rotation_if_needed(law, F, dim):
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True)
def cell_moduli(moduli, c):
    return (moduli[c, 0], moduli[c, 1], moduli[c, 2])


@njit(error_model="numpy", cache=True)
def strain_rate(F, rate, past):
    E = mtm(F, F)
    half = 0.5 * rate
    return (
        half * (E[0] - 1.0) + past[0],
        half * E[1] + past[1],
        half * E[2] + past[2],
        half * E[3] + past[3],
        half * (E[4] - 1.0) + past[4],
        half * E[5] + past[5],
        half * E[6] + past[6],
        half * E[7] + past[7],
        half * (E[8] - 1.0) + past[8],
    )


@njit(error_model="numpy", cache=True, parallel=True)
def cell_forces(cells, moduli, viscous, q, dim):
    """((n_cells,) [J], (n_cells, n_nodes, dim) [N]) the energy of each cell, infinite where a
    barrier is broken, and its gradient."""
    n, points = cells.weights.shape
    energy, forces = np.zeros(n), np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        law, power, m = cells.law[c], cells.power[c], cell_moduli(moduli, c)
        for g in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, g], dim)
            R = rotation_if_needed(law, F, dim)
            psi = laws.energy(law, F, R, m, power)
            P = laws.stress(law, F, R, m, power)
            if viscous.rate > 0.0:
                E = strain_rate(F, viscous.rate, viscous.past[c, g])
                S = laws.hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], E)
                psi += 0.5 * dot(E, S) / viscous.rate
                P = add(P, mm(F, S))
            energy[c] += cells.weights[c, g] * psi
            _spread(forces[c], cells.weights[c, g], P, cells.grads[c, g], dim)
    return energy, forces


@njit(error_model="numpy", cache=True)
def _spread(out, weight, P, grads, dim):
    """out_a += weight P grad N_a"""
    for a in range(out.shape[0]):
        gx, gy = weight * grads[a, 0], weight * grads[a, 1]
        if dim == 3:
            gz = weight * grads[a, 2]
            out[a, 0] += P[0] * gx + P[1] * gy + P[2] * gz
            out[a, 1] += P[3] * gx + P[4] * gy + P[5] * gz
            out[a, 2] += P[6] * gx + P[7] * gy + P[8] * gz
        else:
            out[a, 0] += P[0] * gx + P[1] * gy
            out[a, 1] += P[3] * gx + P[4] * gy


@njit(error_model="numpy", cache=True, parallel=True)
def cell_products(cells, moduli, q, y, dim):
    """(n_cells, n_nodes, dim) [N] the elastic stiffness of each cell times y."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation(q, nodes, grads, dim)
            R = rotation_if_needed(cells.law[c], F, dim)
            dP = laws.differential(
                cells.law[c],
                F,
                R,
                field_gradient(y, nodes, grads, dim),
                cell_moduli(moduli, c),
                cells.power[c],
            )
            _spread(out[c], cells.weights[c, g], dP, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def field_gradients(cells, y, dim):
    """(n_cells, n_points, dim, dim) the gradient of a nodal vector field with respect to rest
    coordinates."""
    n, points = cells.weights.shape
    out = np.empty((n, points, dim, dim))
    for c in prange(n):
        for g in range(points):
            A = field_gradient(y, cells.nodes[c], cells.grads[c, g], dim)
            for i in range(dim):
                for j in range(dim):
                    out[c, g, i, j] = A[3 * i + j]
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def viscous_products(cells, moduli, q, level, y, dim):
    """(n_cells, n_nodes, dim) the forces of the stress F(q) hooke(sym(F(level)^T grad y)) with
    moduli (n_cells, 2)."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            E = sym(
                mtm(field_gradient(level, nodes, grads, dim), field_gradient(y, nodes, grads, dim))
            )
            P = mm(field_gradient(q, nodes, grads, dim), laws.hooke(moduli[c, 0], moduli[c, 1], E))
            _spread(out[c], cells.weights[c, g], P, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def cell_third(cells, moduli, q, y, z, dim):
    """(n_cells, n_nodes, dim) the gradient of y^T K(q) z with respect to q, by the complex step of
    the stress differential."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation(q, nodes, grads, dim)
            Y, Z = field_gradient(y, nodes, grads, dim), field_gradient(z, nodes, grads, dim)
            R = rotation_if_needed(cells.law[c], F, dim)
            dR = rotation_differential(F, R, Y) if laws.needs_rotation(cells.law[c]) else Y
            step = complex(0.0, TINY)
            dP = laws.differential(
                cells.law[c],
                add(F, scale(step, Y)),
                add(R, scale(step, dR)),
                scale(complex(1.0, 0.0), Z),
                cell_moduli(moduli, c),
                cells.power[c],
            )
            _spread(
                out[c],
                cells.weights[c, g] / TINY,
                (
                    dP[0].imag,
                    dP[1].imag,
                    dP[2].imag,
                    dP[3].imag,
                    dP[4].imag,
                    dP[5].imag,
                    dP[6].imag,
                    dP[7].imag,
                    dP[8].imag,
                ),
                grads,
                dim,
            )
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_blocks(blocks, start, source, flip):
    """(n_pairs, dim, dim) sum of the cell blocks of each node pair, in the fixed order of `source`;
    some transposed."""
    flat = blocks.reshape(-1, blocks.shape[2], blocks.shape[3])
    dim = blocks.shape[2]
    n = len(start) - 1
    out = np.zeros((n, dim, dim))
    for p in prange(n):
        for s in range(start[p], start[p + 1]):
            for i in range(dim):
                for j in range(dim):
                    out[p, i, j] += flat[source[s], j, i] if flip[s] else flat[source[s], i, j]
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_forces(forces, start, source):
    """(n_nodes dim,) sum of the cells' nodal forces, in the fixed order of `source`."""
    dim = forces.shape[2]
    flat = forces.reshape(-1, dim)
    n = len(start) - 1
    out = np.zeros(n * dim)
    for a in prange(n):
        for s in range(start[a], start[a + 1]):
            for i in range(dim):
                out[a * dim + i] += flat[source[s], i]
    return out


@njit(error_model="numpy", cache=True)
def smallest_jacobian(nodes, grads, q, dim):
    """(smallest det F over all points, its cell)"""
    worst, where = np.inf, -1
    for c in range(len(nodes)):
        for g in range(grads.shape[1]):
            J = det(deformation(q, nodes[c], grads[c, g], dim))
            if not worst <= J:
                worst, where = J, c
    return worst, where
