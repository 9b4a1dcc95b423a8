"""The swimmer: neutral buoyancy, gaps at the hinges, motion in a plane."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.swimming import PotentialFlow, smallest_gap


@pytest.fixture(scope="module")
def robot():
    return pl.robots.swimmer()


def test_swimmer_is_neutrally_buoyant(robot):
    displaced = robot.fluid_density * sum(link.shape.volume for link in robot.links.values())
    assert robot.mass == pytest.approx(displaced, rel=1e-12)


def test_swimmer_has_the_hinges_of_the_paper(robot):
    """[Jia2019]: four ellipsoids, three hinges with parallel axes, three torques."""
    assert (len(robot.links), robot.n_angles, robot.n_controls) == (4, 3, 3)
    axes = robot.placement([0.4, -0.3, 0.8]).axes
    np.testing.assert_allclose(axes, np.tile([0.0, 0.0, 1.0], (3, 1)), atol=1e-15)


def test_swimmer_is_a_fish_of_80_centimetres(robot):
    rest = robot.placement(np.zeros(3))
    tips = [
        rest.centres[list(robot.links).index(point.link)] + point.point
        for point in robot.effectors.values()
    ]
    np.testing.assert_allclose(tips[0] - tips[1], [0.8, 0.0, 0.0], atol=1e-12)
    assert all(link.shape.semi_axes[2] > link.shape.semi_axes[1] for link in robot.links.values())


def test_links_stay_a_point_spacing_apart_within_the_limits(robot):
    """A gap below the distance of surface points would spoil the added mass."""
    gap = smallest_gap(robot, margin=0.0)
    assert gap is not None
    assert gap.distance > 0.01
    beyond = smallest_gap(robot)  # with the margin of the stops
    assert 0.0 < beyond.distance < gap.distance


def test_swimmer_moves_more_water_sideways_than_along(robot):
    flow = PotentialFlow(
        shapes=[link.shape for link in robot.links.values()],
        fluid_density=robot.fluid_density,
        ellipsoid_points=100,
    )
    along, sideways, _ = np.diag(flow.solve(robot.placement(np.zeros(3))).added_mass)[:3]
    assert sideways > 5.0 * along


def test_number_of_links_follows_the_sizes():
    robot = pl.robots.swimmer(
        lengths=(0.2, 0.1), widths=(0.05, 0.04), heights=(0.1, 0.1), max_torques=(0.1,)
    )
    assert list(robot.links) == ["head", "tail"]
    assert robot.n_controls == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": (0.2, 0.1)}, "2 lengths, 4 widths and 4 heights"),
        ({"gap": 0.0}, "gap of the swimmer is 0 m; it must be a positive"),
        ({"max_angle": -1.0}, "angle of the swimmer is -1 rad; it must be a positive"),
        ({"max_torques": (0.1,)}, r"torques of the swimmer has shape \(1,\)"),
        ({"max_torques": (0.1, 0.0, 0.1)}, "A largest torque of the swimmer is 0 N m"),
    ],
)
def test_bad_sizes_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        pl.robots.swimmer(**changes)
