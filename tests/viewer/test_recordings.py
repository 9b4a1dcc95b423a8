"""What a session records can be saved, replayed and priced as a plan, and is on disk while it is
recorded."""

import csv
import json
import signal
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from served_robots import LENGTH, REACHABLE, led, recorded, small_arm

import pliant as pl
from pliant.core import PliantError, StepError
from pliant.dynamics import ImplicitEuler, Quasistatic, SemiImplicit
from pliant.planners import Options, load_controls
from pliant.problem import Effort, Goal
from pliant.viewer import drive, headless, load_recording


def test_a_recording_is_saved_whole_and_read_back(arm, tmp_path):
    made = recorded(arm)
    made.save(tmp_path)
    again = load_recording(tmp_path)
    assert made.content() == again.content()
    controls, history = load_controls(tmp_path, (made.n_steps, 4))
    np.testing.assert_array_equal(controls, made.controls)
    assert history == []
    np.testing.assert_array_equal(made.positions[-1, 0], arm.effector_positions["laser"])


def test_the_commands_are_a_table_with_times(arm):
    made = recorded(arm)
    head, *rows = list(csv.reader(StringIO(made.commands())))
    assert head == [
        "time [s]",
        "front-left [N]",
        "front-right [N]",
        "back-right [N]",
        "back-left [N]",
    ]
    table = np.array(rows, float)
    assert np.all(np.diff(table[:, 0]) > 0.0)
    np.testing.assert_array_equal(table[:, 1:], made.controls)


def test_a_quasistatic_replay_comes_to_the_same_place(arm):
    led(arm, np.array([-0.004, 0.0, 0.0]), steps=10)
    made, end = recorded(arm, steps=40), arm.position.copy()
    arm.handle_message({"type": "reset"})
    arm.handle_message({"type": "replay"})
    places = []
    for _ in range(made.n_steps):
        arm.step()
        places.append(arm.effector_positions["laser"])
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(
        places, made.positions[:, 0], atol=3e-3 * LENGTH
    )  # on its way a tick is not in balance
    np.testing.assert_allclose(arm.position, end, atol=1e-5 * LENGTH)


@pytest.fixture(scope="module")
def swinging():
    return small_arm(dynamic=True)


def test_a_replay_can_be_recorded_and_goes_on(arm):
    """A recording that is shorter than the replay takes its place only when the replay is over."""
    made = recorded(arm, steps=12)
    arm.handle_message({"type": "replay"})
    for _ in range(4):
        arm.step()
    again = recorded(arm, steps=2)
    assert again.n_steps == 2
    assert arm.command.mode == "replay"
    for _ in range(made.n_steps - 6):
        arm.step()
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(arm.state.u, made.controls[-1], atol=1e-12)
    np.testing.assert_array_equal(again.controls, made.controls[4:6])


def test_a_tick_of_a_replay_that_fails_is_taken_again(arm, monkeypatch):
    made = recorded(arm, steps=3)
    arm.handle_message({"type": "replay"})

    def fails(self, pose, u):
        raise StepError("Nothing holds any more.")

    for row in range(made.n_steps):
        with monkeypatch.context() as patch:
            patch.setattr(type(arm.controller), "manual", fails)
            arm.step()
        assert arm.command.paused
        assert (arm.command.mode, arm.active_replay, arm.next_row) == ("replay", made, row)
        arm.handle_message({"type": "pause", "on": False})
        arm.step()
        np.testing.assert_array_equal(arm.command.controls, made.controls[row])
    assert arm.command.mode == "manual"


def test_a_replay_tells_how_far_it_is_from_its_targets(arm):
    made = recorded(arm, steps=5)
    arm.handle_message({"type": "replay"})
    for k in range(made.n_steps):
        arm.step()
        assert arm.error == pytest.approx(
            np.linalg.norm(made.targets[k, 0] - arm.effector_positions["laser"]), rel=1e-12
        )
        assert arm.error > 1e-4
    arm.step()
    assert arm.error == 0.0  # manual mode has no target


def test_a_replay_begins_in_the_state_of_its_recording(arm):
    led(arm, np.array([0.01, 0.0, 0.0]), steps=3)  # on its way, not in balance
    made = recorded(arm, steps=3)
    arm.handle_message({"type": "replay"})
    np.testing.assert_array_equal(arm.state.x, made.start)
    np.testing.assert_array_equal(arm.state.positions, [arm.effector_positions["laser"]])


def test_what_cannot_begin_leaves_everything_as_it_was(arm, monkeypatch):
    """A reset whose first balance is not found, and a replay that cannot be begun."""
    recorded(arm, steps=3)
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    before, active, controller = arm.state, arm.active, arm.controller

    def fail(self, *state):
        raise StepError("No balance was found.")

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


def test_a_dynamic_replay_is_the_same_to_rounding(swinging):
    led(swinging, np.array([0.004, 0.0, 0.0]), steps=7)  # the recording begins in full swing
    made, end = recorded(swinging), swinging.state.x.copy()
    np.testing.assert_allclose(made.times, np.arange(1, made.n_steps + 1) / 60.0, rtol=1e-12)
    swinging.handle_message({"type": "replay"})
    for _ in range(made.n_steps):
        swinging.step()
    np.testing.assert_allclose(swinging.state.x, end, atol=1e-12)  # [m] and [m/s]


