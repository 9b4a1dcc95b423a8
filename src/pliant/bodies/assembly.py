"""Compiled loops of a solid: cell energies, forces and stiffness, and the sums over cells that share a node.

Cells write to their own place and nodes then gather in a fixed order, so that the bits do not depend on the threads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels import (
    add,
    cofactor,
    det,
    dot,
    mm,
    mmt,
    mtm,
    plane_rotation,
    rotation,
    rotation_differential,
    scale,
    spin_inverse,
    sym,
    trace,
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
    """The viscous share of a step: stress = sum over steps of rate * Green strain through viscosity times the moduli."""

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
def _rotation_if_needed(law, F, dim):
    if not laws.needs_rotation(law):
        return F
    return rotation(F) if dim == 3 else plane_rotation(F)


@njit(error_model="numpy", cache=True)
def _moduli(moduli, c):
    return (moduli[c, 0], moduli[c, 1], moduli[c, 2])


@njit(error_model="numpy", cache=True)
def _strain_rate(F, rate, past):
    E = mtm(F, F)
    half = 0.5 * rate
    return (half * (E[0] - 1.0) + past[0], half * E[1] + past[1], half * E[2] + past[2],
            half * E[3] + past[3], half * (E[4] - 1.0) + past[4], half * E[5] + past[5],
            half * E[6] + past[6], half * E[7] + past[7], half * (E[8] - 1.0) + past[8])  # fmt: skip


@njit(error_model="numpy", cache=True)
def _hooke(mu, lam, E):
    """2 mu E + lam tr(E) I"""
    t, m = lam * trace(E), 2.0 * mu
    return (m * E[0] + t, m * E[1], m * E[2], m * E[3], m * E[4] + t, m * E[5], m * E[6], m * E[7], m * E[8] + t)


@njit(error_model="numpy", cache=True, parallel=True)
def cell_forces(cells, moduli, viscous, q, dim):
    """((n_cells,) [J], (n_cells, n_nodes, dim) [N]) the energy of each cell, infinite where a barrier is broken, and its gradient."""
    n, points = cells.weights.shape
    energy, forces = np.zeros(n), np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        law, power, m = cells.law[c], cells.power[c], _moduli(moduli, c)
        for g in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, g], dim)
            R = _rotation_if_needed(law, F, dim)
            psi = laws.energy(law, F, R, m, power)
            P = laws.stress(law, F, R, m, power)
            if viscous.rate > 0.0:
                E = _strain_rate(F, viscous.rate, viscous.past[c, g])
                S = _hooke(viscous.moduli[c, 0], viscous.moduli[c, 1], E)
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
            R = _rotation_if_needed(cells.law[c], F, dim)
            dP = laws.differential(cells.law[c], F, R, field_gradient(y, nodes, grads, dim), _moduli(moduli, c), cells.power[c])
            _spread(out[c], cells.weights[c, g], dP, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def cell_third(cells, moduli, q, y, z, dim):
    """(n_cells, n_nodes, dim) the gradient of y^T K(q) z with respect to q, by the complex step of the stress differential."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            F = deformation(q, nodes, grads, dim)
            Y, Z = field_gradient(y, nodes, grads, dim), field_gradient(z, nodes, grads, dim)
            R = _rotation_if_needed(cells.law[c], F, dim)
            dR = rotation_differential(F, R, Y) if laws.needs_rotation(cells.law[c]) else Y
            step = complex(0.0, TINY)
            dP = laws.differential(cells.law[c], add(F, scale(step, Y)), add(R, scale(step, dR)), scale(complex(1.0, 0.0), Z),
                                   _moduli(moduli, c), cells.power[c])  # fmt: skip
            _spread(out[c], cells.weights[c, g] / TINY, (dP[0].imag, dP[1].imag, dP[2].imag, dP[3].imag, dP[4].imag,
                                                         dP[5].imag, dP[6].imag, dP[7].imag, dP[8].imag), grads, dim)  # fmt: skip
    return out


@njit(error_model="numpy", cache=True)
def _unit(k):
    """The matrix whose entry k is one."""
    return (1.0 * (k == 0), 1.0 * (k == 1), 1.0 * (k == 2), 1.0 * (k == 3), 1.0 * (k == 4),
            1.0 * (k == 5), 1.0 * (k == 6), 1.0 * (k == 7), 1.0 * (k == 8))  # fmt: skip


