"""The rotation closest to a matrix (polar decomposition) and its derivative.

R maximises R : F over all rotations, also for a singular or inverted F. Well-conditioned matrices
use Higham's iteration. For the others R is the leading eigenvector of a symmetric 4 x 4 matrix, as
a unit quaternion (Horn, 1987). Its eigenvalue is the largest root of a quartic in the invariants of
F.
"""

from typing import Any

import numpy as np
from numba import njit

from pliant.kernels.matrix import add, cofactor, det, dot, mm, mtm, scale, sub

# of det F / |F|^3 for Higham's iteration, which then needs few iterations; 0.19 for a rotation
MIN_RELATIVE_DET = 0.02
# between the two leading eigenvalues; with a smaller gap the adjugate loses too many digits
MIN_RELATIVE_GAP = 1e-4


@njit(error_model="numpy", cache=True)
def rotation(F: Any) -> Any:
    """Return the rotation R that maximises R : F."""
    size = np.sqrt(dot(F, F))
    if det(F) > MIN_RELATIVE_DET * size**3:
        return _higham_iteration(scale(np.sqrt(3.0) / size, F))
    if size == 0.0:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    A = scale(1.0 / size, F)
    top, gap = _leading_root(A)
    q = _adjugate_vector(A, top) if gap > MIN_RELATIVE_GAP else _lapack_vector(A)
    R = _quaternion_matrix(q)
    return _newton_step(A, R) if gap > MIN_RELATIVE_GAP else R


@njit(error_model="numpy", cache=True)
def _higham_iteration(F: Any) -> Any:
    """Return the limit of Higham's iteration R <- (R + R^-T) / 2.

    It converges quadratically for matrices that are far from singular and not inverted.
    """
    for _ in range(20):
        C = cofactor(F)
        half = 0.5 / (F[0] * C[0] + F[1] * C[1] + F[2] * C[2])
        R = add(scale(0.5, F), scale(half, C))
        D = sub(R, F)
        F = R
        if dot(D, D) < 1e-17:
            break
    return F


@njit(error_model="numpy", cache=True)
def plane_rotation(F: Any) -> Any:
    """Return the rotation about z that maximises R : F.

    It keeps an inverted cell of a plane problem in its plane.
    """
    c, s = F[0] + F[4], F[3] - F[1]
    r = np.sqrt(c * c + s * s)
    if r == 0.0:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    c, s = c / r, s / r
    return (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0)


@njit(error_model="numpy", cache=True)
def _leading_root(A: Any) -> Any:
    """Return the largest root of Horn's quartic and the derivative of the quartic there.

    The quartic is t^4 - 2 |A|^2 t^2 - 8 det(A) t + |A|^4 - 4 |cof A|^2. Its derivative measures the
    gap between the two leading eigenvalues.
    """
    n, d, C = dot(A, A), det(A), cofactor(A)
    c0 = n * n - 4.0 * dot(C, C)
    t, derivative = np.sqrt(3.0 * n), 0.0
    for _ in range(40):
        value = ((t * t - 2.0 * n) * t - 8.0 * d) * t + c0
        derivative = (4.0 * t * t - 4.0 * n) * t - 8.0 * d
        if derivative <= 1e-9:
            break
        move = value / derivative
        t -= move
        if abs(move) < 1e-15:
            break
    return t, derivative


@njit(error_model="numpy", cache=True)
def _horn(A: Any) -> Any:
    """Return the upper triangle (10 entries) of Horn's matrix; quaternions are ordered (w, x, y,
    z)."""
    return (
        A[0] + A[4] + A[8],
        A[7] - A[5],
        A[2] - A[6],
        A[3] - A[1],
        A[0] - A[4] - A[8],
        A[1] + A[3],
        A[2] + A[6],
        A[4] - A[0] - A[8],
        A[5] + A[7],
        A[8] - A[0] - A[4],
    )


