"""Compiled loops for the stiffness of a solid's cells, in closed form for every law
(docs/decisions/0002)."""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.bodies.assembly import (
    cell_moduli,
    deformation_gradient,
    rotation_if_needed,
    strain_rate,
)
from pliant.kernels import add, cofactor, mm, mmt, mtm, scale, spin_inverse, sym
from pliant.materials import laws


@njit(error_model="numpy", cache=True)
def _unit(k: Any) -> Any:
    """Return the matrix with entry k equal to one and the others zero."""
    return (
        1.0 * (k == 0),
        1.0 * (k == 1),
        1.0 * (k == 2),
        1.0 * (k == 3),
        1.0 * (k == 4),
        1.0 * (k == 5),
        1.0 * (k == 6),
        1.0 * (k == 7),
        1.0 * (k == 8),
    )


@njit(error_model="numpy", cache=True)
def _tangent(C: Any, law: Any, F: Any, R: Any, moduli: Any, power: Any, dim: Any) -> Any:
    """Write C[(i k), (j l)] = dP_ik / dF_jl, 9 x 9. In 2D only the 4 in-plane rows and columns are
    used."""
    for j in range(dim):
        for l in range(dim):
            col = 3 * j + l
            unit = _unit(col)
            dP = laws.differential(law, F, R, unit, moduli, power)
            C[0, col], C[1, col], C[2, col], C[3, col], C[4, col] = (
                dP[0],
                dP[1],
                dP[2],
                dP[3],
                dP[4],
            )
            C[5, col], C[6, col], C[7, col], C[8, col] = dP[5], dP[6], dP[7], dP[8]


@njit(error_model="numpy", cache=True)
def _add_viscous_tangent(C: Any, F: Any, E: Any, rate: Any, mu: Any, lam: Any, dim: Any) -> Any:
    """Add the derivative of F hooke(E) by F to C, where dE = rate sym(F^T dF)."""
    S = laws.hooke(mu, lam, E)
    for j in range(dim):
        for l in range(dim):
            col = 3 * j + l
            unit = _unit(col)
            dP = add(mm(unit, S), mm(F, laws.hooke(mu, lam, scale(rate, sym(mtm(F, unit))))))
            for r in range(9):
                C[r, col] += dP[r]


@njit(error_model="numpy", cache=True)
def _project(C: Any, dim: Any) -> Any:
    """Replace C by the closest positive semidefinite matrix: negative eigenvalues become zero."""
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
def _apply(A: Any, x: Any, y: Any, z: Any) -> Any:
    """Return A (x, y, z)."""
    return (
        A[0] * x + A[1] * y + A[2] * z,
        A[3] * x + A[4] * y + A[5] * z,
        A[6] * x + A[7] * y + A[8] * z,
    )


@njit(error_model="numpy", cache=True)
def _add(B: Any, A: Any, dim: Any) -> Any:
    """Add a 3 x 3 tuple to a block."""
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
def _row(array: Any, a: Any) -> Any:
    """Return row a of an array (n, 3) as a tuple."""
    return array[a, 0], array[a, 1], array[a, 2]


@njit(error_model="numpy", cache=True)
def add_unrotated_blocks(
    out: Any, F: Any, g: Any, u: Any, s: Any, slope: Any, curvature: Any, dim: Any
) -> Any:
    """Add s (ga . gb) I + curvature ua ub^T + slope eps(F (ga x gb)) to the blocks a <= b, where u
    = C g."""
    k = 0
    for b in range(g.shape[0]):
        bx, by, bz = _row(g, b)
        vx, vy, vz = _row(u, b)
        for a in range(b + 1):
            ax, ay, az = _row(g, a)
            ux, uy, uz = curvature * u[a, 0], curvature * u[a, 1], curvature * u[a, 2]
            e = s * (ax * bx + ay * by + az * bz)
            cx, cy, cz = _apply(
                F,
                slope * (ay * bz - az * by),
                slope * (az * bx - ax * bz),
                slope * (ax * by - ay * bx),
            )
            _add(
                out[k],
                (
                    e + ux * vx,
                    ux * vy + cz,
                    ux * vz - cy,
                    uy * vx - cz,
                    e + uy * vy,
                    uy * vz + cx,
                    uz * vx + cy,
                    uz * vy - cx,
                    e + uz * vz,
                ),
                dim,
            )
            k += 1


@njit(error_model="numpy", cache=True)
def add_rotation_blocks(out: Any, H: Any, v: Any, t: Any, l: Any, dim: Any) -> Any:
    """Add l va vb^T - t [va]x H [vb]x to the blocks a <= b, where v = R g and H = R (tr(S) I -
    S)^-1 R^T."""
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
            _add(
                out[k],
                (
                    li * x - j * p2 + m * p1,
                    li * y - j * q2 + m * q1,
                    li * z - j * r2 + m * r1,
                    lj * x - m * p0 + i * p2,
                    lj * y - m * q0 + i * q2,
                    lj * z - m * r0 + i * r2,
                    lm * x - i * p1 + j * p0,
                    lm * y - i * q1 + j * q0,
                    lm * z - i * r1 + j * r0,
                ),
                dim,
            )
            k += 1


