"""Recordings of a session can be saved, replayed and evaluated as plans."""

import csv
import json
import signal
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from served_robots import LENGTH, REACHABLE, make_recording, move_target, small_arm

import pliant as pl
from pliant.core import PliantError, StepError
from pliant.dynamics import ImplicitEuler, Quasistatic, SemiImplicit
from pliant.planners import Options, load_controls
from pliant.problem import Effort, Goal
from pliant.viewer import drive, headless, load_recording


def test_saved_recording_is_loaded_unchanged(arm, tmp_path):
    recording = make_recording(arm)
    recording.save(tmp_path)
    again = load_recording(tmp_path)
    assert recording.content() == again.content()
    controls, history = load_controls(tmp_path, (recording.n_steps, 4))
    np.testing.assert_array_equal(controls, recording.controls)
    assert history == []
    np.testing.assert_array_equal(recording.positions[-1, 0], arm.effector_positions["laser"])


def test_commands_are_a_table_with_times(arm):
    recording = make_recording(arm)
    head, *rows = list(csv.reader(StringIO(recording.commands())))
    assert head == [
        "time [s]",
        "front-left [N]",
        "front-right [N]",
        "back-right [N]",
        "back-left [N]",
    ]
    table = np.array(rows, float)
    assert np.all(np.diff(table[:, 0]) > 0.0)
    np.testing.assert_array_equal(table[:, 1:], recording.controls)


def test_quasistatic_replay_ends_at_the_same_equilibrium(arm):
    move_target(arm, np.array([-0.004, 0.0, 0.0]), steps=10)
    recording, end = make_recording(arm, steps=40), arm.position.copy()
    arm.handle_message({"type": "reset"})
    arm.handle_message({"type": "replay"})
    positions = []
    for _ in range(recording.n_steps):
        arm.step()
        positions.append(arm.effector_positions["laser"])
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(
        positions, recording.positions[:, 0], atol=3e-3 * LENGTH
    )  # a moving robot is not in equilibrium after each control step
    np.testing.assert_allclose(arm.position, end, atol=1e-5 * LENGTH)


@pytest.fixture(scope="module")
def dynamic_arm():
    return small_arm(dynamic=True)


def test_recording_during_a_replay_does_not_stop_it(arm):
    """The replay continues to its end although a shorter recording was made during it."""
    recording = make_recording(arm, steps=12)
    arm.handle_message({"type": "replay"})
    for _ in range(4):
        arm.step()
    again = make_recording(arm, steps=2)
    assert again.n_steps == 2
    assert arm.command.mode == "replay"
    for _ in range(recording.n_steps - 6):
        arm.step()
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(arm.state.u, recording.controls[-1], atol=1e-12)
    np.testing.assert_array_equal(again.controls, recording.controls[4:6])


def test_failed_control_step_of_a_replay_is_repeated(arm, monkeypatch):
    recording = make_recording(arm, steps=3)
    arm.handle_message({"type": "replay"})

    def fails(self, pose, u):
        raise StepError("There is no equilibrium.")

    for row in range(recording.n_steps):
        with monkeypatch.context() as patch:
            patch.setattr(type(arm.controller), "manual", fails)
            arm.step()
        assert arm.command.paused
        assert (arm.command.mode, arm.active_replay, arm.next_row) == ("replay", recording, row)
        arm.handle_message({"type": "pause", "on": False})
        arm.step()
        np.testing.assert_array_equal(arm.command.controls, recording.controls[row])
    assert arm.command.mode == "manual"


def test_replay_reports_distance_to_recorded_targets(arm):
    recording = make_recording(arm, steps=5)
    arm.handle_message({"type": "replay"})
    for k in range(recording.n_steps):
        arm.step()
        assert arm.error == pytest.approx(
            np.linalg.norm(recording.targets[k, 0] - arm.effector_positions["laser"]), rel=1e-12
        )
        assert arm.error > 1e-4
    arm.step()
    assert arm.error == 0.0  # manual mode has no target


def test_replay_starts_in_initial_state_of_its_recording(arm):
    move_target(arm, np.array([0.01, 0.0, 0.0]), steps=3)  # still moving, not in equilibrium
    recording = make_recording(arm, steps=3)
    arm.handle_message({"type": "replay"})
    np.testing.assert_array_equal(arm.state.x, recording.start)
    np.testing.assert_array_equal(arm.state.positions, [arm.effector_positions["laser"]])


