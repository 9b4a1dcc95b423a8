"""The rule by which a model takes control steps, and its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from pliant.bodies import Body
from pliant.contact import Contact
from pliant.core import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitivity:
    """First-order prediction of the positions: q + free_motion + columns du."""

    q: Array  # (n_dofs,) [m] now
    free_motion: Array  # (n_dofs,) [m] displacement if the controls stay unchanged
    columns: Array  # (n_dofs, n) [m per unit of each free control]
    cache: Any = None  # data of the rule for `advance`
    stable: bool = False  # whether the tangent stiffness is positive definite


@dataclass(frozen=True, kw_only=True, eq=False)
class StepResult:
    """The end of a control step."""

    x: Array  # (n_state,)
    fraction: float  # of the change of the controls that was applied
    trust_radius: float = np.inf  # [m] for the next control step


class StepFailure(Enum):
    """The reason why a control step failed."""

    NOT_ADMISSIBLE = "no step satisfies all constraints"
    NO_PROGRESS = "the step makes no progress"
    NO_EQUILIBRIUM = "no stable equilibrium was found for the next controls: the robot would snap"


Admissible = Callable[[Array], bool]  # whether positions (n_dofs,) satisfy the constraints


class StepRule(Protocol):
    """A rule by which a model takes control steps."""

    @property
    def quasistatic(self) -> bool:
        """Whether every control step ends in an equilibrium, so that a bad one can be rejected."""

    def begin(self, x: Array | None, u: Array) -> Array:
        """Return the first state under controls u, starting from state x if given."""

    def sensitivity(self, x: Array, u: Array, free_controls: Array, k: int) -> Sensitivity | str:
        """Return the sensitivity to the free controls (indices), or why there is none."""

    def at_step_end(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity at the end of the step, if the given one looks further ahead."""

    def without_contacts(self, contacts: Sequence[Contact]) -> "StepRule":
        """Return the rule of the same robot without some contacts."""

    def advance(
        self,
        sensitivity: Sensitivity,
        u: Array,
        du: Array,
        free_controls: Array,
        trust_radius: float,
        admissible: Admissible,
    ) -> StepResult | StepFailure:
        """Take a step along du (n,), shortened as needed."""


def largest_displacement(body: Body, step: Array) -> Array:
    """[m] of a node along an axis, of a step (n_dofs,) or of each column of (n_dofs, n). A rotation
    counts by the displacement of the end of a cell."""
    if not body.is_position.all():
        step = (step.T * np.repeat(np.where(body.is_position, 1.0, body.cell_size()), body.dim)).T
    return np.abs(step).max(axis=0, initial=0.0)


def body_length(body: Body) -> float:
    """[m] the largest extent of the body at rest along an axis."""
    return float(np.ptp(body.rest.reshape(-1, body.dim)[body.is_position], axis=0).max())
