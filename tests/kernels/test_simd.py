"""SIMD vectors agree with NumPy, on arrays of both precisions."""

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from pliant.kernels.simd import (
    absolute,
    broadcast_last,
    component,
    load,
    rotate_xyz,
    store,
    vector4,
)
from pliant.kernels.threads import read_only

every_precision = pytest.mark.parametrize("precision", ["float64", "float32"])


@numba.njit
def compute_sums_and_products(array, i, j, s, out):
    """Write A + B, A B, s A and A + B + A for rows A = i and B = j."""
    A, B = load(array, i), load(array, j)
    store(out, 0, A + B)
    store(out, 1, A * B)
    store(out, 2, s * A)
    for row in (j, i):
        A += load(array, row)
    store(out, 3, A)


@numba.njit
def compute_differences_and_shuffles(array, i, j, out):
    """Write A - B, and A with cycled x, y, z, with its last component only, and without signs."""
    A, B = load(array, i), load(array, j)
    store(out, 0, A - B)
    store(out, 1, rotate_xyz(A))
    store(out, 2, broadcast_last(A))
    store(out, 3, absolute(A))


@numba.njit
def reverse_row(array, i):
    """Reverse row i and return its components."""
    A = load(array, i)
    store(array, i, vector4(component(A, 3), component(A, 2), component(A, 1), component(A, 0)))
    return component(A, 0), component(A, 1), component(A, 2), component(A, 3)


@every_precision
def test_sums_and_products_equal_numpy(precision):
    array, out = (
        np.random.default_rng(0).standard_normal((5, 4)).astype(precision),
        np.full((4, 4), np.nan, precision),
    )
    compute_sums_and_products(array, 1, 4, 0.3, out)
    a, b = array[[1, 4]].astype(float)
    np.testing.assert_allclose(
        out,
        np.array([a + b, a * b, 0.3 * a, 2.0 * a + b]).astype(precision),
        rtol=2.0 * np.finfo(precision).eps,
    )


@every_precision
def test_differences_and_shuffles_equal_numpy(precision):
    array, out = (
        np.random.default_rng(0).standard_normal((5, 4)).astype(precision),
        np.full((4, 4), np.nan, precision),
    )
    compute_differences_and_shuffles(array, 1, 4, out)
    a, b = array[[1, 4]].astype(float)
    np.testing.assert_array_equal(
        out, np.array([a - b, a[[1, 2, 0, 3]], a[[3, 3, 3, 3]], np.abs(a)]).astype(precision)
    )
    compute_differences_and_shuffles(
        np.array([[np.nan, -np.inf, -0.0, 1.0]]), 0, 0, out := np.zeros((4, 4))
    )
    np.testing.assert_array_equal(out[3], [np.nan, np.inf, 0.0, 1.0])


@every_precision
def test_load_and_store_access_only_their_row(precision):
    array = np.arange(12, dtype=precision).reshape(3, 4)
    assert reverse_row(array, 1) == (4.0, 5.0, 6.0, 7.0)
    np.testing.assert_array_equal(array, [[0, 1, 2, 3], [7, 6, 5, 4], [8, 9, 10, 11]])


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 8))[:, :4], np.zeros(12), np.zeros((3, 4), int), 3.0],
    ids=["gaps", "flat", "int", "number"],
)
def test_unsupported_arrays_are_rejected(array):
    with pytest.raises(TypingError, match="SIMD vectors are rows of a contiguous array"):
        reverse_row(array, 1)


def test_read_only_arrays_are_rejected_by_store():
    array = read_only(np.zeros((3, 4)))
    with pytest.raises(TypingError, match="which is read-only"):
        reverse_row(array, 1)
    compute_sums_and_products(array, 1, 2, 0.3, out := np.full((4, 4), np.nan))
    np.testing.assert_array_equal(out, np.zeros((4, 4)))


def test_nan_and_infinity_propagate():
    array, out = np.array([[np.nan, np.inf, -0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]), np.zeros((4, 4))
    compute_sums_and_products(array, 0, 1, 2.0, out)
    np.testing.assert_array_equal(out[1], [np.nan, np.nan, 0.0, 0.0])
    np.testing.assert_array_equal(out[2], [np.nan, np.inf, 0.0, 2.0])
