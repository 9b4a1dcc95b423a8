"""Paths: positions in closed form, speeds, pauses and bad input."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.problem import paths


def test_circle_has_constant_radius_and_speed():
    path = paths.circle(
        centre=(0.1, 0.2, 0.3), radius=0.5, period=4.0, normal=(1.0, 2.0, -1.0), turns=2.0
    )
    places = np.array([path(t) for t in np.linspace(0.0, 4.0, 201)])
    n = np.array([1.0, 2.0, -1.0]) / np.sqrt(6.0)
    np.testing.assert_allclose(np.linalg.norm(places - [0.1, 0.2, 0.3], axis=1), 0.5, rtol=1e-12)
    np.testing.assert_allclose((places - [0.1, 0.2, 0.3]) @ n, 0.0, atol=1e-12)
    length = np.linalg.norm(np.diff(places, axis=0), axis=1)
    np.testing.assert_allclose(length, length[0])
    assert length.sum() == pytest.approx(2.0 * 2.0 * np.pi * 0.5, rel=1e-3)
    np.testing.assert_allclose(path(4.0), path(0.0), atol=1e-12)
    turn = np.cross(places[0] - [0.1, 0.2, 0.3], places[1] - [0.1, 0.2, 0.3])
    assert turn @ n > 0.0  # by the right-hand rule


@pytest.mark.parametrize(
    ("normal", "first"),
    [
        (None, (1.0, 0.0, 0.0)),
        ((0.0, 0.0, -2.0), (1.0, 0.0, 0.0)),
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
        ((0.0, 3.0, 0.0), (1.0, 0.0, 0.0)),
    ],
)
def test_circle_starts_on_the_x_side(normal, first):
    np.testing.assert_allclose(
        paths.circle(centre=(0.0, 0.0, 0.0), radius=1.0, period=1.0, normal=normal)(0.0),
        first,
        atol=1e-12,
    )


def test_plane_circle_matches_closed_form():
    path = paths.circle(centre=(1.0, 0.0), radius=2.0, period=1.0)
    np.testing.assert_allclose(path(0.25), (1.0, 2.0), atol=1e-12)
    np.testing.assert_allclose(path(7.0), (3.0, 0.0), atol=1e-12)  # constant after its period
    np.testing.assert_allclose(path(-1.0), (3.0, 0.0), atol=1e-12)


def test_spiral_radius_and_height_are_linear():
    path = paths.spiral(centre=(0.0, 0.0, 1.0), radii=(0.1, 0.3), period=2.0, turns=3.0, rise=0.5)
    for t in np.linspace(0.0, 2.0, 9):
        place = path(t)
        assert np.hypot(*place[:2]) == pytest.approx(0.1 + 0.1 * t)
        assert place[2] == pytest.approx(1.0 + 0.25 * t)
    assert paths.spiral(centre=(0.0, 0.0), radii=(0.0, 1.0), period=1.0)(0.0) == pytest.approx(
        (0.0, 0.0)
    )


def test_polyline_has_constant_speed():
    path = paths.polyline([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]], period=8.0)
    np.testing.assert_allclose(path(3.0), (1.5, 0.0))
    np.testing.assert_allclose(path(6.0), (3.0, 0.0))
    np.testing.assert_allclose(path(7.0), (3.0, 0.5))
    np.testing.assert_allclose(path(99.0), (3.0, 1.0))


def test_waypoints_are_reached_at_their_times():
    path = paths.waypoints([1.0, 2.0, 4.0], [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, -2.0]])
    np.testing.assert_allclose(path(0.0), 0.0)
    np.testing.assert_allclose(path(1.5), (0.5, 0.0, 0.0))
    np.testing.assert_allclose(path(3.0), (1.0, 1.0, -1.0))
    np.testing.assert_allclose(path(5.0), (1.0, 2.0, -2.0))
    np.testing.assert_allclose(paths.waypoints([0.5], [[1.0, 2.0]])(9.0), (1.0, 2.0))


ROUND = {"centre": (0.0, 0.0, 0.0), "radius": 1.0, "period": 1.0}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: paths.circle(**{**ROUND, "radius": -1.0}), "radii of a path"),
        (lambda: paths.circle(**{**ROUND, "radius": 0.0}), "radii of a path"),
        (lambda: paths.circle(**{**ROUND, "radius": np.nan}), "finite"),
        (lambda: paths.circle(**{**ROUND, "period": 0.0}), "period of a path is 0"),
        (lambda: paths.circle(**{**ROUND, "period": "long"}), "must be a number"),
        (lambda: paths.circle(**{**ROUND, "centre": (0.0,)}), "give 2 or 3"),
        (lambda: paths.circle(**{**ROUND, "centre": (0.0, np.inf)}), "finite"),
        (lambda: paths.circle(**ROUND, normal=(0.0, 0.0, 0.0)), "normal of a path is zero"),
        (lambda: paths.circle(**ROUND, normal=(0.0, 1.0)), "normal of a path has shape"),
        (lambda: paths.polyline([[0.0, 0.0]], period=1.0), "two points or more"),
        (lambda: paths.polyline([[0.0, 0.0], [0.0, 0.0]], period=1.0), "coincide"),
        (lambda: paths.polyline([[0.0, 0.0], [1.0]], period=1.0), "points of a polyline"),
        (lambda: paths.polyline([[0.0, 0.0], [1.0, 0.0]], period=-1.0), "period"),
        (lambda: paths.waypoints([0.0, 1.0], [[0.0, 0.0]]), "The array of waypoints has shape"),
        (lambda: paths.waypoints([1.0, 1.0], [[0.0], [1.0]]), "must increase"),
        (lambda: paths.waypoints([2.0, 1.0], [[0.0], [1.0]]), "must increase"),
        (lambda: paths.waypoints([], np.zeros((0, 2))), "must increase"),
    ],
)
def test_bad_path_is_rejected(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_minimum_jerk_stops_at_each_point_and_pauses():
    places = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    way, h = paths.minimum_jerk([0.0, 1.0, 3.0], places, pause=0.25), 1e-4
    for t, place in zip((0.0, 0.75, 1.0, 2.75, 3.0, 9.0), places[[0, 1, 1, 2, 2, 2]], strict=True):
        np.testing.assert_allclose(way(t), place, atol=1e-12)
        np.testing.assert_allclose((way(t + h) - way(max(t - h, 0.0))) / (2.0 * h), 0.0, atol=1e-3)
    np.testing.assert_allclose(
        way(0.375), [0.5, 0.0], atol=1e-12
    )  # half of the distance at half of the time
    np.testing.assert_array_equal(paths.minimum_jerk([0.0], places[:1])(5.0), places[0])
    with pytest.raises(InputError, match="pause"):
        paths.minimum_jerk([0.0, 1.0], places[:2], pause=1.0)
