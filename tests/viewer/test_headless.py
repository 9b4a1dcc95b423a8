"""Without a page: a script leads the robot, and what was recorded is kept however it ends."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stand import LENGTH, REACHABLE, recorded

from pliant.core import StepError
from pliant.robot import Effector
from pliant.robot_files import Keyframes
from pliant.viewer import headless, load_recording, load_script, session_of
from pliant.zoo.robots import biped, line_arm


def test_without_a_page_the_robot_follows_a_script(arm, tmp_path):
    start = arm.places["laser"]
    file = tmp_path / "way.csv"
    rows = ([t, *(start + s * REACHABLE)] for t, s in ((0.0, 0.0), (0.5, 1.0)))
    file.write_text("time,x,y,z\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    found = headless(arm, seconds=1.0, script=load_script(file))
    assert found["ticks"] == 60
    assert found["error at the end [mm]"] < 0.02
    assert arm.replayed.ticks == 60
    np.testing.assert_allclose(arm.replayed.targets[-1, 0], start + REACHABLE, atol=1e-12)


def test_the_times_without_a_page_are_those_of_the_script(arm):
    headless(arm, seconds=0.2)
    np.testing.assert_allclose(arm.replayed.times, np.arange(1, 13) / 60.0)


def test_without_a_page_a_replay_ends_with_its_last_row(arm):
    made = recorded(arm, ticks=5)
    arm.hear({"say": "replay"})
    found = headless(arm, seconds=1.0)
    assert found["ticks"] == 5
    assert found["error at the end [mm]"] == pytest.approx(
        1e3 * np.linalg.norm(made.targets[-1, 0] - arm.places["laser"]), rel=1e-12
    )
    assert found["error at the end [mm]"] > 0.1


def test_a_recording_that_is_full_leaves_the_figures(arm, monkeypatch):
    monkeypatch.setattr("pliant.viewer.recorder.LONGEST", 3)
    found = headless(arm, seconds=0.1)
    assert found["ticks"] == 6
    assert arm.replayed.ticks == 3
    assert "an hour long" in found["said"]


def test_what_could_not_be_kept_is_told_without_a_page(arm, monkeypatch):
    end = headless(arm, seconds=0.1)["at the end"]
    assert re.fullmatch(r"still moving when the time was over, [\d.]+ mm from the target", end)
    follow = type(arm.controller).follow
    fold = {"state": "unkept", "text": "there is no balance beyond here"}
    monkeypatch.setattr(
        type(arm.controller),
        "follow",
        lambda self, pose, targets: replace(follow(self, pose, targets), **fold),
    )
    assert headless(arm, seconds=0.1)["at the end"] == fold["text"]


def test_a_step_that_fails_without_a_page_keeps_what_was_recorded(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    follow, ticks = type(arm.controller).follow, []

    def failing(self, pose, targets):
        ticks.append(pose.k)
        if len(ticks) > 4:
            raise StepError("Nothing holds any more.")
        return follow(self, pose, targets)

    monkeypatch.setattr(type(arm.controller), "follow", failing)
    with pytest.raises(StepError, match="After 4 ticks: Nothing holds any more"):
        headless(arm, seconds=1.0)
    assert load_recording(tmp_path / "recording-001").ticks == 4


def test_an_interrupt_without_a_page_keeps_what_was_recorded(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    tick, ticks = arm.tick, []

    def interrupted(past):
        if len(ticks) == 4:
            raise KeyboardInterrupt
        ticks.append(tick(past))

    monkeypatch.setattr(arm, "tick", interrupted)
    with pytest.raises(KeyboardInterrupt):
        headless(arm, seconds=1.0)
    assert load_recording(tmp_path / "recording-001").ticks == 4


def test_a_script_and_a_replay_contradict_each_other(arm, one_sentence):
    recorded(arm, ticks=2)
    arm.hear({"say": "replay"})
    one_sentence(
        lambda: headless(
            arm, seconds=0.1, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 3)))
        ),
        "targets of its own",
    )


def test_without_a_script_it_goes_round(arm):
    found = headless(arm, seconds=0.5)
    assert 0.0 < found["largest error [mm]"] < 1e3 * LENGTH
    assert np.ptp(arm.replayed.places[:, 0, 0]) > 1e-3


def test_bad_scripts_and_robots_are_sentences(arm, tmp_path, one_sentence):
    file = tmp_path / "way.csv"
    file.write_text("0,1\n1,a\n")
    one_sentence(lambda: load_script(file), "not a table")
    for text, words in (
        ("x,y,z,t\n1,2,3,0\n", "not the time"),
        ("", "as many places"),
        ("0,1,2,3\n1,2\n", "as many places"),
        ("0\n1\n", "as many places"),
        (f"0,{'1' * 5001},0,0\n", "finite|not a table"),
        (f"0,{'1' * 200_000},0,0\n", "field larger"),
    ):
        file.write_text(text)
        one_sentence(lambda: load_script(file), words)
    file.write_text("0,1e9,0,0\n1,0,0,0\n")
    one_sentence(lambda: headless(arm, seconds=0.1, script=load_script(file)), "in metres")
    one_sentence(lambda: load_script(tmp_path / "none.csv"), "cannot be read")
    file.write_text("")
    one_sentence(lambda: load_script(file), "not a table")
    one_sentence(
        lambda: headless(
            arm, seconds=1.0, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 2)))
        ),
        "3 for each of laser",
    )
    one_sentence(lambda: headless(arm, seconds=0.0), "must be a positive")
    one_sentence(
        lambda: session_of(line_arm(layers=4, across=2), effectors=("lasr",)),
        "did you mean 'laser'",
    )
    bare = replace(line_arm(layers=4, across=2), effectors={})
    one_sentence(lambda: session_of(bare), "no effector")
    one_sentence(
        lambda: session_of(replace(bare, actuators={}, effectors={"tip": Effector(surface="z+")})),
        "no actuators",
    )
    one_sentence(lambda: session_of(biped()), "biped cannot be held .* --dynamic")


def test_the_guides_snippet_runs(tmp_path, monkeypatch):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "drive.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", guide, re.DOTALL).group(1), names)
    assert names["plan"].status
    assert names["made"].ticks == 30
    assert (tmp_path / "drives" / "circle" / "commands.csv").is_file()
