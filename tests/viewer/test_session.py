"""Sessions: the robot reaches its target, follows manual controls, and reports problems."""

from dataclasses import replace

import numpy as np
import pytest
from served_robots import LENGTH, REACHABLE, move_target

from pliant.core import InputError, StepError
from pliant.dynamics import Quasistatic, equilibrium
from pliant.planners import READY
from pliant.viewer import make_session
from pliant.zoo.robots import line_arm


def test_robot_reaches_its_target(arm):
    move_target(arm, REACHABLE)
    assert (
        np.linalg.norm(arm.effector_positions["laser"] - arm.command.targets["laser"])
        < 1e-4 * LENGTH
    )
    at_rest = equilibrium(Quasistatic(arm.robot), arm.state.u)
    np.testing.assert_allclose(arm.position, at_rest.x, atol=1e-6 * LENGTH)


def test_manual_mode_reaches_equilibrium_of_controls(arm):
    arm.handle_message({"type": "mode", "mode": "manual"})
    arm.handle_message({"type": "controls", "values": [3.0, 0.0, 1.0, -4.0]})
    for _ in range(40):
        arm.step()
    np.testing.assert_allclose(arm.state.u, [3.0, 0.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(
        arm.position,
        equilibrium(Quasistatic(arm.robot), arm.state.u, x0=arm.position).x,
        atol=1e-6 * LENGTH,
    )


def test_mode_change_does_not_move_robot(arm):
    move_target(arm, np.array([0.01, 0.0, 0.0]))
    before, u = arm.position.copy(), arm.state.u.copy()
    for mode in ("manual", "follow"):
        arm.handle_message({"type": "mode", "mode": mode})
        arm.step()
        np.testing.assert_allclose(arm.position, before, atol=1e-5 * LENGTH)
    np.testing.assert_allclose(arm.state.u, u, atol=1e-2)


def test_pause_stops_robot_and_time(arm):
    arm.handle_message({"type": "pause", "on": True})
    before, time, k = arm.position.copy(), arm.time, arm.state.k
    move_target(arm, np.array([0.01, 0.0, 0.0]), steps=5)
    np.testing.assert_array_equal(arm.position, before)
    assert (arm.time, arm.state.k) == (time, k)
    arm.handle_message({"type": "pause", "on": False})
    arm.step()
    assert np.abs(arm.position - before).max() > 0.0


def test_reset_restores_initial_state(arm):
    first = arm.position.copy()
    move_target(arm, np.array([0.01, 0.0, 0.0]))
    arm.handle_message({"type": "reset"})
    np.testing.assert_array_equal(arm.position, first)
    np.testing.assert_array_equal(arm.command.targets["laser"], arm.effector_positions["laser"])


def test_change_of_effector_keeps_state(arm):
    move_target(arm, np.array([0.01, 0.0, 0.0]))
    before = arm.state
    arm.handle_message({"type": "active", "effectors": ["laser base", "laser"]})
    assert arm.active == ("laser", "laser base")
    np.testing.assert_array_equal(arm.state.x, before.x)
    assert (arm.state.k, arm.state.stable_equilibrium) == (before.k, before.stable_equilibrium)
    arm.step()
    assert arm.state.positions.shape == (2, 3)


def test_change_of_effector_keeps_moving_supports():
    robot = line_arm(layers=4, across=2)
    moving = make_session(
        replace(
            robot,
            supports=[replace(s, motion=lambda t: (0.02 * t, 0.0, 0.0)) for s in robot.supports],
        )
    )
    for _ in range(60):
        moving.step()
    before = moving.position.copy()
    moving.handle_message({"type": "active", "effectors": ["laser base"]})
    np.testing.assert_array_equal(moving.position, before)
    moving.handle_message({"type": "mode", "mode": "manual"})
    moving.step()
    supported = moving.picture.rest[:, 2] == 0.0
    np.testing.assert_allclose(
        (moving.position - before).reshape(-1, 3)[supported],
        [[0.02 / 60.0, 0.0, 0.0]] * supported.sum(),
        atol=1e-12,
    )


def test_invalid_message_keeps_command(arm):
    command = arm.command
    for message in (
        {"type": "replay"},
        {"type": "target", "effector": "laser", "at": [None, 0, 0]},
        {"type": "mode", "mode": "x"},
    ):
        with pytest.raises(InputError):
            arm.handle_message(message)
        assert arm.command is command


def test_failed_step_pauses_with_warning(arm, monkeypatch):
    def fails(pose, targets):
        raise StepError("No equilibrium was found; move the target closer.")

    before = arm.state
    with monkeypatch.context() as patch:
        patch.setattr(
            type(arm.controller), "follow", lambda self, pose, targets: fails(pose, targets)
        )
        arm.step()
    assert arm.state is before
    assert arm.command.paused
    assert "closer" in arm.warning


def test_error_is_cleared_by_reset_and_change_of_effector(arm):
    move_target(arm, np.array([0.5, 0.0, 0.0]))
    assert arm.error > 0.1
    arm.handle_message({"type": "pause", "on": True})
    arm.handle_message({"type": "active", "effectors": ["laser base"]})
    assert (arm.error, arm.state.outcome) == (0.0, READY)
    arm.handle_message({"type": "active", "effectors": ["laser"]})
    move_target(arm, np.array([0.5, 0.0, 0.0]), steps=0)
    arm.handle_message({"type": "pause", "on": False})
    arm.step()
    assert arm.error > 0.1
    arm.handle_message({"type": "pause", "on": True})
    arm.handle_message({"type": "reset"})
    assert arm.error == 0.0


def test_warning_stays_until_user_acts(arm):
    for message in (
        {"type": "pause", "on": True},
        {"type": "record", "on": True},
        {"type": "record", "on": False},
    ):
        arm.handle_message(message)
    move_target(arm, REACHABLE, steps=1)
    arm.handle_message({"type": "colour", "by": arm.command_ranges.colours[0]})
    assert arm.current_warning == "Nothing was recorded: the robot was paused."
    arm.handle_message({"type": "pause", "on": False})
    assert arm.current_warning == ""