@njit(error_model="numpy", cache=True)
def _tangent(C, law, F, R, moduli, power, dim):
    """C[(i k), (j l)] = dP_ik / dF_jl (9 x 9; the 4 in-plane rows and columns in the plane)."""
    for j in range(dim):
        for l in range(dim):
            col = 3 * j + l
            unit = _unit(col)
            dP = laws.differential(law, F, R, unit, moduli, power)
            C[0, col], C[1, col], C[2, col], C[3, col], C[4, col] = dP[0], dP[1], dP[2], dP[3], dP[4]
            C[5, col], C[6, col], C[7, col], C[8, col] = dP[5], dP[6], dP[7], dP[8]


@njit(error_model="numpy", cache=True)
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


@njit(error_model="numpy", cache=True)
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


@njit(error_model="numpy", cache=True)
def _apply(A, x, y, z):
    """A (x, y, z)"""
    return A[0] * x + A[1] * y + A[2] * z, A[3] * x + A[4] * y + A[5] * z, A[6] * x + A[7] * y + A[8] * z


@njit(error_model="numpy", cache=True)
def _add(B, A, dim):
    B[0, 0] += A[0]
    B[0, 1] += A[1]
    B[1, 0] += A[3]
    B[1, 1] += A[4]
    if dim == 3:
        B[0, 2] += A[2]
        B[1, 2] += A[5]
        B[2, 0] += A[6]
        B[2, 1] += A[7]
        B[2, 2] += A[8]


@njit(error_model="numpy", cache=True)
def _row(array, a):
    return array[a, 0], array[a, 1], array[a, 2]


@njit(error_model="numpy", cache=True)
def _add_even(out, F, g, u, s, slope, bend, dim):
    """Blocks a <= b += s (ga . gb) I + bend ua ub^T + slope eps(F (ga x gb)), with u = C g."""
    k = 0
    for b in range(g.shape[0]):
        bx, by, bz = _row(g, b)
        vx, vy, vz = _row(u, b)
        for a in range(b + 1):
            ax, ay, az = _row(g, a)
            ux, uy, uz = bend * u[a, 0], bend * u[a, 1], bend * u[a, 2]
            e = s * (ax * bx + ay * by + az * bz)
            cx, cy, cz = _apply(F, slope * (ay * bz - az * by), slope * (az * bx - ax * bz), slope * (ax * by - ay * bx))
            _add(out[k], (e + ux * vx, ux * vy + cz, ux * vz - cy, uy * vx - cz, e + uy * vy, uy * vz + cx,
                          uz * vx + cy, uz * vy - cx, e + uz * vz), dim)  # fmt: skip
            k += 1


@njit(error_model="numpy", cache=True)
def _add_turning(out, H, v, t, l, dim):
    """Blocks a <= b += l va vb^T - t [va]x H [vb]x, with v = R g and H = R (tr(S) I - S)^-1 R^T."""
    k = 0
    for b in range(v.shape[0]):
        x, y, z = _row(v, b)
        # t H [vb]x, column by column
        p0, p1, p2 = t * (H[1] * z - H[2] * y), t * (H[4] * z - H[5] * y), t * (H[7] * z - H[8] * y)
        q0, q1, q2 = t * (H[2] * x - H[0] * z), t * (H[5] * x - H[3] * z), t * (H[8] * x - H[6] * z)
        r0, r1, r2 = t * (H[0] * y - H[1] * x), t * (H[3] * y - H[4] * x), t * (H[6] * y - H[7] * x)
        for a in range(b + 1):
            i, j, m = _row(v, a)
            li, lj, lm = l * i, l * j, l * m
            _add(out[k], (li * x - j * p2 + m * p1, li * y - j * q2 + m * q1, li * z - j * r2 + m * r1,
                          lj * x - m * p0 + i * p2, lj * y - m * q0 + i * q2, lj * z - m * r0 + i * r2,
                          lm * x - i * p1 + j * p0, lm * y - i * q1 + j * q0, lm * z - i * r1 + j * r0), dim)  # fmt: skip
            k += 1


