"""The constraint that a body is at rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, require_positive
from pliant.problem.constraints import ConstraintRow, Interval, StateConstraint


@dataclass(frozen=True, kw_only=True, eq=False)
class AtRest:
    """The condition that the mean squared velocity of all points of a body is at most speed^2.

    Its row is the mean squared velocity divided by speed^2, at most 1. The points are those of the
    model: nodes, or particles. Rotations of beams do not count.

    Parameters
    ----------
    speed : largest root mean square velocity [m/s], positive. Zero is no limit that a method can
        meet, because the derivative of the mean square vanishes there.
    time : one or several times [s]; None for every step

    Raises InputError for other speeds, and for models without a body.

    >>> import pliant as pl
    >>> at_rest = pl.problem.AtRest(speed=0.05, time=2.0)
    """

    speed: float
    time: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        require_positive("The speed of a body at rest", self.speed, "m/s")

    @property
    def label(self) -> str:
        """Name of the constraint in messages."""
        return "the constraint on the mean squared velocity"

    def attach(self, model: Dynamics, steps: int) -> list[ConstraintRow]:
        """Return one ConstraintRow for each time."""
        weights = point_weights(model) / self.speed**2
        constraint = StateConstraint(
            part="velocity",
            function=lambda v: np.array([weights @ v**2]),
            vjp=lambda v, c: 2.0 * c[0] * weights * v,
            inside=Interval(upper=1.0),
            time=self.time,
        )
        return constraint.attach(model, steps)


def point_weights(model: Any) -> Array:
    """Return 1 / n_points for each coordinate (n_dofs,) of a point, zero for rotations."""
    body = getattr(model, "body", None)
    if body is None:
        raise InputError(
            f"{type(model).__name__} has no body, so it has no mean squared velocity; take "
            "StateConstraint."
        )
    points = np.asarray(getattr(body, "is_position", np.ones(body.rest.size // body.dim, bool)))
    return np.repeat(points / points.sum(), body.dim)
