"""Grid surrogates have fourth order, are C1 and exact for cubics, and are built on demand."""

import numpy as np
import pytest
from smooth_maps import CountingMap, Polynomial, central_difference, hessians, rms_errors, waves

from pliant.core import InputError
from pliant.surrogate import Corners, CornerStore, Grid, SampleError
from pliant.surrogate import grid as grid_module

dims = pytest.mark.parametrize("d", [2, 3, 4])
CELLS = 0.5 ** np.arange(4, 8)


def grid(f, d, cell=0.5, origin=0.25, domain=None, **options):
    return Grid(Corners(f, dim=d, **options), cell=cell, origin=origin, domain=domain)


def scaled_queries(d, cell):
    """Return points (60, d) in the same 4^d cells around a point for each cell size.

    The corners then have the same owners for each cell size.
    """
    return 0.25 + cell * np.random.default_rng(1).uniform(-2.0, 2.0, (60, d))


def measured_orders(rate, d):
    """Return the orders of convergence of value and slope for three halvings of the cell."""
    error = np.array(
        [rms_errors(grid(waves, d, cell), waves, scaled_queries(d, cell)) for cell in CELLS]
    )
    return rate(CELLS, error[:, 0]), rate(CELLS, error[:, 1])


# Accuracy


@dims
def test_values_have_fourth_order_and_slopes_third_order(rate, d):
    """The errors are C h^4 (1 + O(h)) and C h^3 (1 + O(h)). For h <= 1/16, the term O(h) changes
    the measured order by less than 0.1."""
    value, slope = measured_orders(rate, d)
    assert value == pytest.approx(4.0, abs=0.1)
    assert slope == pytest.approx(3.0, abs=0.1)


@dims
def test_order_without_mixed_derivatives_is_two(rate, monkeypatch, d):
    """The test above would measure this order if the mixed derivatives were zero: an error of h^2
    times their value."""

    def without_mixed(values, h):
        several = [subset.bit_count() > 1 for subset in range(2**d)]
        return np.where(np.array(several)[:, None], 0.0, mixed(values, h))

    mixed = grid_module.mixed_derivatives
    monkeypatch.setattr(grid_module, "mixed_derivatives", without_mixed)
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
        second = [[f.derivative(x, i + j) for j in axes] for i in axes]
        np.testing.assert_allclose(
            hessians(g.rows(x, second=True), d),
            np.moveaxis(second, 2, 0),
            rtol=1e-10,
            atol=1e-10,
        )


