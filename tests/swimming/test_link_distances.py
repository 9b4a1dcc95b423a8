"""Distances of links: closed forms, optimality, and contact."""

import pickle

import numpy as np
import pytest

from pliant.geometry import icosphere
from pliant.swimming import (
    ClosedSurface,
    EllipsoidShape,
    LinkContactError,
    Placement,
    closest_links,
    link_distance,
)


def placed(centres, rotations=None):
    n = len(centres)
    return Placement(
        rotations=np.stack(n * [np.eye(3)]) if rotations is None else np.asarray(rotations),
        centres=np.asarray(centres, dtype=float),
        axes=np.zeros((0, 3)),
        anchors=np.zeros((0, 3)),
        moves=np.zeros((n, 0), bool),
    )


def ball(radius, subdivisions=2):
    surface = icosphere(radius, subdivisions=subdivisions)
    return ClosedSurface(points=surface.points, triangles=surface.triangles)


def cube(side):
    corners = side * (np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) - 0.5)
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))]
    return ClosedSurface(points=corners, triangles=np.array(triangles))


@pytest.mark.parametrize("gap", [2.0, 0.1, 1e-3, 1e-6])
def test_distance_of_spheres_is_that_of_their_centres_less_the_radii(gap):
    shapes = [EllipsoidShape(semi_axes=3 * (r,)) for r in (1.0, 0.4)]
    direction = np.array([0.48, 0.6, 0.64])
    where = placed([np.zeros(3), (1.4 + gap) * direction])
    assert link_distance(shapes, where, 0, 1) == pytest.approx(gap, rel=1e-8)


def test_distance_of_ellipsoids_joins_points_with_opposite_normals(rng, rotation_matrix):
    """Points that attain the distance exist, so it is not too small; a plane separates the
    ellipsoids that far, so it is not too large."""
    for _ in range(30):
        axes, R = rng.uniform(0.1, 2.0, (2, 3)), rotation_matrix(rng.normal(size=3))
        where = placed([np.zeros(3), 2.0 * rng.normal(size=3)], [np.eye(3), R])
        distance = link_distance([EllipsoidShape(semi_axes=a) for a in axes], where, 0, 1)
        directions = rng.normal(size=(20_000, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        one = directions * axes[0]
        other = (directions * axes[1]) @ R.T + where.centres[1]
        from scipy.spatial import cKDTree

        sampled = cKDTree(one).query(other)[0].min()
        planes = directions @ where.centres[1]
        planes -= np.linalg.norm(directions * axes[0], axis=1)
        planes -= np.linalg.norm((directions @ R) * axes[1], axis=1)
        assert planes.max() <= distance + 1e-12
        assert distance <= sampled + 1e-12
        if distance > 0.0:
            assert sampled - distance < 0.05
            assert distance - planes.max() < 0.01


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.5, 2.0])
def test_links_that_meet_have_distance_zero(offset):
    smooth, flat = EllipsoidShape(semi_axes=(1.0, 0.5, 0.5)), ball(1.0)
    where = placed([(0.0, 0.0, 0.0), (offset, 0.0, 0.0)])
    assert link_distance((smooth, smooth), where, 0, 1) == 0.0
    near = placed([(0.0, 0.0, 0.0), (0.9 * offset, 0.0, 0.0)])
    assert link_distance((smooth, flat), near, 0, 1) == 0.0
    assert link_distance((flat, smooth), near, 0, 1) == 0.0
    assert link_distance((flat, flat), near, 0, 1) == 0.0


def test_surface_inside_another_link_meets_it():
    where = placed(2 * [(0.0, 0.0, 0.0)])
    small = ball(0.1, 1)
    for outer in (EllipsoidShape(semi_axes=(1.0, 1.0, 1.0)), ball(1.0)):
        assert link_distance((outer, small), where, 0, 1) == 0.0
    assert link_distance((EllipsoidShape(semi_axes=3 * (0.1,)), ball(1.0)), where, 0, 1) == 0.0


def test_distance_of_cubes_with_crossed_edges(rotation_matrix):
    """Two edges at right angles are closest, between their ends."""
    tilt = rotation_matrix(np.array([0.0, 0.0, np.pi / 4]))  # an edge along z ahead
    roll = rotation_matrix(np.array([np.pi / 2, 0.0, 0.0])) @ tilt  # an edge along y ahead
    where = placed([(0.0, 0.0, 0.0), (2.0, 0.01, 0.02)], [tilt, roll])
    assert link_distance((cube(1.0), cube(1.0)), where, 0, 1) == pytest.approx(2.0 - np.sqrt(2.0))


def test_distance_of_a_face_and_an_ellipsoid(rotation_matrix):
    """The distance of a plane is the support of the ellipsoid."""
    shape, R = (
        EllipsoidShape(semi_axes=(0.3, 0.2, 0.1)),
        rotation_matrix(np.array([0.4, -0.3, 0.8])),
    )
    where = placed([(0.0, 0.0, 0.0), (0.8, 0.05, 0.1)], [np.eye(3), R])
    support = np.linalg.norm(shape.semi_axes * (R.T @ [1.0, 0.0, 0.0]))
    found = link_distance((cube(1.0), shape), where, 0, 1)
    assert found == pytest.approx(0.3 - support, rel=2e-6)
    assert found <= 0.3 - support


def test_closest_links_are_found():
    shapes = [EllipsoidShape(semi_axes=3 * (r,)) for r in (1.0, 0.5, 0.2)]
    where = placed([(0.0, 0.0, 0.0), (3.0, 0.0, 0.0), (3.0, 1.0, 0.0)])
    distance, i, k = closest_links(shapes, where)
    assert (i, k) == (1, 2)
    assert distance == pytest.approx(0.3)
    assert closest_links(shapes[:1], Placement.single())[0] == np.inf


def test_contact_error_of_a_worker_process_keeps_its_links():
    error = pickle.loads(pickle.dumps(LinkContactError(1, 2)))
    assert error.links == (1, 2)
    assert "Links 1 and 2" in str(error)
