"""Disc, Cylinder and Ellipsoid: square rings of a lattice that are mapped to circles."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from pliant.core import Array, require_positive
from pliant.geometry.lattice import (
    cells_along,
    check_count,
    flips_towards_centre,
    kuhn_lattice,
    mesh_from_map,
    validate_cell_size,
    validate_divisions,
)
from pliant.geometry.mesh import Mesh
from pliant.geometry.shapes import validate_vector


def map_cube_to_ball(cube: Array) -> Array:
    """Map the cube [-1, 1]^dim to the unit ball, shell by shell, with equal angles along each side.

    The map has kinks only at the planes |x| = |y|, where cells have faces. So it is smooth in each
    cell, and no cell degenerates in a fine lattice.
    """
    radius = np.abs(cube).max(axis=1, keepdims=True)
    ray = np.tan(np.pi / 4 * cube / np.where(radius > 0, radius, 1.0))
    return radius * ray / np.where(radius > 0, np.linalg.norm(ray, axis=1, keepdims=True), 1.0)


def ball_lattice(dim: int, rings: int) -> tuple[Array, Array]:
    """Return lattice points (n, dim) from -rings to rings, and cells that are cut towards the
    centre."""
    check_count(factorial(dim) * (2 * rings) ** dim)
    lattice, cells = kuhn_lattice(dim * [2 * rings], dim * [flips_towards_centre(2 * rings)])
    return lattice - rings, cells


def ring_count(radius: float, cell: float, dim: int) -> int:
    return max(1, round(cells_along(dim * [2 * radius], cell)[0] / 2))


@dataclass(frozen=True, kw_only=True)
class Disc:
    """A disc in the plane; surface "outside".

    `divisions` is (rings,) from the centre to the edge, with 8 rings^2 triangles.
    """

    radius: float  # [m]
    origin: tuple[float, float] = (0.0, 0.0)  # [m], centre
    dim = 2

    def __post_init__(self) -> None:
        require_positive("The radius of a Disc", self.radius, "m")
        object.__setattr__(self, "origin", validate_vector("The origin of a Disc", self.origin, 2))

    def bounds(self) -> tuple[Array, Array]:
        centre = np.asarray(self.origin, dtype=float)
        return centre - self.radius, centre + self.radius

    def contains(self, points: Array) -> Array:
        return np.linalg.norm(np.asarray(points) - self.origin, axis=1) <= self.radius

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        if divisions is not None:
            (rings,) = validate_divisions(divisions, 1, (1,))
        else:
            rings = ring_count(self.radius, validate_cell_size(cell, self.radius / 10), 2)
        lattice, cells = ball_lattice(2, rings)
        rim = {"outside": np.abs(lattice).max(axis=1) == rings}
        return mesh_from_map(
            lattice,
            cells,
            lambda p: self.origin + self.radius * map_cube_to_ball(p / rings),
            order,
            rim,
        )


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """An ellipsoid, a ball for equal radii; surface "outside".

    `divisions` is (shells,) from the centre outwards, with 48 shells^3 tetrahedra.
    """

    radii: tuple[float, float, float]  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], centre
    dim = 3

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "radii",
            validate_vector("The radii of an Ellipsoid", self.radii, 3, positive=True),
        )
        object.__setattr__(
            self, "origin", validate_vector("The origin of an Ellipsoid", self.origin, 3)
        )

    def bounds(self) -> tuple[Array, Array]:
        centre, radii = np.asarray(self.origin, dtype=float), np.asarray(self.radii, dtype=float)
        return centre - radii, centre + radii

    def contains(self, points: Array) -> Array:
        return np.linalg.norm((np.asarray(points) - self.origin) / self.radii, axis=1) <= 1.0

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        if divisions is not None:
            (rings,) = validate_divisions(divisions, 1, (1,))
        else:
            rings = ring_count(max(self.radii), validate_cell_size(cell, max(self.radii) / 4), 3)
        lattice, cells = ball_lattice(3, rings)
        rim = {"outside": np.abs(lattice).max(axis=1) == rings}
        radii = np.asarray(self.radii, dtype=float)
        return mesh_from_map(
            lattice, cells, lambda p: self.origin + radii * map_cube_to_ball(p / rings), order, rim
        )


@dataclass(frozen=True, kw_only=True)
class Cylinder:
    """A cylinder along z with its origin at the bottom; surfaces "bottom", "top", "side".

    `divisions` is (rings, layers): rings from the axis to the side, layers along the length.
    """

    radius: float  # [m]
    length: float  # [m]
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], centre of the bottom
    dim = 3

    def __post_init__(self) -> None:
        require_positive("The radius of a Cylinder", self.radius, "m")
        require_positive("The length of a Cylinder", self.length, "m")
        object.__setattr__(
            self, "origin", validate_vector("The origin of a Cylinder", self.origin, 3)
        )

    def bounds(self) -> tuple[Array, Array]:
        foot = np.asarray(self.origin, dtype=float)
        return foot - (self.radius, self.radius, 0.0), foot + (
            self.radius,
            self.radius,
            self.length,
        )

    def contains(self, points: Array) -> Array:
        x = np.asarray(points) - self.origin
        return (
            (np.hypot(x[:, 0], x[:, 1]) <= self.radius) & (x[:, 2] >= 0) & (x[:, 2] <= self.length)
        )

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        rings, layers = self._counts(cell, divisions)
        check_count(24 * rings**2 * layers)
        round_flips = flips_towards_centre(2 * rings)
        lattice, cells = kuhn_lattice(
            (2 * rings, 2 * rings, layers), (round_flips, round_flips, np.arange(layers) % 2)
        )
        lattice = lattice - (rings, rings, 0)
        sides = {
            "bottom": lattice[:, 2] == 0,
            "top": lattice[:, 2] == layers,
            "side": np.abs(lattice[:, :2]).max(axis=1) == rings,
        }

        def chart(p: Array) -> Array:
            flat = self.radius * map_cube_to_ball(p[:, :2] / rings)
            return self.origin + np.column_stack([flat, p[:, 2] * (self.length / layers)])

        return mesh_from_map(lattice, cells, chart, order, sides)

    def _counts(self, cell: float | None, divisions: Sequence[int] | None) -> tuple[int, ...]:
        if divisions is not None:
            return validate_divisions(divisions, 2, (1, 1))
        cell = validate_cell_size(cell, min(self.radius / 2, self.length / 2))
        width, _, layers = cells_along((2 * self.radius, 2 * self.radius, self.length), cell)
        return max(1, round(width / 2)), layers