def test_a_recording_is_a_plan_that_replays_to_its_cost(swinging):
    swinging.handle_message({"type": "reset"})
    made = recorded(swinging)
    model = SemiImplicit(swinging.robot, dt=1.0 / 60.0)
    plan = made.plan(model)
    assert plan.status
    assert plan.limit_violation == 0.0
    np.testing.assert_allclose(plan.states[-1], swinging.state.x, atol=1e-12)
    way = model.effector_rows("laser") @ plan.states[1:, : model.space.n_dofs].T
    np.testing.assert_allclose(
        plan.cost, 0.5 * np.sum((way.T - made.targets[:, 0]) ** 2) * model.dt, rtol=1e-9
    )


def test_plan_of_recording_requires_same_time_step_and_start(swinging, one_sentence):
    made = recorded(swinging, steps=3)
    one_sentence(
        lambda: made.plan(SemiImplicit(swinging.robot, dt=0.01)),
        "control period of 0.0166667 s and the model a time step of 0.01 s",
    )
    moving = SemiImplicit(
        replace(
            swinging.robot,
            supports=[replace(s, motion=lambda t: (0, 0, 0)) for s in swinging.robot.supports],
        ),
        dt=1 / 60,
    )
    one_sentence(lambda: replace(made, first_step=5).plan(moving), "a plan starts at time zero")
    assert replace(made, first_step=0).plan(moving).status


def test_replay_of_other_robot_raises(arm, swinging, tmp_path, one_sentence):
    made = recorded(swinging)
    arm.last_recording = made
    one_sentence(lambda: arm.handle_message({"type": "replay"}), "dynamic line_arm")
    arm.last_recording = replace(recorded(arm), names=("a", "b", "c", "d"))
    one_sentence(lambda: arm.handle_message({"type": "replay"}), "with a, b, c, d")
    (tmp_path / "plan.json").write_text('{"controls": [[1]], "history": []}')
    one_sentence(lambda: load_recording(tmp_path), "not a recording")
    one_sentence(lambda: load_recording(tmp_path / "missing"), "does not exist")
    arm.handle_message({"type": "pause", "on": True})
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    arm.handle_message({"type": "record", "on": False})
    assert "paused" in arm.warning


@pytest.mark.parametrize(
    "change", [{"dt": "abc"}, {"first_step": "x"}, {"first_step": -1}, {"units": []}, {"dt": -0.1}]
)
def test_a_damaged_recording_is_a_sentence(arm, tmp_path, one_sentence, change):
    made = recorded(arm, steps=3)
    (tmp_path / "plan.json").write_text(json.dumps({**made.content(), **change}))
    one_sentence(lambda: load_recording(tmp_path), "not a recording")
    backwards = {**made.content(), "times": made.times[::-1].tolist()}
    (tmp_path / "plan.json").write_text(json.dumps(backwards))
    one_sentence(lambda: load_recording(tmp_path), "not a recording")


def test_a_recording_of_an_effector_that_is_not_there_is_a_sentence(arm, one_sentence):
    arm.last_recording = replace(recorded(arm, steps=3), effectors=("nose",))
    one_sentence(lambda: arm.handle_message({"type": "replay"}), "nose")


@pytest.fixture
def taken(arm, monkeypatch, tmp_path):
    """A folder of the arm that is a file by now."""
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr(arm, "folder", tmp_path / "taken")


def test_a_recording_that_cannot_be_saved_is_kept_and_said(arm, taken):
    made = recorded(arm, steps=3)
    assert "could not be saved" in arm.warning
    assert arm.last_recording is made
    assert made.n_steps == 3
    arm.step()  # and the robot goes on
    assert not arm.command.recording
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    arm.handle_message({"type": "reset"})
    assert "could not be saved" in arm.warning


def test_a_recording_that_is_lost_at_the_end_is_said(arm, taken, one_sentence):
    one_sentence(lambda: headless(arm, seconds=0.05), "could not be saved .* record again")
    arm.handle_message({"type": "record", "on": True})
    arm.step()
    one_sentence(
        lambda: drive(arm, on_ready=lambda url: signal.raise_signal(signal.SIGINT)),
        "could not be saved .* record again",
    )


def test_recordings_go_to_their_folder(arm, tmp_path):
    arm.folder, arm.recordings = tmp_path, 0
    try:
        recorded(arm, steps=3)
        recorded(arm, steps=3)
    finally:
        arm.folder = None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recording-001", "recording-002"]
    first = (tmp_path / "recording-001" / "commands.csv").read_text()
    arm.folder, arm.recordings = tmp_path, 0  # as another session would
    try:
        recorded(arm, steps=2)
    finally:
        arm.folder = None
    assert (tmp_path / "recording-003").is_dir()
    assert (tmp_path / "recording-001" / "commands.csv").read_text() == first
    assert (tmp_path / "recording-002" / "commands.csv").is_file()


