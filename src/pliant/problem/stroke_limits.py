"""Constraints on the displacement of an actuator [Menager2024, section on future work]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, Dynamics, InputError, require_number
from pliant.dynamics.equations import Equations
from pliant.problem.constraints import ConstraintRow, Interval
from pliant.problem.observations import Observation, QuadraticLoss
from pliant.problem.terms import steps_at_times


@runtime_checkable
class DisplacementActuator(Protocol):
    """An attached actuator that computes its displacement from its points y (n, dim).

    The displacement is the shortening of a cable [m] or the added volume of a cavity [m^3].
    """

    def displacement(self, y: Array) -> Any: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class StrokeLimit:
    """Bounds on the displacement of an actuator, or on its increment in each step.

    Parameters
    ----------
    actuator : name of the actuator; on a condensed model also in Condensed(actuators=...)
    lower, upper : bounds, in m of cable shortening or m^3 of added fluid
    increment : True bounds the change of the displacement in one step
    time : one or several times [s]; None for every step

    Raises InputError without bounds or if lower > upper.
    """

    actuator: str
    lower: float = -np.inf
    upper: float = np.inf
    increment: bool = False
    time: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        lower, upper = (
            require_number(f"A bound on the stroke of '{self.actuator}'", v, "")
            for v in (self.lower, self.upper)
        )
        if np.isinf(lower) and np.isinf(upper):
            raise InputError(
                f"The stroke of '{self.actuator}' has no bound; give lower=..., upper=... or both."
            )
        if not lower <= upper:
            raise InputError(
                f"The bounds on the stroke of '{self.actuator}' are {lower:g} to {upper:g}, "
                "which nothing can satisfy; the lower must not exceed the upper."
            )

    @property
    def label(self) -> str:
        """Name of the constraint in messages."""
        return f"the {'increment of the ' if self.increment else ''}stroke of '{self.actuator}'"

    def attach(self, model: Dynamics, steps: int) -> list[ConstraintRow]:
        """Return one ConstraintRow for each time."""
        term, rows = _attached_actuator(model, self.actuator)
        n, dim = rows.shape[0], rows.shape[0] // term.weights.shape[0]
        rows = sp.hstack([rows, sp.csr_matrix((n, model.space.size - rows.shape[1]))], format="csr")
        none = sp.csr_matrix(rows.shape)
        states = (
            (sp.vstack([rows, none], format="csr"), sp.vstack([none, rows], format="csr"))
            if self.increment
            else (rows,)
        )

        def displacement(y: Array) -> Array:
            current, *previous = (
                term.displacement(part.reshape(-1, dim) + term.offset)
                for part in np.split(y, len(states))
            )
            return np.atleast_1d(current - sum(previous))

        zero = QuadraticLoss(target=np.zeros(n * len(states)), weight=0.0)
        return [
            ConstraintRow(
                observation=Observation(name=self.actuator, step=k, states=states, loss=zero),
                function=displacement,
                inside=Interval(lower=self.lower, upper=self.upper),
            )
            for k in steps_at_times(f"The limit on {self.label}", self.time, steps, model.dt)
        ]


def _attached_actuator(model: Dynamics, name: str) -> tuple[Any, sp.csr_matrix]:
    """Return the attached actuator and the matrix (n_points dim, n_dofs) of its points.

    Raises InputError if the model has no robot or the actuator has no displacement.
    """
    equations = getattr(model, "equations", None)
    if not isinstance(equations, Equations):
        raise InputError(
            "A stroke limit needs a stepping rule of a robot, such as SemiImplicit or "
            "ImplicitEuler; this model has no attached actuators."
        )
    term, rows = equations.attached(name)
    if not isinstance(term, DisplacementActuator):
        kind = type(equations.robot.actuators[name]).__name__
        raise InputError(
            f"The actuator '{name}' is a {kind}, whose displacement is its control; bound it "
            "with Limit(lower=..., upper=...), or order=1 for its rate."
        )
    return term, rows