@dims
def test_interpolant_is_exact_at_corners(d):
    f = CountingMap(waves)
    g = grid(f, d)
    g(np.full(d, 0.1))
    for x in f.points[: 2**d]:
        for got, want in zip(g(x), waves(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


# Smoothness


@dims
def test_slopes_and_hessians_match_central_differences(rng, d):
    """In a cell, the interpolant is a cubic polynomial along each axis. Central differences with
    step 1e-4 have an error of about 1e-8 f'''."""
    g = grid(waves, d, origin=0.0)
    for cell in rng.integers(-2, 2, (6, d)):
        x = 0.5 * (cell + rng.uniform(0.01, 0.99, d))
        value, slope = g(x)
        np.testing.assert_allclose(slope, central_difference(lambda x: g(x)[0], x, 1e-4), atol=1e-7)
        rows = g.rows(x, second=True)
        np.testing.assert_array_equal(rows[: 1 + d], g.rows(x))
        np.testing.assert_array_equal(rows[0], value)
        change = central_difference(lambda x: g(x)[1].ravel(), x, 1e-4).reshape(-1, d, d)
        np.testing.assert_allclose(hessians(rows, d), change, atol=1e-6)


def face_jumps(below, above, d):
    """Return the largest jumps (60, 2) of value and slope across faces of cells of size 1/2.

    One grid is evaluated below the face and the other one above it.
    """
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
def test_values_and_slopes_are_continuous_across_faces(d, compress):
    g = grid(waves, d, origin=0.0, compress=compress, unit=0.5)
    assert face_jumps(g, g, d).max() < 1e-13


@dims
def test_separate_mixed_derivatives_of_each_cell_give_jumps(d):
    """Two grids without common corners show the jumps if the cells of a corner did not share its
    mixed derivatives."""
    below, above = (grid(waves, d, origin=0.0) for _ in range(2))
    assert face_jumps(below, above, d).max() > 1e-4


# Order of queries


def evaluate(g, points):
    return np.array([np.column_stack(g(x)) for x in points])


@dims
def test_other_order_of_queries_changes_values_within_order_of_scheme(rate, d):
    difference = []
    for cell in CELLS:
        points = scaled_queries(d, cell)
        forwards, backwards = (grid(waves, d, cell) for _ in range(2))
        evaluate(backwards, points[::-1])
        difference.append(rms_errors(forwards, backwards, points))
    assert np.min(difference) > 0.0  # the last bits depend on the order of the queries
    value, slope = np.transpose(difference)
    assert rate(CELLS, value) == pytest.approx(4.0, abs=0.1)
    assert rate(CELLS, slope) == pytest.approx(3.0, abs=0.1)


@dims
@pytest.mark.parametrize("compress", [None, 1e-8])
def test_other_order_of_queries_with_same_store_is_bitwise_equal(d, compress):
    f, store = CountingMap(waves), CornerStore(None, key="waves")
    points = scaled_queries(d, 0.5)
    first = grid(f, d, store=store, compress=compress, unit=0.5)
    evaluate(first, points)
    count = len(f.points)
    again = grid(f, d, store=store, compress=compress, unit=0.5)
    backwards = evaluate(again, points[::-1])[::-1]
    np.testing.assert_array_equal(evaluate(first, points), backwards)
    assert len(f.points) == count == first.evaluations == again.evaluations


def test_runs_in_namespaces_are_bitwise_those_of_runs_alone(tmp_path):
    """Two runs share a file. Without namespaces, the second one uses the first cells of the
    other."""
    queries = [scaled_queries(2, 0.5), -scaled_queries(2, 0.5)[::-1]]

    def run(path, points, namespace):
        f = CountingMap(waves)
        with CornerStore(path, key="waves") as store:
            corners = Corners(f, dim=2, store=store)
            g = Grid(corners, cell=0.5, origin=0.25, namespace=namespace).refined()
            return np.array([g.rows(x) for x in points]), len(f.points)

    alone = [run(tmp_path / f"alone-{k}", points, "") for k, points in enumerate(queries)]
    named = [run(tmp_path / "named", points, f"seed-{k}") for k, points in enumerate(queries)]
    shared = [run(tmp_path / "shared", points, "") for points in queries]
    for (values, _), (expected, _) in zip(named, alone, strict=True):
        np.testing.assert_array_equal(values, expected)
    assert not np.array_equal(shared[1][0], alone[1][0])
    assert named[1][1] == shared[1][1] < alone[1][1]  # they share the exact evaluations
    np.testing.assert_array_equal(run(tmp_path / "named", queries[0], "seed-0")[0], alone[0][0])


def test_namespace_that_is_no_text_raises(raises_clear_error):
    raises_clear_error(lambda: Grid(Corners(waves, dim=2), cell=0.5, namespace=3), "namespace")


# Corners


def test_corners_are_evaluated_on_demand_and_once():
    f = CountingMap(waves)
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
def test_refined_grid_reuses_corners(d):
    """A cell and its 2^d parts have 3^d corners in total, without duplicates that differ by
    round-off."""
    f = CountingMap(waves)
    coarse = grid(f, d, cell=0.3, origin=None)  # lower corner at -0.1
    coarse(np.zeros(d))
    assert len(f.points) == 2**d
    fine = coarse.refined()
    for part in np.ndindex(*(2,) * d):
        fine(-0.1 + 0.15 * (np.array(part) + 0.5))
    assert len(f.points) == fine.evaluations == coarse.evaluations == 3**d
    apart = np.linalg.norm(np.array(f.points)[:, None] - np.array(f.points), axis=2)
    assert apart[~np.eye(3**d, dtype=bool)].min() == pytest.approx(0.15)


@pytest.mark.parametrize("level", [1, 2, 5])
def test_corner_is_bitwise_equal_on_every_level(rng, level):
    f = CountingMap(waves)
    coarse = grid(f, 2, cell=(0.3, 0.7), origin=(0.1, -0.2))
    fine = coarse
    for _ in range(level):
        fine = fine.refined()
    for index in rng.integers(-50, 50, (20, 2)):
        coarse(coarse.origin + coarse.cell * (index + 0.5))
        count = len(f.points)
        fine(
            coarse.origin + coarse.cell * index + 0.5 * fine.size
        )  # its lowest corner is also a corner of the coarse cell
        assert len(f.points) - count <= 3


# Invalid queries and input


def test_query_outside_the_domain_raises_until_widened(raises_clear_error):
    g = grid(waves, 2, domain=((-1.0, -1.0), (1.0, 0.5)))
    raises_clear_error(lambda: g(np.array([0.0, 0.6])), "axis 1 goes from -1 to 0.5. Widen")
    raises_clear_error(lambda: g(np.array([np.nan, 0.0])), "axis 0")
    with pytest.raises(SampleError):
        g(np.array([-1.1, 0.0]))
    assert g.evaluations == 0
    g(np.array([1.0, 0.5]))  # the faces are inside
    wide = g.widened(((-1.0, -1.0), (1.0, 2.0)))
    x = np.array([1.0, 0.5])
    count = g.evaluations
    np.testing.assert_array_equal(wide(x)[1], g(x)[1])
    assert wide.evaluations == count
    wide(np.array([0.0, 0.6]))
    wide.widened(None)(np.array([9.0, 9.0]))
    raises_clear_error(lambda: g.refined()(np.array([0.0, 0.6])), "axis 1")


@pytest.mark.parametrize("failure", ["raises", "nan"])
def test_failed_corner_affects_only_its_own_cells(raises_clear_error, failure):
    def f(x, near):
        value, slope = waves(x)
        if np.array_equal(x, [1.0, 2.0]):
            if failure == "raises":
                raise ArithmeticError("the step did not converge")
            value[1] = np.nan
        return value, slope

    f = CountingMap(f)
    g = grid(f, 2, cell=1.0, origin=0.0)
    for x in [(0.5, 1.5), (1.5, 2.5), (0.5, 1.5)]:
        raises_clear_error(
            lambda x=x: g(np.array(x)), r"corner \[1\. 2\.\].*(did not converge|not finite)"
        )
    for x in [(0.5, 0.5), (2.5, 1.5)]:
        np.testing.assert_allclose(g(np.array(x))[0], waves(np.array(x))[0], atol=0.3)
    assert len(f.points) == len({tuple(x) for x in f.points}) == g.evaluations


def test_exceeded_budget_raises_and_known_cells_still_work(raises_clear_error):
    g = grid(waves, 2, cell=1.0, origin=0.0, budget=7)
    g(np.array([0.5, 0.5]))
    g(np.array([1.5, 0.5]))
    raises_clear_error(lambda: g(np.array([0.5, 1.5])), "budget of 7 .* 6 are made and 2 more")
    g(np.array([1.9, 0.1]))
    assert g.evaluations == 6


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (0.0, "is 0 along axis 0.*positive"),
        ((1.0, -2.0), "is -2 along axis 1"),
        (np.nan, "finite"),
        ((1.0, 1.0, 1.0), r"shape \(3,\)"),
        ("wide", "give numbers"),
    ],
)
def test_invalid_cell_raises(raises_clear_error, cell, message):
    raises_clear_error(lambda: grid(waves, 2, cell=cell), message)


@pytest.mark.parametrize(
    "domain", [((0.0, 0.0), (1.0, 0.0)), ((0.0, 0.0), (1.0, np.nan)), (1.0, -1.0)]
)
def test_invalid_domain_raises(raises_clear_error, domain):
    raises_clear_error(lambda: grid(waves, 2, domain=domain), "Give a lower bound below")


def test_map_of_wrong_shape_raises(raises_clear_error):
    raises_clear_error(
        lambda: grid(lambda x, near: (x, np.eye(3)), 2)(np.zeros(2)), r"slope of shape \(3, 3\)"
    )


@pytest.mark.parametrize("level", [2.5, -1, "a", True])
def test_invalid_level_raises(level):
    with pytest.raises(InputError, match="whole number from 0 to 50"):
        Grid(Corners(lambda x, near: (x, np.eye(2)), dim=2), cell=1.0, level=level)