def test_current_recording_is_written_in_parts(arm, monkeypatch, tmp_path, one_sentence):
    monkeypatch.setattr(arm, "folder", tmp_path)
    monkeypatch.setattr("pliant.viewer.recording_writer.WRITE_INTERVAL", 0.0)
    home = tmp_path / "recording-001"
    arm.handle_message({"type": "record", "on": True})
    for k in range(1, 4):
        led(arm, REACHABLE, steps=1)
        arm.recording_writer._writing.join()
        assert len(list(home.iterdir())) == k
        assert load_recording(home).content() == arm.recorder.recording().content()
    arm.handle_message({"type": "record", "on": False})
    assert sorted(path.name for path in home.iterdir()) == ["commands.csv", "plan.json"]
    assert load_recording(home).content() == arm.last_recording.content()
    (tmp_path / "partial-000000.json").write_text("{}")
    one_sentence(lambda: load_recording(tmp_path), "not a recording")


@pytest.fixture
def late(arm, monkeypatch, tmp_path):
    """A current recording of three control steps that could not be written to a full disk."""

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


def test_part_after_full_disk_contains_all_rows(late, tmp_path):
    late.step()
    late.recording_writer._writing.join()
    assert [path.name for path in tmp_path.iterdir()] == ["recording-001"]
    assert load_recording(tmp_path / "recording-001").n_steps == 4
    assert late.current_warning == ""


def test_saved_recording_clears_write_error(late, tmp_path):
    late.close()
    assert (late.current_warning, late.save_error) == ("", "")
    assert load_recording(tmp_path / "recording-001").n_steps == 3


def planned(model, tmp_path, *, steps: int):
    """A plan for the laser of the small arm, saved."""
    start = model.initial_state()
    away = model.effector_rows("laser") @ model.space.position(start) + 0.2 * REACHABLE
    plan = pl.plan(
        model,
        [Goal(effector="laser", target=away, time=steps * model.dt), Effort(weight=1e-7)],
        steps=steps,
        options=Options(iterations=3),
    )
    plan.save(tmp_path / "my-plan")
    return plan


def test_a_saved_quasistatic_plan_is_played_to_its_end(arm, tmp_path):
    plan = planned(Quasistatic(arm.robot), tmp_path, steps=2)
    arm.last_recording = made = load_recording(tmp_path / "my-plan")
    assert (made.n_steps, made.dt) == (12, None)
    arm.handle_message({"type": "replay"})
    for _ in range(made.n_steps):
        arm.step(1 / 60)
    assert arm.command.mode == "manual"
    np.testing.assert_allclose(arm.state.u, plan.controls[-1], atol=1e-12)
    np.testing.assert_allclose(
        arm.effector_positions["laser"], plan.positions["laser"][-1], atol=2e-5 * LENGTH
    )


def test_a_saved_dynamic_plan_of_the_same_rule_is_played_exactly(swinging, tmp_path):
    plan = planned(SemiImplicit(swinging.robot, dt=1 / 60), tmp_path, steps=5)
    swinging.last_recording = made = load_recording(tmp_path / "my-plan" / "plan.json")
    np.testing.assert_array_equal(made.controls, plan.controls)
    swinging.handle_message({"type": "replay"})
    errors = []
    for _ in range(made.n_steps):
        swinging.step()
        errors.append(swinging.error)
    np.testing.assert_allclose(swinging.state.x, plan.states[-1], atol=1e-12)
    assert max(errors) < 1e-12  # the targets are the planned positions


def test_a_dynamic_plan_of_other_steps_is_held_for_its_own_time(swinging, tmp_path):
    plan = planned(ImplicitEuler(swinging.robot, dt=0.04), tmp_path, steps=3)
    made = load_recording(tmp_path / "my-plan")
    assert made.n_steps == 7  # 0.12 s
    which = [int(np.flatnonzero((plan.controls == u).all(axis=1))[0]) for u in made.controls]
    assert which == [0, 0, 1, 1, 1, 2, 2]  # the middle of each tick decides
    assert made.start.shape == swinging.state.x.shape
    np.testing.assert_allclose(made.targets[-1, 0], plan.positions["laser"][-1], atol=1e-4)


def test_a_plan_is_replayed_on_its_robot_alone(arm, swinging, tmp_path, one_sentence):
    planned(SemiImplicit(swinging.robot, dt=1 / 60), tmp_path, steps=2)
    made = load_recording(tmp_path / "my-plan")
    arm.last_recording = made
    one_sentence(
        lambda: arm.handle_message({"type": "replay"}),
        "The plan is of a dynamic line_arm. Add --dynamic",
    )
    arm.last_recording = replace(made, digest="0" * 64)  # another robot: --dynamic would not help
    one_sentence(lambda: arm.handle_message({"type": "replay"}), "made for another line_arm")
    swinging.last_recording = replace(made, digest="0" * 64)
    one_sentence(lambda: swinging.handle_message({"type": "replay"}), "made for another line_arm")
    swinging.last_recording = replace(made, dt=None)
    one_sentence(lambda: swinging.handle_message({"type": "replay"}), "Leave out --dynamic")
