"""Points of difference quotients within bounds."""

import numpy as np

from pliant.core import Array

STEP = 1e-5  # of a scaled variable: truncation and round-off errors are then about equal


def difference_points(
    z: Array, index: int, bounds: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Return two points (n,) each along a variable, and the weights (3,) of the values at them and
    at z in the quotient: central, or one-sided of second order at a bound."""
    h = STEP * max(1.0, abs(float(z[index])))
    room = (z[index] - bounds[0][index], bounds[1][index] - z[index])
    a, b, weights = -h, h, np.array([-0.5, 0.5, 0.0]) / h
    if min(room) < h:
        sign = 1.0 if room[1] >= room[0] else -1.0
        a, b, weights = sign * h, 2.0 * sign * h, sign * np.array([2.0, -0.5, -1.5]) / h
    ends = np.tile(z, (2, 1))
    ends[:, index] += (a, b)
    return ends[0], ends[1], weights


def quotients(values: tuple[Array, Array, Array], weights: Array) -> Array:
    """Return the difference quotient of the values at the two points and at z."""
    return np.asarray(sum(w * v for w, v in zip(weights, values, strict=True)))
