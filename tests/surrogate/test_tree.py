"""Tree surrogates are C1 across levels, exact for cubics, refined only near large curvature, and
accurate to their tolerance."""

from functools import cache

import numpy as np
import pytest
from smooth_maps import CountingMap, Polynomial, central_difference, hessians, waves

from pliant.surrogate import Corners, CornerStore, Grid, SampleError, Tree
from pliant.surrogate import tree as tree_module

dims = pytest.mark.parametrize("d", [1, 2, 3])
NORMAL = np.array([1.0, 0.45, -0.3])
RIDGE_POSITION = 0.37  # position of the ridge along its normal


class Ridge:
    """A smooth step and its square, steep across one plane and flat elsewhere."""

    def __init__(self, steepness):
        self.k = steepness

    def __call__(self, x, near=None):
        w = NORMAL[: len(x)]
        s = np.tanh(self.k * (w @ x - RIDGE_POSITION))
        return np.array([s, s * s]), self.k * (1.0 - s * s) * np.array([w, 2.0 * s * w])


def ridge_distance(x):
    """Return the distance to the ridge, multiplied by |NORMAL|."""
    return abs(NORMAL[: len(x)] @ x - RIDGE_POSITION)


def tree(f, d, *, cell=1.0, tolerance=3e-3, origin=0.0, domain=None, max_depth=8, **options):
    return Tree(
        Corners(f, dim=d, **options),
        cell=cell,
        tolerance=tolerance,
        origin=origin,
        domain=domain,
        max_depth=max_depth,
    )


def leaf(t, x):
    """Return the level and the index (d,) of the leaf that contains a point."""
    return t._leaf(
        np.floor((x - t.origin) / t.size * 2.0**tree_module.FINEST_LEVEL).astype(np.int64)
    )


def leaf_bounds(t, x):
    """Return the lower and upper corner of the leaf that contains a point."""
    level, index = leaf(t, x)
    return t.origin + t.size * index / 2.0**level, t.origin + t.size * (index + 1) / 2.0**level


def path_across_ridge(d, count=120):
    """Return points (count, d) of a curve that crosses the ridge once and ends far from it."""
    s = np.linspace(0.0, 1.0, count)
    return np.column_stack([3.0 * s, 0.3 + 0.5 * s**2, 0.2 + 0.3 * s])[:, :d]


def max_error(surrogate, f, points):
    """Return the largest error of the value."""
    return max(float(np.linalg.norm(surrogate(x)[0] - f(x)[0])) for x in points)


# Smoothness


def face_points(t, points, rng):
    """Return a random point below and above each face of the leaves of `points`, and its axis."""
    out = []
    for x in points:
        lower, upper = leaf_bounds(t, x)
        for axis in range(t.dim):
            for side in (lower, upper):
                above = rng.uniform(lower, upper)
                above[axis] = side[axis]
                below = above.copy()
                below[axis] = np.nextafter(side[axis], -np.inf)
                out.append((below, above, axis))
    return out


def converged_face_points(t, points, rng):
    """Query the face points until the tree no longer splits, and return them."""
    while True:
        points_at_faces = face_points(t, points, rng)
        before = t._split.copy()
        for below, above, _ in points_at_faces:
            t(below)
            t(above)
        if t._split == before:
            return points_at_faces


def face_jumps(t, points_at_faces):
    """Return the jumps (n, 2) of value and slope across each face, and the differences (n,) between
    the levels of its two leaves."""
    jumps, steps = [], []
    for below, above, axis in points_at_faces:
        assert (
            leaf_bounds(t, below)[1][axis] == above[axis] == leaf_bounds(t, above)[0][axis]
        )  # the face belongs to both leaves
        jumps.append([np.abs(a - b).max() for a, b in zip(t(below), t(above), strict=True)])
        steps.append(abs(leaf(t, below)[0] - leaf(t, above)[0]))
    return np.array(jumps), np.array(steps)


