"""One compiled loop for the forces and the stiffness of a solid's cells at the same state.

Laws are evaluated cell by cell. Rotations and blocks, which are most of the work, are computed for
LANES cells at once: the last index of a scratch array is the cell, so the compiler uses SIMD.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.bodies.assembly import cell_moduli
from pliant.core import Array
from pliant.kernels import FUSED, cofactor, mm, mmt, plane_rotation, rotation, scale, spin_inverse
from pliant.kernels.polar import MIN_RELATIVE_DET
from pliant.materials import laws

LANES = 8  # cells that are processed at once
GROUPS_PER_CHUNK = 8  # groups of cells that share scratch arrays


@njit(error_model="numpy", cache=True)
def get_lane(A: Any, n: Any) -> Any:
    """Return matrix n of a group."""
    return (A[0, n], A[1, n], A[2, n], A[3, n], A[4, n], A[5, n], A[6, n], A[7, n], A[8, n])


@njit(error_model="numpy", cache=True)
def set_lane(A: Any, n: Any, M: Any) -> Any:
    """Set matrix n of a group."""
    A[0, n], A[1, n], A[2, n], A[3, n], A[4, n], A[5, n], A[6, n], A[7, n], A[8, n] = M


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def deformation_gradients(F: Any, x: Any, g: Any, dim: Any) -> Any:
    """Write F = sum_a x_a (x) g_a, with F_zz = 1 in plane strain."""
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                F[3 * i + j, n] = x[0, i, n] * g[0, j, n]
            for a in range(1, g.shape[0]):
                for n in range(LANES):
                    F[3 * i + j, n] += x[a, i, n] * g[a, j, n]
    if dim == 2:
        F[8] = 1.0


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def transform_gradients(out: Any, A: Any, g: Any) -> Any:
    """Write out_a = A g_a."""
    for a in range(g.shape[0]):
        for i in range(3):
            for n in range(LANES):
                out[a, i, n] = (
                    A[3 * i, n] * g[a, 0, n]
                    + A[3 * i + 1, n] * g[a, 1, n]
                    + A[3 * i + 2, n] * g[a, 2, n]
                )


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def times_transpose(out: Any, A: Any) -> Any:
    """Write out = A A^T."""
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                out[3 * i + j, n] = (
                    A[3 * i, n] * A[3 * j, n]
                    + A[3 * i + 1, n] * A[3 * j + 1, n]
                    + A[3 * i + 2, n] * A[3 * j + 2, n]
                )


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def polar_rotations(R: Any, F: Any, det_margin: Any, dim: Any) -> Any:
    """Write the rotations of F by Higham's iteration, as in kernels.polar.

    Nearly singular or inverted matrices are handled one by one.
    """
    for n in range(LANES):
        M = get_lane(F, n)
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
        det_margin[n] = M[0] * C[0] + M[1] * C[1] + M[2] * C[2] - MIN_RELATIVE_DET * size**3
        unit = np.sqrt(3.0) / size
        for i in range(9):
            R[i, n] = unit * M[i] if det_margin[n] > 0.0 else 1.0 * (i % 4 == 0)
    for _ in range(20):
        change = 0.0
        for n in range(LANES):
            M = get_lane(R, n)
            C = cofactor(M)
            half, d = 0.5 / (M[0] * C[0] + M[1] * C[1] + M[2] * C[2]), 0.0
            for i in range(9):
                step = half * C[i] - 0.5 * M[i]
                R[i, n] = M[i] + step
                d += step * step
            change = max(change, d)
        if change < 1e-17:
            break
    for n in range(LANES):
        if not det_margin[n] > 0.0:
            set_lane(R, n, rotation(get_lane(F, n)))
        if dim == 2:
            set_lane(R, n, plane_rotation(get_lane(F, n)))


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def add_scaled_identity(B: Any, g: Any, s: Any) -> Any:
    """Add s (ga . gb) I to the blocks a <= b."""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(LANES):
                e = s[n] * (
                    g[a, 0, n] * g[b, 0, n] + g[a, 1, n] * g[b, 1, n] + g[a, 2, n] * g[b, 2, n]
                )
                B[k, 0, n] += e
                B[k, 4, n] += e
                B[k, 8, n] += e
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def add_viscous(B: Any, g: Any, w: Any, FF: Any, mu: Any, lam: Any) -> Any:
    """Add mu ((ga . gb) F F^T + wb wa^T) + lam wa wb^T to the blocks a <= b, where w = F g."""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(LANES):
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


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def add_rotation_blocks(B: Any, v: Any, l: Any, H: Any, P: Any) -> Any:
    """Add l va vb^T - [va]x H [vb]x to the blocks a <= b, where v = R g and H = t R (tr(S) I -
    S)^-1 R^T."""
    k = 0
    for b in range(v.shape[0]):
        for n in range(LANES):  # P = H [vb]x
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
            for n in range(LANES):
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


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def add_volumetric_blocks(B: Any, g: Any, u: Any, F: Any, slope: Any, curvature: Any) -> Any:
    """Add curvature ua ub^T + slope eps(F (ga x gb)) to the blocks a <= b, where u = C g."""
    k = 0
    for b in range(g.shape[0]):
        for a in range(b + 1):
            for n in range(LANES):
                ax, ay, az = slope[n] * g[a, 0, n], slope[n] * g[a, 1, n], slope[n] * g[a, 2, n]
                bx, by, bz = g[b, 0, n], g[b, 1, n], g[b, 2, n]
                p, q, r = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
                cx, cy, cz = (
                    F[0, n] * p + F[1, n] * q + F[2, n] * r,
                    F[3, n] * p + F[4, n] * q + F[5, n] * r,
                    F[6, n] * p + F[7, n] * q + F[8, n] * r,
                )
                i, j, m = (
                    curvature[n] * u[a, 0, n],
                    curvature[n] * u[a, 1, n],
                    curvature[n] * u[a, 2, n],
                )
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
def load_group(cells: Any, q: Any, first: Any, k: Any, x: Any, g: Any, dim: Any) -> Any:
    """Load positions x and shape gradients g of LANES cells at quadrature point k.

    Return whether a law of the group needs rotations.
    """
    has_rotation, last = False, len(cells.nodes) - 1
    for lane in range(LANES):
        c = min(first + lane, last)  # pads the last group; the result is not used
        for a in range(g.shape[0]):
            for i in range(dim):
                x[a, i, lane] = q[cells.nodes[c, a] * dim + i]
                g[a, i, lane] = cells.grads[c, k, a, i]
        has_rotation = has_rotation or laws.needs_rotation(cells.law[c])
    return has_rotation


@njit(error_model="numpy", cache=True)
def _evaluate_laws(
    cells: Any,
    moduli: Any,
    first: Any,
    k: Any,
    F: Any,
    R: Any,
    P: Any,
    H: Any,
    C: Any,
    numbers: Any,
) -> Any:
    """Evaluate the laws of LANES cells, times the quadrature weights.

    Writes the stress P, H of `add_rotation_blocks`, the cofactor C and, in `numbers`, (s, l,
    slope, curvature) of laws.tangent, mu and lam. Returns whether a law has volumetric terms.
    """
    has_volumetric, last = False, len(cells.nodes) - 1
    for lane in range(LANES):
        c = min(first + lane, last)
        law, power, weight, constants = (
            cells.law[c],
            cells.power[c],
            cells.weights[c, k],
            cell_moduli(moduli, c),
        )
        A, Q = get_lane(F, lane), get_lane(R, lane)
        set_lane(P, lane, scale(weight, laws.stress(law, A, Q, constants, power)))
        s, t, l, slope, curvature = laws.tangent(law, A, Q, constants, power)
        for row, number in enumerate((s, l, slope, curvature, constants[0], constants[1])):
            numbers[row, lane] = weight * number
        if laws.needs_rotation(law):
            set_lane(H, lane, scale(weight * t, mm(Q, mmt(spin_inverse(A, Q), Q))))
        else:
            set_lane(H, lane, scale(0.0, A))
        has_volumetric = has_volumetric or slope != 0.0 or curvature != 0.0
        set_lane(C, lane, cofactor(A))
    return has_volumetric


@njit(error_model="numpy", cache=True, parallel=True)
def cell_tangents(cells: Any, moduli: Any, viscosity: Any, q: Any, dim: Any) -> Any:
    """Return the gradient (n_cells, n_nodes, dim) [N] and the Hessian blocks of each cell's energy.

    The blocks (n_groups, n_nodes (n_nodes + 1) / 2, 9, LANES) [N/m] are (a, b) with a <= b; b
    varies slowest. They include `viscosity` [-] times the viscous stiffness.
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    groups = (n + LANES - 1) // LANES
    forces, out = np.zeros((n, m, dim)), np.zeros((groups, m * (m + 1) // 2, 9, LANES))
    for part in prange((groups + GROUPS_PER_CHUNK - 1) // GROUPS_PER_CHUNK):
        vectors, matrices, numbers, det_margin = (
            np.zeros((4, m, 3, LANES)),
            np.zeros((5, 9, LANES)),
            np.zeros((6, LANES)),
            np.zeros(LANES),
        )
        x, g, y, f = vectors[0], vectors[1], vectors[2], vectors[3]
        F, R, P, H, C = matrices[0], matrices[1], matrices[2], matrices[3], matrices[4]
        for group in range(part * GROUPS_PER_CHUNK, min(groups, (part + 1) * GROUPS_PER_CHUNK)):
            first, blocks = group * LANES, out[group]
            for k in range(points):
                has_rotation = load_group(cells, q, first, k, x, g, dim)
                deformation_gradients(F, x, g, dim)
                if has_rotation:
                    polar_rotations(R, F, det_margin, dim)
                has_volumetric = _evaluate_laws(cells, moduli, first, k, F, R, P, H, C, numbers)
                transform_gradients(f, P, g)
                for lane in range(min(LANES, n - first)):
                    for a in range(m):
                        for i in range(dim):
                            forces[first + lane, a, i] += f[a, i, lane]
                if has_volumetric:
                    transform_gradients(y, C, g)
                    add_volumetric_blocks(blocks, g, y, F, numbers[2], numbers[3])
                if has_rotation:
                    transform_gradients(y, R, g)
                    add_rotation_blocks(blocks, y, numbers[1], H, P)
                add_scaled_identity(blocks, g, numbers[0])
                if viscosity > 0.0:
                    transform_gradients(y, F, g)
                    times_transpose(P, F)
                    add_viscous(blocks, g, y, P, viscosity * numbers[4], viscosity * numbers[5])
    return forces, out


@njit(error_model="numpy", cache=True, parallel=True)
def gather_lane_blocks(blocks: Any, start: Any, source: Any, flip: Any, dim: Any) -> Any:
    """Return the sum (n_pairs, dim, dim) of the blocks of each node pair.

    `source` gives the position of each block in `blocks`, in a fixed order; `flip` marks blocks
    that are transposed.
    """
    flat = blocks.reshape(-1)
    n = len(start) - 1
    out = np.empty((n, dim, dim))
    for p in prange(n):
        a = b = c = d = e = f = g = h = i = 0.0
        for s in range(start[p], start[p + 1]):
            at = source[s]
            down, right = (LANES, 3 * LANES) if flip[s] else (3 * LANES, LANES)
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


def lane_block_positions(source: Array, per_cell: int) -> Array:
    """Return the position (n,) in the blocks of `cell_tangents` of each block `source` = cell *
    per_cell + block."""
    cell, k = source // per_cell, source % per_cell
    return ((cell // LANES) * per_cell + k) * 9 * LANES + cell % LANES
