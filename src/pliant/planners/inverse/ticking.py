"""How a model ticks under inverse control: what every rule answers, and how far its ticks lead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from pliant.bodies import Body
from pliant.contact import Contact
from pliant.core import Array

GROWS = 1.5  # the reach, after a tick that needed no shortening


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """Where a model will be, to first order in a change du of some controls: q + free + columns
    du."""

    q: Array  # (n_dofs,) [m] now
    free: Array  # (n_dofs,) [m] the motion where the controls stand still
    columns: Array  # (n_dofs, k) [m per unit of each control]
    inner: Any = None  # what the rule that gave it needs to go on
    stable: bool = False  # whether a small push at q changes little


@dataclass(frozen=True, kw_only=True, eq=False)
class Went:
    """Where a tick ended."""

    x: Array  # (n_state,)
    share: float  # of the change of the controls that it took
    reach: float = np.inf  # [m] how far the next tick may well go


class Nowhere(Enum):
    """Why a tick found no step."""

    BARRED = "no step was found that keeps everything"
    ASTRAY = "no step leads on from here"
    LOST = "no balance was found beyond here, the robot would snap or burst"


Allowed = Callable[[Array], bool]  # may the positions (n_dofs,) be?


class Ticking(Protocol):
    """A rule by which a model ticks."""

    @property
    def halts(
        self,
    ) -> (
        bool
    ): ...  # whether every tick ends in balance, so that one that leads astray need not be taken
    def begin(
        self, x: Array | None, u: Array
    ) -> Array: ...  # the first state under controls u, from a state x where one is given
    def answer(
        self, x: Array, u: Array, chosen: Array, k: int
    ) -> Answer | str: ...  # or why there is none
    def soon(
        self, answer: Answer
    ) -> Answer: ...  # at the end of the tick, where the answer looks further ahead
    def without_contacts(
        self, contacts: Sequence[Contact]
    ) -> "Ticking": ...  # the rule of the robot that does not touch some
    def go(
        self, answer: Answer, u: Array, du: Array, chosen: Array, reach: float, allowed: Allowed
    ) -> Went | Nowhere: ...


def longest_way(body: Body, step: Array) -> Array:
    """[m] the longest way along an axis of any node over a step (n_dofs,), or over each column of
    (n_dofs, k); a turn moves the end of a cell."""
    if not body.is_place.all():
        step = (step.T * np.repeat(np.where(body.is_place, 1.0, body.cell_size()), body.dim)).T
    return np.abs(step).max(axis=0, initial=0.0)


def length_of(body: Body) -> float:
    """[m] along the axis that it is longest along, at rest."""
    return float(np.ptp(body.rest.reshape(-1, body.dim)[body.is_place], axis=0).max())