def points_near_ridge(d):
    """Return points (n, d) near the ridge and tree options that refine the tree there."""
    count = {1: 30, 2: 30, 3: 5}[d]
    points = np.random.default_rng(3).uniform(0.0, 1.0, (count, d))
    points[:, 0] = (
        RIDGE_POSITION
        - points[:, 1:] @ NORMAL[1:d]
        + {1: 0.9, 2: 0.3, 3: 0.3}[d] * np.linspace(-1.0, 1.0, count)
    )
    return points, {
        1: {"tolerance": 1e-4},
        2: {"tolerance": 3e-3, "max_depth": 6},
        3: {"tolerance": 2e-2, "max_depth": 4},
    }[d]


def ridge_and_cubic(d):
    """Return a map with the outputs of a ridge, which needs refinement, and of a cubic."""
    ridge, cubic = Ridge(12.0), Polynomial(np.random.default_rng(4), d, 3)
    return lambda x, near=None: tuple(
        np.concatenate(parts) for parts in zip(ridge(x), cubic(x), strict=True)
    )


@cache
def deep_tree(d, compress):
    """Return a tree of many levels and points at the faces between its leaves.

    Queries at these points do not change the tree.
    """
    points, options = points_near_ridge(d)
    t = tree(ridge_and_cubic(d), d, compress=compress, **options)
    return t, converged_face_points(t, points, np.random.default_rng(2))


@pytest.mark.parametrize(("d", "compress"), [(1, None), (2, None), (3, None), (2, 1e-6)])
def test_interpolant_is_continuous_across_faces_of_all_levels(d, compress):
    """Slopes are about 12 and second derivatives about 12^2, so that round-off of x changes a slope
    by about 1e-14."""
    jumps, steps = face_jumps(*deep_tree(d, compress))
    assert (steps == 0).sum() > 10
    assert (steps == 1).sum() > 5
    assert (steps >= 2).any()  # neighbouring leaves may differ by several levels
    assert jumps[:, 0].max() < 1e-14
    assert jumps[:, 1].max() < 1e-12


