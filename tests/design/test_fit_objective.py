"""Derivatives of the misfit by parameters, initial states and time offsets."""

import numpy as np
import pytest

import pliant as pl
from pliant.design import MarkerRecording
from pliant.design.identification import check_fit

DT = 0.01


def recordings():
    times = 0.0137 * np.arange(11)  # between the steps, apart from the first one
    rng = np.random.default_rng(3)
    out = []
    for k in range(2):
        positions = np.array([[0.04, 0.02]]) + 1e-3 * rng.standard_normal((11, 1, 2))
        positions[k] = np.nan
        out.append(
            MarkerRecording(
                times=times,
                positions=positions,
                markers=["tip"],
                offset=0.004,
                controls=lambda t, k=k: np.array([0.3 * np.sin(40.0 * t), 0.1 * k]),
            )
        )
    return out


def robot():
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.04, 0.02)),
        divisions=(2, 1),
        order=1,
        thickness=0.02,
        material=pl.Material(E=3e4, nu=0.4, density=1000.0),
        damping=pl.Damping(mass=2.0),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        actuators={"force": pl.actuators.Thrust(point=(0.04, 0.01))},
        effectors={"tip": pl.Effector(point=(0.04, 0.02))},
    )


RULES = {
    "ImplicitEuler": lambda design: pl.ImplicitEuler(robot(), dt=DT, design=design),
    "BDF2": lambda design: pl.BDF2(robot(), dt=DT, design=design),
    "Quasistatic": lambda design: pl.Quasistatic(robot(), dt=DT, design=design),
    "MaterialPoint": lambda design: pl.MaterialPoint(robot(), dt=DT, cell=0.01, design=design),
}


@pytest.mark.parametrize("rule", RULES)
def test_derivatives_agree_with_differences(rule):
    names = ["body.E", "body.nu"]
    starts = ["initial.velocity"] if rule == "ImplicitEuler" else []
    objective, _ = check_fit(RULES[rule](names), recordings(), [*names, *starts], offsets=0.006)
    z = objective.start.copy()
    z[:2], z[-2:] = (0.1, z[1]), (0.3, -0.4)
    found, by_adjoint = objective.jacobian(z), objective.gradient(z)
    assert found.residuals.shape == (40,)
    np.testing.assert_allclose(by_adjoint.gradient, found.gradient, rtol=1e-4, atol=1e-4)
    rng = np.random.default_rng(0)
    for direction in (np.eye(len(z))[-1], rng.standard_normal(len(z))):
        h = 1e-5 * direction
        difference = objective.residuals(z + h).residuals - objective.residuals(z - h).residuals
        expected = 2.0 * found.jacobian @ h
        np.testing.assert_allclose(difference, expected, atol=1e-4 * np.abs(expected).max())


def test_samples_are_recordings():
    objective, _ = check_fit(
        RULES["ImplicitEuler"](["body.E"]), recordings(), ["body.E"], offsets=0.1
    )
    z = objective.start + 0.1
    parts = [objective.gradient(z, samples=[k]) for k in range(2)]
    whole = objective.gradient(z)
    np.testing.assert_allclose(sum(p.gradient for p in parts), whole.gradient, rtol=1e-12)
    assert sum(p.value for p in parts) == pytest.approx(whole.value)


def test_gravity_and_the_velocities_of_two_throws_are_recovered():
    ball = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        effectors={"ball": pl.Effector(point=(0.0, 0.0))},
        gravity=(0.0, -9.0),
    )
    model = pl.SemiImplicit(ball, dt=DT, design=["gravity.y"])
    rng, times, out = np.random.default_rng(0), DT * np.arange(31), []
    velocities = [(1.0, 2.0), (-0.5, 3.0)]
    for v in velocities:
        # the velocity changes before the position: by steps, not by the parabola
        fall = -0.5 * 9.81 * times * (times + DT)
        flight = times[:, None] * np.array(v) + fall[:, None] * [0.0, 1.0]
        positions = (flight + 1e-3 * rng.standard_normal(flight.shape))[:, None]
        out.append(MarkerRecording(times=times, positions=positions, markers=["ball"]))
    fit = pl.identify(model, out, ["gravity.y", "initial.velocity"])
    assert fit.values["gravity.y"] == pytest.approx(-9.81, abs=0.1)
    for k, v in enumerate(velocities):
        np.testing.assert_allclose(fit.values[f"initial.velocity[recording {k + 1}]"], v, atol=0.02)
    assert fit.names[1] == "initial.velocity[recording 1][0]"
