"""A reduced horizon with limits on observations and controls, for the interior point method.

The limited values are the constraint rows of all steps, then the values of each limit of the
controls at all steps. Weights on them change the stages only, so a factorisation stays a Riccati
recursion. Rates and accelerations depend on past controls, which are part of its state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from pliant.core import Array
from pliant.planners.reduced_stages import ReducedStages
from pliant.planners.riccati import q_function
from pliant.planners.trust_region import unflatten_controls
from pliant.problem import ControlBound, apply_stencil


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitedStages:
    """The model gradient . d + 1/2 d^T (metric + J^T J) d and the limited values of d."""

    stages: ReducedStages
    gradient: Array  # (steps, n_controls) at d = 0
    metric: sp.csc_matrix  # of the control costs, 1 + shift times
    shift: float
    extra: float
    bounds: Sequence[ControlBound]

    @property
    def _control_shape(self) -> tuple[int, ...]:
        return (len(self.bounds), *self.gradient.shape)

    def gradient_at(self, d: Array) -> Array:
        """Return the gradient (steps, n_controls) of the model at d."""
        horizon = self.stages.horizon
        by_costs = unflatten_controls(self.metric @ d.T.ravel(), d.shape)
        return self.gradient + by_costs + horizon.residual_vjp(horizon.residual_change(d))

    def values_change(self, d: Array) -> Array:
        """Return the change (n,) of the limited values."""
        controls = [apply_stencil(one.stencil, d, np.zeros(d.shape[1])) for one in self.bounds]
        limited = self.stages.horizon.row_changes(d)[1]
        return np.concatenate([*limited, np.ravel(controls)])

    def vjp(self, z: Array) -> Array:
        """Return the gradient (steps, n_controls) of z . limited values."""
        horizon = self.stages.horizon
        rows, controls = self._split(z)
        out = horizon.limited_vjp(rows)
        for one, bars in zip(self.bounds, controls, strict=True):
            for j, c in enumerate(one.stencil[: len(out)]):
                out[: len(out) - j] += c * bars[j:]
        return out

    def _split(self, values: Array) -> tuple[list[Array], Array]:
        """Return values (n,) as those of the rows of each step and those of the controls."""
        ends = np.cumsum([0, *(len(rows) for rows in self.stages.horizon.limited)])
        rows = [values[a:b] for a, b in pairwise(ends)]
        return rows, values[ends[-1] :].reshape(self._control_shape)

    def factorise(self, weights: Array) -> "WeightedRecursion":
        """Return the Riccati recursion with weights (n,) of the squared limited values."""
        rows, controls = self._split(weights)
        stages, limited = self.stages, self.stages.horizon.limited
        P = stages.last_stage()
        r = limited[-1].shape[1]
        P[:r, :r] += limited[-1].T @ (rows[-1][:, None] * limited[-1])
        gains, factors = [], []
        nothing = np.zeros((self.gradient.shape[1], 0))
        for k in range(len(self.gradient) - 1, -1, -1):
            stage = stages.stage(k, nothing, self.shift, self.extra)
            if k > 0:
                r = limited[k - 1].shape[1]
                stage.zz[:r, :r] += limited[k - 1].T @ (rows[k - 1][:, None] * limited[k - 1])
            for one, w in zip(self.bounds, controls[:, k], strict=True):
                add_control_weight(stage.zz, stage.uz, stage.uu, one.stencil, w, stages.n_past)
            Q = q_function(stage, *stages.dynamics[k], P, np.zeros((len(P), 0)))
            factors.append(scipy.linalg.cho_factor(Q.uu, check_finite=False))
            gains.append(-scipy.linalg.cho_solve(factors[-1], Q.uz, check_finite=False))
            P = Q.zz + Q.uz.T @ gains[-1]
            P = 0.5 * (P + P.T)
        return WeightedRecursion(dynamics=stages.dynamics, gains=gains[::-1], factors=factors[::-1])


def add_control_weight(
    zz: Array, uz: Array, uu: Array, stencil: Array, weight: Array, n_past: int
) -> None:
    """Add the Hessian of 1/2 weight (sum_j stencil_j u_{k-j})^2 to the blocks of a stage.

    The last `n_past` entries of its state are the past controls, the most recent first.
    """
    m = len(weight)
    first = len(zz) - n_past
    blocks = [first + m * j + np.arange(m) for j in range(len(stencil) - 1)]
    uu[np.diag_indices(m)] += stencil[0] ** 2 * weight
    for j, rows in enumerate(blocks, start=1):
        uz[np.arange(m), rows] += stencil[0] * stencil[j] * weight
        for i, others in enumerate(blocks, start=1):
            zz[rows, others] += stencil[i] * stencil[j] * weight


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRecursion:
    """A Riccati recursion without its linear part."""

    dynamics: Sequence[tuple[Array, Array]]  # of each step
    gains: Sequence[Array]  # (n_controls, size of zeta)
    factors: Sequence[tuple[Array, bool]]  # of the Hessians by the controls

    def solve(self, gradient: Array) -> Array:
        """Return the minimiser (steps, n_controls) of the model with a gradient."""
        p, forward = np.zeros(len(self.dynamics[-1][0])), np.zeros(gradient.shape)
        for k in range(len(gradient) - 1, -1, -1):
            A, B = self.dynamics[k]
            by_u = gradient[k] + B.T @ p
            forward[k] = -scipy.linalg.cho_solve(self.factors[k], by_u, check_finite=False)
            p = A.T @ p + self.gains[k].T @ by_u
        zeta, out = np.zeros(self.dynamics[0][0].shape[1]), np.zeros(gradient.shape)
        for k, (A, B) in enumerate(self.dynamics):
            out[k] = forward[k] + self.gains[k] @ zeta
            zeta = A @ zeta + B @ out[k]
        return out
