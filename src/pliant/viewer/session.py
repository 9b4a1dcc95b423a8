"""Session: a robot that is driven, tick by tick. One thread alone may call it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pliant.controls import Control, controls_of
from pliant.core import Array, InputError, PliantError, finite_array
from pliant.dynamics.overlaps import overlap_text, with_note
from pliant.planners import Pose
from pliant.planners.model_summary import different_parts, robot_digest
from pliant.robot import Robot
from pliant.viewer.keeper import Keeper
from pliant.viewer.picture import Picture
from pliant.viewer.recorder import Recorder
from pliant.viewer.recording import Recording
from pliant.viewer.wish import FOLLOW, MANUAL, REPLAY, Frame, Wish, heard

LOOK_EVERY = 30  # ticks between two looks for bodies that overlap, which may take as long as a tick


class Controller(Protocol):
    """What drives the robot; planners.inverse makes one."""

    def begin(self) -> Pose: ...
    def resume(self, x: Array, u: Array, k: int) -> Pose: ...
    def take_over(self, pose: Pose) -> Pose: ...
    def follow(self, pose: Pose, targets: Array) -> Pose: ...
    def manual(self, pose: Pose, u: Array) -> Pose: ...


@dataclass(kw_only=True)
class Session:
    """A robot, what is wanted of it and where it is."""

    robot: Robot
    make: Callable[[tuple[str, ...]], Controller]  # the controller of some effectors
    active: tuple[str, ...]  # the effectors that follow their targets at first
    dt: float | None = None  # [s] of a dynamic tick; None: every tick is a quasistatic step
    folder: Path | None = None  # recordings are saved here too
    replayed: Recording | None = None  # what was last recorded, or is to be played
    time: float = 0.0  # [s] driven so far, pauses left out
    # [m] how far the worst effector was from its target after the last tick; zero by hand, where
    # there is none
    error: float = 0.0
    said: str = ""  # what went wrong last
    unsaved: str = ""  # why the last recording could not be saved
    recordings: int = 0
    recorder: Recorder | None = None  # of the recording under way
    keeper: Keeper | None = None  # of it, where a folder was given
    played: Recording | None = None  # the replay under way; another recording may be made of it
    next_row: int = 0  # of it
    _overlap: tuple[int, str] | None = None  # the tick that it was last looked for, and what it is

    def __post_init__(self) -> None:
        self.controller = self.make(self.active)
        self.pose: Pose = self.controller.begin()
        self.wish = Wish(active=self.active, targets=self.places, controls=self.pose.u)
        self.clock = time.perf_counter()
        if self.replayed is not None:
            self._replay(self.replayed)

    @property
    def trouble(self) -> str:
        """What there is to be told: that a recording under way reaches no disk as long as it does
        not, else what went wrong last."""
        lost = "" if self.keeper is None else self.keeper.lost
        return (
            f"The recording under way is not on disk yet ({lost}); free the folder {self.folder}."
            if lost
            else self.said
        )

    @property
    def overlap(self) -> str:
        """Where bodies of the robot overlap, as a sentence; "" where they do not. It is looked for
        every LOOK_EVERY ticks."""
        k = int(self.pose.k)
        if self._overlap is None or not 0 <= k - self._overlap[0] < LOOK_EVERY:
            self._overlap = (k, overlap_text(self.robot.body(), [self.position]))
        return self._overlap[1]

    @property
    def text(self) -> str:
        """The state of the robot in words."""
        return with_note(self.pose.text, self.overlap)

    @cached_property
    def picture(self) -> Picture:
        return Picture(robot=self.robot)

    @cached_property
    def controls(self) -> tuple[Control, ...]:
        return controls_of(self.robot)

    @cached_property
    def frame(self) -> Frame:
        low, high = self.picture.bounds
        lower, upper = self.robot.control_limits()
        return Frame(
            middle=(low + high) / 2,
            size=self.picture.size,
            lower=lower,
            upper=upper,
            colours=self.picture.colours,
        )

    @property
    def position(self) -> Array:
        """(n_dofs,) where the unknowns of the body are."""
        return self.pose.x[: self.robot.body().rest.size]

    @property
    def places(self) -> dict[str, Array]:
        """effector -> (dim,) [m] where it is."""
        return {name: self.robot.place(name, self.position) for name in self.robot.effectors}

    def _miss(self) -> float:
        """[m] how far the worst of the effectors that follow is from its target."""
        places = self.places
        return max(
            float(np.linalg.norm(self.wish.targets[name] - places[name])) for name in self.active
        )

    # What the page says

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take in a message; what is wrong with it is a sentence, and the wish stays."""
        before, after = self.wish, heard(self.wish, message, self.frame)
        if after.mode != before.mode:  # nothing jumps when the mode changes
            after, self.played = replace(after, controls=self.pose.u, targets=self.places), None
        self.said, self.wish = "" if _answers(before, after) else self.said, after
        try:
            self._obey(before, after)
        except PliantError:
            self.wish = before
            raise

    def _obey(self, before: Wish, after: Wish) -> None:
        """What a wish asks for once."""
        if after.active != before.active:
            self._take_over(after.active)
        if after.resets != before.resets:
            self.reset()
        if after.recording != before.recording:
            self._begin_recording() if after.recording else self._end_recording()
        if after.replays != before.replays:
            self._replay(self.replayed)

    def _take_over(self, active: tuple[str, ...]) -> None:
        """Another controller goes on from where the robot is."""
        controller = self.make(active)
        self.pose = controller.take_over(self.pose)
        self.active, self.controller, self.error = active, controller, 0.0

    def reset(self) -> None:
        """As at first; a recording ends before."""
        first, self.said = self.controller.begin(), ""
        self.close()
        self.pose, self.played, self.error = first, None, 0.0
        mode = MANUAL if self.wish.mode == MANUAL else FOLLOW
        self.wish = replace(
            self.wish, mode=mode, targets=self.places, controls=self.pose.u, recording=False
        )

    # Time

    def rest(self) -> float:
        """[s] since the last tick or rest, which does not count as driven."""
        before, self.clock = self.clock, time.perf_counter()
        return self.clock - before

    def tick(self, past: float | None = None) -> None:
        """One step on, unless it is paused; `past` [s] is what a quasistatic one counts for (None:
        as much as has passed)."""
        passed = self.rest()
        past = passed if past is None else past
        if self.wish.paused:
            return
        by_hand = self.wish.mode == MANUAL
        try:
            self.pose = self._next()
        except PliantError as error:  # stay, and say so
            self.said, self.wish = str(error), replace(self.wish, paused=True)
            return
        self.error = 0.0 if by_hand else self._miss()
        self.time += past if self.dt is None else self.dt
        if self.wish.recording:
            self._note()

    def _next(self) -> Pose:
        if self.wish.mode == FOLLOW:
            return self.controller.follow(self.pose, self._aims())
        if self.wish.mode == REPLAY:
            return self._replayed_tick()
        return self.controller.manual(self.pose, self.wish.controls)

    def _aims(self) -> Array:
        """(n_active, dim) [m] the targets of the effectors that follow."""
        return np.array([self.wish.targets[name] for name in self.active])

    def warm_up(self) -> None:
        """Do once what every tick does, so that the first one does not wait for a compiler."""
        self.controller.follow(self.pose, self._aims())
        self.controller.manual(self.pose, self.pose.u)
        for colour in self.picture.colours:
            self.picture.frame(self.position, self.pose.u, colour)

    def close(self) -> None:
        """Nobody drives any more: a recording under way ends, and is saved where a folder was
        given."""
        if self.recorder is not None:
            self._end_recording()

    # Recordings

    def _begin_recording(self) -> None:
        self.recorder = Recorder(
            robot=self.robot.name,
            controls=self.controls,
            dt=self.dt,
            effectors=self.active,
            began=self.time,
            first=self.pose,
        )
        self.unsaved = ""
        self.keeper = (
            None if self.folder is None else Keeper(folder=self.folder, recorder=self.recorder)
        )

    def _note(self) -> None:
        assert self.recorder is not None
        self.recorder.note(self.time, self.pose, self._aims())
        if self.keeper is not None:
            self.keeper.keep()
        if self.recorder.full:
            self._end_recording()
            self.said = (
                self.said or "The recording has become an hour long and ended; begin another one."
            )

    def _end_recording(self) -> None:
        """What was noted becomes a recording, and is saved where a folder was given."""
        (recorder, self.recorder), (keeper, self.keeper) = (
            (self.recorder, None),
            (self.keeper, None),
        )
        self.wish = replace(self.wish, recording=False)
        if recorder is None or not recorder.rows:
            self.said = "Nothing was recorded: the robot was paused."
            return
        self.replayed, self.recordings = recorder.recording(), self.recordings + 1
        self.unsaved = "" if keeper is None else keeper.finish(self.replayed)
        if self.unsaved:
            self.said = f"{self.unsaved}; download it here, and free the folder."

    def _replay(self, recording: Recording | None) -> None:
        """Play a recording from its own start."""
        if recording is None:
            raise InputError("There is no recording to replay; record one first.")
        if self.wish.recording:
            raise InputError("A recording is under way; stop it before a replay.")
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
        strangers = [name for name in recording.effectors if name not in self.robot.effectors]
        if strangers or recording.targets.shape[2] != self.robot.body().dim:
            raise InputError(
                f"The recording leads {', '.join(recording.effectors)} in "
                f"{recording.targets.shape[2]} dimensions, which this {self.robot.name} cannot "
                "follow; drive the same robot in the same way."
            )
        start = finite_array("The start of the recording", recording.start, self.pose.x.shape)
        controller = self.make(recording.effectors)
        self.pose = controller.resume(start, recording.before, recording.tick)
        self.active, self.controller, self.played, self.next_row = (
            recording.effectors,
            controller,
            recording,
            0,
        )
        self.wish, self.said = replace(self.wish, mode=REPLAY, active=self.active, paused=False), ""

    def _replayed_tick(self) -> Pose:
        """The next row of the recording; after the last one the controls stay, by hand."""
        assert self.played is not None
        controls, aims = self.played.row(self.next_row)
        pose = self.controller.manual(self.pose, controls)
        self.wish = replace(self.wish, controls=controls, targets={**self.wish.targets, **aims})
        self.next_row += 1
        if self.next_row >= self.played.ticks:
            self.played, self.wish = None, replace(self.wish, mode=MANUAL)
        return pose


def _answers(before: Wish, after: Wish) -> bool:
    """Whether somebody who has changed one wish to another has read what went wrong: a look from
    another side says nothing about that."""
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("mode", "paused", "active", "resets", "recording", "replays")
    )
