"""Compiled loops of a solid: cell energies, forces and stiffness, and the sums over cells that share a node.

Cells write to their own place and nodes then gather in a fixed order, so that the bits do not depend on the threads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import add, cofactor, det, dot, mm, mmt, mtm, rotation, rotation_differential, scale, spin_inverse, sym, trace
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
def _apply(A, x, y, z):
    """A (x, y, z)"""
    return A[0] * x + A[1] * y + A[2] * z, A[3] * x + A[4] * y + A[5] * z, A[6] * x + A[7] * y + A[8] * z


@njit(cache=True)
def _add_points(out, A, g, u, v, w, numbers, dim):
    """Add s (ga . gb) I + bend ua ub^T + slope eps(F (ga x gb)) + turn [va]x H [vb]x + l va vb^T + viscous to blocks a <= b.

    g, u = C g, v = R g and w = F g are the gradients (n, 3) pushed by the matrices of `tangent`; A = (F, H, FF^T, S) holds
    F, H = R (tr S I - S)^-1 R^T, the viscous F F^T and the viscous stress.
    """
    F, H, FF, S = A
    s, turn, l, slope, bend, mu, lam = numbers
    k = 0
    for b in range(g.shape[0]):
        bx, by, bz = v[b, 0], v[b, 1], v[b, 2]
        # columns of H [vb]x
        h0 = (H[1] * bz - H[2] * by, H[4] * bz - H[5] * by, H[7] * bz - H[8] * by)
        h1 = (H[2] * bx - H[0] * bz, H[5] * bx - H[3] * bz, H[8] * bx - H[6] * bz)
        h2 = (H[0] * by - H[1] * bx, H[3] * by - H[4] * bx, H[6] * by - H[7] * bx)
        sx, sy, sz = _apply(S, g[b, 0], g[b, 1], g[b, 2])
        for a in range(b + 1):
            gx, gy, gz = g[a, 0], g[a, 1], g[a, 2]
            dot_ab = gx * g[b, 0] + gy * g[b, 1] + gz * g[b, 2]
            cx, cy, cz = _apply(F, gy * g[b, 2] - gz * g[b, 1], gz * g[b, 0] - gx * g[b, 2], gx * g[b, 1] - gy * g[b, 0])
            ax, ay, az = v[a, 0], v[a, 1], v[a, 2]
            even = s * dot_ab + gx * sx + gy * sy + gz * sz
            B = out[k]
            for i in range(dim):
                for j in range(dim):
                    B[i, j] += (bend * u[a, i] * u[b, j] + l * v[a, i] * v[b, j] + lam * w[a, i] * w[b, j]
                                + mu * (FF[3 * i + j] * dot_ab + w[b, i] * w[a, j]))  # fmt: skip
                B[i, i] += even
            B[0, 1] += slope * cz + turn * (ay * h1[2] - az * h1[1])
            B[1, 0] += -slope * cz + turn * (az * h0[0] - ax * h0[2])
            B[0, 0] += turn * (ay * h0[2] - az * h0[1])
            B[1, 1] += turn * (az * h1[0] - ax * h1[2])
            if dim == 3:
                B[0, 2] += -slope * cy + turn * (ay * h2[2] - az * h2[1])
                B[1, 2] += slope * cx + turn * (az * h2[0] - ax * h2[2])
                B[2, 0] += slope * cy + turn * (ax * h0[1] - ay * h0[0])
                B[2, 1] += -slope * cx + turn * (ax * h1[1] - ay * h1[0])
                B[2, 2] += turn * (ax * h2[1] - ay * h2[0])
            k += 1


@njit(cache=True)
def _push(out, A, g):
    """out_a = A g_a"""
    for a in range(g.shape[0]):
        out[a, 0], out[a, 1], out[a, 2] = _apply(A, g[a, 0], g[a, 1], g[a, 2])


@njit(cache=True, parallel=True)
def cell_stiffness(cells, moduli, viscous, q, dim):
    """(n_cells, n_nodes (n_nodes + 1) / 2, dim, dim) [N/m] blocks (a, b), a <= b, b slowest, of each cell's energy Hessian."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    chunk = 32  # cells that share scratch arrays
    for part in prange((n + chunk - 1) // chunk):
        g, u, v, w = np.zeros((m, 3)), np.zeros((m, 3)), np.zeros((m, 3)), np.zeros((m, 3))
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            for k in range(points):
                weight, law = cells.weights[c, k], cells.law[c]
                g[:, :dim] = cells.grads[c, k]
                F = deformation(q, cells.nodes[c], cells.grads[c, k], dim)
                R = _rotation_if_needed(law, F)
                s, t, l, slope, bend = laws.tangent(law, F, R, _moduli(moduli, c), cells.power[c])
                _push(u, cofactor(F), g)
                _push(w, F, g)
                H = S = FF = scale(0.0, F)
                mu = lam = 0.0
                if laws.needs_rotation(law):
                    _push(v, R, g)
                    H = mm(R, mmt(spin_inverse(F, R), R))
                if viscous.rate > 0.0:
                    S = _hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], _strain_rate(F, viscous.rate, viscous.past[c, k]))
                    mu, lam, FF = viscous.rate * viscous.moduli[c, 0], viscous.rate * viscous.moduli[c, 1], mmt(F, F)
                numbers = (weight * s, -weight * t, weight * l, weight * slope, weight * bend, weight * mu, weight * lam)
                _add_points(out[c], (F, H, FF, scale(weight, S)), g, u, v, w, numbers, dim)
    return out


@njit(cache=True)
def _add_contracted(out, C, CG, weight, grads, dim):
    """Blocks a <= b of one quadrature point: K_ab[i, j] += weight grad N_a[k] C[(i k), (j l)] grad N_b[l]."""
    t = 0
    for b in range(grads.shape[0]):
        for r in range(3 * dim):
            for j in range(dim):
                total = 0.0
                for l in range(dim):
                    total += C[r, 3 * j + l] * grads[b, l]
                CG[r, j] = weight * total
        for a in range(b + 1):
            for i in range(dim):
                for j in range(dim):
                    for k in range(dim):
                        out[t, i, j] += grads[a, k] * CG[3 * i + k, j]
            t += 1


@njit(cache=True)
def cell_positive_stiffness(cells, moduli, viscous, q, dim):
    """As `cell_stiffness`, with the tangent at every quadrature point made positive semidefinite; slower, for rescues."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    C, CG = np.zeros((9, 9)), np.zeros((9, 3))
    for c in range(n):
        for k in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, k], dim)
            R = _rotation_if_needed(cells.law[c], F)
            _tangent(C, cells.law[c], F, R, _moduli(moduli, c), cells.power[c], dim)
            if viscous.rate > 0.0:
                E = _strain_rate(F, viscous.rate, viscous.past[c, k])
                _add_viscous_tangent(C, F, E, viscous.rate, viscous.moduli[c, 0], viscous.moduli[c, 1], dim)
            _project(C, dim)
            _add_contracted(out[c], C, CG, cells.weights[c, k], cells.grads[c, k], dim)
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
