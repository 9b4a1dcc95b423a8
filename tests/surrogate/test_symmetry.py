"""A map with a symmetry is evaluated at one of two points that are images of each other."""

import numpy as np
import pytest
from smooth_maps import CountingMap

from pliant.surrogate import Corners, CornerStore, Grid, SampleError, SignSymmetry

# f(-x, y) = (f0, -f1, f2)(x, y)
ODD = SignSymmetry(inputs=np.array([-1.0, 1.0]), outputs=np.array([1.0, -1.0, 1.0]))


def even_and_odd(x, near):
    """Return a value (3,) and its slope (3, 2), with the symmetry ODD up to rounding."""
    a, b = x
    value = [np.cos(a) * np.exp(b), np.sin(a) + a * b, a * a * b]
    slope = [[-np.sin(a) * np.exp(b), value[0]], [np.cos(a) + b, a], [2.0 * a * b, a * a]]
    return np.array(value), np.array(slope)


def corners(f, **options):
    return Corners(f, dim=2, symmetry=ODD, **options)


def test_image_has_the_value_and_the_slope_of_the_map():
    f = CountingMap(even_and_odd)
    made = corners(f)
    points = np.array([[0.3, 0.2], [-0.3, 0.2], [-0.7, 0.1], [0.0, 0.4]])
    for x, corner in zip(points, made.fetch(points), strict=True):
        value, slope = even_and_odd(x, None)
        np.testing.assert_allclose(corner.rows, np.vstack([value, slope.T]), atol=1e-15)
    assert len(f.points) == made.evaluations == 3


def test_grid_on_both_sides_needs_the_evaluations_of_one_side():
    f, g = CountingMap(even_and_odd), CountingMap(even_and_odd)
    halved = Grid(corners(f), cell=0.25, origin=0.0)
    whole = Grid(Corners(g, dim=2), cell=0.25, origin=0.0)
    for x in np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2)):
        for a, b in zip(halved(x), whole(x), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)
    assert len(g.points) == whole.evaluations == 25
    assert len(f.points) == halved.evaluations == 15  # the axis belongs to both sides


def test_image_of_a_failed_point_has_no_value():
    def fails(x, near):
        raise RuntimeError("links touch")

    made = corners(fails)
    assert [corner.failed for corner in made.fetch(np.array([[0.5, 0.0], [-0.5, 0.0]]))] == [
        "links touch",
        "links touch",
    ]
    assert made.evaluations == 1


def test_stored_samples_serve_both_points_and_the_budget_counts_once(tmp_path):
    first, f = CountingMap(even_and_odd), CountingMap(even_and_odd)
    with CornerStore(tmp_path / "corners", key="odd") as store:
        corners(first, store=store).fetch(np.array([[-0.5, 0.0]]))
    with CornerStore(tmp_path / "corners", key="odd") as store:
        again = corners(f, store=store, budget=4)
        assert again.known(np.array([[-0.5, 0.0], [0.5, 0.0]]))
        again.fetch(np.array([[x, y] for x in (-0.5, 0.5) for y in (0.0, 1.0, 2.0, 3.0)]))
        assert again.evaluations == 4
        with pytest.raises(SampleError, match="budget"):
            again.fetch(np.array([[0.1, 0.0]]))
    assert len(f.points) == 3


@pytest.mark.parametrize("signs", [(1.0, 0.5), (np.nan, 1.0), "x"])
def test_other_signs_are_refused(signs, raises_clear_error):
    raises_clear_error(
        lambda: SignSymmetry(inputs=signs, outputs=np.ones(1)), "The signs of the inputs"
    )
