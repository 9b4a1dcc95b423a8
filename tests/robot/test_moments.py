"""Moment loads on rods and solids bend a cantilever as in the closed form, without net force."""

import numpy as np
import pytest

import pliant as pl
from pliant.geometry import Rectangle, RectangularSection, Rods
from pliant.robot import MomentLoad
from pliant.robot_files import load_robot

LENGTH, SIDE, E = 0.1, 0.01, 1e6
INERTIA = SIDE**4 / 12.0
ELASTIC = pl.Material(E=E, nu=0.0, law="linear-corotated")


def rods(load):
    rod = Rods(
        points=[(0, 0, 0), (LENGTH, 0, 0)],
        rods=[(0, 1)],
        section=RectangularSection(width=SIDE, height=SIDE),
        regions={"root": [0], "end": [1]},
    )
    return pl.Robot(
        shape=rod.refine(16), material=ELASTIC, supports=[pl.Support(region="root")], loads=[load]
    )


def bar(load, **changes):
    options = {
        "shape": pl.Box(size=(LENGTH, SIDE, SIDE)),
        "material": ELASTIC,
        "supports": [pl.Support(region="x-")],
        "divisions": (10, 1, 1),
        "effectors": {"tip": pl.Effector(surface="x+")},
        "loads": [load],
    }
    return pl.Robot(**(options | changes))


def tip_of_arc(angle):
    """Return the tip displacement (x, z) [m] of a cantilever bent to an arc of an angle [rad]."""
    return LENGTH * (np.sin(angle) / angle - 1.0), LENGTH * (1.0 - np.cos(angle)) / angle


@pytest.mark.parametrize("where", [{"point": (LENGTH, 0, 0)}, {"surface": "end"}])
def test_rod_under_end_moment_is_circular_arc(where):
    angle = 2.0  # [rad] rotation of the tip; a moment about -y bends towards +z
    moment = angle * E * INERTIA / LENGTH
    robot = rods(MomentLoad(moment=(0, -moment, 0), **where))
    q = pl.equilibrium(pl.Quasistatic(robot), []).x.reshape(2, -1, 3)
    end = np.argmax(robot.body().rest.reshape(2, -1, 3)[0, :, 0])
    np.testing.assert_allclose(q[1, end], [0, -angle, 0], rtol=1e-6)
    shift = q[0, end] - [LENGTH, 0, 0]
    np.testing.assert_allclose(shift[[0, 2]], tip_of_arc(angle), rtol=5e-3)


def test_solid_under_end_moment_matches_closed_form():
    angle = 0.2
    moment = angle * E * INERTIA / LENGTH
    robot = bar(MomentLoad(surface="x+", moment=(0, -moment, 0)))
    q = pl.equilibrium(pl.Quasistatic(robot), []).x
    shift = robot.effector_position("tip", q) - robot.effector_position("tip", robot.body().rest)
    assert shift[2] == pytest.approx(tip_of_arc(angle)[1], rel=0.03)
    assert abs(shift[1]) < 1e-3 * shift[2]  # the cells are not symmetric


@pytest.mark.parametrize("order", [1, 2])
def test_moment_forces_have_given_moment_and_no_resultant(order, rng):
    robot = bar(MomentLoad(surface="x+", moment=(1.0, 2.0, 3.0)), order=order)
    body = robot.body()
    x, f = body.rest.reshape(-1, 3), robot.loads[0].attach(body).reshape(-1, 3)
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.cross(x, f).sum(axis=0), [1.0, 2.0, 3.0], rtol=1e-10)


def test_plane_moment_is_scalar():
    load = MomentLoad(surface="x+", moment=lambda t: 0.5 * t)
    robot = bar(load, shape=Rectangle(size=(LENGTH, SIDE)), divisions=(4, 1))
    body = robot.body()
    x, f = body.rest.reshape(-1, 2), load.attach(body, 2.0).reshape(-1, 2)
    np.testing.assert_allclose((x[:, 0] * f[:, 1] - x[:, 1] * f[:, 0]).sum(), 1.0, rtol=1e-10)
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-10)


def test_time_dependent_moment_is_evaluated_at_end_of_step():
    steady, growing = (
        pl.ImplicitEuler(bar(MomentLoad(surface="x+", moment=moment)), dt=0.01)
        for moment in ((0, 1e-4, 0), lambda t: (0, 1e-2 * t, 0))
    )
    x = steady.initial_state()
    np.testing.assert_allclose(growing.step(x, []).x, steady.step(x, []).x, atol=1e-12)


FILE = """
[geometry]
shape = "box"
size = [0.1, 0.01, 0.01]
divisions = [4, 1, 1]
[material]
E = 1e6
nu = 0
[[supports]]
box = [[-1, -1, -1], [0.001, 1, 1]]
[[supports]]
nodes = [0, 3]
axes = "z"
[[loads]]
surface = "x+"
moment = [0, 0.001, 0]
[[loads]]
surface = "x+"
moment = { times = [0, 1], values = [[0, 0, 0], [0, 0, 0.002]] }
[[loads]]
point = [0.1, 0.005, 0.005]
force = { times = [0, 1], values = [[0, 0, 0], [0, 0, 2]] }
"""


def test_moments_boxes_and_node_numbers_are_read_from_file(tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(FILE)
    robot = load_robot(path)
    steady, growing, pull = robot.loads
    np.testing.assert_allclose(steady.value(3, 0.5), [0, 0.001, 0])
    np.testing.assert_allclose(growing.value(3, 0.5), [0, 0, 0.001])
    np.testing.assert_allclose(pull.value(3, 0.5), [0, 0, 1])
    body = robot.body()
    np.testing.assert_array_equal(robot.supports[0].nodes_of(body), body.region("x-"))
    np.testing.assert_array_equal(robot.supports[1].nodes_of(body), [0, 3])


def test_box_support_fixes_positions_and_rotations_of_rods():
    robot = rods(MomentLoad(surface="end", moment=(0, 0, 0)))
    box = pl.Support(box=((-0.01, -1, -1), (0.01, 1, 1)))
    nodes, n = box.nodes_of(robot.body()), 17
    assert set(nodes) == {0, n} | {k + o for o in (0, n) for k in nodes if k < n}
    x = robot.body().rest.reshape(2, -1, 3)[0]
    assert set(nodes[nodes < n]) == set(np.flatnonzero(x[:, 0] <= 0.01))
