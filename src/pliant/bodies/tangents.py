"""One compiled loop for the forces and the stiffness of a solid's cells, for steps that need both
at one place.

What a law says is found cell by cell; what is most of the work, the rotations and the blocks, for
WIDE cells side by side: the last index of a scratch array is the cell, and a processor takes
several of them at once.
"""

import numpy as np
from numba import njit, prange

from pliant.bodies.assembly import cell_moduli
from pliant.core import Array
from pliant.kernels import FAST, cofactor, mm, mmt, plane_rotation, rotation, scale, spin_inverse
from pliant.kernels.polar import SOUND
from pliant.materials import laws

WIDE = 8  # cells side by side
TOGETHER = 8  # groups of cells that share scratch arrays


@njit(error_model="numpy", cache=True)
def _at(A, n):
    """Matrix n of eight side by side."""
    return (A[0, n], A[1, n], A[2, n], A[3, n], A[4, n], A[5, n], A[6, n], A[7, n], A[8, n])


@njit(error_model="numpy", cache=True)
def _keep(A, n, M):
    A[0, n], A[1, n], A[2, n], A[3, n], A[4, n], A[5, n], A[6, n], A[7, n], A[8, n] = M


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _deform(F, x, g, dim):
    """F = sum_a x_a (x) g_a, with the out-of-plane entry of plane strain."""
    for i in range(3):
        for j in range(3):
            for n in range(WIDE):
                F[3 * i + j, n] = x[0, i, n] * g[0, j, n]
            for a in range(1, g.shape[0]):
                for n in range(WIDE):
                    F[3 * i + j, n] += x[a, i, n] * g[a, j, n]
    if dim == 2:
        F[8] = 1.0


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _push(out, A, g):
    """out_a = A g_a"""
    for a in range(g.shape[0]):
        for i in range(3):
            for n in range(WIDE):
                out[a, i, n] = (
                    A[3 * i, n] * g[a, 0, n]
                    + A[3 * i + 1, n] * g[a, 1, n]
                    + A[3 * i + 2, n] * g[a, 2, n]
                )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _square(out, A):
    """A A^T"""
    for i in range(3):
        for j in range(3):
            for n in range(WIDE):
                out[3 * i + j, n] = (
                    A[3 * i, n] * A[3 * j, n]
                    + A[3 * i + 1, n] * A[3 * j + 1, n]
                    + A[3 * i + 2, n] * A[3 * j + 2, n]
                )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _turn(R, F, sound, dim):
    """The rotations of F: Higham's iteration as in kernels.polar, and one by one where a matrix is
    near flat or inverted."""
    for n in range(WIDE):
        M = _at(F, n)
        size = np.sqrt(
            M[0] ** 2
            + M[1] ** 2
            + M[2] ** 2
            + M[3] ** 2
            + M[4] ** 2
            + M[5] ** 2
            + M[6] ** 2
            + M[7] ** 2
            + M[8] ** 2
        )
        C = cofactor(M)
        sound[n] = M[0] * C[0] + M[1] * C[1] + M[2] * C[2] - SOUND * size**3
        unit = np.sqrt(3.0) / size
        for i in range(9):
            R[i, n] = unit * M[i] if sound[n] > 0.0 else 1.0 * (i % 4 == 0)
    for _ in range(20):
        change = 0.0
        for n in range(WIDE):
            M = _at(R, n)
            C = cofactor(M)
            half, d = 0.5 / (M[0] * C[0] + M[1] * C[1] + M[2] * C[2]), 0.0
            for i in range(9):
                step = half * C[i] - 0.5 * M[i]
                R[i, n] = M[i] + step
                d += step * step
            change = max(change, d)
        if change < 1e-17:
            break
    for n in range(WIDE):
        if not sound[n] > 0.0:
            _keep(R, n, rotation(_at(F, n)))
        if dim == 2:
            _keep(R, n, plane_rotation(_at(F, n)))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _add_even(B, g, s):
    """Blocks a <= b += s (ga . gb) I"""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(WIDE):
                e = s[n] * (
                    g[a, 0, n] * g[b, 0, n] + g[a, 1, n] * g[b, 1, n] + g[a, 2, n] * g[b, 2, n]
                )
                B[k, 0, n] += e
                B[k, 4, n] += e
                B[k, 8, n] += e
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _add_viscous(B, g, w, FF, mu, lam):
    """Blocks a <= b += mu ((ga . gb) F F^T + wb wa^T) + lam wa wb^T, with w = F g."""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(WIDE):
                d = mu[n] * (
                    g[a, 0, n] * g[b, 0, n] + g[a, 1, n] * g[b, 1, n] + g[a, 2, n] * g[b, 2, n]
                )
                i, j, m = w[a, 0, n], w[a, 1, n], w[a, 2, n]
                x, y, z = w[b, 0, n], w[b, 1, n], w[b, 2, n]
                li, lj, lm = lam[n] * i, lam[n] * j, lam[n] * m
                mi, mj, mn = mu[n] * i, mu[n] * j, mu[n] * m
                B[k, 0, n] += d * FF[0, n] + (li + mi) * x
                B[k, 1, n] += d * FF[1, n] + li * y + mj * x
                B[k, 2, n] += d * FF[2, n] + li * z + mn * x
                B[k, 3, n] += d * FF[3, n] + lj * x + mi * y
                B[k, 4, n] += d * FF[4, n] + (lj + mj) * y
                B[k, 5, n] += d * FF[5, n] + lj * z + mn * y
                B[k, 6, n] += d * FF[6, n] + lm * x + mi * z
                B[k, 7, n] += d * FF[7, n] + lm * y + mj * z
                B[k, 8, n] += d * FF[8, n] + (lm + mn) * z
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _add_turning(B, v, l, H, P):
    """Blocks a <= b += l va vb^T - [va]x H [vb]x, with v = R g and H = t R (tr(S) I - S)^-1 R^T."""
    k = 0
    for b in range(v.shape[0]):
        for n in range(WIDE):  # P = H [vb]x
            x, y, z = v[b, 0, n], v[b, 1, n], v[b, 2, n]
            P[0, n], P[1, n], P[2, n] = (
                H[1, n] * z - H[2, n] * y,
                H[4, n] * z - H[5, n] * y,
                H[7, n] * z - H[8, n] * y,
            )
            P[3, n], P[4, n], P[5, n] = (
                H[2, n] * x - H[0, n] * z,
                H[5, n] * x - H[3, n] * z,
                H[8, n] * x - H[6, n] * z,
            )
            P[6, n], P[7, n], P[8, n] = (
                H[0, n] * y - H[1, n] * x,
                H[3, n] * y - H[4, n] * x,
                H[6, n] * y - H[7, n] * x,
            )
        for a in range(b + 1):
            for n in range(WIDE):
                i, j, m = v[a, 0, n], v[a, 1, n], v[a, 2, n]
                x, y, z = l[n] * v[b, 0, n], l[n] * v[b, 1, n], l[n] * v[b, 2, n]
                B[k, 0, n] += i * x - j * P[2, n] + m * P[1, n]
                B[k, 1, n] += i * y - j * P[5, n] + m * P[4, n]
                B[k, 2, n] += i * z - j * P[8, n] + m * P[7, n]
                B[k, 3, n] += j * x - m * P[0, n] + i * P[2, n]
                B[k, 4, n] += j * y - m * P[3, n] + i * P[5, n]
                B[k, 5, n] += j * z - m * P[6, n] + i * P[8, n]
                B[k, 6, n] += m * x - i * P[1, n] + j * P[0, n]
                B[k, 7, n] += m * y - i * P[4, n] + j * P[3, n]
                B[k, 8, n] += m * z - i * P[7, n] + j * P[6, n]
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _add_volume(B, g, u, F, slope, bend):
    """Blocks a <= b += bend ua ub^T + slope eps(F (ga x gb)), with u = C g."""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(WIDE):
                ax, ay, az = slope[n] * g[a, 0, n], slope[n] * g[a, 1, n], slope[n] * g[a, 2, n]
                bx, by, bz = g[b, 0, n], g[b, 1, n], g[b, 2, n]
                p, q, r = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
                cx, cy, cz = (
                    F[0, n] * p + F[1, n] * q + F[2, n] * r,
                    F[3, n] * p + F[4, n] * q + F[5, n] * r,
                    F[6, n] * p + F[7, n] * q + F[8, n] * r,
                )
                i, j, m = bend[n] * u[a, 0, n], bend[n] * u[a, 1, n], bend[n] * u[a, 2, n]
                x, y, z = u[b, 0, n], u[b, 1, n], u[b, 2, n]
                B[k, 0, n] += i * x
                B[k, 1, n] += i * y + cz
                B[k, 2, n] += i * z - cy
                B[k, 3, n] += j * x - cz
                B[k, 4, n] += j * y
                B[k, 5, n] += j * z + cx
                B[k, 6, n] += m * x + cy
                B[k, 7, n] += m * y - cx
                B[k, 8, n] += m * z
            k += 1


