"""A solid of tetrahedra (3D) or triangles (plane strain), linear or quadratic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies import assembly, step_matrices, stiffness, tangents
from pliant.bodies.assembly import Cells, Viscosity
from pliant.bodies.body import NO_VISCOSITY, MaterialFields, material_of_cells
from pliant.bodies.elements import facet_node_weights, gradients, quadrature, unit_mass
from pliant.bodies.node_pairs import entry_block_sources, pair_block_sources, upper_triangle_nodes
from pliant.bodies.solid_cells import SolidCells
from pliant.core import Array, InputError, counted_of, require_positive
from pliant.geometry import Mesh
from pliant.geometry.cells import cells_with_common_facet, shape_gradients, shape_values
from pliant.geometry.overlap import ConnectedBodies
from pliant.kernels.threads import run_kernel
from pliant.materials import DENSITY, LAWS, YOUNGS_MODULUS, Material, moduli_nu_derivative
from pliant.materials.laws import has_barrier


@dataclass(frozen=True, kw_only=True, eq=False)
class Solid:
    """A body of finite elements on a mesh.

    `materials` maps regions of the mesh to materials and must cover all cells. "default" applies to
    every cell without another material; so does "body" if no region has that name.
    """

    strain_label: ClassVar[str] = "Green strain |E|"

    mesh: Mesh
    materials: Mapping[str, Material]
    thickness: float = 1.0  # [m] out-of-plane depth of a 2D body; ignored in 3D
    snap: float | None = None  # [m] see Mesh.locate
    # the mesh that points are attached in, if this one is a changed shape of it
    reference: Mesh | None = None

    def __post_init__(self) -> None:
        require_positive("The thickness", self.thickness, "m")
        owner = self._material_index
        if (owner < 0).any():
            raise InputError(
                f"{counted_of((owner < 0).sum(), len(owner), 'cell', ('has', 'have'))} no material "
                f"(first: cell {np.argmin(owner)}). Name one for each region of the mesh "
                f"({', '.join(self.mesh.regions)}), or one 'default' for the rest."
            )

    @property
    def dim(self) -> int:
        return self.mesh.dim

    @cached_property
    def rest(self) -> Array:
        return np.array(self.mesh.points).ravel()

    @cached_property
    def is_position(self) -> Array:
        return np.ones(len(self.mesh.points), bool)

    @cached_property
    def bodies(self) -> ConnectedBodies:
        """Return the connected components of the mesh."""
        return ConnectedBodies(mesh=self.mesh)

    @property
    def cell_nodes(self) -> Array:
        return self.mesh.cells

    @cached_property
    def rest_neighbours(self) -> Array:
        """The pairs (k, 2) of cells that share a facet."""
        return cells_with_common_facet(self.mesh.cells)

    @cached_property
    def _material_index(self) -> Array:
        return material_of_cells(self.materials, self.mesh.regions, len(self.mesh.cells))

    @cached_property
    def material_cells(self) -> dict[str, Array]:
        return {
            name: np.flatnonzero(self._material_index == k) for k, name in enumerate(self.materials)
        }

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.mesh.regions

    @cached_property
    def fields(self) -> MaterialFields:
        pick = lambda key: np.array([float(getattr(m, key)) for m in self.materials.values()])[
            self._material_index
        ]
        return MaterialFields(
            E=pick("E"), nu=pick("nu"), density=pick("density"), power=self.cells.power
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {
            "E": (0.0, YOUNGS_MODULUS.allowed[1], "Pa"),
            "nu": (-1.0, 0.5, "-"),
            "density": (0.0, DENSITY.allowed[1], "kg/m^3"),
        }

    @cached_property
    def cells(self) -> Cells:
        """Return the arrays of the compiled loops."""
        bary, weights = quadrature(self.dim, self.mesh.order if self.mesh.order == 1 else 2)
        grads, measure = gradients(self.mesh.points, self.mesh.cells, self.mesh.order, bary)
        pick = lambda values: np.array(values)[self._material_index]
        return Cells(
            np.array(self.mesh.cells),
            grads,
            self._depth * measure * weights,
            pick([LAWS[m.law] for m in self.materials.values()]),
            pick([m.power for m in self.materials.values()]),
        )

    @property
    def _depth(self) -> float:
        return self.thickness if self.dim == 2 else 1.0

    def cell_size(self) -> float:
        """Return the edge [m] of a cube (square in 2D) that is divided into cells of the mean
        size."""
        return float(
            (self.mesh.volumes().mean() * (6.0 if self.dim == 3 else 2.0)) ** (1.0 / self.dim)
        )

    def cell_centres(self) -> Array:
        """Return the mean of each cell's corners (n_cells, dim) [m] at rest, in the reference."""
        mesh = self.reference or self.mesh
        return mesh.points[mesh.corners].mean(axis=1)

    def volumes(self) -> Array:
        """Return the volume (n_cells,) [m^3] of each cell."""
        return self.cells.weights.sum(axis=1)

    @cached_property
    def _unit_mass(self) -> Array:
        """Return the consistent mass matrix (n_cells, n_nodes, n_nodes) [m^3] of each cell at
        density one."""
        return self._depth * unit_mass(self.mesh.points, self.mesh.cells, self.mesh.order)

    @cached_property
    def _pair_sources(self) -> tuple[Array, Array, Array, Array]:
        return pair_block_sources(self.mesh.cells, len(self.mesh.points))

    @property
    def pairs(self) -> Array:
        return self._pair_sources[0]

    @cached_property
    def _node_sources(self) -> tuple[Array, Array]:
        flat = self.mesh.cells.ravel()
        source = np.argsort(flat, kind="stable")
        return np.concatenate(
            [[0], np.cumsum(np.bincount(flat, minlength=len(self.mesh.points)))]
        ), source

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return interpolation weights (k, n_nodes) of rest points (k, dim) [m] of the reference.

        Points up to `snap` outside the mesh are moved to its surface.
        """
        cells, bary = (self.reference or self.mesh).locate(points, snap=self.snap)
        N = shape_values(bary, self.mesh.order)
        N[np.abs(N) < 1e-9] = 0.0
        rows = np.repeat(np.arange(len(cells)), N.shape[1])
        out = sp.csr_matrix(
            (N.ravel(), (rows, self.mesh.cells[cells].ravel())),
            shape=(len(cells), len(self.mesh.points)),
        )
        out.eliminate_zeros()
        return out

    @property
    def attachment_box(self) -> tuple[Array, Array]:
        points = (self.reference or self.mesh).points
        return points.min(axis=0), points.max(axis=0)

    def weight_gradients(self, points: Array) -> list[sp.csr_matrix]:
        """Return the derivatives (k, n_nodes) [1/m] of the weights of `locate` by each coordinate
        of their points (k, dim) [m], inside the cell that holds each point."""
        mesh = self.reference or self.mesh
        cells, bary = mesh.locate(points, snap=self.snap)
        slopes = shape_gradients(bary, mesh.order)
        maps = np.einsum("kai,kaj->kij", mesh.points[mesh.cells[cells]], slopes)
        gradients = slopes @ np.linalg.inv(maps)  # (k, n, dim)
        rows = np.repeat(np.arange(len(cells)), slopes.shape[1])
        place, shape = (rows, mesh.cells[cells].ravel()), (len(cells), len(mesh.points))
        return [
            sp.csr_matrix((gradients[..., axis].ravel(), place), shape=shape)
            for axis in range(mesh.dim)
        ]

    def region(self, name: str) -> Array:
        return self.mesh.nodes(name)

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return the area (n_nodes,) [m^2] of a named surface that each node carries. None: whole
        boundary.

        Curved facets are included. The default weights integrate constants exactly. `lumped`
        weights are positive for every node of a quadratic facet.
        """
        facets = self.mesh.boundary() if name is None else self.mesh.facets(name)
        share = facet_node_weights(self.mesh.points[facets], lumped=lumped)
        return self._depth * np.bincount(
            facets.ravel(), share.ravel(), minlength=len(self.mesh.points)
        )

    def node_volumes(self, cells: Array) -> Array:
        """Return the integral (n_nodes,) [m^3] of each node's shape function over some cells."""
        share = self._unit_mass[cells].sum(axis=2)
        return np.bincount(
            self.mesh.cells[cells].ravel(), share.ravel(), minlength=len(self.mesh.points)
        )

    def _run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a compiled loop over the cells, on one thread for a small body."""
        return run_kernel(kernel, self.cells.weights.size, *args)

    def energy(
        self, q: Array, fields: MaterialFields, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[float, Array]:
        """Return the energy [J] and its gradient (n_dofs,) [N].

        The energy is infinite if a cell with a barrier law is inverted at a quadrature point or a
        corner.
        """
        energy, forces = self._run(
            assembly.cell_forces, self.cells, fields.moduli, viscous, q, self.dim
        )
        broken = self.mesh.order == 2 and self.inadmissible_cell(q) is not None
        return (np.inf if broken else float(np.sum(energy))), self.gather(forces)

    def gradient(self, q: Array, fields: MaterialFields) -> Array:
        """Return the gradient (n_dofs,) [N] of the elastic energy."""
        return self.energy(q, fields)[1]

    def stiffness(
        self,
        q: Array,
        fields: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
        *,
        project: bool = False,
    ) -> Array:
        """Return the blocks (n_pairs, dim, dim) [N/m] of the energy's Hessian.

        `project` makes the Hessian of every cell positive semidefinite.
        """
        kernel = stiffness.cell_projected_stiffness if project else stiffness.cell_stiffness
        blocks = self._run(kernel, self.cells, fields.moduli, viscous, q, self.dim)
        return self._run(assembly.gather_blocks, blocks, *self._pair_sources[1:])

    def gradient_and_stiffness(
        self, q: Array, fields: MaterialFields, viscosity: float
    ) -> tuple[Array, Array]:
        """Return the elastic gradient (n_dofs,) [N] and the stiffness blocks (n_pairs, dim, dim)
        [N/m].

        The stiffness includes `viscosity` [-] times B^T C B of the Green strain at q. Computing
        both costs about as much as the stiffness alone.
        """
        forces, blocks = self._run(
            tangents.cell_tangents, self.cells, fields.moduli, float(viscosity), q, self.dim
        )
        _, start, _, flip = self._pair_sources
        return self.gather(forces), self._run(
            tangents.gather_lane_blocks, blocks, start, self._lane_block_positions, flip, self.dim
        )

    @cached_property
    def _lane_block_positions(self) -> Array:
        n = self.mesh.cells.shape[1]
        return tangents.lane_block_positions(self._pair_sources[2], n * (n + 1) // 2)

    def stiffness_times(self, q: Array, fields: MaterialFields, y: Array) -> Array:
        """Return K(q) y, (n_dofs,) [N], with the elastic stiffness K."""
        return self.gather(
            self._run(assembly.cell_stiffness_products, self.cells, fields.moduli, q, y, self.dim)
        )

    def stiffness_derivative(self, q: Array, fields: MaterialFields, y: Array, z: Array) -> Array:
        """Return the derivative (n_dofs,) of y^T K(q) z by q.

        Its product with a vector w is symmetric in w, y and z.
        """
        return self.gather(
            self._run(
                assembly.cell_stiffness_derivative, self.cells, fields.moduli, q, y, z, self.dim
            )
        )

    def cell_stiffness_and_derivative(
        self, q: Array, fields: MaterialFields, w: Array
    ) -> tuple[Array, Array]:
        """Return the elastic stiffness [N/m] of each cell and its derivative along w.

        Both have shape (n_cells, nodes dim, nodes dim).
        """
        return self._solid_cells.cell_stiffness_and_derivative(q, fields, w)

    @property
    def _solid_cells(self) -> SolidCells:
        return SolidCells(cells=self.cells, dim=self.dim)

    def step_force_derivative(
        self,
        q: Array,
        w: Array,
        fields: MaterialFields,
        viscous_moduli: Array | None,
        held: Array,
        dt: float,
    ) -> Array:
        """Return dt K + dt^2 dK/dq w + dt dD/dq w, minus dt K + D in the columns of `held` unknowns
        [N s/m].

        The blocks (n_entries, dim, dim) belong to all pairs of nodes that share a cell, sorted by
        row and then by column.
        """
        moduli = np.zeros((len(self.cells.nodes), 2)) if viscous_moduli is None else viscous_moduli
        blocks = self._run(
            step_matrices.step_matrices,
            self.cells,
            fields.moduli,
            moduli,
            q,
            w,
            held,
            dt,
            self.dim,
        )
        return self._run(tangents.gather_lane_blocks, blocks, *self._entry_sources, self.dim)

    @cached_property
    def _entry_sources(self) -> tuple[Array, Array, Array]:
        start, source = entry_block_sources(self.mesh.cells, len(self.mesh.points))
        position = tangents.lane_block_positions(source, self.mesh.cells.shape[1] ** 2)
        return start, position, np.zeros(len(source), bool)

    def material_jvp(
        self,
        q: Array,
        fields: MaterialFields,
        change: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
    ) -> Array:
        """Return the change (n_dofs,) of `gradient` for a change of E and nu in each cell."""
        by_E, by_nu = self._moduli_derivatives(fields)
        m = change.E[:, None] * by_E + change.nu[:, None] * by_nu
        return self.gather(self._linear_forces(q, m, viscous))

    def material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        """Return the derivative of y . gradient by E (n_cells,) and by nu (n_cells,)."""
        along = y.reshape(-1, self.dim)[self.mesh.cells]
        by_E, by_nu = (
            np.einsum("cai,cai->c", self._linear_forces(q, m, viscous), along)
            for m in self._moduli_derivatives(fields)
        )
        return by_E, by_nu

    def stiffness_material_jvp(
        self, q: Array, fields: MaterialFields, change: MaterialFields, y: Array
    ) -> Array:
        """Return the change (n_dofs,) of `stiffness_times` for a change of E and nu in each
        cell."""
        by_E, by_nu = self._moduli_derivatives(fields)
        m = change.E[:, None] * by_E + change.nu[:, None] * by_nu
        return self.gather(
            self._run(assembly.cell_stiffness_products, self.cells, m, q, y, self.dim)
        )

    def stiffness_material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        """Return the derivative of y . K(q) z by E (n_cells,) and by nu (n_cells,)."""
        along = y.reshape(-1, self.dim)[self.mesh.cells]
        products = (
            self._run(assembly.cell_stiffness_products, self.cells, m, q, z, self.dim)
            for m in self._moduli_derivatives(fields)
        )
        by_E, by_nu = (np.einsum("cai,cai->c", product, along) for product in products)
        return by_E, by_nu

    def _moduli_derivatives(self, fields: MaterialFields) -> tuple[Array, Array]:
        """Return the derivatives of the moduli by E and by nu, (n_cells, 3) each."""
        return fields.moduli / fields.E[:, None], moduli_nu_derivative(
            fields.E, fields.nu, self.cells.power
        )

    def _linear_forces(self, q: Array, m: Array, viscous: Viscosity) -> Array:
        """Return the elastic and viscous cell forces (n_cells, n_nodes, dim), linear in the moduli
        m (n_cells, 3)."""
        viscous = viscous._replace(moduli=np.ascontiguousarray(viscous.time * m[:, :2]))
        return self._run(assembly.cell_forces, self.cells, m, viscous, q, self.dim)[1]

    def gather(self, forces: Array) -> Array:
        """Return the sum (n_dofs,) of the nodal forces (n_cells, n_nodes, dim) of the cells."""
        return self._run(assembly.gather_forces, np.ascontiguousarray(forces), *self._node_sources)

    def mass(self, density: Array) -> Array:
        a, b = upper_triangle_nodes(self.mesh.cells.shape[1])
        _, start, source, _ = self._pair_sources
        values = (density[:, None] * self._unit_mass[:, a, b]).ravel()[source]
        return np.add.reduceat(values, start[:-1])

    def mass_vjp(self, y: Array, z: Array) -> Array:
        Y, Z = (v.reshape(-1, self.dim)[self.mesh.cells] for v in (y, z))
        return np.einsum("cai,cab,cbi->c", Y, self._unit_mass, Z, optimize=True)

    def inadmissible_cell(self, q: Array) -> tuple[float, int] | None:
        """Return (J, cell) of the most inverted cell with a barrier law, or None.

        Quadrature points and corners are checked.
        """
        cells = np.flatnonzero(self._barrier_cells)
        if not cells.size:
            return None
        J, where = assembly.min_jacobian_determinant(
            self.mesh.cells[cells], self._corner_grads[cells], q, self.dim
        )
        return None if J > 0.0 else (float(J), int(cells[where]))

    def limit_message(self, q: Array) -> str:
        return ""

    @cached_property
    def _barrier_cells(self) -> Array:
        return np.array([has_barrier(law) for law in self.cells.law], dtype=bool)

    @cached_property
    def _corner_grads(self) -> Array:
        corners = (
            np.eye(self.dim + 1)
            if self.mesh.order == 2
            else np.full((1, self.dim + 1), 1.0 / (self.dim + 1))
        )
        at_corners, _ = gradients(self.mesh.points, self.mesh.cells, self.mesh.order, corners)
        return (
            np.concatenate([self.cells.grads, at_corners], axis=1)
            if self.mesh.order == 2
            else at_corners
        )

    def strain(self, q: Array) -> Array:
        """Return the Frobenius norm (n_nodes,) [-] of the Green strain E = (F^T F - I) / 2, for
        pictures.

        It is averaged over the cells of each node.
        """
        E = self._green(q)
        cell = np.linalg.norm(E, axis=(2, 3)).mean(axis=1)
        total = np.bincount(
            self.mesh.cells.ravel(),
            np.repeat(cell, self.mesh.cells.shape[1]),
            minlength=len(self.mesh.points),
        )
        return total / np.bincount(self.mesh.cells.ravel(), minlength=len(self.mesh.points))

    def field_gradient(self, y: Array) -> Array:
        """Return the gradient (n_cells, n_points, dim, dim) of a nodal vector field by the rest
        coordinates."""
        return self._run(assembly.field_gradients, self.cells, y, self.dim)

    def _green(self, q: Array) -> Array:
        F = self.field_gradient(q)
        return 0.5 * (np.swapaxes(F, 2, 3) @ F - np.eye(self.dim))

    def viscosity_of_step(
        self, fields: MaterialFields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscosity:
        """Return the viscosity of a step with strain rate rates[0] E(q') + sum_j rates[j]
        E(levels[j - 1]).

        The Kelvin-Voigt model acts on the Green strain. It equals stiffness-proportional Rayleigh
        damping at small strain and does not damp rotations.
        """
        past = sum(
            (r * self._green(q) for r, q in zip(rates[1:], levels, strict=True)),
            np.zeros((1, 1, self.dim, self.dim)),
        )
        return self._viscous(fields, time, rates[0], past)

    def viscosity_at_velocity(
        self, fields: MaterialFields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscosity:
        """Return the viscosity whose strain rate at q is that of a velocity field, sym(F^T grad
        v)."""
        E = np.swapaxes(self.field_gradient(q), 2, 3) @ self.field_gradient(velocity)
        return self._viscous(
            fields, time, rate, 0.5 * (E + np.swapaxes(E, 2, 3)) - rate * self._green(q)
        )

    def _viscous(self, fields: MaterialFields, time: float, rate: float, past: Array) -> Viscosity:
        full = np.zeros((*self.cells.weights.shape, 3, 3))
        full[:, :, : self.dim, : self.dim] = past
        m = np.ascontiguousarray(time * fields.moduli[:, :2])
        return Viscosity(float(rate), float(time), m, full.reshape(*self.cells.weights.shape, 9))

    def viscous_jvp(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        """Return the change (n_dofs,) of the viscous force at q for a change of the Green strain at
        `level`.

        It is the force of the stress F(q) hooke(sym(F(level)^T grad change)). Its transpose swaps q
        and level.
        """
        return self.gather(
            self._run(assembly.viscous_products, self.cells, moduli, q, level, change, self.dim)
        )

    def viscous_derivative_jvp(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        """Return the directional derivative (n_dofs,) of viscous_jvp(q, q, w) by q.

        The Green strain is quadratic, so its derivative is linear in q.
        """
        return self.viscous_jvp(change, q, w, moduli) + self.viscous_jvp(q, w, change, moduli)

    def viscous_derivative_vjp(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        """Return the derivative (n_dofs,) of y . viscous_jvp(q, q, w) by q."""
        return self.viscous_jvp(y, q, w, moduli) + self.viscous_jvp(w, q, y, moduli)

    def cell_viscous_matrices(self, q: Array, level: Array, moduli: Array) -> Array:
        """Return B(q)^T C B(level) of each cell, (n_cells, nodes dim, nodes dim): `viscous_jvp` as
        matrices."""
        return self._solid_cells.cell_viscous_matrices(q, level, moduli)

    def cell_viscous_derivatives(self, q: Array, w: Array, moduli: Array) -> Array:
        """Return `viscous_derivative_jvp` as matrices (n_cells, nodes dim, nodes dim)."""
        return self._solid_cells.cell_viscous_derivatives(q, w, moduli)

    def viscous_second_derivative(
        self,
        q: Array,
        viscous: Viscosity,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]:
        """Return the second derivative of y . (viscous force) along dq and `changes` of the levels.

        rates[0] belongs to q and rates[j + 1] to levels[j]. The result is the part for q and one
        part for each level.
        """
        m, g = viscous.moduli, self.field_gradient
        rate_change = rates[0] * self._mixed_strain(q, dq)
        for r, level, change in zip(rates[1:], levels, changes, strict=True):
            rate_change = rate_change + r * self._mixed_strain(level, change)
        stress_q, stress_dq = (
            self.hooke(self._mixed_strain(q, y), m),
            self.hooke(self._mixed_strain(dq, y), m),
        )
        by_q = g(y) @ self.hooke(rate_change, m) + rates[0] * (g(dq) @ stress_q + g(q) @ stress_dq)
        shares = [
            self.forces_of(r * (g(change) @ stress_q + g(level) @ stress_dq))
            for r, level, change in zip(rates[1:], levels, changes, strict=True)
        ]
        return self.forces_of(by_q), shares

    def weighted_strain(self, q: Array, fields: MaterialFields) -> Array:
        """Return the Green strain (n,) [sqrt(J)], weighted so that its squared norm is Hooke's
        energy.

        Viscosity acts on it.
        """
        return self._energy_weighted(self._green(q), fields)

    def weighted_strain_jvp(self, q: Array, change: Array, fields: MaterialFields) -> Array:
        """Return the directional derivative (n,) of `weighted_strain` at q.

        It is bilinear and symmetric in q and change.
        """
        return self._energy_weighted(self._mixed_strain(q, change), fields)

    def _energy_weighted(self, E: Array, fields: MaterialFields) -> Array:
        """Return the entries whose squares sum to 2 mu |E|^2 + lam tr(E)^2.

        Deviator and trace are separate, so lam may be negative.
        """
        mu, lam = fields.moduli[:, 0, None], fields.moduli[:, 1, None]
        trace = np.trace(E, axis1=2, axis2=3)
        deviator = E - (trace / self.dim)[:, :, None, None] * np.eye(self.dim)
        shear, bulk = (
            np.sqrt(2.0 * mu * self.cells.weights),
            np.sqrt((lam + 2.0 * mu / self.dim) * self.cells.weights),
        )
        return np.concatenate(
            [shear[:, :, None] * deviator.reshape(*E.shape[:2], -1), (bulk * trace)[:, :, None]],
            axis=2,
        ).ravel()

    def _mixed_strain(self, q: Array, change: Array) -> Array:
        """Return sym(F(q)^T grad change), the change of the Green strain at q."""
        dE = np.swapaxes(self.field_gradient(q), 2, 3) @ self.field_gradient(change)
        return 0.5 * (dE + np.swapaxes(dE, 2, 3))

    def hooke(self, E: Array, moduli: Array) -> Array:
        """Return Hooke's stress [Pa] of strains E (n_cells, n_points, dim, dim)."""
        S = 2.0 * moduli[:, 0, None, None, None] * E
        return S + (moduli[:, 1, None] * np.trace(E, axis1=2, axis2=3))[:, :, None, None] * np.eye(
            self.dim
        )

    def forces_of(self, P: Array) -> Array:
        """Return the nodal forces (n_dofs,) of stresses P (n_cells, n_points, dim, dim)."""
        return self.gather(
            np.einsum("cg,cgik,cgak->cai", self.cells.weights, P, self.cells.grads, optimize=True)
        )
