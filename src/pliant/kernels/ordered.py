"""Products whose sums run in one order, whatever the number of threads and however many zeros
follow, which BLAS does not promise."""

import numpy as np
from numba import njit


@njit(error_model="numpy", cache=True)
def dot(a, b):
    """The sum over the first min(len(a), len(b)) products, in four interleaved sums; zeros at the
    end change no bit."""
    n = min(len(a), len(b))
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, n - 3, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    k = n - n % 4
    if k < n:
        s0 += a[k] * b[k]
    if k + 1 < n:
        s1 += a[k + 1] * b[k + 1]
    if k + 2 < n:
        s2 += a[k + 2] * b[k + 2]
    return (s0 + s1) + (s2 + s3)


@njit(error_model="numpy", cache=True)
def dots(A, b):
    """(n,) each row of A (n, k) times b (m,)."""
    out = np.empty(A.shape[0])
    for i in range(A.shape[0]):
        out[i] = dot(A[i], b)
    return out


@njit(error_model="numpy", cache=True)
def products(A, B):
    """(n, m) each row of A (n, k) times each row of B (m, l)."""
    out = np.empty((A.shape[0], B.shape[0]))
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            out[i, j] = dot(A[i], B[j])
    return out


@njit(error_model="numpy", cache=True)
def combined(b, A):
    """(n,) the sum of the rows of A (m, n) times b (k,), k <= m; with a symmetric A, A times b."""
    out = np.zeros(A.shape[1])
    for k in range(len(b)):
        for i in range(A.shape[1]):
            out[i] += A[k, i] * b[k]
    return out
