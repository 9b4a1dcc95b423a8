"""A session leads the robot to its target, obeys by hand, and what it records can be saved, replayed and priced as a plan."""

import csv
import json
import re
import signal
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from stand import REACHABLE, small_arm

from pliant.core import InputError, PliantError, StepError
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.planners import load_controls
from pliant.robot import Effector
from pliant.robot_files import Keyframes
from pliant.viewer import drive, headless, load_recording, load_script, session_of
from pliant.zoo.robots import biped, line_arm

LENGTH = 0.2  # [m] of the arm


def led(session, by, ticks=60):
    """The session after some ticks towards its first place moved `by` [m]."""
    session.hear({"say": "target", "effector": "laser", "at": (session.places["laser"] + by).tolist()})
    for _ in range(ticks):
        session.tick()


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
    np.testing.assert_allclose(arm.position, equilibrium(Quasistatic(arm.robot), arm.pose.u, x0=arm.position).x, atol=1e-6 * LENGTH)


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
    moving = session_of(replace(robot, supports=[replace(s, motion=lambda t: (0.02 * t, 0.0, 0.0)) for s in robot.supports]))
    for _ in range(60):
        moving.tick()
    before = moving.position.copy()
    moving.hear({"say": "active", "effectors": ["laser base"]})
    np.testing.assert_array_equal(moving.position, before)
    moving.hear({"say": "mode", "mode": "manual"})
    moving.tick()
    held = moving.picture.rest[:, 2] == 0.0
    np.testing.assert_allclose((moving.position - before).reshape(-1, 3)[held], [[0.02 / 60.0, 0.0, 0.0]] * held.sum(), atol=1e-12)


def test_a_wish_that_is_refused_leaves_everything_as_it_was(arm):
    wish = arm.wish
    for message in ({"say": "replay"}, {"say": "target", "effector": "laser", "at": [None, 0, 0]}, {"say": "mode", "mode": "x"}):
        with pytest.raises(InputError):
            arm.hear(message)
        assert arm.wish is wish


def test_a_step_that_fails_pauses_and_says_why(arm, monkeypatch):
    def fails(pose, targets):
        raise StepError("No balance was found; bring the target nearer.")

    before = arm.pose
    with monkeypatch.context() as patch:
        patch.setattr(type(arm.controller), "follow", lambda self, pose, targets: fails(pose, targets))
        arm.tick()
    assert arm.pose is before
    assert arm.wish.paused
    assert "nearer" in arm.said


def recorded(session, ticks=25):
    session.hear({"say": "record", "on": True})
    led(session, np.array([0.01, -0.004, 0.0]), ticks)
    session.hear({"say": "record", "on": False})
    return session.replayed


def test_a_recording_is_saved_whole_and_read_back(arm, tmp_path):
    made = recorded(arm)
    made.save(tmp_path)
    again = load_recording(tmp_path)
    assert made.content() == again.content()
    controls, history = load_controls(tmp_path, (made.ticks, 4))
    np.testing.assert_array_equal(controls, made.controls)
    assert history == []
    np.testing.assert_array_equal(made.places[-1, 0], arm.places["laser"])


def test_the_commands_are_a_table_with_times(arm):
    made = recorded(arm)
    head, *rows = list(csv.reader(StringIO(made.commands())))
    assert head == ["time [s]", "front-left [N]", "front-right [N]", "back-right [N]", "back-left [N]"]
    table = np.array(rows, float)
    assert np.all(np.diff(table[:, 0]) > 0.0)
    np.testing.assert_array_equal(table[:, 1:], made.controls)


def test_a_quasistatic_replay_comes_to_the_same_place(arm):
    led(arm, np.array([-0.004, 0.0, 0.0]), ticks=10)
    made, end = recorded(arm, ticks=40), arm.position.copy()
    arm.hear({"say": "reset"})
    arm.hear({"say": "replay"})
    places = []
    for _ in range(made.ticks):
        arm.tick()
        places.append(arm.places["laser"])
    assert arm.wish.mode == "manual"
    np.testing.assert_allclose(places, made.places[:, 0], atol=3e-3 * LENGTH)  # on its way a tick is not in balance
    np.testing.assert_allclose(arm.position, end, atol=1e-5 * LENGTH)


@pytest.fixture(scope="module")
def swinging():
    return small_arm(dynamic=True)


