"""Places of a cable's points as design variables: closed forms, names, bounds and refusals."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.actuators.route import Route
from pliant.bodies import MovableAttachments
from pliant.core import InputError
from pliant.robot import robot_with

SIZE = (0.1, 0.02, 0.02)
POINTS = [(0.0123, 0.0108, 0.0171), (0.0512, 0.0087, 0.0187), (0.0931, 0.0113, 0.0161)]


def beam(order=1, **cable):
    return pl.Robot(
        shape=pl.Box(size=SIZE),
        divisions=(6, 2, 2),
        order=order,
        material=pl.Material(E=1e5, nu=0.4, density=1000.0),
        supports=[pl.Support(region="x-")],
        effectors={"tip": pl.Effector(surface="x+")},
        actuators={"line": pl.Cable(points=POINTS, **cable)},
    )


def particles(transfer):
    robot = pl.Robot(shape=pl.Box(size=SIZE), material=pl.Material(E=1e5, nu=0.4))
    return pl.MaterialPoint(robot, dt=1e-3, cell=0.005, transfer=transfer).body


BODIES = {
    "linear elements": lambda: beam(1).body(),
    "quadratic elements": lambda: beam(2).body(),
    "particles": lambda: particles("updated"),
    "particles with the total transfer": lambda: particles("total"),
}


@pytest.mark.parametrize("name", BODIES)
def test_weight_gradients_are_exact_for_affine_fields_and_equal_differences(name):
    body, at, h = BODIES[name](), np.array(POINTS), 1e-8
    assert isinstance(body, MovableAttachments)
    slopes = body.weight_gradients(at)
    for axis, slope in enumerate(slopes):
        # a constant field has no slope, and the place itself has slope one
        unit = np.tile(np.eye(3)[axis], (3, 1))
        np.testing.assert_allclose(slope @ np.ones(body.rest.size // 3), 0.0, atol=1e-9)
        np.testing.assert_allclose(slope @ body.rest.reshape(-1, 3), unit, atol=1e-9)
        step = h * np.eye(3)[axis]
        difference = (body.locate(at + step) - body.locate(at - step)) / (2.0 * h)
        assert abs(slope - difference).max() < 1e-5 * abs(slope).max()


def test_tip_follows_the_eccentricity_of_a_cable_as_the_derivative_says():
    """A straight cable at the distance e from the axis bends a beam by the moment T e, so a small
    deflection of the tip is e times its derivative by e."""
    eccentricity = 0.004
    points = [(0.001, 0.0101, 0.01 + eccentricity), (0.099, 0.0101, 0.01 + eccentricity)]
    robot = replace(beam(2), actuators={"line": pl.Cable(points=points)})
    model = pl.Quasistatic(robot, design=["actuators.line.point0.z", "actuators.line.point1.z"])
    step = model.step(model.initial_state(), np.array([0.02]), model.params.flat)
    assert step.status, step.status.text
    deflection = float(model.effector("tip", step.x)[0, 2] - 0.01)
    by_tip = model.effector_jacobian("tip", step.x).toarray()[2]
    _, _, by_points = model.pullback(step, by_tip)
    assert by_points.sum() * eccentricity == pytest.approx(deflection, rel=0.02)


def test_rest_length_follows_the_points_unless_it_is_given():
    body = beam().body()
    free = pl.Cable(points=POINTS, drive="length").attach(body)
    given = pl.Cable(points=POINTS, drive="length", rest_length=0.08).attach(body)
    moved = {"point1.y": 0.012}
    path = [POINTS[0], (0.0512, 0.012, 0.0187), POINTS[2]]
    expected = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert free.with_parameters(moved).rest_length == pytest.approx(expected, rel=1e-14)
    assert given.with_parameters(moved).rest_length == 0.08
    both = free.with_parameters({**moved, "rest_length": 0.07})
    assert both.rest_length == 0.07


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_change_of_the_length_is_its_difference(axis):
    body, h = beam().body(), 1e-7
    path = np.array([*POINTS, (0.15, 0.01, 0.03)])
    route = Route(body=body, given=path, n_attached=3)
    for point in ("point0", "point1", "guide"):
        name = f"{point}.{'xyz'[axis]}"
        row = 3 if point == "guide" else int(point[-1])
        lengths = [route.moved({name: path[row, axis] + s}).length for s in (h, -h)]
        assert route.length_change(name) == pytest.approx((lengths[0] - lengths[1]) / (2 * h))


def test_names_bounds_and_values_of_a_route():
    model = pl.ImplicitEuler(
        beam(guide=(0.2, 0.01, 0.01)),
        dt=0.01,
        design=["actuators.line.point1.y", "actuators.line.guide.z"],
    )
    point, guide = model.params.blocks
    assert (point.unit, point.lower, point.upper) == ("m", 0.0, 0.02)
    assert point.value == [0.0087]
    assert (guide.value[0], guide.lower, guide.upper) == (0.01, -np.inf, np.inf)


def test_robot_with_other_points():
    robot = robot_with(
        beam(guide=(0.2, 0.01, 0.01)),
        {"actuators.line.point1.y": 0.01, "actuators.line.guide.z": 0.03},
    )
    cable = robot.actuators["line"]
    assert cable.points == [[*POINTS[0]], [0.0512, 0.01, 0.0187], [*POINTS[2]]]
    assert cable.guide == [0.2, 0.01, 0.03]


@pytest.mark.parametrize("key", ["point3.x", "point1.w", "guide.z"])
def test_unknown_points_are_refused(key):
    with pytest.raises(InputError, match=r"no parameter 'actuators\.line\."):
        robot_with(beam(), {f"actuators.line.{key}": 0.01})
    with pytest.raises(InputError, match="There is no parameter"):
        pl.ImplicitEuler(beam(), dt=0.01, design=[f"actuators.line.{key}"])


def test_point_that_leaves_the_body_is_refused():
    round_beam = replace(
        beam(),
        shape=pl.geometry.Cylinder(radius=0.02, length=0.1),
        divisions=None,
        cell=0.01,
        supports=[],
        effectors={},
        actuators={"line": pl.Cable(points=[(0.0, 0.0, 0.01), (0.0, 0.0, 0.09)])},
    )
    model = pl.ImplicitEuler(
        round_beam, dt=0.01, design=[f"actuators.line.point1.{axis}" for axis in "xy"]
    )
    for values, message in (
        ((0.05, 0.0), "must lie between"),
        ((0.018, 0.018), "outside the mesh"),
    ):
        with pytest.raises(InputError, match=message):
            model.step(model.initial_state(), np.zeros(1), np.array(values))


def test_points_on_the_surface_may_move_along_it_and_into_the_body():
    """Cables often end on a face, where a coordinate is at its bound."""
    ends = [(0.0, 0.0108, 0.0171), (0.1, 0.0113, 0.0161)]
    robot = replace(beam(2), actuators={"line": pl.Cable(points=ends, limits=(0.0, 1.0))})
    names = [f"actuators.line.{key}" for key in ("point0.x", "point1.x", "point1.y")]
    model = pl.Quasistatic(robot, design=names)
    x = model.step(model.initial_state(), np.array([0.2])).x
    checks = pl.gradcheck(model, x, np.array([0.2]))
    assert [check.name for check in checks if not check.ok] == []
    goal = pl.Goal(effector="tip", target=(0.1, 0.0, 0.0))
    problem = pl.Problem(model=model, steps=1, terms=[goal], variables=names)
    block = problem.layout.blocks[0]
    assert (block.lower, block.upper, block.scale) == (0.0, 0.1, 0.05)


def test_points_that_meet_are_refused():
    model = pl.ImplicitEuler(
        beam(), dt=0.01, design=[f"actuators.line.point1.{axis}" for axis in "xyz"]
    )
    with pytest.raises(InputError, match="coincide"):
        model.step(model.initial_state(), np.zeros(1), np.array(POINTS[0]))


def test_rods_have_the_guide_only():
    shape = pl.geometry.Rods(
        points=[[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]],
        rods=[[0, 1]],
        section=pl.geometry.CircularSection(radius=0.004),
    )
    robot = pl.Robot(
        shape=shape,
        material=pl.Material(E=2e5, nu=0.35),
        actuators={"line": pl.Cable(points=[(0.1, 0.0, 0.0)], guide=(0.0, 0.0, 0.1))},
    )
    names = [param.name for param in robot.actuators["line"].attach(robot.body()).parameters]
    assert names == ["strength", "guide.x", "guide.y", "guide.z"]


def test_codesign_finds_the_route_that_bends_the_beam_to_a_target():
    """A known route and tension give the target; the design starts from another route."""
    name, known, u = "actuators.line.point1.z", 0.016, np.array([0.5])
    points = [(0.001, 0.0101, 0.014), (0.0981, 0.0101, 0.0121)]
    robot = replace(beam(2), actuators={"line": pl.Cable(points=points, limits=(0.0, 1.0))})
    model = pl.Quasistatic(robot, design=[name])
    wanted = model.step(model.initial_state(), u, np.array([known]))
    target = model.effector("tip", wanted.x)[0]
    found = pl.codesign(
        model,
        [pl.Goal(effector="tip", target=target, weight=1e6)],
        [name],
        steps=1,
        controls=[u],
        method="lbfgsb",
    )
    assert not found.notes  # at the minimum, gradient and difference are rounding errors
    assert found.values[name][0] == pytest.approx(known, abs=1e-5)
    assert found.robot.actuators["line"].points[1][2] == found.values[name][0]
