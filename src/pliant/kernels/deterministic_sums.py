"""Products with a fixed order of summation.

Their bits depend neither on the number of threads nor on zeros at the end, unlike those of BLAS.
"""

from typing import Any

import numpy as np
from numba import njit


@njit(error_model="numpy", cache=True)
def dot(a: Any, b: Any) -> Any:
    """Return the sum of the first min(len(a), len(b)) products, in four interleaved partial
    sums."""
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
def matvec(A: Any, b: Any) -> Any:
    """Return the product (n,) of each row of A (n, k) with b (m,)."""
    out = np.empty(A.shape[0])
    for i in range(A.shape[0]):
        out[i] = dot(A[i], b)
    return out


@njit(error_model="numpy", cache=True)
def matmul_transpose(A: Any, B: Any) -> Any:
    """Return the product (n, m) of each row of A (n, k) with each row of B (m, l)."""
    out = np.empty((A.shape[0], B.shape[0]))
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            out[i, j] = dot(A[i], B[j])
    return out


@njit(error_model="numpy", cache=True)
def vecmat(b: Any, A: Any) -> Any:
    """Return b^T A (n,) for b (k,) and the first k rows of A (m, n)."""
    out = np.zeros(A.shape[1])
    for k in range(len(b)):
        for i in range(A.shape[1]):
            out[i] += A[k, i] * b[k]
    return out
