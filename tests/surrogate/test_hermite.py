"""Hermite: the functions of an axis, their products, and mixed derivatives that make cubics
exact."""

import numpy as np
import pytest
from smooth_maps import Polynomial, numeric_slope, second_matrices

from pliant.surrogate.hermite import (
    contract,
    contraction_plan,
    corner_offsets,
    hermite_functions,
    mixed_derivatives,
    table_rows,
)

H = np.array([0.7, 0.3, 1.9, 1.1])
dims = pytest.mark.parametrize("d", [1, 2, 3, 4])


def axis(t, h):
    out = np.empty((3, 4))
    hermite_functions(t, h, out)
    return out


def weights(t, h, second=False):
    """(n, 4^d) what value, slopes and second derivatives take of each row of a table."""
    return contract(np.eye(4 ** len(t)), t, h, *contraction_plan(len(t), second))


def subset_orders(d):
    """(2^d, d) one derivative along every axis of a set."""
    return np.arange(2**d)[:, None] >> np.arange(d) & 1


@pytest.mark.parametrize("h", [0.5, 1.7])
def test_the_functions_of_an_axis_are_cardinal(h):
    """Value and slope at either end: each is one of one function and none of the others."""
    ends = np.vstack([axis(0.0, h)[:2], axis(1.0, h)[:2]])
    np.testing.assert_allclose(ends, np.eye(4), atol=1e-15)


@pytest.mark.parametrize("h", [0.5, 1.7])
def test_the_functions_of_an_axis_have_the_derivatives_they_say(rng, h):
    """Central differences are exact to e^2 f''' / 6, and f''' is constant."""
    e = 1e-5
    for t in rng.uniform(0.0, 1.0, 10):
        change = (axis(t + e, h) - axis(t - e, h)) / (2.0 * e * h)
        np.testing.assert_allclose(axis(t, h)[1:], change[:2], atol=1e-8)


@dims
def test_a_table_has_one_place_for_each_derivative_at_each_corner(d):
    assert table_rows(d).shape == (2**d, 2**d)
    assert sorted(table_rows(d).ravel()) == list(range(4**d))


@dims
def test_products_are_cardinal(d):
    """At a corner, the weights pick the value and each slope of that corner and nothing else."""
    for corner, places in zip(corner_offsets(d), table_rows(d), strict=True):
        picked = np.zeros((1 + d, 4**d))
        picked[np.arange(1 + d), places[[0, *(1 << np.arange(d))]]] = 1.0
        np.testing.assert_allclose(weights(corner.astype(float), H[:d]), picked, atol=1e-15)


@dims
def test_weights_have_the_derivatives_they_say(rng, d):
    """The rows of slopes are the derivatives of the row of values, and those of second derivatives
    the derivatives of the slopes."""
    h = H[:d]
    for t in rng.uniform(0.1, 0.9, (5, d)):
        w = weights(t, h, True)
        np.testing.assert_array_equal(w[: 1 + d], weights(t, h))
        np.testing.assert_allclose(
            w[1 : 1 + d].T, numeric_slope(lambda t: weights(t, h)[0], t, 1e-5) / h, atol=1e-8
        )
        bends = second_matrices(w, d)
        for i in range(d):
            change = numeric_slope(lambda t, i=i: weights(t, h)[1 + i], t, 1e-5) / h
            np.testing.assert_allclose(bends[:, i], change, atol=1e-7)


@dims
@pytest.mark.parametrize("degree", [3, 4])
def test_mixed_derivatives_are_exact_for_cubics_and_not_beyond(rng, d, degree):
    h, corner = H[:d], rng.uniform(-1.0, 1.0, d)
    f = Polynomial(rng, d, degree)
    points = corner + h * corner_offsets(d)
    given = np.array([np.vstack([value, slope.T]) for value, slope in map(f, points)])
    want = np.array([[f.derivative(x, orders) for orders in subset_orders(d)] for x in points])
    off = np.abs(mixed_derivatives(given, h) - want).max()
    assert off < 1e-12 * np.abs(want).max() if degree == 3 or d == 1 else off > 1e-3


@dims
def test_values_and_slopes_go_through_unchanged(rng, d):
    given = rng.standard_normal((2**d, 1 + d, 3))
    data = mixed_derivatives(given, H[:d])
    np.testing.assert_array_equal(data[:, [0, *(1 << np.arange(d))]], given)


@dims
@pytest.mark.parametrize("second", [False, True])
def test_columns_of_zeros_change_no_bit(rng, d, second):
    t, table = rng.uniform(0.0, 1.0, d), rng.standard_normal((4**d, 5))
    how = contraction_plan(d, second)
    narrow = contract(table, t, H[:d], *how)
    wide = contract(np.pad(table, ((0, 0), (0, 4))), t, H[:d], *how)
    np.testing.assert_array_equal(wide, np.pad(narrow, ((0, 0), (0, 4))))
    np.testing.assert_allclose(narrow, weights(t, H[:d], second) @ table, rtol=1e-12, atol=1e-12)
