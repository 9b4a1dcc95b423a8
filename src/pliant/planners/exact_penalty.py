"""The exact penalty of a constraint, whose rows a quadratic model treats as constraints.

With penalty |distance| the minimiser satisfies the constraint exactly once the penalty exceeds the
multiplier, so no multipliers are estimated. The trust-region loop compares costs with penalties.
"""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.problem import ConstraintRow, Interval
from pliant.problem.constraint_bounds import row_bounds, row_jacobian, row_value


def has_linear_bounds(constraint_row: ConstraintRow) -> bool:
    """Return whether a constraint bounds a linear function of y.

    A curved one needs its second derivative times the multiplier, which Gauss-Newton does not have;
    steps along it would be short.
    """
    if not isinstance(constraint_row.inside, Interval):
        return False
    points = np.random.default_rng(0).standard_normal((2, constraint_row.observation.size))
    with np.errstate(all="ignore"):  # a function may be undefined there
        one, other = (constraint_row.jacobian(y) for y in points)
    return bool(np.all(np.abs(one - other) <= 1e-10 * np.abs(one).max(initial=0.0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactPenaltyLoss:
    """The loss penalty sum_i |c_i - [lower_i, upper_i]| of the limited values c of a constraint.

    Quadratic models take `gauss_newton_factor` as the derivative of c, not as a residual.
    """

    constraint_row: ConstraintRow
    penalty: float  # for a distance of 1 in scaled units
    scale: float = 1.0  # factor of the values, so that their rows are as large as the residuals'

    def bounds(self, y: Array) -> tuple[Array, Array]:
        """Return the bounds (m,) of `limited_values`."""
        lower, upper = row_bounds(self.constraint_row, y)
        return self.scale * lower, self.scale * upper

    def limited_values(self, y: Array) -> Array:
        """Return the scaled value (m,) of the constraint."""
        return self.scale * row_value(self.constraint_row, y)

    def value(self, y: Array) -> float:
        c, (lower, upper) = self.limited_values(y), self.bounds(y)
        if np.isnan(c).any():
            return np.inf
        return self.penalty * float(np.sum(distances(c, lower, upper)))

    def gradient(self, y: Array) -> Array:
        """Return zeros: the gradient of a quadratic model has no penalties."""
        return np.zeros_like(y)

    def gauss_newton_factor(self, y: Array) -> Array:
        """Return the derivative of `limited_values`."""
        return self.scale * row_jacobian(self.constraint_row, y)

    def hessian(self, y: Array) -> Array:
        return np.zeros((len(y), len(y)))


def distances(c: Array, lower: Array, upper: Array) -> Array:
    """Return the distance of each value from its interval."""
    return np.maximum(lower - c, 0.0) + np.maximum(c - upper, 0.0)
