"""Walls of fluids: the shapes that we make are closed, outward and cross nothing; those that do are
refused."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.geometry import Box, Surface, hare_surface, icosphere, remove_unused_points
from pliant.geometry.self_intersection import find_intersecting_pair
from pliant.hydrostatics import check_closed_surface

CUBE = remove_unused_points(
    (box := Box(size=(1.0, 1.0, 1.0)).mesh(divisions=(3, 3, 3))).points, box.boundary()
)


def joined(*walls):
    """Several walls as one."""
    first = np.cumsum([0] + [len(points) for points, _ in walls])
    return np.concatenate([p for p, _ in walls]), np.concatenate(
        [t + k for (_, t), k in zip(walls, first, strict=False)]
    )


def moved(wall, by=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0), size=1.0):
    return size * Rotation.from_rotvec(turn).apply(np.array(wall[0])) + by, wall[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: icosphere(0.01),
        lambda: hare_surface(0.02, divisions=67),
        lambda: hare_surface(0.02, divisions=10),
    ],
)
def test_the_shapes_are_sound(make):
    surface = make()
    assert find_intersecting_pair(surface.points, surface.triangles) is None
    assert surface.volume() > 0.0
    edges = len(surface.triangles) * 3 // 2
    assert len(surface.points) - edges + len(surface.triangles) == 2  # Euler, of a sphere


def test_the_hare_is_as_large_as_the_papers_bunny_and_passed_several_times():
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
    ).max() >= 2  # how often a line upwards enters it


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.5), (0.0, 0.0, np.pi / 4)])
def test_flat_walls_of_many_triangles_do_not_cross(turn):
    check_closed_surface(*moved(CUBE, (10.0, -3.0, 5.0), turn))


@pytest.mark.parametrize(
    ("other", "meets"),
    [
        (moved(CUBE, (0.7, 0.6, 0.5), (0.2, 0.1, 0.3)), True),  # a corner in another
        (moved(CUBE, (0.5, 0.5, 0.5)), True),  # edges pass through edges
        (moved(CUBE, (1.0 / 3.0, 0.0, 0.0)), True),  # in step: faces lie in faces
        (moved(CUBE, (1.0, 0.2, 0.1)), True),  # touches a face, in its plane
        (moved(CUBE, (1.0 + 1e-6, 0.2, 0.1)), False),
        (moved(CUBE, (0.4, 0.4, -0.1), (0.1, 0.0, 0.0), 0.2), True),
        (moved(CUBE, (0.4, 0.4, 0.3), (0.1, 0.0, 0.0), 0.2), False),  # one inside the other
    ],
)
def test_walls_that_cross_or_touch_are_found(other, meets):
    assert (find_intersecting_pair(*joined(CUBE, other)) is not None) == meets


def test_a_needle_through_one_triangle_is_found():
    """Of two walls that meet nowhere but in the middle of one large triangle."""
    big = icosphere(1.0, subdivisions=0)
    thorn = (
        np.array([[0.0, 0.0, 0.0], [1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 1.0]]),
        np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
    )
    face = big.points[big.triangles[0]].mean(axis=0)
    up = Rotation.align_vectors(face[None] / np.linalg.norm(face), [[0.0, 0.0, 1.0]])[0]
    at = lambda depth: (up.apply(thorn[0]) + depth * face, thorn[1])
    assert find_intersecting_pair(*joined((big.points, big.triangles), at(0.5))) is not None
    assert find_intersecting_pair(*joined((big.points, big.triangles), at(1.01))) is None


def test_a_wall_pushed_through_itself_is_refused(one_sentence):
    """A hare whose ears are pressed into its back."""
    surface = hare_surface(0.02, divisions=30)
    points = np.array(surface.points)
    ears = points[:, 2] > 0.006
    points[ears, 2] = 0.012 - points[ears, 2]
    one_sentence(
        lambda: check_closed_surface(points, surface.triangles),
        "crosses or touches itself: triangles .* meet",
    )
    shifted = np.array(surface.points)
    shifted[0] = -shifted[0] + 2.0 * shifted.mean(axis=0)  # one node drawn through the body
    one_sentence(
        lambda: check_closed_surface(shifted, surface.triangles),
        "crosses or touches itself: triangles .* meet",
    )


@pytest.mark.parametrize(
    ("points", "triangles", "says"),
    [
        (CUBE[0], CUBE[1][1:], "3 edges are open"),
        (CUBE[0], CUBE[1][:, ::-1], "point inward"),
        (CUBE[0] * np.array([1.0, 1.0, 0.0]), CUBE[1], "is flat and cannot hold a fluid"),
        (CUBE[0] * np.array([1.0, 1.0, 1e-13]), CUBE[1], "is flat and cannot hold a fluid"),
        (np.where(CUBE[0] == 1.0, np.nan, CUBE[0]), CUBE[1], "points of the wall is nan"),
        (CUBE[0] * 1e200, CUBE[1], "reaches 1e.200 m"),
        (CUBE[0], CUBE[1] - 1, "refers to point -1, but the points are 0"),
        (
            *joined(CUBE, moved(CUBE, (0.3, 0.3, 0.3), size=0.4)),
            "1 of 2 parts of the wall .* point outward inside another",
        ),
        (
            *joined(CUBE, moved((CUBE[0], CUBE[1][:, ::-1]), (2.0, 0.0, 0.0), size=0.4)),
            "1 of 2 parts",
        ),
        (np.full(CUBE[0].shape, "here"), CUBE[1], "points of the wall is"),
    ],
)
def test_a_bad_wall_is_a_sentence(one_sentence, points, triangles, says):
    one_sentence(lambda: check_closed_surface(points, triangles), says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: icosphere(0.0), "radius of a ball is 0"),
        (lambda: icosphere(1.0, subdivisions=9), "subdivisions of a ball are '9'"),
        (lambda: icosphere(1.0, subdivisions=2.0), "subdivisions of a ball are '2.0'"),
        (lambda: hare_surface(-1.0), "height of a hare is -1"),
        (lambda: hare_surface(1.0, divisions=2), "hare has '2' divisions"),
    ],
)
def test_a_bad_shape_is_a_sentence(one_sentence, make, says):
    one_sentence(make, says)


def test_parts_that_hold_fluid_once_pass():
    """A cube, a hollow in it, fluid in the hollow, and a cube beside; a node without a triangle is
    no part."""
    inward = CUBE[0], CUBE[1][:, ::-1]
    points, triangles = joined(
        CUBE,
        moved(inward, (0.2, 0.2, 0.2), size=0.6),
        moved(CUBE, (0.4, 0.4, 0.4), size=0.2),
        moved(CUBE, (2.0, 0, 0)),
    )
    found = check_closed_surface(np.vstack([points, (9.0, 9.0, 9.0)]), triangles)
    assert found.volume() == pytest.approx(1.0 - 0.6**3 + 0.2**3 + 1.0, rel=1e-12)


def test_a_wall_gives_the_surface():
    assert isinstance(check_closed_surface(*CUBE), Surface)
