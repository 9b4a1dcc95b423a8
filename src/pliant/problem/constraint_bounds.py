"""Constraints as smooth rows between bounds, for solvers that linearise them."""

import numpy as np

from pliant.core import Array, InputError
from pliant.problem.constraints import Ball, ConstraintRow, Interval


def row_value(row: ConstraintRow, y: Array) -> Array:
    """Return the value (m,) of a constraint; for a ball the squared distance from its centre."""
    c = row.function(y)
    if isinstance(row.inside, Ball):
        r = c - np.asarray(row.inside.centre, float)
        return np.array([r @ r])
    return c


def row_jacobian(row: ConstraintRow, y: Array) -> Array:
    """Return the derivative (m, n) of `row_value`."""
    J = row.jacobian(y)
    if isinstance(row.inside, Ball):
        return 2.0 * (row.function(y) - np.asarray(row.inside.centre, float))[None] @ J
    return J


def row_bounds(row: ConstraintRow, y: Array) -> tuple[Array, Array]:
    """Return the bounds of `row_value`. Raises InputError for other sets."""
    if isinstance(row.inside, Ball):
        return np.array([-np.inf]), np.array([row.inside.radius**2])
    if isinstance(row.inside, Interval):
        m = len(row.function(y))
        lower, upper = (
            np.array(np.broadcast_to(np.asarray(side, float), (m,)))
            for side in (row.inside.lower, row.inside.upper)
        )
        return lower, upper
    raise InputError(
        f"The constraint on '{row.observation.name}' has the set {type(row.inside).__name__}; "
        "give an Interval or a Ball."
    )
