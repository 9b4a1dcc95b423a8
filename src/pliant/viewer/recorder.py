"""Recorder: collects the control steps of a driven robot."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pliant.core import Array
from pliant.planners import ControlState
from pliant.robot import Control
from pliant.viewer.recording import Recording

MAX_STEPS = 216_000  # control steps: one hour at 60 Hz


@dataclass(kw_only=True)
class Recorder:
    """The rows of a current recording."""

    robot: str
    controls: Sequence[Control]
    dt: float | None  # [s] control period of a dynamic model; None: quasistatic
    effectors: tuple[str, ...]
    start_time: float  # [s] driving time at the start of the recording
    initial_state: ControlState  # before the first control step
    # time [s], controls, targets [m] and effector positions [m] of each control step
    rows: list[tuple[float, Array, Array, Array]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= MAX_STEPS

    def append(self, time: float, state: ControlState, targets: Array) -> None:
        """Add a control step that ended at a driving time [s], with targets (n_effectors, dim)
        [m]."""
        self.rows.append((time - self.start_time, state.u, targets, state.positions))

    def recording(self, since: int = 0) -> Recording:
        """Return the rows from index `since` as a recording."""
        times, controls, targets, positions = (
            np.array(part) for part in zip(*self.rows[since:], strict=True)
        )
        return Recording(
            robot=self.robot,
            names=tuple(c.name for c in self.controls),
            units=tuple(c.unit for c in self.controls),
            dt=self.dt,
            effectors=self.effectors,
            first_step=int(self.initial_state.k),
            start=self.initial_state.x,
            previous_control=self.initial_state.u,
            times=times,
            controls=controls,
            targets=targets,
            positions=positions,
        )
