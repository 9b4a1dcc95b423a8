"""Compiled loops of a solid: cell energies, forces and stiffness, and the sums over cells that share a node.

Cells write to their own place and nodes then gather in a fixed order, so that the bits do not depend on the threads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import add, det, dot, mm, mtm, rotation, rotation_differential, scale, sym, trace
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
    """The viscous share of a step: stress = sum over steps of rate * Green strain through viscosity times the moduli."""

    rate: float  # [1/s] weight of the new step's strain in the strain rate; 0: no viscosity
    time: float  # [s] viscosity: the viscous moduli are this times (mu, lam)
    moduli: Array  # (n_cells, 2) [Pa s] viscosity times (mu, lam)
    past: Array  # (n_cells, n_points, 9) [1/s] the older steps' share of the strain rate


@njit(cache=True)
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


@njit(cache=True)
def deformation(q, nodes, grads, dim):
    """The deformation gradient F; plane strain in 2D."""
    A = field_gradient(q, nodes, grads, dim)
    return A if dim == 3 else (A[0], A[1], 0.0, A[3], A[4], 0.0, 0.0, 0.0, 1.0)


@njit(cache=True)
def _rotation_if_needed(law, F):
    return rotation(F) if laws.needs_rotation(law) else F


@njit(cache=True)
def _moduli(moduli, c):
    return (moduli[c, 0], moduli[c, 1], moduli[c, 2])


@njit(cache=True)
def _strain_rate(F, rate, past):
    E = mtm(F, F)
    half = 0.5 * rate
    return (half * (E[0] - 1.0) + past[0], half * E[1] + past[1], half * E[2] + past[2],
            half * E[3] + past[3], half * (E[4] - 1.0) + past[4], half * E[5] + past[5],
            half * E[6] + past[6], half * E[7] + past[7], half * (E[8] - 1.0) + past[8])  # fmt: skip


@njit(cache=True)
def _hooke(mu, lam, E):
    """2 mu E + lam tr(E) I"""
    t, m = lam * trace(E), 2.0 * mu
    return (m * E[0] + t, m * E[1], m * E[2], m * E[3], m * E[4] + t, m * E[5], m * E[6], m * E[7], m * E[8] + t)


@njit(cache=True, parallel=True)
def cell_energies(cells, moduli, viscous, q, dim):
    """(n_cells,) [J]; infinite where a law with a barrier is inverted."""
    n, points = cells.weights.shape
    out = np.zeros(n)
    for c in prange(n):
        total = 0.0
        for g in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, g], dim)
            R = _rotation_if_needed(cells.law[c], F)
            psi = laws.energy(cells.law[c], F, R, _moduli(moduli, c), cells.power[c])
            if viscous.rate > 0.0:
                E = _strain_rate(F, viscous.rate, viscous.past[c, g])
                psi += 0.5 * dot(E, _hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], E)) / viscous.rate
            total += cells.weights[c, g] * psi
        out[c] = total
    return out


@njit(cache=True, parallel=True)
def cell_forces(cells, moduli, viscous, q, dim):
    """(n_cells, n_nodes, dim) [N] the gradient of each cell's energy."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, g], dim)
            R = _rotation_if_needed(cells.law[c], F)
            P = laws.stress(cells.law[c], F, R, _moduli(moduli, c), cells.power[c])
            if viscous.rate > 0.0:
                E = _strain_rate(F, viscous.rate, viscous.past[c, g])
                P = add(P, mm(F, _hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], E)))
            _spread(out[c], cells.weights[c, g], P, cells.grads[c, g], dim)
    return out


@njit(cache=True)
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


@njit(cache=True, parallel=True)
def cell_products(cells, moduli, q, y, dim):
    """(n_cells, n_nodes, dim) [N] the elastic stiffness of each cell times y."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation(q, nodes, grads, dim)
            R = _rotation_if_needed(cells.law[c], F)
            dP = laws.differential(cells.law[c], F, R, field_gradient(y, nodes, grads, dim), _moduli(moduli, c), cells.power[c])
            _spread(out[c], cells.weights[c, g], dP, grads, dim)
    return out


@njit(cache=True, parallel=True)
def cell_third(cells, moduli, q, y, z, dim):
    """(n_cells, n_nodes, dim) the gradient of y^T K(q) z with respect to q, by the complex step of the stress differential."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation(q, nodes, grads, dim)
            Y, Z = field_gradient(y, nodes, grads, dim), field_gradient(z, nodes, grads, dim)
            R = _rotation_if_needed(cells.law[c], F)
            dR = rotation_differential(F, R, Y) if laws.needs_rotation(cells.law[c]) else Y
            step = complex(0.0, TINY)
            dP = laws.differential(cells.law[c], add(F, scale(step, Y)), add(R, scale(step, dR)), scale(complex(1.0, 0.0), Z),
                                   _moduli(moduli, c), cells.power[c])  # fmt: skip
            _spread(out[c], cells.weights[c, g] / TINY, (dP[0].imag, dP[1].imag, dP[2].imag, dP[3].imag, dP[4].imag,
                                                         dP[5].imag, dP[6].imag, dP[7].imag, dP[8].imag), grads, dim)  # fmt: skip
    return out


