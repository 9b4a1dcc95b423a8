"""Experiments of the swimming robot: the plan beats a gait, and reciprocal gaits do not swim."""

import json

import numpy as np
import pytest

from pliant.core import InputError
from pliant.swimming import SwimmerModel
from pliant.zoo.experiment import run
from pliant.zoo.registry import find
from pliant.zoo.swimming_tasks import check, effort, gait_of_equal_effort, task


@pytest.fixture(scope="module")
def quick_task():
    return task(find("swimmer-plan").resolve_settings(quick=True))


def test_gait_of_equal_effort_has_that_effort(quick_task):
    model = SwimmerModel(quick_task.robot, dt=quick_task.dt, cell=0.4, points=60)
    wanted = 0.05
    motion, amplitude = gait_of_equal_effort(model, quick_task, wanted)
    assert effort(motion.torques, quick_task.dt) == pytest.approx(wanted, rel=0.02)
    assert 0.0 < amplitude < 1.0


def test_quick_plan_swims_forward_and_reports_its_errors(tmp_path):
    result = run(find("swimmer-plan"), out=tmp_path / "plan", quick=True, progress=False)
    metrics = result["metrics"]
    assert result["status"] == "done"
    assert metrics["forward distance of the replay"]["value"] > 0.0
    assert metrics["step error"]["value"] < 1e-3
    assert metrics["exact evaluations"]["paper"] == 732
    assert metrics["largest excess of a joint limit"]["value"] < 0.05
    saved = json.loads((tmp_path / "plan" / "result.json").read_text())
    assert saved["metrics"].keys() == metrics.keys()


def test_quick_gait_swims_and_its_reciprocal_stays(tmp_path):
    result = run(find("swimmer-gait"), out=tmp_path / "gait", quick=True, progress=False)
    value = {name: metric["value"] for name, metric in result["metrics"].items()}
    assert result["status"] == "done"
    assert value["forward distance, wave"] > 1e-3
    assert value["forward distance, half as fast"] == pytest.approx(
        value["forward distance, wave"], rel=1e-2
    )
    assert abs(value["forward distance, reciprocal"]) < 1e-3 * value["forward distance, wave"]


def test_amplitude_beyond_the_joint_limits_is_refused():
    experiment = find("swimmer-plan")
    settings = experiment.resolve_settings({"amplitude": "1.5"}, quick=True)
    with pytest.raises(InputError, match="joint limit"):
        check(task(settings))


def test_wave_runs_from_head_to_tail(quick_task):
    path, period = quick_task.gait(), 1.0 / quick_task.frequency
    times = 2.0 * period + np.linspace(0.0, period, 2001)
    angles = np.array([path.angles(t) for t in times])
    lags = np.mod(np.diff(times[angles.argmax(axis=0)]), period)
    np.testing.assert_allclose(lags, quick_task.lag / (2 * np.pi) * period, atol=2e-3)
