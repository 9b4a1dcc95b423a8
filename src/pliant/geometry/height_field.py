"""A height field over a line or a plane: an interpolating cubic B-spline with derivatives."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.ndimage import spline_filter

from pliant.core import Array

# Grid points added beyond each edge; the influence of the edge decays to round-off within them.
PADDING = 24


@dataclass(frozen=True, kw_only=True, eq=False)
class HeightField:
    """Heights on a regular grid with a twice continuously differentiable interpolation.

    Outside the grid the height of its edge continues, after a ripple of about one cell.
    """

    heights: Array  # (nx,) or (nx, ny) [m]
    spacing: float  # [m]
    origin: Array  # (heights.ndim,) [m] the position of the first height

    @cached_property
    def _coefficients(self) -> Array:
        return spline_filter(np.pad(self.heights, PADDING, mode="edge"), order=3, output=np.float64)

    @cached_property
    def max_slope(self) -> float:
        """Return an upper bound of the slope [-], from the differences of the B-spline
        coefficients."""
        rises = [
            np.abs(np.diff(self._coefficients, axis=axis)).max()
            for axis in range(self.heights.ndim)
        ]
        return float(np.linalg.norm(rises)) / self.spacing

    def evaluate(self, x: Array) -> tuple[Array, Array, Array]:
        """Return height (k,) [m], gradient (k, m) and Hessian (k, m, m) [1/m] at positions (k, m)
        [m].

        m is heights.ndim. Complex positions are allowed.
        """
        m, last = self.heights.ndim, np.array(self._coefficients.shape) - 2
        t = (x - self.origin) / self.spacing + PADDING
        t = np.where(t.real < 1.0, 1.0, np.where(t.real > last, last, t))
        first = np.clip(np.floor(t.real), 1, last - 1).astype(np.int64)
        basis, near = _basis(t - first), first[:, :, None] + np.arange(-1, 3)
        c = (
            self._coefficients[near[:, 0]]
            if m == 1
            else self._coefficients[near[:, 0, :, None], near[:, 1, None, :]]
        )
        order = np.eye(m, dtype=int)  # of the derivative along each axis
        slope = [_contract(c, basis, order[i]) / self.spacing for i in range(m)]
        curvature = [
            _contract(c, basis, order[i] + order[j]) / self.spacing**2
            for i, j in product(range(m), repeat=2)
        ]
        return (
            _contract(c, basis, 0 * order[0]),
            np.stack(slope, axis=1),
            np.stack(curvature, axis=1).reshape(-1, m, m),
        )


def _basis(f: Array) -> tuple[Array, Array, Array]:
    """Return the four cubic B-splines of a cell and two derivatives, (k, m, 4) each.

    `f` (k, m) are positions in the cell from 0 to 1.
    """
    g = 1.0 - f
    values = (
        g**3 / 6.0,
        2.0 / 3.0 - f * f * (1.0 - 0.5 * f),
        2.0 / 3.0 - g * g * (1.0 - 0.5 * g),
        f**3 / 6.0,
    )
    slopes = -0.5 * g * g, f * (1.5 * f - 2.0), g * (2.0 - 1.5 * g), 0.5 * f * f
    curvatures = g, 3.0 * f - 2.0, 3.0 * g - 2.0, f
    return np.stack(values, axis=-1), np.stack(slopes, axis=-1), np.stack(curvatures, axis=-1)


def _contract(c: Array, basis: tuple[Array, Array, Array], order: Array) -> Array:
    """Return the sum (k,) of coefficients c (k, 4) or (k, 4, 4) times splines of the given
    derivative orders."""
    sides = [basis[n][:, axis] for axis, n in enumerate(order)]
    return (
        np.einsum("ka,ka->k", c, *sides)
        if len(sides) == 1
        else np.einsum("kab,ka,kb->k", c, *sides)
    )
