"""The nonlinear program of direct collocation: variables, objective and constraints, with sparse
derivatives.

Each part of a state is a linear function of the last positions. So only positions and controls are
variables, and the observations of all terms are affine in them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, InputError
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.dynamics.residual import ImplicitResidual, SparsityPattern, unique_pattern
from pliant.problem import (
    Ball,
    ConstraintRow,
    Interval,
    LinearLoss,
    Observation,
    Problem,
    QuadraticLoss,
    apply_stencil,
)
from pliant.problem.observations import jacobian


@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearProgram:
    """A problem as a nonlinear program over a flat vector w.

    w has the free positions of steps 1 to N, then the controls of steps 0 to N - 1.
    """

    problem: Problem
    second_order: bool = False  # add the curvature of the dynamics to the Hessian

    @property
    def model(self) -> ImplicitModel:
        return self.problem.model  # type: ignore[return-value]

    @cached_property
    def residual(self) -> ImplicitResidual:
        params = None if self.problem.params is None else np.asarray(self.problem.params, float)
        return ImplicitResidual(model=self.model.at(params), params=params)

    @property
    def n_dofs(self) -> int:
        return self.model.space.n_dofs

    @property
    def n_positions(self) -> int:
        return self.problem.steps * self.residual.n_free

    @property
    def size(self) -> int:
        return self.n_positions + self.problem.n_variables

    @cached_property
    def _support_positions(self) -> Array:
        """Rest positions (steps, n_dofs) with the supports at their positions of each step."""
        eq = self.model.equations
        return np.array(
            [
                eq.place_supports(eq.body.rest, (k + 1) * self.model.dt)
                for k in range(self.problem.steps)
            ]
        )

    @cached_property
    def position_weights(self) -> tuple[Array, ...]:
        """Weights (n_parts,) of q_k, q_{k-1}, ... in the parts of x_k.

        They follow from part_i' = F_i0 q' + sum_j F_ij part_j.
        """
        table = np.array(self.model.rule.new_state)
        out = [table[:, 0]]
        while np.any(table[:, 1:] @ out[-1]):  # ends because the tables are nilpotent
            out.append(table[:, 1:] @ out[-1])
        return tuple(out)

    def pack(self, positions: Array, controls: Array) -> Array:
        """Return w for positions (steps, n_dofs) and controls (steps, n_controls)."""
        return np.concatenate([positions[:, self.model.equations.free].ravel(), controls.ravel()])

    def unpack(self, w: Array) -> tuple[Array, Array, Array]:
        """Return states (steps + 1, n_state), positions (steps, n_dofs) and controls."""
        N, table = self.problem.steps, np.array(self.model.rule.new_state)
        positions = self._support_positions.copy()
        positions[:, self.model.equations.free] = w[: self.n_positions].reshape(N, -1)
        states = [self.problem.initial_state.reshape(len(self.model.rule.parts), -1)]
        for q in positions:
            states.append(table @ np.concatenate([q[None], states[-1]]))
        return np.array(states).reshape(N + 1, -1), positions, self._controls(w)

    def _controls(self, w: Array) -> Array:
        return w[self.n_positions :].reshape(self.problem.steps, -1)

    # Objective

    def _observation_rows(self, observation: Observation) -> sp.csr_matrix:
        """Return the derivative (m, size) of an observation by w."""
        n, nf, m = self.n_dofs, self.residual.n_free, self.model.n_controls
        pieces = []  # (first column, matrix)
        for lag, C in enumerate(observation.states):
            for back, weights in enumerate(self.position_weights):
                k = max(observation.step - lag, 0) - back
                if k >= 1:
                    C_k = sum(
                        c * C[:, j * n : (j + 1) * n] for j, c in enumerate(weights) if c != 0.0
                    )
                    pieces.append(((k - 1) * nf, sp.coo_matrix(C_k[:, self.model.equations.free])))
        for lag, D in enumerate(observation.controls):
            if observation.step > lag:
                pieces.append(
                    (self.n_positions + (observation.step - 1 - lag) * m, sp.coo_matrix(D))
                )
        rows, cols, data = (
            np.concatenate([np.zeros(0), *part])
            for part in (
                [P.row for _, P in pieces],
                [first + P.col for first, P in pieces],
                [P.data for _, P in pieces],
            )
        )
        return sp.csr_matrix(
            (data, (rows.astype(int), cols.astype(int))), shape=(observation.size, self.size)
        )

    def _affine_map(
        self, observations: tuple[Observation, ...]
    ) -> tuple[sp.csr_matrix, Array, list[slice]]:
        """Return (R, y0, rows of each observation): all observations are R w + y0."""
        states, _, controls = self.unpack(np.zeros(self.size))
        ends = np.cumsum([0, *(observation.size for observation in observations)])
        y0 = np.concatenate(
            [
                np.zeros(0),
                *(
                    observation.evaluate(states, controls, self.problem.previous_control)
                    for observation in observations
                ),
            ]
        )
        R = sp.vstack(
            [
                sp.csr_matrix((0, self.size)),
                *(self._observation_rows(observation) for observation in observations),
            ],
            format="csr",
        )
        return R, y0, [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def _observation_map(self) -> tuple[sp.csr_matrix, Array, list[slice]]:
        return self._affine_map(self.problem.observations)

    def _observation_values(self, w: Array) -> list[tuple[Observation, Array]]:
        """Return each observation with its value at w."""
        R, y0, rows = self._observation_map
        y = R @ w + y0
        return [
            (observation, y[part])
            for observation, part in zip(self.problem.observations, rows, strict=True)
        ]

    def value(self, w: Array) -> float:
        """Return the objective of the problem at w."""
        observations = sum(
            observation.loss.value(y) for observation, y in self._observation_values(w)
        )
        return float(
            observations
            + sum(
                control_cost.value(self._controls(w), self.problem.previous_control)
                for control_cost in self.problem.control_costs
            )
        )

    def gradient(self, w: Array) -> Array:
        """Return the gradient (size,) of the objective."""
        out = self._observation_map[0].T @ np.concatenate(
            [
                np.zeros(0),
                *(observation.loss.gradient(y) for observation, y in self._observation_values(w)),
            ]
        )
        for control_cost in self.problem.control_costs:
            out[self.n_positions :] += control_cost.gradient(
                self._controls(w), self.problem.previous_control
            ).ravel()
        return out

    def cost_scale(self, w: Array) -> float:
        """Return a typical cost: its value at w, or its change for a motion of 0.1 body sizes."""
        slope = float(np.abs(self.gradient(w)[: self.n_positions]).max(initial=0.0))
        extent = float(np.ptp(self.model.equations.body.rest))
        return max(abs(self.value(w)), 0.1 * extent * slope) or 1.0

    @cached_property
    def _control_cost_hessian(self) -> sp.csr_matrix:
        H = sp.csr_matrix((self.problem.n_variables,) * 2)
        for control_cost in self.problem.control_costs:
            D = _differences(control_cost.stencil, self.problem.steps)
            H = H + sp.kron(D.T @ D, sp.diags(control_cost.weight))
        return sp.block_diag([sp.csr_matrix((self.n_positions,) * 2), H], format="csr")

    def _hessian(
        self, R: sp.csr_matrix, control_cost: sp.csr_matrix, factors: list[Array]
    ) -> tuple[Array, Array, Array]:
        """Return rows, columns and values of the upper triangle of R^T F^T F R + control_cost.

        `factors` are the factors F (r, m) of all observations and constraints.
        """
        FR = sp.block_diag([sp.csr_matrix((0, 0)), *factors], format="csr") @ R
        H = sp.triu(FR.T @ FR + control_cost).tocoo()
        return H.row.astype(np.int64), H.col.astype(np.int64), H.data

    @cached_property
    def _all_rows(self) -> sp.csr_matrix:
        return sp.vstack([self._observation_map[0], self._constraint_map[0]], format="csr")

    @cached_property
    def hessian_entries(self) -> SparsityPattern:
        """Sparsity pattern of the upper triangle of the Hessian, sorted by columns."""
        cost, dynamics_part = self._cost_entries, self._dynamics_hessian_pattern
        found = unique_pattern(
            np.concatenate([cost.rows, *(rows for rows, _ in dynamics_part)]),
            np.concatenate([cost.cols, *(cols for _, cols in dynamics_part)]),
            self.size,
        )
        order = np.lexsort((found.rows, found.cols))
        return SparsityPattern(rows=found.rows[order], cols=found.cols[order])

    @cached_property
    def _cost_entries(self) -> SparsityPattern:
        """Sparsity pattern of the objective and the constraint sets."""
        factors = [_factor_pattern(observation) for observation in self.problem.observations]
        factors += [
            np.ones((int(c.smooth_set.is_curved), c.constraint_row.observation.size))
            for c in self._set_constraints
        ]
        rows, cols, _ = self._hessian(
            abs(self._all_rows), abs(self._control_cost_hessian), factors
        )  # absolute values, so that no entries cancel
        return SparsityPattern(rows=rows, cols=cols)

    @cached_property
    def _dynamics_hessian_pattern(self) -> list[tuple[Array, Array]]:
        """Entries (position, position), (position, control) and (control, control) of each step."""
        if not self.second_order:
            return []
        res, nf, m, out = self.residual, self.residual.n_free, self.model.n_controls, []
        for k in range(self.problem.steps):
            q, u = k * nf, self.n_positions + k * m
            i, j = np.triu_indices(m)
            out += [
                (res.new_pattern.rows[self._upper] + q, res.new_pattern.cols[self._upper] + q),
                (res.control_pattern.rows + q, res.control_pattern.cols + u),
                (i + u, j + u),
            ]
        return out

    @cached_property
    def _upper(self) -> Array:
        return self.residual.new_pattern.rows <= self.residual.new_pattern.cols

    @cached_property
    def _hessian_layout(self) -> tuple[Array, Array]:
        """Indices in `hessian_entries` of the objective's and of the dynamics' entries."""
        find = self.hessian_entries.find
        dynamics_part = [find(*entry) for entry in self._dynamics_hessian_pattern]
        return find(self._cost_entries.rows, self._cost_entries.cols), np.concatenate(
            [np.zeros(0, int), *dynamics_part]
        )

    def hessian(self, w: Array, cost_weight: float, multipliers: Array, scale: float) -> Array:
        """Return the Hessian of the Lagrangian (nnz,) in the order of `hessian_entries`.

        It has cost_weight times the Gauss-Newton Hessian of the objective and the curvature of the
        sets. With `second_order` it also has that of the dynamics, which are scaled by `scale` [N].
        """
        cost, dynamics_part = self._hessian_layout
        plain = self._constant_hessian
        out = np.zeros(len(self.hessian_entries.rows))
        out[cost] = (
            self._cost_values(w, cost_weight, multipliers) if plain is None else cost_weight * plain
        )
        if self.second_order:
            out += np.bincount(
                dynamics_part,
                self._dynamics_hessian_values(w, multipliers[: self.n_positions] / scale),
                len(out),
            )
        return out

    def _dynamics_hessian_values(self, w: Array, forces: Array) -> Array:
        """Return values for `_dynamics_hessian_pattern`, given multipliers of the forces."""
        states, positions, controls = self.unpack(w)
        out, upper = [], np.triu_indices(self.model.n_controls)
        for q, x, u, y in zip(
            positions, states[:-1], controls, forces.reshape(len(positions), -1), strict=True
        ):
            new, mixed, double = self.residual.curvature(q, x, u, y)
            out += [new[self._upper], mixed, double[upper]]
        return np.concatenate(out)

    @cached_property
    def _constant_hessian(self) -> Array | None:
        plain = all(
            isinstance(observation.loss, QuadraticLoss | LinearLoss)
            for observation in self.problem.observations
        )
        plain = plain and not any(c.smooth_set.is_curved for c in self._set_constraints)
        return (
            self._cost_values(np.zeros(self.size), 1.0, np.zeros(len(self.constraint_bounds[0])))
            if plain
            else None
        )

    def _cost_values(self, w: Array, cost_weight: float, multipliers: Array) -> Array:
        factors = [
            np.sqrt(cost_weight) * observation.loss.gauss_newton_factor(y)
            for observation, y in self._observation_values(w)
        ]
        for item, y in self._constraint_values(w):
            factor = item.smooth_set.factor
            factors.append(
                np.zeros((0, len(y)))
                if factor is None
                else factor(multipliers[item.rows]) @ jacobian(item.constraint_row.function, y)
            )
        rows, cols, values = self._hessian(
            self._all_rows, cost_weight * self._control_cost_hessian, factors
        )
        out = np.zeros(len(self._cost_entries.rows))
        out[self._cost_entries.find(rows, cols)] = values
        return out

    # Constraints

    @cached_property
    def control_range(self) -> tuple[Array, Array]:
        """Lower and upper bounds (n_controls,) of the controls by all limits of order 0."""
        plain = [bound for bound in self.problem.control_bounds if bound.order == 0]
        low, high = (
            np.max([bound.lower for bound in plain], axis=0),
            np.min([bound.upper for bound in plain], axis=0),
        )
        bad = np.flatnonzero(low > high)
        if bad.size:
            raise InputError(
                f"The limits of control {bad[0]} contradict each other: at least {low[bad[0]]:g} "
                f"and at most {high[bad[0]]:g}; widen one of them."
            )
        return low, high

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds (size,) of w; positions are unbounded."""
        low, high = (np.tile(side, self.problem.steps) for side in self.control_range)
        return np.concatenate([np.full(self.n_positions, -np.inf), low]), np.concatenate(
            [np.full(self.n_positions, np.inf), high]
        )

    def forces(self, w: Array) -> tuple[Array, float]:
        """Return the residual forces (steps, n_free) [N] and the largest force in the model [N]."""
        states, positions, controls = self.unpack(w)
        found = [
            self.residual.force(q, x, u, k)
            for k, (q, x, u) in enumerate(zip(positions, states[:-1], controls, strict=True))
        ]
        return np.array([g for g, _ in found]), max(scale for _, scale in found)

    def force_scale(self, w: Array) -> float:
        """Return a typical force [N]: the largest in w, or that of a strain of one thousandth."""
        states, positions, controls = self.unpack(w)
        stiffness = float(
            np.abs(self.residual.blocks(positions[0], states[0], controls[0])[0]).max()
        )
        scale = max(self.forces(w)[1], 1e-3 * stiffness * self.model.equations.body.cell_size())
        return scale if np.isfinite(scale) else 1.0

    @cached_property
    def _rate_limit_rows(self) -> tuple[sp.coo_matrix, Array, Array]:
        """Return (G, low, high) of the rate limits low <= G controls <= high.

        They include limits on accelerations and are scaled to units of the control.
        """
        N, first, m = self.problem.steps, self.problem.previous_control, self.model.n_controls
        G, low, high = [sp.csr_matrix((0, N * m))], [np.zeros(0)], [np.zeros(0)]
        for bound in (bound for bound in self.problem.control_bounds if bound.order > 0):
            unit = 1.0 / bound.stencil[0]
            before = apply_stencil(bound.stencil, np.zeros((N, m)), first)
            held = np.flatnonzero(np.tile(np.isfinite(bound.lower) | np.isfinite(bound.upper), N))
            G.append(
                sp.kron(_differences(unit * bound.stencil, N), sp.identity(m), format="csr")[held]
            )
            low.append(unit * (bound.lower - before).ravel()[held])
            high.append(unit * (bound.upper - before).ravel()[held])
        return sp.vstack(G, format="coo"), np.concatenate(low), np.concatenate(high)

    @cached_property
    def _constraint_map(self) -> tuple[sp.csr_matrix, Array, list[slice]]:
        return self._affine_map(
            tuple(constraint_row.observation for constraint_row in self.problem.constraint_rows)
        )

    @cached_property
    def _set_constraints(self) -> list["SetConstraint"]:
        R, _, parts = self._constraint_map
        out, first = [], self.n_positions + self._rate_limit_rows[0].shape[0]
        for constraint_row, part in zip(self.problem.constraint_rows, parts, strict=True):
            smooth_set = _smooth_set(
                constraint_row, constraint_row.function(np.zeros(constraint_row.observation.size))
            )
            rows = slice(first, first + len(smooth_set.low))
            columns = np.unique(R[part].indices)
            out.append(
                SetConstraint(
                    constraint_row=constraint_row,
                    smooth_set=smooth_set,
                    rows=rows,
                    columns=columns,
                    matrix=R[part][:, columns].toarray(),
                )
            )
            first = rows.stop
        return out

    def _constraint_values(self, w: Array) -> list[tuple["SetConstraint", Array]]:
        """Return each set constraint with the value of its observation at w."""
        R, y0, parts = self._constraint_map
        y = R @ w + y0
        return [(item, y[part]) for item, part in zip(self._set_constraints, parts, strict=True)]

    @property
    def constraint_bounds(self) -> tuple[Array, Array]:
        still, (_, low, high) = np.zeros(self.n_positions), self._rate_limit_rows
        return (
            np.concatenate([still, low, *(c.smooth_set.low for c in self._set_constraints)]),
            np.concatenate([still, high, *(c.smooth_set.high for c in self._set_constraints)]),
        )

    def constraints(self, w: Array, scale: float) -> Array:
        """Return the constraint vector: residual forces / scale, rate limits, effector constraints.

        `scale` is a force [N].
        """
        seen = [
            item.smooth_set.value(item.constraint_row.function(y))
            for item, y in self._constraint_values(w)
        ]
        return np.concatenate(
            [
                self.forces(w)[0].ravel() / scale,
                self._rate_limit_rows[0] @ w[self.n_positions :],
                *seen,
            ]
        )

    def _variable_lags(self, k: int) -> list[int]:
        """Return the lags of the positions before x_k that step k depends on."""
        used = np.array(self.residual.used)
        return [
            back
            for back, weights in enumerate(self.position_weights)
            if k - back >= 1 and np.any(weights[used])
        ]

    @cached_property
    def _dynamics_entries(self) -> SparsityPattern:
        """Entries of each step's residual by q_{k+1}, by q_k, q_{k-1}, ... and by u_k."""
        res, nf, m = self.residual, self.residual.n_free, self.model.n_controls
        rows, cols = [], []
        for k in range(self.problem.steps):
            blocks = [
                (res.new_pattern, k * nf),
                *((res.old_pattern, (k - 1 - back) * nf) for back in self._variable_lags(k)),
                (res.control_pattern, self.n_positions + k * m),
            ]
            rows += [where.rows + k * nf for where, _ in blocks]
            cols += [where.cols + first for where, first in blocks]
        return SparsityPattern(rows=np.concatenate(rows), cols=np.concatenate(cols))

    def _dynamics_values(self, w: Array) -> Array:
        states, positions, controls = self.unpack(w)
        out = []
        for k, (q, x, u) in enumerate(zip(positions, states[:-1], controls, strict=True)):
            new, old, control = self.residual.blocks(q, x, u)
            out += [
                new,
                *(self.position_weights[back] @ old for back in self._variable_lags(k)),
                control,
            ]
        return np.concatenate(out)

    @cached_property
    def _jacobian_layout(self) -> tuple[SparsityPattern, Array]:
        """Return the entries sorted by columns, and the permutation that sorts them."""
        G = self._rate_limit_rows[0]
        i, j = (
            [self._dynamics_entries.rows, G.row + self.n_positions],
            [self._dynamics_entries.cols, G.col + self.n_positions],
        )
        for item in self._set_constraints:
            i.append(np.repeat(np.arange(item.rows.start, item.rows.stop), len(item.columns)))
            j.append(np.tile(item.columns, len(item.smooth_set.low)))
        rows, cols = np.concatenate(i).astype(np.int64), np.concatenate(j).astype(np.int64)
        order = np.lexsort((rows, cols))
        return SparsityPattern(rows=rows[order], cols=cols[order]), order

    @property
    def jacobian_entries(self) -> SparsityPattern:
        return self._jacobian_layout[0]

    def jacobian(self, w: Array, scale: float) -> Array:
        """Return the Jacobian (nnz,) of `constraints` in the order of `jacobian_entries`."""
        seen = []
        for item, y in self._constraint_values(w):
            J = item.smooth_set.jacobian(item.constraint_row.function(y)) @ jacobian(
                item.constraint_row.function, y
            )
            seen.append((J @ item.matrix).ravel())
        return np.concatenate(
            [self._dynamics_values(w) / scale, self._rate_limit_rows[0].data, *seen]
        )[self._jacobian_layout[1]]


