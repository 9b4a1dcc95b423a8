"""Experiments that identify: their recordings, their counts, and resumed fits."""

from types import SimpleNamespace

import numpy as np
import pytest

import pliant as pl
from pliant.design import MarkerRecording
from pliant.zoo import arm_fit_report, arm_laboratory, finger_recordings
from pliant.zoo.experiment import ExperimentRun
from pliant.zoo.fit_tasks import (
    best_errors,
    fit_in,
    largest_errors,
    simulations_to_minimum,
    simulations_within,
)
from pliant.zoo.registry import find


@pytest.fixture(scope="module")
def quick():
    return find("finger-identify").resolve_settings(quick=True)


def test_start_has_the_ratios_of_the_paper():
    true, start = finger_recordings.TRUE, finger_recordings.START
    assert start["E"] / true["E"] == pytest.approx(15.0 / 20.0)
    assert start["density"] / true["density"] == pytest.approx(3.0 / 2.33)
    assert true["density"] == pytest.approx(1000.0)


def test_recordings_are_means_of_noisy_copies_of_leftward_motions(quick):
    settings = {**quick, "noise": 1e-3, "keyframes": 60}
    noisy = finger_recordings.recordings(settings, 0)
    exact = finger_recordings.recordings({**settings, "noise": 1e-12}, 0)
    for a, b in zip(noisy, exact, strict=True):
        noise = np.asarray(a.positions) - np.asarray(b.positions)
        assert noise.std() == pytest.approx(1e-3 / np.sqrt(10.0), rel=0.02)
        assert np.asarray(a.noise) == pytest.approx(1e-3 / np.sqrt(10.0))
        lowest = int(np.argmin(np.asarray(b.points)[:, 1]))
        sideways = np.asarray(b.positions)[:, lowest, 0] - np.asarray(b.points)[lowest, 0]
        assert sideways.min() < -0.02  # [m] to the left
        assert sideways.max() < -0.3 * sideways.min()


def fit_like(E, values):
    rows = [
        SimpleNamespace(value=v, simulations=10.0 * (k + 1), z=(0.0,)) for k, v in enumerate(values)
    ]
    return SimpleNamespace(history=rows, iterates={"E": np.array(E)[:, None]})


def test_counts_follow_the_best_iterate():
    """The third iterate is close by accident: its loss is larger than that of the second."""
    fit = fit_like([80.0, 90.0, 100.0, 99.0, 99.9], [50.0, 10.0, 20.0, 3.0, 2.5])
    truth = {"E": 100.0}
    np.testing.assert_allclose(largest_errors(fit, truth), [0.2, 0.1, 0.0, 0.01, 0.001])
    np.testing.assert_allclose(best_errors(fit, truth), [0.2, 0.1, 0.1, 0.01, 0.001])
    assert simulations_within(fit, truth, 0.02) == 40.0
    assert simulations_within(fit, truth, 1e-4) == np.inf
    assert simulations_to_minimum(fit, 2.5) == 40.0
    assert simulations_to_minimum(fit, 0.0) == np.inf


def test_share_of_the_mesh_is_that_of_the_squared_errors_without_noise():
    noise = arm_laboratory.NOISE
    errors = {
        arm_fit_report.FITTED: np.hypot(noise, 2e-3),
        arm_fit_report.FINE_MESH: np.hypot(noise, 1e-3),
    }
    assert arm_fit_report.mesh_share(errors) == pytest.approx(0.75)


def test_measured_arm_and_fitted_arm_have_one_shape_and_other_elements():
    settings = find("arm-identify").resolve_settings(quick=True)
    lab = arm_laboratory.laboratory(settings)
    coarse = arm_laboratory.coarse_arm(arm_laboratory.TRUTH, settings)
    assert (lab.model.body.mesh.order, coarse.body().mesh.order) == (2, 1)
    assert lab.model.body.rest.size > 3 * coarse.body().rest.size
    assert lab.model.body.mesh.volumes().sum() == pytest.approx(coarse.body().mesh.volumes().sum())
    assert coarse.damping.stiffness == lab.model.robot.damping.stiffness
    soft = {region: m for region, m in coarse.material.items() if region == "soft"}
    assert soft["soft"].nu == arm_laboratory.TRUTH["soft.nu"]


def test_fit_in_a_run_is_resumed(tmp_path):
    beam = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
        divisions=(4, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.4, density=1000.0),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        effectors={"tip": pl.Effector(point=(0.1, 0.01))},
    )
    model = pl.ImplicitEuler(beam, dt=0.02, design=["body.E"])
    states = pl.simulate(model, np.zeros((8, 0)), p=np.array([2e5])).states
    tip = np.array([model.effector("tip", x) for x in states])
    recording = MarkerRecording(times=0.02 * np.arange(9), positions=tip, markers=["tip"])

    def fit(folder, iterations, resume=False):
        run = ExperimentRun(settings={}, folder=tmp_path / folder, identity="test", resume=resume)
        return fit_in(run, "fit", model, [recording], ["body.E"], iterations=iterations)

    whole = fit("whole", 6)
    fit("part", 2)
    resumed = fit("part", 6, resume=True)
    assert resumed.values == whole.values
    assert len(resumed.history) == len(whole.history)
    again = fit("part", 1)  # without resume it starts again
    assert len(again.history) == 2
