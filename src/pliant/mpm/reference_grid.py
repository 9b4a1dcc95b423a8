"""A body whose unknowns are the nodes of a grid in the rest shape: particles are its quadrature
points, and quadratic B-splines of the rest positions interpolate between the nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from pliant.bodies.assembly import COMPLEX_STEP
from pliant.bodies.body import MaterialFields
from pliant.bodies.elements import facet_node_weights
from pliant.core import Array, InputError
from pliant.geometry import Mesh
from pliant.geometry.particle_sampling import ParticleSamples
from pliant.mpm.grid import (
    SLAB_WIDTH,
    GridBox,
    ParticleData,
    empty_bins,
    sort_particles,
    spline_weights,
)
from pliant.mpm.particles import Particles, affine_weights
from pliant.mpm.surface_points import surface_points
from pliant.mpm.total_transfer import ReferenceArrays
from pliant.robot import Support

# of the mass of the heaviest node beside it, below which a node follows the others. As an unknown
# of its own it would relax the strain of the few particles that it reaches: a beam of two cells
# over its height sags 32 % too much with 0.01, and within 1 % with 0.1
LIGHT_FRACTION = 0.1
HALF_LAYER = 0.5 + 1e-6  # [cells] from a held surface within which nodes are held
# [cells] beside a held surface within which nodes are held: the support of a particle at its edge
HOLD_MARGIN = 1.501
EXTRAPOLATION_RADIUS = 2.0  # [cells] within which nodes extrapolate to a lighter one


def _stencils(points: Array, cell: float) -> tuple[Array, Array]:
    """Return the lattice index (n, dim) of the first node around points (n, dim) [m], and their
    positions (n, dim) [cells] from it."""
    base = np.floor(points / cell - 0.5)
    return base.astype(np.int64), points / cell - base


def _nodes_and_weights(base: Array, f: Array) -> tuple[Array, Array]:
    """Return the lattice indices (n, m, dim) of all nodes around points, and their weights (n,
    m)."""
    dim = base.shape[1]
    steps = np.stack(np.meshgrid(*[np.arange(3)] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    axes = np.stack(spline_weights.py_func(f), axis=-1)  # (n, dim, 3)
    weights = np.prod([axes[:, i, steps[:, i]] for i in range(dim)], axis=0)
    return base[:, None] + steps, weights


def _offsets(at: Array, points: Array, normals: Array) -> Array:
    """Return the distances (k, 2) [m] of positions `at` from the nearest of some surface points,
    along its normal and beside it."""
    _, nearest = cKDTree(points).query(at)
    away, n = at - points[nearest], normals[nearest]
    depth = np.sum(away * n, axis=1)
    return np.stack([depth, np.linalg.norm(away - depth[:, None] * n, axis=1)], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceGrid:
    """A body of grid nodes around particles at rest. A node is free if it carries mass. The motion
    of the others, which the splines of points near the surface also reach, is an affine
    extrapolation of free nodes. Raises InputError for a body of several parts."""

    particles: Particles
    cell: float  # [m]
    supports: Sequence[Support] = ()  # their surfaces have nodes on them

    def __post_init__(self) -> None:
        mesh = self.particles.mesh
        links = sp.csr_matrix(
            (
                np.ones(mesh.cells.size),
                (np.repeat(np.arange(len(mesh.cells)), mesh.cells.shape[1]), mesh.cells.ravel()),
            ),
            shape=(len(mesh.cells), len(mesh.points)),
        )
        parts = sp.csgraph.connected_components(links @ links.T)[0]
        if parts > 1:
            raise InputError(
                f"The body has {parts} separate parts, which a grid of the rest shape would join; "
                'take transfer="updated".'
            )
        self.arrays  # noqa: B018

    # The particles

    @property
    def dim(self) -> int:
        return self.particles.dim

    @property
    def mesh(self) -> Mesh:
        return self.particles.mesh

    @property
    def samples(self) -> ParticleSamples:
        return self.particles.samples

    @property
    def thickness(self) -> float:
        return self.particles.thickness

    @property
    def n_particles(self) -> int:
        return self.particles.n_particles

    @property
    def fields(self) -> MaterialFields:
        return self.particles.fields

    @property
    def materials(self) -> Mapping[str, Any]:
        return self.particles.materials

    @property
    def material_cells(self) -> Mapping[str, Array]:
        return self.particles.material_cells

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.particles.cell_regions

    @property
    def bounds(self) -> Mapping[str, tuple[float, float, str]]:
        return self.particles.bounds

    @property
    def rest_neighbours(self) -> Array:
        return self.particles.rest_neighbours

    def particle_data(self, fields: MaterialFields, volumes: Array | None = None) -> ParticleData:
        return self.particles.particle_data(fields, volumes)

    def spacing(self) -> float:
        return self.particles.spacing()

    def cell_size(self) -> float:
        return self.particles.cell_size()

    def cell_centres(self) -> Array:
        return self.particles.cell_centres()

    def volumes(self) -> Array:
        return self.particles.volumes()

    # The nodes

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    @cached_property
    def _stencils(self) -> tuple[Array, Array]:
        return self._stencils_of(self.samples.points)

    def _stencils_of(self, points: Array) -> tuple[Array, Array]:
        return _stencils(points - self.origin, self.cell)

    @cached_property
    def origin(self) -> Array:
        """A node (dim,) [m]. Along each axis it is on a supported surface that is normal to it, or
        at the lower end of the body: the grid fits the body best with nodes on its surface."""
        out = self.mesh.points.min(axis=0).astype(float)
        for support in reversed(self.supports):
            if support.region in self.mesh.surfaces:
                points, normals, _ = surface_points(self.particles, support.region, self.cell)
                for axis in np.flatnonzero(np.abs(normals).min(axis=0) > 0.999):
                    if np.ptp(points[:, axis]) < 1e-3 * self.cell:
                        out[axis] = points[0, axis]
        return out

    @cached_property
    def box(self) -> GridBox:
        """The lattice nodes around all particles."""
        base = self._stencils[0]
        low, size = base.min(axis=0), np.ptp(base, axis=0) + 3
        o, n = low.tolist(), size.tolist()
        return GridBox(*o, *n) if self.dim == 3 else GridBox(o[0], o[1], 0, n[0], n[1], 1)

    def rows(self, index: Array) -> Array:
        """Return the flat indices in the box of lattice nodes (..., dim)."""
        low, size = np.array(self.box[:3])[: self.dim], np.array(self.box[3:])[: self.dim]
        return np.ravel_multi_index(tuple(np.moveaxis(index - low, -1, 0)), tuple(size))

    @cached_property
    def _node_sets(self) -> tuple[Array, Array]:
        """The rows of the free nodes and of those that follow them, in increasing order."""
        base, f = self._stencils
        nodes, weights = _nodes_and_weights(base, f)
        rows, size = self.rows(nodes), int(np.prod(self.box[3:]))
        mass = np.bincount(rows.ravel(), (weights * self.volumes()[:, None]).ravel(), size)
        heaviest = mass[rows].max(axis=1)
        least = np.full(size, np.inf)
        np.minimum.at(least, rows, heaviest[:, None])
        reached = np.isfinite(least)
        free = reached & (mass > LIGHT_FRACTION * np.where(reached, least, 0.0))
        free |= (mass > 1e-6 * mass.max()) & self._is_held(np.arange(size))  # they do not move
        return np.flatnonzero(free), np.flatnonzero(reached & ~free)

    def _is_held(self, rows: Array) -> Array:
        """Return whether nodes of the box are held along every axis, in the layer of nodes nearest
        to a surface."""
        out, at = np.zeros(len(rows), bool), self._at(rows)
        for support in self.supports:
            if support.region in self.mesh.surfaces and set("xyz"[: self.dim]) <= set(support.axes):
                points, normals, _ = surface_points(self.particles, support.region, self.cell)
                depth, beside = np.abs(_offsets(at, points, normals)).T
                out |= (depth <= HALF_LAYER * self.cell) & (beside <= HOLD_MARGIN * self.cell)
        return out

    def _at(self, rows: Array) -> Array:
        """Return the rest positions (k, dim) [m] of rows of the box."""
        return self.origin + self.cell * self._lattice(rows)

    def _lattice(self, rows: Array) -> Array:
        """Return the lattice indices (k, dim) of rows of the box."""
        size = np.array(self.box[3:])[: self.dim]
        return np.stack(np.unravel_index(rows, tuple(size)), axis=1) + np.array(
            self.box[: self.dim]
        )

    @cached_property
    def nodes(self) -> Array:
        """The free nodes (n_nodes, dim) [m] at rest."""
        return self._at(self._node_sets[0])

    @cached_property
    def rest(self) -> Array:
        return self.nodes.ravel()

    @property
    def is_position(self) -> Array:
        return np.ones(self.n_nodes, bool)

    @cached_property
    def tree(self) -> cKDTree:
        """A search tree of the free nodes at rest."""
        return cKDTree(self.nodes)

    def _extrapolation(self, points: Array) -> sp.csr_matrix:
        """Return weights (k, n_nodes) that extrapolate affine functions of the free nodes to points
        (k, dim) [m]."""
        rows, cols, data = [], [], []
        for k, x in enumerate(points):
            near, radius = self._nodes_around(x)
            rows += [k] * len(near)
            cols += near.tolist()
            data += affine_weights(self.nodes[near] - x, radius).tolist()
        return sp.csr_matrix((data, (rows, cols)), shape=(len(points), self.n_nodes))

    def _nodes_around(self, x: Array) -> tuple[Array, float]:
        """Return free nodes near a point that are not all in one plane, unless all are, and the
        radius [m] in which they are."""
        radius = EXTRAPOLATION_RADIUS * self.cell
        while True:
            near = np.sort(np.array(self.tree.query_ball_point(x, radius), dtype=np.int64))
            if len(near) > self.dim or len(near) == self.n_nodes:
                away = self.nodes[near] - self.nodes[near].mean(axis=0)
                flat = np.linalg.svd(away, compute_uv=False)[-1] < 0.5 * self.cell
                if not flat or radius > 2.0 * EXTRAPOLATION_RADIUS * self.cell:
                    return near, radius
            radius *= 1.25

    def interpolation(self, points: Array) -> sp.csr_matrix:
        """Return the weights (k, n_nodes) of points (k, dim) [m] at rest."""
        nodes, weights = _nodes_and_weights(*self._stencils_of(points))
        return self._on_free_nodes(nodes, weights)

    def _on_free_nodes(self, nodes: Array, values: Array) -> sp.csr_matrix:
        """Return the matrix (k, n_nodes) of values (k, m) at lattice nodes (k, m, dim)."""
        distinct, which = np.unique(nodes.reshape(-1, self.dim), axis=0, return_inverse=True)
        number = {tuple(index): a for a, index in enumerate(self._lattice(self._node_sets[0]))}
        found = np.array([number.get(tuple(index), -1) for index in distinct])
        known, other = np.flatnonzero(found >= 0), np.flatnonzero(found < 0)
        place = sp.csr_matrix(
            (np.ones(len(known)), (known, found[known])), shape=(len(distinct), self.n_nodes)
        )
        if len(other):
            spread = sp.csr_matrix(
                (np.ones(len(other)), (other, np.arange(len(other)))),
                shape=(len(distinct), len(other)),
            )
            place = place + spread @ self._extrapolation(self.origin + self.cell * distinct[other])
        rows = np.repeat(np.arange(len(values)), values.shape[1])
        at = sp.csr_matrix(
            (values.ravel(), (rows, which.ravel())), shape=(len(values), len(distinct))
        )
        return (at @ place).tocsr()

    @cached_property
    def weights(self) -> sp.csr_matrix:
        """The weights (n_particles, n_nodes) of the particles."""
        return self.interpolation(self.samples.points)

    @cached_property
    def gradient_rows(self) -> sp.csr_matrix:
        """The matrix (n_particles dim, n_nodes) [1/m] from a field of the nodes to its gradient at
        the particles: the moving-least-squares gradient of the splines."""
        base, f = self._stencils
        nodes, weights = _nodes_and_weights(base, f)
        away = self.origin + self.cell * nodes - self.samples.points[:, None]
        slopes = 4.0 / self.cell**2 * weights[..., None] * away  # (n, m, dim)
        return self._on_free_nodes(
            np.repeat(nodes, self.dim, axis=0),
            np.swapaxes(slopes, 1, 2).reshape(-1, weights.shape[1]),
        )

    def deformation(self, q: Array) -> Array:
        """Return the deformation gradients (n_particles, dim, dim) for node positions (n_dofs,)."""
        columns = self.gradient_rows @ q.reshape(-1, self.dim)
        return np.swapaxes(columns.reshape(-1, self.dim, self.dim), 1, 2)

    def node_masses(self, mass: Array) -> Array:
        """Return the masses (n_nodes,) [kg] of the nodes for those of the particles."""
        return self.weights.T @ mass

    @cached_property
    def heights(self) -> Array:
        """The distances (n_nodes,) [m] of the nodes outside the body at rest from its surface; zero
        inside."""
        points, normals, spacing = surface_points(self.particles, None, self.cell)
        depth, beside = _offsets(self.nodes, points, normals).T
        height = np.where(beside < spacing, depth, np.hypot(depth, beside))
        return np.where(depth > 0.0, height, 0.0)

    # Compiled loops

    @cached_property
    def order(self) -> Array:
        """The particles slab after slab and, in a slab, node after node, as the loops take
        them."""
        base = self._stencils[0] - np.array(self.box[: self.dim])
        slabs = -(-self.box.nx // SLAB_WIDTH)
        number = base[:, 0] // SLAB_WIDTH
        slab = number // 2 + (number % 2) * ((slabs + 1) // 2)
        return np.lexsort((*base.T[::-1], slab))

    @cached_property
    def arrays(self) -> ReferenceArrays:
        base, f = (part[self.order] for part in self._stencils)
        at = np.zeros((len(f), 3))
        at[:, : self.dim] = f
        free, other = self._node_sets
        to_followers = self._extrapolation(self._at(other))
        to_free = to_followers.T.tocsr()
        return ReferenceArrays(
            first=self.rows(base),
            at=at,
            node_row=free,
            follower_row=other,
            start=to_followers.indptr.astype(np.int64),
            node=to_followers.indices.astype(np.int64),
            weight=to_followers.data,
            back_start=to_free.indptr.astype(np.int64),
            follower=other[to_free.indices],
            back_weight=to_free.data,
        )

    def cuts(self, threads: int) -> Array:
        """Return, for each colour and thread, where the thread starts in `order`. `threads` is the
        current number."""
        if threads not in self._cuts:
            self._cuts[threads] = self._balanced()
        return self._cuts[threads]

    @cached_property
    def _cuts(self) -> dict[int, Array]:
        return {}

    def _balanced(self) -> Array:
        bins = empty_bins(self.n_particles, self.box)
        points = np.ascontiguousarray(self.samples.points[self.order] - self.origin)
        sort_particles(points, self.box, self.dim, 1.0 / self.cell, bins)
        return bins.cuts

    # Attachments

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return the weights (k, n_nodes) of material points (k, dim) [m] of the rest shape. They
        are exact for affine motions."""
        return self.interpolation(self.particles.surface_snapped(points))

    @property
    def attachment_box(self) -> tuple[Array, Array]:
        return self.particles.attachment_box

    def weight_gradients(self, points: Array) -> list[sp.csr_matrix]:
        """Return the derivatives (k, n_nodes) [1/m] of the weights of `locate` by each coordinate
        of their points (k, dim) [m]."""
        base, f = self._stencils_of(self.particles.surface_snapped(points))
        out = []
        for unit in np.eye(self.dim):
            nodes, weights = _nodes_and_weights(base, f + 1j * COMPLEX_STEP * unit)
            out.append(self._on_free_nodes(nodes, weights.imag / (COMPLEX_STEP * self.cell)))
        return out

    def region(self, name: str) -> Array:
        """Return the nodes around the particles of a region, or those that interpolate a
        surface."""
        if name in self.samples.regions:
            return np.unique(self.weights[self.samples.regions[name]].indices).astype(np.int64)
        return np.flatnonzero(np.abs(self.node_areas(name)) > 1e-12 * self.cell ** (self.dim - 1))

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return the part (n_nodes,) [m^2] of a named surface's area (default: the boundary) of
        each node. If lumped, the nearest node gets it, so all are positive."""
        facets = self.mesh.boundary() if name is None else self.mesh.facets(name)
        depth = self.thickness if self.dim == 2 else 1.0
        corners, share = np.unique(facets), np.zeros(len(self.mesh.points))
        parts = facet_node_weights(self.mesh.points[facets], lumped=lumped)
        np.add.at(share, facets.ravel(), parts.ravel())
        at = self.mesh.points[corners]
        if lumped:
            return depth * np.bincount(self.tree.query(at)[1], share[corners], self.n_nodes)
        return depth * (self.interpolation(at).T @ share[corners])

    def node_volumes(self, cells: Array) -> Array:
        """Return the volumes (n_nodes,) [m^3] of some particles at each node."""
        return self.weights.T @ self.particles.node_volumes(cells)
