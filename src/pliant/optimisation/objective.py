"""What is optimised: an objective of a few or many variables, with its derivatives.

An objective scales its variables to sizes of about 1. A failed simulation is a value (`failed` says
why, the value is infinite), never an exception, so a method can shorten its step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.core import Array, InputError, finite_array, quoted, require_kind

Indices = Sequence[int]  # of samples
NOT_FINITE_VALUE = "the value is not a finite number"


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveEvaluation:
    """The value of an objective and its derivatives at some variables.

    It has at least what was asked for. More is used too, which saves simulations: constraints
    beside the value, for example.
    """

    value: float = np.inf
    gradient: Array | None = None  # (n,)
    residuals: Array | None = None  # (r,)
    jacobian: Array | None = None  # (r, n) of the residuals
    constraints: Array | None = None  # (m,)
    constraint_jacobian: Array | None = None  # (m, n)
    failed: str = ""  # why the simulation failed
    simulations: float = 0.0  # simulated trajectories; an adjoint counts as one more


@runtime_checkable
class Objective(Protocol):
    """A function of variables z (n,), scaled to sizes of about 1.

    The value is a sum over samples (scenes), with their weights. `samples` are indices of some of
    them; None means all.
    """

    @property
    def start(self) -> Array: ...  # (n,)
    @property
    def bounds(self) -> tuple[Array, Array]: ...  # lower and upper, (n,) each, -inf and inf: none
    @property
    def n_samples(self) -> int: ...
    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation: ...
    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation: ...


@runtime_checkable
class LeastSquares(Objective, Protocol):
    """An objective whose value is 1/2 |residuals|^2."""

    def residuals(self, z: Array) -> ObjectiveEvaluation: ...
    def jacobian(self, z: Array) -> ObjectiveEvaluation: ...  # with the residuals


@runtime_checkable
class Constrained(Objective, Protocol):
    """An objective with constraints: lower <= constraints <= upper. Equal bounds are equations."""

    @property
    def constraint_bounds(self) -> tuple[Array, Array]: ...  # (m,) each, -inf and inf: none
    def constraints(self, z: Array) -> ObjectiveEvaluation: ...
    def constraint_jacobian(self, z: Array) -> ObjectiveEvaluation: ...  # with the constraints


@runtime_checkable
class Described(Objective, Protocol):
    """An objective that names its variables, in physical units, and itself."""

    @property
    def identity(self) -> Mapping[str, Any]: ...  # JSON types; another one is not resumed
    def named_values(self, z: Array) -> Mapping[str, Array]: ...


@runtime_checkable
class BatchObjective(Objective, Protocol):
    """An objective that evaluates many variables at once, in parallel for example."""

    def values(self, z: Array) -> Sequence[ObjectiveEvaluation]: ...  # z (k, n)


def constraint_count(objective: Objective) -> int:
    """Return the number of constraints of an objective."""
    return len(objective.constraint_bounds[0]) if isinstance(objective, Constrained) else 0


def bound_array(name: str, value: Any, default: float, n: int) -> Array:
    """Return a bound as an array (n,). Raises InputError for NaN and for wrong shapes."""
    try:
        made = np.array(np.broadcast_to(np.asarray(default if value is None else value, float), n))
    except (TypeError, ValueError):
        raise InputError(
            f"The {name} bound is {quoted(value)}; give a number, or one for each of {n} variables."
        ) from None
    if np.isnan(made).any():
        raise InputError(f"The {name} bound has a NaN; give numbers, or inf for no bound.")
    return made


def check_bounds(start: Array, bounds: tuple[Array, Array]) -> None:
    """Raise InputError unless lower <= start <= upper."""
    lower, upper = bounds
    for bad, what in (
        (lower > upper, "its lower bound is above its upper bound; swap them"),
        ((start < lower) | (start > upper), "its start is outside its bounds; move it"),
    ):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"Variable {k} of the objective has the start {start[k]:g} and the bounds "
                f"{lower[k]:g} and {upper[k]:g}: {what}."
            )


def checked_objective(objective: Any) -> Objective:
    """Return an objective. Raises InputError for another object or inconsistent sizes."""
    require_kind(
        "The objective",
        objective,
        Objective,
        "give a Problem, or an object with start, bounds, n_samples, value and gradient, such as "
        "FunctionObjective(...)",
    )
    start = finite_array("The start of the objective", objective.start, (None,))
    if not len(start):
        raise InputError("The objective has no variables; give at least one.")
    lower, upper = objective.bounds
    for name, bound in (("lower", lower), ("upper", upper)):
        if np.shape(bound) != start.shape:
            raise InputError(
                f"The {name} bounds of the objective have shape {np.shape(bound)}; give "
                f"({len(start)},)."
            )
    check_bounds(start, (np.asarray(lower), np.asarray(upper)))
    return objective
