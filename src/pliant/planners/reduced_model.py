"""The quadratic model of Gauss-Newton over a reduced horizon, minimised by Riccati recursions.

The control costs depend on past controls, so the recursion's state is zeta_k = (xi_k, u_{k-1}, ...,
u_{k-j}). It has tens of numbers, for a mesh of any size.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp

from pliant.core import Array
from pliant.planners.evaluation import Evaluation
from pliant.planners.horizon_reduction import ReducedHorizon, WeightedRows
from pliant.planners.linear_quadratic import control_step_bounds
from pliant.planners.riccati import QuadraticModel, q_function
from pliant.planners.riccati_kernels import backward_step
from pliant.planners.sensitivity import control_cost_gradient
from pliant.planners.trust_region import (
    ControlMetric,
    TrustRegionStep,
    check_derivatives,
    clip_to_limits,
    control_metric,
    limit_rows,
    solve_qp,
    unflatten_controls,
)
from pliant.problem import Problem

RADIUS_TOLERANCE = 1e-6  # relative difference of a step's size from the radius


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
        return QuadraticModel(z=np.zeros(r + past), u=u, zz=zz, uz=uz, uu=uu)

    def last_stage(self) -> Array:
        """Return the Hessian of the terms at the last step over zeta_N."""
        return scipy.linalg.block_diag(self.row_hessians[-1], np.zeros((self.n_past,) * 2))

    def solve(self, gradient: Array, shift: float, extra: float) -> Array:
        """Return the change (steps, n_controls) that minimises the model with a gradient."""
        P = self.last_stage()
        p, policy = np.zeros(len(P)), []
        for k in range(len(gradient) - 1, -1, -1):
            A, B = self.dynamics[k]
            Q = q_function(self.stage(k, gradient[k], shift, extra), A, B, P, p)
            factor = scipy.linalg.cho_factor(Q.uu)
            K, d = -scipy.linalg.cho_solve(factor, Q.uz), -scipy.linalg.cho_solve(factor, Q.u)
            P, p = Q.zz + Q.uz.T @ K, Q.z + Q.uz.T @ d
            P = 0.5 * (P + P.T)
            policy.append((K, d))
        zeta, out = np.zeros(self.dynamics[0][0].shape[1]), np.zeros(gradient.shape)
        for k, (K, d) in enumerate(reversed(policy)):
            out[k] = d + K @ zeta
            A, B = self.dynamics[k]
            zeta = A @ zeta + B @ out[k]
        return out

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


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedModel:
    """The model g . d + 1/2 d^T (B + J^T J) d of the cost over a reduced horizon."""

    stages: ReducedStages
    now: Evaluation  # at which the horizon is linearised
    controls: Array  # (steps, n_controls) at d = 0
    gradient: Array  # (steps, n_controls) at d = 0

    @classmethod
    def at(cls, problem: Problem, now: Evaluation, horizon: ReducedHorizon) -> "ReducedModel":
        """Return the model about the evaluation of a horizon."""
        check_derivatives(horizon.gradient, *horizon.B)
        stages = ReducedStages(problem=problem, horizon=horizon)
        return cls(stages=stages, now=now, controls=now.controls, gradient=horizon.gradient)

    @property
    def reuse_jacobian(self) -> Callable[[Evaluation], "ReducedModel"]:
        return self._at_trial

    def _at_trial(self, trial: Evaluation) -> "ReducedModel":
        """Return the model at a nearby evaluation with the same Jacobian."""
        problem, horizon = self._problem, self.stages.horizon
        slope = lambda of: control_cost_gradient(problem, of.controls)
        bars = [
            np.concatenate([np.zeros(0), *(self._residual_bar(one, trial) for one in here)])
            for here in horizon.observations
        ]
        change = slope(trial) - slope(self.now) + horizon.residual_vjp(bars)
        return replace(self, controls=trial.controls, gradient=horizon.gradient + change)

    def _residual_bar(self, one: WeightedRows, trial: Evaluation) -> Array:
        """Return the change of the residuals (r,) of an observation that explains the change of its
        loss gradient."""
        y = one.observation.evaluate(trial.states, trial.controls, self._problem.previous_control)
        change = one.observation.loss.gradient(y) - one.loss_gradient
        return np.linalg.lstsq(one.factor.T, change)[0]

    @property
    def _problem(self) -> Problem:
        return self.stages.problem

    @cached_property
    def metric(self) -> ControlMetric:
        size = self.stages.horizon.squared_size
        return control_metric(self._problem, size / self._problem.n_variables)

    def minimise(self, radius: float) -> TrustRegionStep:
        """Return the minimiser within the trust region and the limits."""
        shift, d = self._within_radius(radius)
        if self._problem.limit_violation(self.controls + d) > 1e-12:
            shift, d = self._within_limits(radius)
        return TrustRegionStep(change=d, gain=self._gain(d), size=self._size(d), shift=shift)

    def _within_radius(self, radius: float) -> tuple[float, Array]:
        """Return the least shift for which the step is within the radius, and the step."""
        found: dict[float, Array] = {}

        def excess(shift: float) -> float:
            found[shift] = self.stages.solve(self.gradient, shift, self.metric.extra)
            return 1.0 - radius / max(self._size(found[shift]), 1e-300)

        low, high = 0.0, 0.0
        while excess(high) > RADIUS_TOLERANCE:
            size = self._size(found[high])
            low, high = high, 2.0 * (1.0 + high) * size / radius - 1.0
        if high > 0.0:
            scipy.optimize.brentq(excess, low, high, rtol=RADIUS_TOLERANCE)
        fits = lambda d: self._size(d) <= radius * (1.0 + 2.0 * RADIUS_TOLERANCE)
        shift = min(shift for shift, d in found.items() if fits(d))
        return shift, found[shift]

    def _size(self, d: Array) -> float:
        flat = d.T.ravel()
        return float(np.sqrt(max(flat @ (self.metric.sparse @ flat), 0.0)))

    def _gain(self, d: Array) -> float:
        """Return the predicted decrease of the cost."""
        squares = sum(float(r @ r) for r in self.stages.horizon.residual_change(d))
        return -float(np.sum(self.gradient * d)) - 0.5 * (self._size(d) ** 2 + squares)

    # Limits

    def _within_limits(self, radius: float) -> tuple[float, Array]:
        """Return a shift and its step within the limits, at most 1.1 times as long as the
        radius."""
        shift = 0.0
        for _ in range(30):
            d = self._solve_limited(shift)
            if self._size(d) <= 1.1 * radius:
                break
            shift = 1.5 * ((1.0 + shift) * self._size(d) / radius - 1.0)
        return shift, d

    def _solve_limited(self, shift: float) -> Array:
        """Return the minimiser within the limits, by a quadratic program over all steps.

        Its variables are the change of the controls, the coordinates xi and the residuals. The
        constraints connect neighbouring steps only, so the factorisations take a time proportional
        to the steps.
        """
        n = self._problem.n_variables
        A, n_xi, n_rows = self._dynamics_rows
        scale = max(float(np.abs(self.gradient).max()), 1e-300)
        P = sp.block_diag(
            [
                (1.0 + shift) / scale * self.metric.sparse,
                sp.csc_matrix((n_xi, n_xi)),
                sp.identity(n_rows) / scale,
            ],
            format="csc",
        )
        G, low, high = limit_rows(self._problem, self.controls)
        G = sp.hstack([G, sp.csc_matrix((G.shape[0], n_xi + n_rows))], format="csc")
        c = np.concatenate([self.gradient.T.ravel() / scale, np.zeros(n_xi + n_rows)])
        d = solve_qp(P, c, A, np.zeros(n_xi + n_rows), G, low, high)[:n]
        clipped = clip_to_limits(self._problem, self.controls, d)
        return unflatten_controls(clipped, self.controls.shape)

    @cached_property
    def _dynamics_rows(self) -> tuple[sp.csc_matrix, int, int]:
        """The equations over (controls, xi, residuals), and the numbers of xi and of residuals."""
        horizon, (N, m) = self.stages.horizon, self.controls.shape
        xi = np.cumsum([0, *(len(B) for B in horizon.B)])
        y = xi[-1] + np.cumsum([0, *(len(rows) for rows in horizon.rows)])
        parts: list[tuple[int, Array, Array]] = []  # first row, columns, block
        for k in range(N):
            new, controls = N * m + xi[k], np.arange(m) * N + k
            r, p = len(horizon.B[k]), len(horizon.rows[k])
            parts += [
                (xi[k], new + np.arange(r), np.eye(r)),
                (xi[k], controls, -horizon.B[k]),
                (y[k], N * m + y[k] + np.arange(p), np.eye(p)),
                (y[k], new + np.arange(r), -horizon.rows[k]),
            ]
            if k > 0:
                before = N * m + xi[k - 1] + np.arange(len(horizon.B[k - 1]))
                parts.append((xi[k], before, -horizon.A[k]))
        rows, cols, data = (
            np.concatenate([part.ravel() for part in column])
            for column in zip(
                *(
                    (
                        np.broadcast_to(first + np.arange(len(block))[:, None], block.shape),
                        np.broadcast_to(columns, block.shape),
                        block,
                    )
                    for first, columns, block in parts
                ),
                strict=True,
            )
        )
        A = sp.csc_matrix((data, (rows, cols)), shape=(y[-1], N * m + y[-1]))
        A.eliminate_zeros()
        return A, int(xi[-1]), int(y[-1] - xi[-1])
