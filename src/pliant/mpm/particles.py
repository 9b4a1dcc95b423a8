"""A body of particles for the material point method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.spatial import cKDTree

from pliant.bodies.assembly import COMPLEX_STEP
from pliant.bodies.body import MaterialFields, material_of_cells
from pliant.bodies.elements import facet_node_weights
from pliant.core import Array, InputError, counted_of, require_positive
from pliant.geometry import Mesh
from pliant.geometry.cells import shape_values
from pliant.geometry.particle_sampling import ParticleSamples
from pliant.kernels import det
from pliant.materials import LAWS, Material, moduli, moduli_nu_derivative
from pliant.mpm.grid import ParticleData, matrix

NEIGHBOUR_RADIUS = 1.6  # [spacings] within which particles interpolate a material point


@dataclass(frozen=True, kw_only=True, eq=False)
class Particles:
    """Particles of a mesh, each with its volume. `materials` maps regions, which together cover the
    mesh, to materials. Raises InputError for particles without material."""

    mesh: Mesh
    samples: ParticleSamples
    materials: Mapping[str, Material]
    thickness: float = 1.0  # [m] out-of-plane depth of a 2D body; unused in 3D
    snap: float | None = None  # [m] see Mesh.locate
    # the particles that points are attached to, if these are the same in a changed shape
    reference: "Particles | None" = None

    def __post_init__(self) -> None:
        require_positive("The thickness", self.thickness, "m")
        if (self._owner < 0).any():
            bad, missing = int(np.argmin(self._owner)), int((self._owner < 0).sum())
            raise InputError(
                f"{counted_of(missing, len(self._owner), 'particle', ('has', 'have'))} no material "
                f"(first: particle {bad}). Name one for each region of the mesh: "
                f"{', '.join(self.mesh.regions)}."
            )

    @property
    def dim(self) -> int:
        return self.mesh.dim

    @property
    def n_particles(self) -> int:
        return len(self.samples.points)

    @cached_property
    def rest(self) -> Array:
        return np.array(self.samples.points).ravel()

    @property
    def is_position(self) -> Array:
        return np.ones(self.n_particles, bool)

    @cached_property
    def _owner(self) -> Array:
        return material_of_cells(self.materials, self.samples.regions, self.n_particles)

    @cached_property
    def material_cells(self) -> dict[str, Array]:
        return {name: np.flatnonzero(self._owner == k) for k, name in enumerate(self.materials)}

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.samples.regions

    def _pick(self, key: str) -> Array:
        return np.array([getattr(m, key) for m in self.materials.values()])[self._owner]

    @cached_property
    def fields(self) -> MaterialFields:
        return MaterialFields(
            E=self._pick("E").astype(float),
            nu=self._pick("nu").astype(float),
            density=self._pick("density").astype(float),
            power=self._pick("power"),
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {
            "E": (0.0, np.inf, "Pa"),
            "nu": (-1.0, 0.5, "-"),
            "density": (0.0, np.inf, "kg/m^3"),
        }

    def particle_data(self, fields: MaterialFields, volumes: Array | None = None) -> ParticleData:
        """Return the data of the compiled loops, for fields and volumes [m^3] of each particle
        (default: at rest)."""
        volumes, by_nu = (
            self.volumes() if volumes is None else volumes,
            moduli_nu_derivative(fields.E, fields.nu, fields.power),
        )
        law = np.array([LAWS[m.law] for m in self.materials.values()])[self._owner]
        return ParticleData(
            fields.density * volumes,
            volumes,
            law,
            fields.power.astype(np.int64),
            fields.moduli,
            moduli(1.0 + 0.0 * fields.E, fields.nu, fields.power),
            by_nu,
            np.full(self.n_particles, -1),
        )

    def spacing(self) -> float:
        """Return the distance [m] of neighbours at rest."""
        return float(np.mean(self.samples.volumes) ** (1.0 / self.dim))

    def cell_size(self) -> float:
        return self.spacing()

    def cell_centres(self) -> Array:
        return (self.reference or self).samples.points

    def volumes(self) -> Array:
        """Return the volumes (n_particles,) [m^3] at rest."""
        return self.samples.volumes * (self.thickness if self.dim == 2 else 1.0)

    @cached_property
    def tree(self) -> cKDTree:
        """A search tree of the particles at rest."""
        return cKDTree(self.samples.points)

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return the moving-least-squares weights (k, n_particles) of material points (k, dim) [m]
        of the rest shape. They are exact for affine motions, so a distributed force keeps its
        resultant and moment. Points up to `snap` outside are moved to the surface. The points are
        those of the reference."""
        if self.reference is not None:
            return self.reference.locate(points)
        return self._interpolation(self.surface_snapped(points), affine_weights)

    @property
    def attachment_box(self) -> tuple[Array, Array]:
        points = (self.reference or self).mesh.points
        return points.min(axis=0), points.max(axis=0)

    def weight_gradients(self, points: Array) -> list[sp.csr_matrix]:
        """Return the derivatives (k, n_particles) [1/m] of the weights of `locate` by each
        coordinate of their points (k, dim) [m]."""
        if self.reference is not None:
            return self.reference.weight_gradients(points)
        at = self.surface_snapped(points)
        return [
            self._interpolation(at, partial(affine_weight_gradient, axis=axis))
            for axis in range(self.dim)
        ]

    def surface_snapped(self, points: Array) -> Array:
        """Return points (k, dim) [m], moved to the surface if they are up to `snap` outside. Raises
        `InputError` for those farther away."""
        cells, bary = self.mesh.locate(points, snap=self.snap)
        nodes = self.mesh.points[self.mesh.cells[cells]]
        return np.einsum("ka,kai->ki", shape_values(bary, self.mesh.order), nodes)

    def _interpolation(self, at: Array, weights: Callable[[Array, float], Array]) -> sp.csr_matrix:
        """Return the matrix (k, n_particles) of the `weights` of the particles near each point,
        which depend on their distances (n, dim) [m] from it and on the radius [m] in which they
        are."""
        rows, cols, data = [], [], []
        for k, x in enumerate(at):
            near, radius = self._interpolating_particles(x)
            rows += [k] * len(near)
            cols += near.tolist()
            data += weights(self.samples.points[near] - x, radius).tolist()
        return sp.csr_matrix((data, (rows, cols)), shape=(len(at), self.n_particles))

    def _interpolating_particles(self, x: Array) -> tuple[Array, float]:
        """Return the particles near a point that interpolate it, and the radius [m] in which they
        are: enough of them, and not all in one plane, unless the body is that thin."""
        radius = NEIGHBOUR_RADIUS * self.spacing()
        while True:
            near = np.sort(np.array(self.tree.query_ball_point(x, radius), dtype=np.int64))
            if len(near) >= min(2 * (self.dim + 1), self.n_particles):
                away = self.samples.points[near] - self.samples.points[near].mean(axis=0)
                if (
                    radius > 2.0 * NEIGHBOUR_RADIUS * self.spacing()
                    or np.linalg.svd(away, compute_uv=False)[-1] > 0.5 * self.spacing()
                ):
                    return near, radius
            radius *= 1.25

    def region(self, name: str) -> Array:
        """Return the particles of a region, or those that interpolate a surface."""
        if name in self.samples.regions:
            return self.samples.regions[name]
        return np.flatnonzero(
            np.abs(self.node_areas(name)) > 1e-12 * self.spacing() ** (self.dim - 1)
        )

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return the part (n_particles,) [m^2] of a named surface's area (default: the boundary) of
        each particle. With `even`, the nearest particle gets it, so all are positive."""
        facets = self.mesh.boundary() if name is None else self.mesh.facets(name)
        depth = self.thickness if self.dim == 2 else 1.0
        nodes, share = np.unique(facets), np.zeros(len(self.mesh.points))
        np.add.at(
            share,
            facets.ravel(),
            facet_node_weights(self.mesh.points[facets], lumped=lumped).ravel(),
        )
        home = self.reference or self
        at = home.mesh.points[nodes]
        if lumped:
            return depth * np.bincount(
                home.tree.query(at)[1], share[nodes], minlength=self.n_particles
            )
        return depth * (self.locate(at).T @ share[nodes])

    def node_volumes(self, cells: Array) -> Array:
        """Return the volumes (n_particles,) [m^3] of some particles, zero elsewhere."""
        out = np.zeros(self.n_particles)
        out[cells] = self.volumes()[cells]
        return out

    @cached_property
    def rest_neighbours(self) -> Array:
        """The pairs (k, 2) of particles that are neighbours at rest."""
        if self.reference is not None:
            return self.reference.rest_neighbours
        return self.tree.query_pairs(1.1 * self.spacing(), output_type="ndarray")


def affine_weights(away: Array, radius: float) -> Array:
    """Return weights (k,) of points at `away` (k, dim) [m], in a radius [m], that reproduce affine
    functions at the origin, larger for closer points. For points in a plane, functions affine in
    it."""
    weight, basis, target = _weighted_basis(away, radius)
    return weight * (basis @ (_moment_inverse(weight, basis) @ target))


def affine_weight_gradient(away: Array, radius: float, *, axis: int) -> Array:
    """Return the derivative (k,) [1/m] of `affine_weights` by a coordinate of the origin."""
    shift = COMPLEX_STEP * np.eye(away.shape[1])[axis]
    weight, basis, target = _weighted_basis(away - 1j * shift, radius)
    moment = (basis.T @ (weight[:, None] * basis)).imag
    inverse = _moment_inverse(weight.real, basis.real)
    solution = inverse @ target.real
    change = inverse @ (target.imag - moment @ solution)
    by_moment = weight.real * (basis.real @ change)
    return ((weight * (basis @ solution)).imag + by_moment) / COMPLEX_STEP


def _weighted_basis(away: Array, radius: float) -> tuple[Array, Array, Array]:
    """Return the weights (k,) of points at `away` (k, dim) [m], the affine functions (k, dim + 1)
    of their place and the values (dim + 1,) of these functions at the origin."""
    squares = np.einsum("ki,ki->k", away, away)
    size = np.sqrt(np.where(squares.real > 0.0, squares, 0.0))
    weight = (1.0 - 0.9 * size / radius) ** 2
    middle = weight @ away / weight.sum()
    basis = np.column_stack([np.ones(len(away)), (away - middle) / radius])
    return weight, basis, np.append(1.0, -middle / radius)


def _moment_inverse(weight: Array, basis: Array) -> Array:
    """Return the pseudoinverse of the moment matrix (dim + 1, dim + 1)."""
    return np.linalg.pinv(basis.T @ (weight[:, None] * basis), rcond=1e-10, hermitian=True)


@njit(error_model="numpy", cache=True)
def extreme_particles(position: Any, F: Any, rest_neighbours: Any) -> Any:
    """Return the least det F and its particle, and the largest distance [m] of two neighbours and
    their index, for positions (n, dim) and F (n, dim^2)."""
    least, particle, gap, which, dim = np.inf, 0, 0.0, 0, position.shape[1]
    for p in range(len(position)):
        J = det(matrix(F, p, dim, 1.0))
        if least > J:
            least, particle = J, p
    for b in range(len(rest_neighbours)):
        away = 0.0
        for i in range(dim):
            away += (position[rest_neighbours[b, 0], i] - position[rest_neighbours[b, 1], i]) ** 2
        if away > gap:
            gap, which = away, b
    return least, particle, np.sqrt(gap), which