def test_a_replay_can_be_recorded_and_goes_on(arm):
    """A recording that is shorter than the replay takes its place only when the replay is over."""
    made = recorded(arm, ticks=12)
    arm.hear({"say": "replay"})
    for _ in range(4):
        arm.tick()
    again = recorded(arm, ticks=2)
    assert again.ticks == 2
    assert arm.wish.mode == "replay"
    for _ in range(made.ticks - 6):
        arm.tick()
    assert arm.wish.mode == "manual"
    np.testing.assert_allclose(arm.pose.u, made.controls[-1], atol=1e-12)
    np.testing.assert_array_equal(again.controls, made.controls[4:6])


def test_a_tick_of_a_replay_that_fails_is_taken_again(arm, monkeypatch):
    made = recorded(arm, ticks=3)
    arm.hear({"say": "replay"})

    def fails(self, pose, u):
        raise StepError("Nothing holds any more.")

    for row in range(made.ticks):
        with monkeypatch.context() as patch:
            patch.setattr(type(arm.controller), "manual", fails)
            arm.tick()
        assert arm.wish.paused
        assert (arm.wish.mode, arm.played, arm.next_row) == ("replay", made, row)
        arm.hear({"say": "pause", "on": False})
        arm.tick()
        np.testing.assert_array_equal(arm.wish.controls, made.controls[row])
    assert arm.wish.mode == "manual"


def test_a_replay_tells_how_far_it_is_from_its_targets(arm):
    made = recorded(arm, ticks=5)
    arm.hear({"say": "replay"})
    for k in range(made.ticks):
        arm.tick()
        assert arm.error == pytest.approx(np.linalg.norm(made.targets[k, 0] - arm.places["laser"]), rel=1e-12)
        assert arm.error > 1e-4
    arm.tick()
    assert arm.error == 0.0  # by hand there is no target


def test_a_replay_begins_in_the_state_of_its_recording(arm):
    led(arm, np.array([0.01, 0.0, 0.0]), ticks=3)  # on its way, not in balance
    made = recorded(arm, ticks=3)
    arm.hear({"say": "replay"})
    np.testing.assert_array_equal(arm.pose.x, made.start)
    np.testing.assert_array_equal(arm.pose.places, [arm.places["laser"]])


def test_what_cannot_begin_leaves_everything_as_it_was(arm, monkeypatch):
    """A reset whose first balance is not found, and a replay that cannot be begun."""
    recorded(arm, ticks=3)
    arm.hear({"say": "record", "on": True})
    arm.tick()
    before, active, controller = arm.pose, arm.active, arm.controller

    def fail(self, *state):
        raise StepError("No balance was found.")

    monkeypatch.setattr(type(arm.controller), "begin", fail)
    monkeypatch.setattr(type(arm.controller), "resume", fail)
    with pytest.raises(StepError):
        arm.hear({"say": "reset"})
    arm.tick()
    assert arm.wish.recording
    assert len(arm.recorder.rows) == 2
    arm.hear({"say": "record", "on": False})
    before = arm.pose
    with pytest.raises(StepError):
        arm.hear({"say": "replay"})
    assert (arm.pose, arm.active, arm.controller, arm.wish.mode, arm.played) == (before, active, controller, "follow", None)


def test_a_dynamic_replay_is_the_same_to_rounding(swinging):
    led(swinging, np.array([0.004, 0.0, 0.0]), ticks=7)  # the recording begins in full swing
    made, end = recorded(swinging), swinging.pose.x.copy()
    np.testing.assert_allclose(made.times, np.arange(1, made.ticks + 1) / 60.0, rtol=1e-12)
    swinging.hear({"say": "replay"})
    for _ in range(made.ticks):
        swinging.tick()
    np.testing.assert_allclose(swinging.pose.x, end, atol=1e-12)  # [m] and [m/s]


def test_a_recording_is_a_plan_that_replays_to_its_cost(swinging):
    swinging.hear({"say": "reset"})
    made = recorded(swinging)
    model = SemiImplicit(swinging.robot, dt=1.0 / 60.0)
    plan = made.plan(model)
    assert plan.status
    assert plan.excess == 0.0
    np.testing.assert_allclose(plan.states[-1], swinging.pose.x, atol=1e-12)
    way = model.effector_rows("laser") @ plan.states[1:, : model.space.n_dofs].T
    np.testing.assert_allclose(plan.cost, 0.5 * np.sum((way.T - made.targets[:, 0]) ** 2) * model.dt, rtol=1e-9)