def test_failed_reset_or_replay_keeps_the_session_state(arm, monkeypatch):
    """The reset finds no first equilibrium, and the replay cannot start."""
    make_recording(arm, steps=3)
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    before, active, controller = arm.state, arm.active, arm.controller

    def fail(self, *state):
        raise StepError("No equilibrium was found.")

    monkeypatch.setattr(type(arm.controller), "begin", fail)
    monkeypatch.setattr(type(arm.controller), "resume", fail)
    with pytest.raises(StepError):
        arm.handle_message({"type": "reset"})
    arm.step()
    assert arm.command.recording
    assert len(arm.recorder.rows) == 2
    arm.handle_message({"type": "record", "on": False})
    before = arm.state
    with pytest.raises(StepError):
        arm.handle_message({"type": "replay"})
    assert (arm.state, arm.active, arm.controller, arm.command.mode, arm.active_replay) == (
        before,
        active,
        controller,
        "follow",
        None,
    )


def test_dynamic_replay_is_equal_to_rounding(dynamic_arm):
    # the recording starts with a moving robot
    move_target(dynamic_arm, np.array([0.004, 0.0, 0.0]), steps=7)
    recording, end = make_recording(dynamic_arm), dynamic_arm.state.x.copy()
    np.testing.assert_allclose(
        recording.times, np.arange(1, recording.n_steps + 1) / 60.0, rtol=1e-12
    )
    dynamic_arm.handle_message({"type": "replay"})
    for _ in range(recording.n_steps):
        dynamic_arm.step()
    np.testing.assert_allclose(dynamic_arm.state.x, end, atol=1e-12)  # [m] and [m/s]


def test_plan_of_recording_has_states_and_tracking_cost_of_recording(dynamic_arm):
    dynamic_arm.handle_message({"type": "reset"})
    recording = make_recording(dynamic_arm)
    model = SemiImplicit(dynamic_arm.robot, dt=1.0 / 60.0)
    plan = recording.plan(model)
    assert plan.status
    assert plan.limit_violation == 0.0
    np.testing.assert_allclose(plan.states[-1], dynamic_arm.state.x, atol=1e-12)
    positions = model.effector_rows("laser") @ plan.states[1:, : model.space.n_dofs].T
    np.testing.assert_allclose(
        plan.cost, 0.5 * np.sum((positions.T - recording.targets[:, 0]) ** 2) * model.dt, rtol=1e-9
    )


def test_plan_of_recording_requires_same_time_step_and_start(dynamic_arm, raises_clear_error):
    recording = make_recording(dynamic_arm, steps=3)
    raises_clear_error(
        lambda: recording.plan(SemiImplicit(dynamic_arm.robot, dt=0.01)),
        "control period of 0.0166667 s and the model a time step of 0.01 s",
    )
    moving = SemiImplicit(
        replace(
            dynamic_arm.robot,
            supports=[replace(s, motion=lambda t: (0, 0, 0)) for s in dynamic_arm.robot.supports],
        ),
        dt=1 / 60,
    )
    raises_clear_error(
        lambda: replace(recording, first_step=5).plan(moving), "a plan starts at time zero"
    )
    assert replace(recording, first_step=0).plan(moving).status


def test_replay_of_other_robot_raises(arm, dynamic_arm, tmp_path, raises_clear_error):
    recording = make_recording(dynamic_arm)
    arm.last_recording = recording
    raises_clear_error(lambda: arm.handle_message({"type": "replay"}), "dynamic line_arm")
    arm.last_recording = replace(make_recording(arm), names=("a", "b", "c", "d"))
    raises_clear_error(lambda: arm.handle_message({"type": "replay"}), "with a, b, c, d")
    (tmp_path / "plan.json").write_text('{"controls": [[1]], "history": []}')
    raises_clear_error(lambda: load_recording(tmp_path), "not a recording")
    raises_clear_error(lambda: load_recording(tmp_path / "missing"), "does not exist")
    arm.handle_message({"type": "pause", "on": True})
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    arm.handle_message({"type": "record", "on": False})
    assert "paused" in arm.warning


