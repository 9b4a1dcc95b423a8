"""Compiled loops of the potential flow: the boundary integrals, their derivatives by the joint
angles, and a dense LU factorisation.

Every number is computed by one thread in a fixed order, so the bits do not depend on the number of
threads (those of BLAS do). Arrays store one coordinate or one column per row, so that the inner
loops run along contiguous memory.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.kernels.matrix import FUSED

REASSOCIATED = FUSED | {"reassoc", "nsz"}  # sums along a vector, in an order fixed at compilation
PANEL = 64  # columns that are eliminated at once
TILE = 128  # columns that one thread changes at once; 64 x 128 numbers fit into a usual L2 cache
SOLVED_AT_ONCE = 5  # right-hand sides that share one pass over the factor
FOUR_PI = 4.0 * np.pi


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _point_row(x: Any, y: Any, z: Any, points: Any, areas: Any, start: Any, out: Any) -> Any:
    """Write -dG/dn times the area, G = 1 / (4 pi r), of the source points from `start` on."""
    for k in range(out.shape[0]):
        q = start + k
        dx, dy, dz = x - points[0, q], y - points[1, q], z - points[2, q]
        square = dx * dx + dy * dy + dz * dz
        flux = areas[0, q] * dx + areas[1, q] * dy + areas[2, q] * dz
        out[k] = -flux / (FOUR_PI * square * np.sqrt(square))


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _triangle_row(x: Any, y: Any, z: Any, corners: Any, start: Any, out: Any) -> Any:
    """Write the solid angles / (4 pi) of the triangles from `start` on: exact integrals of
    -dG/dn [Oosterom1983]."""
    for k in range(out.shape[0]):
        c = corners[:, start + k]
        ax, ay, az = c[0] - x, c[1] - y, c[2] - z
        bx, by, bz = c[3] - x, c[4] - y, c[5] - z
        cx, cy, cz = c[6] - x, c[7] - y, c[8] - z
        la = np.sqrt(ax * ax + ay * ay + az * az)
        lb = np.sqrt(bx * bx + by * by + bz * bz)
        lc = np.sqrt(cx * cx + cy * cy + cz * cz)
        volume = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
        ab = ax * bx + ay * by + az * bz
        bc = bx * cx + by * cy + bz * cz
        ca = cx * ax + cy * ay + cz * az
        out[k] = np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb) / (0.5 * FOUR_PI)


@njit(error_model="numpy", cache=True, parallel=True)
def fill_double_layer(
    A: Any, points: Any, areas: Any, corners: Any, starts: Any, is_triangle: Any, with_own: Any
) -> Any:
    """Write the entries of -K into A (N, N): row p the target, column q the source.

    points and areas are (3, N), corners (9, N). Link i has the columns starts[i] to starts[i + 1].
    Without `with_own` the blocks of a link on itself are not touched.
    """
    for p in prange(points.shape[1]):
        for i in range(starts.shape[0] - 1):
            first, end = starts[i], starts[i + 1]
            if first <= p < end and not with_own:
                continue
            row, x, y, z = A[p, first:end], points[0, p], points[1, p], points[2, p]
            if is_triangle[i]:
                _triangle_row(x, y, z, corners, first, row)
            else:
                _point_row(x, y, z, points, areas, first, row)


@njit(error_model="numpy", cache=True, parallel=True)
def single_layer(points: Any, normals: Any, corners: Any) -> Any:
    """Return the integrals of G = 1 / (4 pi r) over flat triangles, (N, N), exact.

    points (3, N) are the targets, corners (9, N) the triangles, normals (3, N) of length 1. Each
    edge adds its distance in the plane times a logarithm; the height over the plane takes away the
    solid angle.
    """
    n = points.shape[1]
    out = np.empty((n, n))
    for p in prange(n):
        row = out[p]
        _triangle_row(points[0, p], points[1, p], points[2, p], corners, 0, row)
        for q in range(n):
            ax, ay, az = (
                corners[6, q] - points[0, p],
                corners[7, q] - points[1, p],
                corners[8, q] - points[2, p],
            )
            nx, ny, nz = normals[0, q], normals[1, q], normals[2, q]
            total = -abs(nx * ax + ny * ay + nz * az) * abs(row[q]) * FOUR_PI
            la = np.sqrt(ax * ax + ay * ay + az * az)
            for k in range(0, 9, 3):
                bx, by, bz = (
                    corners[k, q] - points[0, p],
                    corners[k + 1, q] - points[1, p],
                    corners[k + 2, q] - points[2, p],
                )
                lb = np.sqrt(bx * bx + by * by + bz * bz)
                length = np.sqrt((bx - ax) ** 2 + (by - ay) ** 2 + (bz - az) ** 2)
                twice_area = (
                    nx * (ay * bz - az * by) + ny * (az * bx - ax * bz) + nz * (ax * by - ay * bx)
                )
                logarithm = np.log((la + lb + length) / (la + lb - length))
                total += twice_area / length * logarithm
                ax, ay, az, la = bx, by, bz, lb
            row[q] = total / FOUR_PI
    return out


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _point_gradients(x: Any, y: Any, z: Any, points: Any, areas: Any, start: Any, out: Any) -> Any:
    """Write the gradients (3, k) of the entries of `_point_row` by the target (x, y, z)."""
    for k in range(out.shape[1]):
        q = start + k
        dx, dy, dz = x - points[0, q], y - points[1, q], z - points[2, q]
        square = dx * dx + dy * dy + dz * dz
        flux = areas[0, q] * dx + areas[1, q] * dy + areas[2, q] * dz
        cube = -1.0 / (FOUR_PI * square * np.sqrt(square))
        ratio = 3.0 * flux / square
        out[0, k] = cube * (areas[0, q] - ratio * dx)
        out[1, k] = cube * (areas[1, q] - ratio * dy)
        out[2, k] = cube * (areas[2, q] - ratio * dz)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _triangle_gradients(x: Any, y: Any, z: Any, corners: Any, start: Any, out: Any) -> Any:
    """Write the gradients (3, k) of the solid angles / (4 pi): the law of Biot and Savart for the
    three edges."""
    for k in range(out.shape[1]):
        c = corners[:, start + k]
        ax, ay, az = c[6] - x, c[7] - y, c[8] - z
        la = np.sqrt(ax * ax + ay * ay + az * az)
        gx = gy = gz = 0.0
        for corner in range(3):
            bx, by, bz = c[3 * corner] - x, c[3 * corner + 1] - y, c[3 * corner + 2] - z
            lb = np.sqrt(bx * bx + by * by + bz * bz)
            scale = (la + lb) / (la * lb * (la * lb + ax * bx + ay * by + az * bz))
            gx += scale * (ay * bz - az * by)
            gy += scale * (az * bx - ax * bz)
            gz += scale * (ax * by - ay * bx)
            ax, ay, az, la = bx, by, bz, lb
        out[0, k], out[1, k], out[2, k] = gx / FOUR_PI, gy / FOUR_PI, gz / FOUR_PI


@njit(error_model="numpy", cache=True, parallel=True)
def double_layer_derivative(
    points: Any,
    areas: Any,
    corners: Any,
    starts: Any,
    is_triangle: Any,
    hinges: Any,
    density: Any,
) -> Any:
    """Return (N, n, m): the derivative of -K by each of n joint angles, times m densities (m, N).

    hinges are the axes (n, 3), anchors (n, 3) and moves (b, n) of a Placement. A hinge that moves
    both links or none does not change their entries. If it moves one, the target moves relative to
    the source like a rotation about the axis.
    """
    axes, anchors, moves = hinges
    out = np.zeros((points.shape[1], axes.shape[0], density.shape[0]))
    for p in prange(points.shape[1]):
        own = np.searchsorted(starts, p, side="right") - 1
        for i in range(starts.shape[0] - 1):
            if not (moves[i] != moves[own]).any():
                continue
            first, end = starts[i], starts[i + 1]
            gradients = np.empty((3, end - first))
            x, y, z = points[0, p], points[1, p], points[2, p]
            if is_triangle[i]:
                _triangle_gradients(x, y, z, corners, first, gradients)
            else:
                _point_gradients(x, y, z, points, areas, first, gradients)
            for h in range(axes.shape[0]):
                if moves[i, h] == moves[own, h]:
                    continue
                sign = 1.0 if moves[own, h] else -1.0
                a, o = axes[h], anchors[h]
                rx, ry, rz = x - o[0], y - o[1], z - o[2]
                vx = sign * (a[1] * rz - a[2] * ry)
                vy = sign * (a[2] * rx - a[0] * rz)
                vz = sign * (a[0] * ry - a[1] * rx)
                rates = vx * gradients[0] + vy * gradients[1] + vz * gradients[2]
                for j in range(density.shape[0]):
                    out[p, h, j] += _dot(rates, density[j, first:end])
    return out


@njit(error_model="numpy", cache=True, fastmath=REASSOCIATED)
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(error_model="numpy", cache=True, parallel=True)
def products(X: Any, Y: Any) -> Any:
    """Return the products (m, l) of each row of X (m, N) with each row of Y (l, N)."""
    out = np.empty((X.shape[0], Y.shape[0]))
    for i in prange(X.shape[0]):
        for j in range(Y.shape[0]):
            out[i, j] = _dot(X[i], Y[j])
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def factorise(A: Any) -> Any:
    """Replace A (N, N) by its factors L U with row exchanges; return the exchanged rows (N,)."""
    n = A.shape[0]
    pivots = np.arange(n)
    for first in range(0, n, PANEL):
        end = min(first + PANEL, n)
        _eliminate_panel(A, first, end, pivots)
        left = (first + TILE - 1) // TILE
        for tile in prange(left + (n - end + TILE - 1) // TILE):
            start = tile * TILE if tile < left else end + (tile - left) * TILE
            stop = min(start + TILE, first if tile < left else n)
            _exchange_rows(A, start, stop, pivots, first, end)
            if tile >= left:
                _eliminate_tile(A, start, stop, first, end)
    return pivots


@njit(error_model="numpy", cache=True)
def _exchange_rows(A: Any, start: Any, stop: Any, pivots: Any, first: Any, end: Any) -> Any:
    """Exchange the rows `first` to `end` with their pivots, in the columns `start` to `stop`."""
    for k in range(first, end):
        row = pivots[k]
        if row != k:
            for j in range(start, stop):
                A[k, j], A[row, j] = A[row, j], A[k, j]


@njit(error_model="numpy", cache=True)
def _eliminate_panel(A: Any, first: Any, end: Any, pivots: Any) -> Any:
    """Factorise the columns `first` to `end`, with row exchanges in these columns only.

    The work is done on a transposed copy, one column of A after the other."""
    T = A[first:, first:end].T.copy()
    for j in range(T.shape[0]):
        for k in range(j):
            for i in range(k + 1, j):
                T[j, i] -= T[j, k] * T[k, i]
        _subtract_columns(T, j)
        row = j
        for i in range(j + 1, T.shape[1]):
            if abs(T[j, i]) > abs(T[j, row]):
                row = i
        pivots[first + j] = first + row
        if row != j:
            for k in range(T.shape[0]):
                T[k, j], T[k, row] = T[k, row], T[k, j]
        inverse = 1.0 / T[j, j]
        for i in range(j + 1, T.shape[1]):
            T[j, i] *= inverse
    A[first:, first:end] = T.T


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _subtract_columns(T: Any, j: Any) -> Any:
    """Subtract T[j, k] times row k from row j for all k < j, from entry j on."""
    for k in range(0, j - 3, 4):
        u0, u1, u2, u3 = T[j, k], T[j, k + 1], T[j, k + 2], T[j, k + 3]
        for i in range(j, T.shape[1]):
            T[j, i] = (
                T[j, i] - u0 * T[k, i] - u1 * T[k + 1, i] - u2 * T[k + 2, i] - u3 * T[k + 3, i]
            )
    for k in range(j - j % 4, j):
        u = T[j, k]
        for i in range(j, T.shape[1]):
            T[j, i] -= u * T[k, i]


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _subtract_scaled(a: Any, x: Any, out: Any) -> Any:
    for k in range(out.shape[0]):
        out[k] -= a * x[k]


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _eliminate_tile(A: Any, start: Any, stop: Any, first: Any, end: Any) -> Any:
    """Subtract from the columns `start` to `stop` the multiples of the rows `first` to `end` that
    the eliminated columns give. A copy U of these rows stays in the cache."""
    depth, n = end - first, A.shape[0]
    U = A[first:end, start:stop].copy()
    for k in range(depth):
        for i in range(k + 1, depth):
            _subtract_scaled(A[first + i, first + k], U[k], U[i])
    A[first:end, start:stop] = U
    spare = np.empty((4, stop - start))
    for i in range(end, n, 4):
        if i + 4 <= n:
            _subtract_four(
                A[i, first:end],
                A[i + 1, first:end],
                A[i + 2, first:end],
                A[i + 3, first:end],
                U,
                A[i, start:stop],
                A[i + 1, start:stop],
                A[i + 2, start:stop],
                A[i + 3, start:stop],
            )
        else:
            for row in range(i, n):
                a = A[row, first:end]
                _subtract_four(a, a, a, a, U, A[row, start:stop], spare[1], spare[2], spare[3])


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _subtract_four(
    a: Any, b: Any, c: Any, d: Any, U: Any, a_out: Any, b_out: Any, c_out: Any, d_out: Any
) -> Any:
    """Subtract a U, b U, c U and d U from four rows, four rows of U at a time: each number that is
    loaded is used four times."""
    depth, w = U.shape
    for k in range(0, depth - 3, 4):
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for j in range(w):
            u0, u1, u2, u3 = U[k, j], U[k + 1, j], U[k + 2, j], U[k + 3, j]
            a_out[j] = a_out[j] - a0 * u0 - a1 * u1 - a2 * u2 - a3 * u3
            b_out[j] = b_out[j] - b0 * u0 - b1 * u1 - b2 * u2 - b3 * u3
            c_out[j] = c_out[j] - c0 * u0 - c1 * u1 - c2 * u2 - c3 * u3
            d_out[j] = d_out[j] - d0 * u0 - d1 * u1 - d2 * u2 - d3 * u3
    for k in range(depth - depth % 4, depth):
        for j in range(w):
            a_out[j] -= a[k] * U[k, j]
            b_out[j] -= b[k] * U[k, j]
            c_out[j] -= c[k] * U[k, j]
            d_out[j] -= d[k] * U[k, j]


@njit(error_model="numpy", cache=True, parallel=True)
def solve(LU: Any, pivots: Any, right_sides: Any) -> Any:
    """Return the solutions (m, N) of A X = B for the rows of `right_sides` (m, N)."""
    X, n = right_sides.copy(), LU.shape[0]
    m = X.shape[0]
    for group in prange((m + SOLVED_AT_ONCE - 1) // SOLVED_AT_ONCE):
        rows = range(group * SOLVED_AT_ONCE, min((group + 1) * SOLVED_AT_ONCE, m))
        for i in range(n):
            for j in rows:
                X[j, i], X[j, pivots[i]] = X[j, pivots[i]], X[j, i]
        for i in range(n):
            for j in rows:
                X[j, i] -= _dot(LU[i, :i], X[j, :i])
        for i in range(n - 1, -1, -1):
            for j in rows:
                X[j, i] = (X[j, i] - _dot(LU[i, i + 1 :], X[j, i + 1 :])) / LU[i, i]
    return X


@njit(error_model="numpy", cache=True, parallel=True)
def solve_transposed(LU: Any, pivots: Any, right_sides: Any) -> Any:
    """Return the solutions (m, N) of A^T X = B for the rows of `right_sides` (m, N)."""
    X, n = right_sides.copy(), LU.shape[0]
    m = X.shape[0]
    for group in prange((m + SOLVED_AT_ONCE - 1) // SOLVED_AT_ONCE):
        rows = range(group * SOLVED_AT_ONCE, min((group + 1) * SOLVED_AT_ONCE, m))
        for i in range(n):
            for j in rows:
                X[j, i] /= LU[i, i]
                _subtract_scaled(X[j, i], LU[i, i + 1 :], X[j, i + 1 :])
        for i in range(n - 1, -1, -1):
            for j in rows:
                _subtract_scaled(X[j, i], LU[i, :i], X[j, :i])
        for i in range(n - 1, -1, -1):
            for j in rows:
                X[j, i], X[j, pivots[i]] = X[j, pivots[i]], X[j, i]
    return X
