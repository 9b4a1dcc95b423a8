"""The mean of repeated recordings is equivalent to all of them."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import MarkerRecording, mean_recording

DT, STEPS, NOISE, COPIES = 0.02, 12, 1e-3, 4
POINTS = [(0.1, 0.01), (0.05, 0.02)]


def beam(E):
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(4, 1),
        order=1,
        material=pl.Material(E=E, nu=0.4, density=1000.0),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
    )


def repetitions():
    true, rng = pl.ImplicitEuler(beam(2e5), dt=DT), np.random.default_rng(3)
    states = pl.simulate(true, np.zeros((STEPS, 0))).states
    weights = true.body.locate(np.array(POINTS))
    q = np.array([weights @ x[: true.space.n_dofs].reshape(-1, 2) for x in states])
    return [
        MarkerRecording(
            times=DT * np.arange(STEPS + 1),
            positions=q + NOISE * rng.standard_normal(q.shape),
            points=POINTS,
            noise=NOISE,
        )
        for _ in range(COPIES)
    ]


def test_fit_to_the_mean_equals_the_fit_to_all_repetitions():
    copies, model = repetitions(), pl.ImplicitEuler(beam(1.5e5), dt=DT, design=["body.E"])
    # the values are of different size, so both fits end close to the minimum only if they converge
    exact = {"tolerance": 1e-15, "progress": False}
    every = pl.identify(model, copies, ["body.E"], **exact)
    mean = pl.identify(model, mean_recording(copies), ["body.E"], **exact)
    assert mean.values["body.E"] == pytest.approx(every.values["body.E"], rel=1e-6)
    assert mean.intervals["body.E"] == pytest.approx(every.intervals["body.E"], rel=1e-5)
    assert COPIES * mean.simulations == every.simulations


def test_recordings_that_are_no_repetitions_are_refused():
    first, second, *_ = repetitions()
    later = replace(second, times=np.asarray(second.times) + 0.1)
    with pytest.raises(InputError, match="Recording 1 differs from the first one in its times"):
        mean_recording([first, later])
    driven = replace(second, controls=np.zeros((STEPS, 0)))
    with pytest.raises(InputError, match="in its controls"):
        mean_recording([first, driven])
    gap = np.array(second.positions)
    gap[3] = np.nan
    with pytest.raises(InputError, match="Recording 1 has missing samples"):
        mean_recording([first, replace(second, positions=gap)])
    with pytest.raises(InputError, match="There are no recordings"):
        mean_recording([])
