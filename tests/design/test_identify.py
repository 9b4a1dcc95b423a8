"""Identification recovers the parameters of an independent generator of data, and says how well."""

from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.design import MarkerRecording

DT, FINE, STEPS = 0.0025, 0.0005, 100
TRUE = {"E": 1e5, "nu": 0.3, "density": 1200.0}
DAMPING = 0.01
POINTS = [(0.05, 0.02), (0.1, 0.01), (0.1, 0.02)]
NOISE, DELAY = 2e-4, 0.013
DESIGN = ["body.E", "body.nu", "body.density", "damping.stiffness"]


def beam(*, damping=0.02, **material):
    """A clamped plate that a force at its tip moves."""
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(4, 1),
        order=1,
        thickness=0.02,
        material=pl.Material(**{"E": 7e4, "nu": 0.4, "density": 900.0, **material}),
        damping=pl.Damping(stiffness=damping),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        actuators={"force": pl.actuators.Thrust(point=(0.1, 0.01), limits=(-3.0, 3.0))},
        effectors={"tip": pl.Effector(point=(0.1, 0.01))},
    )


def force(k):
    """The force [N] of recording k over time."""
    return lambda t: np.array([(1.0 + k) * np.sin(12.0 * t), 0.2 * np.sin((10.0 + 15.0 * k) * t)])


@cache
def swings(count=2, delay=DELAY):
    """Noisy recordings at 60 Hz of a model with another, finer time step."""
    model, rng = pl.BDF2(beam(damping=DAMPING, **TRUE), dt=FINE), np.random.default_rng(7)
    weights, out = model.body.locate(np.array(POINTS)), []
    times = np.arange(0.0, DT * STEPS, 1.0 / 70.0)
    steps = round(DT * STEPS / FINE)
    for k in range(count):
        run = pl.simulate(model, np.array([force(k)(FINE * (i + 1)) for i in range(steps)]))
        q = run.states[:, : model.space.n_dofs].reshape(steps + 1, -1, 2)
        tracks = np.einsum("mn,tnd->tmd", weights.toarray(), q)
        # `delay` after the model's time zero the clock of the recording is at zero
        at = np.clip((times + delay) / FINE, 0.0, steps)
        below = np.minimum(at.astype(int), steps - 1)
        share = (at - below)[:, None, None]
        positions = (1.0 - share) * tracks[below] + share * tracks[below + 1]
        positions = positions + NOISE * rng.standard_normal(positions.shape)
        positions[rng.random(positions.shape[:2]) < 0.1] = np.nan
        out.append(
            MarkerRecording(
                times=times,
                positions=positions,
                points=POINTS,
                controls=force(k),
                name=f"swing {k}",
            )
        )
    return tuple(out)


def model(rule=pl.BDF2, design=DESIGN, **changes):
    return rule(beam(**changes), dt=DT, design=design)


@cache
def fit_of_swings():
    return pl.identify(model(), swings(), DESIGN, noise=NOISE, offsets=0.05)


def test_parameters_and_time_offsets_are_recovered_from_noisy_recordings_with_gaps():
    fit = fit_of_swings()
    assert fit.status.ok
    assert fit.values["body.E"] == pytest.approx(TRUE["E"], rel=0.02)
    assert fit.values["body.density"] == pytest.approx(TRUE["density"], rel=0.01)
    assert fit.values["damping.stiffness"] == pytest.approx(DAMPING, rel=0.03)
    assert fit.values["body.nu"] == pytest.approx(TRUE["nu"], abs=0.02)
    assert list(fit.offsets) == ["swing 0", "swing 1"]
    for offset in fit.offsets.values():
        assert offset == pytest.approx(DELAY, abs=1e-3)
    assert not fit.undetermined
    assert all(part.rms < 1.1 * NOISE for part in fit.predictions)


def test_the_fitted_robot_is_ready_to_plan_with():
    fit = fit_of_swings()
    assert fit.values["body.E"] == fit.robot.material.E
    assert fit.values["damping.stiffness"] == fit.robot.damping.stiffness
    x0, controls = model().initial_state(), np.full((5, 2), 0.1)
    states = pl.simulate(pl.BDF2(fit.robot, dt=DT), controls, x0=x0).states
    again = pl.simulate(model(), controls, x0=x0, p=fit.params).states
    np.testing.assert_allclose(states, again, rtol=1e-9, atol=1e-12)
