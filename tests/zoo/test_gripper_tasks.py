"""The experiments of [Zimmermann2021]: target errors, joint limits, replay, and resumption after
kill -9."""

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
TASK_FACTORIES = {
    **pendulum.TASK_FACTORIES,
    **whip.TASK_FACTORIES,
    **lay_cloth.TASK_FACTORIES,
}
every = pytest.mark.parametrize("name", TASK_FACTORIES)


@cache
def performed(name):
    """Return (outcome, trajectory, plan.json) of an experiment with quick settings, without report
    and animation."""
    experiment = find(name)
    with TemporaryDirectory() as folder:
        here = ExperimentRun(
            settings=experiment.resolve_settings(quick=True), folder=Path(folder), identity=name
        )
        return (
            experiment.perform(here),
            read_trajectory(folder),
            read_json(Path(folder) / "plan" / "plan.json"),
        )


def task_of(name):
    return TASK_FACTORIES[name](find(name).resolve_settings(quick=True))


def test_registry_contains_every_experiment_of_the_paper():
    assert {*TASK_FACTORIES, "whip-feedback", "pendulum-strike"} == {
        name for name in EXPERIMENTS if find(name).paper == "003"
    }


@every
def test_every_target_is_reached_within_a_centimetre(name):
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
    ]  # a target at the initial position would test nothing
    assert all(
        np.linalg.norm(
            robot.effector_position(goal.effector, first) - np.atleast_2d(goal.target)[-1]
        )
        > 0.05
        for goal in task.targets
    )


@every
def test_arm_controls_satisfy_joint_speed_and_acceleration_limits(name):
    """Compare with the limits in the arm files. The arms start at rest."""
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
    acceleration = np.diff(np.vstack([np.zeros_like(start), rate]), axis=0) / h
    assert np.all(u >= lower - 1e-9)
    assert np.all(u <= upper + 1e-9)
    assert np.all(np.abs(rate) <= speed * (1.0 + 1e-8))
    assert np.all(np.abs(acceleration) <= strength * (1.0 + 1e-8))


@every
def test_replay_equals_plan_bit_for_bit(name):
    outcome, path, plan = performed(name)
    assert outcome.metrics["replay cost equals plan cost"].value
    np.testing.assert_array_equal(path.controls, np.array(plan["controls"]))
    assert outcome.metrics["objective"].value == plan["cost"]
    assert plan["status"].startswith("converged")
    costs = [row["cost"] for row in plan["history"]]
    assert np.all(np.diff(costs) <= 0.0)
    assert costs[-1] == plan["cost"] < 0.5 * costs[0]


@pytest.mark.parametrize("name", [name for name in TASK_FACTORIES if "cloth" not in name])
def test_targets_are_hit_along_the_given_directions(name):
    """The velocity at each target has a positive component along the direction of the hit, and the
    reported speed is its length."""
    outcome, path, _ = performed(name)
    task = task_of(name)
    model, count = task.model, 0
    for goal in task.terms:
        if getattr(goal, "quantity", "") == "velocity":
            count += 1
            x = path.path[round(goal.time / model.dt)]
            velocity = model.effector_rows(goal.effector) @ model.space.velocity(x)
            reported = outcome.metrics[f"speed of '{goal.effector}' at target {count}"].value
            assert reported == pytest.approx(np.linalg.norm(velocity))
            assert velocity @ goal.target > 0.6 * np.linalg.norm(goal.target) * reported > 0.0
    assert count == len(np.atleast_1d(task.targets[0].time))


def test_friction_of_the_table_shortens_the_slide_of_the_strip():
    outcome, _, _ = performed("cloth-thin")
    slides = {
        case: outcome.metrics[f"path of the corners in 0.4 s after the plan, {case} friction"].value
        for case in ("with", "without")
    }
    assert 0.0 < slides["with"] < 0.75 * slides["without"]


def test_killed_planning_resumes_to_the_same_optimum(tmp_path):
    name, settings = "whip-1", {"layers": "5", "steps": "16"}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    whole = find(name).perform(
        ExperimentRun(
            settings=find(name).resolve_settings(settings, quick=True),
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
