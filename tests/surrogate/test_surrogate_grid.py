"""Grid: fourth order, C1, exact for cubics, built on demand; what it was asked first changes it by
no more than its order."""

import numpy as np
import pytest
from smooth_maps import Counted, Polynomial, errors, numeric_slope, second_matrices, waves

from pliant.core import InputError
from pliant.surrogate import Corners, CornerStore, Grid, SampleError
from pliant.surrogate import grid as grid_module

dims = pytest.mark.parametrize("d", [2, 3, 4])
CELLS = 0.5 ** np.arange(4, 8)


def grid(f, d, cell=0.5, origin=0.25, domain=None, **options):
    return Grid(Corners(f, dim=d, **options), cell=cell, origin=origin, domain=domain)


def scaled_queries(d, cell):
    """(60, d) places in the same 4^d cells about a point whatever the cell is, so that corners have
    the same owners too."""
    return 0.25 + cell * np.random.default_rng(1).uniform(-2.0, 2.0, (60, d))


def measured_orders(rate, d):
    """Of value and slope, over three halvings of the cell."""
    off = np.array([errors(grid(waves, d, cell), waves, scaled_queries(d, cell)) for cell in CELLS])
    return rate(CELLS, off[:, 0]), rate(CELLS, off[:, 1])


# Accuracy


@dims
def test_values_are_of_fourth_order_and_slopes_of_third(rate, d):
    """Errors go as C h^4 (1 + O(h)), and as h^3; with h from 1/16 down, an O(h) of about h makes an
    order wrong by less than 0.1."""
    value, slope = measured_orders(rate, d)
    assert value == pytest.approx(4.0, abs=0.1)
    assert slope == pytest.approx(3.0, abs=0.1)


@dims
def test_without_mixed_derivatives_the_order_is_two(rate, monkeypatch, d):
    """What the measurement above would say of a grid whose mixed derivatives are zero: h^2 times
    what they should be is missing."""

    def none(values, h):
        several = [subset.bit_count() > 1 for subset in range(2**d)]
        return np.where(np.array(several)[:, None], 0.0, mixed(values, h))

    mixed = grid_module.mixed_derivatives
    monkeypatch.setattr(grid_module, "mixed_derivatives", none)
    value, slope = measured_orders(rate, d)
    assert value == pytest.approx(2.0, abs=0.1)
    assert slope == pytest.approx(1.0, abs=0.1)


