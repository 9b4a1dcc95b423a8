"""A session leads the robot to its target, obeys by hand, and says what went wrong."""

from dataclasses import replace

import numpy as np
import pytest
from stand import LENGTH, REACHABLE, led

from pliant.core import InputError, StepError
from pliant.dynamics import Quasistatic, equilibrium
from pliant.planners import READY
from pliant.viewer import session_of
from pliant.zoo.robots import line_arm


def test_the_robot_comes_to_its_target(arm):
    led(arm, REACHABLE)
    assert np.linalg.norm(arm.places["laser"] - arm.wish.targets["laser"]) < 1e-4 * LENGTH
    still = equilibrium(Quasistatic(arm.robot), arm.pose.u)
    np.testing.assert_allclose(arm.position, still.x, atol=1e-6 * LENGTH)


def test_by_hand_the_robot_comes_to_the_balance_of_its_controls(arm):
    arm.hear({"say": "mode", "mode": "manual"})
    arm.hear({"say": "controls", "values": [3.0, 0.0, 1.0, -4.0]})
    for _ in range(40):
        arm.tick()
    np.testing.assert_allclose(arm.pose.u, [3.0, 0.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(
        arm.position,
        equilibrium(Quasistatic(arm.robot), arm.pose.u, x0=arm.position).x,
        atol=1e-6 * LENGTH,
    )


def test_nothing_jumps_when_the_mode_changes(arm):
    led(arm, np.array([0.01, 0.0, 0.0]))
    before, u = arm.position.copy(), arm.pose.u.copy()
    for mode in ("manual", "follow"):
        arm.hear({"say": "mode", "mode": mode})
        arm.tick()
        np.testing.assert_allclose(arm.position, before, atol=1e-5 * LENGTH)
    np.testing.assert_allclose(arm.pose.u, u, atol=1e-2)


def test_a_pause_stops_the_robot_and_its_time(arm):
    arm.hear({"say": "pause", "on": True})
    before, time, k = arm.position.copy(), arm.time, arm.pose.k
    led(arm, np.array([0.01, 0.0, 0.0]), ticks=5)
    np.testing.assert_array_equal(arm.position, before)
    assert (arm.time, arm.pose.k) == (time, k)
    arm.hear({"say": "pause", "on": False})
    arm.tick()
    assert np.abs(arm.position - before).max() > 0.0


def test_a_reset_begins_anew(arm):
    first = arm.position.copy()
    led(arm, np.array([0.01, 0.0, 0.0]))
    arm.hear({"say": "reset"})
    np.testing.assert_array_equal(arm.position, first)
    np.testing.assert_array_equal(arm.wish.targets["laser"], arm.places["laser"])


def test_another_effector_takes_over_where_the_robot_is(arm):
    led(arm, np.array([0.01, 0.0, 0.0]))
    before = arm.pose
    arm.hear({"say": "active", "effectors": ["laser base", "laser"]})
    assert arm.active == ("laser", "laser base")
    np.testing.assert_array_equal(arm.pose.x, before.x)
    assert (arm.pose.k, arm.pose.firm) == (before.k, before.firm)
    arm.tick()
    assert arm.pose.places.shape == (2, 3)


def test_a_robot_whose_support_moves_is_not_thrown_back_when_another_effector_takes_over():
    robot = line_arm(layers=4, across=2)
    moving = session_of(
        replace(
            robot,
            supports=[replace(s, motion=lambda t: (0.02 * t, 0.0, 0.0)) for s in robot.supports],
        )
    )
    for _ in range(60):
        moving.tick()
    before = moving.position.copy()
    moving.hear({"say": "active", "effectors": ["laser base"]})
    np.testing.assert_array_equal(moving.position, before)
    moving.hear({"say": "mode", "mode": "manual"})
    moving.tick()
    held = moving.picture.rest[:, 2] == 0.0
    np.testing.assert_allclose(
        (moving.position - before).reshape(-1, 3)[held],
        [[0.02 / 60.0, 0.0, 0.0]] * held.sum(),
        atol=1e-12,
    )


def test_a_wish_that_is_refused_leaves_everything_as_it_was(arm):
    wish = arm.wish
    for message in (
        {"say": "replay"},
        {"say": "target", "effector": "laser", "at": [None, 0, 0]},
        {"say": "mode", "mode": "x"},
    ):
        with pytest.raises(InputError):
            arm.hear(message)
        assert arm.wish is wish


def test_a_step_that_fails_pauses_and_says_why(arm, monkeypatch):
    def fails(pose, targets):
        raise StepError("No balance was found; bring the target nearer.")

    before = arm.pose
    with monkeypatch.context() as patch:
        patch.setattr(
            type(arm.controller), "follow", lambda self, pose, targets: fails(pose, targets)
        )
        arm.tick()
    assert arm.pose is before
    assert arm.wish.paused
    assert "nearer" in arm.said


def test_what_is_shown_after_a_reset_or_another_effector_is_of_now(arm):
    led(arm, np.array([0.5, 0.0, 0.0]))
    assert arm.error > 0.1
    arm.hear({"say": "pause", "on": True})
    arm.hear({"say": "active", "effectors": ["laser base"]})
    assert (arm.error, arm.pose.state) == (0.0, READY)
    arm.hear({"say": "active", "effectors": ["laser"]})
    led(arm, np.array([0.5, 0.0, 0.0]), ticks=0)
    arm.hear({"say": "pause", "on": False})
    arm.tick()
    assert arm.error > 0.1
    arm.hear({"say": "pause", "on": True})
    arm.hear({"say": "reset"})
    assert arm.error == 0.0


def test_what_went_wrong_is_said_until_somebody_answers_it(arm):
    for word in (
        {"say": "pause", "on": True},
        {"say": "record", "on": True},
        {"say": "record", "on": False},
    ):
        arm.hear(word)
    led(arm, REACHABLE, ticks=1)
    arm.hear({"say": "colour", "by": arm.frame.colours[0]})
    assert arm.trouble == "Nothing was recorded: the robot was paused."
    arm.hear({"say": "pause", "on": False})
    assert arm.trouble == ""
