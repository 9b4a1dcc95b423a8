"""Control steps of a SemiImplicit model: one step of the model each, with controls that lead to the
target some steps ahead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.contact import Contact
from pliant.core import Array, EquilibriumModel, LinearizedStepModel, Status, Step
from pliant.dynamics import equilibrium
from pliant.planners.inverse_control.step_rule import (
    Admissible,
    Sensitivity,
    StepFailure,
    StepResult,
    largest_displacement,
)
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES, Tolerances

SUBSTEPS = (4, 8, 16)  # of a time step that fails


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicStep:
    """The time step with unchanged controls, and its derivative by the free controls."""

    x: Array  # (n_state,) at the start
    step: Step
    columns: Array  # (n_state, n)
    k: int
    substeps: bool = False  # whether it took substeps, whose derivative is unknown


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicRule:
    """Control steps of a SemiImplicit model.

    Forces that reach a target in one time step make the robot overshoot in the next. So the
    sensitivity is that of one long implicit step of `horizon` [s], which damps what it does not
    resolve: [Menager2024, eq. 4] for one time step, the equilibrium of [Rodriguez2017] for a very
    long one. The state itself advances by the model's time step.
    """

    model: LinearizedStepModel
    horizon: float  # [s]
    tolerances: Tolerances = DEFAULT_TOLERANCES
    quasistatic: ClassVar[bool] = False

    def begin(self, x: Array | None, u: Array) -> Array:
        """(n_state,) x if given, else the equilibrium under controls u; the rest shape if rigid
        motions are free."""
        if x is not None:
            return x.copy()
        if self._quasistatic_model is None:
            return self.model.initial_state()
        return self.model.state(equilibrium(self._quasistatic_model, u).x)

    @cached_property
    def _quasistatic_model(self) -> EquilibriumModel | None:
        return self.model.quasistatic_model()

    @cached_property
    def _horizon_model(self) -> LinearizedStepModel:
        return self.model.with_time_step(self.horizon)

    @cached_property
    def _affine(self) -> bool:
        """Whether the time step is affine in the controls: none of them is that of a spring."""
        return not any(term.stiff for term, part in self.model.potentials if part.stop > part.start)

    def sensitivity(self, x: Array, u: Array, free_controls: Array, k: int) -> Sensitivity | str:
        """Return the sensitivity over the horizon to the free controls at control step k, or why
        there is none."""
        model, ahead, n = self.model, self._horizon_model, self.model.space.n_dofs
        near = model.step(x, u, None, k)
        if not near.status:
            end = self._substeps(x, u, k)
            if end is None:
                return (
                    "the time step failed: the robot has burst or moves too fast; begin again with "
                    "less load or a smaller dt"
                )
            zero = np.zeros((model.space.size, len(free_controls)))
            cache = DynamicStep(x=x, step=Step(end, Status()), columns=zero, k=k, substeps=True)
            return Sensitivity(q=x[:n], free_motion=end[:n] - x[:n], columns=zero[:n], cache=cache)
        # supports and loads are those of the end of the time step in the long step too
        far = near if self.horizon == model.dt else ahead.step_until((k + 1) * model.dt, x, u)
        far = far if far.status else near  # a long step may fail under high stress
        columns = model.control_response(near)[:, free_controls]
        later = columns if far is near else ahead.control_response(far)[:, free_controls]
        return Sensitivity(
            q=x[:n],
            free_motion=far.x[:n] - x[:n],
            columns=later[:n],
            cache=DynamicStep(x=x, step=near, columns=columns, k=k),
        )

    def without_contacts(self, contacts: Sequence[Contact]) -> "DynamicRule":
        """Return the rule of the same robot without some contacts."""
        return replace(self, model=self.model.without_contacts(contacts))

    def _substeps(self, x: Array, u: Array, k: int) -> Array | None:
        """(n_state,) the end of a time step by shorter steps, as in an impact; None if they fail
        too."""
        for count in SUBSTEPS:
            model, end = self.model.with_time_step(self.model.dt / count), x
            for i in range(count):
                step = model.step(end, u, None, count * k + i)
                if not step.status:
                    break
                end = step.x
            else:
                return end
        return None

    def at_step_end(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity at the end of the time step."""
        n, cache = self.model.space.n_dofs, sensitivity.cache
        motion = cache.step.x[:n] - sensitivity.q
        return Sensitivity(q=sensitivity.q, free_motion=motion, columns=cache.columns[:n])

    def advance(
        self,
        sensitivity: Sensitivity,
        u: Array,
        du: Array,
        free_controls: Array,
        trust_radius: float,
        admissible: Admissible,
    ) -> StepResult | StepFailure:
        """Take a time step with a change du (n,), shortened if it inverts a cell or if a
        linearised step cannot follow a stiff actuator. Time advances whether or not the end is
        `admissible`: only the QP can prevent a violation, and the controller reports it."""
        cache = sensitivity.cache
        change = np.zeros_like(u)
        change[free_controls] = du
        if cache.substeps:
            end = self._substeps(cache.x, u + change, cache.k)
            x, fraction = (cache.step.x, 0.0) if end is None else (end, 1.0)
            return StepResult(x=x, fraction=fraction, trust_radius=trust_radius)
        motion = cache.columns[: self.model.space.n_dofs] @ du
        size = float(largest_displacement(self.model.body, motion))
        fraction = 1.0 if self._affine else min(1.0, trust_radius / max(size, 1e-300))
        for tries in range(self.tolerances.max_halvings):
            end = self._stepped(cache, u, fraction * du, fraction * change)
            if end is not None:
                radius = fraction * size if tries else self.tolerances.trust_growth * trust_radius
                return StepResult(x=end, fraction=fraction, trust_radius=radius)
            fraction *= 0.5
        return StepResult(x=cache.step.x, fraction=0.0, trust_radius=fraction * size)

    def _stepped(self, cache: DynamicStep, u: Array, du: Array, change: Array) -> Array | None:
        """(n_state,) after a change du of the free controls, None if the step fails."""
        if self._affine or not du.any():
            x = cache.step.x + cache.columns @ du
            q, body = x[: self.model.space.n_dofs], self.model.body
            return x if np.all(np.isfinite(x)) and body.inadmissible_cell(q) is None else None
        step = self.model.step(cache.x, u + change, None, cache.k)
        return step.x if step.status else None
