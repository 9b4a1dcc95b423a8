"""The smallest gap of links within the joint limits, against closed forms for spheres."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.swimming import (
    EllipsoidShape,
    Hinge,
    Link,
    LinkedRobot,
    link_distance,
    link_gaps,
    smallest_gap,
)
from pliant.swimming.link_gaps import check_gaps

RADIUS = 0.04


def spheres(*bends, limits=(-1.0, 1.0), arms=(0.3, 0.2)):
    """Return spheres with hinges about z. The arm from a hinge to the next sphere is rotated by a
    bend [rad] at angle zero, and is folded back to the sphere before at pi."""
    ball = EllipsoidShape(semi_axes=(RADIUS, RADIUS, RADIUS))
    names = [f"link {k}" for k in range(len(bends) + 1)]
    hinges = {
        f"hinge {k}": Hinge(
            parent=names[k],
            child=names[k + 1],
            axis=(0.0, 0.0, 1.0),
            point=(arms[0], 0.0, 0.0),
            child_point=(-arms[1] * np.cos(bend), -arms[1] * np.sin(bend), 0.0),
            limits=limits,
            torque=(-0.1, 0.1),
        )
        for k, bend in enumerate(bends)
    }
    return LinkedRobot(
        links={name: Link(shape=ball, density=1000.0) for name in names}, hinges=hinges
    )


def test_gap_inside_the_limits_is_found():
    """The centres are |a - b| apart where the arm is folded back, at the angle pi - bend."""
    gap = smallest_gap(spheres(2.5), margin=0.0)
    exact = 0.3 - 0.2 - 2.0 * RADIUS
    assert exact <= gap.distance <= 1.02 * exact
    assert gap.angles[0] == pytest.approx(np.pi - 2.5, abs=0.05)


def test_gap_at_a_limit_is_exact():
    robot = spheres(1.0, limits=(-0.5, 0.7))
    angle = 1.0 + 0.7
    exact = np.sqrt(0.3**2 + 0.2**2 + 2.0 * 0.3 * 0.2 * np.cos(angle)) - 2.0 * RADIUS
    gap = smallest_gap(robot, margin=0.0)
    assert gap.distance == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(gap.angles, [0.7])
    assert smallest_gap(robot, margin=0.1).distance < gap.distance


def test_contact_of_links_that_are_not_neighbours_is_named():
    """Three hinges with angles of 1.8 rad close the chain: only the first and the last link touch,
    for angles in a small part of the limits."""
    robot = spheres(0.0, 0.0, 0.0, limits=(-1.9, 1.9), arms=(0.15, 0.15))
    with pytest.raises(
        InputError, match=r"'link 0' and 'link [23]' of swimmer overlap or touch at"
    ):
        check_gaps(robot)


def test_contact_at_a_limit_ends_the_search(monkeypatch):
    robot = spheres(0.0, 0.0, limits=(-3.1, 3.1), arms=(0.1, 0.1))
    distances = []
    monkeypatch.setattr(
        link_gaps,
        "link_distance",
        lambda *of: distances.append(link_distance(*of)) or distances[-1],
    )
    assert smallest_gap(robot, margin=0.0).distance == 0.0
    assert distances.index(0.0) == len(distances) - 1


def test_single_link_has_no_gap():
    assert smallest_gap(spheres()) is None
    check_gaps(spheres())


def test_search_is_not_worse_than_random_angles():
    robot = spheres(0.6, -0.4, arms=(0.1, 0.12))
    gap = smallest_gap(robot, margin=0.0)
    rng, least = np.random.default_rng(0), np.inf
    for angles in rng.uniform(-1.0, 1.0, (2000, 2)):
        centres = robot.placement(angles).centres
        apart = np.linalg.norm(centres[:, None] - centres, axis=2) + 9.0 * np.eye(3)
        least = min(least, apart.min() - 2.0 * RADIUS)
    assert gap.distance <= 1.02 * least
