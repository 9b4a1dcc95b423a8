"""The robots of [Rodriguez2017]: geometry, filling with water and with air, and bad input."""

from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.geometry import ChamberedCylinder, ClosedCylinder, find_cavities
from pliant.geometry.cavities import signed_enclosed_volume
from pliant.zoo.robots.cylinder import tip_angle

MAKE = {
    "cylinder": pl.robots.silicone_cylinder,
    "finger": pl.robots.hydraulic_finger,
    "pendulum": pl.robots.hydraulic_pendulum,
}
COARSE = {"cylinder": {}, "finger": {"along": 3}, "pendulum": {}}


@cache
def model(name, fluid):
    return pl.Quasistatic(MAKE[name](fluid=fluid, **COARSE[name]))


@cache
def held(name, fluid, shares, stages=2):
    """Return the equilibrium (n_dofs,) [m] for controls as fractions of their range."""
    still = model(name, fluid)
    low, high = still.control_limits()
    step = still.step(still.initial_state(), low)
    for part in np.linspace(0.0, 1.0, stages + 1)[1:] if any(shares) else ():
        assert step.status, step.status.text
        step = still.step(step.x, low + part * np.array(shares) * (high - low))
    assert step.status, step.status.text
    return step.x


def tip(name, fluid, *shares):
    return model(name, fluid).robot.effector_position("tip", held(name, fluid, shares))


def grown(name, fluid, *shares):
    """Return the volume increase [m^3] of the first cavity."""
    term, eq = model(name, fluid).equations.potentials[0][0], model(name, fluid).equations
    return float(term.displacement(eq.points(term, held(name, fluid, shares))))


# Geometry


@pytest.mark.parametrize(
    ("name", "nodes", "volumes"),
    [("cylinder", 366, [48.74]), ("finger", 1188, [17.28]), ("pendulum", 1427, 4 * [9.849])],
)
def test_robots_have_described_mesh_and_cavities(name, nodes, volumes):
    robot = MAKE[name]()
    mesh = robot.mesh()
    assert mesh.n_points == nodes
    assert mesh.n_points < 2000
    assert robot.n_controls == len(volumes)
    np.testing.assert_allclose(
        [-1e6 * signed_enclosed_volume(mesh.points, wall) for wall in find_cavities(mesh)],
        volumes,
        rtol=2e-3,
    )
    walls = {frozenset(map(int, np.unique(wall))) for wall in find_cavities(mesh)}
    fluids = [a for a in robot.actuators.values() if isinstance(a, pl.actuators.Hydraulic)]
    assert {frozenset(map(int, mesh.nodes(a.cavity))) for a in fluids} == walls
    air = MAKE[name](fluid="air")
    assert [type(a).__name__ for a in air.actuators.values()][: len(volumes)] == len(volumes) * [
        "Pressure"
    ]
    np.testing.assert_array_equal(air.control_limits(), robot.control_limits())


def test_closed_cylinder_volume_converges_to_closed_form(rate):
    can = ClosedCylinder(radius=0.03, wall=0.01, length=0.1, cap=0.015, origin=(1.0, 2.0, 3.0))
    void = np.pi * 0.02**2 * 0.07
    errors = []
    for around in (6, 12, 24):
        mesh = can.mesh(divisions=(around, 2, 1), order=2)
        errors.append(abs(-signed_enclosed_volume(mesh.points, mesh.facets("cavity")) / void - 1.0))
        assert mesh.volumes().sum() == pytest.approx(
            np.pi * 0.03**2 * 0.1 - void, rel=2.0 * errors[-1]
        )
    assert rate([1 / 6, 1 / 12, 1 / 24], errors) == pytest.approx(
        4.0, abs=0.1
    )  # the order of parabolas for arcs
    low, high = can.bounds()
    np.testing.assert_allclose(
        [mesh.points.min(axis=0), mesh.points.max(axis=0)], [low, high], atol=1e-12
    )
    points = np.random.default_rng(5).uniform(low, high, (2000, 3))
    assert can.contains(points).mean() * 0.06**2 * 0.1 == pytest.approx(
        mesh.volumes().sum(), rel=0.05
    )
    assert can.contains(mesh.points[mesh.corners].mean(axis=1)).all()


def test_stem_adds_volume_of_cone_and_cylinder():
    plain = {
        "radius": 0.02,
        "core": 0.004,
        "wall": 0.004,
        "rib": 0.004,
        "section": 0.04,
        "cap": 0.008,
        "chambers": 4,
    }
    without, slender = (
        ChamberedCylinder(**plain, **more).mesh(divisions=(4, 2, 2), order=2)
        for more in ({}, {"stem": 0.05, "neck": 0.006})
    )
    cone = np.pi * 0.008 / 3 * (0.02**2 + 0.02 * 0.006 + 0.006**2)
    more = cone + np.pi * 0.006**2 * 0.05 - np.pi * 0.02**2 * 0.008
    assert slender.volumes().sum() - without.volumes().sum() == pytest.approx(more, rel=1e-3)
    assert slender.points[:, 2].max() == pytest.approx(0.106)
    top = slender.points[slender.nodes("top")]
    assert np.hypot(*top[:, :2].T).max() == pytest.approx(0.006)
    shape = ChamberedCylinder(**plain, stem=0.05, neck=0.006)
    assert shape.contains(slender.points[slender.corners].mean(axis=1)).all()
    assert not shape.contains(np.array([[0.01, 0.0, 0.08]]))[0]


# Effect of water


