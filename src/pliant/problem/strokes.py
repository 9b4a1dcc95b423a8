"""Constraints in the words of a task: how far an actuator may move, and where an effector must not
go (paper 001's outlook)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from pliant.contact import Obstacle
from pliant.core import Array, Dynamics, InputError, require_kind, require_number
from pliant.dynamics import Condensed
from pliant.dynamics.stepping import Stepping
from pliant.problem.constraints import Constraint, Interval, Watch
from pliant.problem.looks import Look, Quadratic
from pliant.problem.terms import steps_at


@runtime_checkable
class Stroked(Protocol):
    """An attached actuator that knows how far it has moved from its points y: cable taken in [m],
    fluid put in [m^3]."""

    def displacement(self, y: Array) -> Any: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Stroke:
    """lower <= displacement of an actuator <= upper, or of its increment over each step: the cable
    taken in since rest [m], the fluid put into a cavity [m^3]. On a condensed model name the
    actuator in Condensed(actuators=...)."""

    actuator: str
    lower: float = -np.inf
    upper: float = np.inf
    increment: bool = False  # of what it moves in one step
    time: float | Sequence[float] | None = None  # [s]; None: at every step

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
        return f"the {'increment of the ' if self.increment else ''}stroke of '{self.actuator}'"

    def on(self, model: Dynamics, steps: int) -> list[Watch]:
        term, rows = _stroked(model, self.actuator)
        n, dim = rows.shape[0], rows.shape[0] // term.weights.shape[0]
        rows = sp.hstack([rows, sp.csr_matrix((n, model.space.size - rows.shape[1]))], format="csr")
        none = sp.csr_matrix(rows.shape)
        states = (
            (sp.vstack([rows, none], format="csr"), sp.vstack([none, rows], format="csr"))
            if self.increment
            else (rows,)
        )

        def moved(y: Array) -> Array:
            now, *before = (
                term.displacement(part.reshape(-1, dim) + term.offset)
                for part in np.split(y, len(states))
            )
            return np.atleast_1d(now - sum(before))

        blank = Quadratic(target=np.zeros(n * len(states)), weight=0.0)
        at = steps_at(f"The limit on {self.label}", self.time, steps, model.dt)
        return [
            Watch(
                look=Look(name=self.actuator, step=k, states=states, loss=blank),
                function=moved,
                inside=Interval(lower=self.lower, upper=self.upper),
            )
            for k in at
        ]


def _stroked(model: Dynamics, name: str) -> tuple[Any, sp.csr_matrix]:
    """(the attached actuator, the rows (n_points dim, n_dofs) of its points) of a robot's model, or
    a sentence."""
    if not isinstance(model, Stepping | Condensed):
        raise InputError(
            "A stroke needs a rule of a robot's equations, such as SemiImplicit or "
            "ImplicitEuler; this model has no attached actuators to look at."
        )
    term, rows = model.equations.attached(name)
    if not isinstance(term, Stroked):
        kind = type(model.robot.actuators[name]).__name__
        raise InputError(
            f"The actuator '{name}' is a {kind}, whose displacement is its control; bound it "
            "with Limit(lower=..., upper=...), or order=1 for its rate."
        )
    return term, rows


def keep_out(
    effector: str,
    zone: Obstacle,
    *,
    margin: float = 0.0,
    time: float | Sequence[float] | None = None,
) -> Constraint:
    """An effector stays outside a zone, such as sphere(...), capsule(...) or the half space below
    plane(...), by a margin [m]."""
    require_kind(
        "The forbidden zone", zone, Obstacle, "give a sphere(...), capsule(...) or plane(...)"
    )
    least = require_number("The margin of a forbidden zone", margin, "m")
    return Constraint(
        effector=effector,
        function=lambda y: zone(y[None])[0],
        inside=Interval(lower=least),
        time=time,
    )
