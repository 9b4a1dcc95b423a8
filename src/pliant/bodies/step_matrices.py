"""One compiled loop for the derivative of a semi-implicit step's forces by the positions of a
solid.

As in `tangents`, laws are evaluated cell by cell and blocks for LANES cells at once. The derivative
of the stiffness along a velocity is the complex-step derivative of the laws' coefficients, in the
closed form of the blocks.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.bodies.assembly import COMPLEX_STEP, cell_moduli
from pliant.bodies.tangents import (
    GROUPS_PER_CHUNK,
    LANES,
    add_rotation_blocks,
    add_scaled_identity,
    add_viscous,
    add_volumetric_blocks,
    deformation_gradients,
    get_lane,
    load_group,
    polar_rotations,
    times_transpose,
    transform_gradients,
)
from pliant.kernels import FUSED, add, cofactor, mm, mmt, rotation_differential, scale, spin_inverse
from pliant.materials import laws


@njit(error_model="numpy", cache=True)
def _set_both(value: Any, change: Any, n: Any, M: Any) -> Any:
    """Set matrix n of a group and of its change from a matrix with a complex step."""
    for i, entry in enumerate(M):
        value[i, n], change[i, n] = entry.real, entry.imag / COMPLEX_STEP


@njit(error_model="numpy", cache=True)
def _evaluate_along(
    cells: Any, moduli: Any, first: Any, k: Any, F: Any, R: Any, W: Any, pairs: Any, numbers: Any
) -> Any:
    """Evaluate the coefficients of `laws.tangent` and their changes along W for LANES cells, times
    the quadrature weights.

    `pairs` are R, H of `add_rotation_blocks` and the cofactor, each with its change. `numbers` are
    s, l, slope and curvature, each with its change. Returns whether a law has volumetric terms.
    """
    has_volumetric, last, step = False, len(cells.nodes) - 1, complex(0.0, COMPLEX_STEP)
    for lane in range(LANES):
        c = min(first + lane, last)
        law, weight = cells.law[c], cells.weights[c, k]
        A, V, Q = get_lane(F, lane), get_lane(W, lane), get_lane(R, lane)
        dR = rotation_differential(A, Q, V) if laws.needs_rotation(law) else V
        A, Q = add(A, scale(step, V)), add(Q, scale(step, dR))
        s, t, l, slope, curvature = laws.tangent(law, A, Q, cell_moduli(moduli, c), cells.power[c])
        for row, number in enumerate((s, l, slope, curvature)):
            numbers[2 * row, lane] = weight * number.real
            numbers[2 * row + 1, lane] = weight * number.imag / COMPLEX_STEP
        _set_both(pairs[0], pairs[1], lane, Q)
        if laws.needs_rotation(law):
            H = scale(weight * t, mm(Q, mmt(spin_inverse(A, Q), Q)))
            _set_both(pairs[2], pairs[3], lane, H)
        else:
            _set_both(pairs[2], pairs[3], lane, scale(0.0 * step, A))
        _set_both(pairs[4], pairs[5], lane, cofactor(A))
        for row in range(4, 8):
            has_volumetric = has_volumetric or numbers[row, lane] != 0.0
    return has_volumetric


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _cross_columns(P: Any, H: Any, v: Any) -> Any:
    """Write the columns of P = H [v]x."""
    for n in range(LANES):
        x, y, z = v[0, n], v[1, n], v[2, n]
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


# The compiler vectorises a loop over few arrays only, because it must test that they do not
# overlap. So vectors and their changes are v[0] and v[1] of one array, and the factors of a column
# of blocks are rows of one array.


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _add_changing_rotation_blocks(
    B: Any, v: Any, l: Any, dl: Any, H: Any, dH: Any, h: Any, rows: Any
) -> Any:
    """Add `tangents.add_rotation_blocks` and h times its change to the blocks a <= b."""
    k = 0
    for b in range(v.shape[1]):
        _cross_columns(rows[:9], dH, v[0, b])
        _cross_columns(rows[9:18], H, v[1, b])
        _cross_columns(rows[18:27], H, v[0, b])
        for i in range(9):
            for n in range(LANES):
                rows[i, n] = rows[18 + i, n] + h * (rows[i, n] + rows[9 + i, n])
                rows[9 + i, n] = h * rows[18 + i, n]
        for j in range(3):
            for n in range(LANES):
                rows[18 + j, n] = (l[n] + h * dl[n]) * v[0, b, j, n] + h * l[n] * v[1, b, j, n]
                rows[21 + j, n] = h * l[n] * v[0, b, j, n]
        for a in range(b + 1):
            for n in range(LANES):
                x, y, z = v[0, a, 0, n], v[0, a, 1, n], v[0, a, 2, n]
                i, j, m = v[1, a, 0, n], v[1, a, 1, n], v[1, a, 2, n]
                p, q, r = rows[0, n], rows[1, n], rows[2, n]
                s, t, u = rows[9, n], rows[10, n], rows[11, n]
                c, d = rows[18, n], rows[21, n]
                B[k, 0, n] += x * c + i * d + z * q - y * r + m * t - j * u
                B[k, 3, n] += y * c + j * d + x * r - z * p + i * u - m * s
                B[k, 6, n] += z * c + m * d + y * p - x * q + j * s - i * t
            for n in range(LANES):
                x, y, z = v[0, a, 0, n], v[0, a, 1, n], v[0, a, 2, n]
                i, j, m = v[1, a, 0, n], v[1, a, 1, n], v[1, a, 2, n]
                p, q, r = rows[3, n], rows[4, n], rows[5, n]
                s, t, u = rows[12, n], rows[13, n], rows[14, n]
                c, d = rows[19, n], rows[22, n]
                B[k, 1, n] += x * c + i * d + z * q - y * r + m * t - j * u
                B[k, 4, n] += y * c + j * d + x * r - z * p + i * u - m * s
                B[k, 7, n] += z * c + m * d + y * p - x * q + j * s - i * t
            for n in range(LANES):
                x, y, z = v[0, a, 0, n], v[0, a, 1, n], v[0, a, 2, n]
                i, j, m = v[1, a, 0, n], v[1, a, 1, n], v[1, a, 2, n]
                p, q, r = rows[6, n], rows[7, n], rows[8, n]
                s, t, u = rows[15, n], rows[16, n], rows[17, n]
                c, d = rows[20, n], rows[23, n]
                B[k, 2, n] += x * c + i * d + z * q - y * r + m * t - j * u
                B[k, 5, n] += y * c + j * d + x * r - z * p + i * u - m * s
                B[k, 8, n] += z * c + m * d + y * p - x * q + j * s - i * t
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _add_changing_volumetric_blocks(
    B: Any, g: Any, u: Any, F: Any, W: Any, numbers: Any, h: Any, rows: Any
) -> Any:
    """Add `tangents.add_volumetric_blocks` and h times its change to the blocks a <= b."""
    slope, d_slope, curvature, d_curvature = numbers[4], numbers[5], numbers[6], numbers[7]
    k = 0
    for i in range(9):
        for n in range(LANES):
            rows[i, n] = (slope[n] + h * d_slope[n]) * F[i, n] + h * slope[n] * W[i, n]
    for b in range(g.shape[0]):
        for j in range(3):
            for n in range(LANES):
                c = h * curvature[n]
                rows[9 + j, n] = (curvature[n] + h * d_curvature[n]) * u[0, b, j, n]
                rows[9 + j, n] += c * u[1, b, j, n]
                rows[12 + j, n] = c * u[0, b, j, n]
        for a in range(b + 1):
            for n in range(LANES):
                p, q, r = rows[9, n], rows[10, n], rows[11, n]
                x, y, z = rows[12, n], rows[13, n], rows[14, n]
                i, j = u[0, a, 0, n], u[1, a, 0, n]
                B[k, 0, n] += i * p + j * x
                B[k, 1, n] += i * q + j * y
                B[k, 2, n] += i * r + j * z
                i, j = u[0, a, 1, n], u[1, a, 1, n]
                B[k, 3, n] += i * p + j * x
                B[k, 4, n] += i * q + j * y
                B[k, 5, n] += i * r + j * z
                i, j = u[0, a, 2, n], u[1, a, 2, n]
                B[k, 6, n] += i * p + j * x
                B[k, 7, n] += i * q + j * y
                B[k, 8, n] += i * r + j * z
            for n in range(LANES):
                ax, ay, az = g[a, 0, n], g[a, 1, n], g[a, 2, n]
                bx, by, bz = g[b, 0, n], g[b, 1, n], g[b, 2, n]
                p, q, r = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
                x = rows[0, n] * p + rows[1, n] * q + rows[2, n] * r
                y = rows[3, n] * p + rows[4, n] * q + rows[5, n] * r
                z = rows[6, n] * p + rows[7, n] * q + rows[8, n] * r
                B[k, 1, n] += z
                B[k, 2, n] -= y
                B[k, 3, n] -= z
                B[k, 5, n] += x
                B[k, 6, n] += y
                B[k, 7, n] -= x
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _viscous_stress(S: Any, F: Any, L: Any, mu: Any, lam: Any) -> Any:
    """Write the stress 2 mu E + lam tr(E) I of the strain E = sym(F^T L)."""
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                S[3 * i + j, n] = mu[n] * (
                    F[i, n] * L[j, n]
                    + F[3 + i, n] * L[3 + j, n]
                    + F[6 + i, n] * L[6 + j, n]
                    + F[j, n] * L[i, n]
                    + F[3 + j, n] * L[3 + i, n]
                    + F[6 + j, n] * L[6 + i, n]
                )
    for n in range(LANES):
        trace = 0.0
        for i in range(9):
            trace += F[i, n] * L[i, n]
        S[0, n] += lam[n] * trace
        S[4, n] += lam[n] * trace
        S[8, n] += lam[n] * trace


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _add_viscous_changes(
    B: Any, g: Any, v: Any, s: Any, F: Any, L: Any, mu: Any, lam: Any, rows: Any
) -> Any:
    """Add mu ((ga . gb) F L^T + fb za^T) + lam fa zb^T + (ga . S gb) I to the blocks (a, b), where
    v is f = F g and z = L g, and S is the stress of `_viscous_stress`."""
    m = g.shape[0]
    _viscous_stress(rows[:9], F, L, mu, lam)
    transform_gradients(s, rows[:9], g)
    for i in range(3):
        for j in range(3):
            for n in range(LANES):
                rows[3 * i + j, n] = mu[n] * (
                    F[3 * i, n] * L[3 * j, n]
                    + F[3 * i + 1, n] * L[3 * j + 1, n]
                    + F[3 * i + 2, n] * L[3 * j + 2, n]
                )
    for a in range(m):
        for i in range(3):
            for n in range(LANES):
                rows[9 + i, n] = lam[n] * v[0, a, i, n]
                rows[12 + i, n] = mu[n] * v[1, a, i, n]
        for b in range(m):
            k = a * m + b
            for n in range(LANES):
                x, y, z = g[a, 0, n], g[a, 1, n], g[a, 2, n]
                d = x * g[b, 0, n] + y * g[b, 1, n] + z * g[b, 2, n]
                e = x * s[b, 0, n] + y * s[b, 1, n] + z * s[b, 2, n]
                x, y, z = v[1, b, 0, n], v[1, b, 1, n], v[1, b, 2, n]
                p, q, r = rows[12, n], rows[13, n], rows[14, n]
                f, l = v[0, b, 0, n], rows[9, n]
                B[k, 0, n] += e + d * rows[0, n] + f * p + l * x
                B[k, 1, n] += d * rows[1, n] + f * q + l * y
                B[k, 2, n] += d * rows[2, n] + f * r + l * z
                f, l = v[0, b, 1, n], rows[10, n]
                B[k, 3, n] += d * rows[3, n] + f * p + l * x
                B[k, 4, n] += e + d * rows[4, n] + f * q + l * y
                B[k, 5, n] += d * rows[5, n] + f * r + l * z
                f, l = v[0, b, 2, n], rows[11, n]
                B[k, 6, n] += d * rows[6, n] + f * p + l * x
                B[k, 7, n] += d * rows[7, n] + f * q + l * y
                B[k, 8, n] += e + d * rows[8, n] + f * r + l * z


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _write_blocks(out: Any, E: Any, V: Any, m: Any, h: Any) -> Any:
    """Write h E + V, where E has the blocks a <= b of a symmetric matrix."""
    k = 0
    for b in range(m):
        for a in range(b + 1):
            for i in range(3):
                for j in range(3):
                    c, r = 3 * i + j, 3 * j + i
                    for n in range(LANES):
                        out[a * m + b, c, n] = h * E[k, c, n] + V[a * m + b, c, n]
                    if a < b:
                        for n in range(LANES):
                            out[b * m + a, r, n] = h * E[k, c, n] + V[b * m + a, r, n]
            k += 1


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _subtract_held_columns(out: Any, K: Any, D: Any, held: Any, h: Any) -> Any:
    """Subtract h K + D from the columns of held unknowns.

    K and D have the blocks a <= b of symmetric matrices.
    """
    m, k = held.shape[0], 0
    for b in range(m):
        for a in range(b + 1):
            for i in range(3):
                for j in range(3):
                    for n in range(LANES):
                        both = h * K[k, 3 * i + j, n] + D[k, 3 * i + j, n]
                        out[a * m + b, 3 * i + j, n] -= held[b, j, n] * both
                        if a < b:
                            out[b * m + a, 3 * j + i, n] -= held[a, i, n] * both
            k += 1


@njit(error_model="numpy", cache=True)
def _load_velocities(
    cells: Any, w: Any, is_held: Any, first: Any, v: Any, held: Any, dim: Any
) -> Any:
    """Load velocities v and held unknowns of LANES cells. Return whether one of them is held."""
    has_held, last = False, len(cells.nodes) - 1
    for lane in range(LANES):
        c = min(first + lane, last)
        for a in range(held.shape[0]):
            for i in range(dim):
                unknown = cells.nodes[c, a] * dim + i
                v[a, i, lane] = w[unknown]
                held[a, i, lane] = 1.0 * is_held[unknown]
                has_held = has_held or is_held[unknown]
    return has_held


@njit(error_model="numpy", cache=True, parallel=True)
def step_matrices(
    cells: Any, moduli: Any, viscous_moduli: Any, q: Any, w: Any, is_held: Any, h: Any, dim: Any
) -> Any:
    """Return the derivative of each cell's forces h A(q) w by the positions q [N s/m].

    A block (n_groups, n_nodes^2, 9, LANES) is h K + h^2 dK/dq w + h dD/dq w, minus h K + D in the
    columns of held unknowns. `viscous_moduli` (n_cells, 2) are zero without viscosity.
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    half, groups = m * (m + 1) // 2, (n + LANES - 1) // LANES
    out = np.empty((groups, m * m, 9, LANES))
    has_viscosity = np.any(viscous_moduli)
    for part in prange((groups + GROUPS_PER_CHUNK - 1) // GROUPS_PER_CHUNK):
        vectors, matrices, pairs, work, numbers = (
            np.zeros((7, m, 3, LANES)),
            np.zeros((3, 9, LANES)),
            np.zeros((6, 9, LANES)),
            np.zeros((27, LANES)),
            np.zeros((11, LANES)),
        )
        blocks, viscous = np.zeros((3, half, 9, LANES)), np.zeros((m * m, 9, LANES))
        x, g, y, s = vectors[0], vectors[1], vectors[2:4], vectors[4]
        v, held, mu, lam = vectors[5], vectors[6], numbers[9], numbers[10]
        F, R, W = matrices[0], matrices[1], matrices[2]
        E, K, D = blocks[0], blocks[1], blocks[2]
        for group in range(part * GROUPS_PER_CHUNK, min(groups, (part + 1) * GROUPS_PER_CHUNK)):
            first = group * LANES
            has_held = _load_velocities(cells, w, is_held, first, v, held, dim)
            E[:] = 0.0
            viscous[:] = 0.0
            if has_held:
                blocks[1:] = 0.0
            for k in range(points):
                has_rotation = load_group(cells, q, first, k, x, g, dim)
                deformation_gradients(F, x, g, dim)
                deformation_gradients(W, v, g, 3)
                if has_rotation:
                    polar_rotations(R, F, numbers[8], dim)
                has_volumetric = _evaluate_along(cells, moduli, first, k, F, R, W, pairs, numbers)
                add_scaled_identity(E, g, numbers[0] + h * numbers[1])
                if has_held:
                    add_scaled_identity(K, g, numbers[0])
                if has_volumetric:
                    transform_gradients(y[0], pairs[4], g)
                    transform_gradients(y[1], pairs[5], g)
                    _add_changing_volumetric_blocks(E, g, y, F, W, numbers, h, work)
                    if has_held:
                        add_volumetric_blocks(K, g, y[0], F, numbers[4], numbers[6])
                if has_rotation:
                    transform_gradients(y[0], pairs[0], g)
                    transform_gradients(y[1], pairs[1], g)
                    _add_changing_rotation_blocks(
                        E, y, numbers[2], numbers[3], pairs[2], pairs[3], h, work
                    )
                    if has_held:
                        add_rotation_blocks(K, y[0], numbers[2], pairs[2], work[:9])
                if has_viscosity:
                    for lane in range(LANES):
                        c = min(first + lane, n - 1)
                        mu[lane] = cells.weights[c, k] * viscous_moduli[c, 0]
                        lam[lane] = cells.weights[c, k] * viscous_moduli[c, 1]
                    transform_gradients(y[0], F, g)
                    transform_gradients(y[1], W, g)
                    if has_held:
                        times_transpose(work[:9], F)
                        add_viscous(D, g, y[0], work[:9], mu, lam)
                    _add_viscous_changes(viscous, g, y, s, F, W, h * mu, h * lam, work)
            _write_blocks(out[group], E, viscous, m, h)
            if has_held:
                _subtract_held_columns(out[group], K, D, held, h)
    return out
