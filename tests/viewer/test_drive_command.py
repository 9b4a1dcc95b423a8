"""The command `pliant drive` serves a page until Ctrl-C, runs headless, and reports errors."""

import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import pliant as pl
from pliant.cli import main
from pliant.core import InputError
from pliant.planners import Options
from pliant.problem import Effort, Goal
from pliant.viewer import load_recording
from pliant.zoo.registry import find_robot

FILE = """name = "finger"
gravity = [0.0, 0.0, -9.81]
[geometry]
shape = "box"
size = [0.1, 0.02, 0.02]
divisions = [5, 2, 2]
order = 1
[material]
E = 3e5
nu = 0.4
[[supports]]
region = "x-"
[actuators.low]
type = "cable"
points = [[0.0, 0.01, 0.0], [0.05, 0.01, 0.0], [0.1, 0.01, 0.0]]
limits = [0.0, 5.0]
[actuators.high]
type = "cable"
points = [[0.0, 0.01, 0.02], [0.05, 0.01, 0.02], [0.1, 0.01, 0.02]]
limits = [0.0, 5.0]
[effectors.tip]
point = [0.1, 0.01, 0.01]
"""


@pytest.fixture
def finger(tmp_path) -> Path:
    file = tmp_path / "finger.toml"
    file.write_text(FILE)
    return file


@pytest.fixture
def pliant(monkeypatch, capsys):
    """pliant(*words): run a command in this process.

    Return its exit status, standard output and standard error.
    """

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pliant", "drive", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), *capsys.readouterr()

    return run


def test_drive_serves_a_page_until_interrupt(finger):
    child = subprocess.Popen(
        [sys.executable, "-m", "pliant.cli", "drive", str(finger), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    url = child.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=30) as page:
        assert b"<title>" in page.read()
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 0
    child.stdout.close()


def test_saved_plan_is_replayed_and_other_folders_are_rejected(pliant, finger, tmp_path):
    model = pl.Quasistatic(pl.load_robot(finger))
    goal = Goal(effector="tip", target=(0.1, 0.01, 0.012), time=2.0)
    plan = pl.plan(model, [goal, Effort(weight=1e-6)], steps=2, options=Options(iterations=2))
    plan.save(tmp_path / "my-plan")
    words = (str(finger), "--headless", "5", "--replay", str(tmp_path / "my-plan"))
    status, out, errors = pliant(*words)
    assert status == 0, errors
    assert "control steps: 12" in out  # six control steps for each step of the plan
    assert "final state: replayed\n" in out
    out = pliant(*words[:2], "0.1", *words[3:])[1]
    assert "final state: the duration ended before the replay" in out
    status, _, errors = pliant(*words, "--dynamic")
    assert (status, "Leave out --dynamic" in errors) == (2, True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "plan.json").write_text("{}")
    status, _, errors = pliant(*words[:-1], str(tmp_path / "other"))
    assert (status, "or save a plan with plan.save(FOLDER)" in errors) == (2, True)


def test_headless_drive_reports_and_its_recording_is_replayed(pliant, finger, tmp_path):
    status, out, errors = pliant(
        str(finger), "--headless", "0.5", "--record", str(tmp_path / "made")
    )
    assert status == 0, errors
    assert "p99 [ms]" in out
    assert "final state: the target is out of reach" in out
    recording = load_recording(tmp_path / "made" / "recording-001")
    assert recording.names == ("low", "high")
    assert recording.n_steps == 30
    assert (
        pliant(
            str(finger), "--headless", "0.5", "--replay", str(tmp_path / "made" / "recording-001")
        )[0]
        == 0
    )
    assert (
        pliant(
            str(finger), "--headless", "0.2", "--dynamic", "--record", str(tmp_path / "dynamic")
        )[0]
        == 0
    )
    np.testing.assert_allclose(
        load_recording(tmp_path / "dynamic" / "recording-001").times, np.arange(1, 13) / 60.0
    )


def test_killed_process_leaves_its_recording(pliant, finger, tmp_path):
    home = tmp_path / "made" / "recording-001"
    words = ["drive", str(finger), "--headless", "600", "--record", str(home.parent)]
    child = subprocess.Popen([sys.executable, "-m", "pliant.cli", *words])
    while not (home / "partial-000001.json").exists():
        assert child.poll() is None
        time.sleep(0.05)
    child.kill()
    child.wait(timeout=60)
    recording = load_recording(home)
    assert recording.n_steps > 100
    np.testing.assert_allclose(recording.times, np.arange(1, recording.n_steps + 1) / 60.0)
    assert pliant(str(finger), "--headless", "0.2", "--replay", str(home))[0] == 0
    recording.save(home)
    assert sorted(path.name for path in home.iterdir() if path.suffix != ".tmp") == [
        "commands.csv",
        "plan.json",
    ]
    assert load_recording(home).n_steps == recording.n_steps


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diamnd",), "did you mean 'diamond' or"),
        (("missing.toml",), "missing.toml"),
        (("cantilever",), "no actuators"),
        (("{file}", "--effector", "tipp"), "did you mean 'tip'?"),
        (("{file}", "--replay", "{folder}"), "does not exist"),
        (("{file}", "--headless", "-1"), "positive"),
        (("{file}", "--headless", "0.1", "--record", "{file}"), "Recordings cannot be saved"),
        (("{file}", "--script", "targets.csv"), "Add --headless SECONDS"),
        (("{file}", "--allow-remote", "203.0.113.7", "--no-browser"), "cannot be served"),
    ],
)
def test_invalid_input_exits_with_status_2(words, message, pliant, finger, tmp_path):
    status, _, errors = pliant(*(word.format(file=finger, folder=tmp_path) for word in words))
    assert status == 2
    assert message in errors.replace("\n", " ")
    assert "Traceback" not in errors


def test_robots_and_experiments_are_found_by_name():
    assert find_robot("plane-arm").name == "plane_arm"
    assert find_robot("arm-reach").name == "line_arm"
    with pytest.raises(InputError, match="There is no robot or experiment"):
        find_robot("irb14000")
