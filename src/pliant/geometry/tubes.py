"""Annulus and Tube: periodic polar lattices."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, require_positive
from pliant.geometry.lattice import (
    cells_along,
    kuhn_lattice,
    mesh_from_map,
    validate_cell_size,
    validate_divisions,
)
from pliant.geometry.mesh import Mesh
from pliant.geometry.shapes import validate_vector

MIN_SECTORS = 6  # sectors; wider ones would make poor angles


def check_radii(kind: str, outer: float, inner: float) -> None:
    require_positive(f"The outer radius of {kind}", outer, "m")
    require_positive(f"The inner radius of {kind}", inner, "m")
    if inner >= outer:
        raise InputError(
            f"The inner radius of {kind}, {inner:g} m, is not under the outer, {outer:g} m. "
            "Make it smaller."
        )


def polar_lattice(counts: Sequence[int]) -> tuple[Array, Array]:
    """Return lattice points (around, radial, ...) and cells, with the last angle joined to the
    first."""
    lattice, cells = kuhn_lattice(counts)
    around = counts[0]
    per_angle = len(lattice) // (around + 1)
    return lattice[: around * per_angle], cells % (around * per_angle)


def unit_directions(angle_index: Array, around: int) -> Array:
    """Return unit vectors (n, 2). Unlike angles, they can be averaged across the seam."""
    angle = 2 * np.pi * angle_index / around
    return np.column_stack([np.cos(angle), np.sin(angle)])


def scale_to_radius(ray: Array, radius: Array) -> Array:
    return ray * (radius / np.linalg.norm(ray, axis=1))[:, None]


def counts_around(outer: float, inner: float, cell: float, *rest: float) -> tuple[int, ...]:
    around, *others = cells_along((np.pi * (outer + inner), outer - inner, *rest), cell)
    return max(MIN_SECTORS, around), *others


@dataclass(frozen=True, kw_only=True)
class Annulus:
    """A flat ring; surfaces "outside" and "inner".

    `divisions` is (around, radial), around at least 6.
    """

    outer: float  # [m], radius
    inner: float  # [m], radius
    origin: tuple[float, float] = (0.0, 0.0)  # [m], centre
    dim = 2

    def __post_init__(self) -> None:
        check_radii("an Annulus", self.outer, self.inner)
        origin = validate_vector("The origin of an Annulus", self.origin, 2)
        object.__setattr__(self, "origin", origin)

    def bounds(self) -> tuple[Array, Array]:
        centre = np.asarray(self.origin, dtype=float)
        return centre - self.outer, centre + self.outer

    def contains(self, points: Array) -> Array:
        radius = np.linalg.norm(np.asarray(points) - self.origin, axis=1)
        return (radius >= self.inner) & (radius <= self.outer)

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        if divisions is not None:
            counts = validate_divisions(divisions, 2, (MIN_SECTORS, 1))
        else:
            counts = counts_around(
                self.outer, self.inner, validate_cell_size(cell, (self.outer - self.inner) / 4)
            )
        lattice, cells = polar_lattice(counts)
        radius = self.inner + (self.outer - self.inner) * lattice[:, 1] / counts[1]
        sides = {"inner": lattice[:, 1] == 0, "outside": lattice[:, 1] == counts[1]}
        parameters = np.column_stack([unit_directions(lattice[:, 0], counts[0]), radius])
        # The polar lattice (angle, radius) is left-handed in the plane.
        return mesh_from_map(
            parameters,
            cells[:, [0, 2, 1]],
            lambda p: self.origin + scale_to_radius(p[:, :2], p[:, 2]),
            order,
            sides,
        )


@dataclass(frozen=True, kw_only=True)
class Tube:
    """A tube along z with its origin at the bottom; surfaces "bottom", "top", "side", "inner".

    `divisions` is (around, radial, layers), around at least 6.
    """

    outer: float  # [m], radius
    inner: float  # [m], radius
    length: float  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], centre of the bottom
    dim = 3

    def __post_init__(self) -> None:
        check_radii("a Tube", self.outer, self.inner)
        require_positive("The length of a Tube", self.length, "m")
        object.__setattr__(self, "origin", validate_vector("The origin of a Tube", self.origin, 3))

    def bounds(self) -> tuple[Array, Array]:
        foot = np.asarray(self.origin, dtype=float)
        return foot - (self.outer, self.outer, 0.0), foot + (self.outer, self.outer, self.length)

    def contains(self, points: Array) -> Array:
        x = np.asarray(points) - self.origin
        radius = np.hypot(x[:, 0], x[:, 1])
        return (
            (radius >= self.inner)
            & (radius <= self.outer)
            & (x[:, 2] >= 0)
            & (x[:, 2] <= self.length)
        )

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        if divisions is not None:
            counts = validate_divisions(divisions, 3, (MIN_SECTORS, 1, 1))
        else:
            wall = validate_cell_size(cell, (self.outer - self.inner) / 2)
            counts = counts_around(self.outer, self.inner, wall, self.length)
        lattice, cells = polar_lattice(counts)
        _, j, k = lattice.T
        sides = {"bottom": k == 0, "top": k == counts[2], "side": j == counts[1], "inner": j == 0}
        radius = self.inner + (self.outer - self.inner) * j / counts[1]
        parameters = np.column_stack(
            [unit_directions(lattice[:, 0], counts[0]), radius, self.length * k / counts[2]]
        )

        def chart(p: Array) -> Array:
            return self.origin + np.column_stack([scale_to_radius(p[:, :2], p[:, 2]), p[:, 3]])

        # The polar lattice (angle, radius, z) is left-handed in space.
        return mesh_from_map(parameters, cells[:, [0, 1, 3, 2]], chart, order, sides)
