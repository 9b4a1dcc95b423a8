"""Closed surfaces that contain fluids: generated shapes are valid, and surfaces that leak or
intersect themselves raise errors."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.geometry import Box, Surface, hare_surface, icosphere, remove_unused_points
from pliant.geometry.self_intersection import find_intersecting_pair
from pliant.hydrostatics import check_closed_surface

CUBE = remove_unused_points(
    (box := Box(size=(1.0, 1.0, 1.0)).mesh(divisions=(3, 3, 3))).points, box.boundary()
)


def joined(*surfaces):
    """Return several surfaces as one."""
    first = np.cumsum([0] + [len(points) for points, _ in surfaces])
    return np.concatenate([p for p, _ in surfaces]), np.concatenate(
        [t + k for (_, t), k in zip(surfaces, first, strict=False)]
    )


def transformed(surface, shift=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0), scale=1.0):
    return scale * Rotation.from_rotvec(rotation).apply(np.array(surface[0])) + shift, surface[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: icosphere(0.01),
        lambda: hare_surface(0.02, divisions=67),
        lambda: hare_surface(0.02, divisions=10),
    ],
)
def test_shapes_are_closed_and_do_not_intersect_themselves(make):
    surface = make()
    assert find_intersecting_pair(surface.points, surface.triangles) is None
    assert surface.volume() > 0.0
    edges = len(surface.triangles) * 3 // 2
    assert (
        len(surface.points) - edges + len(surface.triangles) == 2
    )  # Euler characteristic of a sphere


def test_hare_has_given_height_and_vertical_lines_enter_it_several_times():
    surface = hare_surface(0.02)
    assert len(surface.triangles) == 89780
    assert np.ptp(surface.points[:, 2]) == pytest.approx(0.02, rel=1e-12)
    coarse = hare_surface(0.02, divisions=20)
    heights, (lower, upper) = np.linspace(-0.012, 0.015, 300), coarse.bounds()
    lines = [(x, y) for x in np.linspace(lower[0], upper[0], 12)[1:-1] for y in (0.002, 0.003)]
    inside = np.array(
        [
            coarse.contains(np.column_stack([np.full(300, x), np.full(300, y), heights]))
            for x, y in lines
        ]
    )
    assert (np.diff(inside.astype(int), axis=1) == 1).sum(
        axis=1
    ).max() >= 2  # how often a vertical line enters the hare


@pytest.mark.parametrize("rotation", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.5), (0.0, 0.0, np.pi / 4)])
def test_coplanar_triangles_of_a_face_do_not_intersect(rotation):
    check_closed_surface(*transformed(CUBE, (10.0, -3.0, 5.0), rotation))


@pytest.mark.parametrize(
    ("other", "intersects"),
    [
        (
            transformed(CUBE, (0.7, 0.6, 0.5), (0.2, 0.1, 0.3)),
            True,
        ),  # a corner lies inside the other cube
        (transformed(CUBE, (0.5, 0.5, 0.5)), True),  # edges intersect edges
        (transformed(CUBE, (1.0 / 3.0, 0.0, 0.0)), True),  # coplanar faces overlap
        (transformed(CUBE, (1.0, 0.2, 0.1)), True),  # faces touch in one plane
        (transformed(CUBE, (1.0 + 1e-6, 0.2, 0.1)), False),
        (transformed(CUBE, (0.4, 0.4, -0.1), (0.1, 0.0, 0.0), 0.2), True),
        (
            transformed(CUBE, (0.4, 0.4, 0.3), (0.1, 0.0, 0.0), 0.2),
            False,
        ),  # one is inside the other
    ],
)
def test_surfaces_that_intersect_or_touch_are_found(other, intersects):
    assert (find_intersecting_pair(*joined(CUBE, other)) is not None) == intersects


def test_needle_through_one_triangle_is_found():
    """The two surfaces meet only in the interior of one large triangle."""
    ball = icosphere(1.0, subdivisions=0)
    needle = (
        np.array([[0.0, 0.0, 0.0], [1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 1.0]]),
        np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
    )
    face = ball.points[ball.triangles[0]].mean(axis=0)
    up = Rotation.align_vectors(face[None] / np.linalg.norm(face), [[0.0, 0.0, 1.0]])[0]
    at = lambda depth: (up.apply(needle[0]) + depth * face, needle[1])
    assert find_intersecting_pair(*joined((ball.points, ball.triangles), at(0.5))) is not None
    assert find_intersecting_pair(*joined((ball.points, ball.triangles), at(1.01))) is None


def test_self_intersecting_surface_raises(raises_clear_error):
    """The ears of a hare are mirrored into its back."""
    surface = hare_surface(0.02, divisions=30)
    points = np.array(surface.points)
    ears = points[:, 2] > 0.006
    points[ears, 2] = 0.012 - points[ears, 2]
    raises_clear_error(
        lambda: check_closed_surface(points, surface.triangles),
        "crosses or touches itself: triangles .* meet",
    )
    shifted = np.array(surface.points)
    shifted[0] = -shifted[0] + 2.0 * shifted.mean(axis=0)  # one node is moved through the body
    raises_clear_error(
        lambda: check_closed_surface(shifted, surface.triangles),
        "crosses or touches itself: triangles .* meet",
    )


@pytest.mark.parametrize(
    ("points", "triangles", "message"),
    [
        (CUBE[0], CUBE[1][1:], "3 edges are open"),
        (CUBE[0], CUBE[1][:, ::-1], "point inward"),
        (CUBE[0] * np.array([1.0, 1.0, 0.0]), CUBE[1], "is flat and cannot hold a fluid"),
        (CUBE[0] * np.array([1.0, 1.0, 1e-13]), CUBE[1], "is flat and cannot hold a fluid"),
        (np.where(CUBE[0] == 1.0, np.nan, CUBE[0]), CUBE[1], "points of the wall is nan"),
        (CUBE[0] * 1e200, CUBE[1], "reaches 1e.200 m"),
        (CUBE[0], CUBE[1] - 1, "refers to point -1, but the points are 0"),
        (
            *joined(CUBE, transformed(CUBE, (0.3, 0.3, 0.3), scale=0.4)),
            "1 of 2 parts of the wall .* point outward inside another",
        ),
        (
            *joined(CUBE, transformed((CUBE[0], CUBE[1][:, ::-1]), (2.0, 0.0, 0.0), scale=0.4)),
            "1 of 2 parts",
        ),
        (np.full(CUBE[0].shape, "here"), CUBE[1], "points of the wall is"),
    ],
)
def test_bad_closed_surface_raises(raises_clear_error, points, triangles, message):
    raises_clear_error(lambda: check_closed_surface(points, triangles), message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: icosphere(0.0), "radius of a ball is 0"),
        (lambda: icosphere(1.0, subdivisions=9), "subdivisions of a ball are '9'"),
        (lambda: icosphere(1.0, subdivisions=2.0), "subdivisions of a ball are '2.0'"),
        (lambda: hare_surface(-1.0), "height of a hare is -1"),
        (lambda: hare_surface(1.0, divisions=2), "hare has '2' divisions"),
    ],
)
def test_bad_shape_raises(raises_clear_error, make, message):
    raises_clear_error(make, message)


def test_correctly_nested_parts_are_accepted():
    """A cube has a cavity with a smaller cube inside, and another cube is beside it. A node without
    a triangle is ignored."""
    inward = CUBE[0], CUBE[1][:, ::-1]
    points, triangles = joined(
        CUBE,
        transformed(inward, (0.2, 0.2, 0.2), scale=0.6),
        transformed(CUBE, (0.4, 0.4, 0.4), scale=0.2),
        transformed(CUBE, (2.0, 0, 0)),
    )
    found = check_closed_surface(np.vstack([points, (9.0, 9.0, 9.0)]), triangles)
    assert found.volume() == pytest.approx(1.0 - 0.6**3 + 0.2**3 + 1.0, rel=1e-12)


def test_check_closed_surface_returns_a_surface():
    assert isinstance(check_closed_surface(*CUBE), Surface)
