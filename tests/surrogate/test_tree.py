"""Tree: C1 also between leaves of different levels, exact for cubics, deep only where the map
bends, and as accurate as it was asked."""

from functools import cache

import numpy as np
import pytest
from smooth_maps import Counted, Polynomial, numeric_slope, second_matrices, waves

from pliant.surrogate import Corners, CornerStore, Grid, SampleError, Tree
from pliant.surrogate import tree as tree_module

dims = pytest.mark.parametrize("d", [1, 2, 3])
NORMAL = np.array([1.0, 0.45, -0.3])
PLACE = 0.37  # of the ridge, along its normal


class Ridge:
    """A step and its square, steep across one plane and flat elsewhere."""

    def __init__(self, steepness):
        self.k = steepness

    def __call__(self, x, near=None):
        w = NORMAL[: len(x)]
        s = np.tanh(self.k * (w @ x - PLACE))
        return np.array([s, s * s]), self.k * (1.0 - s * s) * np.array([w, 2.0 * s * w])


def distance(x):
    """From the ridge, along the normal as it is."""
    return abs(NORMAL[: len(x)] @ x - PLACE)


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
    """(level, index (d,)) of the leaf that a place lies in."""
    return t._leaf(
        np.floor((x - t.origin) / t.size * 2.0**tree_module.FINEST_LEVEL).astype(np.int64)
    )


def box(t, x):
    """(lower, upper) of that leaf."""
    level, index = leaf(t, x)
    return t.origin + t.size * index / 2.0**level, t.origin + t.size * (index + 1) / 2.0**level


def path(d, count=120):
    """(count, d) a curve that crosses the ridge once and goes on far beyond."""
    s = np.linspace(0.0, 1.0, count)
    return np.column_stack([3.0 * s, 0.3 + 0.5 * s**2, 0.2 + 0.3 * s])[:, :d]


def worst(surrogate, f, points):
    return max(float(np.linalg.norm(surrogate(x)[0] - f(x)[0])) for x in points)


# Smoothness


def faces(t, points, rng):
    """[(below, above, axis)] places to both sides of all faces of the leaves of some points, at
    random on each face."""
    out = []
    for x in points:
        lower, upper = box(t, x)
        for axis in range(t.dim):
            for side in (lower, upper):
                above = rng.uniform(lower, upper)
                above[axis] = side[axis]
                below = above.copy()
                below[axis] = np.nextafter(side[axis], -np.inf)
                out.append((below, above, axis))
    return out


def settled(t, points, rng):
    """Those places when the tree has been asked at all of them and asking again splits nothing."""
    while True:
        places = faces(t, points, rng)
        before = t._split.copy()
        for below, above, _ in places:
            t(below)
            t(above)
        if t._split == before:
            return places


def face_jumps(t, places):
    """((n, 2) the largest jump of value and slope across each face, (n,) by how many levels its two
    leaves differ)."""
    jumps, steps = [], []
    for below, above, axis in places:
        assert (
            box(t, below)[1][axis] == above[axis] == box(t, above)[0][axis]
        )  # it is a face of both
        jumps.append([np.abs(a - b).max() for a, b in zip(t(below), t(above), strict=True)])
        steps.append(abs(leaf(t, below)[0] - leaf(t, above)[0]))
    return np.array(jumps), np.array(steps)


def near_the_ridge(d):
    """((n, d) places on both sides of the ridge and on it; the tree's options that make it deep
    there)"""
    count = {1: 30, 2: 30, 3: 5}[d]
    points = np.random.default_rng(3).uniform(0.0, 1.0, (count, d))
    points[:, 0] = (
        PLACE
        - points[:, 1:] @ NORMAL[1:d]
        + {1: 0.9, 2: 0.3, 3: 0.3}[d] * np.linspace(-1.0, 1.0, count)
    )
    return points, {
        1: {"tolerance": 1e-4},
        2: {"tolerance": 3e-3, "max_depth": 6},
        3: {"tolerance": 2e-2, "max_depth": 4},
    }[d]


def beside_a_cubic(d):
    """A ridge, which deepens a tree, and after it a cubic, which does not."""
    ridge, cubic = Ridge(12.0), Polynomial(np.random.default_rng(4), d, 3)
    return lambda x, near=None: tuple(
        np.concatenate(parts) for parts in zip(ridge(x), cubic(x), strict=True)
    )