@pytest.mark.parametrize("first", ["the larger", "the smaller"])
def test_interpolant_is_continuous_for_any_order_of_queries(first):
    """A smaller leaf gives its corners more accurate mixed derivatives than a larger one. The tree
    updates all data that depend on them."""
    t, points_at_faces = deep_tree(2, None)
    seen = 0
    for below, above, _ in points_at_faces:
        sides = sorted((below, above), key=lambda x: leaf(t, x)[0], reverse=first == "the smaller")
        if leaf(t, below)[0] != leaf(t, above)[0]:
            fresh = Tree(
                t.corners,
                cell=t.size,
                origin=t.origin,
                tolerance=t.tolerance,
                max_depth=t.max_depth,
            )
            fresh._split |= t._split
            for x in sides:
                fresh(x)
            for a, b in zip(fresh(below), fresh(above), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
            seen += 1
    assert seen > 10


def test_corner_has_mixed_derivatives_of_smallest_queried_leaf():
    """Three of the four parts of a cell are split. All parts meet at the centre, which is not a
    hanging corner."""
    small, large, middle = np.array([0.4, 0.3]), np.array([0.7, 0.6]), np.array([0.5, 0.5])
    second = []
    for queries in ([large], [small], [large, small], [small, large]):
        t = tree(waves, 2, tolerance=1e9)
        t._split |= {
            (0, np.zeros(2, int).tobytes()),
            *((1, np.array(part).tobytes()) for part in ((0, 0), (0, 1), (1, 0))),
        }
        for x in queries:
            t(x)
        second.append(t.rows(middle, second=True)[4])
    assert np.abs(second[0] - second[1]).max() > 1e-3
    np.testing.assert_array_equal(second[2], second[1])
    np.testing.assert_array_equal(second[3], second[1])


def test_leaf_between_two_larger_leaves_uses_their_final_data():
    """The larger neighbour is read first. Then the smaller one gives their common corner (1/2, 0)
    more accurate mixed derivatives."""
    t = tree(waves, 2, tolerance=1e9)
    t._split |= {
        (level, np.array(index).tobytes())
        for level, index in ((0, (0, 0)), (1, (1, 0)), (2, (2, 1)))
    }
    above, below = np.array([0.5, 0.3]), np.array([np.nextafter(0.5, 0.0), 0.3])
    assert [leaf(t, x)[0] for x in (above, below, np.array([0.6, 0.2]))] == [3, 1, 2]
    t(above)
    for a, b in zip(t(above), t(below), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_exact_values_at_hanging_corners_break_continuity(monkeypatch):
    """Hanging corners with their exact values, instead of those of the larger leaf, give jumps."""
    monkeypatch.setattr(Tree, "_is_hanging", lambda self, node, level: False)
    jumps, steps = face_jumps(*deep_tree.__wrapped__(2, None))
    assert jumps[steps > 0, 0].max() > 1e-5
    assert jumps[steps > 0, 1].max() > 1e-3
    assert jumps[steps == 0, 0].max() < 1e-14


@dims
def test_slopes_and_hessians_match_central_differences(rng, d):
    """In a leaf, the interpolant is a cubic polynomial along each axis. Central differences have an
    error of about e^2 times the third derivative, which is of the order of 12^3."""
    t, points_at_faces = deep_tree(d, None)
    levels, e = set(), 1e-5
    for _, above, _ in points_at_faces[::2]:
        lower, upper = leaf_bounds(t, above)
        x = lower + (upper - lower) * rng.uniform(0.1, 0.9, d)
        levels.add(leaf(t, x)[0])
        value, slope = t(x)
        np.testing.assert_allclose(slope, central_difference(lambda x: t(x)[0], x, e), atol=1e-5)
        rows = t.rows(x, second=True)
        np.testing.assert_array_equal(rows[: 1 + d], t.rows(x))
        np.testing.assert_array_equal(rows[0], value)
        change = central_difference(lambda x: t(x)[1].ravel(), x, e).reshape(-1, d, d)
        np.testing.assert_allclose(hessians(rows, d), change, atol=1e-5)
    assert len(levels) > 1


# Accuracy


@dims
def test_cubics_are_reproduced_on_one_level(rng, d):
    """The error estimate of a cubic is round-off, so that leaves stay at level 1."""
    f = Polynomial(rng, d, 3)
    t = tree(f, d, cell=np.linspace(0.4, 1.3, d), origin=None, tolerance=1e-8)
    for x in rng.uniform(-1.0, 1.0, (20, d)):
        for got, want in zip(t(x), f(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
        axes = np.eye(d, dtype=int)
        second = [[f.derivative(x, i + j) for j in axes] for i in axes]
        np.testing.assert_allclose(
            hessians(t.rows(x, second=True), d),
            np.moveaxis(second, 2, 0),
            rtol=1e-9,
            atol=1e-9,
        )
        assert leaf(t, x)[0] == 1


@dims
def test_cubics_are_reproduced_across_levels(d):
    """The data that a hanging corner takes from a larger leaf are exact."""
    t, points_at_faces = deep_tree(d, None)
    assert len({leaf(t, x)[0] for pair in points_at_faces for x in pair[:2]}) > 2
    for below, _, _ in points_at_faces:
        for got, want in zip(t(below), ridge_and_cubic(d)(below), strict=True):
            np.testing.assert_allclose(got[2:], want[2:], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("d", "steepness"), [(1, 12.0), (2, 6.0), (2, 12.0), (2, 20.0), (3, 6.0)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_query_error_is_of_order_of_tolerance(d, steepness, tolerance):
    """The estimate of a leaf lies between a sixteenth of the tolerance and the tolerance, because
    the estimate of its parent was too large. Cells can be as wide as the ridge, so that the
    estimate of fourth order is right to a factor of about 4."""
    f = Ridge(steepness)
    t = tree(f, d, cell=0.5 if steepness < 12.0 else 1.0, tolerance=tolerance, max_depth=12)
    error = max_error(t, f, path_across_ridge(d, 120 if d < 3 else 30))
    assert tolerance / 16.0 < error < 4.0 * tolerance


@pytest.mark.parametrize("d", [1, 2])
def test_tree_is_refined_only_near_the_ridge(d):
    f, points = Ridge(12.0), path_across_ridge(d)
    t = tree(f, d, tolerance=1e-4)
    for x in points:
        t(x)
    levels = np.array([leaf(t, x)[0] for x in points])
    distances = np.array([ridge_distance(x) for x in points])
    far = distances > 1.0  # more than the diagonal of half a cell
    np.testing.assert_array_equal(levels[far], 1)
    assert far.sum() > 40
    assert levels[distances < 0.05].min() >= 5
    assert levels.max() < 8  # the tolerance limits the depth, not `max_depth`


@pytest.mark.parametrize(
    ("d", "tolerance", "factor"), [(1, 1e-3, 2.5), (1, 1e-4, 3.0), (2, 1e-3, 1.8), (2, 1e-4, 2.5)]
)
def test_tree_needs_fewer_evaluations_than_equally_accurate_grid(d, tolerance, factor):
    """The path crosses the ridge once. The grid needs its small cells along the whole path, the
    tree only near the ridge. The factor grows with the accuracy."""
    f, points = Ridge(12.0), path_across_ridge(d, 500)
    t = tree(f, d, tolerance=tolerance)
    error = max_error(t, f, points)
    for level in range(10):
        grid = Grid(Corners(f, dim=d), cell=1.0, origin=0.0, level=level)
        if max_error(grid, f, points) <= max(error, tolerance):
            break
    assert t.evaluations * factor < grid.evaluations
    # the grid is not much finer than necessary
    assert max_error(grid, f, points) > tolerance / 32.0


# Order of queries


@dims
@pytest.mark.parametrize("compress", [None, 1e-9])
def test_same_queries_on_same_corners_are_bitwise_equal(d, compress):
    """The basis of the compressed corners may grow in between. Coefficients of new directions are
    then zero."""
    points, options = points_near_ridge(d)
    f = CountingMap(Ridge(12.0))
    first = tree(f, d, compress=compress, **options)
    rows = [first.rows(x, True) for x in points]
    count = len(f.points)
    again = Tree(first.corners, cell=1.0, origin=0.0, **options)
    for x, old in zip(points, rows, strict=True):
        new = again.rows(x, True)
        np.testing.assert_array_equal(new[:, : old.shape[1]], old)
        np.testing.assert_array_equal(new[:, old.shape[1] :], 0.0)
    assert len(f.points) == count == again.evaluations


def test_same_queries_from_a_store_are_bitwise_equal():
    points, options = points_near_ridge(2)
    f, store = CountingMap(Ridge(12.0)), CornerStore(None, key="ridge")
    first, again = [], []
    for found in (first, again):
        t = tree(f, 2, store=store, **options)
        found += [np.column_stack(t(x)) for x in points]
        count = t.evaluations
    np.testing.assert_array_equal(first, again)
    assert len(f.points) == count


def test_each_corner_is_evaluated_once():
    f = CountingMap(Ridge(12.0))
    t = tree(f, 2, cell=(0.3, 0.7), origin=None, tolerance=1e-3)
    for x in path_across_ridge(2):
        t(x)
    at = np.array(f.points)
    apart = np.linalg.norm(at[:, None] - at, axis=2)[~np.eye(len(at), dtype=bool)]
    assert apart.min() > 0.1 * 0.3 / 2.0**8  # no duplicates that differ by round-off
    assert t.evaluations == len(f.points)


# Corners


@dims
def test_first_query_evaluates_largest_cell_and_one_of_its_parts(d):
    """Each has 2^d corners, and one corner is common. Neighbours are not evaluated, because the map
    may have no value there."""
    f = CountingMap(Polynomial(np.random.default_rng(1), d, 3))
    t = tree(f, d, tolerance=1e-6)
    t(np.full(d, 0.2))
    assert len(f.points) == t.evaluations == 2 * 2**d - 1
    assert {tuple(x) for x in f.points} == {
        tuple(size * np.array(i, float)) for size in (1.0, 0.5) for i in np.ndindex(*(2,) * d)
    }


def test_depth_is_limited_by_max_depth():
    f, x = Ridge(12.0), np.array([0.3, 0.2])
    for max_depth in (1, 2, 4):
        t = tree(f, 2, tolerance=1e-9, max_depth=max_depth)
        t(x)
        assert leaf(t, x)[0] == max_depth
    assert max_error(tree(f, 2, tolerance=1e-9, max_depth=1), f, [x]) > 1e-3


def test_tree_of_depth_one_is_grid_of_half_cell(rng):
    points = rng.uniform(-1.0, 1.0, (30, 2))
    t, g = (
        tree(waves, 2, tolerance=1e-12, max_depth=1),
        Grid(Corners(waves, dim=2), cell=1.0, origin=0.0, level=1),
    )
    np.testing.assert_array_equal([t.rows(x) for x in points], [g.rows(x) for x in points])
    assert t.evaluations == g.evaluations


def test_refined_tree_has_half_cell_and_sixteenth_of_tolerance():
    f, points = CountingMap(Ridge(12.0)), path_across_ridge(2)
    coarse = tree(f, 2, tolerance=1e-2, domain=(-1.0, 4.0), max_depth=7)
    error = max_error(coarse, f.f, points)
    count = len(f.points)
    fine = coarse.refined()
    assert fine.corners is coarse.corners
    np.testing.assert_array_equal(fine.size, coarse.size / 2.0)
    np.testing.assert_array_equal(fine.origin, coarse.origin)
    assert fine.tolerance == pytest.approx(coarse.tolerance / 16.0)
    assert fine.max_depth == coarse.max_depth
    assert max_error(fine, f.f, points) < error / 8.0
    assert fine.evaluations == len(f.points) > count
    with pytest.raises(SampleError):
        fine(np.array([0.0, 4.1]))
    coarse_points = {tuple(x) for x in f.points[:count]}
    assert len(coarse_points & {tuple(x) for x in f.points[count:]}) == 0


def test_new_samples_exclude_corners_of_largest_cells():
    t = tree(Ridge(12.0), 2, cell=0.5, origin=0.25, tolerance=1e-2)
    for x in path_across_ridge(2, 20):
        t(x)
    new = {tuple(s.point) for s in t.new_samples()}
    for s in t.corners.samples.values():
        assert (tuple(s.point) in new) == bool(np.any((s.point - 0.25) % 0.5 > 0.0))
    assert 0 < len(new) < t.evaluations


@dims
def test_tree_warns_where_it_stops_above_its_tolerance(d):
    """The warning names the number of deepest cells, the largest error and its place."""
    f, points = Ridge(6.0), path_across_ridge(d)
    coarse, fine = (
        tree(f, d, tolerance=1e-3, max_depth=depth, origin=-0.1) for depth in (2, 20 // d)
    )
    evaluations = []
    for t in (coarse, fine):
        for x in points:
            t(x)
        evaluations.append(t.evaluations)
    assert fine.warnings == []
    assert max_error(fine, f, points) < 1e-2 < max_error(coarse, f, points)
    (warning,) = coarse.warnings
    assert "stopped at its deepest level 2 in" in warning
    assert "above the tolerance 1.0e-03" in warning
    assert coarse.evaluations == evaluations[0]
    (level, index), worst = max(coarse._unresolved.items(), key=lambda item: item[1])
    assert level == 2
    assert worst > 1e-3
    corner = coarse.origin + coarse.size * np.frombuffer(index, np.int64) / 4.0
    assert ridge_distance(corner) < 0.25 * NORMAL[:d].sum() + 0.25  # beside the ridge


def test_tree_of_one_level_makes_no_evaluation_for_its_warning():
    """The largest cell has no known corners, so its children have no estimate."""
    t = tree(Ridge(6.0), 2, tolerance=1e-3, max_depth=1)
    t(np.array([0.2, 0.2]))
    assert t.evaluations == 4
    assert t.warnings == []


@dims
def test_covers_is_true_only_without_new_evaluations(rng, d):
    """`covers` is called before and after each query. It does not change the tree."""
    points, options = points_near_ridge(d)
    t = tree(Ridge(12.0), d, **options)
    covered = []
    for x in np.vstack([points, points + 1e-3 * rng.standard_normal(points.shape)]):
        before, covers = t.evaluations, t.covers(x)
        assert t.evaluations == before
        t(x)
        assert covers == (t.evaluations == before)
        assert t.covers(x)
        covered.append(covers)
    assert 0 < sum(covered) < len(covered)
    fresh = Tree(t.corners, cell=1.0, origin=0.0, **options)
    # `covers` depends on the corners, not on earlier queries
    assert all(fresh.covers(x) for x in points)
    assert not fresh._split


# Invalid queries and input


def no_value_at(bad, f=waves):
    def g(x, near=None):
        if np.array_equal(x, bad):
            raise ArithmeticError("the step did not converge")
        return f(x)

    return g


def test_query_outside_the_domain_raises(raises_clear_error):
    t = tree(waves, 2, domain=((-1.0, -1.0), (1.0, 0.5)))
    raises_clear_error(lambda: t(np.array([0.0, 0.6])), "axis 1 goes from -1 to 0.5. Widen")
    raises_clear_error(lambda: t(np.array([np.nan, 0.0])), "axis 0")
    raises_clear_error(lambda: tree(waves, 2)(np.array([0.0, np.inf])), "axis 1")
    raises_clear_error(lambda: t(np.zeros(3)), r"shape \(3,\)\. Give 2 numbers")
    assert t.evaluations == 0
    t(np.array([1.0, 0.5]))  # the faces are inside
    assert not t.covers(np.array([1.0, 0.6]))
    assert not t.covers(np.array([np.nan, 0.0]))
    assert t.covers(np.array([1.0, 0.5]))


@pytest.mark.parametrize(
    "bad", [(1.0, 1.0), (0.5, 0.5)], ids=["corner of the largest cell", "corner of its part"]
)
def test_failed_corner_affects_only_its_own_cells(raises_clear_error, bad):
    t = tree(no_value_at(np.array(bad)), 2)
    for _ in range(2):
        raises_clear_error(
            lambda: t(np.array([0.3, 0.3])),
            rf"corner \[{bad[0]:g}\S* {bad[1]:g}\S*\].*did not converge.*smaller cell",
        )
        assert not t.covers(np.array([0.3, 0.3]))
    with pytest.raises(SampleError):
        t(np.array([0.3, 0.3]))
    x = np.array([2.3, 2.3])
    np.testing.assert_allclose(t(x)[0], waves(x)[0], atol=0.1)


def test_grid_does_not_cover_failed_or_outside_queries():
    """The corners may be known, but one may have failed or the query may lie outside the domain."""
    g = Grid(
        Corners(no_value_at(np.array([1.0, 1.0])), dim=2), cell=1.0, origin=0.0, domain=(0.0, 2.5)
    )
    inside, outside = np.array([0.5, 0.5]), np.array([2.7, 0.5])
    with pytest.raises(SampleError):
        g(inside)
    g(np.array([2.3, 0.5]))
    for x in (inside, outside, np.array([np.nan, 0.5])):
        assert not g.covers(x)
    assert g.covers(np.array([2.4, 0.9]))


def test_exceeded_budget_raises_and_known_cells_still_work(raises_clear_error):
    t = tree(Ridge(12.0), 2, tolerance=1e-4, budget=20)
    far = np.array([2.2, 2.2])
    t(far)
    raises_clear_error(lambda: t(np.array([0.3, 0.2])), "budget of 20 exact evaluations is spent")
    assert t.evaluations <= 20
    t(far)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance of a tree is 0"),
        ({"tolerance": -1.0}, "tolerance of a tree is -1"),
        ({"tolerance": np.nan}, "tolerance of a tree"),
        ({"max_depth": 0}, "max_depth is 0. Give 1 to 20 levels"),
        ({"max_depth": 21}, "max_depth is 21. Give 1 to 20 levels"),
        ({"cell": 0.0}, "cell of a tree is 0 along axis 0.*positive"),
        ({"cell": (1.0, 1.0, 1.0)}, r"shape \(3,\)"),
        ({"origin": np.nan}, "origin of a tree"),
        ({"domain": (1.0, -1.0)}, "Give a lower bound below"),
    ],
)
def test_invalid_tree_options_raise(raises_clear_error, options, message):
    raises_clear_error(lambda: tree(waves, 2, **options), message)


def test_map_of_wrong_shape_raises(raises_clear_error):
    raises_clear_error(
        lambda: tree(lambda x, near: (x, np.eye(3)), 2)(np.zeros(2)), r"slope of shape \(3, 3\)"
    )
