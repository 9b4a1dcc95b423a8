"""Scenes of linked robots: surfaces at their poses, the locus of the centre of mass, potentials."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pliant as pl
from pliant.core import InputError, Space
from pliant.geometry import icosphere
from pliant.geometry.surface import enclosed_volume
from pliant.report import draw
from pliant.report.link_scene import (
    LinkPoses,
    link_poses,
    link_scene,
    link_surfaces,
    mass_centres,
    rest_pose,
)
from pliant.swimming import ClosedSurface, EllipsoidShape, Hinge, Link, LinkedRobot

BALL = icosphere(0.05, subdivisions=3)


@pytest.fixture(scope="module")
def robot():
    """Return an ellipsoid with a ball of triangles that rotates about y, a quarter as dense."""
    return LinkedRobot(
        links={
            "body": Link(shape=EllipsoidShape(semi_axes=(0.2, 0.1, 0.05)), density=1000.0),
            "ball": Link(
                shape=ClosedSurface(points=BALL.points, triangles=BALL.triangles), density=250.0
            ),
        },
        hinges={
            "neck": Hinge(
                parent="body",
                child="ball",
                axis=(0.0, 1.0, 0.0),
                point=(0.25, 0.0, 0.0),
                child_point=(-0.1, 0.0, 0.0),
                limits=(-1.0, 1.0),
            )
        },
    )


def poses(rng, robot, count=5):
    return LinkPoses(
        root=rng.standard_normal((count, 3)),
        orientation=Rotation.random(count, rng=rng).as_quat(scalar_first=True),
        angles=rng.uniform(-1.0, 1.0, (count, robot.n_angles)),
    )


def test_surfaces_are_closed_and_face_outward(robot):
    surfaces = link_surfaces(robot)
    points = np.concatenate(surfaces.points)
    edges = surfaces.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    assert {tuple(edge) for edge in edges} == {tuple(edge[::-1]) for edge in edges}
    volume = enclosed_volume(points, surfaces.triangles)
    exact = sum(link.shape.volume for link in robot.links.values())
    assert 0.97 * exact < volume < exact  # the vertices are on the convex surfaces


def test_vertices_lie_on_the_moved_links(robot):
    """Independent of the code: SciPy's rotations take the vertices back into the links' frames."""
    at = poses(np.random.default_rng(0), robot)
    frames = link_scene(robot, at, dt=0.1, title="").frames
    count = len(link_surfaces(robot).points[0])
    for k, frame in enumerate(frames):
        rotation = Rotation.from_quat(at.orientation[k], scalar_first=True)
        local = rotation.inv().apply(frame - at.root[k])
        body, ball = local[:count] / (0.2, 0.1, 0.05), local[count:]
        np.testing.assert_allclose(np.linalg.norm(body, axis=1), 1.0, atol=1e-12)
        theta = at.angles[k, 0]
        centre = np.array([0.25 + 0.1 * np.cos(theta), 0.0, -0.1 * np.sin(theta)])
        np.testing.assert_allclose(np.linalg.norm(ball - centre, axis=1), 0.05, atol=1e-12)


def test_marker_is_the_centre_of_mass(robot):
    at = poses(np.random.default_rng(1), robot)
    masses = np.array([link.mass for link in robot.links.values()])
    for k, marker in enumerate(link_scene(robot, at, dt=0.1, title="").markers[:, 0]):
        theta = at.angles[k, 0]
        centre = np.array([0.25 + 0.1 * np.cos(theta), 0.0, -0.1 * np.sin(theta)])
        local = masses[1] * centre / masses.sum()
        rotation = Rotation.from_quat(at.orientation[k], scalar_first=True)
        np.testing.assert_allclose(marker, at.root[k] + rotation.apply(local), atol=1e-12)


def test_hinge_lines_are_axes_through_the_hinges(robot):
    at = poses(np.random.default_rng(2), robot)
    (line,) = link_scene(robot, at, dt=0.1, title="").lines
    for k, ends in enumerate(line.points):
        rotation = Rotation.from_quat(at.orientation[k], scalar_first=True)
        np.testing.assert_allclose(
            ends.mean(axis=0), at.root[k] + rotation.apply([0.25, 0.0, 0.0]), atol=1e-12
        )
        direction = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
        np.testing.assert_allclose(direction, rotation.apply([0.0, 1.0, 0.0]), atol=1e-12)


def test_potential_colours_the_vertices(robot):
    """A potential that is linear in space has these values at the vertices: exactly on an
    ellipsoid, to the square of the triangles' size on a surface of triangles."""
    points = np.concatenate([link.shape.quadrature(353)[0] for link in robot.links.values()])
    scene = link_scene(
        robot, rest_pose(robot), dt=None, title="", potential=(2.0 * points[:, 0])[None]
    )
    body, ball = link_surfaces(robot).points
    np.testing.assert_allclose(scene.values[0, : len(body)], 2.0 * body[:, 0], atol=1e-15)
    np.testing.assert_allclose(scene.values[0, len(body) :], 2.0 * ball[:, 0], atol=2e-3)
    assert draw(scene, 0, (320, 240)).std() > 5.0


def test_wrong_number_of_potentials_is_refused(robot):
    with pytest.raises(InputError, match=r"The potential has shape \(1, 3\)"):
        link_scene(robot, rest_pose(robot), dt=None, title="", potential=np.zeros((1, 3)))


def test_poses_are_parts_of_the_state():
    space = Space(parts=("position", "root", "orientation", "angles"), n_dofs=6, sizes=(6, 3, 4, 2))
    states = np.arange(30.0).reshape(2, 15)
    at = link_poses(space, states)
    np.testing.assert_array_equal(at.root, [[6, 7, 8], [21, 22, 23]])
    np.testing.assert_array_equal(at.orientation[1], [24, 25, 26, 27])
    np.testing.assert_array_equal(at.angles, [[13, 14], [28, 29]])


def test_unequal_numbers_of_poses_are_refused():
    with pytest.raises(InputError, match="2 roots, 1 orientations"):
        LinkPoses(root=np.zeros((2, 3)), orientation=np.ones((1, 4)), angles=np.zeros((2, 1)))


def test_notebook_shows_a_linked_robot():
    html = pl.robots.swimmer()._repr_html_()
    assert "<img" in html
    assert "hinge-1, hinge-2, hinge-3" in html


def test_swimmer_centre_of_mass_does_not_depend_on_the_root_rotation():
    robot = pl.robots.swimmer()
    rng = np.random.default_rng(3)
    theta = np.tile(rng.uniform(-1.0, 1.0, 3), (4, 1))
    at = LinkPoses(
        root=np.zeros((4, 3)),
        orientation=Rotation.random(4, rng=rng).as_quat(scalar_first=True),
        angles=theta,
    )
    radii = np.linalg.norm(mass_centres(robot, at), axis=1)
    np.testing.assert_allclose(radii, radii[0], rtol=1e-12)
