"""A solid of tetrahedra (3D) or triangles (plane strain), linear or quadratic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies import assembly, stiffness, stiffness_slopes, tangents
from pliant.bodies.assembly import Cells, Viscous
from pliant.bodies.body import NO_VISCOSITY, Fields, material_of_cells
from pliant.bodies.elements import facet_shares, gradients, quadrature
from pliant.bodies.links import pair_links, upper_nodes
from pliant.core import Array, InputError, require_positive
from pliant.geometry import Mesh
from pliant.geometry.cells import shape_values
from pliant.geometry.overlap import Bodies
from pliant.kernels.threads import run
from pliant.materials import DENSITY, LAWS, YOUNGS_MODULUS, Material, moduli_slope
from pliant.materials.laws import has_barrier


@dataclass(frozen=True, kw_only=True, eq=False)
class Solid:
    """Finite elements on a mesh. `materials` names regions of the mesh, together all of it;
    "default" stands for every cell without another, "body" too if no region has that name."""

    strain_label: ClassVar[str] = "Green strain |E|"

    mesh: Mesh
    materials: Mapping[str, Material]
    thickness: float = 1.0  # [m] out-of-plane depth of a plane body; not looked at in 3D
    snap: float | None = None  # [m] see Mesh.locate

    def __post_init__(self) -> None:
        require_positive("The thickness", self.thickness, "m")
        owner = self._owner
        if (owner < 0).any():
            raise InputError(
                f"{(owner < 0).sum()} of {len(owner)} cells have no material (first: cell "
                f"{np.argmin(owner)}). Name one for each region of the mesh "
                f"({', '.join(self.mesh.regions)}), or one 'default' for the rest."
            )

    @property
    def dim(self) -> int:
        return self.mesh.dim

    @cached_property
    def rest(self) -> Array:
        return np.array(self.mesh.points).ravel()

    @cached_property
    def is_place(self) -> Array:
        return np.ones(len(self.mesh.points), bool)

    @cached_property
    def bodies(self) -> Bodies:
        """The connected components of the mesh."""
        return Bodies(mesh=self.mesh)

    @property
    def cell_nodes(self) -> Array:
        return self.mesh.cells

    @cached_property
    def _owner(self) -> Array:
        return material_of_cells(self.materials, self.mesh.regions, len(self.mesh.cells))

    @cached_property
    def groups(self) -> dict[str, Array]:
        return {name: np.flatnonzero(self._owner == k) for k, name in enumerate(self.materials)}

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.mesh.regions

    @cached_property
    def fields(self) -> Fields:
        pick = lambda key: np.array([float(getattr(m, key)) for m in self.materials.values()])[
            self._owner
        ]
        return Fields(E=pick("E"), nu=pick("nu"), density=pick("density"), power=self.cells.power)

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {
            "E": (0.0, YOUNGS_MODULUS.allowed[1], "Pa"),
            "nu": (-1.0, 0.5, "-"),
            "density": (0.0, DENSITY.allowed[1], "kg/m^3"),
        }

    @cached_property
    def cells(self) -> Cells:
        bary, weights = quadrature(self.dim, self.mesh.order if self.mesh.order == 1 else 2)
        grads, measure = gradients(self.mesh.points, self.mesh.cells, self.mesh.order, bary)
        pick = lambda values: np.array(values)[self._owner]
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
        """[m] the edge of a cube or square that holds as much as a mean cell, times the cells it is
        cut into."""
        return float(
            (self.mesh.volumes().mean() * (6.0 if self.dim == 3 else 2.0)) ** (1.0 / self.dim)
        )

    def hardness(self) -> float:
        """[Pa/m] E / cell of the stiffest material, a scale for contact."""
        return float(self.fields.E.max()) / self.cell_size()

    def cell_centres(self) -> Array:
        """(n_cells, dim) [m] the mean of each cell's corners at rest."""
        return self.mesh.points[self.mesh.corners].mean(axis=1)

    def volumes(self) -> Array:
        """(n_cells,) [m^3]"""
        return self.cells.weights.sum(axis=1)

    @cached_property
    def _unit_mass(self) -> Array:
        """(n_cells, n_nodes, n_nodes) [m^3] the consistent mass of each cell at density one."""
        bary, weights = quadrature(self.dim, 2 * self.mesh.order)
        N = shape_values(bary, self.mesh.order)
        out = np.zeros((len(self.mesh.cells), N.shape[1], N.shape[1]))
        for at, weight, values in zip(
            bary, weights, N, strict=True
        ):  # point by point, or the Jacobians of all would fill the memory
            _, measure = gradients(self.mesh.points, self.mesh.cells, self.mesh.order, at[None])
            out += self._depth * weight * measure[:, :, None] * np.outer(values, values)
        return out

    @cached_property
    def _links(self) -> tuple[Array, Array, Array, Array]:
        return pair_links(self.mesh.cells, len(self.mesh.points))

    @property
    def pairs(self) -> Array:
        return self._links[0]

    @cached_property
    def _node_links(self) -> tuple[Array, Array]:
        flat = self.mesh.cells.ravel()
        source = np.argsort(flat, kind="stable")
        return np.concatenate(
            [[0], np.cumsum(np.bincount(flat, minlength=len(self.mesh.points)))]
        ), source

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return the interpolation (k, n_nodes) from the nodes to material points (k, dim) [m] of
        the rest shape; points up to `snap` outside are moved to the surface."""
        cells, bary = self.mesh.locate(points, snap=self.snap)
        N = shape_values(bary, self.mesh.order)
        N[np.abs(N) < 1e-9] = 0.0
        rows = np.repeat(np.arange(len(cells)), N.shape[1])
        out = sp.csr_matrix(
            (N.ravel(), (rows, self.mesh.cells[cells].ravel())),
            shape=(len(cells), len(self.mesh.points)),
        )
        out.eliminate_zeros()
        return out

    def region(self, name: str) -> Array:
        return self.mesh.nodes(name)

    def patch(self, name: str | None, *, even: bool = False) -> Array:
        """(n_nodes,) [m^2] the share of each node of a named surface's area (None: the whole
        boundary), curved facets included. `even` gives every node of a quadratic facet a positive
        share; the default integrates constants exactly."""
        facets = self.mesh.boundary() if name is None else self.mesh.facets(name)
        share = facet_shares(self.mesh.points[facets], even=even)
        return self._depth * np.bincount(
            facets.ravel(), share.ravel(), minlength=len(self.mesh.points)
        )

    def bulk(self, cells: Array) -> Array:
        """(n_nodes,) [m^3] the integral of each node's shape function over some cells."""
        share = self._unit_mass[cells].sum(axis=2)
        return np.bincount(
            self.mesh.cells[cells].ravel(), share.ravel(), minlength=len(self.mesh.points)
        )

    def _run(self, kernel: Callable[..., Any], *args: Any) -> Any:
        """A compiled loop over the cells, on one thread where the body is small."""
        return run(kernel, self.cells.weights.size, *args)

    def energy(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[float, Array]:
        """([J], (n_dofs,) [N]) the energy and its gradient; infinite where a law with a barrier is
        inverted at a quadrature point or a corner."""
        energy, forces = self._run(
            assembly.cell_forces, self.cells, fields.moduli, viscous, q, self.dim
        )
        broken = self.mesh.order == 2 and self.inverted(q) is not None
        return (np.inf if broken else float(np.sum(energy))), self._gather(forces)

    def gradient(self, q: Array, fields: Fields) -> Array:
        """(n_dofs,) [N] the derivative of the energy without viscosity."""
        return self.energy(q, fields)[1]

    def stiffness(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY, *, project: bool = False
    ) -> Array:
        """(n_pairs, dim, dim) [N/m] the blocks of the energy's Hessian; `project` makes every
        cell's positive."""
        kernel = stiffness.cell_positive_stiffness if project else stiffness.cell_stiffness
        blocks = self._run(kernel, self.cells, fields.moduli, viscous, q, self.dim)
        return self._run(assembly.gather_blocks, blocks, *self._links[1:])

    def linearised(self, q: Array, fields: Fields, viscosity: float) -> tuple[Array, Array]:
        """((n_dofs,) [N], (n_pairs, dim, dim) [N/m]) the gradient of the energy, and the blocks of
        its Hessian with `viscosity` [-] times B^T C B of the Green strain at q: both at once, for
        about the price of the second."""
        forces, blocks = self._run(
            tangents.cell_tangents, self.cells, fields.moduli, float(viscosity), q, self.dim
        )
        _, start, _, flip = self._links
        return self._gather(forces), self._run(
            tangents.gather_wide, blocks, start, self._wide_places, flip, self.dim
        )

    @cached_property
    def _wide_places(self) -> Array:
        n = self.mesh.cells.shape[1]
        return tangents.wide_places(self._links[2], n * (n + 1) // 2)

    def stiffness_times(self, q: Array, fields: Fields, y: Array) -> Array:
        """(n_dofs,) [N] K(q) y with K the elastic stiffness."""
        return self._gather(
            self._run(assembly.cell_products, self.cells, fields.moduli, q, y, self.dim)
        )

    def third(self, q: Array, fields: Fields, y: Array, z: Array) -> Array:
        """(n_dofs,) the derivative of y^T K(q) z with respect to q; symmetric in y, z and the
        direction it is paired with."""
        return self._gather(
            self._run(assembly.cell_third, self.cells, fields.moduli, q, y, z, self.dim)
        )

    def stiffness_cells(self, q: Array, fields: Fields, w: Array) -> tuple[Array, Array]:
        """(n_cells, nodes dim, nodes dim) each: the elastic stiffness of each cell [N/m], and its
        derivative along w."""
        K, T = self._run(
            stiffness_slopes.cell_stiffness_moved, self.cells, fields.moduli, q, w, self.dim
        )
        return self._flat(K), self._flat(T)

    def field_forces(
        self, q: Array, fields: Fields, change: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> Array:
        """(n_dofs,) the change of `gradient` for a change of E and nu in each cell."""
        by_E, by_nu = self._moduli_slopes(fields)
        m = change.E[:, None] * by_E + change.nu[:, None] * by_nu
        return self._gather(self._linear_forces(q, m, viscous))

    def field_work(
        self, q: Array, fields: Fields, y: Array, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        """((n_cells,), (n_cells,)) the derivative of y . gradient with respect to each cell's E and
        nu."""
        along = y.reshape(-1, self.dim)[self.mesh.cells]
        by_E, by_nu = (
            np.einsum("cai,cai->c", self._linear_forces(q, m, viscous), along)
            for m in self._moduli_slopes(fields)
        )
        return by_E, by_nu

    def field_stiffness(self, q: Array, fields: Fields, change: Fields, y: Array) -> Array:
        """(n_dofs,) the change of `stiffness_times` for a change of E and nu in each cell."""
        by_E, by_nu = self._moduli_slopes(fields)
        m = change.E[:, None] * by_E + change.nu[:, None] * by_nu
        return self._gather(self._run(assembly.cell_products, self.cells, m, q, y, self.dim))

    def field_stiffness_work(
        self, q: Array, fields: Fields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        """((n_cells,), (n_cells,)) the derivative of y . K(q) z with respect to each cell's E and
        nu."""
        along = y.reshape(-1, self.dim)[self.mesh.cells]
        products = (
            self._run(assembly.cell_products, self.cells, m, q, z, self.dim)
            for m in self._moduli_slopes(fields)
        )
        by_E, by_nu = (np.einsum("cai,cai->c", product, along) for product in products)
        return by_E, by_nu

    def _moduli_slopes(self, fields: Fields) -> tuple[Array, Array]:
        return fields.moduli / fields.E[:, None], moduli_slope(
            fields.E, fields.nu, self.cells.power
        )

    def _linear_forces(self, q: Array, m: Array, viscous: Viscous) -> Array:
        """(n_cells, n_nodes, dim) cell forces, which are linear in the moduli m (n_cells, 3), the
        viscous ones too."""
        viscous = viscous._replace(moduli=np.ascontiguousarray(viscous.time * m[:, :2]))
        return self._run(assembly.cell_forces, self.cells, m, viscous, q, self.dim)[1]

    def _gather(self, forces: Array) -> Array:
        return self._run(assembly.gather_forces, np.ascontiguousarray(forces), *self._node_links)

    def mass(self, density: Array) -> Array:
        a, b = upper_nodes(self.mesh.cells.shape[1])
        _, start, source, _ = self._links
        values = (density[:, None] * self._unit_mass[:, a, b]).ravel()[source]
        return np.add.reduceat(values, start[:-1])

    def mass_work(self, y: Array, z: Array) -> Array:
        Y, Z = (v.reshape(-1, self.dim)[self.mesh.cells] for v in (y, z))
        return np.einsum("cai,cab,cbi->c", Y, self._unit_mass, Z, optimize=True)

    def inverted(self, q: Array) -> tuple[float, int] | None:
        """(J, cell) of the worst cell where a law with a barrier is inverted at a quadrature point
        or a corner, or None."""
        cells = np.flatnonzero(self._barrier_cells)
        if not cells.size:
            return None
        J, where = assembly.smallest_jacobian(
            self.mesh.cells[cells], self._corner_grads[cells], q, self.dim
        )
        return None if J > 0.0 else (float(J), int(cells[where]))

    def beyond(self, q: Array) -> str:
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
        """Return the Frobenius norm of the Green strain E = (F^T F - I) / 2, (n_nodes,) [-],
        averaged over the cells of each node; for pictures."""
        E = self._green(q)
        cell = np.linalg.norm(E, axis=(2, 3)).mean(axis=1)
        total = np.bincount(
            self.mesh.cells.ravel(),
            np.repeat(cell, self.mesh.cells.shape[1]),
            minlength=len(self.mesh.points),
        )
        return total / np.bincount(self.mesh.cells.ravel(), minlength=len(self.mesh.points))

    def _gradient_of(self, y: Array) -> Array:
        """(n_cells, n_points, dim, dim) the gradient of a nodal vector field with respect to rest
        coordinates."""
        return self._run(assembly.field_gradients, self.cells, y, self.dim)

    def _green(self, q: Array) -> Array:
        F = self._gradient_of(q)
        return 0.5 * (np.swapaxes(F, 2, 3) @ F - np.eye(self.dim))

    def viscous(
        self, fields: Fields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscous:
        """The viscous share of a step whose strain rate is rates[0] E(q') + sum_j rates[j]
        E(levels[j - 1]): Kelvin-Voigt on the Green strain, equal to stiffness-proportional Rayleigh
        damping at small strain and free of drag in rotation."""
        past = sum(
            (r * self._green(q) for r, q in zip(rates[1:], levels, strict=True)),
            np.zeros((1, 1, self.dim, self.dim)),
        )
        return self._viscous(fields, time, rates[0], past)

    def viscous_at(
        self, fields: Fields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscous:
        """The viscous share whose strain rate at q is that of a velocity field, sym(F^T grad v)."""
        E = np.swapaxes(self._gradient_of(q), 2, 3) @ self._gradient_of(velocity)
        return self._viscous(
            fields, time, rate, 0.5 * (E + np.swapaxes(E, 2, 3)) - rate * self._green(q)
        )

    def _viscous(self, fields: Fields, time: float, rate: float, past: Array) -> Viscous:
        full = np.zeros((*self.cells.weights.shape, 3, 3))
        full[:, :, : self.dim, : self.dim] = past
        m = np.ascontiguousarray(time * fields.moduli[:, :2])
        return Viscous(float(rate), float(time), m, full.reshape(*self.cells.weights.shape, 9))

    def viscous_push(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) the change of the viscous force at q for a change of the Green strain at
        `level`: F(q) hooke(sym(F(level)^T grad change)); its transpose swaps q and level."""
        return self._gather(
            self._run(assembly.viscous_products, self.cells, moduli, q, level, change, self.dim)
        )

    def viscous_moved(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) the change of viscous_push(q, q, w) with q; the Green strain is quadratic, so
        that its slope is linear in q."""
        return self.viscous_push(change, q, w, moduli) + self.viscous_push(q, w, change, moduli)

    def viscous_moved_back(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        """(n_dofs,) the derivative of y . viscous_push(q, q, w) by q."""
        return self.viscous_push(y, q, w, moduli) + self.viscous_push(w, q, y, moduli)

    def viscous_cells(self, q: Array, level: Array, moduli: Array) -> Array:
        """(n_cells, nodes dim, nodes dim) B(q)^T C B(level) of each cell: `viscous_push` as
        matrices."""
        return self._flat(
            self._run(
                stiffness_slopes.cell_viscosity, self.cells, moduli, q, level, False, self.dim
            )
        )

    def viscous_moved_cells(self, q: Array, w: Array, moduli: Array) -> Array:
        """(n_cells, nodes dim, nodes dim) `viscous_moved` as matrices."""
        return self._flat(
            self._run(stiffness_slopes.cell_viscosity, self.cells, moduli, q, w, True, self.dim)
        )

    def _flat(self, blocks: Array) -> Array:
        """(n_cells, nodes dim, nodes dim) from (n_cells, nodes, dim, nodes, dim)"""
        return blocks.reshape(len(blocks), *2 * (blocks.shape[1] * self.dim,))

    def viscous_third(
        self,
        q: Array,
        viscous: Viscous,
        y: Array,
        dq: Array,
        rates: Sequence[float],
        levels: Sequence[Array],
        changes: Sequence[Array],
    ) -> tuple[Array, list[Array]]:
        """The second derivative of y . (viscous force) along a change dq of q and `changes` of the
        levels (rates[0] belongs to q, rates[j + 1] to levels[j]): its shares for q and for each
        level."""
        m, g = viscous.moduli, self._gradient_of
        moved = rates[0] * self._mixed_strain(q, dq)
        for r, level, change in zip(rates[1:], levels, changes, strict=True):
            moved = moved + r * self._mixed_strain(level, change)
        stretch, turned = (
            self._hooke(self._mixed_strain(q, y), m),
            self._hooke(self._mixed_strain(dq, y), m),
        )
        by_q = g(y) @ self._hooke(moved, m) + rates[0] * (g(dq) @ stretch + g(q) @ turned)
        shares = [
            self._forces_of(r * (g(change) @ stretch + g(level) @ turned))
            for r, level, change in zip(rates[1:], levels, changes, strict=True)
        ]
        return self._forces_of(by_q), shares

    def damped_strain(self, q: Array, fields: Fields) -> Array:
        """(n,) [sqrt(J)] the Green strain weighed such that |damped_strain|^2 is its energy by
        Hooke's law: what viscosity acts on."""
        return self._weighed(self._green(q), fields)

    def damped_strain_push(self, q: Array, change: Array, fields: Fields) -> Array:
        """(n,) the change of damped_strain at q; it is bilinear and symmetric in q and change."""
        return self._weighed(self._mixed_strain(q, change), fields)

    def _weighed(self, E: Array, fields: Fields) -> Array:
        """2 mu |E|^2 + lam tr(E)^2 as a sum of squares, deviator and trace apart, so that lam may
        be negative."""
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
        """sym(F(q)^T grad change), the change of the Green strain at q."""
        dE = np.swapaxes(self._gradient_of(q), 2, 3) @ self._gradient_of(change)
        return 0.5 * (dE + np.swapaxes(dE, 2, 3))

    def _hooke(self, E: Array, moduli: Array) -> Array:
        S = 2.0 * moduli[:, 0, None, None, None] * E
        return S + (moduli[:, 1, None] * np.trace(E, axis1=2, axis2=3))[:, :, None, None] * np.eye(
            self.dim
        )

    def _forces_of(self, P: Array) -> Array:
        """(n_dofs,) the nodal forces of stresses P (n_cells, n_points, dim, dim)."""
        return self._gather(
            np.einsum("cg,cgik,cgak->cai", self.cells.weights, P, self.cells.grads, optimize=True)
        )