@cache
def deep(d, compress):
    """(a tree of many levels, the places at faces between its leaves); what is asked of it there
    changes it no more."""
    points, options = near_the_ridge(d)
    t = tree(beside_a_cubic(d), d, compress=compress, **options)
    return t, settled(t, points, np.random.default_rng(2))


@pytest.mark.parametrize(("d", "compress"), [(1, None), (2, None), (3, None), (2, 1e-6)])
def test_interpolant_is_continuous_across_faces_of_all_levels(d, compress):
    """Slopes are of the order of the steepness 12, second derivatives of 12^2: one unit in the last
    place of x is 1e-14 of a slope."""
    jumps, steps = face_jumps(*deep(d, compress))
    assert (steps == 0).sum() > 10
    assert (steps == 1).sum() > 5
    assert (steps >= 2).any()  # no balance is asked for
    assert jumps[:, 0].max() < 1e-14
    assert jumps[:, 1].max() < 1e-12


@pytest.mark.parametrize("first", ["the larger", "the smaller"])
def test_interpolant_is_continuous_for_any_order_of_queries(first):
    """A smaller leaf gives its corners better mixed derivatives than a larger one did; what was
    made of the old ones is made anew."""
    t, places = deep(2, None)
    seen = 0
    for below, above, _ in places:
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


def test_a_corner_has_the_mixed_derivatives_of_the_smallest_leaf_that_was_asked():
    """Three quarters of a cell are split, the fourth is not; they meet at its middle, which then is
    no hanging corner."""
    small, large, middle = np.array([0.4, 0.3]), np.array([0.7, 0.6]), np.array([0.5, 0.5])
    bends = []
    for queries in ([large], [small], [large, small], [small, large]):
        t = tree(waves, 2, tolerance=1e9)
        t._split |= {
            (0, np.zeros(2, int).tobytes()),
            *((1, np.array(part).tobytes()) for part in ((0, 0), (0, 1), (1, 0))),
        }
        for x in queries:
            t(x)
        bends.append(t.rows(middle, second=True)[4])
    assert np.abs(bends[0] - bends[1]).max() > 1e-3
    np.testing.assert_array_equal(bends[2], bends[1])
    np.testing.assert_array_equal(bends[3], bends[1])


def test_a_leaf_that_hangs_on_two_takes_what_they_say_in_the_end():
    """The larger of the two is read first; then the smaller one gives their common corner (1/2, 0)
    better mixed derivatives."""
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


def test_own_data_of_hanging_corners_would_break_continuity(monkeypatch):
    """What the test above would say if corners on the side of a larger leaf had the exact values
    that they have at hand."""
    monkeypatch.setattr(Tree, "_is_hanging", lambda self, node, level: False)
    jumps, steps = face_jumps(*deep.__wrapped__(2, None))
    assert jumps[steps > 0, 0].max() > 1e-5
    assert jumps[steps > 0, 1].max() > 1e-3
    assert jumps[steps == 0, 0].max() < 1e-14


@dims
def test_the_slope_is_the_derivative_of_the_value_and_the_second_derivatives_that_of_the_slope(
    rng, d
):
    """Inside a leaf the interpolant is a polynomial of third degree along an axis: central
    differences of e are right to e^2 times the third derivative, which is up to 12^3 times a
    few."""
    t, places = deep(d, None)
    levels, e = set(), 1e-5
    for _, above, _ in places[::2]:
        lower, upper = box(t, above)
        x = lower + (upper - lower) * rng.uniform(0.1, 0.9, d)
        levels.add(leaf(t, x)[0])
        value, slope = t(x)
        np.testing.assert_allclose(slope, numeric_slope(lambda x: t(x)[0], x, e), atol=1e-5)
        rows = t.rows(x, second=True)
        np.testing.assert_array_equal(rows[: 1 + d], t.rows(x))
        np.testing.assert_array_equal(rows[0], value)
        change = numeric_slope(lambda x: t(x)[1].ravel(), x, e).reshape(-1, d, d)
        np.testing.assert_allclose(second_matrices(rows, d), change, atol=1e-5)
    assert len(levels) > 1


# Accuracy


