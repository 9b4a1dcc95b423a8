"""The quadratic program of one control step over a receding horizon.

The terms and constraints of a problem are linearised about a predicted motion. Steps after the end
of the problem repeat the terms and constraints of its last step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from pliant.core import Array, Linearizable, Step, map_columns
from pliant.planners.trust_region import solve_qp
from pliant.problem import ConstraintRow, Observation, Problem
from pliant.problem.constraint_bounds import row_bounds, row_jacobian, row_value
from pliant.problem.observations import stencil_vjp

# A constraint is violated only if it costs this many times the largest gradient of the objective
# within the limits. Then its multiplier is smaller than the cost, so the penalty is exact.
VIOLATION_COST = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedMotion:
    """A simulated horizon from the step `first` of a problem on."""

    first: int
    states: Array  # (horizon + 1, n_state)
    steps: tuple[Step, ...]
    controls: Array  # (horizon, n_controls)
    past: Array  # (n_past, n_controls) controls before the horizon, latest last
    offset: Array  # (n_state,) what terms and constraints observe beyond the states

    @cached_property
    def all_controls(self) -> Array:
        """The controls (n_past + horizon, n_controls), with those before the horizon."""
        return np.concatenate([self.past, self.controls])

    def observe(self, observation: Observation, i: int) -> Array:
        """Return the value y (m,) of an observation after i steps."""
        y = np.zeros(observation.size)
        for j, C in enumerate(observation.states):
            y += C @ (self.states[max(i - j, 0)] + self.offset)
        for j, D in enumerate(observation.controls):
            y += D @ self.all_controls[len(self.past) + i - 1 - j]
        return y

    def difference(self, stencil: Array) -> Array:
        """Return sum_j stencil_j u_{k-j} (horizon, n_controls)."""
        u, H, back = self.all_controls, len(self.controls), len(self.past)
        return sum(
            (c * u[back - j : back - j + H] for j, c in enumerate(stencil)),
            np.zeros(self.controls.shape),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HorizonProgram:
    """The parts of the quadratic program that every control step shares. Its variables are the
    changes of the controls (horizon, n_controls), one step after the other."""

    problem: Problem
    horizon: int

    @cached_property
    def n_past(self) -> int:
        """The number of controls before the horizon that the program depends on."""
        problem = self.problem
        stencils = [cost.stencil for cost in problem.control_costs]
        stencils += [bound.stencil for bound in problem.control_bounds]
        lags = [len(part.controls) for part in problem.observations]
        return max([1, *(len(stencil) - 1 for stencil in stencils), *lags])

    def solve(self, motion: PredictedMotion) -> Array:
        """Return the controls (horizon, n_controls) of one Gauss-Newton step from a motion.

        They satisfy the limits. Constraints are violated as little as possible if no controls
        satisfy them to first order. Raises InputError if the program is not finite.
        """
        P, c = self._control_cost_model(motion)
        G, low, high = self._limit_rows(motion)
        observed = self._observed(motion)
        jacobians = self._jacobians(motion, [(i, part) for i, part, _ in observed])
        A, lower, upper = [], [], []
        for (i, part, row), J in zip(observed, jacobians, strict=True):
            y = motion.observe(part, i)
            if row is None:
                F = part.loss.gauss_newton_factor(y) @ J
                P += F.T @ F
                c += J.T @ part.loss.gradient(y)
            else:
                value, ends = row_value(row, y), self._bounds[id(row)]
                A.append(row_jacobian(row, y) @ J)
                lower.append(ends[0] - value)
                upper.append(ends[1] - value)
        if A:
            rows = np.concatenate(A), np.concatenate(lower), np.concatenate(upper)
            P, c, G, low, high = self._with_constraints(motion, P, c, (G, low, high), rows)
        scale = max(float(np.abs(np.diag(P)).max()), 1e-300)
        n = motion.controls.size
        none = np.zeros((0, len(c)))
        change = solve_qp(P / scale, c / scale, none, np.zeros(0), G, low, high)[:n]
        return np.clip(motion.controls + change.reshape(motion.controls.shape), *self.limits)

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """The smallest and the largest controls (n_controls,)."""
        own = [bound for bound in self.problem.control_bounds if bound.order == 0]
        return (
            np.max([bound.lower for bound in own], axis=0),
            np.min([bound.upper for bound in own], axis=0),
        )

    def first_range(self, past: Array) -> tuple[Array, Array]:
        """Return the smallest and the largest next control (n_controls,) after the controls `past`
        (n_past, n_controls), by limits on the control and on its rate."""
        low, high = (side.copy() for side in self.limits)
        for bound in self.problem.control_bounds:
            c = bound.stencil
            known = sum((c[j] * past[-j] for j in range(1, len(c))), np.zeros(len(low)))
            low = np.maximum(low, (bound.lower - known) / c[0])
            high = np.minimum(high, (bound.upper - known) / c[0])
        return low, high

    # Terms and constraints

    @cached_property
    def _by_step(self) -> dict[int, list[tuple[Observation, ConstraintRow | None]]]:
        out: dict[int, list[tuple[Observation, ConstraintRow | None]]] = {}
        for part in self.problem.observations:
            out.setdefault(part.step, []).append((part, None))
        for row in self.problem.constraint_rows:
            out.setdefault(row.observation.step, []).append((row.observation, row))
        return out

    @cached_property
    def _bounds(self) -> dict[int, tuple[Array, Array]]:
        """The bounds of each constraint. Raises InputError for a set that is no Interval or
        Ball."""
        return {
            id(row): row_bounds(row, np.zeros(row.observation.size))
            for row in self.problem.constraint_rows
        }

    @cached_property
    def _is_linearizable(self) -> bool:
        return isinstance(self.problem.model, Linearizable)

    def _observed(
        self, motion: PredictedMotion
    ) -> list[tuple[int, Observation, ConstraintRow | None]]:
        """Return the terms and the constraints of the horizon, each with its step."""
        last = self.problem.steps
        return [
            (i, part, row)
            for i in range(1, self.horizon + 1)
            for part, row in self._by_step.get(min(motion.first + i, last), ())
        ]

    def _jacobians(
        self, motion: PredictedMotion, observed: Sequence[tuple[int, Observation]]
    ) -> list[Array]:
        """Return the derivatives (m, horizon n_controls) of observations by one adjoint sweep."""
        H, m = motion.controls.shape
        first = np.cumsum([0, *(part.size for _, part in observed)])
        R, bars = np.zeros((first[-1], H, m)), np.zeros((motion.states.shape[1], first[-1]))
        for k in range(H, 0, -1):
            for (i, part), row in zip(observed, first, strict=False):
                if 0 <= i - k < len(part.states):
                    bars[:, row : row + part.size] += self._dense_transpose(part.states[i - k])
                if 0 <= i - k < len(part.controls):
                    R[row : row + part.size, k - 1] += part.controls[i - k]
            active = np.flatnonzero(np.any(bars, axis=0))
            if active.size:
                bars[:, active], by_u = self._vjp(motion.steps[k - 1], bars[:, active])
                R[active, k - 1] += by_u.T
        return np.split(R.reshape(first[-1], H * m), first[1:-1])

    def _vjp(self, step: Step, bars: Array) -> tuple[Array, Array]:
        """Return the gradients (n_state, r) and (n_controls, r) before a step for `bars`
        (n_state, r) after it."""
        model: Any = self.problem.model
        if self._is_linearizable:
            return model.linearize(step).vjp(bars)[:2]
        by_x, by_u, _ = map_columns(lambda bar: model.pullback(step, bar), bars)
        return by_x, by_u

    def _dense_transpose(self, C: object) -> Array:
        """Return C^T (n_state, m), dense. The observations of a term share their matrices."""
        if id(C) not in self._dense:
            self._dense[id(C)] = C.T.toarray()  # type: ignore[attr-defined]  # a sparse matrix
        return self._dense[id(C)]

    @cached_property
    def _dense(self) -> dict[int, Array]:
        return {}

    def _with_constraints(
        self,
        motion: PredictedMotion,
        P: Array,
        c: Array,
        limits: tuple[Array, Array, Array],
        rows: tuple[Array, Array, Array],
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return (P, c, G, low, high) with one more variable s >= 0, the largest violation of the
        constraint rows (A, lower, upper)."""
        (G, low, high), (A, lower, upper) = limits, rows
        width = self.limits[1] - self.limits[0]
        widest = max(
            float(width[np.isfinite(width)].max(initial=0.0)), float(np.abs(motion.controls).max())
        )
        gradient = float(np.abs(c).max()) + float(np.diag(P).max()) * widest
        cost = VIOLATION_COST * gradient / (float(np.abs(A).max()) or 1.0)
        below, above = np.isfinite(lower), np.isfinite(upper)
        n, n_below, n_above = len(c), int(below.sum()), int(above.sum())
        slack = np.concatenate([np.ones(n_below), -np.ones(n_above), [1.0]])
        G = np.vstack([G, A[below], A[above], np.zeros((1, n))])
        G = np.column_stack([G, np.concatenate([np.zeros(len(low)), slack])])
        low = np.concatenate([low, lower[below], np.full(n_above, -np.inf), [0.0]])
        high = np.concatenate([high, np.full(n_below, np.inf), upper[above], [np.inf]])
        return scipy.linalg.block_diag(P, cost), np.append(c, cost), G, low, high

    # Controls

    def _control_cost_model(self, motion: PredictedMotion) -> tuple[Array, Array]:
        """Return the Hessian and the gradient of the terms of the controls alone."""
        at = np.minimum(motion.first + np.arange(self.horizon), self.problem.steps - 1)
        gradient = np.zeros(motion.controls.shape)
        for cost in self.problem.control_costs:
            r = motion.difference(cost.stencil) - cost.reference[at]
            gradient += stencil_vjp(cost.stencil, cost.weight * r)
        return self._control_cost_hessian.copy(), gradient.ravel()

    @cached_property
    def _control_cost_hessian(self) -> Array:
        n = self.horizon * self.problem.model.n_controls
        out = np.zeros((n, n))
        for cost in self.problem.control_costs:
            T = self._stencil_matrix(cost.stencil)
            out += np.kron(T.T @ T, np.diag(cost.weight))
        return out

    def _stencil_matrix(self, stencil: Array) -> Array:
        """Return the matrix (horizon, horizon) of a stencil over the controls of the horizon."""
        H = self.horizon
        return sum((c * np.eye(H, k=-j) for j, c in enumerate(stencil)), np.zeros((H, H)))

    @cached_property
    def _limit_matrices(self) -> list[tuple[Array, Array]]:
        """The matrix of each limit over the changes, without rows for controls that it does not
        bound, and the indices of those rows."""
        out = []
        for bound in self.problem.control_bounds:
            bounded = np.isfinite(bound.lower) | np.isfinite(bound.upper)
            kept = np.flatnonzero(np.tile(bounded, self.horizon))
            whole = np.kron(self._stencil_matrix(bound.stencil), np.eye(len(bounded)))
            out.append((whole[kept], kept))
        return out

    def _limit_rows(self, motion: PredictedMotion) -> tuple[Array, Array, Array]:
        """Return (G, low, high) of all limits: low <= G changes <= high."""
        low, high = [], []
        for bound, (_, kept) in zip(self.problem.control_bounds, self._limit_matrices, strict=True):
            now = motion.difference(bound.stencil)
            low.append((bound.lower - now).ravel()[kept])
            high.append((bound.upper - now).ravel()[kept])
        G = np.concatenate([matrix for matrix, _ in self._limit_matrices])
        return G, np.concatenate(low), np.concatenate(high)
