"""The derivative of the residual of a semi-implicit step by its initial state."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.bodies import Dissipation, complex_step_jacobian
from pliant.bodies.body import StepForceBody
from pliant.core import Array, map_columns
from pliant.dynamics.cell_sums import CellSums
from pliant.dynamics.equations import Equations, ModelCoefficients
from pliant.dynamics.liquid_steps import LiquidImpulseDerivative

MAX_MATRIX_FREE_COLUMNS = 4  # for more columns a sparse matrix of the body is faster


@dataclass(frozen=True, kw_only=True, eq=False)
class StateJacobian:
    """The derivative of g = A(q, v) w - M v + h dW/dq(q, u) by q and v at fixed w of the free
    unknowns. For held unknowns w = (support - q) / h changes with q, so q + h w and with it the
    contribution of h K are constant. Columns are (n_dofs, k)."""

    equations: Equations
    sums: CellSums
    dt: float  # [s]
    coefficients: ModelCoefficients
    q: Array  # (n_dofs,) [m] old positions
    v: Array  # (n_dofs,) [m/s] old velocities
    u: Array
    w: Array  # (n_dofs,) [m/s] new velocities
    liquids: Sequence[LiquidImpulseDerivative]

    def jvp(self, dq: Array, dv: Array) -> Array:
        """Return the change (n_dofs, k) [kg m/s] of the residual."""
        eq, h, held = self.equations, self.dt, self._held(dq)
        slower = dv + self._inertia * held
        out = (
            self._body_product(dq)
            + h * eq.potential_stiffness_times(self.q, self.u, dq)
            - eq.mass_times(self.coefficients, slower)
        )
        for liquid in self.liquids:
            out += liquid.jvp(dq, dv) - liquid.impulse.mass_times(slower)
        out += (
            h * h * eq.potential_stiffness_derivative(self.q, self.u, self.w, dq, stiff_only=True)
        )
        if held.any():
            out -= h * eq.potential_stiffness_times(self.q, self.u, held, stiff_only=True)
        for dissipation, by_q, by_v, D in self._dissipations:
            forces = h * (
                by_q @ self._points(dissipation, dq) + by_v @ self._points(dissipation, dv)
            ) - D @ self._points(dissipation, held)
            out += self._scatter(dissipation, forces)
        return out

    def vjp(self, y: Array) -> tuple[Array, Array]:
        """Return the transpose of `jvp`: the gradients (n_dofs, k) by q and by v."""
        eq, h = self.equations, self.dt
        dq = self._body_product(y, transpose=True) + h * eq.potential_stiffness_times(
            self.q, self.u, y
        )
        dq += h * h * eq.potential_stiffness_derivative(self.q, self.u, self.w, y, stiff_only=True)
        dv = -eq.mass_times(self.coefficients, y)
        for liquid in self.liquids:
            dv -= liquid.impulse.mass_times(y)
        held = -self._inertia * dv[eq.held]
        if eq.potentials_use_held_nodes:
            held += (h * eq.potential_stiffness_times(self.q, self.u, y, stiff_only=True))[eq.held]
        for liquid in self.liquids:
            by_q, by_v = liquid.vjp(y)
            dq, dv = dq + by_q, dv + by_v
        for dissipation, by_q, by_v, D in self._dissipations:
            at = self._points(dissipation, y)
            dq += h * self._scatter(dissipation, np.swapaxes(by_q, 1, 2) @ at)
            dv += h * self._scatter(dissipation, np.swapaxes(by_v, 1, 2) @ at)
            held += self._scatter(dissipation, D @ at)[eq.held]  # D is symmetric
        dq[eq.held] -= held
        return dq, dv

    @property
    def _body(self) -> Any:
        """The body, with the members that `SemiImplicit` has checked."""
        return self.equations.body

    def _held(self, columns: Array) -> Array:
        """Return the columns with zeros for the free unknowns."""
        out, held = np.zeros_like(columns), self.equations.held
        out[held] = columns[held]
        return out

    @property
    def _inertia(self) -> float:
        """The coefficient [1/s] of M in A / h."""
        return 1.0 / self.dt + self.equations.robot.damping.mass

    # The body

    def _body_product(self, columns: Array, *, transpose: bool = False) -> Array:
        """Return the body's Jacobian, or its transpose, times each column (n_dofs, k)."""
        if columns.shape[1] > MAX_MATRIX_FREE_COLUMNS:
            return (self._matrix.T if transpose else self._matrix) @ columns
        product = self._body_vjp if transpose else self._body_jvp
        return map_columns(lambda column: (product(column),), columns)[0]

    @cached_property
    def _viscous_moduli(self) -> Array | None:
        """The viscous moduli; None without viscosity."""
        time = self.equations.robot.damping.stiffness
        return (
            self._body.viscosity_of_step(self.coefficients.fields, time, [1.0], []).moduli
            if time > 0.0
            else None
        )

    def _body_jvp(self, dq: Array) -> Array:
        body, fields, h, m = self._body, self.coefficients.fields, self.dt, self._viscous_moduli
        held = np.where(self.equations.held, dq, 0.0)
        out = h * body.stiffness_times(
            self.q, fields, dq - held
        ) + h * h * body.stiffness_derivative(self.q, fields, dq, self.w)
        if m is not None:
            out += h * body.viscous_derivative_jvp(self.q, self.w, dq, m)
            out -= body.viscous_jvp(self.q, self.q, held, m) if held.any() else 0.0
        return out

    def _body_vjp(self, y: Array) -> Array:
        body, fields, h, m = self._body, self.coefficients.fields, self.dt, self._viscous_moduli
        out = h * h * body.stiffness_derivative(self.q, fields, y, self.w)
        viscous = np.zeros_like(y)
        if m is not None:
            out += h * body.viscous_derivative_vjp(self.q, self.w, y, m)
            viscous = body.viscous_jvp(self.q, self.q, y, m)
        return out + np.where(
            self.equations.held, -viscous, h * body.stiffness_times(self.q, fields, y)
        )

    @cached_property
    def _matrix(self) -> sp.csr_matrix:
        """The body's Jacobian (n_dofs, n_dofs) for many columns: h K of the free and -D of the held
        unknowns, h^2 dK/dq w + h dD/dq w of all."""
        if isinstance(self._body, StepForceBody):
            fields, held = self.coefficients.fields, self.equations.held
            return self.sums.matrix_of_entries(
                self._body.step_force_derivative(
                    self.q, self.w, fields, self._viscous_moduli, held, self.dt
                )
            )
        return self.sums.matrix(self._cell_blocks())

    def _cell_blocks(self) -> Array:
        """Return the contributions (n_cells, k dim, k dim) of the cells to `_matrix`."""
        h, m, body = self.dt, self._viscous_moduli, self._body
        held = self.equations.held[self.sums.dofs]
        near = np.flatnonzero(held.any(axis=1))  # the cells with held nodes
        columns = held[near][:, None, :]
        K, T = body.cell_stiffness_and_derivative(self.q, self.coefficients.fields, self.w)
        blocks = h * K
        blocks[near] = np.where(columns, 0.0, blocks[near])
        blocks += h * h * T
        if m is not None:
            blocks += h * body.cell_viscous_derivatives(self.q, self.w, m)
            D = body.cell_viscous_matrices(self.q, self.q, m)
            blocks[near] -= np.where(columns, D[near], 0.0)
        return blocks

    # Friction

    def _points(self, dissipation: Dissipation, columns: Array) -> Array:
        """Return the columns at the points of a dissipation (n_points, dim, k)."""
        at = dissipation.weights @ columns.reshape(self.sums.n_nodes, -1)
        return at.reshape(len(at), self.sums.dim, -1)

    def _scatter(self, dissipation: Dissipation, forces: Array) -> Array:
        """Return forces (n_points, dim, k) at the points as forces (n_dofs, k) on the nodes."""
        return (dissipation.weights.T @ forces.reshape(len(forces), -1)).reshape(
            -1, forces.shape[2]
        )

    @cached_property
    def _dissipations(self) -> list[tuple[Dissipation, Array, Array, Array]]:
        """Each dissipation with the derivatives (n_points, dim, dim) of its force by old positions,
        old and new velocities."""
        return [
            (dissipation, *self._dissipation_derivatives(dissipation))
            for dissipation in self.equations.dissipations
        ]

    def _dissipation_derivatives(self, dissipation: Dissipation) -> tuple[Array, Array, Array]:
        y, s, new = (self._points(dissipation, part)[..., 0] for part in (self.q, self.v, self.w))
        force = lambda at, speed: np.einsum("nij,nj->ni", dissipation.viscosity(at, speed), new)
        return (
            complex_step_jacobian(lambda at: force(at, s), y),
            complex_step_jacobian(lambda speed: force(y, speed), s),
            dissipation.viscosity(y, s),
        )
