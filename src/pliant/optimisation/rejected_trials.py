"""What a rejected trial of Gauss-Newton says about the next one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from pliant.core import Array

DOUBLINGS = 60  # of the damping; from the least one, 1e-15, to 1000


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RejectedTrial:
    """A step (n,) without sufficient decrease, and the residuals (r,) after it."""

    step: Array
    residuals: Array

    def next_damping(
        self,
        residuals: Array,
        jacobian: Array,
        scale: Array,
        damping: float,
        step: Callable[[float], Array],
    ) -> float:
        """Return the damping, `damping` or larger, whose step has the lowest value in a quadratic
        model of the residuals. It takes no simulation.

        The model has the residuals (r,) and the Jacobian (r, n) of the iterate, and the residuals
        of the trial. Its second derivative is the smallest one, with variables times `scale` (n,).
        """
        miss = self.residuals - residuals - jacobian @ self.step
        along = scale**2 * self.step / np.sum((scale * self.step) ** 2)
        Q, _ = np.linalg.qr(np.column_stack([jacobian, residuals, miss]))
        J, r, curvature = Q.T @ jacobian, Q.T @ residuals, Q.T @ miss

        def value(d: Array) -> float:
            return float(np.sum((r + J @ d + (along @ d) ** 2 * curvature) ** 2))

        dampings = [float(damping * 2.0**k) for k in range(DOUBLINGS)]
        return min(dampings, key=lambda each: value(step(each)))
