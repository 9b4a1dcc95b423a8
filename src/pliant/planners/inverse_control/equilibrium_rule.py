"""Control steps of a Quasistatic model: one linearisation and one factorisation each
[Rodriguez2017, eq. 2 and 4]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.contact import AttachedContact, Contact
from pliant.core import Array, EquilibriumModel, EquilibriumTangent
from pliant.dynamics import equilibrium
from pliant.planners.inverse_control.step_rule import (
    Admissible,
    Sensitivity,
    StepFailure,
    StepResult,
    body_length,
    largest_displacement,
)
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES, Tolerances

ROUNDS = 4  # restarts of the model's solver, which end early if the robot moves too far
UNSTABLE = (
    "the equilibrium is unstable: its tangent stiffness is not positive definite; move away from "
    "it, or begin again"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class EquilibriumStep:
    """The linearisation of a control step."""

    tangent: EquilibriumTangent
    k: int


@dataclass(frozen=True, kw_only=True, eq=False)
class EquilibriumRule:
    """Control steps of a Quasistatic model: K dq = -r - B du at (q, u), then a second, corrected
    step with the same factorisation."""

    model: EquilibriumModel
    tolerances: Tolerances = DEFAULT_TOLERANCES
    quasistatic: ClassVar[bool] = True

    def begin(self, x: Array | None, u: Array) -> Array:
        """(n_state,) the equilibrium under controls u."""
        return equilibrium(self.model, u, x0=x).x

    @cached_property
    def _length(self) -> float:
        return body_length(self.model.body)

    def _size(self, step: Array) -> float:
        return float(largest_displacement(self.model.body, step))

    def without_contacts(self, contacts: Sequence[Contact]) -> "EquilibriumRule":
        """Return the rule of the same robot without some contacts."""
        return replace(self, model=self.model.without_contacts(contacts))

    def at_step_end(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity itself: an equilibrium has no horizon."""
        return sensitivity

    def sensitivity(self, x: Array, u: Array, free_controls: Array, k: int) -> Sensitivity | str:
        """Return the sensitivity to the free controls at control step k, or why there is none."""
        tangent = self.model.equilibrium_tangent(x, u, k)
        if tangent is None:
            return UNSTABLE
        sides = np.column_stack([tangent.residual, tangent.control_jacobian[:, free_controls]])
        found = -tangent.solve(sides)
        if not np.all(np.isfinite(found)):
            return "the tangent stiffness is singular here; move away from here, or begin again"
        return Sensitivity(
            q=tangent.q,
            free_motion=found[:, 0],
            columns=found[:, 1:],
            cache=EquilibriumStep(tangent=tangent, k=k),
            stable=tangent.stable,
        )

    def advance(
        self,
        sensitivity: Sensitivity,
        u: Array,
        du: Array,
        free_controls: Array,
        trust_radius: float,
        admissible: Admissible,
    ) -> StepResult | StepFailure:
        """Take a step along du (n,). It is shortened if a node would leave the trust radius [m], if
        it is too nonlinear or not admissible. A robot out of equilibrium first finds one."""
        if self._size(sensitivity.free_motion) > 10.0 * trust_radius:
            return self._find_equilibrium(sensitivity, u, admissible)
        step, change = sensitivity.free_motion + sensitivity.columns @ du, np.zeros_like(u)
        change[free_controls] = du
        size, inadmissible = self._size(step), False
        first = fraction = min(1.0, trust_radius / max(size, 1e-300))
        for tries in range(self.tolerances.max_halvings):
            q, nonlinearity = self._corrected(sensitivity, fraction, step, u + fraction * change)
            accurate = nonlinearity <= self.tolerances.max_nonlinearity
            if accurate and admissible(q):
                radius = fraction * size if tries else self.tolerances.trust_growth * trust_radius
                return StepResult(x=q, fraction=fraction, trust_radius=radius)
            inadmissible |= accurate
            if tries == 0 and not accurate and self._may_touch(sensitivity.q, trust_radius):
                # the layer of a contact is thin: a linear step into it would be very short
                found = self._find_equilibrium(sensitivity, u + first * change, admissible)
                if (
                    isinstance(found, StepResult)
                    and self._size(found.x - sensitivity.q) <= 2.0 * trust_radius
                ):
                    return replace(found, fraction=first, trust_radius=trust_radius)
            # nonlinearity is proportional to the step
            fraction *= float(np.clip(0.2 / max(nonlinearity, 1e-300), 0.1, 0.5))
        found = self._find_equilibrium(sensitivity, u, admissible)
        failed = inadmissible and isinstance(found, StepFailure)
        return StepFailure.NOT_ADMISSIBLE if failed else found

    def _find_equilibrium(
        self, sensitivity: Sensitivity, u: Array, admissible: Admissible
    ) -> StepResult | StepFailure:
        """Return the equilibrium that the model's solver finds, after a snap or a touch. A balloon
        beyond its largest pressure has none and grows without end."""
        start = x = sensitivity.q
        for _ in range(ROUNDS):
            step = self._bounded_model.step(x, u, None, sensitivity.cache.k)
            if step.status:
                if np.array_equal(step.x, start):
                    return StepFailure.NO_PROGRESS
                result = StepResult(x=step.x, fraction=0.0)
                return result if admissible(step.x) else StepFailure.NOT_ADMISSIBLE
            if self._size(step.x - start) > 0.5 * self._length or np.array_equal(step.x, x):
                break
            x = step.x
        return StepFailure.NO_EQUILIBRIUM

    @cached_property
    def _bounded_model(self) -> EquilibriumModel:
        return self.model.with_max_iterations(self.tolerances.max_iterations // ROUNDS)

    def _may_touch(self, q: Array, trust_radius: float) -> bool:
        """Return whether the robot touches an obstacle at q (n_dofs,) or may do so in a step."""
        near = 2.0 * trust_radius
        return any(
            np.any(term.gaps(self.model.points(term, q)) < near + term.layer)
            for term, _ in self.model.potentials
            if isinstance(term, AttachedContact)
        )

    def _corrected(
        self, sensitivity: Sensitivity, fraction: float, step: Array, u: Array
    ) -> tuple[Array, float]:
        """Return (the positions after a fraction of a step, its relative nonlinearity).

        A second Newton step with the same factorisation measures the nonlinearity (Deuflhard's
        natural monotonicity test). It is applied too if it is short."""
        tangent, q = sensitivity.cache.tangent, sensitivity.q + fraction * step
        r = tangent.residual_at(q, u)
        if r is None:  # an inverted cell
            return q, np.inf
        second = -tangent.solve(r)
        first = fraction * self._size(step) + self.tolerances.round_off * self._length
        error = self._size(second - (1.0 - fraction) * sensitivity.free_motion)
        better = (
            self._size(second) <= first and self.model.body.inadmissible_cell(q + second) is None
        )
        return (q + second if better else q), error / first
