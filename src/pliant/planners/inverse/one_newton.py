"""One Newton step a tick: a robot in balance follows its controls by one linearisation and one
factor (paper 002 eq. 2 and 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant import linalg
from pliant.contact import AttachedContact, Contact
from pliant.core import Array
from pliant.dynamics import equilibrium
from pliant.dynamics.equations import Equations, Numbers
from pliant.dynamics.implicit import Implicit
from pliant.planners.inverse.ticking import (
    GROWS,
    Allowed,
    Answer,
    Nowhere,
    Went,
    length_of,
    longest_way,
)

SHORTER = 8  # tries of shorter and shorter steps
STRAYS = (
    0.35  # as a share of the step: a second step that is longer says that the first one led astray
)
SNAPPED = 10.0  # reaches: where balance is further away, a robot has lost it
BETTER = 0.2  # what a shortened step aims at instead
NEARBY = 2.0  # reaches: balance on the other side of a contact's onset
PATIENCE = 12  # iterations of a round in which a balance is looked for
ROUNDS = 4  # as long as it has not run away
RUNS_AWAY = 0.5  # of its length, that a robot has gone without finding one


@dataclass(frozen=True, kw_only=True, eq=False)
class Factored:
    """The linearisation of a tick."""

    solve: linalg.Solve
    numbers: Numbers
    k: int


@dataclass(frozen=True, kw_only=True, eq=False)
class OneNewton:
    """The ticks of a Quasistatic model: K dq = -r - B du at (q, u), then a second, corrected step
    with the same factor.

    K has the geometric stiffness of the actuators' forces where it is positive definite with it,
    else it is without, and where that does not help the cells are made positive one by one: a
    buckled body still finds a way down.
    """

    model: Implicit
    halts: ClassVar[bool] = True

    def begin(self, x: Array | None, u: Array) -> Array:
        """(n_state,) in balance under controls u."""
        return equilibrium(self.model, u, x0=x).x

    @property
    def _equations(self) -> Equations:
        return self.model.equations

    def without_contacts(self, contacts: Sequence[Contact]) -> "OneNewton":
        return replace(self, model=self.model.without_contacts(contacts))

    def soon(self, answer: Answer) -> Answer:
        """What holds at the end of the tick: all of it."""
        return answer

    def answer(self, x: Array, u: Array, chosen: Array, k: int) -> Answer | str:
        """The answer to the `chosen` controls (indices) at tick k, or why there is none, in a
        sentence."""
        eq = self._equations
        q = eq.place_supports(x, (k + 1) * self.model.dt)
        numbers = eq.numbers(None, (k + 1) * self.model.dt)
        inside, blocks = eq.body.linearised(q, numbers.fields, 0.0)
        solve, stable = self._factor(numbers, blocks, q, u)
        if solve is None:
            return (
                "the robot stands where it can be held no longer; move away from there, or begin "
                "anew"
            )
        sides = np.column_stack(
            [inside + eq.push(q, u) - numbers.outside, eq.control_columns(q, u)[:, chosen]]
        )
        found = np.zeros_like(sides)
        found[eq.free] = -solve(sides[eq.free])
        if not np.all(np.isfinite(found)):
            return "the equations are singular here; move away from there, or begin anew"
        return Answer(
            q=q,
            free=found[:, 0],
            columns=found[:, 1:],
            inner=Factored(solve=solve, numbers=numbers, k=k),
            stable=stable,
        )

    def _factor(
        self, numbers: Numbers, blocks: Array, q: Array, u: Array
    ) -> tuple[linalg.Solve | None, bool]:
        """(the solve, whether it is that of the whole tangent)"""
        eq, still = self._equations, np.zeros_like(numbers.pair_mass)
        for stiff_only in (False, True):
            points = [*eq.term_blocks(q, u, stiff_only=stiff_only), *(None for _ in eq.drags)]
            solve = eq.tangent.factor(
                eq.tangent.values(blocks, still, points),
                *eq.rank_columns(q, u, stiff_only=stiff_only),
            )
            if solve is not None:
                return solve, not stiff_only
        positive = eq.body.stiffness(q, numbers.fields, project=True)
        values = eq.tangent.values(positive, still, points, project=True)
        return eq.tangent.factor_shifted(
            values, numbers.pair_mass, *eq.rank_columns(q, u, stiff_only=True)
        ), False

    def go(
        self, answer: Answer, u: Array, du: Array, chosen: Array, reach: float, allowed: Allowed
    ) -> Went | Nowhere:
        """A tick along du (n_chosen,), shortened where a node would go further than `reach` [m],
        where it leads astray and where what it leads to is not allowed. A robot that has lost its
        balance first finds it."""
        if longest_way(self._equations.body, answer.free) > SNAPPED * reach:
            return self._balanced(answer, u, allowed)
        step, change, barred = answer.free + answer.columns @ du, np.zeros_like(u), False
        change[chosen] = du
        way = float(longest_way(self._equations.body, step))
        first = share = min(1.0, reach / max(way, 1e-300))
        for tries in range(SHORTER):
            q, astray = self._tried(answer, share, step, u + share * change)
            if astray <= STRAYS and allowed(q):
                return Went(x=q, share=share, reach=share * way if tries else GROWS * reach)
            barred |= astray <= STRAYS
            if (
                tries == 0 and not barred and self._may_touch(answer.q, reach)
            ):  # what is short beside a contact's layer is very short
                found = self._balanced(answer, u + first * change, allowed)
                if (
                    isinstance(found, Went)
                    and longest_way(self._equations.body, found.x - answer.q) <= NEARBY * reach
                ):
                    return replace(found, share=first, reach=reach)
            share *= float(
                np.clip(BETTER / max(astray, 1e-300), 0.1, 0.5)
            )  # what leads astray grows as the square of the step
        left = self._balanced(answer, u, allowed)
        return Nowhere.BARRED if barred and isinstance(left, Nowhere) else left

    def _balanced(self, answer: Answer, u: Array, allowed: Allowed) -> Went | Nowhere:
        """Where the model's own steps come to rest, after a snap or a touch. A balloon beyond its
        largest pressure grows without end."""
        x = answer.q
        for _ in range(ROUNDS):
            step = self._patient.step(x, u, None, answer.inner.k)
            if step.status and np.array_equal(step.x, answer.q):
                return Nowhere.ASTRAY
            if step.status:
                return Went(x=step.x, share=0.0) if allowed(step.x) else Nowhere.BARRED
            if longest_way(
                self._equations.body, step.x - answer.q
            ) > RUNS_AWAY * self._length or np.array_equal(step.x, x):
                break
            x = step.x
        return Nowhere.LOST

    @cached_property
    def _contacts(self) -> tuple[AttachedContact, ...]:
        return tuple(term for term, _ in self._equations.terms if isinstance(term, AttachedContact))

    def _may_touch(self, q: Array, reach: float) -> bool:
        """Whether the robot touches something at positions q (n_dofs,), or may within a reach
        [m]."""
        return any(
            np.any(term.gaps(self._equations.points(term, q)) < NEARBY * reach + term.layer)
            for term in self._contacts
        )

    @cached_property
    def _length(self) -> float:
        return length_of(self._equations.body)

    @cached_property
    def _patient(self) -> Implicit:
        return replace(self.model, newton=replace(self.model.newton, iterations=PATIENCE))

    def _tried(self, answer: Answer, share: float, step: Array, u: Array) -> tuple[Array, float]:
        """(the place after a share of a step, how far that led astray as a share of it). The first
        step is followed by a second with the same factor, which is much shorter where the first was
        right (Deuflhard's natural monotonicity test), and is taken along."""
        eq, q = self._equations, answer.q + share * step
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            energy, inside = eq.body.energy(q, answer.inner.numbers.fields)
            r = inside + eq.push(q, u) - answer.inner.numbers.outside
        if not (
            np.isfinite(energy) and np.all(np.isfinite(r))
        ):  # torn, or beyond what the body's law knows
            return q, np.inf
        second = np.zeros_like(q)
        second[eq.free] = -answer.inner.solve(r[eq.free])
        way = share * float(longest_way(eq.body, step)) + 1e-9 * self._length
        astray = float(longest_way(eq.body, second - (1.0 - share) * answer.free)) / way
        better = float(longest_way(eq.body, second)) <= way and eq.body.inverted(q + second) is None
        return (q + second if better else q), astray
