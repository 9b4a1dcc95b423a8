"""Straight shapes, Box, Strip and Rectangle, and the protocol that every shape follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pliant.core import Array, InputError, quoted, require_positive
from pliant.geometry.lattice import (
    box_sides,
    charted,
    checked_cell,
    checked_divisions,
    counts_along,
    kuhn,
)
from pliant.geometry.mesh import Mesh

DEFAULT_CUBES = 512  # a mesh without `cell` or `divisions` starts from about this many cubes


@runtime_checkable
class Domain(Protocol):
    """A solid (dim 3) or a flat region (dim 2) that can be measured and asked; lengths in
    metres."""

    @property
    def dim(self) -> int: ...
    def bounds(self) -> tuple[Array, Array]:
        """((dim,), (dim,)) the lower and upper corner of the bounding box [m]."""
        ...

    def contains(self, points: Array) -> Array:
        """(k,) bool: which of the points (k, dim) [m] lie in the shape or on its boundary."""
        ...


@runtime_checkable
class Shape(Domain, Protocol):
    """A domain that can mesh itself."""

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        """A mesh with edges of about `cell` [m], or exact lattice counts `divisions`; order 2 adds
        middle nodes."""
        ...


def checked_vector(
    name: str, values: Sequence[float], dim: int, *, positive: bool = False
) -> tuple[float, ...]:
    """`values` as `dim` finite numbers [m], positive ones if asked."""
    try:
        vector = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is {quoted(values)}; pass {dim} numbers in metres.") from error
    if vector.shape != (dim,):
        raise InputError(f"{name} has shape {vector.shape}; pass {dim} numbers in metres.")
    bad = np.flatnonzero(~(np.isfinite(vector) & ((vector > 0) | (not positive))))
    if bad.size:
        need = "positive finite" if positive else "finite"
        raise InputError(f"{name}[{bad[0]}] is {vector[bad[0]]:g} m; it must be a {need} number.")
    if np.abs(vector).max(initial=0.0) > 1e9:
        raise InputError(
            f"{name} reaches {np.abs(vector).max():g} m; no robot is larger than 1e9 m, so check "
            "the units."
        )
    return tuple(vector.tolist())


def box_mesh(size: Array, origin: Array, counts: Sequence[int], order: int) -> Mesh:
    lattice, cells = kuhn(counts)
    step = size / np.asarray(counts)
    return charted(
        lattice, cells, lambda grid: origin + grid * step, order, box_sides(lattice, counts)
    )


def box_counts(size: Array, cell: float | None, divisions: Sequence[int] | None) -> tuple[int, ...]:
    dim = size.size
    if divisions is not None:
        return checked_divisions(divisions, dim, dim * [1])
    return counts_along(size, checked_cell(cell, float(np.prod(size) / DEFAULT_CUBES) ** (1 / dim)))


def within(points: Array, lower: Array, upper: Array) -> Array:
    points = np.asarray(points, dtype=float)
    return np.all((points >= lower) & (points <= upper), axis=1)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box from `origin` to `origin + size`; surfaces "x-", "x+", "y-", "y+", "z-", "z+".

    `divisions` are the cubes along x, y and z, each cut into 6 tetrahedra.
    """

    size: tuple[float, float, float]  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], lower corner
    dim = 3

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "size", checked_vector("The size of a Box", self.size, 3, positive=True)
        )
        object.__setattr__(self, "origin", checked_vector("The origin of a Box", self.origin, 3))

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.asarray(self.size)

    def contains(self, points: Array) -> Array:
        return within(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.asarray(self.size, dtype=float)
        return box_mesh(size, self.bounds()[0], box_counts(size, cell, divisions), order)


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A thin box: length along x, width along y, thickness along z; the surfaces of a Box.

    Edges in the plane stay under four times the layer's thickness, whatever `cell` says, so that no
    cell is a plate.
    """

    length: float  # [m]
    width: float  # [m]
    thickness: float  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], lower corner
    dim = 3

    def __post_init__(self) -> None:
        require_positive("The length of a Strip", self.length, "m")
        require_positive("The width of a Strip", self.width, "m")
        require_positive("The thickness of a Strip", self.thickness, "m")
        object.__setattr__(self, "origin", checked_vector("The origin of a Strip", self.origin, 3))

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.array([self.length, self.width, self.thickness])

    def contains(self, points: Array) -> Array:
        return within(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.array([self.length, self.width, self.thickness])
        if divisions is not None:
            return box_mesh(
                size, self.bounds()[0], checked_divisions(divisions, 3, (1, 1, 1)), order
            )
        cell = checked_cell(cell, float(np.prod(size) / DEFAULT_CUBES) ** (1 / 3))
        layers = max(1, round(self.thickness / cell))
        edge = min(cell, 4 * self.thickness / layers)
        counts = counts_along((self.length, self.width, layers * edge), edge)
        return box_mesh(size, self.bounds()[0], counts, order)


@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """A rectangle in the plane from `origin` to `origin + size`; surfaces "x-", "x+", "y-", "y+".

    `divisions` are the squares along x and y, each cut into 2 triangles with alternating diagonals.
    """

    size: tuple[float, float]  # [m]
    origin: tuple[float, float] = (0.0, 0.0)  # [m], lower corner
    dim = 2

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "size", checked_vector("The size of a Rectangle", self.size, 2, positive=True)
        )
        object.__setattr__(
            self, "origin", checked_vector("The origin of a Rectangle", self.origin, 2)
        )

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.asarray(self.size)

    def contains(self, points: Array) -> Array:
        return within(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.asarray(self.size, dtype=float)
        return box_mesh(size, self.bounds()[0], box_counts(size, cell, divisions), order)
