"""Pose: what a tick of inverse control leaves behind."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.planners.inverse.fold import Fold, Stand

CALM = 1e-6  # the least damping of a tick

# What a tick came to: the robot is on its way, at its target, as near as it gets, could not keep
# something, or obeys a hand
READY, MOVING, THERE, BEYOND, UNKEPT, BY_HAND = (
    "ready",
    "moving",
    "there",
    "beyond",
    "unkept",
    "by hand",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pose:
    """Where a robot is after tick k - 1, and what there is to say about it."""

    k: int
    x: Array  # (n_state,)
    u: Array  # (n_controls,)
    places: Array  # (n_effectors, dim) [m]
    state: str = READY  # or MOVING, THERE, BEYOND, UNKEPT, BY_HAND
    text: str = "ready"  # the same in words, for people
    # [m] how far the worst effector is from its target, along the directions that count; 0 where
    # there is none
    error: float = 0.0
    solve_seconds: float = 0.0  # [s] that the tick took
    moved: float = 0.0  # [m] how far the node went that went furthest
    reach: float = (
        np.inf
    )  # [m] how far the next tick may go: less where the last one had to be shortened
    damping: float = CALM  # of the next tick: more where the last one promised too much
    firm: Stand | None = None  # where the robot last stood firmly
    folds: tuple[Fold, ...] = ()  # near here, what is not to be tried again

    @property
    def ok(self) -> bool:
        """False where the target is out of reach, or something could not be kept."""
        return self.state not in (BEYOND, UNKEPT)
