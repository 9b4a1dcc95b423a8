"""Servos that are driven by their torque, on beams, solids and plane bodies."""

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Servo
from pliant.core import InputError
from pliant.geometry import CircularSection, Rods

MATERIAL = pl.Material(E=1e6, nu=0.3, density=1000.0)
SECTION = CircularSection(radius=0.01)
BEAM = {
    "shape": Rods(
        points=[[0.0, 0, 0], [0.3, 0, 0]],
        rods=[[0, 1]],
        section=SECTION,
        regions={"start": [0], "end": [1]},
    ).refine(3),
    "material": MATERIAL,
}
BOX = {"shape": pl.Box(size=(0.2, 0.1, 0.1)), "divisions": (2, 1, 1), "order": 1}
PLANE = {"shape": pl.geometry.Rectangle(size=(0.2, 0.1)), "divisions": (4, 2), "order": 1}
CASES = {
    "beam": (BEAM, {"region": "start", "axis": (0.2, -0.4, 1.0), "origin": (0.0, 0.1, 0.0)}),
    "rotations of a beam": (BEAM, {"region": "end rotations", "axis": (0.0, 1.0, 0.0)}),
    "box": ({**BOX, "material": MATERIAL}, {"region": "x-", "axis": (1.0, 1.0, 0.0)}),
    "plane": ({**PLANE, "material": MATERIAL}, {"region": "x-"}),
}


def motor(robot, *, most=1e-2, **options):
    return Servo(**options, drive="torque", limits=(-most, most)).attach(pl.Robot(**robot).body())


@pytest.fixture(params=CASES)
def case(request, rng):
    """A motor, displaced points and a torque that the springs can transmit."""
    robot, options = CASES[request.param]
    body, found = pl.Robot(**robot).body(), motor(robot, **options)
    y = found.weights @ body.rest.reshape(-1, body.dim) + found.offset
    y = y + 0.01 * rng.standard_normal(y.shape)
    stiffness = found._torsional_stiffness(found.angle(y, np.zeros(1)), y)
    return found, y, np.array([0.05 * stiffness])


def along(term, y, u, d):
    """Return the derivative of the gradient along d."""
    vectors, weights = term.rank_one_terms(y, u)
    rank_one = np.einsum("r,rni,rmj,mj->ni", weights, vectors, vectors, d)
    return np.einsum("nij,nj->ni", term.hessian(y, u), d) + rank_one


def test_springs_transmit_exactly_the_torque(case):
    term, y, u = case
    angle = term.angle(y, u)
    assert -np.sum(term.gradient(y, u) * term._motion(angle)) == pytest.approx(u[0], rel=1e-10)


def test_torque_is_minus_the_derivative_of_the_energy_by_the_angle_of_the_body(case):
    """Without displacement the whole region follows the rotor, so a rotation by e costs -u e."""
    term, _, u = case
    shifted = lambda e: term.energy(term.target(e), u)
    assert shifted(0.3) - shifted(0.1) == pytest.approx(-0.2 * u[0], rel=1e-6)


def test_derivatives_agree_with_central_differences(case, rng):
    term, y, u = case
    bar, d = rng.standard_normal(y.shape), rng.standard_normal(y.shape)
    e = 1e-5 * np.abs(y).max()
    slope = lambda f: (f(e) - f(-e)) / (2.0 * e)
    found = [
        (slope(lambda e: term.energy(y + e * d, u)), np.sum(term.gradient(y, u) * d)),
        (
            slope(lambda e: np.sum(bar * term.gradient(y + e * d, u))),
            np.sum(bar * along(term, y, u, d)),
        ),
        (
            slope(lambda e: np.sum(bar * term.gradient(y, (1.0 + e) * u))),
            np.sum(bar * term.control_gradient(y, u)[0]) * u[0],
        ),
        (
            slope(lambda e: np.sum(bar * term.control_gradient(y, (1.0 + e) * u)[0])),
            term.control_hessian_vector(y, u, bar, u)[0],
        ),
    ]
    for difference, derivative in found:
        assert difference == pytest.approx(derivative, rel=1e-6, abs=1e-9 * np.abs(bar).sum())


def test_complex_positions_give_the_derivative(case, rng):
    term, y, u = case
    d = rng.standard_normal(y.shape)
    by_step = term.gradient(y + 1e-20j * d, u).imag / 1e-20
    np.testing.assert_allclose(by_step, along(term, y, u, d), rtol=1e-9, atol=1e-9 * by_step.max())


def test_torque_bends_a_propped_cantilever_by_the_closed_form():
    """The end at the motor can only rotate: by M L / 4 E I."""
    model = pl.Quasistatic(
        pl.Robot(
            **BEAM,
            supports=[pl.Support(region="end")],
            actuators={
                "motor": Servo(
                    region="start", axis=(0, 0, 1), drive="torque", limits=(-1, 1), stiffness=1e6
                )
            },
        )
    )
    M, EI = 1e-4, 1e6 * np.pi * 0.01**4 / 4
    x = model.step(model.initial_state(), np.array([M])).x
    start = int(model.robot.body().region("start")[-1])
    rotation = x.reshape(-1, 3)[start, 2]
    shear = 1.0 + 3.0 * EI / (0.3**2 * (1e6 / 2.6) * np.pi * 0.01**2 * 0.9)  # of Timoshenko's beam
    assert rotation == pytest.approx(M * 0.3 / (4 * EI), rel=2.0 * (shear - 1.0) + 0.01)


def test_torque_accelerates_a_free_plate_by_its_moment_of_inertia():
    origin, u, dt, steps = np.array([0.0, 0.05]), 0.02, 1e-3, 10
    stiff = {**PLANE, "material": pl.Material(E=1e8, nu=0.3, density=1000.0)}
    servo = Servo(region="x-", origin=origin, drive="torque", limits=(-1.0, 1.0), stiffness=100.0)
    model = pl.ImplicitEuler(pl.Robot(**stiff, actuators={"motor": servo}), dt=dt)
    run = pl.simulate(model, np.full((steps, 1), u), progress=False)
    tip = model.space.position(run.states[-1]).reshape(-1, 2)
    rest = model.robot.body().rest.reshape(-1, 2)
    far = int(np.argmax(rest[:, 0] + 1e-3 * (np.abs(rest[:, 1] - 0.05) < 1e-9)))
    angle = (tip - rest)[far, 1] / 0.2
    inertia = 1000.0 * 0.2 * 0.1 * ((0.2**2 + 0.1**2) / 12 + 0.1**2)  # [kg m], unit depth
    assert angle == pytest.approx(u / inertia * dt**2 * steps * (steps + 1) / 2, rel=0.05)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": None}, "drive 'torque' has no default limits; give limits in N m"),
        ({"limits": (-1e9, 1.0)}, "but its springs transmit less than .* N m. Give smaller limits"),
        ({"drive": "torqe"}, "no drive 'torqe'; did you mean 'torque'"),
    ],
)
def test_bad_torque_motor_is_rejected(options, says):
    with pytest.raises(InputError, match=says):
        Servo(**{"region": "x-", "drive": "torque", "limits": (-1.0, 1.0)} | options).attach(
            pl.Robot(**CASES["plane"][0]).body()
        )


def test_torque_larger_than_the_springs_transmit_is_not_a_number():
    term = motor(*CASES["plane"][:1], **CASES["plane"][1])
    y = term.target(0.0)
    assert np.isnan(term.energy(y, np.array([2.0 * term.largest_torque])))
