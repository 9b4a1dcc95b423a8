"""Step 3 of a tick: where it leads, and back to where the robot last stood firmly where there is no
way on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant.bodies import Body
from pliant.core import Array, StepError
from pliant.planners.inverse.aims import Aims
from pliant.planners.inverse.controls import Controls
from pliant.planners.inverse.fold import Fold, Stand, enclosed, with_fold
from pliant.planners.inverse.pose import MOVING, UNKEPT, Pose
from pliant.planners.inverse.rows import Guard, StrokeGuard
from pliant.planners.inverse.ticking import Answer, Nowhere, Ticking, longest_way

REFUSED = "no step can follow these controls so quickly; the robot goes on with those that it has"
BACK = "it goes back to where it last stood firmly"
HELD = "its limits do not let it go back"
SHY = 1e-3  # of the robot's length, the reach after that
LETS_GO = 0.9  # what a robot keeps of its controls in a tick where it has nowhere to go back to
HALVES = 7  # tries of a way back, each half as long
NEAR = 1e-2  # of the robot's length: a robot nearer to balance may stand firmly
MOVED = 3.0  # widths of a fold, by which a robot has been moved
TRIES = 6  # ticks in which a robot comes to rest where its controls stand still


@dataclass(frozen=True, kw_only=True, eq=False)
class Mover:
    """What moves a robot from tick to tick."""

    body: Body
    rule: Ticking
    aims: Aims
    controls: Controls
    strokes: Sequence[StrokeGuard]  # kept in any case
    guards: Sequence[Guard]  # all, with the strokes
    stride: float  # [m] the furthest way of a node in a tick
    length: float  # [m] of the robot

    def reach(self, pose: Pose) -> float:
        """[m] how far a tick may go."""
        return float(np.clip(pose.reach, 1e-6 * self.length, self.stride))

    def _place(self, x: Array) -> Array:
        """(n_dofs,) the positions of a state."""
        return x[: self.body.rest.size]

    def moved(
        self,
        pose: Pose,
        u: Array,
        answer: Answer,
        du: Array,
        *,
        careless: bool,
        may_slip: bool = False,
    ) -> Pose:
        """The pose after a tick along du (n,), on its way unless nothing was found. Strokes are
        kept in any case, all else unless it is `careless`. One that lets go `may_slip` to where it
        comes to rest from its rest shape."""
        guards: Sequence[Guard] = self.strokes if careless else self.guards
        before, chosen = self._place(pose.x), self.controls.chosen
        pose = self._stood(pose, u, answer)
        went = self.rule.go(
            answer,
            u,
            du,
            chosen,
            self.reach(pose),
            lambda q: all(guard.kept(before, q) for guard in guards),
        )
        if isinstance(went, Nowhere):
            gone = went is Nowhere.LOST or (not _stands(pose) and (not answer.stable or pose.folds))
            if gone and self.rule.halts:
                return (self._slipped(pose, u, du) if may_slip else None) or self.back(
                    pose, went.value, u
                )
            return replace(
                self.stayed(pose, went.value), reach=SHY * self.length
            )  # nearer aims may do
        new, q = u.copy(), self._place(went.x)
        new[chosen] += went.share * du
        refused = not self.rule.halts and went.share == 0.0 and bool(du.any())
        after = replace(
            pose,
            k=pose.k + 1,
            x=went.x,
            u=self.controls.within(new),
            places=self.aims.places(q),
            reach=went.reach,
            moved=self._way(q - before),
            folds=self._still_near(pose.folds, q),
            state=UNKEPT if refused else MOVING,
            text=REFUSED if refused else "moving",
        )
        if pose.firm is None or not self._one_way or np.array_equal(after.u, u):
            return after
        return self._tried(pose, pose.firm, after)

    def _tried(self, pose: Pose, firm: Stand, after: Pose) -> Pose:
        """Where there is no way back: the pose after a tick if the robot stands firmly there, else
        the one before with a fold that it would have met."""
        if self._rests(firm if _stands(pose) else None, after):
            return after
        folds = with_fold(pose.folds, firm, after.u, SHY * self.length, self.stride)
        if folds is pose.folds:  # no control that moves the robot has changed
            return self.stayed(pose, Nowhere.LOST.value)
        return replace(
            pose,
            k=after.k,
            state=MOVING,
            text="moving",
            moved=0.0,
            reach=SHY * self.length,
            folds=folds,
        )

    @cached_property
    def _one_way(self) -> bool:
        """Whether there are ways that the robot cannot go back, so that what it does not stand
        firmly after must not be taken."""
        return self.rule.halts and (
            self.controls.one_way or any(stroke.one_way for stroke in self.strokes)
        )

    def _rests(self, firm: Stand | None, pose: Pose) -> bool:
        """Whether the robot would come to rest from a pose, and stand firmly there if it did so
        before, at `firm`: one that a load has made soft must be free to go where it is less so."""
        x, k, still = pose.x, pose.k - 1, np.zeros(self.controls.chosen.size)
        for _ in range(TRIES):
            answer = self.rule.answer(x, pose.u, self.controls.chosen, k)
            if isinstance(answer, str):
                return False
            if answer.stable and self._way(answer.free) <= SHY * self.length:
                return firm is None or firm.next(x, pose.u, self._ways(answer)) is not None
            went = self.rule.go(
                answer, pose.u, still, self.controls.chosen, self.stride, lambda q: True
            )
            if isinstance(went, Nowhere):
                return False
            x = went.x
        return False

    def _ways(self, answer: Answer) -> Array:
        """(n_controls,) [m per unit] how far each control moves a node."""
        ways = np.zeros(len(self.controls.names))
        ways[self.controls.chosen] = longest_way(self.body, answer.columns)
        return ways

    def _stood(self, pose: Pose, u: Array, answer: Answer) -> Pose:
        """What a pose and its folds learn of where the robot is, under controls u. A stand that
        holds no more, since loads have changed, is forgotten."""
        rest, ways = self._way(answer.free), self._ways(answer)
        first, calm = Stand(x=pose.x, u=u, ways=ways), answer.stable and rest <= NEAR * self.length
        stand = (pose.firm or first).next(pose.x, u, ways) if calm else None
        if (
            stand is None
            and pose.firm is not None
            and _stands(pose)
            and np.array_equal(pose.firm.u, u)
        ):
            return replace(pose, firm=None, folds=())
        folds = [fold for fold in pose.folds if not self._outlived(fold, pose.x, u, answer)]
        learned = tuple(
            fold.learned(stand) if fold.unsettled and fold.at(u) and rest <= fold.width else fold
            for fold in folds
        )
        return replace(pose, firm=stand or pose.firm, folds=learned)

    def _outlived(self, fold: Fold, x: Array, u: Array, answer: Answer) -> bool:
        """Whether the robot comes to rest elsewhere than it did on a fold under the same controls
        u: loads have changed, and so may have the fold."""
        if fold.last is None or not np.allclose(fold.last.u, u, rtol=1e-6, atol=0.0):
            return False
        return (
            self._way(self._place(x) + answer.free - self._place(fold.last.x)) > MOVED * fold.width
        )

    def _way(self, step: Array) -> float:
        return float(longest_way(self.body, step))

    def _still_near(self, folds: tuple[Fold, ...], q: Array) -> tuple[Fold, ...]:
        """Those that still count at positions q: away from there all may be different."""
        return tuple(
            fold for fold in folds if self._way(q - self._place(fold.stand.x)) <= fold.within
        )

    def back(self, pose: Pose, why: str, u: Array) -> Pose:
        """No step was found under controls u, and why. A robot that has left a firm stand goes back
        there as far as rates and strokes allow, and what led it away from there is not tried again;
        one that has none, or is there, lets go a little. One that swings stays."""
        if not self.rule.halts:
            return self.stayed(pose, why)
        if pose.firm is None or _stands(pose):
            return self._let_go(pose, why)
        far = self._way(self._place(pose.x) - self._place(pose.firm.x))
        folds = with_fold(pose.folds, pose.firm, u, SHY * self.length, far + self.stride)
        if enclosed(folds):
            return self._let_go(replace(pose, firm=None, folds=()), why)
        return replace(self._returned(pose, pose.firm, why), folds=folds)

    def _slipped(self, pose: Pose, u: Array, du: Array) -> Pose | None:
        """Of a robot that lets go and has no balance nearby, such as one that hooks an obstacle and
        slips off: where it comes to rest from its rest shape; None where it does not let go, or
        does not come to rest there."""
        away, new = np.abs(u - self.controls.neutral), u.copy()
        new[self.controls.chosen] += np.clip(
            du, *((1.0 - LETS_GO) * np.outer([-1.0, 1.0], away[self.controls.chosen]))
        )
        if np.array_equal(new, u) or np.any(np.abs(new - self.controls.neutral) > away):
            return None
        try:
            x = self.rule.begin(None, new)
        except StepError:
            return None
        before, q = self._place(pose.x), self._place(x)
        if not all(guard.kept(before, q) for guard in self.strokes):
            return None
        return replace(
            pose,
            k=pose.k + 1,
            x=x,
            u=new,
            places=self.aims.places(q),
            moved=self._way(q - before),
            reach=SHY * self.length,
            firm=None,
            folds=(),
            state=MOVING,
            text="moving",
        )

    def _let_go(self, pose: Pose, why: str) -> Pose:
        """Controls a little nearer to those that do nothing, as rates allow."""
        less = self.controls.within(
            self.controls.neutral + LETS_GO * (pose.u - self.controls.neutral)
        )
        new = pose.u + np.clip(less - pose.u, *self.controls.room(pose.u))
        held = np.array_equal(new, pose.u) and not np.array_equal(less, pose.u)
        return replace(self.stayed(pose, f"{why}; {HELD}" if held else why), u=new)

    def _returned(self, pose: Pose, stand: Stand, why: str) -> Pose:
        """Back at a stand, or as near as rates and strokes allow."""
        x = self._kept_way(pose.x, stand.x)
        u = self.controls.within(pose.u + np.clip(stand.u - pose.u, *self.controls.room(pose.u)))
        held, q = np.array_equal(x, pose.x) and np.array_equal(u, pose.u), self._place(x)
        return replace(
            self.stayed(pose, f"{why}; {HELD if held else BACK}"),
            x=x,
            u=u,
            places=self.aims.places(q),
            reach=SHY * self.length,
            moved=self._way(q - self._place(pose.x)),
        )

    def _kept_way(self, x: Array, end: Array) -> Array:
        """(n_state,) on the way from x to an end, the whole of it or a half, a quarter, ..., as
        strokes allow."""
        for share in 0.5 ** np.arange(HALVES):
            new = x + share * (end - x)
            if all(guard.kept(self._place(x), self._place(new)) for guard in self.strokes):
                return new
        return x

    def stayed(self, pose: Pose, why: str) -> Pose:
        return replace(pose, k=pose.k + 1, state=UNKEPT, text=why, moved=0.0)


def _stands(pose: Pose) -> bool:
    """Whether a pose is where the robot last stood firmly."""
    return pose.firm is not None and np.array_equal(pose.firm.x, pose.x)
