"""Chebyshev surrogates are exact for polynomials of their degree and converge spectrally."""

from math import comb

import numpy as np
import pytest
from smooth_maps import (
    CountingMap,
    Polynomial,
    central_difference,
    hessians,
    powers_up_to,
    rms_errors,
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


def random_points(rng, n, d):
    return rng.uniform(LOWER[:d], UPPER[:d], (n, d))


# The basis


@dims
@pytest.mark.parametrize("n", [1, 4])
def test_powers_contain_all_monomials_of_total_degree(d, n):
    assert sorted(map(tuple, total_degree(d, n))) == sorted(map(tuple, powers_up_to(d, n)))


def test_chebyshev_products_are_cosines_of_angles(rng):
    """T_k(cos a) = cos(k a)."""
    powers = total_degree(3, 7)
    for angle in rng.uniform(0.0, np.pi, (10, 3)):
        value = products(np.cos(angle), 7, powers, np.zeros((1, 3), int))[0]
        np.testing.assert_allclose(value, np.prod(np.cos(powers * angle), axis=1), atol=1e-14)


@dims
def test_points_are_nested_and_uniform_in_angle(d):
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
def test_polynomials_of_given_degree_are_exact(rng, d):
    degree = 5 if d < 4 else 4
    f = Polynomial(rng, d, degree)
    p = chebyshev(f, d, degree)
    axes = np.eye(d, dtype=int)
    for x in random_points(rng, 20, d):
        second = np.moveaxis([[f.derivative(x, i + j) for j in axes] for i in axes], 2, 0)
        for got, want in zip(
            (*p(x), hessians(p.rows(x, second=True), d)), (*f(x), second), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * np.abs(second).max())


def test_polynomial_of_higher_degree_is_not_exact(rng):
    f = Polynomial(rng, 2, 6)
    assert rms_errors(chebyshev(f, 2, 5), f, random_points(rng, 20, 2))[0] > 1e-5


@dims
def test_error_falls_by_constant_factor_per_degree(rng, d):
    """waves has a pole at x @ x = -1/0.3. Errors in a box of half-width 3/4 fall by a factor of
    about 5 with each degree."""
    degrees, points = np.arange(2, 9 if d < 3 else 7), random_points(rng, 100, d)
    error = np.array([rms_errors(chebyshev(waves, d, degree), waves, points) for degree in degrees])
    factors = np.exp(-np.polyfit(degrees, np.log(error), 1)[0])
    assert np.all(factors > 3.0)
    assert np.all(error[3:] < 0.1 * error[:-3])  # for low and for high degrees


@dims
def test_slopes_and_hessians_match_central_differences(rng, d):
    """Central differences with step 1e-4 have an error of about 1e-8 f'''."""
    p = chebyshev(waves, d, 6)
    for x in random_points(rng, 5, d) * 0.99 + 0.005 * (LOWER[:d] + UPPER[:d]):
        rows = p.rows(x, second=True)
        np.testing.assert_allclose(
            rows[: 1 + d], p.rows(x), rtol=0.0, atol=1e-14 * np.abs(p.coefficients).sum()
        )  # BLAS may sum in another order
        np.testing.assert_allclose(
            p(x)[1], central_difference(lambda x: p(x)[0], x, 1e-4), atol=1e-6
        )
        change = central_difference(lambda x: p(x)[1].ravel(), x, 1e-4).reshape(-1, d, d)
        np.testing.assert_allclose(hessians(rows, d), change, atol=1e-5)


def test_chebyshev_has_interface_of_grid(rng):
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
def test_fit_uses_slopes(d):
    """Values alone give fewer equations than unknowns. Values and slopes give twice as many as
    unknowns for each d."""
    f = CountingMap(waves)
    p = chebyshev(f, d, 5)
    m = comb(5 + d, d)
    assert p.evaluations == len(f.points) == -(-2 * m // (1 + d))
    assert d == 1 or len(f.points) < m


@dims
def test_higher_degree_reuses_all_points(d):
    f = CountingMap(waves)
    low = chebyshev(f, d, 3)
    count = len(f.points)
    high = low.raised(5)
    assert high.degree == 5
    np.testing.assert_array_equal(high.points[:count], low.points)
    assert len(f.points) == high.evaluations == len(high.points) > count
    np.testing.assert_array_equal(f.points, high.points)


def test_failed_points_are_excluded(rng):
    f = Polynomial(rng, 2, 4)
    bad = chebyshev(f, 2, 4).points[[0, 3, 5]]

    def fails_at_bad(x, near):
        if (x == bad).all(axis=1).any():
            raise RuntimeError("the step did not converge")
        return f(x)

    p = chebyshev(fails_at_bad, 2, 4)
    assert len(p.corners.notes) == 3
    assert max(rms_errors(p, f, random_points(rng, 20, 2))) < 1e-10


def test_growing_basis_changes_result_within_tolerance(rng):
    """Later corners have more coefficients than the first. The polynomial is the same within the
    tolerance of the compression."""
    frame = np.linalg.qr(rng.standard_normal((200, 3)))[0]
    f = lambda x, near=None: tuple(frame @ part for part in waves(x))
    full, compressed = chebyshev(f, 2, 6), chebyshev(f, 2, 6, compress=1e-9)
    assert compressed.coefficients.shape[1] == 3
    assert compressed.corners.fetch(compressed.points[:1])[0].rows.shape[1] < 3
    for x in random_points(rng, 10, 2):
        for a, b in zip(full(x), compressed(x), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("compress", [None, 1e-6])
def test_constant_map_is_exact(compress):
    p = chebyshev(lambda x, near: (np.arange(3.0), np.zeros((3, 2))), 2, 3, compress=compress)
    value, slope = p(UPPER[:2])
    np.testing.assert_allclose(value, np.arange(3.0), atol=1e-14)
    np.testing.assert_allclose(slope, np.zeros((3, 2)), atol=1e-13)


# Invalid input


def test_query_outside_the_domain_raises(raises_clear_error):
    p = chebyshev(waves, 2, 2)
    p(UPPER[:2])
    raises_clear_error(
        lambda: p(np.array([0.0, 1.1])), "outside the surrogate's domain: axis 1 goes from 0.2 to 1"
    )


@pytest.mark.parametrize("domain", [None, ((-1.0, -np.inf), (1.0, 1.0))])
def test_unbounded_domain_raises(raises_clear_error, domain):
    raises_clear_error(
        lambda: Chebyshev(Corners(waves, dim=2), domain=domain, degree=2),
        "finite bounds along every axis",
    )


@pytest.mark.parametrize("degree", [0, 2.5, "high", True])
def test_invalid_degree_raises(raises_clear_error, degree):
    raises_clear_error(
        lambda: chebyshev(waves, 2, degree), "degree of the polynomial is .* whole number"
    )


@pytest.mark.parametrize("oversampling", [0.9, np.nan, np.inf])
def test_oversampling_below_one_raises(raises_clear_error, oversampling):
    raises_clear_error(
        lambda: chebyshev(waves, 2, 3, oversampling=oversampling), "oversampling is .* at least 1"
    )


def test_insufficient_budget_raises_before_evaluation(raises_clear_error):
    f = CountingMap(waves)
    raises_clear_error(
        lambda: chebyshev(f, 4, 8, budget=100),
        "Degree 8 in 4 dimensions takes 198 exact evaluations, "
        "but the budget is 100. Raise it to 198",
    )
    assert not f.points
    p = chebyshev(f, 2, 4, budget=20)  # 10 points
    raises_clear_error(
        lambda: p.raised(8), "takes 30 exact evaluations, but the budget is 20. Raise it to 30"
    )
    p.raised(6)
    other = Corners(waves, dim=2, budget=20)
    Grid(other, cell=1.0)(np.zeros(2))
    raises_clear_error(
        lambda: Chebyshev(other, domain=(-1, 1), degree=6),
        "takes 19 .* is 20, of which 4 are used for other points. Raise it to 23",
    )


def test_too_many_failed_points_raise(raises_clear_error):
    def f(x, near):
        if x[0] > -0.7:
            raise RuntimeError("the step did not converge")
        return waves(x)

    raises_clear_error(
        lambda: chebyshev(f, 2, 4),
        r"no value at \d+ of 10 points .*did not converge.* equations for the 15 coefficients",
    )
    raises_clear_error(
        lambda: chebyshev(lambda x, near: (np.full(2, np.nan), np.zeros((2, 2))), 2, 4),
        "at 10 of 10 points",
    )


def test_dependent_equations_raise(raises_clear_error):
    """Values and slopes at two points of the plane are six dependent equations for the six
    coefficients of a quadratic."""
    raises_clear_error(
        lambda: chebyshev(waves, 2, 2, oversampling=1.0),
        "do not determine 1 of the 6 coefficients of degree 2. Raise the oversampling from 1",
    )