def _factor_pattern(observation: Observation) -> Array:
    """Return the sparsity (r, m) of the Gauss-Newton factor of an observation."""
    if isinstance(observation.loss, QuadraticLoss):
        return np.eye(observation.size)
    return (
        np.zeros((0, observation.size))
        if isinstance(observation.loss, LinearLoss)
        else np.ones((1, observation.size))
    )


def _differences(stencil: Array, steps: int) -> sp.csr_matrix:
    """Return the matrix (steps, steps) of sum_j stencil_j u_{k-j}."""
    width = min(len(stencil), steps)
    return sp.diags(
        [np.full(steps - j, stencil[j]) for j in range(width)],
        [-j for j in range(width)],
        shape=(steps, steps),
        format="csr",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothSet:
    """A convex set as smooth inequalities low <= value(c) <= high."""

    value: Callable[[Array], Array]
    jacobian: Callable[[Array], Array]  # (r, m)
    low: Array  # (r,)
    high: Array  # (r,)
    # multipliers (r,) -> F (k, m), where F^T F is their curvature in the Lagrangian
    factor: Callable[[Array], Array] | None = None

    @property
    def is_curved(self) -> bool:
        return self.factor is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class SetConstraint:
    """A ConstraintRow and its place in the nonlinear program."""

    constraint_row: ConstraintRow
    smooth_set: SmoothSet
    rows: slice  # of the constraint vector
    columns: Array  # (k,) variables of w that it depends on
    matrix: Array  # (m, k) derivative of the observation by these variables


def _smooth_set(constraint_row: ConstraintRow, c: Array) -> SmoothSet:
    """Return the set of a constraint. Raises InputError for other sets than Interval and Ball."""
    region = constraint_row.inside
    if isinstance(region, Interval):
        low, high = (
            np.array(np.broadcast_to(np.asarray(side, float), c.shape))
            for side in (region.lower, region.upper)
        )
        return SmoothSet(value=lambda c: c, jacobian=lambda c: np.eye(len(c)), low=low, high=high)
    if isinstance(region, Ball) and region.radius > 0.0:
        # (|c - centre|^2 - r^2) / 2r is smooth, and equals the distance near the sphere
        centre, r = np.asarray(region.centre, float), region.radius
        return SmoothSet(
            value=lambda c: np.array([((c - centre) @ (c - centre) - r * r) / (2.0 * r)]),
            jacobian=lambda c: (c - centre)[None] / r,
            low=np.array([-np.inf]),
            high=np.zeros(1),
            factor=lambda force: np.sqrt(max(force[0], 0.0) / r) * np.eye(len(centre)),
        )
    raise InputError(
        "Collocation supports the sets Interval and Ball with a positive radius, not "
        f"{type(region).__name__}; write the set as a function with an Interval."
    )
