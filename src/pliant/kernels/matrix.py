"""Algebra of 3 x 3 matrices as flat, row-major tuples, and of vectors of three.

Entries are real or complex. Tuples are kept in registers, so a loop over elements or particles
allocates nothing. A plane problem pads its matrices with the last row and column of the identity.
"""

from typing import Any

from numba import njit

# Multiply-add, as in C++ compilers. NaN and infinity are handled as without it.
FUSED = {"contract"}
# Products with the constant zeros that fill 2D matrices are left out, too, which compilers do only
# if NaN and the sign of zero need no care. Functions with these flags must not test for NaN: their
# callers test the arrays that loops have written.
FAST = FUSED | {"nsz", "nnan"}


@njit(error_model="numpy", cache=True, fastmath=FAST)
def add(A: Any, B: Any) -> Any:
    """Return A + B."""
    return (
        A[0] + B[0],
        A[1] + B[1],
        A[2] + B[2],
        A[3] + B[3],
        A[4] + B[4],
        A[5] + B[5],
        A[6] + B[6],
        A[7] + B[7],
        A[8] + B[8],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def sub(A: Any, B: Any) -> Any:
    """Return A - B."""
    return (
        A[0] - B[0],
        A[1] - B[1],
        A[2] - B[2],
        A[3] - B[3],
        A[4] - B[4],
        A[5] - B[5],
        A[6] - B[6],
        A[7] - B[7],
        A[8] - B[8],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def scale(s: Any, A: Any) -> Any:
    """Return s A."""
    return (
        s * A[0],
        s * A[1],
        s * A[2],
        s * A[3],
        s * A[4],
        s * A[5],
        s * A[6],
        s * A[7],
        s * A[8],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def sym(A: Any) -> Any:
    """Return (A + A^T) / 2."""
    a, b, c = 0.5 * (A[1] + A[3]), 0.5 * (A[2] + A[6]), 0.5 * (A[5] + A[7])
    return (A[0], a, b, a, A[4], c, b, c, A[8])


@njit(error_model="numpy", cache=True, fastmath=FAST)
def trace(A: Any) -> Any:
    """Return tr(A)."""
    return A[0] + A[4] + A[8]


@njit(error_model="numpy", cache=True, fastmath=FAST)
def dot(A: Any, B: Any) -> Any:
    """Return A : B."""
    return (
        A[0] * B[0]
        + A[1] * B[1]
        + A[2] * B[2]
        + A[3] * B[3]
        + A[4] * B[4]
        + A[5] * B[5]
        + A[6] * B[6]
        + A[7] * B[7]
        + A[8] * B[8]
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def mm(A: Any, B: Any) -> Any:
    """Return A B."""
    return (
        A[0] * B[0] + A[1] * B[3] + A[2] * B[6],
        A[0] * B[1] + A[1] * B[4] + A[2] * B[7],
        A[0] * B[2] + A[1] * B[5] + A[2] * B[8],
        A[3] * B[0] + A[4] * B[3] + A[5] * B[6],
        A[3] * B[1] + A[4] * B[4] + A[5] * B[7],
        A[3] * B[2] + A[4] * B[5] + A[5] * B[8],
        A[6] * B[0] + A[7] * B[3] + A[8] * B[6],
        A[6] * B[1] + A[7] * B[4] + A[8] * B[7],
        A[6] * B[2] + A[7] * B[5] + A[8] * B[8],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def transposed(A: Any) -> Any:
    """Return A^T."""
    return (A[0], A[3], A[6], A[1], A[4], A[7], A[2], A[5], A[8])


@njit(error_model="numpy", cache=True, fastmath=FAST)
def mtm(A: Any, B: Any) -> Any:
    """Return A^T B."""
    return mm(transposed(A), B)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def mmt(A: Any, B: Any) -> Any:
    """Return A B^T."""
    return mm(A, transposed(B))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def det(A: Any) -> Any:
    """Return det(A)."""
    return (
        A[0] * (A[4] * A[8] - A[5] * A[7])
        - A[1] * (A[3] * A[8] - A[5] * A[6])
        + A[2] * (A[3] * A[7] - A[4] * A[6])
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def cofactor(A: Any) -> Any:
    """Return cof(A) = det(A) A^-T, also for a singular A."""
    return (
        A[4] * A[8] - A[5] * A[7],
        A[5] * A[6] - A[3] * A[8],
        A[3] * A[7] - A[4] * A[6],
        A[2] * A[7] - A[1] * A[8],
        A[0] * A[8] - A[2] * A[6],
        A[1] * A[6] - A[0] * A[7],
        A[1] * A[5] - A[2] * A[4],
        A[2] * A[3] - A[0] * A[5],
        A[0] * A[4] - A[1] * A[3],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def cross(A: Any, B: Any) -> Any:
    """Return the derivative of the cofactor of A in the direction B.

    cof(A + B) = cof(A) + cross(A, B) + cof(B).
    """
    return (
        A[4] * B[8] + B[4] * A[8] - A[5] * B[7] - B[5] * A[7],
        A[5] * B[6] + B[5] * A[6] - A[3] * B[8] - B[3] * A[8],
        A[3] * B[7] + B[3] * A[7] - A[4] * B[6] - B[4] * A[6],
        A[2] * B[7] + B[2] * A[7] - A[1] * B[8] - B[1] * A[8],
        A[0] * B[8] + B[0] * A[8] - A[2] * B[6] - B[2] * A[6],
        A[1] * B[6] + B[1] * A[6] - A[0] * B[7] - B[0] * A[7],
        A[1] * B[5] + B[1] * A[5] - A[2] * B[4] - B[2] * A[4],
        A[2] * B[3] + B[2] * A[3] - A[0] * B[5] - B[0] * A[5],
        A[0] * B[4] + B[0] * A[4] - A[1] * B[3] - B[1] * A[3],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def times(A: Any, v: Any) -> Any:
    """Return A v."""
    return (
        A[0] * v[0] + A[1] * v[1] + A[2] * v[2],
        A[3] * v[0] + A[4] * v[1] + A[5] * v[2],
        A[6] * v[0] + A[7] * v[1] + A[8] * v[2],
    )


@njit(error_model="numpy", cache=True, fastmath=FAST)
def axpy(s: Any, a: Any, b: Any) -> Any:
    """Return s a + b."""
    return (s * a[0] + b[0], s * a[1] + b[1], s * a[2] + b[2])


@njit(error_model="numpy", cache=True, fastmath=FAST)
def inner(a: Any, b: Any) -> Any:
    """Return a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
