"""Four numbers side by side beside the same in NumPy, on tables of both precisions."""

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from pliant.kernels.lanes import lane, lanes, last, load, sizes, store, turned
from pliant.kernels.threads import for_reading

every_precision = pytest.mark.parametrize("precision", ["float64", "float32"])


@numba.njit
def combined(table, i, j, s, out):
    """out row 0: the sum of rows i and j; 1: their product; 2: s times row i; 3: row i after += of
    rows j and i."""
    A, B = load(table, i), load(table, j)
    store(out, 0, A + B)
    store(out, 1, A * B)
    store(out, 2, s * A)
    for row in (j, i):
        A += load(table, row)
    store(out, 3, A)


@numba.njit
def rearranged(table, i, j, out):
    """out row 0: row i less row j; 1: row i with its first three turned; 2: four times its last; 3:
    its numbers without their signs."""
    A, B = load(table, i), load(table, j)
    store(out, 0, A - B)
    store(out, 1, turned(A))
    store(out, 2, last(A))
    store(out, 3, sizes(A))


@numba.njit
def turned_about(table, i):
    """Row i the other way round, and its numbers one by one."""
    A = load(table, i)
    store(table, i, lanes(lane(A, 3), lane(A, 2), lane(A, 1), lane(A, 0)))
    return lane(A, 0), lane(A, 1), lane(A, 2), lane(A, 3)


@every_precision
def test_they_add_and_multiply_as_numpy_does(precision):
    table, out = (
        np.random.default_rng(0).standard_normal((5, 4)).astype(precision),
        np.full((4, 4), np.nan, precision),
    )
    combined(table, 1, 4, 0.3, out)
    a, b = table[[1, 4]].astype(float)
    np.testing.assert_allclose(
        out,
        np.array([a + b, a * b, 0.3 * a, 2.0 * a + b]).astype(precision),
        rtol=2.0 * np.finfo(precision).eps,
    )


@every_precision
def test_they_subtract_and_are_rearranged(precision):
    table, out = (
        np.random.default_rng(0).standard_normal((5, 4)).astype(precision),
        np.full((4, 4), np.nan, precision),
    )
    rearranged(table, 1, 4, out)
    a, b = table[[1, 4]].astype(float)
    np.testing.assert_array_equal(
        out, np.array([a - b, a[[1, 2, 0, 3]], a[[3, 3, 3, 3]], np.abs(a)]).astype(precision)
    )
    rearranged(np.array([[np.nan, -np.inf, -0.0, 1.0]]), 0, 0, out := np.zeros((4, 4)))
    np.testing.assert_array_equal(out[3], [np.nan, np.inf, 0.0, 1.0])


@every_precision
def test_a_row_is_read_and_written_and_no_other(precision):
    table = np.arange(12, dtype=precision).reshape(3, 4)
    assert turned_about(table, 1) == (4.0, 5.0, 6.0, 7.0)
    np.testing.assert_array_equal(table, [[0, 1, 2, 3], [7, 6, 5, 4], [8, 9, 10, 11]])


@pytest.mark.parametrize(
    "table",
    [np.zeros((3, 8))[:, :4], np.zeros(12), np.zeros((3, 4), int), 3.0],
    ids=["gaps", "flat", "int", "number"],
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(TypingError, match="lanes are rows of a contiguous table"):
        turned_about(table, 1)


def test_what_is_for_reading_is_not_written_to():
    table = for_reading(np.zeros((3, 4)))
    with pytest.raises(TypingError, match="which is for reading"):
        turned_about(table, 1)
    combined(table, 1, 2, 0.3, out := np.full((4, 4), np.nan))
    np.testing.assert_array_equal(out, np.zeros((4, 4)))


def test_what_is_not_a_number_stays_so():
    table, out = np.array([[np.nan, np.inf, -0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]), np.zeros((4, 4))
    combined(table, 0, 1, 2.0, out)
    np.testing.assert_array_equal(out[1], [np.nan, np.nan, 0.0, 0.0])
    np.testing.assert_array_equal(out[2], [np.nan, np.inf, 0.0, 2.0])