@njit(error_model="numpy", cache=True)
def _adjugate_vector(A: Any, top: Any) -> Any:
    """Return the leading eigenvector as the longest column of adj(H - top I), where H is Horn's
    matrix."""
    a, b, c, d, e, f, g, h, i, j = _horn(A)
    a, e, h, j = a - top, e - top, h - top, j - top
    hj, hi, ij = h * j - i * i, f * j - g * i, f * i - g * h
    best = (
        e * hj - f * hi + g * ij,
        -(b * hj - f * (c * j - d * i) + g * (c * i - d * h)),
        b * hi - e * (c * j - d * i) + g * (c * g - d * f),
        -(b * ij - e * (c * i - d * h) + f * (c * g - d * f)),
    )
    x = (
        best[1],
        a * hj - c * (c * j - d * i) + d * (c * i - d * h),
        -(a * hi - b * (c * j - d * i) + d * (c * g - d * f)),
        a * ij - b * (c * i - d * h) + c * (c * g - d * f),
    )
    y = (
        best[2],
        x[2],
        a * (e * j - g * g) - b * (b * j - d * g) + d * (b * g - d * e),
        -(a * (e * i - f * g) - b * (b * i - f * d) + c * (b * g - d * e)),
    )
    z = (best[3], x[3], y[3], a * (e * h - f * f) - b * (b * h - f * c) + c * (b * f - c * e))
    return _longer(_longer(best, x), _longer(y, z))


@njit(error_model="numpy", cache=True)
def _longer(a: Any, b: Any) -> Any:
    """Return the longer of two vectors of four."""
    na = a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3]
    nb = b[0] * b[0] + b[1] * b[1] + b[2] * b[2] + b[3] * b[3]
    return a if na >= nb else b


@njit(error_model="numpy", cache=True)
def _lapack_vector(A: Any) -> Any:
    """Return the leading eigenvector by LAPACK: slower, for nearly equal leading eigenvalues."""
    entries = _horn(A)
    H = np.empty((4, 4))
    k = 0
    for row in range(4):
        for col in range(row, 4):
            H[row, col] = H[col, row] = entries[k]
            k += 1
    _, vectors = np.linalg.eigh(H)
    return (vectors[0, 3], vectors[1, 3], vectors[2, 3], vectors[3, 3])


@njit(error_model="numpy", cache=True)
def _quaternion_matrix(q: Any) -> Any:
    """Return the rotation matrix of a quaternion of any length."""
    s = 2.0 / (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    w, x, y, z = q
    return (
        1.0 - s * (y * y + z * z),
        s * (x * y - w * z),
        s * (x * z + w * y),
        s * (x * y + w * z),
        1.0 - s * (x * x + z * z),
        s * (y * z - w * x),
        s * (x * z - w * y),
        s * (y * z + w * x),
        1.0 - s * (x * x + y * y),
    )


@njit(error_model="numpy", cache=True)
def _newton_step(A: Any, R: Any) -> Any:
    """Return R after one Newton step on the skew part of R^T A, which squares the error."""
    w = _spin(A, R, A)
    return mm(R, _quaternion_matrix((1.0, 0.5 * w[0], 0.5 * w[1], 0.5 * w[2])))


@njit(error_model="numpy", cache=True)
def _spin(F: Any, R: Any, dF: Any) -> Any:
    """Return the axial vector w of R^T dR: (tr(S) I - S) w = axial(R^T dF - dF^T R), S = R^T F."""
    W = mtm(R, dF)
    a, b, c = W[7] - W[5], W[2] - W[6], W[3] - W[1]
    G = spin_inverse(F, R)
    return (
        G[0] * a + G[1] * b + G[2] * c,
        G[3] * a + G[4] * b + G[5] * c,
        G[6] * a + G[7] * b + G[8] * c,
    )


@njit(error_model="numpy", cache=True)
def spin_inverse(F: Any, R: Any) -> Any:
    """Return (tr(S) I - S)^-1, where S = R^T F.

    In a plane problem the in-plane part may be singular. It is not used there and set to zero.
    """
    S = mtm(R, F)
    t = S[0] + S[4] + S[8]
    a, b, c = -0.5 * (S[1] + S[3]), -0.5 * (S[2] + S[6]), -0.5 * (S[5] + S[7])
    G = (t - S[0], a, b, a, t - S[4], c, b, c, t - S[8])
    if b == 0.0 and c == 0.0:
        d, zero = G[0] * G[4] - a * a, 0.0 * a
        i = 1.0 / d if d != 0.0 else zero
        return (G[4] * i, -a * i, zero, -a * i, G[0] * i, zero, zero, zero, 1.0 / G[8])
    return scale(1.0 / det(G), cofactor(G))


@njit(error_model="numpy", cache=True)
def rotation_differential(F: Any, R: Any, dF: Any) -> Any:
    """Return dR for a change dF, where R is the rotation of F.

    It is singular only if the sum of two signed singular values is zero.
    """
    w = _spin(F, R, dF)
    return mm(R, (0.0 * w[0], -w[2], w[1], w[2], 0.0 * w[0], -w[0], -w[1], w[0], 0.0 * w[0]))