def test_cylinder_filled_with_water_droops_more():
    """Fig. 4: four cases. A straight beam with this stiffness and weight has about the same
    droop."""
    angles = [
        tip_angle(model("cylinder", fluid).robot, held("cylinder", fluid, (share,)))
        for fluid in ("air", "water")
        for share in (0, 1)
    ]
    air, full_air, water, full_water = angles
    assert water > 1.6 * air
    assert full_air < air  # a cylinder under pressure is thicker and stiffer
    assert full_water > full_air + 8.0
    w = 9.81 * (1100.0 * (np.pi * 0.016**2 * 0.12 - 4.87e-5)) / 0.12  # [N/m]
    beam = np.degrees(w * 0.12**3 / (6 * 2e5 * np.pi / 4 * (0.016**4 - 0.012**4)))
    assert air == pytest.approx(
        beam, rel=0.2
    )  # the diameter is a quarter of the length, and the cylinder has caps


def test_cylinder_pump_adds_15_ml():
    for fluid in ("air", "water"):
        assert grown("cylinder", fluid, 1.0) == pytest.approx(15e-6, rel=0.005)
        assert grown("cylinder", fluid, 0.0) == pytest.approx(0.0, abs=1e-8)


def test_droop_is_close_to_that_of_a_finer_mesh():
    fine = pl.robots.silicone_cylinder(divisions=(8, 4, 1))
    q = pl.equilibrium(pl.Quasistatic(fine), np.array([1.0])).x
    assert tip_angle(fine, q) == pytest.approx(
        tip_angle(model("cylinder", "water").robot, held("cylinder", "water", (0.0,))), abs=1.0
    )


def test_finger_reaches_lower_with_water_and_higher_with_air():
    """Fig. 5: the volume bends the finger upwards, the weight downwards."""
    low_water, low_air, high_water, high_air = (
        tip("finger", fluid, share) for share in (0.0, 1.0) for fluid in ("water", "air")
    )
    assert low_water[2] < low_air[2] - 0.004
    assert high_air[2] > high_water[2] + 0.008
    assert high_water[2] - low_water[2] > 0.02
    assert (
        np.abs([low_water[1], high_water[1], low_air[1], high_air[1]]).max() < 1e-3
    )  # the finger stays in its plane


def test_pendulum_bends_to_every_side_and_extends():
    """Fig. 6."""
    hanging = tip("pendulum", "water", 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_allclose(hanging[:2], 0.0, atol=2e-4)
    ways = [tip("pendulum", "water", *np.eye(4)[k]) - hanging for k in range(2)]
    assert ways[0][0] < -0.009
    assert abs(ways[0][1]) < 0.001
    assert ways[1][1] < -0.009
    assert abs(ways[1][0]) < 0.001
    longer = tip("pendulum", "water", 1.0, 1.0, 1.0, 1.0) - hanging
    assert longer[2] < -0.015
    assert np.linalg.norm(longer[:2]) < 0.001


def test_pendulum_hangs_lower_with_water():
    assert (
        tip("pendulum", "water", 0.0, 0.0, 0.0, 0.0)[2]
        < tip("pendulum", "air", 0.0, 0.0, 0.0, 0.0)[2] - 0.002
    )


def test_water_filled_finger_oscillates_and_settles():
    """With the mass of the water, the finger converges to its equilibrium after a step of the
    pump."""
    still = model("finger", "water")
    swinging = pl.SemiImplicit(still.robot, dt=0.01)
    x = swinging.state(held("finger", "water", (0.0,)))
    for k in range(120):
        step = swinging.step(x, np.array([8e3]), None, k)
        assert step.status, step.status.text
        x = step.x
    places = [
        still.robot.effector_position("tip", q)
        for q in (swinging.space.position(x), pl.equilibrium(still, np.array([8e3])).x)
    ]
    np.testing.assert_allclose(*places, atol=5e-4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pl.robots.hydraulic_finger(fluid="watr"), "fluid is 'watr'; did you mean 'water'"),
        (
            lambda: pl.robots.silicone_cylinder(fluid=None),
            "fluid is 'None'; choose one of water, air",
        ),
        (
            lambda: pl.robots.hydraulic_finger(along=1),
            "'1' cells along its cavity. Use an integer of at least 2",
        ),
        (
            lambda: pl.robots.hydraulic_finger(max_pressure=-1.0),
            "lower limit 0 .*not below its upper limit -1",
        ),
        (lambda: ClosedCylinder(radius=0.01, wall=0.01, length=0.1, cap=0.01), "leave no void"),
        (lambda: ClosedCylinder(radius=0.01, wall=0.002, length=0.1, cap=0.05), "leave no void"),
        (
            lambda: ClosedCylinder(radius=np.nan, wall=0.002, length=0.1, cap=0.01),
            "radius of a ClosedCylinder is nan",
        ),
        (
            lambda: ClosedCylinder(radius=0.01, wall=0.002, length=0.1, cap=0.01).mesh(
                divisions=(3, 1, 1)
            ),
            "at least \\(6, 1, 1\\)",
        ),
        (
            lambda: ChamberedCylinder(
                radius=0.02, core=0.004, wall=0.004, rib=0.004, section=0.04, cap=0.008, stem=-1.0
            ),
            "stem of a ChamberedCylinder is -1",
        ),
        (
            lambda: ChamberedCylinder(
                radius=0.02,
                core=0.004,
                wall=0.004,
                rib=0.004,
                section=0.04,
                cap=0.008,
                stem=0.1,
                neck=0.03,
            ),
            "wider than",
        ),
    ],
)
def test_bad_robot_description_is_rejected(raises_clear_error, make, says):
    raises_clear_error(make, says)