@njit(error_model="numpy", cache=True)
def _look(cells, q, first, k, x, g, dim):
    """Positions x and shape gradients g of the nodes of WIDE cells at quadrature point k; is there
    a law that turns?"""
    turning, last = False, len(cells.nodes) - 1
    for lane in range(WIDE):
        c = min(first + lane, last)  # beyond the last cell it is done again, and not looked at
        for a in range(g.shape[0]):
            for i in range(dim):
                x[a, i, lane] = q[cells.nodes[c, a] * dim + i]
                g[a, i, lane] = cells.grads[c, k, a, i]
        turning = turning or laws.needs_rotation(cells.law[c])
    return turning


@njit(error_model="numpy", cache=True)
def _weigh(cells, moduli, first, k, F, R, P, H, C, numbers):
    """What the laws say of WIDE cells, times their weights: the stress P, H of `_add_turning`, the
    cofactor C and the five numbers of laws.tangent but t, which is in H, then mu and lam; is there
    a law that looks at the volume?"""
    volume, last = False, len(cells.nodes) - 1
    for lane in range(WIDE):
        c = min(first + lane, last)
        law, power, weight, own = (
            cells.law[c],
            cells.power[c],
            cells.weights[c, k],
            cell_moduli(moduli, c),
        )
        A, Q = _at(F, lane), _at(R, lane)
        _keep(P, lane, scale(weight, laws.stress(law, A, Q, own, power)))
        s, t, l, slope, bend = laws.tangent(law, A, Q, own, power)
        for row, number in enumerate((s, l, slope, bend, own[0], own[1])):
            numbers[row, lane] = weight * number
        if laws.needs_rotation(law):
            _keep(H, lane, scale(weight * t, mm(Q, mmt(spin_inverse(A, Q), Q))))
        else:
            _keep(H, lane, scale(0.0, A))
        volume = volume or slope != 0.0 or bend != 0.0
        _keep(C, lane, cofactor(A))
    return volume


