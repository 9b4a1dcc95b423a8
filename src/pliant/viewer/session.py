"""Session: a driven robot, advanced one control step at a time. Call it from one thread only."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pliant.core import Array, InputError, PliantError, finite_array
from pliant.dynamics.overlaps import overlap_text, with_note
from pliant.planners import ControlState
from pliant.planners.model_summary import different_parts, robot_digest
from pliant.robot import Control, Robot
from pliant.viewer.command import FOLLOW, MANUAL, REPLAY, Command, CommandRanges, apply_message
from pliant.viewer.picture import Picture
from pliant.viewer.recorder import Recorder
from pliant.viewer.recording import Recording
from pliant.viewer.recording_writer import RecordingWriter

OVERLAP_CHECK_INTERVAL = 30  # control steps; one check may take as long as a control step


class DriveController(Protocol):
    """The controller of a session. `planners.inverse_control` returns one."""

    def begin(self) -> ControlState: ...
    def resume(self, x: Array, u: Array, k: int) -> ControlState: ...
    def take_over(self, state: ControlState) -> ControlState: ...
    def follow(self, state: ControlState, targets: Array) -> ControlState: ...
    def manual(self, state: ControlState, u: Array) -> ControlState: ...


@dataclass(kw_only=True)
class Session:
    """A robot, its current command and its current state."""

    robot: Robot
    make_controller: Callable[[tuple[str, ...]], DriveController]  # effector names -> controller
    active: tuple[str, ...]  # names of the effectors that follow their targets
    dt: float | None = None  # [s] control period of a dynamic model; None: quasistatic
    folder: Path | None = None  # where recordings are saved; None: they are not saved
    last_recording: Recording | None = None  # the recording that a replay plays
    time: float = 0.0  # [s] driving time, without pauses
    error: float = 0.0  # [m] largest distance of an effector to its target; zero in manual mode
    warning: str = ""  # the last problem
    save_error: str = ""  # why the last recording could not be saved
    recordings: int = 0  # number of recordings so far
    recorder: Recorder | None = None  # of the current recording
    recording_writer: RecordingWriter | None = None  # of the current recording, if saved
    active_replay: Recording | None = None  # the recording that is being replayed
    next_row: int = 0  # of the active replay
    _overlap: tuple[int, str] | None = None  # control step of the last check, and its result

    def __post_init__(self) -> None:
        self.controller = self.make_controller(self.active)
        self.state: ControlState = self.controller.begin()
        self.command = Command(
            active=self.active, targets=self.effector_positions, controls=self.state.u
        )
        self.clock = time.perf_counter()
        if self.last_recording is not None:
            self._replay(self.last_recording)

    @property
    def current_warning(self) -> str:
        """Return the warning to show. A recording that cannot be written to disk comes first."""
        failure = "" if self.recording_writer is None else self.recording_writer.write_error
        return (
            f"The current recording is not on disk yet ({failure}). Free space in {self.folder}."
            if failure
            else self.warning
        )

    @property
    def overlap(self) -> str:
        """Return a message about overlapping bodies of the robot, or "". The check runs every
        OVERLAP_CHECK_INTERVAL control steps."""
        k = int(self.state.k)
        if self._overlap is None or not 0 <= k - self._overlap[0] < OVERLAP_CHECK_INTERVAL:
            self._overlap = (k, overlap_text(self.robot.body(), [self.position]))
        return self._overlap[1]

    @property
    def text(self) -> str:
        """Return the state of the robot as text."""
        return with_note(self.state.message, self.overlap)

    @cached_property
    def picture(self) -> Picture:
        return Picture(robot=self.robot)

    @cached_property
    def controls(self) -> tuple[Control, ...]:
        return self.robot.controls

    @cached_property
    def command_ranges(self) -> CommandRanges:
        low, high = self.picture.bounds
        lower, upper = self.robot.control_limits()
        return CommandRanges(
            centre=(low + high) / 2,
            size=self.picture.size,
            lower=lower,
            upper=upper,
            colours=self.picture.colours,
        )

    @property
    def position(self) -> Array:
        """Return the generalised positions (n_dofs,) of the body."""
        return self.state.x[: self.robot.body().rest.size]

    @property
    def effector_positions(self) -> dict[str, Array]:
        """Return a dictionary effector -> (dim,) [m]."""
        return {
            name: self.robot.effector_position(name, self.position) for name in self.robot.effectors
        }

    def _largest_error(self) -> float:
        """Return the largest distance [m] of an active effector to its target."""
        positions = self.effector_positions
        return max(
            float(np.linalg.norm(self.command.targets[name] - positions[name]))
            for name in self.active
        )

    # Messages from the page

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """Update the command from a message of the page. Raises `PliantError` if the message is
        invalid; the command is unchanged then."""
        before, after = self.command, apply_message(self.command, message, self.command_ranges)
        if after.mode != before.mode:  # the robot must not move when the mode changes
            after = replace(after, controls=self.state.u, targets=self.effector_positions)
            self.active_replay = None
        self.warning = "" if _acknowledges_warning(before, after) else self.warning
        self.command = after
        try:
            self._apply_changes(before, after)
        except PliantError:
            self.command = before
            raise

    def _apply_changes(self, before: Command, after: Command) -> None:
        """Run the actions that a new command requests once."""
        if after.active != before.active:
            self._change_active(after.active)
        if after.resets != before.resets:
            self.reset()
        if after.recording != before.recording:
            self._begin_recording() if after.recording else self._end_recording()
        if after.replays != before.replays:
            self._replay(self.last_recording)

    def _change_active(self, active: tuple[str, ...]) -> None:
        """Continue from the current state with a controller of other effectors."""
        controller = self.make_controller(active)
        self.state = controller.take_over(self.state)
        self.active, self.controller, self.error = active, controller, 0.0

    def reset(self) -> None:
        """Return to the initial state. A current recording ends before."""
        first, self.warning = self.controller.begin(), ""
        self.close()
        self.state, self.active_replay, self.error = first, None, 0.0
        mode = MANUAL if self.command.mode == MANUAL else FOLLOW
        self.command = replace(
            self.command,
            mode=mode,
            targets=self.effector_positions,
            controls=self.state.u,
            recording=False,
        )

    # Time

    def restart_clock(self) -> float:
        """Return the time [s] since the last call or control step, and restart the clock."""
        before, self.clock = self.clock, time.perf_counter()
        return self.clock - before

    def step(self, duration: float | None = None) -> None:
        """Advance one control step, unless paused. `duration` [s] is added to the time of a
        quasistatic robot (None: the elapsed wall-clock time)."""
        elapsed = self.restart_clock()
        duration = elapsed if duration is None else duration
        if self.command.paused:
            return
        manual = self.command.mode == MANUAL
        try:
            self.state = self._next_state()
        except PliantError as error:  # keep the state, pause and show the reason
            self.warning, self.command = str(error), replace(self.command, paused=True)
            return
        self.error = 0.0 if manual else self._largest_error()
        self.time += duration if self.dt is None else self.dt
        if self.command.recording:
            self._record_step()

    def _next_state(self) -> ControlState:
        if self.command.mode == FOLLOW:
            return self.controller.follow(self.state, self._active_targets())
        if self.command.mode == REPLAY:
            return self._replay_step()
        return self.controller.manual(self.state, self.command.controls)

    def _active_targets(self) -> Array:
        """Return the targets (n_active, dim) [m] of the active effectors."""
        return np.array([self.command.targets[name] for name in self.active])

    def warm_up(self) -> None:
        """Run everything that a control step runs, so that the first one need not compile it."""
        self.controller.follow(self.state, self._active_targets())
        self.controller.manual(self.state, self.state.u)
        for colour in self.picture.colours:
            self.picture.frame(self.position, self.state.u, colour)

    def close(self) -> None:
        """End a current recording. It is saved if the session has a folder."""
        if self.recorder is not None:
            self._end_recording()

    # Recordings

    def _begin_recording(self) -> None:
        self.recorder = Recorder(
            robot=self.robot.name,
            controls=self.controls,
            dt=self.dt,
            effectors=self.active,
            start_time=self.time,
            initial_state=self.state,
        )
        self.save_error = ""
        self.recording_writer = (
            None
            if self.folder is None
            else RecordingWriter(folder=self.folder, recorder=self.recorder)
        )

    def _record_step(self) -> None:
        assert self.recorder is not None
        self.recorder.append(self.time, self.state, self._active_targets())
        if self.recording_writer is not None:
            self.recording_writer.write_new_rows()
        if self.recorder.is_full:
            self._end_recording()
            self.warning = (
                self.warning
                or "The recording has reached its limit of one hour and ended. Start a new one."
            )

    def _end_recording(self) -> None:
        """Convert the recorded rows to a recording, and save it if the session has a folder."""
        recorder, writer = self.recorder, self.recording_writer
        self.recorder = self.recording_writer = None
        self.command = replace(self.command, recording=False)
        if recorder is None or not recorder.rows:
            self.warning = "Nothing was recorded: the robot was paused."
            return
        self.last_recording, self.recordings = recorder.recording(), self.recordings + 1
        self.save_error = "" if writer is None else writer.finish(self.last_recording)
        if self.save_error:
            self.warning = f"{self.save_error}. Download it here, and free space in the folder."

    def _replay(self, recording: Recording | None) -> None:
        """Start a replay at the initial state of a recording. Raises `InputError` if the recording
        does not fit the robot."""
        if recording is None:
            raise InputError("There is no recording to replay; record one first.")
        if self.command.recording:
            raise InputError("A recording is running; stop it before a replay.")
        self._check_recording(recording)
        start = finite_array("The start of the recording", recording.start, self.state.x.shape)
        controller = self.make_controller(recording.effectors)
        self.state = controller.resume(start, recording.previous_control, recording.first_step)
        self.active, self.controller = recording.effectors, controller
        self.active_replay, self.next_row = recording, 0
        self.command = replace(self.command, mode=REPLAY, active=self.active, paused=False)
        self.warning = ""

    def _check_recording(self, recording: Recording) -> None:
        names = tuple(control.name for control in self.controls)
        if recording.names != names:
            raise InputError(
                f"The recording is of {recording.robot} with {', '.join(recording.names)}, but "
                f"this is {self.robot.name} with {', '.join(names)}. Drive the robot that was "
                "recorded or planned for."
            )
        what = "recording" if recording.digest is None else "plan"
        if parts := different_parts(recording.digest, robot_digest(self.robot)):
            raise InputError(
                f"The plan was made for another {recording.robot}, which differs from this one "
                f"in: {parts}. Drive the robot that was planned for."
            )
        if recording.dt != self.dt:
            raise InputError(
                f"The {what} is of a dynamic {recording.robot}. Add --dynamic."
                if recording.dt
                else f"The {what} is of a quasistatic {recording.robot}. Leave out --dynamic."
            )
        unknown = [name for name in recording.effectors if name not in self.robot.effectors]
        if unknown or recording.targets.shape[2] != self.robot.body().dim:
            raise InputError(
                f"The recording has targets of {', '.join(recording.effectors)} in "
                f"{recording.targets.shape[2]} dimensions, which this {self.robot.name} cannot "
                "follow. Drive the robot that was recorded."
            )

    def _replay_step(self) -> ControlState:
        """Apply the next row of the replay. After the last row, switch to manual mode with its
        controls."""
        assert self.active_replay is not None
        controls, targets = self.active_replay.row(self.next_row)
        state = self.controller.manual(self.state, controls)
        self.command = replace(
            self.command, controls=controls, targets={**self.command.targets, **targets}
        )
        self.next_row += 1
        if self.next_row >= self.active_replay.n_steps:
            self.active_replay, self.command = None, replace(self.command, mode=MANUAL)
        return state


def _acknowledges_warning(before: Command, after: Command) -> bool:
    """Return whether a change of the command shows that the user has read the warning. A change of
    targets, controls or colours does not."""
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("mode", "paused", "active", "resets", "recording", "replays")
    )
