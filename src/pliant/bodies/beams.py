"""Beams: slender rods with small strains and large rotations (corotational Timoshenko theory)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import COMPLEX_STEP, Viscosity
from pliant.bodies.body import NO_VISCOSITY, MaterialFields
from pliant.bodies.node_pairs import pair_block_sources, upper_triangle_nodes
from pliant.bodies.rod_stiffness import RodStiffness
from pliant.bodies.rod_strains import RodStrains
from pliant.core import Array
from pliant.geometry import Rods
from pliant.materials import DENSITY, YOUNGS_MODULUS, Material

MAX_ROTATION = 0.95 * 2.0 * np.pi  # [rad] rotation vectors are singular at a full turn
# of the angle between a section's normal and its rod: strains are not invertible at a right angle
MIN_COSINE = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Beams:
    """Elastic rods. Rods that share a point are welded there.

    The unknowns are nodes of three numbers: first the positions x_i [m] of the n points, then their
    rotation vectors theta_i [rad] from the rest orientation.

    `materials` maps parts of the rods to materials and must cover all rods; "body" means every rod.
    Only E, nu and the density are used: strains are small, so the stress is linear for every law.

    The translational mass matrix is consistent. The rotational inertia of the sections is lumped as
    (I_b + I_c) / 2 about every axis, so spinning about the rod's axis is not accurate. Contacts act
    on the axes, not on the surface around them. Rotations are limited to 0.95 of a full turn, and
    the end of a rod to less than a right angle from its chord.
    """

    strain_label: ClassVar[str] = "fibre strain"

    rods: Rods
    materials: Mapping[str, Material]
    snap: float | None = None  # [m] see Rods.locate

    def __post_init__(self) -> None:
        _ = self._material_index  # raises InputError for a rod without material

    @property
    def dim(self) -> int:
        return 3

    @property
    def _n(self) -> int:
        return len(self.rods.points)

    @cached_property
    def rest(self) -> Array:
        """Return the rest state (n_dofs,): the points [m], then zero rotations [rad]."""
        return np.concatenate([self.rods.points.ravel(), np.zeros(3 * self._n)])

    @cached_property
    def is_position(self) -> Array:
        return np.arange(2 * self._n) < self._n

    @cached_property
    def cell_nodes(self) -> Array:
        """Return the nodes (n_rods, 4) of each rod: the positions of both ends, then their
        rotations."""
        return np.concatenate([self.rods.rods, self._n + self.rods.rods], axis=1)

    @cached_property
    def rest_neighbours(self) -> Array:
        """The pairs (k, 2) of rods that share a point."""
        order = np.argsort(self.rods.rods, axis=None, kind="stable")
        points, owner = self.rods.rods.ravel()[order], order // 2
        common = points[1:] == points[:-1]
        return np.stack([owner[:-1][common], owner[1:][common]], axis=1)

    # Material

    @cached_property
    def _material_index(self) -> Array:
        return self.rods.assign_by_part("material", self.materials)

    @cached_property
    def material_cells(self) -> dict[str, Array]:
        return {
            name: np.flatnonzero(self._material_index == k) for k, name in enumerate(self.materials)
        }

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.rods.parts  # type: ignore[return-value]

    @cached_property
    def fields(self) -> MaterialFields:
        pick = lambda key: np.array([float(getattr(m, key)) for m in self.materials.values()])[
            self._material_index
        ]
        return MaterialFields(
            E=pick("E"),
            nu=pick("nu"),
            density=pick("density"),
            power=np.zeros(len(self._material_index), int),
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {
            "E": (0.0, YOUNGS_MODULUS.allowed[1], "Pa"),
            "nu": (-1.0, 0.5, "-"),
            "density": (0.0, DENSITY.allowed[1], "kg/m^3"),
        }

    @cached_property
    def rod_stiffness(self) -> RodStiffness:
        """Return the stiffness matrices of the rods."""
        return RodStiffness(rods=self.rods)

    def cell_size(self) -> float:
        """Return the mean length of a rod [m]."""
        return float(self.rods.lengths.mean())

    def cell_centres(self) -> Array:
        """Return the midpoint (n_rods, 3) [m] of each rod at rest."""
        return self.rods.points[self.rods.rods].mean(axis=1)

    def volumes(self) -> Array:
        """Return the volume (n_rods,) [m^3] of each rod."""
        return self.rod_stiffness.areas * self.rods.lengths

    # Regions and interpolation

    def locate(self, points: Array) -> sp.csr_matrix:
        """Return interpolation weights (k, n_nodes) of points (k, 3) [m] on the axes at rest."""
        rod, share = self.rods.locate(np.atleast_2d(points), snap=self.snap)
        rows, weights = np.repeat(np.arange(len(rod)), 2), np.stack([1.0 - share, share], axis=1)
        weights[weights < 1e-9] = 0.0
        out = sp.csr_matrix(
            (weights.ravel(), (rows, self.rods.rods[rod].ravel())), shape=(len(rod), 2 * self._n)
        )
        out.eliminate_zeros()
        return out

    def region(self, name: str) -> Array:
        """Return the position and rotation nodes of a region.

        The suffix " positions" or " rotations" selects one of the two.
        """
        for part, shifts in (("positions", (0,)), ("rotations", (self._n,))):
            base = name.removesuffix(f" {part}")
            if base != name and name not in self.rods.regions:
                return self.rods.region_points(base) + shifts[0]
        points = self.rods.region_points(name)
        return np.concatenate([points, self._n + points])

    def node_areas(self, name: str | None, *, lumped: bool = False) -> Array:
        """Return the outer area (n_nodes,) [m^2] of the rods that each position node carries.

        With a name, only the nodes of that region have an area.
        """
        share = self._sum_at_ends(0.5 * self.rod_stiffness.perimeters * self.rods.lengths)
        return (
            share
            if name is None
            else np.where(
                np.isin(np.arange(2 * self._n), self.rods.region_points(name)), share, 0.0
            )
        )

    def node_volumes(self, cells: Array) -> Array:
        """Return the volume (n_nodes,) [m^3] of some rods that each position node carries."""
        half = np.zeros(len(self.rods.rods))
        half[cells] = 0.5 * self.volumes()[cells]
        return self._sum_at_ends(half)

    def _sum_at_ends(self, half: Array) -> Array:
        """Add a value (n_rods,) of each rod to both of its position nodes; return (n_nodes,)."""
        return np.bincount(self.rods.rods.ravel(), np.repeat(half, 2), minlength=2 * self._n)

    def node_stiffness(self, nodes: Array) -> Array:
        """Return the stiffness (k,) of the stiffest rod at some nodes.

        It is EA / L [N/m] for a position and EI / L + GJ / L [N m/rad] for a rotation.
        """
        out = np.zeros(2 * self._n)
        for of_ends, stiffness in zip(
            (self.cell_nodes[:, :2], self.cell_nodes[:, 2:]),
            self.rod_stiffness.end_stiffness(self.fields),
            strict=True,
        ):
            np.maximum.at(out, of_ends, stiffness[:, None])
        return out[nodes]

    # Elasticity

    def _strains(self, q: Array) -> RodStrains:
        return RodStrains(
            ends=q.reshape(-1, 3)[self.cell_nodes], axes=self.rods.axes, lengths=self.rods.lengths
        )

    @cached_property
    def _pair_sources(self) -> tuple[Array, Array, Array, Array]:
        return pair_block_sources(self.cell_nodes, 2 * self._n)

    @property
    def pairs(self) -> Array:
        return self._pair_sources[0]

    @cached_property
    def _assembly(self) -> sp.csr_matrix:
        """Return the matrix (n_nodes, 4 n_rods) that adds the nodal forces of the rods."""
        flat = self.cell_nodes.ravel()
        return sp.csr_matrix(
            (np.ones(len(flat)), (flat, np.arange(len(flat)))), shape=(2 * self._n, len(flat))
        )

    def _gather(self, forces: Array) -> Array:
        """Return the global vector (n_dofs,) of rod forces (n_rods, 12)."""
        return (self._assembly @ forces.reshape(-1, 3)).ravel()

    def _on_rods(self, y: Array) -> Array:
        """Return the entries (n_rods, 12, 1) of a global vector at the ends of each rod."""
        return y.reshape(-1, 3)[self.cell_nodes].reshape(-1, 12, 1)

    def _stress(self, eps: Array, C: Array, viscous: Viscosity) -> tuple[Array, Array]:
        """Return the elastic and viscous stress resultants (n_rods, 6) and the strain rate (n_rods,
        6)."""
        rate = viscous.rate * eps + viscous.past if viscous.rate > 0.0 else np.zeros_like(eps)
        return _matvec(C, eps) + (
            _matvec(viscous.moduli, rate) if viscous.rate > 0.0 else 0.0
        ), rate

    def energy(
        self, q: Array, fields: MaterialFields, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[float, Array]:
        """Return the energy [J] and its gradient (n_dofs,) [N, N m].

        The energy is infinite if a rotation or the angle between an end and its chord is too large.
        """
        at, C = self._strains(q), self.rod_stiffness.matrices(fields)
        stress, rate = self._stress(at.strains, C, viscous)
        elastic = _matvec(C, at.strains)
        total = 0.5 * float(np.sum(at.strains * elastic))
        if viscous.rate > 0.0:
            total += 0.5 * float(np.sum(rate * (stress - elastic))) / viscous.rate
        return (np.inf if self._rotation_margin(q, at)[0] <= 0.0 else total), self._gather(
            _matvec(np.swapaxes(at.jacobian, 1, 2), stress)
        )

    def gradient(self, q: Array, fields: MaterialFields) -> Array:
        """Return the gradient (n_dofs,) [N, N m] of the elastic energy."""
        at = self._strains(q)
        return self._gather(
            _matvec(
                np.swapaxes(at.jacobian, 1, 2),
                _matvec(self.rod_stiffness.matrices(fields), at.strains),
            )
        )

    def _hessians(
        self, q: Array, fields: MaterialFields, viscous: Viscosity = NO_VISCOSITY
    ) -> Array:
        """Return the Hessian (n_rods, 12, 12) of the energy of each rod."""
        at, C = self._strains(q), self.rod_stiffness.matrices(fields)
        stress, _ = self._stress(at.strains, C, viscous)
        C = C + viscous.rate * viscous.moduli if viscous.rate > 0.0 else C
        return np.swapaxes(at.jacobian, 1, 2) @ (C @ at.jacobian) + at.weighted_hessian(stress)

    def stiffness(
        self,
        q: Array,
        fields: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
        *,
        project: bool = False,
    ) -> Array:
        """Return the blocks (n_pairs, 3, 3) of the energy's Hessian.

        `project` makes the Hessian of every rod positive semidefinite.
        """
        K = self._hessians(q, fields, viscous)
        if project:
            values, vectors = np.linalg.eigh(K)
            K = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        a, b = upper_triangle_nodes(4)
        _, start, source, flip = self._pair_sources
        blocks = K.reshape(-1, 4, 3, 4, 3)[:, a, :, b, :].swapaxes(0, 1).reshape(-1, 3, 3)[source]
        blocks[flip] = np.swapaxes(blocks[flip], 1, 2)
        return np.add.reduceat(blocks, start[:-1], axis=0)

    def gradient_and_stiffness(
        self, q: Array, fields: MaterialFields, viscosity: float
    ) -> tuple[Array, Array]:
        """Return the elastic gradient (n_dofs,) and the stiffness blocks (n_pairs, 3, 3).

        The stiffness includes `viscosity` [-] times the viscous stiffness at q.
        """
        viscous = (
            self.viscosity_at_velocity(fields, viscosity, 1.0, q, np.zeros_like(q))
            if viscosity > 0.0
            else NO_VISCOSITY
        )
        return self.gradient(q, fields), self.stiffness(q, fields, viscous)

    def stiffness_times(self, q: Array, fields: MaterialFields, y: Array) -> Array:
        """Return K(q) y, (n_dofs,) [N, N m], with the elastic stiffness K."""
        return self._gather(self._hessians(q, fields) @ self._on_rods(y))

    def stiffness_derivative(self, q: Array, fields: MaterialFields, y: Array, z: Array) -> Array:
        """Return the derivative (n_dofs,) of y^T K(q) z by q, by the complex step."""
        return self._gather(
            (self._hessians(q + 1j * COMPLEX_STEP * y, fields).imag / COMPLEX_STEP)
            @ self._on_rods(z)
        )

    def cell_stiffness_and_derivative(
        self, q: Array, fields: MaterialFields, w: Array
    ) -> tuple[Array, Array]:
        """Return the elastic stiffness of each rod and its derivative along w, (n_rods, 12, 12)
        each."""
        K = self._hessians(q + 1j * COMPLEX_STEP * w, fields)
        return K.real, K.imag / COMPLEX_STEP

    # Material derivatives

    def _stiffness_change(self, fields: MaterialFields, change: MaterialFields) -> Array:
        """Return the change (n_rods, 6, 6) of the section stiffness for a change of E and nu."""
        by_E, by_nu = self.rod_stiffness.derivatives(fields)
        return change.E[:, None, None] * by_E + change.nu[:, None, None] * by_nu

    def _linear_forces(self, at: RodStrains, C: Array, viscous: Viscosity) -> Array:
        """Return the elastic and viscous forces (n_rods, 12), which are linear in C (n_rods, 6,
        6)."""
        stress, _ = self._stress(at.strains, C, viscous._replace(moduli=viscous.time * C))
        return _matvec(np.swapaxes(at.jacobian, 1, 2), stress)

    def _linear_products(self, at: RodStrains, C: Array, y: Array) -> Array:
        """Return K y, (n_rods, 12), which is linear in C."""
        B = at.jacobian
        K = np.swapaxes(B, 1, 2) @ (C @ B) + at.weighted_hessian(_matvec(C, at.strains))
        return (K @ self._on_rods(y))[..., 0]

    def material_jvp(
        self,
        q: Array,
        fields: MaterialFields,
        change: MaterialFields,
        viscous: Viscosity = NO_VISCOSITY,
    ) -> Array:
        """Return the change (n_dofs,) of `gradient` for a change of E and nu in each rod."""
        return self._gather(
            self._linear_forces(self._strains(q), self._stiffness_change(fields, change), viscous)
        )

    def material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, viscous: Viscosity = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        """Return the derivative of y . gradient by E (n_rods,) and by nu (n_rods,)."""
        at, along = self._strains(q), self._on_rods(y)[..., 0]
        by_E, by_nu = (
            np.sum(along * self._linear_forces(at, C, viscous), axis=1)
            for C in self.rod_stiffness.derivatives(fields)
        )
        return by_E, by_nu

    def stiffness_material_jvp(
        self, q: Array, fields: MaterialFields, change: MaterialFields, y: Array
    ) -> Array:
        """Return the change (n_dofs,) of `stiffness_times` for a change of E and nu in each rod."""
        return self._gather(
            self._linear_products(self._strains(q), self._stiffness_change(fields, change), y)
        )

    def stiffness_material_vjp(
        self, q: Array, fields: MaterialFields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        """Return the derivative of y . K(q) z by E (n_rods,) and by nu (n_rods,)."""
        at, along = self._strains(q), self._on_rods(y)[..., 0]
        by_E, by_nu = (
            np.sum(along * self._linear_products(at, C, z), axis=1)
            for C in self.rod_stiffness.derivatives(fields)
        )
        return by_E, by_nu

    # Viscosity

    def viscosity_of_step(
        self, fields: MaterialFields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscosity:
        """Return the viscosity of a step with strain rate rates[0] eps(q') + sum_j rates[j]
        eps(levels[j - 1]).

        The Kelvin-Voigt model acts on the strains of the rods, so rigid motions are not damped.
        """
        past = sum(
            (r * self._strains(q).strains for r, q in zip(rates[1:], levels, strict=True)),
            np.zeros((len(self.rods.rods), 6)),
        )
        return Viscosity(
            float(rates[0]), float(time), time * self.rod_stiffness.matrices(fields), past
        )

    def viscosity_at_velocity(
        self, fields: MaterialFields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscosity:
        """Return the viscosity whose strain rate at q is that of a velocity."""
        at = self._strains(q)
        past = (at.jacobian @ self._on_rods(velocity))[..., 0] - rate * at.strains
        return Viscosity(float(rate), float(time), time * self.rod_stiffness.matrices(fields), past)

    def viscous_jvp(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        """Return the change (n_dofs,) of the viscous force at q for a change of `level`: B(q)^T C
        B(level) change."""
        strain_changes = self._strains(level).jacobian @ self._on_rods(change)
        return self._gather(
            np.swapaxes(self._strains(q).jacobian, 1, 2) @ (moduli @ strain_changes)
        )

    def viscous_derivative_jvp(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        """Return the directional derivative (n_dofs,) of viscous_jvp(q, q, w) by q."""
        return (
            self.viscous_jvp(
                q + 1j * COMPLEX_STEP * change, q + 1j * COMPLEX_STEP * change, w, moduli
            ).imag
            / COMPLEX_STEP
        )

    def viscous_derivative_vjp(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        """Return the derivative (n_dofs,) of y . viscous_jvp(q, q, w) by q."""
        at = self._strains(q)
        one, other = (
            at.weighted_hessian((moduli @ (at.jacobian @ self._on_rods(v)))[..., 0]) for v in (w, y)
        )
        return self._gather(one @ self._on_rods(y) + other @ self._on_rods(w))

    def cell_viscous_matrices(self, q: Array, level: Array, moduli: Array) -> Array:
        """Return `viscous_jvp` as a matrix (n_rods, 12, 12) of each rod."""
        return np.swapaxes(self._strains(q).jacobian, 1, 2) @ (
            moduli @ self._strains(level).jacobian
        )

    def cell_viscous_derivatives(self, q: Array, w: Array, moduli: Array) -> Array:
        """Return `viscous_derivative_jvp` as a matrix (n_rods, 12, 12) of each rod."""
        at, ahead = self._strains(q), self._strains(q + 1j * COMPLEX_STEP * w)
        first = np.swapaxes(at.jacobian, 1, 2) @ (moduli @ (ahead.jacobian.imag / COMPLEX_STEP))
        return first + at.weighted_hessian((moduli @ (at.jacobian @ self._on_rods(w)))[..., 0])

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
        part for each level, by the complex step of the first derivative.
        """
        at, along, C = self._strains(q + 1j * COMPLEX_STEP * dq), self._on_rods(y), viscous.moduli
        strain_changes = [
            self._strains(level + 1j * COMPLEX_STEP * change)
            for level, change in zip(levels, changes, strict=True)
        ]
        rate = sum(
            (r * a.strains for r, a in zip(rates, [at, *strain_changes], strict=True)),
            np.zeros((1, 6)),
        )
        stretched = C @ (at.jacobian @ along)
        by_q = at.weighted_hessian(_matvec(C, rate)) @ along + rates[0] * (
            np.swapaxes(at.jacobian, 1, 2) @ stretched
        )
        shares = [
            r * (np.swapaxes(a.jacobian, 1, 2) @ stretched)
            for r, a in zip(rates[1:], strain_changes, strict=True)
        ]
        return self._gather(by_q.imag / COMPLEX_STEP), [
            self._gather(share.imag / COMPLEX_STEP) for share in shares
        ]

    # Mass

    @cached_property
    def _unit_mass(self) -> Array:
        """Return the mass matrix (n_rods, 4, 4) [m^3, m^5] of each rod at density one."""
        out = np.zeros((len(self.rods.rods), 4, 4))
        out[:, :2, :2] = self.volumes()[:, None, None] / 6.0 * np.array([[2.0, 1.0], [1.0, 2.0]])
        out[:, 2, 2] = out[:, 3, 3] = (
            0.25 * self.rod_stiffness.moments.sum(axis=1) * self.rods.lengths
        )
        return out

    def mass(self, density: Array) -> Array:
        """Return the mass matrix entries (n_pairs,) [kg, kg m^2]."""
        a, b = upper_triangle_nodes(4)
        _, start, source, _ = self._pair_sources
        return np.add.reduceat(
            (density[:, None] * self._unit_mass[:, a, b]).ravel()[source], start[:-1]
        )

    def mass_vjp(self, y: Array, z: Array) -> Array:
        """Return the derivative (n_rods,) of y^T M z by the density."""
        Y, Z = (v.reshape(-1, 3)[self.cell_nodes] for v in (y, z))
        return np.sum(Y * (self._unit_mass @ Z), axis=(1, 2))

    # Limits and strains

    def _rotation_margin(self, q: Array, at: RodStrains) -> tuple[float, int]:
        """Return the smallest remaining fraction of the rotation and angle limits, and its rod."""
        turns = (
            1.0
            - np.linalg.norm(q.reshape(-1, 3)[self.cell_nodes[:, 2:]], axis=2).max(axis=1)
            / MAX_ROTATION
        )
        left = np.minimum(turns, at.cosines().min(axis=1) - MIN_COSINE)
        return float(left.min()), int(left.argmin())

    def inadmissible_cell(self, q: Array) -> tuple[float, int] | None:
        """Return (margin, rod) of the rod that exceeds a rotation limit most, or None."""
        margin, rod = self._rotation_margin(q, self._strains(q))
        return None if margin > 0.0 else (margin, rod)

    def limit_message(self, q: Array) -> str:
        """Return which rotation limit q is close to, or an empty string."""
        margin, rod = self._rotation_margin(q, self._strains(q))
        if margin > 0.05:
            return ""
        most = np.degrees(np.linalg.norm(q.reshape(-1, 3)[self.cell_nodes[rod, 2:]], axis=1).max())
        return (
            f"Rod {rod} has reached its rotation limit: an end is rotated by {most:.0f} of at most "
            f"{np.degrees(MAX_ROTATION):.0f} degrees, or is at a right angle to its rod; divide "
            "rods that bend strongly with refine(k), and stop before a full turn"
        )

    def strain(self, q: Array) -> Array:
        """Return the largest axial fibre strain (n_nodes,) [-] at each position node, for pictures.

        It is zero at rotation nodes.
        """
        forces = _matvec(self.rod_stiffness.matrices(self.fields), self._strains(q).strains)
        out = np.zeros(2 * self._n)
        np.maximum.at(
            out, self.rods.rods, self.rod_stiffness.max_fibre_strains(forces, self.fields)
        )
        return out


def _matvec(A: Array, x: Array) -> Array:
    """Return the product (m, i) of matrices (m, i, j) and vectors (m, j)."""
    return (A @ x[:, :, None])[..., 0]