@njit(error_model="numpy", cache=True)
def _add_viscous(out, FF, S, g, w, mu, lam, dim):
    """Blocks a <= b += (ga . S gb) I + mu ((ga . gb) F F^T + wb wa^T) + lam wa wb^T, with w = F g."""
    k = 0
    for b in range(g.shape[0]):
        bx, by, bz = _row(g, b)
        sx, sy, sz = _apply(S, bx, by, bz)
        x, y, z = _row(w, b)
        for a in range(b + 1):
            ax, ay, az = _row(g, a)
            i, j, m = _row(w, a)
            e, d = ax * sx + ay * sy + az * sz, mu * (ax * bx + ay * by + az * bz)
            both = mu + lam
            _add(out[k], (e + d * FF[0] + both * i * x, d * FF[1] + lam * i * y + mu * x * j, d * FF[2] + lam * i * z + mu * x * m,
                          d * FF[3] + lam * j * x + mu * y * i, e + d * FF[4] + both * j * y, d * FF[5] + lam * j * z + mu * y * m,
                          d * FF[6] + lam * m * x + mu * z * i, d * FF[7] + lam * m * y + mu * z * j, e + d * FF[8] + both * m * z),
                 dim)  # fmt: skip
            k += 1


@njit(error_model="numpy", cache=True)
def _push(out, A, g):
    """out_a = A g_a"""
    for a in range(g.shape[0]):
        out[a, 0], out[a, 1], out[a, 2] = _apply(A, g[a, 0], g[a, 1], g[a, 2])


@njit(error_model="numpy", cache=True, parallel=True)
def cell_stiffness(cells, moduli, viscous, q, dim):
    """(n_cells, n_nodes (n_nodes + 1) / 2, dim, dim) [N/m] blocks (a, b), a <= b, b slowest, of each cell's energy Hessian."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    chunk = 32  # cells that share scratch arrays
    for part in prange((n + chunk - 1) // chunk):
        g, pushed = np.zeros((m, 3)), np.zeros((m, 3))
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            law = cells.law[c]
            for k in range(points):
                weight = cells.weights[c, k]
                g[:, :dim] = cells.grads[c, k]
                F = deformation(q, cells.nodes[c], cells.grads[c, k], dim)
                R = _rotation_if_needed(law, F, dim)
                s, t, l, slope, bend = laws.tangent(law, F, R, _moduli(moduli, c), cells.power[c])
                _push(pushed, cofactor(F), g)
                _add_even(out[c], F, g, pushed, weight * s, weight * slope, weight * bend, dim)
                if laws.needs_rotation(law):
                    _push(pushed, R, g)
                    _add_turning(out[c], mm(R, mmt(spin_inverse(F, R), R)), pushed, weight * t, weight * l, dim)
                if viscous.rate > 0.0:
                    mu, lam = weight * viscous.moduli[c, 0], weight * viscous.moduli[c, 1]
                    S = _hooke(mu, lam, _strain_rate(F, viscous.rate, viscous.past[c, k]))
                    _push(pushed, F, g)
                    _add_viscous(out[c], mmt(F, F), S, g, pushed, viscous.rate * mu, viscous.rate * lam, dim)
    return out


@njit(error_model="numpy", cache=True)
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


@njit(error_model="numpy", cache=True)
def cell_positive_stiffness(cells, moduli, viscous, q, dim):
    """As `cell_stiffness`, with the tangent at every quadrature point made positive semidefinite; slower, for rescues."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    C, CG = np.zeros((9, 9)), np.zeros((9, 3))
    for c in range(n):
        for k in range(points):
            F = deformation(q, cells.nodes[c], cells.grads[c, k], dim)
            R = _rotation_if_needed(cells.law[c], F, dim)
            _tangent(C, cells.law[c], F, R, _moduli(moduli, c), cells.power[c], dim)
            if viscous.rate > 0.0:
                E = _strain_rate(F, viscous.rate, viscous.past[c, k])
                _add_viscous_tangent(C, F, E, viscous.rate, viscous.moduli[c, 0], viscous.moduli[c, 1], dim)
            _project(C, dim)
            _add_contracted(out[c], C, CG, cells.weights[c, k], cells.grads[c, k], dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
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
