"""Points of one-sided difference quotients within bounds."""

from typing import Any

from pliant.core import Array, Dynamics

# Of a scaled variable. The truncation error is about this share of the second derivative. The
# round-off error of a simulation, 1e-13, becomes 1e-7; that in single precision, 1e-6, 1e-3.
STEP, SINGLE_STEP = 1e-6, 1e-3


def step_size(model: Dynamics) -> float:
    """Return the step of a scaled variable for the precision of a model, which may be inside a
    closed loop."""
    inner: Any = model
    while isinstance(nested := getattr(inner, "model", None), Dynamics):
        inner = nested
    return SINGLE_STEP if getattr(inner, "precision", None) == "float32" else STEP


def difference_point(
    z: Array, index: int, bounds: tuple[Array, Array], size: float
) -> tuple[Array, float]:
    """Return a point (n,) along a variable, on the side with more room, and its distance. `size` is
    the step of a variable of one."""
    h = size * max(1.0, abs(float(z[index])))
    room = (z[index] - bounds[0][index], bounds[1][index] - z[index])
    end = z.copy()
    end[index] += h if room[1] >= room[0] else -h
    return end, float(end[index] - z[index])
