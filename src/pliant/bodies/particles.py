"""A body of material points for the material point method: what each weighs, and what hangs on
which."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.spatial import cKDTree

from pliant.bodies.body import Fields, material_of_cells
from pliant.bodies.elements import facet_shares
from pliant.bodies.grid import Cloud, matrix
from pliant.core import Array, InputError, require_positive
from pliant.geometry import Mesh
from pliant.geometry.cells import shape_values
from pliant.geometry.sampling import Seeds
from pliant.kernels import det
from pliant.materials import LAWS, Material, moduli, moduli_slope

NEIGHBOURS = 1.6  # spacings: how far a material point looks for the particles that carry it


@dataclass(frozen=True, kw_only=True, eq=False)
class Particles:
    """Points of a mesh with the volume each stands for. `materials` names regions of the mesh,
    together all of it, as for a Solid."""

    mesh: Mesh
    seeds: Seeds
    materials: Mapping[str, Material]
    thickness: float = 1.0  # [m] out-of-plane depth of a plane body; not looked at in 3D
    snap: float | None = None  # [m] see Mesh.locate

    def __post_init__(self) -> None:
        require_positive("The thickness", self.thickness, "m")
        if (self._owner < 0).any():
            bad = int(np.argmin(self._owner))
            raise InputError(
                f"{(self._owner < 0).sum()} of {len(self._owner)} particles have no material "
                f"(first: particle {bad}). Name one for each region of the mesh: "
                f"{', '.join(self.mesh.regions)}."
            )

    @property
    def dim(self) -> int:
        return self.mesh.dim

    @property
    def n_particles(self) -> int:
        return len(self.seeds.points)

    @cached_property
    def rest(self) -> Array:
        return np.array(self.seeds.points).ravel()

    @property
    def is_place(self) -> Array:
        return np.ones(self.n_particles, bool)

    @cached_property
    def _owner(self) -> Array:
        return material_of_cells(self.materials, self.seeds.regions, self.n_particles)

    @cached_property
    def groups(self) -> dict[str, Array]:
        return {name: np.flatnonzero(self._owner == k) for k, name in enumerate(self.materials)}

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.seeds.regions

    def _pick(self, key: str) -> Array:
        return np.array([getattr(m, key) for m in self.materials.values()])[self._owner]

    @cached_property
    def fields(self) -> Fields:
        return Fields(
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

    def cloud(self, fields: Fields, volumes: Array | None = None) -> Cloud:
        """What the compiled loops read, for fields and (None: at rest) volumes [m^3] of each
        particle."""
        volumes, by_nu = (
            self.volumes() if volumes is None else volumes,
            moduli_slope(fields.E, fields.nu, fields.power),
        )
        law = np.array([LAWS[m.law] for m in self.materials.values()])[self._owner]
        return Cloud(
            fields.density * volumes,
            volumes,
            law,
            fields.power.astype(np.int64),
            fields.moduli,
            moduli(1.0 + 0.0 * fields.E, fields.nu, fields.power),
            by_nu,
        )

    def spacing(self) -> float:
        """[m] from a particle to its neighbour at rest."""
        return float(np.mean(self.seeds.volumes) ** (1.0 / self.dim))

    def cell_size(self) -> float:
        return self.spacing()

    def hardness(self) -> float:
        """[Pa/m] E / spacing of the stiffest material, a scale for springs on particles."""
        return float(self.fields.E.max()) / self.spacing()

    def cell_centres(self) -> Array:
        return self.seeds.points

    def volumes(self) -> Array:
        """(n_particles,) [m^3]"""
        return self.seeds.volumes * (self.thickness if self.dim == 2 else 1.0)

    @cached_property
    def tree(self) -> cKDTree:
        """To find particles by their place at rest."""
        return cKDTree(self.seeds.points)

    def locate(self, points: Array) -> sp.csr_matrix:
        """(k, n_particles) the moving-least-squares interpolation to material points (k, dim) [m]
        of the rest shape: exact for affine motions, so that a force spread by it keeps its size and
        its moment. Points up to `snap` outside are moved to the surface."""
        cells, bary = self.mesh.locate(points, snap=self.snap)
        nodes = self.mesh.points[self.mesh.cells[cells]]
        at = np.einsum("ka,kai->ki", shape_values(bary, self.mesh.order), nodes)
        rows, cols, data = [], [], []
        for k, x in enumerate(at):
            near = self._around(x)
            rows += [k] * len(near)
            cols += near.tolist()
            data += _affine_shares(self.seeds.points[near] - x).tolist()
        return sp.csr_matrix((data, (rows, cols)), shape=(len(at), self.n_particles))

    def _around(self, x: Array) -> Array:
        """The particles near a point that carry it: enough of them, and not all in one plane,
        unless the body is that thin."""
        radius = NEIGHBOURS * self.spacing()
        while True:
            near = np.sort(np.array(self.tree.query_ball_point(x, radius), dtype=np.int64))
            if len(near) >= min(2 * (self.dim + 1), self.n_particles):
                away = self.seeds.points[near] - self.seeds.points[near].mean(axis=0)
                if (
                    radius > 2.0 * NEIGHBOURS * self.spacing()
                    or np.linalg.svd(away, compute_uv=False)[-1] > 0.5 * self.spacing()
                ):
                    return near
            radius *= 1.25

    def region(self, name: str) -> Array:
        """Particles of a region, or those that carry a surface."""
        if name in self.seeds.regions:
            return self.seeds.regions[name]
        return np.flatnonzero(np.abs(self.patch(name)) > 1e-12 * self.spacing() ** (self.dim - 1))

    def patch(self, name: str | None, *, even: bool = False) -> Array:
        """(n_particles,) [m^2] the share of each particle of a named surface's area (None: the
        whole boundary). `even` gives every share to the nearest particles, all of them positive."""
        facets = self.mesh.boundary() if name is None else self.mesh.facets(name)
        depth = self.thickness if self.dim == 2 else 1.0
        nodes, share = np.unique(facets), np.zeros(len(self.mesh.points))
        np.add.at(share, facets.ravel(), facet_shares(self.mesh.points[facets], even=even).ravel())
        at = self.mesh.points[nodes]
        if even:
            return depth * np.bincount(
                self.tree.query(at)[1], share[nodes], minlength=self.n_particles
            )
        return depth * (self.locate(at).T @ share[nodes])

    def bulk(self, cells: Array) -> Array:
        """(n_particles,) [m^3] the volumes of some particles, zero elsewhere."""
        out = np.zeros(self.n_particles)
        out[cells] = self.volumes()[cells]
        return out

    @cached_property
    def bonds(self) -> Array:
        """(k, 2) particles that are neighbours at rest."""
        return self.tree.query_pairs(1.1 * self.spacing(), output_type="ndarray")


def _affine_shares(away: Array) -> Array:
    """(k,) weights of points at `away` (k, dim) [m] that give back every affine function at the
    origin, largest for the near ones; of points in one plane every function affine in it."""
    size = np.linalg.norm(away, axis=1)
    reach = max(float(size.max()), 1e-300)
    weight = (1.0 - 0.9 * size / reach) ** 2
    middle = weight @ away / weight.sum()
    basis = np.column_stack([np.ones(len(away)), (away - middle) / reach])
    moment = basis.T @ (weight[:, None] * basis)
    return weight * (
        basis
        @ (np.linalg.pinv(moment, rcond=1e-10, hermitian=True) @ np.append(1.0, -middle / reach))
    )


@njit(error_model="numpy", cache=True)
def soundness(place, F, bonds):
    """(least det F, whose it is, largest distance [m] of two neighbours, which bond) of places (n,
    dim) and F (n, dim^2)."""
    least, who, gap, which, dim = np.inf, 0, 0.0, 0, place.shape[1]
    for p in range(len(place)):
        J = det(matrix(F, p, dim, 1.0))
        if least > J:
            least, who = J, p
    for b in range(len(bonds)):
        away = 0.0
        for i in range(dim):
            away += (place[bonds[b, 0], i] - place[bonds[b, 1], i]) ** 2
        if away > gap:
            gap, which = away, b
    return least, who, np.sqrt(gap), which
