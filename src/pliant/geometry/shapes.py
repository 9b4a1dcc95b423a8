"""Box, Strip and Rectangle, and the protocol of all shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pliant.core import Array, InputError, quoted, require_positive
from pliant.geometry.lattice import (
    box_side_masks,
    cells_along,
    kuhn_lattice,
    mesh_from_map,
    validate_cell_size,
    validate_divisions,
)
from pliant.geometry.mesh import Mesh

DEFAULT_CUBES = 512  # a mesh without `cell` or `divisions` starts from about this many cubes


@runtime_checkable
class Domain(Protocol):
    """A solid (dim 3) or plane (dim 2) domain with bounds and an inside test [m]."""

    @property
    def dim(self) -> int: ...
    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and upper corner (dim,) [m] of the bounding box."""
        ...

    def contains(self, points: Array) -> Array:
        """Return bool (k,): which points (k, dim) [m] lie in the shape or on its boundary."""
        ...


@runtime_checkable
class Shape(Domain, Protocol):
    """A domain that generates its own mesh."""

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        """Return a mesh with edges of about `cell` [m], or exact lattice counts `divisions`.

        Order 2 adds midside nodes.
        """
        ...


def validate_vector(
    name: str, values: Sequence[float], dim: int, *, positive: bool = False
) -> tuple[float, ...]:
    """Return `values` as `dim` finite numbers [m], positive if requested. Raises `InputError`
    otherwise."""
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
            f"{name} reaches {np.abs(vector).max():g} m, over the limit of 1e9 m. Check the units."
        )
    return tuple(vector.tolist())


def box_mesh(size: Array, origin: Array, counts: Sequence[int], order: int) -> Mesh:
    lattice, cells = kuhn_lattice(counts)
    step = size / np.asarray(counts)
    return mesh_from_map(
        lattice, cells, lambda grid: origin + grid * step, order, box_side_masks(lattice, counts)
    )


def box_counts(size: Array, cell: float | None, divisions: Sequence[int] | None) -> tuple[int, ...]:
    dim = size.size
    if divisions is not None:
        return validate_divisions(divisions, dim, dim * [1])
    return cells_along(
        size, validate_cell_size(cell, float(np.prod(size) / DEFAULT_CUBES) ** (1 / dim))
    )


def inside_box(points: Array, lower: Array, upper: Array) -> Array:
    points = np.asarray(points, dtype=float)
    return np.all((points >= lower) & (points <= upper), axis=1)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box from `origin` to `origin + size`; surfaces "x-", "x+", "y-", "y+", "z-", "z+".

    `divisions` are the cubes along x, y and z, each cut into 6 tetrahedra.

    >>> import pliant as pl
    >>> mesh = pl.Box(size=(0.2, 0.1, 0.1)).mesh(divisions=(2, 1, 1))
    >>> len(mesh.points), len(mesh.cells)
    (12, 12)
    """

    size: tuple[float, float, float]  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], lower corner
    dim = 3

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "size", validate_vector("The size of a Box", self.size, 3, positive=True)
        )
        object.__setattr__(self, "origin", validate_vector("The origin of a Box", self.origin, 3))

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.asarray(self.size)

    def contains(self, points: Array) -> Array:
        return inside_box(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.asarray(self.size, dtype=float)
        return box_mesh(size, self.bounds()[0], box_counts(size, cell, divisions), order)


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A thin box: length along x, width along y, thickness along z; surfaces as for Box.

    In-plane edges are at most four times the layer thickness for any `cell`, so that cells are not
    too flat.
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
        object.__setattr__(self, "origin", validate_vector("The origin of a Strip", self.origin, 3))

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.array([self.length, self.width, self.thickness])

    def contains(self, points: Array) -> Array:
        return inside_box(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.array([self.length, self.width, self.thickness])
        if divisions is not None:
            return box_mesh(
                size, self.bounds()[0], validate_divisions(divisions, 3, (1, 1, 1)), order
            )
        cell = validate_cell_size(cell, float(np.prod(size) / DEFAULT_CUBES) ** (1 / 3))
        layers = max(1, round(self.thickness / cell))
        edge = min(cell, 4 * self.thickness / layers)
        counts = cells_along((self.length, self.width, layers * edge), edge)
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
            self, "size", validate_vector("The size of a Rectangle", self.size, 2, positive=True)
        )
        object.__setattr__(
            self, "origin", validate_vector("The origin of a Rectangle", self.origin, 2)
        )

    def bounds(self) -> tuple[Array, Array]:
        lower = np.asarray(self.origin, dtype=float)
        return lower, lower + np.asarray(self.size)

    def contains(self, points: Array) -> Array:
        return inside_box(points, *self.bounds())

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        size = np.asarray(self.size, dtype=float)
        return box_mesh(size, self.bounds()[0], box_counts(size, cell, divisions), order)