@pytest.mark.parametrize(
    "change", [{"dt": "abc"}, {"first_step": "x"}, {"first_step": -1}, {"units": []}, {"dt": -0.1}]
)
def test_damaged_recording_raises(arm, tmp_path, raises_clear_error, change):
    recording = make_recording(arm, steps=3)
    (tmp_path / "plan.json").write_text(json.dumps({**recording.content(), **change}))
    raises_clear_error(lambda: load_recording(tmp_path), "not a recording")
    backwards = {**recording.content(), "times": recording.times[::-1].tolist()}
    (tmp_path / "plan.json").write_text(json.dumps(backwards))
    raises_clear_error(lambda: load_recording(tmp_path), "not a recording")


def test_replay_with_unknown_effector_raises(arm, raises_clear_error):
    arm.last_recording = replace(make_recording(arm, steps=3), effectors=("nose",))
    raises_clear_error(lambda: arm.handle_message({"type": "replay"}), "nose")


@pytest.fixture
def unwritable_folder(arm, monkeypatch, tmp_path):
    """Replace the recording folder of the arm by a file."""
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr(arm, "folder", tmp_path / "taken")


def test_unsaved_recording_is_kept_with_warning(arm, unwritable_folder):
    recording = make_recording(arm, steps=3)
    assert "could not be saved" in arm.warning
    assert arm.last_recording is recording
    assert recording.n_steps == 3
    arm.step()  # the robot still moves
    assert not arm.command.recording
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    arm.handle_message({"type": "reset"})
    assert "could not be saved" in arm.warning


def test_recording_lost_at_exit_raises(arm, unwritable_folder, raises_clear_error):
    raises_clear_error(lambda: headless(arm, seconds=0.05), "could not be saved .* record again")
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    raises_clear_error(
        lambda: drive(arm, on_ready=lambda url: signal.raise_signal(signal.SIGINT)),
        "could not be saved .* record again",
    )


def test_recordings_are_saved_in_numbered_folders(arm, tmp_path):
    arm.folder, arm.recordings = tmp_path, 0
    try:
        make_recording(arm, steps=3)
        make_recording(arm, steps=3)
    finally:
        arm.folder = None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recording-001", "recording-002"]
    first = (tmp_path / "recording-001" / "commands.csv").read_text()
    arm.folder, arm.recordings = tmp_path, 0  # as in another session
    try:
        make_recording(arm, steps=2)
    finally:
        arm.folder = None
    assert (tmp_path / "recording-003").is_dir()
    assert (tmp_path / "recording-001" / "commands.csv").read_text() == first
    assert (tmp_path / "recording-002" / "commands.csv").is_file()


def test_current_recording_is_written_in_parts(arm, monkeypatch, tmp_path, raises_clear_error):
    monkeypatch.setattr(arm, "folder", tmp_path)
    monkeypatch.setattr("pliant.viewer.recording_writer.WRITE_INTERVAL", 0.0)
    home = tmp_path / "recording-001"
    arm.handle_message({"type": "record", "on": True})
    for k in range(1, 4):
        move_target(arm, REACHABLE, steps=1)
        arm.recording_writer._writing.join()
        assert len(list(home.iterdir())) == k
        assert load_recording(home).content() == arm.recorder.recording().content()
    arm.handle_message({"type": "record", "on": False})
    assert sorted(path.name for path in home.iterdir()) == ["commands.csv", "plan.json"]
    assert load_recording(home).content() == arm.last_recording.content()
    (tmp_path / "partial-000000.json").write_text("{}")
    raises_clear_error(lambda: load_recording(tmp_path), "not a recording")


@pytest.fixture
def arm_after_full_disk(arm, monkeypatch, tmp_path):
    """Yield the arm with a recording of three control steps that a full disk did not accept."""

    def full(path, data):
        raise PliantError("The disk is full.")

    monkeypatch.setattr(arm, "folder", tmp_path)
    monkeypatch.setattr("pliant.viewer.recording_writer.WRITE_INTERVAL", 0.0)
    arm.handle_message({"type": "record", "on": True})
    with monkeypatch.context() as patch:
        patch.setattr("pliant.viewer.recording_writer.write_atomic", full)
        for _ in range(3):
            arm.step()
            arm.recording_writer._writing.join()
    message = "The current recording is not on disk yet (The disk is full.)"
    assert arm.current_warning.startswith(message)
    yield arm
    arm.close()


