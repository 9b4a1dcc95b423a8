"""Tasks in robot files, run completely with a robot that is not in the zoo."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pliant as pl
from pliant.robot_files import load_task
from pliant.store import read_trajectory

FINGER = """
name = "finger"
[geometry]
shape = "box"
size = [0.02, 0.02, 0.10]
divisions = [1, 1, 4]
[material]
E = 5e5
nu = 0.4
density = 1000.0
[[supports]]
region = "z-"
[actuators.left]
type = "cable"
points = [[0.001, 0.01, 0.02], [0.001, 0.01, 0.099]]
limits = [0.0, 8.0]
[actuators.right]
type = "cable"
points = [[0.019, 0.01, 0.02], [0.019, 0.01, 0.099]]
limits = [0.0, 8.0]
[effectors.tip]
point = [0.01, 0.01, 0.10]
"""
PLAN = """
[task]
type = "plan"
dt = 0.02
steps = 15
[[task.goals]]
effector = "tip"
target = [0.016, 0.0, 0.0]
axes = "x"
time = 0.3
weight = 1e4
[[task.effort]]
weight = 1e-6
order = 1
[[task.limits]]
lower = -60.0
upper = 60.0
order = 1
"""
FOLLOW = """
[task]
type = "follow"
steps = 12
[[task.paths]]
effector = "tip"
times = [0, 12]
values = [[0.01, 0.01, 0.10], [0.016, 0.01, 0.10]]
axes = "x"
"""
FILES = ("report.html", "result.json", "animation.mp4", "picture.png")


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess:
    (folder / "finger.toml").write_text(FINGER + text)
    command = [sys.executable, "-m", "pliant", "run", "finger.toml", "--quick", "--out", "out"]
    return subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, timeout=600
    )


def metric(folder: Path, name: str) -> float:
    return json.loads((folder / "out" / "result.json").read_text())["metrics"][name]["value"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned")
    return folder, run(folder, PLAN)


def test_plan_task_reaches_its_goal_and_writes_the_report(planned):
    folder, done = planned
    assert done.returncode == 0, done.stderr
    assert all((folder / "out" / name).is_file() for name in (*FILES, "plan.csv"))
    assert metric(folder, "largest goal error") < 1e-4
    assert abs(metric(folder, "final tip x") - 0.016) < 1e-4


def test_planned_controls_satisfy_rate_limits_and_reproduce_states(planned):
    folder, _ = planned
    found = read_trajectory(folder / "out")
    task = load_task(folder / "finger.toml")
    rates = np.diff(found.controls, axis=0) / task.dt
    assert np.abs(rates).max() <= 60.0 * (1.0 + 1e-9)
    again = pl.simulate(task.model(), found.controls)
    np.testing.assert_allclose(again.states[1:], found.states, atol=1e-9)


def test_plan_that_violates_a_constraint_ends_with_status_one(tmp_path):
    blocked = PLAN + '[[task.keep_out]]\nshape = "sphere"\neffector = "tip"\n'
    blocked += "centre = [0.01, 0.01, 0.10]\nradius = 0.004\n"
    done = run(tmp_path, blocked)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_follow_task_tracks_its_path_and_writes_the_report(tmp_path):
    done = run(tmp_path, FOLLOW, "--set", "steps=12")
    assert done.returncode == 0, done.stderr
    assert all((tmp_path / "out" / name).is_file() for name in FILES)
    assert metric(tmp_path, "final distance to target") < 1e-4
    assert abs(metric(tmp_path, "final tip x") - 0.016) < 1e-4


def test_follow_task_that_misses_its_target_ends_with_status_one(tmp_path):
    done = run(tmp_path, FOLLOW.replace("[0.016, 0.01, 0.10]]", "[0.1, 0.01, 0.10]]"))
    assert done.returncode == 1, done.stderr
    assert "more than the tolerance" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (PLAN.replace('"plan"', '"plans"'), "there is no type"),
        (PLAN.replace('effector = "tip"', 'effector = "tipp"'), "'tipp'"),
        (PLAN.replace("time = 0.3", "time = 3.0"), "3"),
        (PLAN.replace("dt = 0.02\n", ""), "needs a time step"),
        (PLAN + '[[task.keep_out]]\nshape = "cube"\neffector = "tip"\n', "cube"),
        (PLAN.replace("steps = 15", 'steps = 15\nmethod = "magic"'), "magic"),
        (PLAN.split("[[task.goals]]")[0], "goals"),
        (PLAN.split("[[task.goals]]")[0] + "goals = []\n", "no goal"),
        (FOLLOW.replace("steps = 12", "steps = 12\ntolerance = -1.0"), "tolerance"),
        (FOLLOW.replace('type = "follow"', 'type = "follow"\nrule = "bdf2"\ndt = 0.01'), "bdf2"),
        (FOLLOW.split("[[task.paths]]")[0], "paths"),
        (FOLLOW.replace("[0, 12]", "[0, 12, 13]"), "one row for each time"),
        (FOLLOW.replace('"tip"', '"wrist"'), "wrist"),
        (FOLLOW.replace('axes = "x"', 'axes = "w"'), "w"),
    ],
)
def test_invalid_task_gives_one_clear_error(tmp_path, text, fault):
    done = run(tmp_path, text)
    assert done.returncode == 2
    assert fault in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


GOAL = '[[task.goals]]\neffector = "tip"\ntarget = [0.016, 0.0, 0.0]\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (PLAN.replace('effector = "tip"', 'effector = "tipp"'), "task.goals[0]"),
        (PLAN + GOAL + "time = 3.0\n", "task.goals[1]"),
        (PLAN.replace("weight = 1e-6", "weight = [1e-6, 1.0, 1.0]"), "task.effort[0]"),
        (PLAN.replace("upper = 60.0", "upper = [60.0, 60.0, 60.0]"), "task.limits[0]"),
        (
            PLAN + '[[task.keep_out]]\nshape = "sphere"\ncentre = [0.0, 0.0, 0.0]\n'
            'radius = 0.01\neffector = "wrist"\n',
            "task.keep_out[0]",
        ),
        (PLAN + '[[task.strokes]]\nactuator = "third"\nupper = 0.01\n', "task.strokes[0]"),
        (FOLLOW.replace('"tip"', '"wrist"'), "task.paths[0]"),
        (FOLLOW.replace('axes = "x"', 'axes = "w"'), "task.paths[0]"),
        (FOLLOW.replace('axes = "x"', "weight = -1.0"), "task.paths[0]"),
        (FOLLOW.replace("steps = 12", "steps = 12\nfixed = { third = 1.0 }"), "task.fixed.third"),
        (FOLLOW + '[[task.strokes]]\nactuator = "third"\nupper = 0.01\n', "task.strokes[0]"),
        (FOLLOW + "[[task.limits]]\nupper = [1.0, 1.0, 1.0]\n", "task.limits[0]"),
    ],
)
def test_error_in_a_task_names_its_place(tmp_path, text, place):
    (tmp_path / "finger.toml").write_text(FINGER + text)
    with pytest.raises(pl.InputError, match=f"finger.toml, {re.escape(place)}: "):
        load_task(tmp_path / "finger.toml")


def test_controller_log_writes_report_for_any_robot(tmp_path):
    (tmp_path / "finger.toml").write_text(FINGER)
    model = pl.Quasistatic(pl.load_robot(tmp_path / "finger.toml"))
    controller = pl.inverse_control(model, "tip", directions="x")
    path = np.linspace([0.01, 0.01, 0.10], [0.016, 0.01, 0.10], 12)
    log = controller.track(path)
    assert log.status.ok
    assert abs(log.positions[-1, 0, 0] - 0.016) < 1e-4
    page = log.report(tmp_path / "log", small=True)
    assert "Tracking error" in page.read_text()
    assert all((tmp_path / "log" / name).is_file() for name in FILES)
    assert len(repr(log)) < 300
    assert "<img" in log._repr_html_()
    with pytest.raises(pl.InputError, match="targets"):
        controller.track(path[:, :2])
    with pytest.raises(pl.InputError, match="no targets"):
        controller.track(path[:0])
    for wrong in ("circle", lambda time: path[0], None, 3.0):
        with pytest.raises(pl.InputError, match="array of targets"):
            controller.track(wrong)
