"""Manifolds of equilibria, which give `Latent` positions, strains and actuator lengths as rows of
coefficients, with first and second derivatives. One solves every equilibrium, one interpolates."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Protocol

import numpy as np

from pliant.core import Array, InputError
from pliant.dynamics.equilibrium_map import EquilibriumMap
from pliant.kernels.deterministic_sums import dot, matmul_transpose, matvec, vecmat
from pliant.surrogate import Sample, Surrogate
from pliant.surrogate.compress import Compression

MAX_CACHED_EXACT_ROWS = 50  # of an exact manifold; each has all positions and strains
MAX_CACHED_QUERIES = 2000


class EquilibriumManifold(Protocol):
    """Equilibria as rows of r coefficients: value and slopes (1 + d, r), or with second derivatives
    (1 + d + d (d + 1) / 2, r)."""

    @property
    def equilibrium_map(self) -> EquilibriumMap: ...
    @property
    def unit(self) -> Array: ...  # (d,) a typical change of each latent coordinate
    @property
    def cheap_curvature(self) -> bool: ...  # whether second derivatives are cheap
    @property
    def queries(self) -> int: ...  # the number of shapes that were evaluated
    def rows(self, a: Array, second: bool = False) -> Array: ...
    def reduced_force(self, acceleration: Array, strain_rate: Array) -> Array:
        """Return the force (r,) on the coefficients: mass times `acceleration` (r,) plus viscosity
        times `strain_rate` (r,)."""
        ...

    def actuator_lengths(self, rows: Array) -> Array: ...  # (n, r) -> (n, d)
    def effector_displacements(self, rows: Array) -> Array: ...  # (n, r) -> (n, n_effectors dim)
    def effector_positions(self, row: Array) -> Array: ...  # (r,) -> (n_effectors dim,) [m]
    def positions(self, a: Array) -> Array: ...  # (n_dofs,) [m]


class ExactManifold:
    """A manifold that solves the equilibrium at every query, from the nearest known one.

    `solve` is another way to find an equilibrium: controls (d,) -> (f (n_dofs,), slope (n_dofs, d),
    note)."""

    cheap_curvature = False

    def __init__(
        self,
        equilibrium_map: EquilibriumMap,
        *,
        unit: Array | float = 1.0,
        known: Sequence[Sample] = (),
        solve: Callable[[Array], tuple[Array, Array, str]] | None = None,
    ) -> None:
        """`known` are initial guesses, in addition to the neutral equilibrium. No others are used,
        so a result does not depend on earlier queries."""
        self.equilibrium_map = equilibrium_map
        self._guesses = [equilibrium_map.home, *(s for s in known if not s.failed)]
        self.unit = np.broadcast_to(np.asarray(unit, float), (equilibrium_map.dim,)).copy()
        self._samples: dict[bytes, Sample] = {}
        self._rows: dict[bytes, Array] = {}
        self._solve = self._solve_from_nearest if solve is None else solve
        self.queries = 0  # solved equilibria

    def _solve_from_nearest(self, a: Array) -> tuple[Array, Array, str]:
        distances = [np.linalg.norm((s.point - a) / self.unit) for s in self._guesses]
        return self.equilibrium_map(a, self._guesses[int(np.argmin(distances))])

    def _sample(self, a: Array) -> Sample:
        key = a.tobytes()
        if key not in self._samples:
            q, J, note = self._solve(a)
            self.queries += 1
            if len(self._samples) >= MAX_CACHED_QUERIES:
                del self._samples[next(iter(self._samples))]
            self._samples[key] = Sample(point=a.copy(), value=q, slope=J, note=note)
        return self._samples[key]

    def rows(self, a: Array, second: bool = False) -> Array:
        key, equilibrium_map, wanted = a.tobytes(), self.equilibrium_map, 1 + len(a)
        found = self._rows.get(key)
        if found is None or (second and len(found) == wanted):
            s = self._sample(a)
            value, slope = equilibrium_map.lift(s.value, s.slope)
            rows = [value, *slope.T]
            if second:
                pairs = combinations_with_replacement(range(equilibrium_map.dim), 2)
                rows += [
                    equilibrium_map.lifted_curvature(
                        s.value, s.slope[:, i], s.slope[:, j], curvature
                    )
                    for (i, j), curvature in zip(
                        pairs, equilibrium_map.curvatures(a, s.value, s.slope), strict=True
                    )
                ]
            while len(self._rows) >= MAX_CACHED_EXACT_ROWS:
                del self._rows[next(iter(self._rows))]
            found = self._rows[key] = np.array(rows)
        return found if second else found[:wanted]

    def reduced_force(self, acceleration: Array, strain_rate: Array) -> Array:
        q, s, length = self.equilibrium_map.parts
        return np.concatenate(
            [
                self.equilibrium_map.inertia(acceleration[q]),
                self.equilibrium_map.viscosity * strain_rate[s],
                np.zeros(length.stop - length.start),
            ]
        )

    def actuator_lengths(self, rows: Array) -> Array:
        return rows[:, self.equilibrium_map.parts[2]]

    def effector_displacements(self, rows: Array) -> Array:
        return np.array(
            [self.equilibrium_map.effectors @ row[self.equilibrium_map.parts[0]] for row in rows]
        )

    def effector_positions(self, row: Array) -> Array:
        return self.equilibrium_map.effectors @ row[self.equilibrium_map.parts[0]]

    def positions(self, a: Array) -> Array:
        return self._sample(a).value


class InterpolatedManifold:
    """A manifold that is interpolated by a surrogate with compressed corners, so all products have
    few coefficients. Sums have a fixed order: a larger basis does not change earlier results."""

    cheap_curvature = True

    def __init__(self, equilibrium_map: EquilibriumMap, surrogate: Surrogate) -> None:
        if surrogate.corners.compression is None:
            raise InputError(
                "The corners of a latent model must be compressed; give Corners(..., "
                "compress=1e-6)."
            )
        self.equilibrium_map, self.surrogate, self._changes = (
            equilibrium_map,
            surrogate,
            surrogate.changes,
        )
        self._mass = self._viscous = np.zeros((0, 0))
        self._length, self._place = (
            np.zeros((equilibrium_map.dim, 0)),
            np.zeros((equilibrium_map.effectors.shape[0], 0)),
        )
        self._cached: dict[bytes, Array] = {}
        self.queries = 0  # evaluated shapes, each of which an exact manifold would solve

    @property
    def unit(self) -> Array:
        return self.surrogate.corners.unit

    def rows(self, a: Array, second: bool = False) -> Array:
        key, wanted = a.tobytes(), 1 + len(a)
        if self.surrogate.changes != self._changes or len(self._cached) > MAX_CACHED_QUERIES:
            self._changes = self.surrogate.changes
            self._cached.clear()
        found = self._cached.get(key)
        if found is None:
            self.queries += 1
        if found is None or (second and len(found) == wanted):
            found = self._cached[key] = self.surrogate.rows(a, second)
        if self.surrogate.corners.size > self._mass.shape[0]:
            self._extend_basis_products()
        return found if second else found[:wanted]

    @property
    def _compression(self) -> Compression:
        assert self.surrogate.corners.compression is not None
        return self.surrogate.corners.compression

    def clear_cache(self) -> None:
        """Clear the cached queries, for timing."""
        self._cached.clear()

    def _extend_basis_products(self) -> None:
        """Add the products with new basis vectors."""
        basis, old = self._compression.basis, self._mass.shape[0]
        q, s, length = self.equilibrium_map.parts
        n = len(basis)
        mass, viscous = np.zeros((n, n)), np.zeros((n, n))
        mass[:old, :old], viscous[:old, :old] = self._mass, self._viscous
        columns = list(basis)
        for j in range(old, n):
            inertia = self.equilibrium_map.inertia(columns[j][q])
            for i in range(j + 1):
                mass[i, j] = mass[j, i] = dot(columns[i][q], inertia)
                viscous[i, j] = viscous[j, i] = self.equilibrium_map.viscosity * dot(
                    columns[i][s], columns[j][s]
                )
        self._length = np.column_stack(
            [self._length, *(column[length] for column in columns[old:])]
        )
        self._place = np.column_stack(
            [self._place, *(self.equilibrium_map.effectors @ column[q] for column in columns[old:])]
        )
        self._mass, self._viscous = mass, viscous

    def reduced_force(self, acceleration: Array, strain_rate: Array) -> Array:
        return vecmat(acceleration, self._mass) + vecmat(strain_rate, self._viscous)

    def actuator_lengths(self, rows: Array) -> Array:
        return matmul_transpose(rows, self._length)

    def effector_displacements(self, rows: Array) -> Array:
        return matmul_transpose(rows, self._place)

    def effector_positions(self, row: Array) -> Array:
        return self._centre + matvec(self._place, row)

    @cached_property
    def _centre(self) -> Array:
        return (
            self.equilibrium_map.effectors @ self._compression.centre[self.equilibrium_map.parts[0]]
        )

    def positions(self, a: Array) -> Array:
        value, _ = self.surrogate(a)
        return value[self.equilibrium_map.parts[0]]
