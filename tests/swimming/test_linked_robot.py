"""Linked rigid bodies: kinematics against closed forms, and clear errors."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.geometry import icosphere
from pliant.swimming.link_shapes import ClosedSurface, EllipsoidShape
from pliant.swimming.linked_robot import Hinge, Link, LinkedRobot, LinkPoint, rotation_matrix

BALL = EllipsoidShape(semi_axes=(0.1, 0.1, 0.1))


def link(**parts):
    return Link(shape=BALL, density=1000.0, **parts)


def hinge(parent, child, **parts):
    known = {
        "axis": (0.0, 0.0, 2.0),
        "point": (0.1, 0.0, 0.0),
        "child_point": (-0.1, 0.0, 0.0),
        "limits": (-1.0, 1.0),
    }
    return Hinge(parent=parent, child=child, **{**known, **parts})


def chain(n=3, **parts):
    names = [f"link {k}" for k in range(n)]
    hinges = {f"joint {k}": hinge(names[k], names[k + 1]) for k in range(n - 1)}
    return LinkedRobot(links={name: link() for name in names}, hinges=hinges, **parts)


def test_placement_of_a_planar_chain_matches_sums_of_angles():
    angles = np.array([0.3, -0.5])
    placed = chain().placement(angles)
    heading = np.concatenate([[0.0], np.cumsum(angles)])
    along = np.column_stack([np.cos(heading), np.sin(heading), 0.0 * heading])
    expected = np.array(
        [0.0 * along[0], 0.1 * (along[0] + along[1]), 0.1 * (along[0] + 2 * along[1] + along[2])]
    )
    np.testing.assert_allclose(placed.centres, expected, atol=1e-15)
    for rotation, angle in zip(placed.rotations, heading, strict=True):
        np.testing.assert_allclose(
            rotation, rotation_matrix(np.array([0.0, 0.0, 1.0]), angle), atol=1e-15
        )


@pytest.mark.parametrize(("scale", "remedy"), [(1000.0, "by 0.001"), (1e-4, "by 1000")])
def test_link_in_wrong_units_is_named_in_a_warning(scale, remedy):
    surface = icosphere(0.1 * scale, subdivisions=1)
    with pytest.warns(UserWarning, match=rf"links\.fin: The body is .* large.* Scale {remedy}"):
        LinkedRobot(links={"fin": Link(shape=surface, density=1000.0)})


def test_rotation_matrix_is_a_rotation_about_its_axis():
    axis = np.array([1.0, 2.0, -2.0]) / 3.0
    rotation = rotation_matrix(axis, 0.7)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(rotation @ axis, axis, atol=1e-15)
    assert np.trace(rotation) == pytest.approx(1.0 + 2.0 * np.cos(0.7))


def test_links_move_with_all_hinges_between_them_and_the_root():
    names = ["trunk", "left", "right", "tip"]
    hinges = {
        "to tip": hinge("left", "tip"),
        "to left": hinge("trunk", "left"),
        "to right": hinge("trunk", "right"),
    }
    robot = LinkedRobot(links={name: link() for name in names}, hinges=hinges)
    assert robot.moves.tolist() == [
        [False, False, False],
        [False, True, False],
        [False, False, True],
        [True, True, False],
    ]
    assert robot.order.index("to left") < robot.order.index("to tip")


def test_controls_are_the_motors_and_passive_hinges_have_none():
    hinges = {
        "a": hinge("x", "y", torque=(-2.0, 3.0)),
        "b": hinge("y", "z", torque=None, stiffness=0.5),
    }
    robot = LinkedRobot(links={name: link() for name in "xyz"}, hinges=hinges)
    assert [control.name for control in robot.controls] == ["a"]
    assert robot.control_limits()[0].tolist() == [-2.0]
    assert robot.control_limits()[1].tolist() == [3.0]


def test_stop_absorbs_the_work_of_its_motor_over_the_range():
    hinges = {
        "a": hinge("x", "y", torque=(-2.0, 3.0)),
        "b": hinge("y", "z", torque=None),
        "c": hinge("y", "w", stop_stiffness=7.0),
    }
    robot = LinkedRobot(links={name: link() for name in "xyzw"}, hinges=hinges)
    stiffness = robot.stops[0]
    assert stiffness * 0.2**3 / 3.0 == pytest.approx(3.0 * (2.0 + 0.2))
    assert robot.stops.tolist() == [stiffness, stiffness, 7.0]


def test_mass_and_inertia_follow_from_the_density():
    body = link()
    assert body.mass == pytest.approx(1000.0 * 4.0 / 3.0 * np.pi * 0.1**3)
    np.testing.assert_allclose(body.inertia, 0.4 * body.mass * 0.1**2 * np.eye(3), atol=1e-15)


def test_closed_triangle_surface_of_a_file_is_a_shape():
    surface = icosphere(0.1, subdivisions=2)
    body = Link(shape=surface, density=1.0)
    assert isinstance(body.shape, ClosedSurface)
    assert body.mass == pytest.approx(surface.volume())


BAD = {
    "no links": (lambda: LinkedRobot(links={}), "no links"),
    "density and mass": (
        lambda: Link(shape=BALL, density=1.0, mass=1.0, inertia=np.eye(3)),
        "exactly one",
    ),
    "mass without inertia": (lambda: Link(shape=BALL, mass=1.0), "belong together"),
    "homogeneous with another centre": (
        lambda: Link(shape=BALL, density=1000.0, centre_of_mass=(0.0, 0.0, 0.01)),
        "homogeneous",
    ),
    "zero density": (lambda: Link(shape=BALL, density=0.0), "density"),
    "impossible inertia": (
        lambda: Link(shape=BALL, mass=1.0, inertia=np.diag([1.0, 1.0, 3.0])),
        "No rigid body",
    ),
    "hinge on one link": (lambda: hinge("a", "a"), "two links"),
    "zero axis": (lambda: hinge("a", "b", axis=(0, 0, 0)), "axis"),
    "infinite limits": (lambda: hinge("a", "b", limits=(-np.inf, 1.0)), "not finite"),
    "swapped limits": (lambda: hinge("a", "b", limits=(1.0, -1.0)), "swap"),
    "unknown link": (
        lambda: LinkedRobot(links={"a": link()}, hinges={"h": hinge("a", "c")}),
        "'c'",
    ),
    "loose link": (lambda: LinkedRobot(links={"a": link(), "b": link()}), "not connected"),
    "closed chain": (
        lambda: LinkedRobot(
            links={"a": link(), "b": link()}, hinges={"h": hinge("a", "b"), "k": hinge("a", "b")}
        ),
        "two hinges",
    ),
    "root as child": (
        lambda: LinkedRobot(links={"a": link(), "b": link()}, hinges={"h": hinge("b", "a")}),
        "root",
    ),
    "cycle": (
        lambda: LinkedRobot(
            links={name: link() for name in "abc"},
            hinges={"h": hinge("b", "c"), "k": hinge("c", "b")},
        ),
        "not connected",
    ),
    "reserved effector": (
        lambda: chain(effectors={"root": LinkPoint(link="link 0")}),
        "another name",
    ),
    "effector nowhere": (lambda: chain(effectors={"tip": LinkPoint(link="link 9")}), "link 9"),
    "negative fluid": (lambda: chain(fluid_density=-1.0), "fluid"),
    "wrong number of angles": (lambda: chain().placement([0.0]), "joint angles"),
    "not a link": (lambda: LinkedRobot(links={"a": 5}), "Link"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_descriptions_raise_input_errors(case):
    make, text = BAD[case]
    with pytest.raises(InputError, match=text):
        make()
