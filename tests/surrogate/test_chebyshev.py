"""Chebyshev: exact for polynomials of its degree, spectral beyond, from fewer points than it has
coefficients."""

from math import comb

import numpy as np
import pytest
from smooth_maps import (
    Counted,
    Polynomial,
    errors,
    numeric_slope,
    powers_up_to,
    second_matrices,
    waves,
)

from pliant.surrogate import Chebyshev, Corners, Grid
from pliant.surrogate.chebyshev import nested_points, products, total_degree

LOWER, UPPER = np.array([-1.0, 0.2, -0.4, 2.0]), np.array([0.5, 1.0, 0.9, 2.7])
dims = pytest.mark.parametrize("d", [1, 2, 3, 4])


def chebyshev(f, d, degree, domain=None, oversampling=2.0, **options):
    domain = (LOWER[:d], UPPER[:d]) if domain is None else domain
    return Chebyshev(
        Corners(f, dim=d, **options), domain=domain, degree=degree, oversampling=oversampling
    )


def inside(rng, n, d):
    return rng.uniform(LOWER[:d], UPPER[:d], (n, d))


# The basis


@dims
@pytest.mark.parametrize("n", [1, 4])
def test_powers_are_all_of_the_total_degree(d, n):
    assert sorted(map(tuple, total_degree(d, n))) == sorted(map(tuple, powers_up_to(d, n)))


def test_products_are_cosines_of_the_angle(rng):
    """T_k(cos a) = cos(k a)."""
    powers = total_degree(3, 7)
    for angle in rng.uniform(0.0, np.pi, (10, 3)):
        value = products(np.cos(angle), 7, powers, np.zeros((1, 3), int))[0]
        np.testing.assert_allclose(value, np.prod(np.cos(powers * angle), axis=1), atol=1e-14)


@dims
def test_points_are_nested_and_even_in_angle(d):
    many = nested_points(500, d)
    np.testing.assert_array_equal(many[:37], nested_points(37, d))
    assert np.abs(many).max() <= 1.0
    assert len(np.unique(many, axis=0)) == 500
    np.testing.assert_allclose(
        np.sort(np.arccos(many), axis=0),
        np.pi * (np.arange(500)[:, None] + 0.5) / 500 * np.ones(d),
        atol=0.07,
    )


# Accuracy


@dims
def test_polynomials_of_its_degree_are_exact(rng, d):
    degree = 5 if d < 4 else 4
    f = Polynomial(rng, d, degree)
    p = chebyshev(f, d, degree)
    axes = np.eye(d, dtype=int)
    for x in inside(rng, 20, d):
        bends = np.moveaxis([[f.derivative(x, i + j) for j in axes] for i in axes], 2, 0)
        for got, want in zip(
            (*p(x), second_matrices(p.rows(x, second=True), d)), (*f(x), bends), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * np.abs(bends).max())


def test_a_polynomial_of_higher_degree_is_not_exact(rng):
    f = Polynomial(rng, 2, 6)
    assert errors(chebyshev(f, 2, 5), f, inside(rng, 20, 2))[0] > 1e-5


@dims
def test_the_error_falls_by_a_factor_with_each_degree(rng, d):
    """waves has a pole where x @ x = -1/0.3, so that errors over a box of half-width 3/4 fall by
    about 5 with each degree."""
    degrees, points = np.arange(2, 9 if d < 3 else 7), inside(rng, 100, d)
    off = np.array([errors(chebyshev(waves, d, degree), waves, points) for degree in degrees])
    factors = np.exp(-np.polyfit(degrees, np.log(off), 1)[0])
    assert np.all(factors > 3.0)
    assert np.all(off[3:] < 0.1 * off[:-3])  # at the end as at the beginning


@dims
def test_slopes_and_second_derivatives_are_those_of_the_polynomial(rng, d):
    """Central differences of 1e-4 are right to 1e-8 f'''."""
    p = chebyshev(waves, d, 6)
    for x in inside(rng, 5, d) * 0.99 + 0.005 * (LOWER[:d] + UPPER[:d]):
        rows = p.rows(x, second=True)
        np.testing.assert_allclose(
            rows[: 1 + d], p.rows(x), rtol=0.0, atol=1e-14 * np.abs(p.coefficients).sum()
        )  # BLAS may sum in another order
        np.testing.assert_allclose(p(x)[1], numeric_slope(lambda x: p(x)[0], x, 1e-4), atol=1e-6)
        change = numeric_slope(lambda x: p(x)[1].ravel(), x, 1e-4).reshape(-1, d, d)
        np.testing.assert_allclose(second_matrices(rows, d), change, atol=1e-5)


def test_it_has_the_face_of_a_grid(rng):
    corners = Corners(waves, dim=2)
    grid, p = Grid(corners, cell=0.1), Chebyshev(corners, domain=(-1.0, 1.0), degree=8)
    for x in rng.uniform(-0.9, 0.9, (5, 2)):
        for a, b in zip(grid(x), p(x), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=1e-3)
        assert grid.rows(x, second=True).shape == p.rows(x, second=True).shape
    assert (p.dim, p.evaluations, p.corners) == (grid.dim, grid.evaluations, corners)


# Exact evaluations


