"""Families of shapes, which give Latent what its equation needs as rows of coefficients: value,
slopes and second derivatives of the positions, of what viscosity acts on, and of what the controls
do their work on. One solves for every shape, one asks a surrogate."""

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Protocol

import numpy as np

from pliant.core import Array, InputError
from pliant.dynamics.shapes import Shapes
from pliant.kernels.ordered import combined, dot, dots, products
from pliant.surrogate import Sample, Surrogate
from pliant.surrogate.compress import Compression

ROWS = 50  # that an exact family keeps: each is as long as all positions and strains
RECENT = 2000  # queries whose answers are kept


class Family(Protocol):
    """Shapes as rows of r coefficients, (1 + d, r) or with second derivatives (1 + d + d (d + 1) /
    2, r)."""

    @property
    def shapes(self) -> Shapes: ...
    @property
    def unit(self) -> Array: ...  # (d,) a typical change of each latent number
    @property
    def cheap_curvature(self) -> bool: ...  # do second derivatives cost no more than slopes?
    def rows(self, a: Array, second: bool = False) -> Array: ...
    def weigh(self, moved: Array, strained: Array) -> Array:
        """(r,) the force on the coefficients from the mass at `moved` (r,) and from the viscosity
        at `strained` (r,)."""
        ...

    def lengths(self, rows: Array) -> Array: ...  # (n, r) -> (n, d)
    def places(self, rows: Array) -> Array: ...  # (n, r) -> (n, n_effectors dim), changes
    def place(self, row: Array) -> Array: ...  # (r,) -> (n_effectors dim,) [m]
    def positions(self, a: Array) -> Array: ...  # (n_dofs,) [m]


class ExactFamily:
    """Solves the equilibrium at every query, from the nearest of some known ones."""

    cheap_curvature = False

    def __init__(
        self, shapes: Shapes, *, unit: Array | float = 1.0, known: Sequence[Sample] = ()
    ) -> None:
        """`known` are shapes to start from: only these and the neutral one, so that a shape does
        not depend on what was asked before."""
        self.shapes, self._starts = shapes, [shapes.home, *(s for s in known if not s.failed)]
        self.unit = np.broadcast_to(np.asarray(unit, float), (shapes.dim,)).copy()
        self._made: dict[bytes, Sample] = {}
        self._rows: dict[bytes, Array] = {}
        self.evaluations = 0

    def _sample(self, a: Array) -> Sample:
        key = a.tobytes()
        if key not in self._made:
            near = self._starts[
                int(np.argmin([np.linalg.norm((s.point - a) / self.unit) for s in self._starts]))
            ]
            q, J, note = self.shapes(a, near)
            self.evaluations += 1
            if len(self._made) >= RECENT:
                del self._made[next(iter(self._made))]
            self._made[key] = Sample(point=a.copy(), value=q, slope=J, note=note)
        return self._made[key]

    def rows(self, a: Array, second: bool = False) -> Array:
        key, shapes, wanted = a.tobytes(), self.shapes, 1 + len(a)
        found = self._rows.get(key)
        if found is None or (second and len(found) == wanted):
            s = self._sample(a)
            value, slope = shapes.lift(s.value, s.slope)
            rows = [value, *slope.T]
            if second:
                pairs = combinations_with_replacement(range(shapes.dim), 2)
                rows += [
                    shapes.lifted_curvature(s.value, s.slope[:, i], s.slope[:, j], bent)
                    for (i, j), bent in zip(
                        pairs, shapes.curvatures(a, s.value, s.slope), strict=True
                    )
                ]
            while len(self._rows) >= ROWS:
                del self._rows[next(iter(self._rows))]
            found = self._rows[key] = np.array(rows)
        return found if second else found[:wanted]

    def weigh(self, moved: Array, strained: Array) -> Array:
        q, s, length = self.shapes.parts
        return np.concatenate(
            [
                self.shapes.inertia(moved[q]),
                self.shapes.viscosity * strained[s],
                np.zeros(length.stop - length.start),
            ]
        )

    def lengths(self, rows: Array) -> Array:
        return rows[:, self.shapes.parts[2]]

    def places(self, rows: Array) -> Array:
        return np.array([self.shapes.effectors @ row[self.shapes.parts[0]] for row in rows])

    def place(self, row: Array) -> Array:
        return self.shapes.effectors @ row[self.shapes.parts[0]]

    def positions(self, a: Array) -> Array:
        return self._sample(a).value


