"""The picture agrees with the robot: volume, strain, liquid weight, cables and obstacles."""

from dataclasses import replace

import numpy as np
import pytest

from pliant.contact import Contact, capsule, plane, sphere
from pliant.geometry.boundary import is_closed
from pliant.geometry.surface import enclosed_volume
from pliant.viewer.obstacles import obstacle_box, obstacle_curves, obstacle_surface
from pliant.viewer.picture import Picture
from pliant.zoo.robots import hydraulic_finger, liandford, line_arm, plane_arm, stiff_flop

BOX = (np.full(3, -0.5), np.full(3, 0.5))


@pytest.mark.parametrize(
    ("robot", "count"),
    [(stiff_flop(order=1), 6), (line_arm(layers=4, across=2, order=2), 0)],
    ids=["chambers", "middle nodes"],
)
def test_skin_volume_minus_cavity_volume_is_body_volume(robot, count):
    head, arrays = Picture(robot=robot).scene()
    points, cavities = (
        arrays["rest"],
        [arrays[name] for name in arrays if name.startswith("cavity ")],
    )
    assert len(cavities) == count
    assert is_closed(arrays["skin"])
    outside, voids = (
        enclosed_volume(points, arrays["skin"]),
        -sum(enclosed_volume(points, wall) for wall in cavities),
    )
    assert outside - voids == pytest.approx(robot.body().volumes().sum(), rel=1e-12)
    assert head["colours"] == ("strain", "none")


def test_strain_is_zero_at_rest_and_green_strain_under_stretch():
    picture = Picture(robot=line_arm(layers=4, across=2))
    rest = picture.rest
    np.testing.assert_allclose(
        picture.frame(rest.ravel(), np.zeros(4), "strain")["values"], 0.0, atol=1e-14
    )
    stretched = picture.frame((rest * [1.0, 1.0, 1.1]).ravel(), np.zeros(4), "strain")["values"]
    np.testing.assert_allclose(stretched, 0.5 * (1.1**2 - 1.0), rtol=1e-12)


def test_liquid_forces_sum_to_the_liquid_weight():
    robot = hydraulic_finger()
    picture = Picture(robot=robot)
    assert "weight" in picture.colours
    liquid = picture._liquids[0]
    force = picture.liquid_forces(picture.rest.ravel())
    weight = (
        robot.actuators[next(iter(robot.actuators))].density
        * liquid.wall.rest_volume
        * np.array(robot.gravity)
    )
    np.testing.assert_allclose(
        force.sum(axis=0),
        sum(1 for _ in picture._liquids) * weight,
        atol=1e-10 * np.abs(weight).max(),
    )
    values = picture.frame(picture.rest.ravel(), robot.neutral_controls(), "weight")["values"]
    assert values.sum() >= np.linalg.norm(weight)


def test_cables_are_drawn_through_their_points():
    robot = line_arm(layers=4, across=2)
    picture = Picture(robot=robot)
    drawn = picture.frame(picture.rest.ravel(), np.zeros(4), "none")["lines"]
    np.testing.assert_allclose(
        drawn,
        np.concatenate([np.asarray(cable.points) for cable in robot.actuators.values()]),
        atol=1e-12,
    )


def test_rods_and_plane_bodies_are_drawn():
    head, arrays = Picture(robot=liandford(cells=2)).scene()
    assert arrays["rods"].shape[1] == 2
    assert len(head["radius"]) == len(arrays["rods"])
    assert head["strain"] == "fibre strain"
    solid, flat = Picture(robot=plane_arm(layers=4, across=2)).scene()
    assert solid["strain"] == "Green strain |E|"
    assert np.all(flat["rest"][:, 2] == 0.0)
    a, b, c = (flat["rest"][flat["skin"][:, i]] for i in range(3))
    assert 0.5 * np.abs(np.cross(b - a, c - a)[:, 2]).sum() == pytest.approx(0.04 * 0.2)


def test_sphere_is_drawn_closed_with_its_radius():
    ball = sphere((0.1, -0.05, 0.02), 0.07)
    points, triangles = obstacle_surface(ball, *obstacle_box(ball, *BOX))
    np.testing.assert_allclose(np.linalg.norm(points - [0.1, -0.05, 0.02], axis=1), 0.07, rtol=1e-9)
    assert is_closed(triangles)
    assert enclosed_volume(points, triangles) == pytest.approx(4 / 3 * np.pi * 0.07**3, rel=2e-2)


def test_capsule_is_drawn_closed_with_its_volume():
    start, end, r = np.array([0.0, 0.0, -0.1]), np.array([0.05, 0.0, 0.1]), 0.03
    rod = capsule(start, end, r)
    points, triangles = obstacle_surface(rod, *obstacle_box(rod, *BOX))
    np.testing.assert_allclose(rod(points)[0], 0.0, atol=1e-9)
    assert is_closed(triangles)
    volume = np.pi * r**2 * np.linalg.norm(end - start) + 4 / 3 * np.pi * r**3
    assert enclosed_volume(points, triangles) == pytest.approx(volume, rel=3e-2)


def test_slope_is_drawn_flat_and_horizontal_plane_as_ground():
    normal = np.array([0.3, 0.0, 1.0])
    slope = plane(normal, 0.01)
    points, triangles = obstacle_surface(slope, *obstacle_box(slope, *BOX))
    np.testing.assert_allclose(points @ (normal / np.linalg.norm(normal)), 0.01, atol=1e-12)
    a, b, c = (points[triangles[:, i]] for i in range(3))
    assert np.all(np.cross(b - a, c - a) @ normal >= 0.0)  # the outward normal points up
    arm = replace(
        line_arm(layers=4, across=2),
        contacts=[Contact(obstacle=plane((0, 0, 1), -0.02)), Contact(obstacle=slope)],
    )
    head, arrays = Picture(robot=arm).scene()
    assert head["ground"] == {"height": -0.02, "real": True}
    assert "obstacle 0 triangles" in arrays
    assert "obstacle 1 triangles" not in arrays


def test_outline_of_sphere_in_the_plane_is_a_circle():
    disc = sphere((0.0, 0.1), 0.04)
    curves = obstacle_curves(disc, *obstacle_box(disc, np.full(2, -1.0), np.full(2, 1.0)))
    assert len(curves) == 1
    np.testing.assert_allclose(np.linalg.norm(curves[0] - [0.0, 0.1], axis=1), 0.04, rtol=1e-3)


def test_controls_have_units_and_limits():
    chambers = stiff_flop(order=1).controls
    assert [(c.unit, c.lower, c.upper) for c in chambers] == 6 * [("Pa", 0.0, 3e4)]
    motors = liandford(cells=2).controls
    assert {c.unit for c in motors} == {"rad"}
