"""Inverse control: find at every tick the controls that bring the effectors to their targets (paper
002 section II, Steps 1-3).

A tick linearises the whole model once, factorises once, and solves for the motion without a change
of controls (Step 1) and for that of each control. Condensed to the effectors this is a quadratic
program of a few variables (Step 2), and the state is moved by its solution (Step 3). What is linear
here is so for a tick only: the next one starts from where the robot then is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    InputError,
    check_controls,
    finite_array,
    is_whole,
    quoted,
    require_kind,
    require_positive,
)
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.semi_implicit import Linearised
from pliant.planners.inverse.aims import Aims
from pliant.planners.inverse.controls import Controls
from pliant.planners.inverse.hand import stops, towards
from pliant.planners.inverse.judge import Judge
from pliant.planners.inverse.mover import Mover
from pliant.planners.inverse.pose import CALM, MOVING, READY, UNKEPT, Pose
from pliant.planners.inverse.program import Program, program
from pliant.planners.inverse.rows import Guard, ObstacleGuard, Rows, StrokeGuard, TautGuard
from pliant.planners.inverse.ticking import Answer, Ticking, longest_way


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What a tick knows before it moves."""

    u: Array  # (n_controls,) where it starts from: slack is taken up
    answer: Answer
    scale: Array  # (n,) [m per unit] how far each control that may move moves a node
    program: Program  # over z = scale du
    pressed: bool  # whether it looks at the robot without obstacles that it presses on


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverse:
    """A controller that leads effectors to targets; made by inverse."""

    model: Implicit | Linearised
    rule: Ticking
    aims: Aims
    controls: Controls
    cables: tuple[TautGuard, ...]
    strokes: tuple[StrokeGuard, ...]
    obstacles: tuple[ObstacleGuard, ...]
    stride: float  # [m] the furthest way of a node in a tick
    length: float  # [m] of the robot
    tolerance: float  # of the length: nearer is reached

    def begin(self, x: ArrayLike | None = None, u: ArrayLike | None = None) -> Pose:
        """The robot at rest under controls u (None: those that do nothing), found from a state x
        where one is given. A model that swings goes on from x as it is."""
        given = self.controls.neutral if u is None else check_controls(u, self.model.n_controls)  # type: ignore[arg-type]
        own = self.controls.within(given)
        first = None if x is None else finite_array("The first state", x, (self.model.space.size,))
        self._check_outside(
            "rest shape" if first is None else "first state",
            self.model.equations.body.rest if first is None else first,
        )
        start = self.rule.begin(first, own)
        q = self._position(start)
        for guard in self.strokes:
            if not guard.kept(q, q):
                raise InputError(
                    f"The robot begins with a displacement of {guard.value(q):.3g}, but "
                    f"{guard.stroke.label} goes from {guard.stroke.lower:g} to "
                    f"{guard.stroke.upper:g}; begin with other controls, or widen it."
                )
        return Pose(k=0, x=start, u=own, places=self.aims.places(q))

    def take_over(self, pose: Pose) -> Pose:
        """A pose of another controller of the same model, with the effectors of this one."""
        other = self._fits(pose)
        return replace(
            other,
            u=self.controls.within(other.u),
            places=self.aims.places(self._position(other.x)),
            error=0.0,
            state=READY,
            text=READY,
        )

    def resume(self, x: ArrayLike, u: ArrayLike, k: int) -> Pose:
        """The pose before tick k with a state x and controls u as they are, in balance or not."""
        if not is_whole(k) or k < 0:
            raise InputError(
                f"The tick to go on from is {quoted(k)}; give a whole number, 0 or more."
            )
        state = finite_array("The state", x, (self.model.space.size,)).copy()
        torn = self.model.equations.body.inverted(self._position(state))
        if torn is not None:
            raise InputError(
                f"The state to go on from has cell {torn[1]} turned inside out; give one that "
                "the robot was in."
            )
        own = self.controls.within(check_controls(u, self.model.n_controls))  # type: ignore[arg-type]
        return Pose(k=k, x=state, u=own, places=self.aims.places(self._position(state)))

    def follow(self, pose: Pose, targets: ArrayLike) -> Pose:
        """One tick towards targets (n_effectors, dim) [m]."""
        began, goal = perf_counter(), self.aims.goal(targets)
        look = self._look(pose, goal)
        if isinstance(look, str):
            return self._timed(self._mover.back(pose, look, pose.u), goal, began)
        found = look.program.best()
        if found is None:
            return self._timed(self._held(pose, look), goal, began)
        z, broken = found
        z = look.program.relaxed(
            z,
            look.scale * (look.u - self.controls.neutral)[self.controls.chosen],
            self._mover.reach(pose),
        )
        after = self._mover.moved(
            pose, look.u, look.answer, z / look.scale, careless=bool(broken) or look.pressed
        )
        if not after.ok:
            return self._timed(after, goal, began)
        state, text = self._judge.of_tick(
            pose, after, goal, look.program, z, broken or self._passed(pose, after, self._guards)
        )
        damping = pose.damping if look.pressed else self._calmed(pose, after, goal, look.program, z)
        return self._timed(replace(after, state=state, text=text, damping=damping), goal, began)

    def _held(self, pose: Pose, look: Look) -> Pose:
        """After a tick in which no controls keep all limits together: a robot that swings swings
        on."""
        why = "no controls keep all limits together, so that they stay as they are"
        if self.rule.halts:
            return self._mover.stayed(pose, why)
        after = self._mover.moved(
            pose, pose.u, look.answer, np.zeros(self.controls.chosen.size), careless=True
        )
        return replace(after, u=pose.u, state=UNKEPT, text=why) if after.ok else after

    def manual(self, pose: Pose, u: ArrayLike) -> Pose:
        """One tick with given controls, or as far towards them as limits and strokes allow;
        obstacles push as they do."""
        began, pose = perf_counter(), self._checked(pose)
        given = self.controls.within(check_controls(u, self.model.n_controls))  # type: ignore[arg-type]
        u = np.maximum(
            self._taken_up(pose), np.minimum(given, pose.u)
        )  # slack is taken up where a hand pulls
        asked = (np.clip(given - pose.u, *self.controls.room(pose.u)) - (u - pose.u))[
            self.controls.chosen
        ]
        answer = self.rule.answer(pose.x, u, self.controls.chosen, pose.k)
        if isinstance(answer, str):
            return self._timed(self._mover.back(pose, answer, u), None, began)
        rows = [*self._rows(self.rule, answer, u, self.strokes), *self._folded(pose, u)]
        du = (
            towards(asked, self._room(pose, u), rows, self._scale(answer), 1e-9 * self.stride)
            if rows
            else asked
        )
        after = self._mover.moved(
            pose, u, answer, du, careless=True, may_slip=not self.model.robot.changes_in_time
        )
        if not after.ok:
            return self._timed(after, None, began)
        state, text = self._judge.by_hand(
            pose, after, given, self._passed(pose, after, self.strokes), stops(rows, du, asked)
        )
        return self._timed(replace(after, state=state, text=text), None, began)

    def settle(
        self, pose: Pose, targets: ArrayLike, ticks: int = 200, tolerance: float = 1e-6
    ) -> Pose:
        """Ticks until no node moves by more than `tolerance` of the robot's length in one, or until
        there were `ticks` of them: then the pose says that it is still moving."""
        if not is_whole(ticks) or ticks < 1:
            raise InputError(
                f"The number of ticks is {quoted(ticks)}; give a whole number, 1 or more."
            )
        near = (
            require_positive("The tolerance of settling", tolerance, "of the robot's length")
            * self.length
        )
        for _ in range(ticks):
            before, pose = pose, self.follow(pose, targets)
            tries = pose.state == UNKEPT and (
                not np.array_equal(pose.u, before.u) or pose.reach < before.reach
            )
            if pose.moved <= near < pose.reach and pose.state != MOVING and not tries:
                return pose
        beside = "" if pose.state == MOVING else f" ({pose.text})"
        return replace(pose, text=f"still moving after {ticks} ticks{beside}")

    def program(self, pose: Pose, targets: ArrayLike) -> Program:
        """The quadratic program of the next tick, to look at."""
        look = self._look(pose, self.aims.goal(targets))
        if isinstance(look, str):
            raise InputError(f"There is no program here: {look}.")
        return look.program

    # Parts of a tick

    def _check_outside(self, what: str, x: Array) -> None:
        """A sentence where a state is deeper in an obstacle than a tick leads."""
        depth = max(
            (
                -float(obstacle.gaps(self._position(x)).min(initial=0.0))
                for obstacle in self.obstacles
            ),
            default=0.0,
        )
        if depth > self.stride:
            raise InputError(
                f"The robot's {what} is {depth:.3g} m deep in an obstacle that it is to keep "
                "off; move one of them (or, in Python, leave that contact out of inverse(..., "
                "obstacles=...))."
            )

    def _checked(self, pose: Pose) -> Pose:
        if self._fits(pose).places.shape != self.aims.shape:
            raise InputError(
                "The pose is one of other effectors; begin with controller.begin(), or go on "
                "with controller.take_over(pose)."
            )
        finite_array("The state of the pose", pose.x, pose.x.shape)
        finite_array("The array of controls of the pose", pose.u, pose.u.shape)
        return pose

    def _fits(self, pose: Pose) -> Pose:
        require_kind(
            "The pose", pose, Pose, "begin with controller.begin(), and hand on what follow gives"
        )
        if pose.x.shape != (self.model.space.size,) or pose.u.shape != (self.model.n_controls,):
            raise InputError("The pose is one of another robot; begin with controller.begin().")
        return pose

    def _position(self, x: Array) -> Array:
        return x[: self.model.space.n_dofs]

    @cached_property
    def _judge(self) -> Judge:
        return Judge(aims=self.aims, controls=self.controls, near=self.tolerance * self.length)

    @cached_property
    def _mover(self) -> Mover:
        return Mover(
            body=self.model.equations.body,
            rule=self.rule,
            aims=self.aims,
            controls=self.controls,
            strokes=self.strokes,
            guards=self._guards,
            stride=self.stride,
            length=self.length,
        )

    def _look(self, pose: Pose, goal: Array) -> Look | str:
        """Step 1, and the program of Step 2. The aim of all effectors is brought as near as the
        reach by one factor, so that a far target is walked to in steps, and what is nearest to it
        stays the same."""
        u, chosen = self._taken_up(self._checked(pose)), self.controls.chosen
        answer = self.rule.answer(pose.x, u, chosen, pose.k)
        if isinstance(answer, str):
            return answer
        rule, open_answer = self._let_off(pose, u, answer)
        miss, error = self.aims.missed(pose.places, goal)
        seen = self.aims.root[:, None] * (
            self.aims.along
            @ (self.aims.rows @ np.column_stack([open_answer.free, open_answer.columns]))
        )
        e = (
            min(1.0, self._mover.reach(pose) / max(error, 1e-300)) * self.aims.root * miss
            - seen[:, 0]
        )
        rows = [
            *self._rows(self.rule, answer, u, (*self.cables, *self.strokes)),
            *self._rows(rule, open_answer, u, self.obstacles),
        ]
        scale = self._scale(open_answer)
        wish = program(
            seen[:, 1:],
            e,
            *self._room(pose, u),
            [*rows, *self._folded(pose, u)],
            scale,
            pose.damping,
            1e-9 * self.stride,
        )
        return Look(
            u=u, answer=answer, scale=scale, program=wish, pressed=open_answer is not answer
        )

    def _let_off(self, pose: Pose, u: Array, answer: Answer) -> tuple[Ticking, Answer]:
        """What the program is made of. An obstacle that the robot presses on holds it, so that no
        control seems to lead away from there: then it is the answer of the robot without what it is
        to keep off, which is held back by the program's rows alone."""
        if any((guard.gaps(answer.q) < 0.0).any() for guard in self.obstacles):
            found = self._unheld.answer(pose.x, u, self.controls.chosen, pose.k)
            if not isinstance(found, str):
                return self._unheld, found
        return self.rule, answer

    @cached_property
    def _unheld(self) -> Ticking:
        return self.rule.without_contacts([guard.term.contact for guard in self.obstacles])

    def _rows(self, rule: Ticking, answer: Answer, u: Array, guards: Sequence[Guard]) -> list[Rows]:
        """What some guards keep at the end of the tick, and further ahead where the answer looks
        there."""
        soon, chosen = rule.soon(answer), self.controls.chosen
        rows = [guard.rows(soon, u, chosen) for guard in guards]
        return rows + [
            guard.rows(answer, u, chosen) for guard in guards if guard.ahead and soon is not answer
        ]

    def _scale(self, answer: Answer) -> Array:
        """(n,) [m per unit]"""
        ways = longest_way(self.model.equations.body, answer.columns)
        return np.where(
            ways > 1e-12 * ways.max(initial=0.0), ways, 1.0
        )  # what moves nothing has none of its own

    @property
    def _guards(self) -> tuple[Guard, ...]:
        return *self.cables, *self.strokes, *self.obstacles

    def _folded(self, pose: Pose, u: Array) -> list[Rows]:
        """What is not to be tried again."""
        return [fold.rows(u, self.controls.chosen) for fold in pose.folds]

    def _room(self, pose: Pose, u: Array) -> tuple[Array, Array]:
        """((n,), (n,)) what each control that may move may change by after slack was taken up to
        u."""
        lower, upper = (
            side[self.controls.chosen] - (u - pose.u)[self.controls.chosen]
            for side in self.controls.room(pose.u)
        )
        return lower, upper

    def _passed(self, pose: Pose, after: Pose, guards: Sequence[Guard]) -> tuple[str, ...]:
        """The names of what a tick did not keep. A robot in balance was not let go there; one that
        swings cannot be stopped."""
        if self.rule.halts:
            return ()
        before, q = self._position(pose.x), self._position(after.x)
        return tuple(dict.fromkeys(guard.name for guard in guards if not guard.kept(before, q)))

    def _taken_up(self, pose: Pose) -> Array:
        """(n_controls,) the controls after slack cables were taken in, which moves nothing."""
        u, (lower, upper) = pose.u.copy(), self.controls.room(pose.u)
        for cable in self.cables:
            j = cable.control
            u[j] += np.clip(min(cable.edge(self._position(pose.x)) - u[j], 0.0), lower[j], upper[j])
        return u

    def _timed(self, pose: Pose, goal: Array | None, began: float) -> Pose:
        """A pose with how far it is from a goal, if there is one, and what the tick took."""
        error = 0.0 if goal is None else self.aims.missed(pose.places, goal)[1]
        return replace(pose, error=error, solve_seconds=perf_counter() - began)

    def _calmed(self, pose: Pose, after: Pose, goal: Array, wish: Program, z: Array) -> float:
        """The damping of the next tick, by Levenberg and Marquardt: what a tick gained over what
        its program promised."""
        miss, error = self.aims.missed(pose.places, goal)
        calmer = max(CALM, 0.25 * pose.damping)
        if error <= self.tolerance * self.length or not self.rule.halts:
            return calmer
        part = min(1.0, self._mover.reach(pose) / error)
        left = self.aims.missed(after.places, pose.places + part * (goal - pose.places))[0]
        start, end, foreseen = (
            float(way @ way)
            for way in (self.aims.root * part * miss, self.aims.root * left, wish.e - wish.J @ z)
        )
        if (
            start - foreseen <= 1e-9 * start
        ):  # there is nothing left to gain, so that the ratio is one of round-off
            return pose.damping
        gained = (start - end) / (start - foreseen)
        return (
            min(4.0 * max(pose.damping, 1e-4), 1e2)
            if gained < 0.25
            else calmer
            if gained > 0.75
            else pose.damping
        )
