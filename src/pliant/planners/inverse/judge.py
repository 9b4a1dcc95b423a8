"""What a tick came to, and a few words about it for people."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.planners.inverse.aims import Aims
from pliant.planners.inverse.controls import Controls
from pliant.planners.inverse.fold import Fold
from pliant.planners.inverse.pose import BEYOND, BY_HAND, MOVING, THERE, UNKEPT, Pose
from pliant.planners.inverse.program import Program
from pliant.planners.inverse.ticking import Nowhere


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Gives (state, text) of a pose."""

    aims: Aims
    controls: Controls
    near: float  # [m] to a target is at it

    def of_tick(
        self, pose: Pose, after: Pose, goal: Array, wish: Program, z: Array, broken: Sequence[str]
    ) -> tuple[str, str]:
        """After a tick towards a goal, from `pose` to `after` by the solution z of a program."""
        error = self.aims.missed(after.places, goal)[1]
        if broken:
            return UNKEPT, _unkept(broken)
        if error <= self.near:
            return THERE, "at the target"
        asked = float(np.abs(wish.J @ z).max())  # a step that had to be cut to nothing is no rest
        learns = after.folds != pose.folds or any(fold.unsettled for fold in _met(after))
        if learns or max(asked, float(np.abs(after.places - pose.places).max())) > 0.01 * self.near:
            return MOVING, "moving"
        stops, kept = wish.stops(z)
        if self.controls.hurried(pose.u, after.u)[[self.controls.chosen[j] for j in stops]].any():
            return MOVING, "moving, as fast as its limits allow"
        names = dict.fromkeys(
            [*(self.controls.at_limit(self.controls.chosen[j], after.u) for j in stops), *kept]
        )
        return BEYOND, f"the target is out of reach: closest {_length(error)} away" + (
            f", limited by {', '.join(names)}" if names else ""
        )

    def by_hand(
        self, pose: Pose, after: Pose, given: Array, broken: Sequence[str], stops: Sequence[str]
    ) -> tuple[str, str]:
        """After a tick with controls that were given, from `pose` to `after`; what keeps it from
        going further is in `stops`."""
        if broken:
            return UNKEPT, _unkept(broken)
        if np.allclose(after.u, given, rtol=1e-9, atol=0.0):
            return BY_HAND, "by hand"
        still = (
            np.allclose(after.u, pose.u, rtol=1e-9, atol=0.0) and after.moved <= 0.01 * self.near
        )
        if still and _met(after) and not any(fold.unsettled for fold in _met(after)):
            return UNKEPT, Nowhere.LOST.value
        lower, upper = self.controls.room(after.u)
        held = (given != after.u) & (np.where(given > after.u, upper, lower) == 0.0)
        reached = (self.controls.at_limit(j, after.u) for j in np.flatnonzero(held).tolist())
        names = dict.fromkeys([*reached, *stops])
        return (
            (BEYOND, f"as far as limits allow: held by {', '.join(names)}")
            if still and names
            else (MOVING, "moving")
        )


def _met(pose: Pose) -> list[Fold]:
    """The folds that a pose is at; those that are unsettled may still lead on."""
    return [fold for fold in pose.folds if fold.at(pose.u)]


def _unkept(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} cannot be kept"


def _length(way: float) -> str:
    return f"{way:.3g} m" if way >= 1.0 else f"{1e3 * way:.3g} mm"
