"""Ticks of a robot that swings: a semi-implicit step each, with controls that lead to the target
some steps ahead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.contact import Contact
from pliant.core import Array, Status, Step
from pliant.dynamics import Quasistatic, equilibrium
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.semi_implicit import Linearised
from pliant.planners.inverse.ticking import GROWS, Allowed, Answer, Nowhere, Went, longest_way

HALVES = 7  # of a change that turns a cell inside out, each half as long
FINER = (4, 8, 16)  # steps in place of one that fails


@dataclass(frozen=True, kw_only=True, eq=False)
class Stepped:
    """The step with the controls as they are, and what a change of the chosen ones adds to its
    state."""

    x: Array  # (n_state,) where it began
    step: Step
    columns: Array  # (n_state, k)
    k: int
    finer: bool = (
        False  # whether it took finer steps, of which the answer to the controls is not known
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Swing:
    """The ticks of a SemiImplicit model.

    To be at a target after one step takes forces that throw the robot past it in the next. So the
    answer is that of one long step of `horizon` [s], whose implicit rule damps what it cannot
    resolve: of one step it is eq. 4 of paper 001, of a very long one the balance of forces, paper
    002's. The state itself goes on by the model's own step.
    """

    model: Linearised
    horizon: float  # [s]
    halts: ClassVar[bool] = False

    def begin(self, x: Array | None, u: Array) -> Array:
        """(n_state,) as given, else in balance under controls u where something holds the robot,
        else its rest shape."""
        if x is not None:
            return x.copy()
        if self.model.equations.free_rigid_motions():
            return self.model.initial_state()
        return self.model.state(equilibrium(self._still, u).x)

    @cached_property
    def _still(self) -> Implicit:
        return Quasistatic(self.model.robot, solver=self.model.equations.solver)

    @cached_property
    def _ahead(self) -> Linearised:
        return replace(self.model, dt=self.horizon)

    @cached_property
    def _affine(self) -> bool:
        """Whether the step is linear in the controls: where none of them moves a spring."""
        return not any(
            term.stiff for term, part in self.model.equations.terms if part.stop > part.start
        )

    def answer(self, x: Array, u: Array, chosen: Array, k: int) -> Answer | str:
        """The answer over the horizon to the `chosen` controls (indices) at tick k, or why there is
        none, in a sentence."""
        model, ahead, n = self.model, self._ahead, self.model.space.n_dofs
        near = model.step(x, u, None, k)
        end_of_tick = (k + 1) * model.dt  # [s] of supports and loads, for the long step too
        if not near.status:
            end, still = self._by_finer_steps(x, u, k), np.zeros((model.space.size, len(chosen)))
            if end is None:
                return (
                    "the robot has burst, or moves too violently for its time step: begin anew, "
                    "with less load or a smaller dt"
                )
            inner = Stepped(x=x, step=Step(end, Status()), columns=still, k=k, finer=True)
            return Answer(q=x[:n], free=end[:n] - x[:n], columns=still[:n], inner=inner)
        far = near if self.horizon == model.dt else ahead.step_until(end_of_tick, x, u)
        far = far if far.status else near  # a long step may not be possible under much stress
        columns = model.control_response(near)[:, chosen]
        later = columns if far is near else ahead.control_response(far)[:, chosen]
        return Answer(
            q=x[:n],
            free=far.x[:n] - x[:n],
            columns=later[:n],
            inner=Stepped(x=x, step=near, columns=columns, k=k),
        )

    def without_contacts(self, contacts: Sequence[Contact]) -> "Swing":
        return replace(self, model=self.model.without_contacts(contacts))

    def _by_finer_steps(self, x: Array, u: Array, k: int) -> Array | None:
        """(n_state,) the end of a tick that one linearised step cannot take, as where the robot is
        thrown against an obstacle; None where finer ones cannot either."""
        for count in FINER:
            model, end = replace(self.model, dt=self.model.dt / count), x
            for i in range(count):
                step = model.step(end, u, None, count * k + i)
                if not step.status:
                    break
                end = step.x
            else:
                return end
        return None

    def soon(self, answer: Answer) -> Answer:
        """What holds at the end of the tick."""
        n = self.model.space.n_dofs
        return Answer(
            q=answer.q, free=answer.inner.step.x[:n] - answer.q, columns=answer.inner.columns[:n]
        )

    def go(
        self, answer: Answer, u: Array, du: Array, chosen: Array, reach: float, allowed: Allowed
    ) -> Went | Nowhere:
        """A tick along du (n_chosen,), shortened where it turns a cell inside out, or asks more of
        a stiff drive than a linearised step can follow; the next one is not much longer then. Time
        goes on whatever is `allowed`: the rows of the program keep that, and Inverse says where
        they did not."""
        if answer.inner.finer:
            moved = u.copy()
            moved[chosen] += du
            end = self._by_finer_steps(answer.inner.x, moved, answer.inner.k)
            return Went(
                x=answer.inner.step.x if end is None else end,
                share=float(end is not None),
                reach=reach,
            )
        way = float(
            longest_way(
                self.model.equations.body, answer.inner.columns[: self.model.space.n_dofs] @ du
            )
        )
        first = 1.0 if self._affine else min(1.0, reach / max(way, 1e-300))
        for tries in range(HALVES):
            share = 0.5**tries * first
            x = self._stepped(answer, u, share * du, chosen)
            if x is not None:
                return Went(x=x, share=share, reach=share * way if tries else GROWS * reach)
        return Went(x=answer.inner.step.x, share=0.0, reach=0.5**HALVES * first * way)

    def _stepped(self, answer: Answer, u: Array, du: Array, chosen: Array) -> Array | None:
        inner, n = answer.inner, self.model.space.n_dofs
        if self._affine or not du.any():
            x = inner.step.x + inner.columns @ du
            whole = np.all(np.isfinite(x)) and self.model.equations.body.inverted(x[:n]) is None
            return x if whole else None
        moved = u.copy()
        moved[chosen] += du
        step = self.model.step(inner.x, moved, None, inner.k)
        return step.x if step.status else None
