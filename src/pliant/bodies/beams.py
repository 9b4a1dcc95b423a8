"""Beams: rods that stretch, shear, bend and twist by little, and turn by much (Timoshenko,
corotational)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pliant.bodies.assembly import TINY, Viscous
from pliant.bodies.body import NO_VISCOSITY, Fields
from pliant.bodies.links import pair_links, upper_nodes
from pliant.bodies.rod_stiffness import RodStiffness
from pliant.bodies.rod_strains import RodStrains
from pliant.core import Array
from pliant.geometry import Rods
from pliant.materials import DENSITY, YOUNGS_MODULUS, Material

MOST_TURN = 0.95 * 2.0 * np.pi  # [rad] a rotation vector has no slope at a full turn
LEAST_COSINE = (
    0.02  # of the angle between a section and its rod: at a right angle the strains fold back
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Beams:
    """Elastic rods. The unknowns are "nodes" of three numbers, first the places x_i [m] of the n
    points, then their turns theta_i [rad], a rotation vector each from the rest orientation; rods
    that share a point are welded there.

    `materials` names parts of the rods, together all of them; "body" stands for every rod. Only E,
    nu and the density count: strains are small and the stress is linear in them, whatever the law.
    A rod carries the consistent mass of its length along its places; that of its sections is lumped
    to the turns as (I_b + I_c) / 2 about every axis, which is small beside it, so that spinning
    about the rod's own axis is not what beams are for. Contacts see the axes, not the surface
    around them. No point may turn by more than 0.95 of a full turn, no end of a rod by a right
    angle from its chord.
    """

    strain_label: ClassVar[str] = "fibre strain"

    rods: Rods
    materials: Mapping[str, Material]
    snap: float | None = None  # [m] see Rods.locate

    def __post_init__(self) -> None:
        _ = self._owner  # a rod without material is a sentence now

    @property
    def dim(self) -> int:
        return 3

    @property
    def _n(self) -> int:
        return len(self.rods.points)

    @cached_property
    def rest(self) -> Array:
        """(n_dofs,) [m, rad] the points, then zeros."""
        return np.concatenate([self.rods.points.ravel(), np.zeros(3 * self._n)])

    @cached_property
    def is_place(self) -> Array:
        return np.arange(2 * self._n) < self._n

    @cached_property
    def cell_nodes(self) -> Array:
        """(n_rods, 4) the places of both ends, then their turns."""
        return np.concatenate([self.rods.rods, self._n + self.rods.rods], axis=1)

    # Material

    @cached_property
    def _owner(self) -> Array:
        return self.rods.owners("material", self.materials)

    @cached_property
    def groups(self) -> dict[str, Array]:
        return {name: np.flatnonzero(self._owner == k) for k, name in enumerate(self.materials)}

    @property
    def cell_regions(self) -> Mapping[str, Array]:
        return self.rods.parts  # type: ignore[return-value]

    @cached_property
    def fields(self) -> Fields:
        pick = lambda key: np.array([float(getattr(m, key)) for m in self.materials.values()])[
            self._owner
        ]
        return Fields(
            E=pick("E"),
            nu=pick("nu"),
            density=pick("density"),
            power=np.zeros(len(self._owner), int),
        )

    @property
    def bounds(self) -> dict[str, tuple[float, float, str]]:
        return {
            "E": (0.0, YOUNGS_MODULUS.allowed[1], "Pa"),
            "nu": (-1.0, 0.5, "-"),
            "density": (0.0, DENSITY.allowed[1], "kg/m^3"),
        }

    @cached_property
    def elastic(self) -> RodStiffness:
        """What each rod's strains cost."""
        return RodStiffness(rods=self.rods)

    def cell_size(self) -> float:
        """[m] a mean rod."""
        return float(self.rods.lengths.mean())

    def hardness(self) -> float:
        """[Pa/m] E / rod of the stiffest material, a scale for contact."""
        return float(self.fields.E.max()) / self.cell_size()

    def cell_centres(self) -> Array:
        """(n_rods, 3) [m] the middle of each rod at rest."""
        return self.rods.points[self.rods.rods].mean(axis=1)

    def volumes(self) -> Array:
        """(n_rods,) [m^3]"""
        return self.elastic.areas * self.rods.lengths

    # Where things are

    def locate(self, points: Array) -> sp.csr_matrix:
        """(k, n_nodes) the interpolation along the rods to points (k, 3) [m] on their axes at
        rest."""
        rod, share = self.rods.locate(np.atleast_2d(points), snap=self.snap)
        rows, weights = np.repeat(np.arange(len(rod)), 2), np.stack([1.0 - share, share], axis=1)
        weights[weights < 1e-9] = 0.0
        out = sp.csr_matrix(
            (weights.ravel(), (rows, self.rods.rods[rod].ravel())), shape=(len(rod), 2 * self._n)
        )
        out.eliminate_zeros()
        return out

    def region(self, name: str) -> Array:
        """The places and the turns of a region's points; only one of the two for its name followed
        by " places" or " turns"."""
        for part, shifts in (("places", (0,)), ("turns", (self._n,))):
            base = name.removesuffix(f" {part}")
            if base != name and name not in self.rods.regions:
                return self.rods.points_of(base) + shifts[0]
        points = self.rods.points_of(name)
        return np.concatenate([points, self._n + points])

    def patch(self, name: str | None, *, even: bool = False) -> Array:
        """(n_nodes,) [m^2] the share of each place of the rods' outside; a name leaves the places
        of its region."""
        share = self._spread(0.5 * self.elastic.perimeters * self.rods.lengths)
        return (
            share
            if name is None
            else np.where(np.isin(np.arange(2 * self._n), self.rods.points_of(name)), share, 0.0)
        )

    def bulk(self, cells: Array) -> Array:
        """(n_nodes,) [m^3] what each place carries of some rods."""
        half = np.zeros(len(self.rods.rods))
        half[cells] = 0.5 * self.volumes()[cells]
        return self._spread(half)

    def _spread(self, half: Array) -> Array:
        """(n_nodes,) each place's sum of a number of its rods (n_rods,)."""
        return np.bincount(self.rods.rods.ravel(), np.repeat(half, 2), minlength=2 * self._n)

    def grip(self, nodes: Array) -> Array:
        """(k,) [N/m or N m/rad] the stiffest rod at some nodes: EA / L of a place, EI / L + GJ / L
        of a turn."""
        out = np.zeros(2 * self._n)
        for of_ends, own in zip(
            (self.cell_nodes[:, :2], self.cell_nodes[:, 2:]),
            self.elastic.own(self.fields),
            strict=True,
        ):
            np.maximum.at(out, of_ends, own[:, None])
        return out[nodes]

    # Elasticity

    def _strains(self, q: Array) -> RodStrains:
        return RodStrains(
            ends=q.reshape(-1, 3)[self.cell_nodes], axes=self.rods.axes, lengths=self.rods.lengths
        )

    @cached_property
    def _links(self) -> tuple[Array, Array, Array, Array]:
        return pair_links(self.cell_nodes, 2 * self._n)

    @property
    def pairs(self) -> Array:
        return self._links[0]

    @cached_property
    def _collect(self) -> sp.csr_matrix:
        """(n_nodes, 4 n_rods) adds the rods' nodal forces."""
        flat = self.cell_nodes.ravel()
        return sp.csr_matrix(
            (np.ones(len(flat)), (flat, np.arange(len(flat)))), shape=(2 * self._n, len(flat))
        )

    def _gather(self, forces: Array) -> Array:
        """(n_dofs,) from (n_rods, 12)"""
        return (self._collect @ forces.reshape(-1, 3)).ravel()

    def _on_rods(self, y: Array) -> Array:
        """(n_rods, 12, 1) a vector of the unknowns at each rod's ends."""
        return y.reshape(-1, 3)[self.cell_nodes].reshape(-1, 12, 1)

    def _stress(self, eps: Array, C: Array, viscous: Viscous) -> tuple[Array, Array]:
        """((n_rods, 6) the forces of the strains, viscous ones too, (n_rods, 6) the strain
        rate)."""
        rate = viscous.rate * eps + viscous.past if viscous.rate > 0.0 else np.zeros_like(eps)
        return _times(C, eps) + (_times(viscous.moduli, rate) if viscous.rate > 0.0 else 0.0), rate

    def energy(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[float, Array]:
        """([J], (n_dofs,) [N, N m]) the energy and its gradient; infinite where a point or an end
        is turned too far."""
        at, C = self._strains(q), self.elastic.matrices(fields)
        stress, rate = self._stress(at.strains, C, viscous)
        elastic = _times(C, at.strains)
        total = 0.5 * float(np.sum(at.strains * elastic))
        if viscous.rate > 0.0:
            total += 0.5 * float(np.sum(rate * (stress - elastic))) / viscous.rate
        return (np.inf if self._room(q, at)[0] <= 0.0 else total), self._gather(
            _times(np.swapaxes(at.slopes, 1, 2), stress)
        )

    def gradient(self, q: Array, fields: Fields) -> Array:
        """(n_dofs,) [N, N m] the derivative of the energy without viscosity."""
        at = self._strains(q)
        return self._gather(
            _times(np.swapaxes(at.slopes, 1, 2), _times(self.elastic.matrices(fields), at.strains))
        )

    def _hessians(self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY) -> Array:
        """(n_rods, 12, 12)"""
        at, C = self._strains(q), self.elastic.matrices(fields)
        stress, _ = self._stress(at.strains, C, viscous)
        C = C + viscous.rate * viscous.moduli if viscous.rate > 0.0 else C
        return np.swapaxes(at.slopes, 1, 2) @ (C @ at.slopes) + at.bend(stress)

    def stiffness(
        self, q: Array, fields: Fields, viscous: Viscous = NO_VISCOSITY, *, project: bool = False
    ) -> Array:
        """(n_pairs, 3, 3) the blocks of the energy's Hessian; `project` makes every rod's
        positive."""
        K = self._hessians(q, fields, viscous)
        if project:
            values, vectors = np.linalg.eigh(K)
            K = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        a, b = upper_nodes(4)
        _, start, source, flip = self._links
        blocks = K.reshape(-1, 4, 3, 4, 3)[:, a, :, b, :].swapaxes(0, 1).reshape(-1, 3, 3)[source]
        blocks[flip] = np.swapaxes(blocks[flip], 1, 2)
        return np.add.reduceat(blocks, start[:-1], axis=0)

    def linearised(self, q: Array, fields: Fields, viscosity: float) -> tuple[Array, Array]:
        """((n_dofs,) [N, N m], (n_pairs, 3, 3)) the gradient, and the stiffness with `viscosity`
        [-] times the viscous one at q."""
        viscous = (
            self.viscous_at(fields, viscosity, 1.0, q, np.zeros_like(q))
            if viscosity > 0.0
            else NO_VISCOSITY
        )
        return self.gradient(q, fields), self.stiffness(q, fields, viscous)

    def stiffness_times(self, q: Array, fields: Fields, y: Array) -> Array:
        """(n_dofs,) [N, N m] K(q) y with K the elastic stiffness."""
        return self._gather(self._hessians(q, fields) @ self._on_rods(y))

    def third(self, q: Array, fields: Fields, y: Array, z: Array) -> Array:
        """(n_dofs,) the derivative of y^T K(q) z with respect to q, by the complex step."""
        return self._gather(
            (self._hessians(q + 1j * TINY * y, fields).imag / TINY) @ self._on_rods(z)
        )

    def stiffness_cells(self, q: Array, fields: Fields, w: Array) -> tuple[Array, Array]:
        """(n_rods, 12, 12) each: the elastic stiffness of each rod, and its derivative along w."""
        K = self._hessians(q + 1j * TINY * w, fields)
        return K.real, K.imag / TINY

    # By the material

    def _change(self, fields: Fields, change: Fields) -> Array:
        by_E, by_nu = self.elastic.slopes(fields)
        return change.E[:, None, None] * by_E + change.nu[:, None, None] * by_nu

    def _linear_forces(self, at: RodStrains, C: Array, viscous: Viscous) -> Array:
        """(n_rods, 12) forces, which are linear in C (n_rods, 6, 6), the viscous ones too."""
        stress, _ = self._stress(at.strains, C, viscous._replace(moduli=viscous.time * C))
        return _times(np.swapaxes(at.slopes, 1, 2), stress)

    def _linear_products(self, at: RodStrains, C: Array, y: Array) -> Array:
        """(n_rods, 12) K y, which is linear in C."""
        B = at.slopes
        K = np.swapaxes(B, 1, 2) @ (C @ B) + at.bend(_times(C, at.strains))
        return (K @ self._on_rods(y))[..., 0]

    def field_forces(
        self, q: Array, fields: Fields, change: Fields, viscous: Viscous = NO_VISCOSITY
    ) -> Array:
        """(n_dofs,) the change of `gradient` for a change of E and nu in each rod."""
        return self._gather(
            self._linear_forces(self._strains(q), self._change(fields, change), viscous)
        )

    def field_work(
        self, q: Array, fields: Fields, y: Array, viscous: Viscous = NO_VISCOSITY
    ) -> tuple[Array, Array]:
        """((n_rods,), (n_rods,)) the derivative of y . gradient with respect to each rod's E and
        nu."""
        at, along = self._strains(q), self._on_rods(y)[..., 0]
        by_E, by_nu = (
            np.sum(along * self._linear_forces(at, C, viscous), axis=1)
            for C in self.elastic.slopes(fields)
        )
        return by_E, by_nu

    def field_stiffness(self, q: Array, fields: Fields, change: Fields, y: Array) -> Array:
        """(n_dofs,) the change of `stiffness_times` for a change of E and nu in each rod."""
        return self._gather(
            self._linear_products(self._strains(q), self._change(fields, change), y)
        )

    def field_stiffness_work(
        self, q: Array, fields: Fields, y: Array, z: Array
    ) -> tuple[Array, Array]:
        """((n_rods,), (n_rods,)) the derivative of y . K(q) z with respect to each rod's E and
        nu."""
        at, along = self._strains(q), self._on_rods(y)[..., 0]
        by_E, by_nu = (
            np.sum(along * self._linear_products(at, C, z), axis=1)
            for C in self.elastic.slopes(fields)
        )
        return by_E, by_nu

    # Viscosity

    def viscous(
        self, fields: Fields, time: float, rates: Sequence[float], levels: Sequence[Array]
    ) -> Viscous:
        """The viscous share of a step whose strain rate is rates[0] eps(q') + sum_j rates[j]
        eps(levels[j - 1]): Kelvin-Voigt on the rods' strains, free of drag in rigid motion."""
        past = sum(
            (r * self._strains(q).strains for r, q in zip(rates[1:], levels, strict=True)),
            np.zeros((len(self.rods.rods), 6)),
        )
        return Viscous(float(rates[0]), float(time), time * self.elastic.matrices(fields), past)

    def viscous_at(
        self, fields: Fields, time: float, rate: float, q: Array, velocity: Array
    ) -> Viscous:
        """The viscous share whose strain rate at q is that of rates of the unknowns."""
        at = self._strains(q)
        past = (at.slopes @ self._on_rods(velocity))[..., 0] - rate * at.strains
        return Viscous(float(rate), float(time), time * self.elastic.matrices(fields), past)

    def viscous_push(self, q: Array, level: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) the change of the viscous force at q for a change of `level`: B(q)^T C B(level)
        change."""
        moved = self._strains(level).slopes @ self._on_rods(change)
        return self._gather(np.swapaxes(self._strains(q).slopes, 1, 2) @ (moduli @ moved))

    def viscous_moved(self, q: Array, w: Array, change: Array, moduli: Array) -> Array:
        """(n_dofs,) the change of viscous_push(q, q, w) with q."""
        return (
            self.viscous_push(q + 1j * TINY * change, q + 1j * TINY * change, w, moduli).imag / TINY
        )

    def viscous_moved_back(self, q: Array, w: Array, y: Array, moduli: Array) -> Array:
        """(n_dofs,) the derivative of y . viscous_push(q, q, w) by q."""
        at = self._strains(q)
        one, other = (at.bend((moduli @ (at.slopes @ self._on_rods(v)))[..., 0]) for v in (w, y))
        return self._gather(one @ self._on_rods(y) + other @ self._on_rods(w))

    def viscous_cells(self, q: Array, level: Array, moduli: Array) -> Array:
        """(n_rods, 12, 12) `viscous_push` as a matrix of each rod."""
        return np.swapaxes(self._strains(q).slopes, 1, 2) @ (moduli @ self._strains(level).slopes)

    def viscous_moved_cells(self, q: Array, w: Array, moduli: Array) -> Array:
        """(n_rods, 12, 12) `viscous_moved` as a matrix of each rod."""
        at, ahead = self._strains(q), self._strains(q + 1j * TINY * w)
        push = np.swapaxes(at.slopes, 1, 2) @ (moduli @ (ahead.slopes.imag / TINY))
        return push + at.bend((moduli @ (at.slopes @ self._on_rods(w)))[..., 0])

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
        level, by the complex step of the first ones."""
        at, along, C = self._strains(q + 1j * TINY * dq), self._on_rods(y), viscous.moduli
        moved = [
            self._strains(level + 1j * TINY * change)
            for level, change in zip(levels, changes, strict=True)
        ]
        rate = sum(
            (r * a.strains for r, a in zip(rates, [at, *moved], strict=True)), np.zeros((1, 6))
        )
        stretched = C @ (at.slopes @ along)
        by_q = at.bend(_times(C, rate)) @ along + rates[0] * (
            np.swapaxes(at.slopes, 1, 2) @ stretched
        )
        shares = [
            r * (np.swapaxes(a.slopes, 1, 2) @ stretched)
            for r, a in zip(rates[1:], moved, strict=True)
        ]
        return self._gather(by_q.imag / TINY), [self._gather(share.imag / TINY) for share in shares]

    # Mass

    @cached_property
    def _unit_mass(self) -> Array:
        """(n_rods, 4, 4) [m^3, m^5] at density one."""
        out = np.zeros((len(self.rods.rods), 4, 4))
        out[:, :2, :2] = self.volumes()[:, None, None] / 6.0 * np.array([[2.0, 1.0], [1.0, 2.0]])
        out[:, 2, 2] = out[:, 3, 3] = 0.25 * self.elastic.moments.sum(axis=1) * self.rods.lengths
        return out

    def mass(self, density: Array) -> Array:
        """(n_pairs,) [kg, kg m^2]"""
        a, b = upper_nodes(4)
        _, start, source, _ = self._links
        return np.add.reduceat(
            (density[:, None] * self._unit_mass[:, a, b]).ravel()[source], start[:-1]
        )

    def mass_work(self, y: Array, z: Array) -> Array:
        Y, Z = (v.reshape(-1, 3)[self.cell_nodes] for v in (y, z))
        return np.sum(Y * (self._unit_mass @ Z), axis=(1, 2))

    # What a shape says

    def _room(self, q: Array, at: RodStrains) -> tuple[float, int]:
        """(how much is left before a turn or an angle is too large, as a share; the rod where it is
        least)."""
        turns = (
            1.0
            - np.linalg.norm(q.reshape(-1, 3)[self.cell_nodes[:, 2:]], axis=2).max(axis=1)
            / MOST_TURN
        )
        left = np.minimum(turns, at.cosines().min(axis=1) - LEAST_COSINE)
        return float(left.min()), int(left.argmin())

    def inverted(self, q: Array) -> tuple[float, int] | None:
        """(how far beyond, rod) where a point has turned too far, or the end of a rod from its
        chord, or None."""
        room, rod = self._room(q, self._strains(q))
        return None if room > 0.0 else (room, rod)

    def beyond(self, q: Array) -> str:
        """What stops a step near such a shape, in words; nothing where there is room."""
        room, rod = self._room(q, self._strains(q))
        if room > 0.05:
            return ""
        most = np.degrees(np.linalg.norm(q.reshape(-1, 3)[self.cell_nodes[rod, 2:]], axis=1).max())
        return (
            f"Rod {rod} can turn no further: an end has turned by {most:.0f} degrees, where "
            f"{np.degrees(MOST_TURN):.0f} are the most, or stands across its rod; divide rods "
            "that bend much with refine(k), and end a run before a full turn"
        )

    def strain(self, q: Array) -> Array:
        """(n_nodes,) [-] the largest strain of a fibre along the rods at each place, zero at turns;
        for pictures."""
        forces = _times(self.elastic.matrices(self.fields), self._strains(q).strains)
        out = np.zeros(2 * self._n)
        np.maximum.at(out, self.rods.rods, self.elastic.fibres(forces, self.fields))
        return out


def _times(A: Array, x: Array) -> Array:
    """(m, i) from (m, i, j) and (m, j)."""
    return (A @ x[:, :, None])[..., 0]