@njit(cache=True)
def _unit(k):
    """The matrix whose entry k is one."""
    return (1.0 * (k == 0), 1.0 * (k == 1), 1.0 * (k == 2), 1.0 * (k == 3), 1.0 * (k == 4),
            1.0 * (k == 5), 1.0 * (k == 6), 1.0 * (k == 7), 1.0 * (k == 8))  # fmt: skip


@njit(cache=True)
def _tangent(C, law, F, R, moduli, power, dim):
    """C[(i k), (j l)] = dP_ik / dF_jl (9 x 9; the 4 in-plane rows and columns in the plane)."""
    for j in range(dim):
        for l in range(dim):
            col = 3 * j + l
            unit = _unit(col)
            dP = laws.differential(law, F, R, unit, moduli, power)
            C[0, col], C[1, col], C[2, col], C[3, col], C[4, col] = dP[0], dP[1], dP[2], dP[3], dP[4]
            C[5, col], C[6, col], C[7, col], C[8, col] = dP[5], dP[6], dP[7], dP[8]


@njit(cache=True)
def _add_viscous_tangent(C, F, E, rate, mu, lam, dim):
    """C += d/dF of F hooke(E), dE = rate sym(F^T dF)."""
    S = _hooke(mu, lam, E)
    for j in range(dim):
        for l in range(dim):
            col = 3 * j + l
            unit = _unit(col)
            dP = add(mm(unit, S), mm(F, _hooke(mu, lam, scale(rate, sym(mtm(F, unit))))))
            for r in range(9):
                C[r, col] += dP[r]


@njit(cache=True)
def _project(C, dim):
    """The nearest positive semidefinite matrix: negative eigenvalues become zero."""
    index = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8]) if dim == 3 else np.array([0, 1, 3, 4])
    m = len(index)
    A = np.empty((m, m))
    for r in range(m):
        for s in range(m):
            A[r, s] = 0.5 * (C[index[r], index[s]] + C[index[s], index[r]])
            if not np.isfinite(A[r, s]):
                A[r, s] = 0.0
    values, vectors = np.linalg.eigh(A)
    for r in range(m):
        for s in range(m):
            total = 0.0
            for t in range(m):
                total += max(values[t], 0.0) * vectors[r, t] * vectors[s, t]
            C[index[r], index[s]] = total


@njit(cache=True)
def _add_blocks(out, C, CG, weight, grads, dim):
    """Blocks a <= b of one quadrature point: K_ab[i, j] += weight grad N_a[k] C[(i k), (j l)] grad N_b[l]."""
    n = grads.shape[0]
    t = 0
    for b in range(n):
        for r in range(3 * dim):
            for j in range(dim):
                total = 0.0
                for l in range(dim):
                    total += C[r, 3 * j + l] * grads[b, l]
                CG[r, j] = weight * total
        for a in range(b + 1):
            for i in range(dim):
                for j in range(dim):
                    total = 0.0
                    for k in range(dim):
                        total += grads[a, k] * CG[3 * i + k, j]
                    out[t, i, j] += total
            t += 1


@njit(cache=True, parallel=True)
def cell_stiffness(cells, moduli, viscous, q, dim, project):
    """(n_cells, n_nodes (n_nodes + 1) / 2, dim, dim) [N/m] blocks (a, b), a <= b, b slowest, of each cell's energy Hessian."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    chunk = 32  # cells that share one scratch matrix
    for part in prange((n + chunk - 1) // chunk):
        C, CG = np.zeros((9, 9)), np.zeros((9, 3))
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            for g in range(points):
                F = deformation(q, cells.nodes[c], cells.grads[c, g], dim)
                R = _rotation_if_needed(cells.law[c], F)
                _tangent(C, cells.law[c], F, R, _moduli(moduli, c), cells.power[c], dim)
                if viscous.rate > 0.0:
                    E = _strain_rate(F, viscous.rate, viscous.past[c, g])
                    _add_viscous_tangent(C, F, E, viscous.rate, viscous.moduli[c, 0], viscous.moduli[c, 1], dim)
                if project:
                    _project(C, dim)
                _add_blocks(out[c], C, CG, cells.weights[c, g], cells.grads[c, g], dim)
    return out


@njit(cache=True, parallel=True)
def gather_blocks(blocks, start, source, flip):
    """(n_pairs, dim, dim) sum of the cell blocks of each node pair, in the fixed order of `source`; some transposed."""
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


@njit(cache=True, parallel=True)
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


@njit(cache=True)
def smallest_jacobian(nodes, grads, q, dim):
    """(smallest det F over all points, its cell)"""
    worst, where = np.inf, -1
    for c in range(len(nodes)):
        for g in range(grads.shape[1]):
            J = det(deformation(q, nodes[c], grads[c, g], dim))
            if not J >= worst:
                worst, where = J, c
    return worst, where