@dims
def test_cubics_are_reproduced(rng, d):
    f = Polynomial(rng, d, 3)
    g = grid(f, d, cell=np.linspace(0.4, 1.3, d), origin=None)
    for x in rng.uniform(-1.0, 1.0, (20, d)):
        for got, want in zip(g(x), f(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
        axes = np.eye(d, dtype=int)
        bends = [[f.derivative(x, i + j) for j in axes] for i in axes]
        np.testing.assert_allclose(
            second_matrices(g.rows(x, second=True), d),
            np.moveaxis(bends, 2, 0),
            rtol=1e-10,
            atol=1e-10,
        )


@dims
def test_a_corner_gives_what_the_exact_map_gave(d):
    f = Counted(waves)
    g = grid(f, d)
    g(np.full(d, 0.1))
    for x in f.points[: 2**d]:
        for got, want in zip(g(x), waves(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


# Smoothness


@dims
def test_the_slope_is_the_derivative_of_the_value_and_the_second_derivatives_that_of_the_slope(
    rng, d
):
    """Inside a cell the interpolant is a polynomial, of third degree along an axis: a central
    difference of 1e-4 is right to 1e-8 f'''."""
    g = grid(waves, d, origin=0.0)
    for cell in rng.integers(-2, 2, (6, d)):
        x = 0.5 * (cell + rng.uniform(0.01, 0.99, d))
        value, slope = g(x)
        np.testing.assert_allclose(slope, numeric_slope(lambda x: g(x)[0], x, 1e-4), atol=1e-7)
        rows = g.rows(x, second=True)
        np.testing.assert_array_equal(rows[: 1 + d], g.rows(x))
        np.testing.assert_array_equal(rows[0], value)
        change = numeric_slope(lambda x: g(x)[1].ravel(), x, 1e-4).reshape(-1, d, d)
        np.testing.assert_allclose(second_matrices(rows, d), change, atol=1e-6)


def face_jumps(below, above, d):
    """(60, 2) the largest jumps of value and slope across faces of cells of 1/2, between what one
    grid says below and one says above."""
    rng, jumps = np.random.default_rng(2), []
    for axis in rng.integers(0, d, 60):
        x = rng.uniform(-1.0, 1.0, d)
        x[axis] = 0.5 * rng.integers(-2, 3)
        step = np.zeros(d)
        step[axis] = 1e-15
        jumps.append(
            [np.abs(a - b).max() for a, b in zip(below(x - step), above(x + step), strict=True)]
        )
    return np.array(jumps)


@dims
@pytest.mark.parametrize("compress", [None, 1e-6])
def test_nothing_jumps_across_a_face(d, compress):
    g = grid(waves, d, origin=0.0, compress=compress, unit=0.5)
    assert face_jumps(g, g, d).max() < 1e-13


@dims
def test_mixed_derivatives_of_each_cell_by_itself_would_make_slopes_jump(d):
    """Two grids that own no corner in common show what the test above would say if a corner's data
    were not one for all its cells."""
    below, above = (grid(waves, d, origin=0.0) for _ in range(2))
    assert face_jumps(below, above, d).max() > 1e-4


# Orders of queries


def answers(g, points):
    return np.array([np.column_stack(g(x)) for x in points])


@dims
def test_another_order_of_queries_changes_values_by_no_more_than_the_order_of_the_scheme(rate, d):
    off = []
    for cell in CELLS:
        points = scaled_queries(d, cell)
        forwards, backwards = (grid(waves, d, cell) for _ in range(2))
        answers(backwards, points[::-1])
        off.append(errors(forwards, backwards, points))
    assert np.min(off) > 0.0  # bits depend on the order
    value, slope = np.transpose(off)
    assert rate(CELLS, value) == pytest.approx(4.0, abs=0.1)
    assert rate(CELLS, slope) == pytest.approx(3.0, abs=0.1)


@dims
@pytest.mark.parametrize("compress", [None, 1e-8])
def test_with_one_store_another_order_of_queries_gives_the_same_bits(d, compress):
    f, store = Counted(waves), CornerStore(None, key="waves")
    points = scaled_queries(d, 0.5)
    first = grid(f, d, store=store, compress=compress, unit=0.5)
    answers(first, points)
    made = len(f.points)
    again = grid(f, d, store=store, compress=compress, unit=0.5)
    backwards = answers(again, points[::-1])[::-1]
    np.testing.assert_array_equal(answers(first, points), backwards)
    assert len(f.points) == made == first.evaluations == again.evaluations


# Corners


def test_corners_are_made_when_a_query_needs_them_and_once():
    f = Counted(waves)
    g = grid(f, 2, cell=1.0, origin=0.0)
    for x, count in [
        ((0.2, 0.3), 4),
        ((0.9, 0.1), 4),
        ((1.2, 0.3), 6),
        ((1.2, 1.3), 8),
        ((0.5, 1.5), 9),
        ((5.5, 5.5), 13),
    ]:
        assert g.covers(np.array(x)) == (len(f.points) == count)
        g(np.array(x))
        assert g.covers(np.array(x))
        assert len(f.points) == g.evaluations == count
    g.rows(np.array([1.0, 1.0]))  # a face belongs to the cell above it
    assert g.evaluations == 13


@dims
def test_a_refined_grid_stands_on_the_same_corners(d):
    """A cell of 2^d corners and its 2^d parts: 3^d corners in all, none of them twice with another
    last bit."""
    f = Counted(waves)
    coarse = grid(f, d, cell=0.3, origin=None)  # from -0.1
    coarse(np.zeros(d))
    assert len(f.points) == 2**d
    fine = coarse.refined()
    for part in np.ndindex(*(2,) * d):
        fine(-0.1 + 0.15 * (np.array(part) + 0.5))
    assert len(f.points) == fine.evaluations == coarse.evaluations == 3**d
    apart = np.linalg.norm(np.array(f.points)[:, None] - np.array(f.points), axis=2)
    assert apart[~np.eye(3**d, dtype=bool)].min() == pytest.approx(0.15)


@pytest.mark.parametrize("level", [1, 2, 5])
def test_a_corner_has_the_same_bits_on_every_level(rng, level):
    f = Counted(waves)
    coarse = grid(f, 2, cell=(0.3, 0.7), origin=(0.1, -0.2))
    fine = coarse
    for _ in range(level):
        fine = fine.refined()
    for index in rng.integers(-50, 50, (20, 2)):
        coarse(coarse.origin + coarse.cell * (index + 0.5))
        made = len(f.points)
        fine(
            coarse.origin + coarse.cell * index + 0.5 * fine.size
        )  # its lowest corner is one of the coarse cell
        assert len(f.points) - made <= 3


# Where there is no answer


def test_outside_the_domain_is_a_sentence_and_a_wider_one_helps(one_sentence):
    g = grid(waves, 2, domain=((-1.0, -1.0), (1.0, 0.5)))
    one_sentence(lambda: g(np.array([0.0, 0.6])), "axis 1 goes from -1 to 0.5; widen")
    one_sentence(lambda: g(np.array([np.nan, 0.0])), "axis 0")
    with pytest.raises(SampleError):
        g(np.array([-1.1, 0.0]))
    assert g.evaluations == 0
    g(np.array([1.0, 0.5]))  # the faces are inside
    wide = g.widened(((-1.0, -1.0), (1.0, 2.0)))
    x = np.array([1.0, 0.5])
    made = g.evaluations
    np.testing.assert_array_equal(wide(x)[1], g(x)[1])
    assert wide.evaluations == made
    wide(np.array([0.0, 0.6]))
    wide.widened(None)(np.array([9.0, 9.0]))
    one_sentence(lambda: g.refined()(np.array([0.0, 0.6])), "axis 1")


@pytest.mark.parametrize("how", ["raises", "nan"])
def test_a_corner_without_a_value_spoils_its_own_cells_only(one_sentence, how):
    def f(x, near):
        value, slope = waves(x)
        if np.array_equal(x, [1.0, 2.0]):
            if how == "raises":
                raise ArithmeticError("the step did not converge")
            value[1] = np.nan
        return value, slope

    f = Counted(f)
    g = grid(f, 2, cell=1.0, origin=0.0)
    for x in [(0.5, 1.5), (1.5, 2.5), (0.5, 1.5)]:
        one_sentence(
            lambda x=x: g(np.array(x)), r"corner \[1\. 2\.\].*(did not converge|not finite)"
        )
    for x in [(0.5, 0.5), (2.5, 1.5)]:
        np.testing.assert_allclose(g(np.array(x))[0], waves(np.array(x))[0], atol=0.3)
    assert len(f.points) == len({tuple(x) for x in f.points}) == g.evaluations


def test_a_spent_budget_is_a_sentence_and_what_is_known_goes_on(one_sentence):
    g = grid(waves, 2, cell=1.0, origin=0.0, budget=7)
    g(np.array([0.5, 0.5]))
    g(np.array([1.5, 0.5]))
    one_sentence(lambda: g(np.array([0.5, 1.5])), "budget of 7 .* 6 are made and 2 more")
    g(np.array([1.9, 0.1]))
    assert g.evaluations == 6


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (0.0, "is 0 along axis 0.*positive"),
        ((1.0, -2.0), "is -2 along axis 1"),
        (np.nan, "finite"),
        ((1.0, 1.0, 1.0), r"shape \(3,\)"),
        ("wide", "give numbers"),
    ],
)
def test_a_cell_that_is_none_is_refused(one_sentence, cell, says):
    one_sentence(lambda: grid(waves, 2, cell=cell), says)


@pytest.mark.parametrize(
    "domain", [((0.0, 0.0), (1.0, 0.0)), ((0.0, 0.0), (1.0, np.nan)), (1.0, -1.0)]
)
def test_invalid_domain_is_refused(one_sentence, domain):
    one_sentence(lambda: grid(waves, 2, domain=domain), "lower bound must be below")


def test_a_map_of_another_shape_is_refused(one_sentence):
    one_sentence(
        lambda: grid(lambda x, near: (x, np.eye(3)), 2)(np.zeros(2)), r"slope of shape \(3, 3\)"
    )


@pytest.mark.parametrize("level", [2.5, -1, "a", True])
def test_a_level_is_a_whole_number(level):
    with pytest.raises(InputError, match="whole number from 0 up"):
        Grid(Corners(lambda x, near: (x, np.eye(2)), dim=2), cell=1.0, level=level)
