"""Derivatives of a solid's forces, masses and areas by its rest shape.

The rest positions X change by dX at a fixed topology, and the unknowns q by dq. With the gradient
G = grad dX in the rest shape, the shape functions and volumes change by d(grad N) = -(grad N) G and
dV = tr(G) V, and the deformation gradient by dF = grad dq - F G. All formulas are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit, prange

from pliant.bodies.assembly import (
    COMPLEX_STEP,
    add_nodal_forces,
    cell_moduli,
    deformation_gradient,
    field_gradient,
    rotation_if_needed,
)
from pliant.bodies.body import MaterialFields
from pliant.bodies.elements import facet_node_weights, unit_mass
from pliant.bodies.solid import Solid
from pliant.core import Array
from pliant.kernels import add, mm, mmt, rotation_differential, scale, sub, trace
from pliant.kernels.threads import run_kernel
from pliant.materials import laws


@njit(error_model="numpy", cache=True, parallel=True)
def cell_force_changes(cells: Any, moduli: Any, q: Any, dX: Any, dq: Any, dim: Any) -> Any:
    """Return the change (n_cells, n_nodes, dim) of the elastic nodal forces P grad N_a."""
    n, points = cells.weights.shape
    out = np.zeros((n, cells.nodes.shape[1], dim))
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            law, power, m = cells.law[c], cells.power[c], cell_moduli(moduli, c)
            F, G = (
                deformation_gradient(q, nodes, grads, dim),
                field_gradient(dX, nodes, grads, dim),
            )
            R = rotation_if_needed(law, F, dim)
            dF = sub(field_gradient(dq, nodes, grads, dim), mm(F, G))
            P = laws.stress(law, F, R, m, power)
            change = sub(
                add(laws.differential(law, F, R, dF, m, power), scale(trace(G), P)), mmt(P, G)
            )
            add_nodal_forces(out[c], cells.weights[c, g], change, grads, dim)
    return out


@njit(error_model="numpy", cache=True, parallel=True)
def cell_product_changes(cells: Any, moduli: Any, q: Any, w: Any, dX: Any, dim: Any) -> Any:
    """Return the change (n_cells, n_nodes, dim) of the elastic stiffness times w at fixed q and w.

    The second derivative of the stress is the complex-step derivative of its differential.
    """
    n, points = cells.weights.shape
    out, step = np.zeros((n, cells.nodes.shape[1], dim)), complex(0.0, COMPLEX_STEP)
    for c in prange(n):
        for g in range(points):
            nodes, grads = cells.nodes[c], cells.grads[c, g]
            law, power, m = cells.law[c], cells.power[c], cell_moduli(moduli, c)
            F, G = (
                deformation_gradient(q, nodes, grads, dim),
                field_gradient(dX, nodes, grads, dim),
            )
            W = field_gradient(w, nodes, grads, dim)
            R = rotation_if_needed(law, F, dim)
            dF, dW = scale(-1.0, mm(F, G)), scale(-1.0, mm(W, G))
            dR = rotation_differential(F, R, dF) if laws.needs_rotation(law) else dF
            P = laws.differential(law, F, R, W, m, power)
            moved = laws.differential(
                law,
                add(F, scale(step, dF)),
                add(R, scale(step, dR)),
                add(W, scale(step, dW)),
                m,
                power,
            )
            second = (
                moved[0].imag,
                moved[1].imag,
                moved[2].imag,
                moved[3].imag,
                moved[4].imag,
                moved[5].imag,
                moved[6].imag,
                moved[7].imag,
                moved[8].imag,
            )
            change = sub(add(scale(1.0 / COMPLEX_STEP, second), scale(trace(G), P)), mmt(P, G))
            add_nodal_forces(out[c], cells.weights[c, g], change, grads, dim)
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class RestChange:
    """A solid whose rest positions change by `change` at fixed topology.

    It offers rest positions and areas as complex numbers, with the change as imaginary part times
    `COMPLEX_STEP`, so that loads can be differentiated.
    """

    solid: Solid
    change: Array  # (n_dofs,) [m] of the rest positions

    @property
    def dim(self) -> int:
        return self.solid.dim

    @property
    def is_position(self) -> Array:
        return self.solid.is_position

    @cached_property
    def rest(self) -> Array:
        """Return the complex rest positions (n_dofs,) [m]."""
        return self.solid.rest + 1j * COMPLEX_STEP * self.change

    @property
    def points(self) -> Array:
        """Return the complex rest positions (n_nodes, dim) [m]."""
        return self.rest.reshape(-1, self.dim)

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return the weights of material points, which do not change."""
        return self.solid.locate(points)

    def region(self, name: str) -> Array:
        return self.solid.region(name)

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return the complex area (n_nodes,) [m^2] of a named surface that each node carries."""
        mesh = self.solid.mesh
        facets = mesh.boundary() if name is None else mesh.facets(name)
        share = self._depth * facet_node_weights(self.points[facets], lumped=lumped).ravel()
        sums = (
            np.bincount(facets.ravel(), part, mesh.n_points) for part in (share.real, share.imag)
        )
        return next(sums) + 1j * next(sums)

    @property
    def _depth(self) -> float:
        return self.solid.thickness if self.dim == 2 else 1.0

    @cached_property
    def gradient(self) -> Array:
        """Return G = grad dX (n_cells, n_points, dim, dim)."""
        return self.solid.field_gradient(self.change)

    @cached_property
    def cell_size_change(self) -> float:
        """Return the change [m] of the solid's `cell_size`."""
        growth = np.trace(self.gradient, axis1=2, axis2=3)
        volumes = self.solid.cells.weights
        return (
            self.solid.cell_size()
            * float(np.sum(volumes * growth))
            / (self.dim * float(np.sum(volumes)))
        )

    @cached_property
    def _unit_mass_change(self) -> Array:
        """Return the change (n_cells, n_nodes, n_nodes) [m^3] of the mass at density one."""
        mesh = self.solid.mesh
        return self._depth * unit_mass(self.points, mesh.cells, mesh.order).imag / COMPLEX_STEP

    def mass_times_change(self, density: Array, y: Array) -> Array:
        """Return the change (n_dofs,) of M y, for the mass matrix of a density [kg/m^3] in each
        cell."""
        cell_mass = density[:, None, None] * self._unit_mass_change
        return self.solid.gather(cell_mass @ y.reshape(-1, self.dim)[self.solid.mesh.cells])

    def force_change(self, q: Array, fields: MaterialFields, dq: Array) -> Array:
        """Return the change (n_dofs,) [N] of the gradient of the elastic energy."""
        return self.solid.gather(self._run(cell_force_changes, fields.moduli, q, self.change, dq))

    def stiffness_times_change(self, q: Array, fields: MaterialFields, w: Array) -> Array:
        """Return the change (n_dofs,) [N] of K(q) w, with the elastic stiffness K."""
        return self.solid.gather(self._run(cell_product_changes, fields.moduli, q, w, self.change))

    def _run(self, kernel: Any, *args: Any) -> Any:
        cells = self.solid.cells
        return run_kernel(kernel, cells.weights.size, cells, *args, self.dim)

    def viscous_force_change(
        self,
        q: Array,
        fields: MaterialFields,
        time: float,
        rates: Sequence[float],
        levels: Sequence[Array],
        dq: Array,
    ) -> Array:
        """Return the change (n_dofs,) [N] of the viscous force of `Solid.viscosity_of_step` at q,
        where q changes by dq and the levels are fixed."""
        m = time * fields.moduli[:, :2]
        changes = [dq] + [np.zeros_like(q) for _ in levels]
        rate, d_rate = np.zeros_like(self.gradient), np.zeros_like(self.gradient)
        for r, y, dy in zip(rates, [q, *levels], changes, strict=True):
            F, dF = self._deformation(y, dy)
            rate += r * 0.5 * (_transposed(F) @ F - np.eye(self.dim))
            d_rate += r * _symmetric(_transposed(F) @ dF)
        return self.stress_force_change(
            q, dq, self.solid.hooke(rate, m), self.solid.hooke(d_rate, m)
        )

    def viscous_jvp_change(self, q: Array, w: Array, moduli: Array) -> Array:
        """Return the change (n_dofs,) of `Solid.viscous_jvp(q, q, w, moduli)` at fixed q and w."""
        (F, dF), (W, dW) = (self._deformation(y, np.zeros_like(y)) for y in (q, w))
        rate = _symmetric(_transposed(F) @ W)
        d_rate = _symmetric(_transposed(dF) @ W + _transposed(F) @ dW)
        hooke = self.solid.hooke
        return self.stress_force_change(
            q, np.zeros_like(q), hooke(rate, moduli), hooke(d_rate, moduli)
        )

    def stress_force_change(self, q: Array, dq: Array, S: Array, dS: Array) -> Array:
        """Return the change (n_dofs,) of the nodal forces of a second Piola-Kirchhoff stress S
        (n_cells, n_points, dim, dim) [Pa] that changes by dS."""
        F, dF = self._deformation(q, dq)
        P, G = F @ S, self.gradient
        growth = np.trace(G, axis1=2, axis2=3)[:, :, None, None]
        change = growth * P + dF @ S + F @ dS - P @ _transposed(G)
        return self.solid.forces_of(change)

    def _deformation(self, y: Array, dy: Array) -> tuple[Array, Array]:
        """Return the gradient of a field y and its change, (n_cells, n_points, dim, dim) each."""
        F = self.solid.field_gradient(y)
        dF = -F @ self.gradient
        return F, dF + self.solid.field_gradient(dy) if dy.any() else dF


def with_complex_part(thing: Any, **changes: Any) -> Any:
    """Return a dataclass whose fields have imaginary parts: their changes times `COMPLEX_STEP`."""
    parts = {
        name: getattr(thing, name) + 1j * COMPLEX_STEP * change for name, change in changes.items()
    }
    return replace(thing, **parts)


def _transposed(A: Array) -> Array:
    return np.swapaxes(A, 2, 3)


def _symmetric(A: Array) -> Array:
    return 0.5 * (A + _transposed(A))
