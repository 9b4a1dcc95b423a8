"""The stages of a reduced horizon with the control costs, and their Riccati recursions.

The control costs depend on past controls, so the recursion's state is zeta_k = (xi_k, u_{k-1}, ...,
u_{k-j}). It has tens of numbers, for a mesh of any size.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from pliant.core import Array
from pliant.planners.horizon_reduction import ReducedHorizon
from pliant.planners.linear_quadratic import control_step_bounds
from pliant.planners.riccati import QuadraticModel, q_function
from pliant.planners.riccati_kernels import backward_step
from pliant.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """Changes of controls that are held at given values."""

    mask: Array  # (steps, n_controls) bool
    values: Array  # (steps, n_controls)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedStages:
    """The stages of a reduced horizon over zeta, with the control costs."""

    problem: Problem
    horizon: ReducedHorizon

    @property
    def n_past(self) -> int:
        """The number of entries of the past controls in zeta."""
        return self.horizon.layout.n_past_controls * self.problem.model.n_controls

    @cached_property
    def dynamics(self) -> list[tuple[Array, Array]]:
        """d zeta_{k+1} / d zeta_k and d zeta_{k+1} / d u_k of each step."""
        past, m = self.n_past, self.problem.model.n_controls
        out = []
        for a, b in zip(self.horizon.A, self.horizon.B, strict=True):
            new, old = a.shape
            A, B = np.zeros((new + past, old + past)), np.zeros((new + past, m))
            A[:new, :old], B[:new] = a, b
            if past:
                A[new + m :, old : old + past - m] = np.eye(past - m)
                B[new : new + m] = np.eye(m)
            out.append((A, B))
        return out

    @cached_property
    def row_hessians(self) -> list[Array]:
        """The Hessians (r_k, r_k) of the terms at steps 1 to N."""
        return [rows.T @ rows for rows in self.horizon.rows]

    @cached_property
    def control_hessian(self) -> Array:
        """The Hessian of the control costs of a step over (past controls, control)."""
        m, past = self.problem.model.n_controls, self.n_past
        out = np.zeros((past + m, past + m))
        for cost in self.problem.control_costs:
            rows = np.zeros((m, past + m))
            rows[:, past:] = cost.stencil[0] * np.eye(m)
            for j, c in enumerate(cost.stencil[1:]):
                rows[:, j * m : (j + 1) * m] = c * np.eye(m)
            out += rows.T @ (cost.weight[:, None] * rows)
        return out

    def stage(self, k: int, u: Array, shift: float, extra: float) -> QuadraticModel:
        """Return the cost of step k: 1 + shift times the control costs, and the gradient u."""
        past, r = self.n_past, self.horizon.A[k].shape[1]
        H = (1.0 + shift) * self.control_hessian
        zz, uz = np.zeros((r + past, r + past)), np.zeros((len(u), r + past))
        zz[r:, r:], uz[:, r:] = H[:past, :past], H[past:, :past]
        if k > 0:
            zz[:r, :r] = self.row_hessians[k - 1]
        uu = H[past:, past:] + (1.0 + shift) * extra * np.eye(len(u))
        return QuadraticModel(z=np.zeros((r + past, *u.shape[1:])), u=u, zz=zz, uz=uz, uu=uu)

    def last_stage(self) -> Array:
        """Return the Hessian of the terms at the last step over zeta_N."""
        return scipy.linalg.block_diag(self.row_hessians[-1], np.zeros((self.n_past,) * 2))

    def solve(
        self, gradient: Array, shift: float, extra: float, held: Held | None = None
    ) -> tuple[Array, Array]:
        """Return the change that minimises the model with a gradient, and the derivative of the
        minimum by the held changes, zero for the others.

        Both have the shape of the gradient, (steps, n_controls) or (steps, n_controls, k) for k
        gradients.
        """
        shape = gradient.shape
        gradient = gradient.reshape(*shape[:2], -1)
        P = self.last_stage()
        p, policy = np.zeros((len(P), gradient.shape[2])), []
        for k in range(len(gradient) - 1, -1, -1):
            Q = q_function(self.stage(k, gradient[k], shift, extra), *self.dynamics[k], P, p)
            K, d = _free_gains(Q) if held is None else _held_gains(Q, held.mask[k], held.values[k])
            P, p = Q.zz + Q.uz.T @ K, Q.z + Q.uz.T @ d
            P = 0.5 * (P + P.T)
            policy.append((K, d, Q))
        zeta, out, slopes = np.zeros(p.shape), np.zeros(gradient.shape), np.zeros(gradient.shape)
        for k, (K, d, Q) in enumerate(reversed(policy)):
            out[k] = d + K @ zeta
            if held is not None:
                slopes[k] = held.mask[k][:, None] * (Q.uu @ out[k] + Q.uz @ zeta + Q.u)
            A, B = self.dynamics[k]
            zeta = A @ zeta + B @ out[k]
        return out.reshape(shape), slopes.reshape(shape)

    def policy(
        self, controls: Array, damping: float
    ) -> tuple[bool, list[Array], Array, float, float]:
        """Return the control-limited policy, as riccati_kernels.backward_pass.

        The gains (n_controls, r_k + n_past) of each step are over zeta_k.
        """
        problem, layout, g = self.problem, self.horizon.layout, self.horizon.gradient
        past = slice(layout.n_state, layout.n_state + self.n_past)
        P = self.last_stage()
        p, gain, size = np.zeros(len(P)), 0.0, 0.0
        gains: list[Array] = []
        forward = np.zeros(g.shape)
        for k in range(len(g) - 1, -1, -1):
            low, high, below, above = control_step_bounds(problem, layout, controls, k)
            r, q = self.horizon.A[k].shape[1], self.stage(k, g[k], 0.0, 0.0)
            low_rows, high_rows = (
                np.concatenate([np.zeros((len(low), r)), rows[:, past]], axis=1)
                for rows in (below, above)
            )
            cost = (q.z, q.u, q.zz, q.uz, q.uu)
            limits = (low, high, low_rows, high_rows)
            ok, K, forward[k], P, p, promised, diagonal = backward_step(
                *(*cost, *self.dynamics[k], P, p, *limits, damping)
            )
            size += diagonal / len(g)
            if not ok:
                return False, [], forward, gain, size
            gains.append(K)
            gain += promised
        return True, gains[::-1], forward, gain, size


def _free_gains(Q: QuadraticModel) -> tuple[Array, Array]:
    """Return the gains (n_controls, size of zeta) and the changes (n_controls, k) at zeta = 0."""
    return _gains(Q.uu, Q.uz, Q.u)


def _gains(uu: Array, uz: Array, u: Array) -> tuple[Array, Array]:
    """Return -uu^-1 uz and -uu^-1 u. Raises LinAlgError if uu is not positive definite."""
    # SciPy's functions for small matrices take ten times as long as LAPACK itself
    _, both, info = lapack.dposv(uu, np.concatenate([uz, u], axis=1))
    if info:
        raise np.linalg.LinAlgError("the Hessian by the controls is not positive definite")
    return -both[:, : uz.shape[1]], -both[:, uz.shape[1] :]


def _held_gains(Q: QuadraticModel, held: Array, values: Array) -> tuple[Array, Array]:
    """Return the same as `_free_gains`, with some changes held at their values."""
    if not held.any():
        return _free_gains(Q)
    fixed, rows = np.where(held, values, 0.0)[:, None], held[:, None]
    uu = np.where(rows | held, np.eye(len(held)), Q.uu)  # held changes have equations of their own
    K, d = _gains(uu, np.where(rows, 0.0, Q.uz), np.where(rows, 0.0, Q.u + Q.uu @ fixed))
    return K, d + fixed
