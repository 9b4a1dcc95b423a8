"""Objectives of plain functions, for users and tests."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from pliant.core import Array, InputError, finite_array, require_kind
from pliant.optimisation.objective import (
    Indices,
    Objective,
    ObjectiveEvaluation,
    bound_array,
    check_bounds,
)


def bounded_start(start: Any, lower: Any, upper: Any) -> dict[str, Array]:
    """Return the fields start, lower and upper of an objective as arrays (n,). Raises InputError
    for wrong shapes, and for a start outside the bounds."""
    made = finite_array("The start of an objective", start, (None,))
    low = bound_array("lower", lower, -np.inf, len(made))
    high = bound_array("upper", upper, np.inf, len(made))
    check_bounds(made, (low, high))
    return {"start": made, "lower": low, "upper": high}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionObjective:
    """An objective of plain functions of z.

    Parameters
    ----------
    function : z (n,) -> value; with `samples` > 1: (z, indices) -> value of these samples
    gradient_function : z -> gradient (n,), or (z, indices) -> gradient; None: none
    start : first variables (n,)
    lower, upper : bounds, numbers or (n,); None: none
    samples : number of samples that the value is a sum of

    Values that are not finite count as failed simulations. Raises InputError for wrong shapes, and
    for a start outside the bounds.

    >>> from pliant.optimisation import FunctionObjective, optimise
    >>> bowl = FunctionObjective(
    ...     function=lambda z: z @ z,
    ...     gradient_function=lambda z: 2.0 * z,
    ...     start=[1.0, 2.0],
    ...     lower=0.5,
    ... )
    >>> optimise(bowl, progress=False).z.tolist()
    [0.5, 0.5]
    """

    function: Callable[..., float]
    gradient_function: Callable[..., Array] | None = None
    start: Array = field(default_factory=lambda: np.zeros(0))
    lower: float | Array | None = None
    upper: float | Array | None = None
    samples: int = 1

    def __post_init__(self) -> None:
        for name, value in bounded_start(self.start, self.lower, self.upper).items():
            object.__setattr__(self, name, value)

    @property
    def bounds(self) -> tuple[Array, Array]:
        return np.asarray(self.lower), np.asarray(self.upper)

    @property
    def n_samples(self) -> int:
        return self.samples

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return ObjectiveEvaluation(value=float(self._call(self.function, z, samples)))

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        if self.gradient_function is None:
            raise InputError(
                "This objective has no gradient. Give gradient_function=..., or optimise with "
                "method='cmaes'."
            )
        value = float(self._call(self.function, z, samples))
        gradient = np.asarray(self._call(self.gradient_function, z, samples), float)
        return ObjectiveEvaluation(value=value, gradient=gradient)

    def _call(self, function: Callable[..., Any], z: Array, samples: Indices | None) -> Any:
        if self.samples == 1:
            return function(z)
        return function(z, range(self.samples) if samples is None else samples)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualObjective:
    """1/2 |residuals(z)|^2, with the Jacobian of the residuals.

    Parameters
    ----------
    residual_function : z (n,) -> residuals (r,)
    jacobian_function : z (n,) -> their derivative (r, n)
    start, lower, upper : as in FunctionObjective

    >>> from pliant.optimisation import ResidualObjective, optimise
    >>> line = ResidualObjective(
    ...     residual_function=lambda z: 2.0 * z - 3.0,
    ...     jacobian_function=lambda z: [[2.0]],
    ...     start=[0.0],
    ... )
    >>> optimise(line, "gauss_newton", progress=False).z.round(6).tolist()
    [1.5]
    """

    residual_function: Callable[[Array], Array]
    jacobian_function: Callable[[Array], Array]
    start: Array
    lower: float | Array | None = None
    upper: float | Array | None = None

    def __post_init__(self) -> None:
        for name, value in bounded_start(self.start, self.lower, self.upper).items():
            object.__setattr__(self, name, value)

    @property
    def bounds(self) -> tuple[Array, Array]:
        return np.asarray(self.lower), np.asarray(self.upper)

    @property
    def n_samples(self) -> int:
        return 1

    def residuals(self, z: Array) -> ObjectiveEvaluation:
        residuals = np.asarray(self.residual_function(z), float)
        return ObjectiveEvaluation(value=0.5 * float(residuals @ residuals), residuals=residuals)

    def jacobian(self, z: Array) -> ObjectiveEvaluation:
        found, jacobian = self.residuals(z), np.asarray(self.jacobian_function(z), float)
        return replace(found, jacobian=jacobian, gradient=jacobian.T @ found.residuals)

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.residuals(z)

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.jacobian(z)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedObjective:
    """An objective with constraints: lower <= constraint_function(z) <= upper.

    Parameters
    ----------
    objective : any Objective
    constraint_function : z (n,) -> constraints (m,)
    constraint_jacobian_function : z (n,) -> their derivative (m, n)
    constraint_lower, constraint_upper : (m,) each, -inf and inf for none; equal ones are equations

    >>> from pliant.optimisation import ConstrainedObjective, FunctionObjective, optimise
    >>> bowl = FunctionObjective(
    ...     function=lambda z: z @ z, gradient_function=lambda z: 2.0 * z, start=[1.0, 0.0]
    ... )
    >>> on_line = ConstrainedObjective(
    ...     objective=bowl,
    ...     constraint_function=lambda z: [z[0] + z[1]],
    ...     constraint_jacobian_function=lambda z: [[1.0, 1.0]],
    ...     constraint_lower=[2.0],
    ...     constraint_upper=[2.0],
    ... )
    >>> optimise(on_line, "sqp", progress=False).z.round(6).tolist()
    [1.0, 1.0]
    """

    objective: Objective
    constraint_function: Callable[[Array], Array]
    constraint_jacobian_function: Callable[[Array], Array]
    constraint_lower: Array
    constraint_upper: Array

    def __post_init__(self) -> None:
        require_kind("The objective", self.objective, Objective, "give FunctionObjective(...)")
        size = np.size(self.constraint_lower)
        for name in ("constraint_lower", "constraint_upper"):
            bound = bound_array(name.replace("_", " "), getattr(self, name), 0.0, size)
            object.__setattr__(self, name, bound)

    @property
    def start(self) -> Array:
        return self.objective.start

    @property
    def bounds(self) -> tuple[Array, Array]:
        return self.objective.bounds

    @property
    def n_samples(self) -> int:
        return self.objective.n_samples

    @property
    def constraint_bounds(self) -> tuple[Array, Array]:
        return self.constraint_lower, self.constraint_upper

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.objective.value(z, samples)

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.objective.gradient(z, samples)

    def constraints(self, z: Array) -> ObjectiveEvaluation:
        return ObjectiveEvaluation(constraints=np.asarray(self.constraint_function(z), float))

    def constraint_jacobian(self, z: Array) -> ObjectiveEvaluation:
        jacobian = np.asarray(self.constraint_jacobian_function(z), float)
        return replace(self.constraints(z), constraint_jacobian=jacobian)