@njit(error_model="numpy", cache=True, parallel=True)
def cell_tangents(cells, moduli, viscosity, q, dim):
    """((n_cells, n_nodes, dim) [N], (n_groups, n_nodes (n_nodes + 1) / 2, 9, WIDE) [N/m]): the
    gradient of each cell's energy, and the blocks (a, b), a <= b, b slowest, of its Hessian and of
    `viscosity` [-] times the viscous one, WIDE cells side by side."""
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    groups = (n + WIDE - 1) // WIDE
    forces, out = np.zeros((n, m, dim)), np.zeros((groups, m * (m + 1) // 2, 9, WIDE))
    for part in prange((groups + TOGETHER - 1) // TOGETHER):
        vectors, matrices, numbers, sound = (
            np.zeros((4, m, 3, WIDE)),
            np.zeros((5, 9, WIDE)),
            np.zeros((6, WIDE)),
            np.zeros(WIDE),
        )
        x, g, y, f = vectors[0], vectors[1], vectors[2], vectors[3]
        F, R, P, H, C = matrices[0], matrices[1], matrices[2], matrices[3], matrices[4]
        for group in range(part * TOGETHER, min(groups, (part + 1) * TOGETHER)):
            first, blocks = group * WIDE, out[group]
            for k in range(points):
                turning = _look(cells, q, first, k, x, g, dim)
                _deform(F, x, g, dim)
                if turning:
                    _turn(R, F, sound, dim)
                volume = _weigh(cells, moduli, first, k, F, R, P, H, C, numbers)
                _push(f, P, g)
                for lane in range(min(WIDE, n - first)):
                    for a in range(m):
                        for i in range(dim):
                            forces[first + lane, a, i] += f[a, i, lane]
                if volume:
                    _push(y, C, g)
                    _add_volume(blocks, g, y, F, numbers[2], numbers[3])
                if turning:
                    _push(y, R, g)
                    _add_turning(blocks, y, numbers[1], H, P)
                _add_even(blocks, g, numbers[0])
                if viscosity > 0.0:
                    _push(y, F, g)
                    _square(P, F)
                    _add_viscous(blocks, g, y, P, viscosity * numbers[4], viscosity * numbers[5])
    return forces, out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_wide(blocks, start, source, flip, dim):
    """(n_pairs, dim, dim) sum of the blocks of each node pair, in the fixed order of `source`:
    where each begins in `blocks`; some are transposed."""
    flat = blocks.reshape(-1)
    n = len(start) - 1
    out = np.empty((n, dim, dim))
    for p in prange(n):
        a = b = c = d = e = f = g = h = i = 0.0
        for s in range(start[p], start[p + 1]):
            at = source[s]
            down, right = (WIDE, 3 * WIDE) if flip[s] else (3 * WIDE, WIDE)
            a += flat[at]
            b += flat[at + right]
            c += flat[at + 2 * right]
            d += flat[at + down]
            e += flat[at + down + right]
            f += flat[at + down + 2 * right]
            g += flat[at + 2 * down]
            h += flat[at + 2 * down + right]
            i += flat[at + 2 * down + 2 * right]
        out[p, 0, 0], out[p, 0, 1], out[p, 1, 0], out[p, 1, 1] = a, b, d, e
        if dim == 3:
            out[p, 0, 2], out[p, 1, 2], out[p, 2, 0], out[p, 2, 1], out[p, 2, 2] = c, f, g, h, i
    return out


def wide_places(source: Array, per_cell: int) -> Array:
    """(n,) where each block of a list `source` = cell * per_cell + block begins in the blocks of
    `cell_tangents`."""
    cell, k = source // per_cell, source % per_cell
    return ((cell // WIDE) * per_cell + k) * 9 * WIDE + cell % WIDE