def test_part_after_full_disk_contains_all_rows(arm_after_full_disk, tmp_path):
    arm_after_full_disk.step()
    arm_after_full_disk.recording_writer._writing.join()
    assert [path.name for path in tmp_path.iterdir()] == ["recording-001"]
    assert load_recording(tmp_path / "recording-001").n_steps == 4
    assert arm_after_full_disk.current_warning == ""


def test_saved_recording_clears_write_error(arm_after_full_disk, tmp_path):
    arm_after_full_disk.close()
    assert (arm_after_full_disk.current_warning, arm_after_full_disk.save_error) == ("", "")
    assert load_recording(tmp_path / "recording-001").n_steps == 3


def save_plan(model, tmp_path, *, steps: int):
    """Plan a motion of the laser of the small arm, save the plan and return it."""
    start = model.initial_state()
    target = model.effector_rows("laser") @ model.space.position(start) + 0.2 * REACHABLE
    plan = pl.plan(
        model,
        [Goal(effector="laser", target=target, time=steps * model.dt), Effort(weight=1e-7)],
        steps=steps,
        options=Options(iterations=3),
    )
    plan.save(tmp_path / "my-plan")
    return plan


def test_saved_quasistatic_plan_is_replayed_to_its_end(arm, tmp_path):
    plan = save_plan(Quasistatic(arm.robot), tmp_path, steps=2)
    arm.last_recording = recording = load_recording(tmp_path / "my-plan")
    assert (recording.n_steps, recording.dt) == (12, None)
    arm.handle_message({"type": "replay"})
    for _ in range(recording.n_steps):
        arm.step(1 / 60)
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(arm.state.u, plan.controls[-1], atol=1e-12)
    np.testing.assert_allclose(
        arm.effector_positions["laser"], plan.positions["laser"][-1], atol=2e-5 * LENGTH
    )


def test_saved_dynamic_plan_of_same_integrator_is_replayed_exactly(dynamic_arm, tmp_path):
    plan = save_plan(SemiImplicit(dynamic_arm.robot, dt=1 / 60), tmp_path, steps=5)
    dynamic_arm.last_recording = recording = load_recording(tmp_path / "my-plan" / "plan.json")
    np.testing.assert_array_equal(recording.controls, plan.controls)
    dynamic_arm.handle_message({"type": "replay"})
    errors = []
    for _ in range(recording.n_steps):
        dynamic_arm.step()
        errors.append(dynamic_arm.error)
    np.testing.assert_allclose(dynamic_arm.state.x, plan.states[-1], atol=1e-12)
    assert max(errors) < 1e-12  # the targets are the planned positions


def test_dynamic_plan_of_other_time_step_keeps_its_duration(dynamic_arm, tmp_path):
    plan = save_plan(ImplicitEuler(dynamic_arm.robot, dt=0.04), tmp_path, steps=3)
    recording = load_recording(tmp_path / "my-plan")
    assert recording.n_steps == 7  # 0.12 s
    which = [int(np.flatnonzero((plan.controls == u).all(axis=1))[0]) for u in recording.controls]
    assert which == [0, 0, 1, 1, 1, 2, 2]  # the plan is sampled at the middle of each control step
    assert recording.start.shape == dynamic_arm.state.x.shape
    np.testing.assert_allclose(recording.targets[-1, 0], plan.positions["laser"][-1], atol=1e-4)


def test_replay_of_plan_for_other_robot_raises(arm, dynamic_arm, tmp_path, raises_clear_error):
    save_plan(SemiImplicit(dynamic_arm.robot, dt=1 / 60), tmp_path, steps=2)
    recording = load_recording(tmp_path / "my-plan")
    arm.last_recording = recording
    raises_clear_error(
        lambda: arm.handle_message({"type": "replay"}),
        "The plan is of a dynamic line_arm. Add --dynamic",
    )
    # for another robot, --dynamic would not help
    arm.last_recording = replace(recording, digest="0" * 64)
    raises_clear_error(lambda: arm.handle_message({"type": "replay"}), "made for another line_arm")
    dynamic_arm.last_recording = replace(recording, digest="0" * 64)
    raises_clear_error(
        lambda: dynamic_arm.handle_message({"type": "replay"}), "made for another line_arm"
    )
    dynamic_arm.last_recording = replace(recording, dt=None)
    raises_clear_error(
        lambda: dynamic_arm.handle_message({"type": "replay"}), "Leave out --dynamic"
    )
