"""The experiments of [Zimmermann2021]: goal errors, joint limits, replay, and planning that
survives kill -9."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from pliant.store import read_json, read_trajectory
from pliant.zoo.experiment import ExperimentRun, run
from pliant.zoo.experiments import lay_cloth, pendulum, whip
from pliant.zoo.gripper_tasks import arms
from pliant.zoo.registry import EXPERIMENTS, find

pytest.importorskip("pinocchio")
MAKERS = {**pendulum.MAKERS, **whip.MAKERS, **lay_cloth.MAKERS}
every = pytest.mark.parametrize("name", MAKERS)


@cache
def performed(name):
    """(outcome, trajectory, plan.json) of an experiment in its quick setting, without its report
    and film."""
    experiment = find(name)
    with TemporaryDirectory() as folder:
        here = ExperimentRun(
            settings=experiment.chosen(quick=True), folder=Path(folder), identity=name
        )
        return (
            experiment.perform(here),
            read_trajectory(folder),
            read_json(Path(folder) / "plan" / "plan.json"),
        )


def task_of(name):
    return MAKERS[name](find(name).chosen(quick=True))


def test_registry_every_experiment_of_the_paper_is_here():
    assert set(MAKERS) == {name for name in EXPERIMENTS if find(name).paper == "003"}


@every
def test_every_target_is_hit_within_a_centimetre(name):
    outcome, path, _ = performed(name)
    task = task_of(name)
    robot, dt, misses = task.robot, task.time / task.steps, []
    for goal in task.targets:
        for place, t in zip(np.atleast_2d(goal.target), np.atleast_1d(goal.time), strict=True):
            q = path.path[round(t / dt)][: robot.body().rest.size]
            misses.append(np.linalg.norm(robot.effector_position(goal.effector, q) - place))
    assert max(misses) <= 0.01
    assert outcome.metrics["largest target error"].value == pytest.approx(max(misses), abs=1e-12)
    assert outcome.reached, outcome.message
    first = path.path[0][
        : robot.body().rest.size
    ]  # a target that is hit without moving would show nothing
    assert all(
        np.linalg.norm(
            robot.effector_position(goal.effector, first) - np.atleast_2d(goal.target)[-1]
        )
        > 0.05
        for goal in task.targets
    )


@every
def test_the_arms_can_do_it(name):
    """Positions, speeds and accelerations by the arms' own tables, from rest at their start."""
    _, path, _ = performed(name)
    task = task_of(name)
    h, held = task.time / task.steps, arms(task.robot)
    u = path.controls
    assert u.shape == (task.steps, sum(len(arm.joints) for arm in held))
    start = np.concatenate([arm.start for arm in held])
    lower, upper = (np.concatenate([arm.limits[side] for arm in held]) for side in (0, 1))
    speed, strength = (
        np.concatenate([getattr(arm, what) for arm in held])
        for what in ("velocity", "acceleration")
    )
    rate = np.diff(np.vstack([start, u]), axis=0) / h
    bend = np.diff(np.vstack([np.zeros_like(start), rate]), axis=0) / h
    assert np.all(u >= lower - 1e-9)
    assert np.all(u <= upper + 1e-9)
    assert np.all(np.abs(rate) <= speed * (1.0 + 1e-8))
    assert np.all(np.abs(bend) <= strength * (1.0 + 1e-8))


@every
def test_the_replay_is_the_plan_bit_for_bit(name):
    outcome, path, plan = performed(name)
    assert outcome.metrics["replay cost equals plan cost"].value
    np.testing.assert_array_equal(path.controls, np.array(plan["controls"]))
    assert outcome.metrics["objective"].value == plan["cost"]
    assert plan["status"].startswith("converged")
    costs = [row["cost"] for row in plan["history"]]
    assert np.all(np.diff(costs) <= 0.0)
    assert costs[-1] == plan["cost"] < 0.5 * costs[0]


def test_planning_that_is_killed_resumes_to_the_same_optimum(tmp_path):
    name, settings = "whip-1", {"layers": "5", "steps": "16"}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    whole = find(name).perform(
        ExperimentRun(
            settings=find(name).chosen(settings, quick=True),
            folder=tmp_path / "whole",
            identity=name,
        )
    )
    torn = tmp_path / "torn"
    child = subprocess.Popen(
        [sys.executable, "-m", "pliant.cli", "run", name, "--quick", *words, "--out", str(torn)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while _iterations(torn) < 3:
        assert child.poll() is None, "the run ended before it could be killed"
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = read_json(torn / "plan" / "plan.json")
    assert not (torn / "result.json").exists()
    assert kept["status"] == "not finished"
    assert kept["cost"] > 1.001 * whole.metrics["objective"].value
    result = run(find(name), out=torn, quick=True, overrides=settings, resume=True)
    again = read_json(torn / "plan" / "plan.json")
    assert result["status"] == "done"
    assert result["metrics"]["objective"]["value"] == pytest.approx(
        whole.metrics["objective"].value, rel=1e-6
    )
    assert again["history"][: len(kept["history"])] == kept["history"]
    np.testing.assert_array_equal(read_trajectory(torn).controls, np.array(again["controls"]))


def _iterations(folder):
    try:
        return len(json.loads((folder / "plan" / "plan.json").read_text())["history"]) - 1
    except FileNotFoundError:
        return -1
