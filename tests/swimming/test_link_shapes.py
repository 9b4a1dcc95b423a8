"""Link shapes: volume, centroid, inertia, quadrature, and surfaces that are refused."""

import numpy as np
import pytest

from pliant.core import MAX_COORDINATE
from pliant.geometry import hare_surface, icosphere
from pliant.swimming import ClosedSurface, EllipsoidShape

CUBE = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
FACES = np.array(
    [
        [0, 1, 3],
        [0, 3, 2],
        [4, 6, 7],
        [4, 7, 5],
        [0, 4, 5],
        [0, 5, 1],
        [2, 3, 7],
        [2, 7, 6],
        [0, 2, 6],
        [0, 6, 4],
        [1, 5, 7],
        [1, 7, 3],
    ]
)


def box(sides, corner=(0.0, 0.0, 0.0)):
    return ClosedSurface(points=CUBE * sides + corner, triangles=FACES)


def test_box_has_the_inertia_of_a_box():
    a, b, c = sides = np.array([0.4, 0.2, 0.1])
    shape = box(sides, (3.0, -2.0, 1.0))
    assert shape.volume == pytest.approx(a * b * c)
    np.testing.assert_allclose(shape.centroid, sides / 2 + (3.0, -2.0, 1.0))
    inertia = a * b * c / 12.0 * np.array([b * b + c * c, c * c + a * a, a * a + b * b])
    np.testing.assert_allclose(shape.inertia, np.diag(inertia), atol=1e-12 * inertia.max())


def test_triangles_of_an_ellipsoid_converge_to_its_inertia(rate):
    shape, divisions = EllipsoidShape(semi_axes=(0.4, 0.2, 0.1)), np.array([4, 8, 16])
    errors = []
    for count in divisions:
        surface = shape.surface(count)
        found = ClosedSurface(points=surface.points, triangles=surface.triangles)
        errors.append(np.abs(found.inertia - shape.inertia).max())
    assert rate(1.0 / divisions, errors) == pytest.approx(2.0, abs=0.1)


def test_inertia_rotates_with_the_surface(rotation_matrix):
    hare, R = hare_surface(0.2, divisions=6), rotation_matrix(np.array([0.3, 1.0, -0.4]))
    one = ClosedSurface(points=hare.points, triangles=hare.triangles)
    other = ClosedSurface(points=hare.points @ R.T + 1.0, triangles=hare.triangles)
    np.testing.assert_allclose(
        R @ one.inertia @ R.T, other.inertia, atol=1e-10 * np.abs(other.inertia).max()
    )


def test_quadrature_of_an_ellipsoid_integrates_volume_and_closes():
    shape = EllipsoidShape(semi_axes=(0.4, 0.2, 0.1))
    points, areas = shape.quadrature(353)
    np.testing.assert_allclose((points / shape.semi_axes) ** 2 @ np.ones(3), 1.0)
    assert np.sum(points * areas) / 3.0 == pytest.approx(shape.volume)
    np.testing.assert_allclose(areas.sum(axis=0), 0.0, atol=1e-4 * np.abs(areas).sum())


@pytest.mark.parametrize(
    ("axes", "pattern"),
    [
        ((1.0, 1.0), r"shape \(2,\)"),
        ((1.0, 0.0, 1.0), "semi-axis of an EllipsoidShape is 0"),
        ((1.0, -1.0, 1.0), "semi-axis of an EllipsoidShape is -1"),
        ((1.0, np.nan, 1.0), "is nan"),
        (3 * (10.0 * MAX_COORDINATE,), "Check the units"),
        ("round", "give numbers"),
    ],
)
def test_bad_ellipsoids_are_refused(axes, pattern, raises_clear_error):
    raises_clear_error(lambda: EllipsoidShape(semi_axes=axes), pattern)


def test_bad_surfaces_are_refused(raises_clear_error):
    ball = icosphere(1.0, subdivisions=1)
    points, triangles = ball.points, ball.triangles
    two = np.concatenate([points, points + (0.5, 0.0, 0.0)])
    split = np.concatenate([triangles, triangles + len(points)])
    flat = CUBE * (1.0, 1.0, 1e-9)
    split_edge = np.concatenate([CUBE, [[0.0, 0.0, 0.5]]])  # point 8 between 0 and 1
    sliver = np.concatenate([FACES[1:], [[0, 8, 3], [8, 1, 3], [0, 1, 8]]])
    bad = points.copy()
    bad[0, 0] = np.inf
    for cases, pattern in [
        ((points, triangles[1:]), "edges are open"),
        ((points, triangles[:, ::-1]), "point inward"),
        ((two, split), "crosses or touches itself"),
        ((flat, FACES), "flat"),
        ((split_edge, sliver), "no area|touches"),
        ((bad, triangles), "inf"),
        ((points, triangles + 10), "refers to point"),
        ((points, triangles[:0]), "triangles"),
    ]:
        raises_clear_error(
            lambda cases=cases: ClosedSurface(points=cases[0], triangles=cases[1]), pattern
        )
