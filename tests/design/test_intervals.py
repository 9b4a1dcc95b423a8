"""The stated 95 % intervals are right, and parameters that the data do not determine are named."""

from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.design import MarkerRecording

DT, TRIALS = 0.015, 100


def block(*, supports=("x-",), gravity=(0.0, -9.81), damping=0.01, E=3e4, density=1000.0):
    """A small block of two cells in each direction."""
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.04, 0.02)),
        divisions=(2, 1),
        order=1,
        thickness=0.02,
        material=pl.Material(E=E, nu=0.4, density=density),
        damping=pl.Damping(stiffness=damping),
        supports=[pl.Support(region=region) for region in supports],
        gravity=gravity,
        effectors={"tip": pl.Effector(point=(0.04, 0.02))},
    )


@cache
def exact(steps, **parts):
    """The positions (steps + 1, 1, 2) of the tip without noise."""
    model = pl.ImplicitEuler(block(**parts), dt=DT)
    states = pl.simulate(model, np.zeros((steps, 0))).states
    return np.array([model.effector("tip", x) for x in states])


def recording(positions, **changes):
    return MarkerRecording(
        times=DT * np.arange(len(positions)), positions=positions, markers=["tip"], **changes
    )


def test_intervals_cover_the_truth_in_about_95_of_100_trials():
    """Each trial is a fit of its own, with new noise. The bounds hold for 98 % of all seeds."""
    rng, sigma = np.random.default_rng(0), 1e-4
    names = ["body.E", "damping.stiffness"]
    model = pl.ImplicitEuler(block(E=2.5e4, damping=0.015), dt=DT, design=names)
    inside = np.zeros(2)
    for _ in range(TRIALS):
        noisy = exact(6) + sigma * rng.standard_normal((7, 1, 2))
        fit = pl.identify(model, recording(noisy), names, progress=False)
        for k, (name, truth) in enumerate(zip(names, (3e4, 0.01), strict=True)):
            lower, upper = fit.intervals[name]
            inside[k] += lower <= truth <= upper
    assert np.all((inside >= 0.9 * TRIALS) & (inside <= 0.99 * TRIALS))


def test_free_fall_determines_neither_E_nor_density():
    names = ["body.E", "body.density"]
    model = pl.ImplicitEuler(block(supports=(), E=2e4), dt=DT, design=names)
    noise = 1e-4 * np.random.default_rng(1).standard_normal((11, 1, 2))
    fit = pl.identify(model, recording(exact(10, supports=()) + noise), names)
    assert len(fit.undetermined) == 2
    for name in names:
        assert f"The data do not determine {name}:" in " ".join(fit.undetermined)
        assert np.isinf(fit.deviations[name])


def test_weight_alone_determines_the_ratio_of_E_and_density():
    names = ["body.E", "body.density"]
    model = pl.ImplicitEuler(block(E=2e4), dt=DT, design=names)
    noise = 1e-5 * np.random.default_rng(1).standard_normal((11, 1, 2))
    fit = pl.identify(model, recording(exact(10) + noise), names)
    assert fit.undetermined == (
        "The data do not determine body.E and body.density separately, only body.E / body.density.",
    )
    ratio = fit.values["body.E"] / fit.values["body.density"]
    assert ratio == pytest.approx(30.0, rel=0.01)


def test_E_alone_in_free_fall_is_named_and_the_fit_does_not_fail():
    model = pl.ImplicitEuler(block(supports=()), dt=DT, design=["body.E"])
    for method in ("gauss_newton", "lbfgsb"):
        fit = pl.identify(model, recording(exact(5, supports=())), ["body.E"], method=method)
        assert "do not determine body.E:" in fit.undetermined[0]
        assert np.isinf(fit.deviations["body.E"])
