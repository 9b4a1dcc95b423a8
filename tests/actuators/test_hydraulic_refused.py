"""Bad hydraulic actuators are rejected; a robot file can contain a hydraulic actuator."""

from dataclasses import replace

import numpy as np
import pytest
from liquid_bags import bag, hollow

import pliant as pl
from pliant.actuators import ExtrapolatedActuator, Hydraulic, Pressure
from pliant.dynamics.equations import Equations
from pliant.geometry import Box, Mesh, find_cavities, name_cavities, remove_unused_points

# Rejected input


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drive": "gas"}, "'pressure' or 'volume', not by 'gas'"),
        (
            {"limits": (2.0, 1.0)},
            "lower limit 2 .*hydraulic actuator is not below its upper limit 1",
        ),
        ({"density": -1000.0}, "density is -1000 kg/m.3; it must be a positive"),
        ({"density": "water"}, "density is 'water'; it must be a number"),
        ({"bulk": 0.0}, "bulk modulus is 0"),
        ({"cavity": 3}, "cavity of a hydraulic actuator"),
    ],
)
def test_bad_hydraulic_actuator_is_rejected(raises_clear_error, change, says):
    raises_clear_error(lambda: Hydraulic(**{"cavity": "cavity", **change}), says)


@pytest.mark.parametrize(
    ("cavity", "says"),
    [
        ("cavty", "Actuator 'pump'.*no surface or region 'cavty'.*[Dd]id you mean 'cavity'"),
        ("leak", "'leak' is open: 3 edges .*cavities of the mesh are cavity\\."),
        ("outside", "'outside' encloses 0.027 m\\^3 of the body, not a void"),
    ],
)
def test_surface_that_is_not_a_cavity_is_rejected(raises_clear_error, cavity, says):
    mesh = hollow(3)
    wall, boundary = find_cavities(mesh)[0], mesh.boundary()
    outside = boundary[~np.isin(boundary, np.unique(wall)).all(axis=1)]
    shape = Mesh(
        points=mesh.points,
        cells=mesh.cells,
        surfaces={**mesh.surfaces, "leak": wall[1:], "outside": outside},
    )
    robot = pl.Robot(
        shape=shape,
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        actuators={"pump": Hydraulic(cavity=cavity)},
        gravity=(0, 0, -9.81),
    )
    raises_clear_error(lambda: Equations(robot=robot), says)


@pytest.mark.parametrize(
    "other",
    [
        Hydraulic(cavity="cavity"),
        Pressure(cavity="cavity"),
        Hydraulic(cavity="same"),
        ExtrapolatedActuator(actuator=Pressure(cavity="cavity")),
    ],
)
def test_two_fluids_in_one_cavity_are_rejected(raises_clear_error, other):
    """Another name of the same wall is also rejected: the weight would count twice."""
    robot = bag(actuators={"second": other})
    mesh = robot.shape
    twice = Mesh(
        points=mesh.points,
        cells=mesh.cells,
        surfaces={**mesh.surfaces, "same": mesh.surfaces["cavity"][::-1]},
    )
    says = "'pump' and 'second' both fill the cavity .*; remove one"
    raises_clear_error(lambda: pl.Quasistatic(replace(robot, shape=twice)), says)
    two = {"pump": Pressure(cavity="cavity"), "second": Pressure(cavity="cavity", drive="gas")}
    raises_clear_error(lambda: pl.Quasistatic(replace(robot, actuators=two)), says)


def pierced(height, order):
    """Return a box with a cavity from 0.1 to 0.4 m, with a point of its floor raised to a height
    [m]."""
    mesh = Box(size=(0.5, 0.5, 0.5)).mesh(divisions=(5, 5, 5))
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1)
    points, cells = remove_unused_points(
        mesh.points, mesh.cells[~((cube >= 1) & (cube <= 3)).all(axis=1)]
    )
    points[np.isclose(points, (0.2, 0.2, 0.1)).all(axis=1)] = (0.2, 0.2, height)
    mesh = name_cavities(Mesh(points=points, cells=cells), ["cavity"])
    return mesh.quadratic() if order == 2 else mesh


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [Hydraulic, Pressure])
def test_self_intersecting_cavity_is_rejected(raises_clear_error, kind, order):
    """A spike on the floor is valid below the ceiling and rejected if it penetrates the ceiling."""
    robots = [
        pl.Robot(
            shape=pierced(height, order),
            order=order,
            material=pl.Material(E=1e5, nu=0.3),
            actuators={"pump": kind(cavity="cavity")},
            gravity=(0, 0, -9.81),
        )
        for height in (0.38, 0.43)
    ]
    assert Equations(robot=robots[0]).potentials[0][0].rest_volume > 0.02
    raises_clear_error(
        lambda: Equations(robot=robots[1]),
        "Actuator 'pump'.*'cavity' intersects or touches itself: facets .* meet .near .*Move",
    )


def test_hydraulic_requires_gravity(raises_clear_error):
    robot = pl.Robot(
        shape=hollow(3),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        actuators={"pump": Hydraulic(cavity="cavity")},
        supports=[pl.Support(region="x-")],
    )
    raises_clear_error(
        lambda: pl.Quasistatic(robot),
        "Actuator 'pump'.*needs gravity for its weight; give the robot gravity",
    )
    raises_clear_error(lambda: pl.Quasistatic(bag(gravity=(0.0, -9.81))), "Gravity has shape")
    floating = pl.Quasistatic(bag(gravity=(0.0, 0.0, 0.0)))  # explicit zero gravity is accepted
    np.testing.assert_allclose(
        pl.equilibrium(floating, np.zeros(1)).x, floating.initial_state(), atol=1e-12
    )


def test_liquid_weight_does_not_replace_a_support(raises_clear_error):
    """Neither the volume stiffness nor the weight, whose force depends on the height, is a
    support."""
    for drive in ("pressure", "volume"):
        robot = bag(supports=(), fluid=Hydraulic(cavity="cavity", drive=drive))
        raises_clear_error(
            lambda robot=robot: pl.Quasistatic(robot),
            "nothing stops its translation along x, translation along y.*rotation about z",
        )


FILE = """
gravity = [0, 0, -9.81]
[geometry]
shape = "closed_cylinder"
radius = 0.016
wall = 0.004
length = 0.12
cap = 0.006
divisions = [6, 2, 1]
order = 1
[material]
E = 2e5
nu = 0.45
[[supports]]
region = "bottom"
[actuators.pump]
type = "hydraulic"
cavity = "cavity"
density = 1200
drive = "volume"
limits = [0.8, 1.4]
"""


def test_robot_file_can_contain_hydraulic(tmp_path, raises_clear_error):
    path = tmp_path / "can.toml"
    path.write_text(FILE)
    pump = pl.load_robot(path).actuators["pump"]
    assert isinstance(pump, Hydraulic)
    assert (pump.cavity, pump.drive, pump.density, pump.limits) == (
        "cavity",
        "volume",
        1200.0,
        (0.8, 1.4),
    )
    for old, new, says in (
        ("gravity = [0, 0, -9.81]", "", "can.toml, actuators.pump: .*no gravity"),
        ("1200", "-1", "can.toml, actuators.pump: .*density is -1"),
        ('"volume"', '"gas"', "'pressure' or 'volume', not by 'gas'"),
    ):
        path.write_text(FILE.replace(old, new))
        raises_clear_error(lambda: pl.load_robot(path), says)
