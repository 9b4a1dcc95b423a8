"""Recorder: notes what a driven robot does, tick by tick."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pliant.controls import Control
from pliant.core import Array
from pliant.planners import Pose
from pliant.viewer.recording import Recording

LONGEST = 216_000  # ticks: an hour at 60 Hz


@dataclass(kw_only=True)
class Recorder:
    """A recording under way."""

    robot: str
    controls: Sequence[Control]
    dt: float | None  # [s] of a dynamic tick
    effectors: tuple[str, ...]
    began: float  # [s] of the driven time
    first: Pose  # before the first tick
    rows: list[tuple[float, Array, Array, Array]] = field(
        default_factory=list
    )  # time [s], controls, targets, places

    @property
    def full(self) -> bool:
        return len(self.rows) >= LONGEST

    def note(self, time: float, pose: Pose, targets: Array) -> None:
        """A tick ended at a time [s] of the driven time in a pose, on the way to targets
        (n_effectors, dim) [m]."""
        self.rows.append((time - self.began, pose.u, targets, pose.places))

    def recording(self, since: int = 0) -> Recording:
        """All that was noted, or what was noted since a row."""
        times, commands, targets, places = (
            np.array(part) for part in zip(*self.rows[since:], strict=True)
        )
        return Recording(
            robot=self.robot,
            names=tuple(c.name for c in self.controls),
            units=tuple(c.unit for c in self.controls),
            dt=self.dt,
            effectors=self.effectors,
            tick=int(self.first.k),
            start=self.first.x,
            before=self.first.u,
            times=times,
            controls=commands,
            targets=targets,
            places=places,
        )
