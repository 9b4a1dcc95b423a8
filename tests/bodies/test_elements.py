"""Quadrature and shares of a facet, against integrals over a simplex."""

from math import factorial, prod

import numpy as np
import pytest

from pliant.bodies.elements import EVEN_SHARE, EXACT_SHARE, quadrature
from pliant.geometry.cells import shape_values


def monomials(dim, degree):
    grid = np.indices([degree + 1] * (dim + 1)).reshape(dim + 1, -1).T
    return grid[grid.sum(axis=1) == degree]


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_quadrature_is_exact_to_its_degree(dim, degree):
    """The mean of l_0^a l_1^b ... over a simplex is dim! a! b! ... / (dim + a + b + ...)!."""
    bary, weights = quadrature(dim, degree)
    np.testing.assert_allclose(bary.sum(axis=1), 1.0, rtol=1e-14)
    for powers in monomials(dim, degree):
        exact = factorial(dim) * prod(factorial(a) for a in powers) / factorial(dim + degree)
        assert weights @ np.prod(bary**powers, axis=1) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
def test_quadrature_is_not_exact_beyond_its_degree(dim, degree):
    """So that the test above can fail."""
    bary, weights = quadrature(dim, degree)
    powers = np.array([degree + 1] + [0] * dim)
    exact = factorial(dim) * factorial(degree + 1) / factorial(dim + degree + 1)
    assert weights @ np.prod(bary**powers, axis=1) != pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
def test_the_exact_share_of_a_facet_is_the_mean_of_its_shape_functions(dim, order):
    if dim == 2:  # a facet is an edge: Simpson's rule is exact for its quadratic shape functions, corners first
        middle = {1: [0.5, 0.5], 2: [0.0, 0.0, 1.0]}[order]
        ends = np.eye(len(middle))[:2]
        mean = (ends[0] + 4.0 * np.array(middle) + ends[1]) / 6.0
    else:
        bary, weights = quadrature(2, order)
        mean = weights @ shape_values(bary, order)
    np.testing.assert_allclose(EXACT_SHARE[dim, order], mean, atol=1e-15)


@pytest.mark.parametrize("key", list(EVEN_SHARE))
def test_shares_add_up_and_the_even_one_is_positive(key):
    assert sum(EXACT_SHARE[key]) == pytest.approx(1.0)
    assert sum(EVEN_SHARE[key]) == pytest.approx(1.0)
    assert min(EVEN_SHARE[key]) > 0.0