@njit(error_model="numpy", cache=True)
def _add_viscous(out: Any, FF: Any, S: Any, g: Any, w: Any, mu: Any, lam: Any, dim: Any) -> Any:
    """Add (ga . S gb) I + mu ((ga . gb) F F^T + wb wa^T) + lam wa wb^T to the blocks a <= b, where
    w = F g."""
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
            _add(
                out[k],
                (
                    e + d * FF[0] + both * i * x,
                    d * FF[1] + lam * i * y + mu * x * j,
                    d * FF[2] + lam * i * z + mu * x * m,
                    d * FF[3] + lam * j * x + mu * y * i,
                    e + d * FF[4] + both * j * y,
                    d * FF[5] + lam * j * z + mu * y * m,
                    d * FF[6] + lam * m * x + mu * z * i,
                    d * FF[7] + lam * m * y + mu * z * j,
                    e + d * FF[8] + both * m * z,
                ),
                dim,
            )
            k += 1


@njit(error_model="numpy", cache=True)
def transform_gradients(out: Any, A: Any, g: Any) -> Any:
    """Write out_a = A g_a."""
    for a in range(g.shape[0]):
        out[a, 0], out[a, 1], out[a, 2] = _apply(A, g[a, 0], g[a, 1], g[a, 2])


@njit(error_model="numpy", cache=True, parallel=True)
def cell_stiffness(cells: Any, moduli: Any, viscous: Any, q: Any, dim: Any) -> Any:
    """Return the blocks of each cell's energy Hessian, (n_cells, n_nodes (n_nodes + 1) / 2, dim,
    dim) [N/m].

    The blocks are (a, b) with a <= b; b varies slowest.
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    chunk = 32  # cells that share scratch arrays
    for part in prange((n + chunk - 1) // chunk):
        g, transformed = np.zeros((m, 3)), np.zeros((m, 3))
        for c in range(part * chunk, min(n, (part + 1) * chunk)):
            law = cells.law[c]
            for k in range(points):
                weight = cells.weights[c, k]
                for a in range(m):
                    for i in range(dim):
                        g[a, i] = cells.grads[c, k, a, i]
                F = deformation_gradient(q, cells.nodes[c], cells.grads[c, k], dim)
                R = rotation_if_needed(law, F, dim)
                s, t, l, slope, curvature = laws.tangent(
                    law, F, R, cell_moduli(moduli, c), cells.power[c]
                )
                transform_gradients(transformed, cofactor(F), g)
                add_unrotated_blocks(
                    out[c], F, g, transformed, weight * s, weight * slope, weight * curvature, dim
                )
                if laws.needs_rotation(law):
                    transform_gradients(transformed, R, g)
                    add_rotation_blocks(
                        out[c],
                        mm(R, mmt(spin_inverse(F, R), R)),
                        transformed,
                        weight * t,
                        weight * l,
                        dim,
                    )
                if viscous.rate > 0.0:
                    mu, lam = weight * viscous.moduli[c, 0], weight * viscous.moduli[c, 1]
                    S = laws.hooke(mu, lam, strain_rate(F, viscous.rate, viscous.past[c, k]))
                    transform_gradients(transformed, F, g)
                    _add_viscous(
                        out[c],
                        mmt(F, F),
                        S,
                        g,
                        transformed,
                        viscous.rate * mu,
                        viscous.rate * lam,
                        dim,
                    )
    return out


@njit(error_model="numpy", cache=True)
def _add_contracted(out: Any, C: Any, CG: Any, weight: Any, grads: Any, dim: Any) -> Any:
    """Add weight grad N_a[k] C[(i k), (j l)] grad N_b[l] to the blocks K_ab[i, j], a <= b, of one
    quadrature point."""
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
def cell_projected_stiffness(cells: Any, moduli: Any, viscous: Any, q: Any, dim: Any) -> Any:
    """Return the blocks of `cell_stiffness` with a positive semidefinite tangent at every
    quadrature point.

    It is slower, and used only if the unprojected stiffness fails.
    """
    n, points = cells.weights.shape
    m = cells.nodes.shape[1]
    out = np.zeros((n, m * (m + 1) // 2, dim, dim))
    C, CG = np.zeros((9, 9)), np.zeros((9, 3))
    for c in range(n):
        for k in range(points):
            F = deformation_gradient(q, cells.nodes[c], cells.grads[c, k], dim)
            R = rotation_if_needed(cells.law[c], F, dim)
            _tangent(C, cells.law[c], F, R, cell_moduli(moduli, c), cells.power[c], dim)
            if viscous.rate > 0.0:
                E = strain_rate(F, viscous.rate, viscous.past[c, k])
                _add_viscous_tangent(
                    C, F, E, viscous.rate, viscous.moduli[c, 0], viscous.moduli[c, 1], dim
                )
            _project(C, dim)
            _add_contracted(out[c], C, CG, cells.weights[c, k], cells.grads[c, k], dim)
    return out