def test_a_plan_needs_the_steps_and_the_time_of_its_recording(swinging, one_sentence):
    made = recorded(swinging, ticks=3)
    one_sentence(lambda: made.plan(SemiImplicit(swinging.robot, dt=0.01)), "ticks of 0.0166667 s and the model steps of 0.01 s")
    moving = SemiImplicit(
        replace(swinging.robot, supports=[replace(s, motion=lambda t: (0, 0, 0)) for s in swinging.robot.supports]), dt=1 / 60
    )
    one_sentence(lambda: replace(made, tick=5).plan(moving), "a plan begins at time zero")
    assert replace(made, tick=0).plan(moving).status


def test_a_recording_of_another_robot_or_file_is_a_sentence(arm, swinging, tmp_path, one_sentence):
    made = recorded(swinging)
    arm.replayed = made
    one_sentence(lambda: arm.hear({"say": "replay"}), "dynamic line_arm")
    arm.replayed = replace(recorded(arm), names=("a", "b", "c", "d"))
    one_sentence(lambda: arm.hear({"say": "replay"}), "with a, b, c, d")
    (tmp_path / "plan.json").write_text('{"controls": [[1]], "history": []}')
    one_sentence(lambda: load_recording(tmp_path), "not a recording")
    one_sentence(lambda: load_recording(tmp_path / "missing"), "does not exist")
    arm.hear({"say": "pause", "on": True})
    arm.hear({"say": "record", "on": True})
    arm.tick()
    arm.hear({"say": "record", "on": False})
    assert "paused" in arm.said


@pytest.mark.parametrize("change", [{"dt": "abc"}, {"tick": "x"}, {"tick": -1}, {"units": []}, {"dt": -0.1}])
def test_a_damaged_recording_is_a_sentence(arm, tmp_path, one_sentence, change):
    made = recorded(arm, ticks=3)
    (tmp_path / "plan.json").write_text(json.dumps({**made.content(), **change}))
    one_sentence(lambda: load_recording(tmp_path), "not a recording")
    backwards = {**made.content(), "times": made.times[::-1].tolist()}
    (tmp_path / "plan.json").write_text(json.dumps(backwards))
    one_sentence(lambda: load_recording(tmp_path), "not a recording")


def test_a_recording_of_an_effector_that_is_not_there_is_a_sentence(arm, one_sentence):
    arm.replayed = replace(recorded(arm, ticks=3), effectors=("nose",))
    one_sentence(lambda: arm.hear({"say": "replay"}), "nose")


@pytest.fixture
def taken(arm, monkeypatch, tmp_path):
    """A folder of the arm that is a file by now."""
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setattr(arm, "folder", tmp_path / "taken")


def test_a_recording_that_cannot_be_saved_is_kept_and_said(arm, taken):
    made = recorded(arm, ticks=3)
    assert "could not be saved" in arm.said
    assert arm.replayed is made
    assert made.ticks == 3
    arm.tick()  # and the robot goes on
    assert not arm.wish.recording
    arm.hear({"say": "record", "on": True})
    arm.tick()
    arm.hear({"say": "reset"})
    assert "could not be saved" in arm.said


def test_a_recording_that_is_lost_at_the_end_is_said(arm, taken, one_sentence):
    one_sentence(lambda: headless(arm, seconds=0.05), "could not be saved .* record again")
    arm.hear({"say": "record", "on": True})
    arm.tick()
    one_sentence(lambda: drive(arm, told=lambda url: signal.raise_signal(signal.SIGINT)), "could not be saved .* record again")


def test_recordings_go_to_their_folder(arm, tmp_path):
    arm.folder, arm.recordings = tmp_path, 0
    try:
        recorded(arm, ticks=3)
        recorded(arm, ticks=3)
    finally:
        arm.folder = None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recording-001", "recording-002"]
    first = (tmp_path / "recording-001" / "commands.csv").read_text()
    arm.folder, arm.recordings = tmp_path, 0  # as another session would
    try:
        recorded(arm, ticks=2)
    finally:
        arm.folder = None
    assert (tmp_path / "recording-003").is_dir()
    assert (tmp_path / "recording-001" / "commands.csv").read_text() == first
    assert (tmp_path / "recording-002" / "commands.csv").is_file()


def test_what_is_recorded_is_on_disk_while_it_is_recorded(arm, monkeypatch, tmp_path, one_sentence):
    monkeypatch.setattr(arm, "folder", tmp_path)
    monkeypatch.setattr("pliant.viewer.keeper.OFTEN", 0.0)
    home = tmp_path / "recording-001"
    arm.hear({"say": "record", "on": True})
    for k in range(1, 4):
        led(arm, REACHABLE, ticks=1)
        arm.keeper._writing.join()
        assert len(list(home.iterdir())) == k
        assert load_recording(home).content() == arm.recorder.recording().content()
    arm.hear({"say": "record", "on": False})
    assert sorted(path.name for path in home.iterdir()) == ["commands.csv", "plan.json"]
    assert load_recording(home).content() == arm.replayed.content()
    (tmp_path / "partial-000000.json").write_text("{}")
    one_sentence(lambda: load_recording(tmp_path), "not a recording")