@dims
def test_slopes_are_used(d):
    """Values alone would be fewer equations than unknowns; with slopes there are twice as many,
    whatever d is."""
    f = Counted(waves)
    p = chebyshev(f, d, 5)
    m = comb(5 + d, d)
    assert p.evaluations == len(f.points) == -(-2 * m // (1 + d))
    assert d == 1 or len(f.points) < m


@dims
def test_a_higher_degree_wastes_no_point(d):
    f = Counted(waves)
    low = chebyshev(f, d, 3)
    made = len(f.points)
    high = low.raised(5)
    assert high.degree == 5
    np.testing.assert_array_equal(high.points[:made], low.points)
    assert len(f.points) == high.evaluations == len(high.points) > made
    np.testing.assert_array_equal(f.points, high.points)


def test_points_without_a_value_are_left_out(rng):
    f = Polynomial(rng, 2, 4)
    bad = chebyshev(f, 2, 4).points[[0, 3, 5]]

    def holed(x, near):
        if (x == bad).all(axis=1).any():
            raise RuntimeError("the step did not converge")
        return f(x)

    p = chebyshev(holed, 2, 4)
    assert len(p.corners.notes) == 3
    assert max(errors(p, f, inside(rng, 20, 2))) < 1e-10


def test_a_basis_that_grows_changes_nothing_but_the_tolerance(rng):
    """The later corners have more coefficients than the first, and the polynomial is the same to
    the tolerance of the compression."""
    frame = np.linalg.qr(rng.standard_normal((200, 3)))[0]
    f = lambda x, near=None: tuple(frame @ part for part in waves(x))
    plain, short = chebyshev(f, 2, 6), chebyshev(f, 2, 6, compress=1e-9)
    assert short.coefficients.shape[1] == 3 > short.corners.fetch(short.points[:1])[0].rows.shape[1]
    for x in inside(rng, 10, 2):
        for a, b in zip(plain(x), short(x), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("compress", [None, 1e-6])
def test_a_constant_is_one(compress):
    p = chebyshev(lambda x, near: (np.arange(3.0), np.zeros((3, 2))), 2, 3, compress=compress)
    value, slope = p(UPPER[:2])
    np.testing.assert_allclose(value, np.arange(3.0), atol=1e-14)
    np.testing.assert_allclose(slope, np.zeros((3, 2)), atol=1e-13)


# Sentences


def test_outside_the_domain_is_a_sentence(one_sentence):
    p = chebyshev(waves, 2, 2)
    p(UPPER[:2])
    one_sentence(
        lambda: p(np.array([0.0, 1.1])), "outside the surrogate's domain: axis 1 goes from 0.2 to 1"
    )


@pytest.mark.parametrize("domain", [None, ((-1.0, -np.inf), (1.0, 1.0))])
def test_a_domain_without_end_is_refused(one_sentence, domain):
    one_sentence(
        lambda: Chebyshev(Corners(waves, dim=2), domain=domain, degree=2), "finite along every axis"
    )


@pytest.mark.parametrize("degree", [0, 2.5, "high", True])
def test_a_degree_that_is_none_is_refused(one_sentence, degree):
    one_sentence(lambda: chebyshev(waves, 2, degree), "degree of the polynomial is .* whole number")


@pytest.mark.parametrize("oversampling", [0.9, np.nan, np.inf])
def test_fewer_equations_than_unknowns_are_refused(one_sentence, oversampling):
    one_sentence(
        lambda: chebyshev(waves, 2, 3, oversampling=oversampling), "oversampling is .* at least 1"
    )


def test_a_budget_that_is_too_small_is_told_before_it_is_spent(one_sentence):
    f = Counted(waves)
    one_sentence(
        lambda: chebyshev(f, 4, 8, budget=100),
        "Degree 8 in 4 dimensions takes 198 exact evaluations; the budget is 100: raise it to 198",
    )
    assert not f.points
    p = chebyshev(f, 2, 4, budget=20)  # 10 points
    one_sentence(
        lambda: p.raised(8), "takes 30 exact evaluations; the budget is 20: raise it to 30"
    )
    p.raised(6)
    other = Corners(waves, dim=2, budget=20)
    Grid(other, cell=1.0)(np.zeros(2))
    one_sentence(
        lambda: Chebyshev(other, domain=(-1, 1), degree=6),
        "takes 19 .* is 20, of which 4 are spent elsewhere: raise it to 23",
    )


def test_too_many_failures_are_a_sentence(one_sentence):
    def f(x, near):
        if x[0] > -0.7:
            raise RuntimeError("the step did not converge")
        return waves(x)

    one_sentence(
        lambda: chebyshev(f, 2, 4),
        r"no value at \d+ of 10 points .*did not converge.* equations for the 15 coefficients",
    )
    one_sentence(
        lambda: chebyshev(lambda x, near: (np.full(2, np.nan), np.zeros((2, 2))), 2, 4),
        "at 10 of 10 points",
    )


def test_insufficient_equations_raise_a_clear_error(one_sentence):
    """Values and slopes at two points of the plane are six equations for the six coefficients of a
    quadratic, but never independent."""
    one_sentence(
        lambda: chebyshev(waves, 2, 2, oversampling=1.0),
        "do not determine 1 of the 6 coefficients of degree 2; raise the oversampling from 1",
    )
