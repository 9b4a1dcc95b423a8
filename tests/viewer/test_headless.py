"""Headless runs follow a script of targets and keep their recording also after a failure."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from served_robots import LENGTH, REACHABLE, make_recording

from pliant.core import StepError
from pliant.robot import Effector
from pliant.robot_files import Keyframes
from pliant.viewer import headless, load_recording, load_script, make_session
from pliant.zoo.robots import biped, line_arm


def test_headless_robot_follows_script(arm, tmp_path):
    start = arm.effector_positions["laser"]
    file = tmp_path / "targets.csv"
    rows = ([t, *(start + s * REACHABLE)] for t, s in ((0.0, 0.0), (0.5, 1.0)))
    file.write_text("time,x,y,z\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    found = headless(arm, seconds=1.0, script=load_script(file))
    assert found["control steps"] == 60
    assert found["final error [mm]"] < 0.02
    assert arm.last_recording.n_steps == 60
    np.testing.assert_allclose(arm.last_recording.targets[-1, 0], start + REACHABLE, atol=1e-12)


def test_headless_control_period_is_one_sixtieth_of_a_second(arm):
    headless(arm, seconds=0.2)
    np.testing.assert_allclose(arm.last_recording.times, np.arange(1, 13) / 60.0)


def test_headless_replay_ends_with_its_last_row(arm):
    recording = make_recording(arm, steps=5)
    arm.handle_message({"type": "replay"})
    found = headless(arm, seconds=1.0)
    assert found["control steps"] == 5
    assert found["final error [mm]"] == pytest.approx(
        1e3 * np.linalg.norm(recording.targets[-1, 0] - arm.effector_positions["laser"]), rel=1e-12
    )
    assert found["final error [mm]"] > 0.1


def test_full_recording_keeps_metrics_of_run(arm, monkeypatch):
    monkeypatch.setattr("pliant.viewer.recorder.MAX_STEPS", 3)
    found = headless(arm, seconds=0.1)
    assert found["control steps"] == 6
    assert arm.last_recording.n_steps == 3
    assert "limit of one hour" in found["warning"]


def test_headless_final_state_reports_missed_target(arm, monkeypatch):
    end = headless(arm, seconds=0.1)["final state"]
    assert re.fullmatch(r"still moving at the end, [\d.]+ mm from the target", end)
    follow = type(arm.controller).follow
    failed = {"outcome": "constraint violated", "message": "no stable equilibrium was found"}
    monkeypatch.setattr(
        type(arm.controller),
        "follow",
        lambda self, pose, targets: replace(follow(self, pose, targets), **failed),
    )
    assert headless(arm, seconds=0.1)["final state"] == failed["message"]


def test_failed_headless_step_keeps_the_recording(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    follow, steps = type(arm.controller).follow, []

    def failing(self, pose, targets):
        steps.append(pose.k)
        if len(steps) > 4:
            raise StepError("There is no equilibrium.")
        return follow(self, pose, targets)

    monkeypatch.setattr(type(arm.controller), "follow", failing)
    with pytest.raises(StepError, match="After 4 control steps: There is no equilibrium"):
        headless(arm, seconds=1.0)
    assert load_recording(tmp_path / "recording-001").n_steps == 4


def test_interrupted_headless_run_keeps_the_recording(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    step, steps = arm.step, []

    def interrupted(duration):
        if len(steps) == 4:
            raise KeyboardInterrupt
        steps.append(step(duration))

    monkeypatch.setattr(arm, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        headless(arm, seconds=1.0)
    assert load_recording(tmp_path / "recording-001").n_steps == 4


def test_script_during_replay_raises(arm, raises_clear_error):
    make_recording(arm, steps=2)
    arm.handle_message({"type": "replay"})
    raises_clear_error(
        lambda: headless(
            arm, seconds=0.1, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 3)))
        ),
        "its own targets",
    )


def test_headless_without_script_follows_circle(arm):
    found = headless(arm, seconds=0.5)
    assert 0.0 < found["largest error [mm]"] < 1e3 * LENGTH
    assert np.ptp(arm.last_recording.positions[:, 0, 0]) > 1e-3


def test_invalid_scripts_and_robots_raise(arm, tmp_path, raises_clear_error):
    file = tmp_path / "targets.csv"
    file.write_text("0,1\n1,a\n")
    raises_clear_error(lambda: load_script(file), "not a table")
    for text, words in (
        ("x,y,z,t\n1,2,3,0\n", "not the time"),
        ("", "same number of coordinates"),
        ("0,1,2,3\n1,2\n", "same number of coordinates"),
        ("0\n1\n", "same number of coordinates"),
        (f"0,{'1' * 5001},0,0\n", "finite|not a table"),
        (f"0,{'1' * 200_000},0,0\n", "field larger"),
    ):
        file.write_text(text)
        raises_clear_error(lambda: load_script(file), words)
    file.write_text("0,1e9,0,0\n1,0,0,0\n")
    raises_clear_error(lambda: headless(arm, seconds=0.1, script=load_script(file)), "in metres")
    raises_clear_error(lambda: load_script(tmp_path / "none.csv"), "cannot be read")
    file.write_text("")
    raises_clear_error(lambda: load_script(file), "not a table")
    raises_clear_error(
        lambda: headless(
            arm, seconds=1.0, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 2)))
        ),
        "3 for each of laser",
    )
    raises_clear_error(lambda: headless(arm, seconds=0.0), "must be a positive")
    raises_clear_error(
        lambda: make_session(line_arm(layers=4, across=2), effectors=("lasr",)),
        "did you mean 'laser'",
    )
    bare = replace(line_arm(layers=4, across=2), effectors={})
    raises_clear_error(lambda: make_session(bare), "no effector")
    raises_clear_error(
        lambda: make_session(
            replace(bare, actuators={}, effectors={"tip": Effector(surface="z+")})
        ),
        "no actuators",
    )
    raises_clear_error(lambda: make_session(biped()), "biped cannot be held .* --dynamic")


def test_guide_example_runs(tmp_path, monkeypatch):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "drive.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", guide, re.DOTALL).group(1), names)
    assert names["plan"].status
    assert names["made"].n_steps == 30
    assert (tmp_path / "drives" / "circle" / "commands.csv").is_file()