def test_what_a_full_disk_did_not_take_is_in_the_next_part(arm, monkeypatch, tmp_path):
    def full(path, data):
        raise PliantError("The disk is full.")

    monkeypatch.setattr(arm, "folder", tmp_path)
    monkeypatch.setattr("pliant.viewer.keeper.OFTEN", 0.0)
    arm.hear({"say": "record", "on": True})
    with monkeypatch.context() as patch:
        patch.setattr("pliant.viewer.keeper.write_atomic", full)
        for _ in range(3):
            arm.tick()
            arm.keeper._writing.join()
    arm.tick()
    arm.keeper._writing.join()
    assert [path.name for path in tmp_path.iterdir()] == ["recording-001"]
    assert load_recording(tmp_path / "recording-001").ticks == 4
    arm.hear({"say": "record", "on": False})


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
    assert found["error at the end [mm]"] == pytest.approx(1e3 * np.linalg.norm(made.targets[-1, 0] - arm.places["laser"]), rel=1e-12)
    assert found["error at the end [mm]"] > 0.1


def test_a_recording_that_is_full_leaves_the_figures(arm, monkeypatch):
    monkeypatch.setattr("pliant.viewer.recorder.LONGEST", 3)
    found = headless(arm, seconds=0.1)
    assert found["ticks"] == 6
    assert arm.replayed.ticks == 3
    assert "an hour long" in found["said"]


def test_what_could_not_be_kept_is_told_without_a_page(arm, monkeypatch):
    assert headless(arm, seconds=0.1)["at the end"] == "moving"
    follow = type(arm.controller).follow
    fold = {"state": "unkept", "text": "there is no balance beyond here"}
    monkeypatch.setattr(type(arm.controller), "follow", lambda self, pose, targets: replace(follow(self, pose, targets), **fold))
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
    one_sentence(lambda: headless(arm, seconds=0.1, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 3)))), "targets of its own")


def test_without_a_script_it_goes_round(arm):
    found = headless(arm, seconds=0.5)
    assert 0.0 < found["largest error [mm]"] < 1e3 * LENGTH
    assert np.ptp(arm.replayed.places[:, 0, 0]) > 1e-3


def test_bad_scripts_and_robots_are_sentences(arm, tmp_path, one_sentence):
    file = tmp_path / "way.csv"
    file.write_text("0,1\n1,a\n")
    one_sentence(lambda: load_script(file), "not a table")
    for text, words in (("x,y,z,t\n1,2,3,0\n", "not the time"), ("", "as many places"), ("0,1,2,3\n1,2\n", "as many places"),
                        ("0\n1\n", "as many places")):  # fmt: skip
        file.write_text(text)
        one_sentence(lambda: load_script(file), words)
    file.write_text("0,1e9,0,0\n1,0,0,0\n")
    one_sentence(lambda: headless(arm, seconds=0.1, script=load_script(file)), "in metres")
    one_sentence(lambda: load_script(tmp_path / "none.csv"), "cannot be read")
    file.write_text("")
    one_sentence(lambda: load_script(file), "not a table")
    one_sentence(lambda: headless(arm, seconds=1.0, script=Keyframes(times=np.zeros(1), values=np.zeros((1, 2)))), "3 for each of laser")
    one_sentence(lambda: headless(arm, seconds=0.0), "must be a positive")
    one_sentence(lambda: session_of(line_arm(layers=4, across=2), effectors=("lasr",)), "did you mean 'laser'")
    bare = replace(line_arm(layers=4, across=2), effectors={})
    one_sentence(lambda: session_of(bare), "no effector")
    one_sentence(lambda: session_of(replace(bare, actuators={}, effectors={"tip": Effector(surface="z+")})), "no actuators")
    one_sentence(lambda: session_of(biped()), "Nothing stops biped from .* --dynamic")


def test_the_guides_snippet_runs(tmp_path, monkeypatch):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "drive.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", guide, re.DOTALL).group(1), names)
    assert names["plan"].status
    assert names["made"].ticks == 30
    assert (tmp_path / "drives" / "circle" / "commands.csv").is_file()