@dims
def test_cubics_are_reproduced_on_one_level(rng, d):
    """Their surplus is round-off, so that nothing is split beyond the first time."""
    f = Polynomial(rng, d, 3)
    t = tree(f, d, cell=np.linspace(0.4, 1.3, d), origin=None, tolerance=1e-8)
    for x in rng.uniform(-1.0, 1.0, (20, d)):
        for got, want in zip(t(x), f(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
        axes = np.eye(d, dtype=int)
        bends = [[f.derivative(x, i + j) for j in axes] for i in axes]
        np.testing.assert_allclose(
            second_matrices(t.rows(x, second=True), d),
            np.moveaxis(bends, 2, 0),
            rtol=1e-9,
            atol=1e-9,
        )
        assert leaf(t, x)[0] == 1


@dims
def test_cubics_are_reproduced_between_levels_too(d):
    """What a hanging corner takes from a larger leaf is exact."""
    t, places = deep(d, None)
    assert len({leaf(t, x)[0] for pair in places for x in pair[:2]}) > 2
    for below, _, _ in places:
        for got, want in zip(t(below), beside_a_cubic(d)(below), strict=True):
            np.testing.assert_allclose(got[2:], want[2:], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("d", "steepness"), [(1, 12.0), (2, 6.0), (2, 12.0), (2, 20.0), (3, 6.0)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_the_error_at_the_queries_is_of_the_order_of_the_tolerance(d, steepness, tolerance):
    """A leaf's estimate is between a sixteenth of the tolerance and the tolerance, since that of
    its parent was too large; and it is one of fourth order on cells that may be as large as the
    ridge is wide, right to a factor of a few."""
    f = Ridge(steepness)
    t = tree(f, d, cell=0.5 if steepness < 12.0 else 1.0, tolerance=tolerance, max_depth=12)
    off = worst(t, f, path(d, 120 if d < 3 else 30))
    assert tolerance / 16.0 < off < 4.0 * tolerance


@pytest.mark.parametrize("d", [1, 2])
def test_it_deepens_near_the_ridge_alone(d):
    f, points = Ridge(12.0), path(d)
    t = tree(f, d, tolerance=1e-4)
    for x in points:
        t(x)
    levels = np.array([leaf(t, x)[0] for x in points])
    off = np.array([distance(x) for x in points])
    np.testing.assert_array_equal(levels[off > 1.0], 1)  # further than the diagonal of half a cell
    assert (off > 1.0).sum() > 40
    assert levels[off < 0.05].min() >= 5
    assert levels.max() < 8  # and that by the tolerance, not by `max_depth`


@pytest.mark.parametrize(
    ("d", "tolerance", "fewer"), [(1, 1e-3, 2.5), (1, 1e-4, 3.0), (2, 1e-3, 1.8), (2, 1e-4, 2.5)]
)
def test_it_takes_fewer_exact_evaluations_than_a_grid_that_is_as_accurate(d, tolerance, fewer):
    """Along a path that crosses the ridge once. The grid pays its cell along the whole path, the
    tree only where it bends; the factors are about the share of the path that is far from the
    ridge, and grow with the accuracy."""
    f, points = Ridge(12.0), path(d, 500)
    t = tree(f, d, tolerance=tolerance)
    off = worst(t, f, points)
    for level in range(10):
        grid = Grid(Corners(f, dim=d), cell=1.0, origin=0.0, level=level)
        if worst(grid, f, points) <= max(off, tolerance):
            break
    assert t.evaluations * fewer < grid.evaluations
    assert worst(grid, f, points) > tolerance / 32.0  # the grid is not much finer than it must be


# Orders of queries


@dims
@pytest.mark.parametrize("compress", [None, 1e-9])
def test_the_same_queries_give_the_same_bits_on_the_same_corners(d, compress):
    """Also where the basis of the compressed corners has grown meanwhile: new directions are zero
    in what was known before."""
    points, options = near_the_ridge(d)
    f = Counted(Ridge(12.0))
    first = tree(f, d, compress=compress, **options)
    rows = [first.rows(x, True) for x in points]
    made = len(f.points)
    again = Tree(first.corners, cell=1.0, origin=0.0, **options)
    for x, old in zip(points, rows, strict=True):
        new = again.rows(x, True)
        np.testing.assert_array_equal(new[:, : old.shape[1]], old)
        np.testing.assert_array_equal(new[:, old.shape[1] :], 0.0)
    assert len(f.points) == made == again.evaluations


def test_the_same_queries_give_the_same_bits_from_a_store():
    points, options = near_the_ridge(2)
    f, store = Counted(Ridge(12.0)), CornerStore(None, key="ridge")
    first, again = [], []
    for found in (first, again):
        t = tree(f, 2, store=store, **options)
        found += [np.column_stack(t(x)) for x in points]
        made = t.evaluations
    np.testing.assert_array_equal(first, again)
    assert len(f.points) == made


def test_no_corner_is_asked_for_twice():
    f = Counted(Ridge(12.0))
    t = tree(f, 2, cell=(0.3, 0.7), origin=None, tolerance=1e-3)
    for x in path(2):
        t(x)
    at = np.array(f.points)
    apart = np.linalg.norm(at[:, None] - at, axis=2)[~np.eye(len(at), dtype=bool)]
    assert apart.min() > 0.1 * 0.3 / 2.0**8  # also none with another last bit
    assert t.evaluations == len(f.points)


# Corners


@dims
def test_a_first_query_takes_a_largest_cell_and_one_of_its_parts(d):
    """2^d corners of each, one of them common: nothing of its neighbours, which may lie where the
    map has no value."""
    f = Counted(Polynomial(np.random.default_rng(1), d, 3))
    t = tree(f, d, tolerance=1e-6)
    t(np.full(d, 0.2))
    assert len(f.points) == t.evaluations == 2 * 2**d - 1
    assert {tuple(x) for x in f.points} == {
        tuple(size * np.array(i, float)) for size in (1.0, 0.5) for i in np.ndindex(*(2,) * d)
    }


def test_it_is_no_deeper_than_it_may_be():
    f, x = Ridge(12.0), np.array([0.3, 0.2])
    for max_depth in (1, 2, 4):
        t = tree(f, 2, tolerance=1e-9, max_depth=max_depth)
        t(x)
        assert leaf(t, x)[0] == max_depth
    assert worst(tree(f, 2, tolerance=1e-9, max_depth=1), f, [x]) > 1e-3


def test_one_level_is_the_grid_of_half_the_cell(rng):
    points = rng.uniform(-1.0, 1.0, (30, 2))
    t, g = (
        tree(waves, 2, tolerance=1e-12, max_depth=1),
        Grid(Corners(waves, dim=2), cell=1.0, origin=0.0, level=1),
    )
    np.testing.assert_array_equal([t.rows(x) for x in points], [g.rows(x) for x in points])
    assert t.evaluations == g.evaluations


def test_a_refined_tree_has_half_the_cell_and_a_sixteenth_of_the_tolerance():
    f, points = Counted(Ridge(12.0)), path(2)
    coarse = tree(f, 2, tolerance=1e-2, domain=(-1.0, 4.0), max_depth=7)
    off = worst(coarse, f.f, points)
    made = len(f.points)
    fine = coarse.refined()
    assert fine.corners is coarse.corners
    np.testing.assert_array_equal(fine.size, coarse.size / 2.0)
    np.testing.assert_array_equal(fine.origin, coarse.origin)
    assert fine.tolerance == pytest.approx(coarse.tolerance / 16.0)
    assert fine.max_depth == coarse.max_depth
    assert worst(fine, f.f, points) < off / 8.0
    assert fine.evaluations == len(f.points) > made
    with pytest.raises(SampleError):
        fine(np.array([0.0, 4.1]))
    coarse_points = {tuple(x) for x in f.points[:made]}
    assert len(coarse_points & {tuple(x) for x in f.points[made:]}) == 0


def test_new_samples_are_those_that_the_largest_cells_do_not_have():
    t = tree(Ridge(12.0), 2, cell=0.5, origin=0.25, tolerance=1e-2)
    for x in path(2, 20):
        t(x)
    new = {tuple(s.point) for s in t.new_samples()}
    for s in t.corners.samples.values():
        assert (tuple(s.point) in new) == bool(np.any((s.point - 0.25) % 0.5 > 0.0))
    assert 0 < len(new) < t.evaluations


@dims
def test_it_holds_what_takes_no_other_evaluation_and_nothing_else(rng, d):
    """Asked about before each query, and afterwards; asking changes nothing."""
    points, options = near_the_ridge(d)
    t = tree(Ridge(12.0), d, **options)
    said = []
    for x in np.vstack([points, points + 1e-3 * rng.standard_normal(points.shape)]):
        before, holds = t.evaluations, t.covers(x)
        assert t.evaluations == before
        t(x)
        assert holds == (t.evaluations == before)
        assert t.covers(x)
        said.append(holds)
    assert 0 < sum(said) < len(said)
    fresh = Tree(t.corners, cell=1.0, origin=0.0, **options)
    assert all(fresh.covers(x) for x in points)  # the corners count, not what the tree was asked
    assert not fresh._split


# Where there is no answer


def no_value_at(bad, f=waves):
    def g(x, near=None):
        if np.array_equal(x, bad):
            raise ArithmeticError("the step did not converge")
        return f(x)

    return g


def test_outside_the_domain_is_a_sentence(one_sentence):
    t = tree(waves, 2, domain=((-1.0, -1.0), (1.0, 0.5)))
    one_sentence(lambda: t(np.array([0.0, 0.6])), "axis 1 goes from -1 to 0.5; widen")
    one_sentence(lambda: t(np.array([np.nan, 0.0])), "axis 0")
    one_sentence(lambda: tree(waves, 2)(np.array([0.0, np.inf])), "axis 1")
    one_sentence(lambda: t(np.zeros(3)), r"shape \(3,\); this map takes 2 numbers")
    assert t.evaluations == 0
    t(np.array([1.0, 0.5]))  # the faces are inside
    assert not t.covers(np.array([1.0, 0.6]))
    assert not t.covers(np.array([np.nan, 0.0]))
    assert t.covers(np.array([1.0, 0.5]))


@pytest.mark.parametrize(
    "bad", [(1.0, 1.0), (0.5, 0.5)], ids=["of the largest cell", "of its part"]
)
def test_a_corner_without_a_value_spoils_its_own_cells_only(one_sentence, bad):
    t = tree(no_value_at(np.array(bad)), 2)
    for _ in range(2):
        one_sentence(
            lambda: t(np.array([0.3, 0.3])),
            rf"corner \[{bad[0]:g}\S* {bad[1]:g}\S*\].*did not converge.*smaller cell",
        )
        assert not t.covers(np.array([0.3, 0.3]))
    with pytest.raises(SampleError):
        t(np.array([0.3, 0.3]))
    x = np.array([2.3, 2.3])
    np.testing.assert_allclose(t(x)[0], waves(x)[0], atol=0.1)


def test_a_grid_does_not_hold_what_it_cannot_answer():
    """Known corners alone are no answer: one may have no value, and a query may lie outside."""
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


def test_a_spent_budget_is_a_sentence_and_what_is_known_goes_on(one_sentence):
    t = tree(Ridge(12.0), 2, tolerance=1e-4, budget=20)
    far = np.array([2.2, 2.2])
    t(far)
    one_sentence(lambda: t(np.array([0.3, 0.2])), "budget of 20 exact evaluations is spent")
    assert t.evaluations <= 20
    t(far)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tolerance": 0.0}, "tolerance of a tree is 0"),
        ({"tolerance": -1.0}, "tolerance of a tree is -1"),
        ({"tolerance": np.nan}, "tolerance of a tree"),
        ({"max_depth": 0}, "0 levels deep; take 1 to 20"),
        ({"max_depth": 21}, "21 levels deep; take 1 to 20"),
        ({"cell": 0.0}, "cell of a tree is 0 along axis 0.*positive"),
        ({"cell": (1.0, 1.0, 1.0)}, r"shape \(3,\)"),
        ({"origin": np.nan}, "origin of a tree"),
        ({"domain": (1.0, -1.0)}, "lower bound must be below"),
    ],
)
def test_a_tree_that_is_none_is_refused(one_sentence, options, says):
    one_sentence(lambda: tree(waves, 2, **options), says)


def test_a_map_of_another_shape_is_refused(one_sentence):
    one_sentence(
        lambda: tree(lambda x, near: (x, np.eye(3)), 2)(np.zeros(2)), r"slope of shape \(3, 3\)"
    )
