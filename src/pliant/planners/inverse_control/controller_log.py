"""The log of a controller that followed target paths, with its report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant.core import Array, Dynamics, Status
from pliant.planners.inverse_control.control_state import (
    CONSTRAINT_VIOLATED,
    UNREACHABLE,
    ControlState,
)
from pliant.result_reports import notebook_html, write_report


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ControllerLog:
    """The control steps of an inverse controller: what it was asked for and what the robot did."""

    model: Dynamics
    effectors: tuple[str, ...]
    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls)
    targets: Array  # (steps, n_effectors, dim) [m]
    positions: Array  # (steps + 1, n_effectors, dim) [m]
    errors: Array  # (steps,) [m] largest distance of an effector from its target
    outcomes: tuple[str, ...]  # (steps,) such as REACHED or UNREACHABLE
    messages: tuple[str, ...]  # (steps,) the same in words
    seconds: Array  # (steps,) [s] computing time of each control step

    @property
    def status(self) -> Status:
        """The status of the last control step. Not ok if its target is unreachable, or if any step
        violates a constraint."""
        violated = [k for k, outcome in enumerate(self.outcomes) if outcome == CONSTRAINT_VIOLATED]
        if violated:
            k = violated[0]
            return Status(
                ok=False,
                text=f"control step {k + 1} of {len(self.outcomes)}: {self.messages[k]}",
                iterations=len(self.outcomes),
            )
        return Status(
            ok=self.outcomes[-1] != UNREACHABLE,
            text=self.messages[-1],
            iterations=len(self.outcomes),
        )

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html, result.json, the animation and the trajectory; return the page.

        `small` draws a smaller and shorter animation. Raises InputError if the folder holds files
        of something else."""
        return write_report(self, folder, title=title, small=small)

    def __repr__(self) -> str:
        return (
            f"ControllerLog({', '.join(self.effectors)}: {len(self.controls)} control steps, "
            f"final error {self.errors[-1]:.3g} m, {self.status.text})"
        )

    def _repr_html_(self) -> str:
        return notebook_html(self)


def log_of(
    model: Dynamics,
    effectors: tuple[str, ...],
    steps: Sequence[ControlState],
    targets: Array,
) -> ControllerLog:
    """Return the log of control states, the initial one first."""
    after = steps[1:]
    return ControllerLog(
        model=model,
        effectors=effectors,
        states=np.array([step.x for step in steps]),
        controls=np.array([step.u for step in after]),
        targets=targets,
        positions=np.array([step.positions for step in steps]),
        errors=np.array([step.error for step in after]),
        outcomes=tuple(step.outcome for step in after),
        messages=tuple(step.message for step in after),
        seconds=np.array([step.solve_seconds for step in after]),
    )
