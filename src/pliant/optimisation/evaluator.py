"""Evaluations of an objective for a method: checked, counted, and without NaN."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core import Array, InputError, require_kind
from pliant.optimisation.objective import (
    NOT_FINITE_VALUE,
    BatchObjective,
    Constrained,
    Indices,
    LeastSquares,
    Objective,
    ObjectiveEvaluation,
    constraint_count,
)


@dataclass(kw_only=True, eq=False)
class Evaluator:
    """An objective that counts its simulations. Values and derivatives that are not finite become
    failed evaluations; wrong shapes raise InputError."""

    objective: Objective
    start: Array  # (n,)
    simulations: float = 0.0

    @property
    def n(self) -> int:
        return len(self.start)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        lower, upper = self.objective.bounds
        return np.array(lower, float), np.array(upper, float)

    @cached_property
    def m(self) -> int:
        """Number of constraints."""
        return constraint_count(self.objective)

    @cached_property
    def constraint_bounds(self) -> tuple[Array, Array]:
        if not isinstance(self.objective, Constrained):
            return np.zeros(0), np.zeros(0)
        lower, upper = (np.array(bound, float) for bound in self.objective.constraint_bounds)
        if lower.shape != upper.shape or not np.all(lower <= upper):
            raise InputError(
                "The bounds of the constraints have different shapes, or a lower one is above its "
                "upper one; give (m,) each, the lower ones first."
            )
        return lower, upper

    def clip(self, z: Array) -> Array:
        """Return the closest variables within the bounds."""
        return np.clip(z, *self.bounds)

    def violation(self, constraints: Array | None) -> float:
        """Return the largest violation of the constraints."""
        if not self.m or constraints is None:
            return 0.0
        lower, upper = self.constraint_bounds
        return float(np.max([lower - constraints, constraints - upper, np.zeros(self.m)]))

    def projected_gradient(self, z: Array, gradient: Array) -> Array:
        """Return the change of z by a unit step against the gradient within the bounds, times -1.
        It is zero at an optimum."""
        return z - self.clip(z - gradient)

    # Evaluations

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self._checked(self.objective.value(z, samples))

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self._checked(self.objective.gradient(z, samples), "gradient")

    def values(self, z: Array) -> list[ObjectiveEvaluation]:
        """Return the evaluations at each row of z (k, n)."""
        found: Iterator[ObjectiveEvaluation] | list[ObjectiveEvaluation]
        if isinstance(self.objective, BatchObjective):
            found = list(self.objective.values(z))
            if len(found) != len(z):
                raise InputError(
                    f"The objective returned {len(found)} values for {len(z)} variables; return "
                    "one for each row."
                )
        else:
            found = (self.objective.value(row) for row in z)
        return [self._checked(one) for one in found]

    def jacobian(self, z: Array) -> ObjectiveEvaluation:
        found = self._checked(self.least_squares.jacobian(z), "residuals", "jacobian")
        return self._with_residual_value(found)

    def residuals(self, z: Array) -> ObjectiveEvaluation:
        return self._with_residual_value(
            self._checked(self.least_squares.residuals(z), "residuals")
        )

    def constraints(self, z: Array) -> ObjectiveEvaluation:
        return self._checked(self.constrained.constraints(z), "constraints", value=False)

    def constraint_jacobian(self, z: Array) -> ObjectiveEvaluation:
        found = self.constrained.constraint_jacobian(z)
        return self._checked(found, "constraints", "constraint_jacobian", value=False)

    @property
    def least_squares(self) -> LeastSquares:
        found: Any = self.objective
        require_kind(
            "The objective of Gauss-Newton",
            found,
            LeastSquares,
            "give one with residuals and jacobian, or take method='lbfgsb'",
        )
        return found

    @property
    def constrained(self) -> Constrained:
        found: Any = self.objective
        return found

    def _with_residual_value(self, found: ObjectiveEvaluation) -> ObjectiveEvaluation:
        if found.failed:
            return found
        assert found.residuals is not None
        value = 0.5 * float(found.residuals @ found.residuals)
        if not np.isfinite(value):
            return replace(found, value=np.inf, failed=NOT_FINITE_VALUE)
        return replace(found, value=value)

    def _checked(
        self, found: ObjectiveEvaluation, *needed: str, value: bool = True
    ) -> ObjectiveEvaluation:
        self.simulations += float(found.simulations)
        if found.failed:
            return replace(found, value=np.inf)
        if value and "residuals" not in needed and not np.isfinite(found.value):
            return replace(found, value=np.inf, failed=NOT_FINITE_VALUE)
        shapes = self._shapes(found)
        for name in needed:
            array = getattr(found, name)
            if array is None or np.shape(array) != shapes[name]:
                raise InputError(
                    f"The objective returned {_named(name)} of shape "
                    f"{None if array is None else np.shape(array)}; return {shapes[name]}."
                )
            if not np.all(np.isfinite(array)):
                return replace(found, value=np.inf, failed=f"{_named(name)} is not finite")
        return found

    def _shapes(self, found: ObjectiveEvaluation) -> dict[str, tuple[int, ...]]:
        r = 0 if found.residuals is None else len(np.atleast_1d(found.residuals))
        return {
            "gradient": (self.n,),
            "residuals": (r,),
            "jacobian": (r, self.n),
            "constraints": (self.m,),
            "constraint_jacobian": (self.m, self.n),
        }


def _named(name: str) -> str:
    return "the " + name.replace("constraint_jacobian", "Jacobian of the constraints").replace(
        "jacobian", "Jacobian of the residuals"
    ).replace("residuals", "residuals")


GradientAt = Callable[[Array], ObjectiveEvaluation]
