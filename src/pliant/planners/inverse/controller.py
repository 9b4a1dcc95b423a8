"""Inverse control: find at every tick the controls that bring the effectors to their targets (paper 002 section II, Steps 1-3).

A tick linearises the whole model once, factorises once, and solves for the motion without a change of controls (Step 1) and for that of
each control. Condensed to the effectors this is a quadratic program of a few variables (Step 2), and the state is moved by its solution
(Step 3). What is linear here is so for a tick only: the next one starts from where the robot then is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, check_controls, finite_array, require_kind, require_positive
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.semi_implicit import Linearised
from pliant.planners.inverse.aims import Aims
from pliant.planners.inverse.controls import Controls
from pliant.planners.inverse.hand import towards
from pliant.planners.inverse.one_newton import Allowed, Answer, Moved, longest_way
from pliant.planners.inverse.pose import BEYOND, BY_HAND, CALM, MOVING, THERE, UNKEPT, Pose
from pliant.planners.inverse.program import Program, program
from pliant.planners.inverse.rows import Guard, Rows, StrokeGuard, TautGuard

LOST = "no step was found that keeps everything"
REFUSED = "no step can follow these controls so quickly; the robot goes on with those that it has"
FOLD = "there is no balance beyond here, the robot would snap or burst; it is back where it last stood firmly"
SHY = 1e-3  # of the robot's length, the reach after that
LETS_GO = 0.99  # what a robot keeps of its controls where it finds no step


class Rule(Protocol):
    """How a model ticks."""

    @property
    def halts(self) -> bool: ...  # whether every tick ends in balance, so that one that leads astray need not be taken
    def begin(self, x: Array | None, u: Array) -> Array: ...  # the first state under controls u, from a state x where one is given
    def answer(self, x: Array, u: Array, chosen: Array, k: int) -> Answer | str: ...  # or why there is none
    def soon(self, answer: Answer) -> Answer: ...  # at the end of the tick, where the answer looks further ahead
    def go(self, answer: Answer, u: Array, du: Array, chosen: Array, reach: float, allowed: Allowed) -> Moved | None: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What a tick knows before it moves."""

    u: Array  # (n_controls,) where it starts from: slack is taken up
    answer: Answer
    scale: Array  # (n,) [m per unit] how far each control that may move moves a node
    program: Program  # over z = scale du


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverse:
    """A controller that leads effectors to targets; made by inverse."""

    model: Implicit | Linearised
    rule: Rule
    aims: Aims
    controls: Controls
    guards: tuple[Guard, ...]
    stride: float  # [m] the furthest way of a node in a tick
    length: float  # [m] of the robot
    tolerance: float  # of the length: nearer is reached

    def begin(self, x: ArrayLike | None = None, u: ArrayLike | None = None) -> Pose:
        """The robot at rest under controls u (None: those that do nothing), found from a state x where one is given. A model that swings
        goes on from x as it is."""
        given = self.controls.neutral if u is None else check_controls(u, self.model.n_controls)  # type: ignore[arg-type]
        own = self.controls.within(given)
        start = self.rule.begin(None if x is None else finite_array("The first state", x, (self.model.space.size,)), own)
        q = self._position(start)
        for guard in self._strokes:
            if not guard.kept(q, q):
                raise InputError(f"The robot begins with a displacement of {guard.value(q):.3g}, but {guard.stroke.label} goes from "
                                 f"{guard.stroke.lower:g} to {guard.stroke.upper:g}; begin with other controls, or widen it.")  # fmt: skip
        return Pose(k=0, x=start, u=own, places=self.aims.places(q))

    def resume(self, x: ArrayLike, u: ArrayLike, k: int) -> Pose:
        """The robot before tick k, in a state x with controls u as they are."""
        state = finite_array("The state", x, (self.model.space.size,))
        given = check_controls(u, self.model.n_controls)  # type: ignore[arg-type]
        return Pose(k=k, x=state, u=given, places=self.aims.places(self._position(state)))

    def follow(self, pose: Pose, targets: ArrayLike) -> Pose:
        """One tick towards targets (n_effectors, dim) [m]."""
        began, goal = perf_counter(), self.aims.goal(targets)
        look = self._look(pose, goal)
        found = None if isinstance(look, str) else look.program.best()
        if isinstance(look, str):
            return self._timed(self._back(pose, look), goal, began)
        if found is None:
            return self._timed(self._stayed(pose, "no controls keep all limits together, so that they stay as they are"), goal, began)
        z, broken = found
        z = look.program.relaxed(z, look.scale * (look.u - self.controls.neutral)[self.controls.chosen], self._reach(pose))
        after = self._moved(pose, look.u, look.answer, z / look.scale, careless=bool(broken))
        if not after.ok:
            return self._timed(after, goal, began)
        state, text = self._said(pose, after, goal, look.program, z, broken or self._passed(pose, after, self.guards))
        damping = self._calmed(pose, after, goal, look.program, z)
        return self._timed(replace(after, state=state, text=text, damping=damping), goal, began)

    def manual(self, pose: Pose, u: ArrayLike) -> Pose:
        """One tick with given controls, or as far towards them as limits and strokes allow; obstacles push as they do."""
        began, pose = perf_counter(), self._checked(pose)
        given = self.controls.within(check_controls(u, self.model.n_controls))  # type: ignore[arg-type]
        du = np.clip(given - pose.u, *self.controls.room(pose.u))[self.controls.chosen]
        answer = self.rule.answer(pose.x, pose.u, self.controls.chosen, pose.k)
        if isinstance(answer, str):
            return self._timed(self._back(pose, answer), None, began)
        after = self._moved(pose, pose.u, answer, self._towards(pose, answer, du), careless=True)
        if not after.ok:
            return self._timed(after, None, began)
        there, passed = bool(np.allclose(after.u, given, rtol=1e-9, atol=0.0)), self._passed(pose, after, self._strokes)
        state, text = (UNKEPT, _unkept(passed)) if passed else (BY_HAND, "by hand") if there else (MOVING, "moving")
        return self._timed(replace(after, state=state, text=text), None, began)

    def settle(self, pose: Pose, targets: ArrayLike, ticks: int = 200, tolerance: float = 1e-6) -> Pose:
        """Ticks until no node moves by more than `tolerance` of the robot's length in one, or until there were `ticks` of them: then the
        pose says that it is still moving."""
        if isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 1:
            raise InputError(f"The number of ticks is {ticks!r}; give a whole number, 1 or more.")
        near = require_positive("The tolerance of settling", tolerance, "of the robot's length") * self.length
        for _ in range(ticks):
            pose = self.follow(pose, targets)
            if pose.moved <= near < pose.reach and pose.state != MOVING:
                return pose
        return replace(pose, text=f"still moving after {ticks} ticks") if pose.state == MOVING else pose

    def program(self, pose: Pose, targets: ArrayLike) -> Program:
        """The quadratic program of the next tick, to look at."""
        look = self._look(pose, self.aims.goal(targets))
        if isinstance(look, str):
            raise InputError(f"There is no program here: {look}.")
        return look.program

    # Parts of a tick

    def _checked(self, pose: Pose) -> Pose:
        require_kind("The pose", pose, Pose, "begin with controller.begin(), and hand on what follow gives")
        if pose.x.shape != (self.model.space.size,) or pose.u.shape != (self.model.n_controls,) or pose.places.shape != self.aims.shape:
            raise InputError("The pose is one of another robot or of other effectors; begin with controller.begin().")
        finite_array("The state of the pose", pose.x, pose.x.shape)
        finite_array("The controls of the pose", pose.u, pose.u.shape)
        return pose

    def _position(self, x: Array) -> Array:
        return x[: self.model.space.n_dofs]

    def _reach(self, pose: Pose) -> float:
        """[m] how far a tick may go."""
        return float(np.clip(pose.reach, 1e-6 * self.length, self.stride))

    def _look(self, pose: Pose, goal: Array) -> Look | str:
        """Step 1, and the program of Step 2. The aim of all effectors is brought as near as the reach by one factor, so that a far target
        is walked to in steps, and what is nearest to it stays the same."""
        u, chosen = self._taken_up(self._checked(pose)), self.controls.chosen
        answer = self.rule.answer(pose.x, u, chosen, pose.k)
        if isinstance(answer, str):
            return answer
        miss, error = self.aims.missed(pose.places, goal)
        seen = self.aims.root[:, None] * (self.aims.along @ (self.aims.rows @ np.column_stack([answer.free, answer.columns])))
        e = min(1.0, self._reach(pose) / max(error, 1e-300)) * self.aims.root * miss - seen[:, 0]
        lower, upper = (side[chosen] - (u - pose.u)[chosen] for side in self.controls.room(pose.u))
        rows, scale = self._rows(answer, u, self.guards), self._scale(answer)
        wish = program(seen[:, 1:], e, lower, upper, rows, scale, pose.damping, 1e-9 * self.stride)
        return Look(u=u, answer=answer, scale=scale, program=wish)

    def _rows(self, answer: Answer, u: Array, guards: Sequence[Guard]) -> list[Rows]:
        """What some guards keep at the end of the tick, and further ahead where the answer looks there."""
        soon, chosen = self.rule.soon(answer), self.controls.chosen
        rows = [guard.rows(soon, u, chosen) for guard in guards]
        return rows + [guard.rows(answer, u, chosen) for guard in guards if guard.ahead and soon is not answer]

    def _scale(self, answer: Answer) -> Array:
        """(n,) [m per unit]"""
        ways = longest_way(self.model.equations.body, answer.columns)
        return np.where(ways > 1e-12 * ways.max(initial=0.0), ways, 1.0)  # what moves nothing has none of its own

    @property
    def _strokes(self) -> list[StrokeGuard]:
        return [guard for guard in self.guards if isinstance(guard, StrokeGuard)]

    def _towards(self, pose: Pose, answer: Answer, du: Array) -> Array:
        """(n,) what of a change du by hand the strokes allow."""
        if not self._strokes:
            return du
        lower, upper = (side[self.controls.chosen] for side in self.controls.room(pose.u))
        return towards(du, (lower, upper), self._rows(answer, pose.u, self._strokes), self._scale(answer), 1e-9 * self.stride)

    def _passed(self, pose: Pose, after: Pose, guards: Sequence[Guard]) -> tuple[str, ...]:
        """The names of what a tick did not keep. A robot in balance was not let go there; one that swings cannot be stopped."""
        if self.rule.halts:
            return ()
        before, q = self._position(pose.x), self._position(after.x)
        return tuple(dict.fromkeys(guard.name for guard in guards if not guard.kept(before, q)))

    def _taken_up(self, pose: Pose) -> Array:
        """(n_controls,) the controls after slack cables were taken in, which moves nothing."""
        u, (lower, upper) = pose.u.copy(), self.controls.room(pose.u)
        for guard in self.guards:
            if isinstance(guard, TautGuard):
                j = guard.control
                u[j] += np.clip(min(guard.edge(self._position(pose.x)) - u[j], 0.0), lower[j], upper[j])
        return u

    def _moved(self, pose: Pose, u: Array, answer: Answer, du: Array, *, careless: bool) -> Pose:
        """Step 3: the pose after a tick along du (n,), on its way unless nothing was found. Strokes are kept in any case, all else unless
        it is `careless`."""
        guards = [guard for guard in self.guards if isinstance(guard, StrokeGuard) or not careless]
        before, chosen, firm = self._position(pose.x), self.controls.chosen, (pose.x, u) if answer.firm else pose.firm
        moved = self.rule.go(answer, u, du, chosen, self._reach(pose), lambda q: all(guard.kept(before, q) for guard in guards))
        if moved is None:
            return self._back(pose, LOST)
        new, q = u.copy(), self._position(moved.x)
        new[chosen] += moved.share * du
        refused = not self.rule.halts and moved.share == 0.0 and bool(du.any())
        return replace(pose, k=pose.k + 1, x=moved.x, u=self.controls.within(new), places=self.aims.places(q), reach=moved.reach, firm=firm,
                       moved=float(longest_way(self.model.equations.body, q - before)), state=UNKEPT if refused else MOVING,
                       text=REFUSED if refused else "moving")  # fmt: skip

    def _back(self, pose: Pose, why: str) -> Pose:
        """No step was found, and why. A robot that has left a firm stand goes back there as far as rates and strokes allow, and then on in
        small steps; one that stands there and finds none either lets go a little."""
        stays, before = self._stayed(pose, why), self._position(pose.x)
        if pose.firm is None:
            return stays
        (x, u), shy = pose.firm, SHY * self.length
        if np.array_equal(x, pose.x):
            u = self.controls.within(self.controls.neutral + LETS_GO * (pose.u - self.controls.neutral))
        q, u = self._position(x), pose.u + np.clip(u - pose.u, *self.controls.room(pose.u))
        if not all(guard.kept(before, q) for guard in self._strokes):
            return stays
        way = float(longest_way(self.model.equations.body, q - before))
        return replace(stays, x=x, u=u, places=self.aims.places(q), text=FOLD, reach=shy, moved=0.0 if way <= shy else way)

    def _stayed(self, pose: Pose, why: str) -> Pose:
        return replace(pose, k=pose.k + 1, state=UNKEPT, text=why, moved=0.0)

    def _timed(self, pose: Pose, goal: Array | None, began: float) -> Pose:
        """A pose with how far it is from a goal, if there is one, and what the tick took."""
        error = 0.0 if goal is None else self.aims.missed(pose.places, goal)[1]
        return replace(pose, error=error, solve_seconds=perf_counter() - began)

    def _said(self, pose: Pose, after: Pose, goal: Array, wish: Program, z: Array, broken: tuple[str, ...]) -> tuple[str, str]:
        """What a tick came to, and a few words about it."""
        error, small = self.aims.missed(after.places, goal)[1], 0.01 * self.tolerance * self.length
        if broken:
            return UNKEPT, _unkept(broken)
        if error <= self.tolerance * self.length:
            return THERE, "at the target"
        asked = float(np.abs(wish.J @ z).max())  # a step that had to be cut to nothing is no rest
        if max(asked, float(np.abs(after.places - pose.places).max())) > small:
            return MOVING, "moving"
        stops, kept = wish.stops(z)
        if self.controls.hurried(pose.u, after.u)[[self.controls.chosen[j] for j in stops]].any():
            return MOVING, "moving, as fast as its limits allow"
        names = dict.fromkeys([*(self.controls.names[self.controls.chosen[j]] for j in stops), *kept])
        return BEYOND, f"the target is out of reach: closest {_length(error)} away" + (f", limited by {', '.join(names)}" if names else "")

    def _calmed(self, pose: Pose, after: Pose, goal: Array, wish: Program, z: Array) -> float:
        """The damping of the next tick, by Levenberg and Marquardt: what a tick gained over what its program promised."""
        miss, error = self.aims.missed(pose.places, goal)
        calmer = max(CALM, 0.25 * pose.damping)
        if error <= self.tolerance * self.length or not self.rule.halts:
            return calmer
        part = min(1.0, self._reach(pose) / error)
        left = self.aims.missed(after.places, pose.places + part * (goal - pose.places))[0]
        start, end, foreseen = (float(way @ way) for way in (self.aims.root * part * miss, self.aims.root * left, wish.e - wish.J @ z))
        if start - foreseen <= 1e-9 * start:  # there is nothing left to gain, so that the ratio is one of round-off
            return pose.damping
        gained = (start - end) / (start - foreseen)
        return min(4.0 * max(pose.damping, 1e-4), 1e2) if gained < 0.25 else calmer if gained > 0.75 else pose.damping


def _unkept(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} cannot be kept"


def _length(way: float) -> str:
    return f"{way:.3g} m" if way >= 1.0 else f"{1e3 * way:.3g} mm"
