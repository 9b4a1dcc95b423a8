"""Step 3 of a tick: where it leads, and back to where the robot last stood firmly where there is no way on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.bodies import Body
from pliant.core import Array
from pliant.planners.inverse.aims import Aims
from pliant.planners.inverse.controls import Controls
from pliant.planners.inverse.fold import SOFT, Fold, Stand, with_fold
from pliant.planners.inverse.pose import MOVING, UNKEPT, Pose
from pliant.planners.inverse.rows import Guard
from pliant.planners.inverse.ticking import Answer, Nowhere, Ticking, longest_way

REFUSED = "no step can follow these controls so quickly; the robot goes on with those that it has"
BACK = "it goes back to where it last stood firmly"
SHY = 1e-3  # of the robot's length, the reach after that
LETS_GO = 0.99  # what a robot keeps of its controls where it stands and finds no step
TRIES = 7  # of a way back, each half as long


@dataclass(frozen=True, kw_only=True, eq=False)
class Mover:
    """What moves a robot from tick to tick."""

    body: Body
    rule: Ticking
    aims: Aims
    controls: Controls
    strokes: Sequence[Guard]  # kept in any case
    guards: Sequence[Guard]  # all, with the strokes
    stride: float  # [m] the furthest way of a node in a tick
    length: float  # [m] of the robot

    def reach(self, pose: Pose) -> float:
        """[m] how far a tick may go."""
        return float(np.clip(pose.reach, 1e-6 * self.length, self.stride))

    def _place(self, x: Array) -> Array:
        """(n_dofs,) the positions of a state."""
        return x[: self.body.rest.size]

    def moved(self, pose: Pose, u: Array, answer: Answer, du: Array, scale: Array, *, careless: bool) -> Pose:
        """Step 3: the pose after a tick along du (n,), on its way unless nothing was found. Strokes are kept in any case, all else unless
        it is `careless`."""
        guards: Sequence[Guard] = self.strokes if careless else self.guards
        before, chosen = self._place(pose.x), self.controls.chosen
        stands = answer.stable and answer.near
        if stands:
            pose = self._stands(pose, u, scale)
        went = self.rule.go(answer, u, du, chosen, self.reach(pose), lambda q: all(guard.kept(before, q) for guard in guards))
        if isinstance(went, Nowhere):
            gone = went is Nowhere.LOST or (not stands and (not answer.stable or pose.folds))
            return self.back(pose, went.value, du) if gone else self.stayed(pose, went.value)
        new, q = u.copy(), self._place(went.x)
        new[chosen] += went.share * du
        refused = not self.rule.halts and went.share == 0.0 and bool(du.any())
        return replace(pose, k=pose.k + 1, x=went.x, u=self.controls.within(new), places=self.aims.places(q), reach=went.reach,
                       moved=self._way(q - before), folds=self._near(pose.folds, q), state=UNKEPT if refused else MOVING,
                       text=REFUSED if refused else "moving")  # fmt: skip

    def _stands(self, pose: Pose, u: Array, scale: Array) -> Pose:
        """A pose that forces balance, under controls u: whether firmly too is what it and its folds learn."""
        calm, chosen = pose.firm.scale if pose.firm else scale, self.controls.chosen
        firm = bool(np.all(scale <= SOFT * calm))
        folds = tuple(lost.learned(firm) if lost.open and lost.at(u, chosen) else lost for lost in pose.folds)
        return replace(pose, firm=Stand(x=pose.x, u=u, scale=calm) if firm else pose.firm, folds=folds)

    def _way(self, step: Array) -> float:
        return float(longest_way(self.body, step))

    def _near(self, folds: tuple[Fold, ...], q: Array) -> tuple[Fold, ...]:
        """Those that still count at positions q: away from there all may be different."""
        return tuple(lost for lost in folds if self._way(q - self._place(lost.stand.x)) <= self.stride)

    def back(self, pose: Pose, why: str, du: Array | None = None) -> Pose:
        """No step was found along du, and why. A robot that has left a firm stand goes back there as far as rates and strokes allow, one
        that stands there lets go a little, and what led it so far is not tried again."""
        stays, stand, shy = self.stayed(pose, why), pose.firm, SHY * self.length
        if stand is None:
            return stays
        there, chosen = bool(np.array_equal(stand.x, pose.x)), self.controls.chosen
        to, lost = stand.u, pose.u.copy()
        if there:
            to = self.controls.within(self.controls.neutral + LETS_GO * (pose.u - self.controls.neutral))
            lost[chosen] += 0.0 if du is None else du
        x, u = self._kept_way(pose.x, stand.x), pose.u + np.clip(to - pose.u, *self.controls.room(pose.u))
        q = self._place(x)
        return replace(stays, x=x, u=u, places=self.aims.places(q), text=why if there else f"{why}; {BACK}", reach=shy,
                       folds=with_fold(pose.folds, stand, lost, chosen, shy), moved=self._way(q - self._place(pose.x)))  # fmt: skip

    def _kept_way(self, x: Array, end: Array) -> Array:
        """(n_state,) on the way from x to an end, the whole of it or a half, a quarter, ..., as strokes allow."""
        for share in 0.5 ** np.arange(TRIES):
            new = x + share * (end - x)
            if all(guard.kept(self._place(x), self._place(new)) for guard in self.strokes):
                return new
        return x

    def stayed(self, pose: Pose, why: str) -> Pose:
        return replace(pose, k=pose.k + 1, state=UNKEPT, text=why, moved=0.0)
