"""Points of one-sided difference quotients within bounds."""

from pliant.core import Array

# Of a scaled variable. The truncation error is about this share of the second derivative, and the
# round-off error of a simulation, 1e-13, becomes 1e-7.
STEP = 1e-6


def difference_point(z: Array, index: int, bounds: tuple[Array, Array]) -> tuple[Array, float]:
    """Return a point (n,) along a variable, on the side with more room, and its distance."""
    h = STEP * max(1.0, abs(float(z[index])))
    room = (z[index] - bounds[0][index], bounds[1][index] - z[index])
    end = z.copy()
    end[index] += h if room[1] >= room[0] else -h
    return end, float(end[index] - z[index])
