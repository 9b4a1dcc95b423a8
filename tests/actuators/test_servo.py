"""Servos rotate and translate regions of beams, solids and plane bodies, with exact derivatives."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pliant as pl
from pliant.actuators import Servo
from pliant.geometry import RectangularSection, Rods

MATERIAL = pl.Material(E=1e6, nu=0.3)
BEAM = {
    "shape": Rods(
        points=[[0.1, 0, 0], [0.4, 0, 0.1]],
        rods=[[0, 1]],
        section=RectangularSection(width=0.03, height=0.02),
        regions={"start": [0], "end": [1]},
    ).refine(3),
    "material": MATERIAL,
}
BOX = {
    "shape": pl.Box(size=(0.2, 0.1, 0.1)),
    "divisions": (2, 1, 1),
    "order": 1,
    "material": MATERIAL,
}
PLANE = {
    "shape": pl.geometry.Rectangle(size=(0.2, 0.1)),
    "divisions": (2, 1),
    "order": 1,
    "material": MATERIAL,
}
CASES = {
    "rotated beam": (
        BEAM,
        {"region": "start", "axis": (0.2, -0.4, 1.0), "origin": (0.0, 0.1, 0.0)},
    ),
    "moved beam": (BEAM, {"region": "start", "axis": (0.2, -0.4, 1.0), "drive": "translation"}),
    "rotated end of a beam": (BEAM, {"region": "end rotations", "axis": (0.0, 1.0, 0.0)}),
    "rotated box": (BOX, {"region": "x-", "axis": (1.0, 1.0, 0.0)}),
    "moved box": (BOX, {"region": "x-", "axis": (1.0, 1.0, 0.0), "drive": "translation"}),
    "rotated plane": (PLANE, {"region": "x-"}),
    "moved plane": (PLANE, {"region": "x-", "axis": (0.0, 2.0), "drive": "translation"}),
}
cases = pytest.mark.parametrize("name", CASES)


def attached(name):
    robot, options = CASES[name]
    body = pl.Robot(**robot).body()
    return body, Servo(**options).attach(body)


def held_by(robot, **options):
    model = pl.Quasistatic(pl.Robot(**robot, actuators={"motor": Servo(**options)}))
    x = model.initial_state()
    return model, x


@cases
def test_servo_has_no_force_at_zero(name):
    body, term = attached(name)
    y = term.weights @ body.rest.reshape(-1, body.dim) + term.offset
    assert term.energy(y, np.zeros(1)) < 1e-20 * term.stiffness.max()
    assert np.abs(term.gradient(y, np.zeros(1))).max() < 1e-12 * term.stiffness.max()
    assert term.stiff


@cases
def test_servo_derivatives_are_exact(name, rng, taylor):
    body, term = attached(name)
    y = term.weights @ body.rest.reshape(-1, body.dim) + 0.02 * rng.standard_normal(
        term.offset.shape
    )
    d, bar, u, du = (
        rng.standard_normal(y.shape),
        rng.standard_normal(y.shape),
        np.array([0.7]),
        np.array([0.9]),
    )
    k = term.stiffness.max()
    g, C = term.gradient(y, u), term.control_gradient(y, u)
    assert taylor(lambda e: term.energy(y + e * d, u) / k, np.sum(g * d) / k) == pytest.approx(
        2.0, abs=0.05
    )
    np.testing.assert_allclose(
        term.gradient(y + d, u) - g, np.einsum("nij,nj->ni", term.hessian(y, u), d), atol=1e-9 * k
    )
    move = lambda e: term.gradient(y, u + e * du) / k
    np.testing.assert_allclose((move(1e-4) - move(-1e-4)) / 2e-4, du[0] * C[0] / k, atol=1e-7)
    bent = lambda e: np.sum(bar * term.control_gradient(y, u + e * du), axis=(1, 2)) / k
    np.testing.assert_allclose(
        (bent(1e-4) - bent(-1e-4)) / 2e-4, term.control_hessian_vector(y, u, bar, du) / k, atol=1e-6
    )


def test_unloaded_beam_follows_servo_rigidly():
    """Without load, all positions and rotations are those of the rigid motion."""
    axis, origin = np.array([0.0, 0.6, 0.8]), np.array([0.0, 0.0, 0.05])
    model, x = held_by(BEAM, region="start", axis=3.0 * axis, origin=origin)
    for angle in (0.8, 1.6, 2.4):
        step = model.step(x, np.array([angle]))
        assert step.status, step.status.text
        x = step.x
    body = model.robot.body()
    places, turns = np.split(x.reshape(-1, 3), 2)
    want = Rotation.from_rotvec(2.4 * axis).apply(np.array(body.rods.points) - origin) + origin
    np.testing.assert_allclose(places, want, atol=1e-9)
    np.testing.assert_allclose(turns, np.tile(2.4 * axis, (len(turns), 1)), atol=1e-9)


def test_unloaded_solid_follows_servo_rigidly():
    model, x = held_by(BOX, region="x-", axis=(0, 0, 1))
    for angle in (0.5, 1.0):
        x = model.step(x, np.array([angle])).x
    middle = np.array([0.0, 0.05, 0.05])
    want = (
        Rotation.from_rotvec([0, 0, 1.0]).apply(model.robot.body().rest.reshape(-1, 3) - middle)
        + middle
    )
    np.testing.assert_allclose(x.reshape(-1, 3), want, atol=1e-8)
    model, x = held_by(PLANE, region="x-", axis=(0, 1), drive="translation")
    x = model.step(x, np.array([0.07])).x
    np.testing.assert_allclose(
        x - model.robot.body().rest, np.tile([0.0, 0.07], x.size // 2), atol=1e-9
    )


def test_servo_is_stiffer_than_beam():
    """A weight at the tip rotates the held end by a hundredth of the rotation of a one-rod beam."""
    rods = Rods(
        points=[[0, 0, 0], [0.3, 0, 0]],
        rods=[[0, 1]],
        section=RectangularSection(width=0.03, height=0.02),
        regions={"start": [0]},
    )
    robot = {
        "shape": rods,
        "material": MATERIAL,
        "loads": [pl.PointLoad(point=(0.3, 0, 0), force=(0, 0, -1e-4))],
    }
    model, x = held_by(robot, region="start", axis=(0, 0, 1))
    turns = model.step(x, np.zeros(1)).x.reshape(-1, 3)[2:]
    beam = turns[1, 1] - turns[0, 1]
    assert 0.001 * beam < turns[0, 1] < 0.02 * beam


@pytest.mark.parametrize(
    ("robot", "options", "says"),
    [
        (
            BEAM,
            {"region": "strat", "axis": (0, 0, 1)},
            "'motor': The rods have no region 'strat'; did you mean 'start'",
        ),
        (BOX, {"region": "x*", "axis": (0, 0, 1)}, "'motor': .*no surface or region 'x\\*'"),
        (
            BEAM,
            {"region": "start"},
            r"The rotation of a servo on a 3D body needs an axis; give for example \(1, 0, 0\)",
        ),
        (BEAM, {"region": "start", "axis": (0, 1)}, r"axis of a servo has shape \(2,\)"),
        (
            BEAM,
            {"region": "start", "axis": (0, 1, 0), "origin": (0, 1)},
            r"origin of a servo has shape \(2,\)",
        ),
        (
            PLANE,
            {"region": "x-", "axis": (0, 1)},
            "rotates about the normal of the plane; remove the axis",
        ),
        (
            PLANE,
            {"region": "x-", "drive": "translation"},
            "translation of a servo on a 2D body needs an axis",
        ),
        (BEAM, {"region": "start", "axis": (0, 0, 0)}, "axis of a servo is zero"),
        (BEAM, {"region": "start", "axis": (0, 0, np.nan)}, "axis of a servo is nan"),
        (BEAM, {"region": 3, "axis": (0, 0, 1)}, "region of a servo is '3'"),
        (
            BEAM,
            {"region": "start", "axis": (0, 0, 1), "drive": "spin"},
            "no drive 'spin'",
        ),
        (
            BEAM,
            {"region": "start", "axis": (0, 0, 1), "limits": (1, -1)},
            "lower limit 1 of a servo",
        ),
        (BEAM, {"region": "start", "axis": (0, 0, 1), "stiffness": 0.0}, "servo's stiffness is 0"),
        (
            {"shape": pl.PointMass(points=[[0.0, 0, 0]])},
            {"region": "body", "axis": (0, 0, 1)},
            "point masses have none",
        ),
    ],
)
def test_bad_servo_is_rejected(robot, options, says, raises_clear_error):
    raises_clear_error(
        lambda: pl.ImplicitEuler(pl.Robot(**robot, actuators={"motor": Servo(**options)}), dt=0.01),
        says,
    )


def test_robot_has_limits_and_neutral_of_servo():
    robot = pl.Robot(
        **BEAM, actuators={"motor": Servo(region="start", axis=(0, 0, 1), limits=(-1.0, 2.0))}
    )
    assert [side.tolist() for side in robot.control_limits()] == [[-1.0], [2.0]]
    assert robot.neutral_controls().tolist() == [0.0]
