"""The tasks in the guide on robot files run as with `pliant run`."""

import re
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from pliant.problem import Effort, Goal, Limit, StrokeLimit, keep_out
from pliant.robot_files.identification_task import FieldTerm, StaticTestFiles
from pliant.robot_files.task import TargetPath
from pliant.robot_files.task_layout import TASKS
from pliant.store import read_trajectory
from pliant.zoo.experiment import run
from pliant.zoo.task import task_experiment

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "robot-files.md").read_text()
FINGER, *OTHERS = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def run_guide_task(tmp_path):
    """run_guide_task(kind): run the finger of the guide and return the result and its folder."""

    def run_task(kind: str):
        task = next(text for text in OTHERS if f'type = "{kind}"' in text)
        robot = FINGER[: FINGER.index("[task]")].replace("[10, 2, 2]", "[5, 1, 1]")
        (tmp_path / "finger.toml").write_text(robot + task)
        return run(
            task_experiment(tmp_path / "finger.toml"), out=tmp_path / "out"
        ), tmp_path / "out"

    return run_task


def test_guide_plan_completes_within_its_rate_limit(run_guide_task):
    result, folder = run_guide_task("plan")
    assert result["status"] == "done"
    controls = read_trajectory(folder).controls
    rates = np.diff(np.vstack([np.zeros((1, 1)), controls]), axis=0) / 0.02
    assert controls.max() > 0.1
    assert result["metrics"]["largest goal error"]["value"] < 2e-3  # [m], the effort costs 1 mm
    assert np.abs(rates).max() <= 40.0 * (1.0 + 1e-6)
    assert (folder / "report.html").is_file()
    assert (folder / "plan.csv").is_file()


def test_guide_path_is_followed_within_its_rate_limit(run_guide_task):
    result, folder = run_guide_task("follow")
    controls = read_trajectory(folder).controls
    assert np.diff(controls, axis=0).max() <= 0.5 * (1.0 + 1e-6)
    assert (folder / "report.html").is_file(), result


def test_guide_documents_every_key_of_a_task():
    keys = {key for kind in TASKS.values() for key in signature(kind).parameters} - {"robot"}
    for kind in (
        Goal,
        Effort,
        Limit,
        StrokeLimit,
        TargetPath,
        StaticTestFiles,
        FieldTerm,
        keep_out,
    ):
        keys |= set(signature(kind).parameters)
    assert [key for key in sorted(keys - {"zone"}) if f"`{key}`" not in GUIDE] == []
