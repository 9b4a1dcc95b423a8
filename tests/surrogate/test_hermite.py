"""Hermite functions of one axis, their tensor products, and mixed derivatives that make cubics
exact."""

import numpy as np
import pytest
from smooth_maps import Polynomial, central_difference, hessians

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


def axis_functions(t, h):
    out = np.empty((3, 4))
    hermite_functions(t, h, out)
    return out


def weights(t, h, second=False):
    """Return the weights (n, 4^d) of the table rows for value, slopes and second derivatives."""
    return contract(np.eye(4 ** len(t)), t, h, *contraction_plan(len(t), second))


def subset_orders(d):
    """Return the derivative orders (2^d, d) of all subsets of the axes."""
    return np.arange(2**d)[:, None] >> np.arange(d) & 1


@pytest.mark.parametrize("h", [0.5, 1.7])
def test_axis_functions_are_cardinal(h):
    """The values and slopes at both ends are the identity matrix."""
    ends = np.vstack([axis_functions(0.0, h)[:2], axis_functions(1.0, h)[:2]])
    np.testing.assert_allclose(ends, np.eye(4), atol=1e-15)


@pytest.mark.parametrize("h", [0.5, 1.7])
def test_axis_function_derivatives_match_central_differences(rng, h):
    """Central differences have an error of e^2 f''' / 6, and f''' is constant."""
    e = 1e-5
    for t in rng.uniform(0.0, 1.0, 10):
        change = (axis_functions(t + e, h) - axis_functions(t - e, h)) / (2.0 * e * h)
        np.testing.assert_allclose(axis_functions(t, h)[1:], change[:2], atol=1e-8)


@dims
def test_table_has_one_row_for_each_derivative_at_each_corner(d):
    assert table_rows(d).shape == (2**d, 2**d)
    assert sorted(table_rows(d).ravel()) == list(range(4**d))


@dims
def test_product_weights_are_cardinal(d):
    """At a corner, the weights select only the value and the slopes of that corner."""
    for corner, places in zip(corner_offsets(d), table_rows(d), strict=True):
        selected = np.zeros((1 + d, 4**d))
        selected[np.arange(1 + d), places[[0, *(1 << np.arange(d))]]] = 1.0
        np.testing.assert_allclose(weights(corner.astype(float), H[:d]), selected, atol=1e-15)


@dims
def test_weight_derivatives_match_central_differences(rng, d):
    """The weights of the slopes are the derivatives of the weights of the value. The weights of the
    second derivatives are the derivatives of the weights of the slopes."""
    h = H[:d]
    for t in rng.uniform(0.1, 0.9, (5, d)):
        w = weights(t, h, True)
        np.testing.assert_array_equal(w[: 1 + d], weights(t, h))
        np.testing.assert_allclose(
            w[1 : 1 + d].T, central_difference(lambda t: weights(t, h)[0], t, 1e-5) / h, atol=1e-8
        )
        second = hessians(w, d)
        for i in range(d):
            change = central_difference(lambda t, i=i: weights(t, h)[1 + i], t, 1e-5) / h
            np.testing.assert_allclose(second[:, i], change, atol=1e-7)


@dims
@pytest.mark.parametrize("degree", [3, 4])
def test_mixed_derivatives_are_exact_only_up_to_cubics(rng, d, degree):
    h, corner = H[:d], rng.uniform(-1.0, 1.0, d)
    f = Polynomial(rng, d, degree)
    points = corner + h * corner_offsets(d)
    given = np.array([np.vstack([value, slope.T]) for value, slope in map(f, points)])
    want = np.array([[f.derivative(x, orders) for orders in subset_orders(d)] for x in points])
    error = np.abs(mixed_derivatives(given, h) - want).max()
    assert error < 1e-12 * np.abs(want).max() if degree == 3 or d == 1 else error > 1e-3


@dims
def test_mixed_derivatives_keep_values_and_slopes(rng, d):
    given = rng.standard_normal((2**d, 1 + d, 3))
    data = mixed_derivatives(given, H[:d])
    np.testing.assert_array_equal(data[:, [0, *(1 << np.arange(d))]], given)


@dims
@pytest.mark.parametrize("second", [False, True])
def test_zero_columns_do_not_change_the_contraction(rng, d, second):
    t, table = rng.uniform(0.0, 1.0, d), rng.standard_normal((4**d, 5))
    plan = contraction_plan(d, second)
    narrow = contract(table, t, H[:d], *plan)
    wide = contract(np.pad(table, ((0, 0), (0, 4))), t, H[:d], *plan)
    np.testing.assert_array_equal(wide, np.pad(narrow, ((0, 0), (0, 4))))
    np.testing.assert_allclose(narrow, weights(t, H[:d], second) @ table, rtol=1e-12, atol=1e-12)