class Interpolated:
    """Asks a surrogate of the lifted map whose corners are compressed; all products are of a few
    coefficients. Sums run in one order, so that a basis that has grown meanwhile changes no bit of
    what was known before."""

    cheap_curvature = True

    def __init__(self, shapes: Shapes, surrogate: Surrogate) -> None:
        if surrogate.corners.compression is None:
            raise InputError(
                "The corners of a latent model must be compressed; give Corners(..., "
                "compress=1e-6)."
            )
        self.shapes, self.surrogate, self._changes = shapes, surrogate, surrogate.changes
        self._mass = self._viscous = np.zeros((0, 0))
        self._length, self._place = (
            np.zeros((shapes.dim, 0)),
            np.zeros((shapes.effectors.shape[0], 0)),
        )
        self._recent: dict[bytes, Array] = {}
        self.queries = 0  # shapes that were asked for, each of which the exact family would solve

    @property
    def unit(self) -> Array:
        return self.surrogate.corners.unit

    def rows(self, a: Array, second: bool = False) -> Array:
        key, wanted = a.tobytes(), 1 + len(a)
        if self.surrogate.changes != self._changes or len(self._recent) > RECENT:
            self._changes = self.surrogate.changes
            self._recent.clear()
        found = self._recent.get(key)
        if found is None:
            self.queries += 1
        if found is None or (second and len(found) == wanted):
            found = self._recent[key] = self.surrogate.rows(a, second)
        if self.surrogate.corners.size > self._mass.shape[0]:
            self._grow()
        return found if second else found[:wanted]

    @property
    def _compression(self) -> Compression:
        assert self.surrogate.corners.compression is not None
        return self.surrogate.corners.compression

    def forget(self) -> None:
        """Answer the next query anew, for timing."""
        self._recent.clear()

    def _grow(self) -> None:
        """Products with the basis vectors that are new."""
        basis, old = self._compression.basis, self._mass.shape[0]
        q, s, length = self.shapes.parts
        n = len(basis)
        mass, viscous = np.zeros((n, n)), np.zeros((n, n))
        mass[:old, :old], viscous[:old, :old] = self._mass, self._viscous
        columns = list(basis)
        for j in range(old, n):
            moved = self.shapes.inertia(columns[j][q])
            for i in range(j + 1):
                mass[i, j] = mass[j, i] = dot(columns[i][q], moved)
                viscous[i, j] = viscous[j, i] = self.shapes.viscosity * dot(
                    columns[i][s], columns[j][s]
                )
        self._length = np.column_stack(
            [self._length, *(column[length] for column in columns[old:])]
        )
        self._place = np.column_stack(
            [self._place, *(self.shapes.effectors @ column[q] for column in columns[old:])]
        )
        self._mass, self._viscous = mass, viscous

    def weigh(self, moved: Array, strained: Array) -> Array:
        return combined(moved, self._mass) + combined(strained, self._viscous)

    def lengths(self, rows: Array) -> Array:
        return products(rows, self._length)

    def places(self, rows: Array) -> Array:
        return products(rows, self._place)

    def place(self, row: Array) -> Array:
        return self._centre + dots(self._place, row)

    @cached_property
    def _centre(self) -> Array:
        return self.shapes.effectors @ self._compression.centre[self.shapes.parts[0]]

    def positions(self, a: Array) -> Array:
        value, _ = self.surrogate(a)
        return value[self.shapes.parts[0]]
