"""ClosedCylinder: a cylinder with one closed void, the simplest body for a liquid."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from pliant.core import Array, InputError, require_positive
from pliant.geometry.cells import remove_unused_points
from pliant.geometry.chambered_cylinder import grid_coordinates, merge_axis_points
from pliant.geometry.lattice import (
    cells_along,
    check_count,
    grid_points,
    mesh_from_map,
    validate_cell_size,
    validate_divisions,
)
from pliant.geometry.mesh import Mesh
from pliant.geometry.shapes import inside_box, validate_vector
from pliant.geometry.tubes import MIN_SECTORS, polar_lattice, scale_to_radius, unit_directions


@dataclass(frozen=True, kw_only=True)
class ClosedCylinder:
    """A cylinder along z with a closed cylindrical void between solid caps. The origin is at the
    bottom.

    The surfaces are "bottom", "top", "side" and "cavity", the wall of the void. `divisions` is
    (around, layers, through): cells around (at least 6), layers along the void, cells through the
    wall and the caps.
    """

    radius: float  # [m]
    wall: float  # [m], between the void and the side
    length: float  # [m], outer, with both caps: the void is length - 2 cap long
    cap: float  # [m], length of each solid end
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], centre of the bottom
    dim = 3

    def __post_init__(self) -> None:
        for name in ("radius", "wall", "length", "cap"):
            require_positive(f"The {name} of a ClosedCylinder", getattr(self, name), "m")
        if not (self.wall < self.radius and 2.0 * self.cap < self.length):
            raise InputError(
                f"The wall of {self.wall:g} m and two caps of {self.cap:g} m leave no void in a "
                f"ClosedCylinder of radius {self.radius:g} m and length {self.length:g} m; make "
                "them thinner."
            )
        object.__setattr__(
            self, "origin", validate_vector("The origin of a ClosedCylinder", self.origin, 3)
        )

    @property
    def inner(self) -> float:
        """Return the radius [m] of the void."""
        return self.radius - self.wall

    def bounds(self) -> tuple[Array, Array]:
        foot = np.asarray(self.origin, dtype=float)
        return foot - (self.radius, self.radius, 0.0), foot + (
            self.radius,
            self.radius,
            self.length,
        )

    def contains(self, points: Array) -> Array:
        x, y, z = (np.asarray(points) - self.origin).T
        radius = np.hypot(x, y)
        hollow = (radius < self.inner) & (z > self.cap) & (z < self.length - self.cap)
        return (radius <= self.radius) & (z >= 0) & (z <= self.length) & ~hollow

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        around, layers, through = self._counts(cell, divisions)
        radii = grid_coordinates([(self.inner, through), (self.wall, through)])
        heights = grid_coordinates(
            [(self.cap, through), (self.length - 2.0 * self.cap, layers), (self.cap, through)]
        )
        cubes = (around, 2 * through, len(heights) - 1)
        check_count(factorial(3) * float(np.prod(cubes)))
        void = np.array([0, 0, through]), np.array([around, through, through + layers])
        lattice, cells = polar_lattice(cubes)
        hollow = inside_box(grid_points(cubes) + 0.5, *void)
        lattice, cells = remove_unused_points(
            lattice, merge_axis_points(lattice, cells[np.repeat(~hollow, factorial(3))])
        )
        _, j, k = lattice.T
        sides = {
            "bottom": k == 0,
            "top": k == cubes[2],
            "side": j == cubes[1],
            "cavity": inside_box(lattice, *void),
        }
        ray = np.where(j > 0, 1.0, 0.0)[:, None] * unit_directions(
            lattice[:, 0], around
        )  # none on the axis, where there is no angle
        # The polar lattice (angle, radius, z) is left-handed in space.
        return mesh_from_map(
            np.column_stack([ray, radii[j], heights[k]]),
            cells[:, [0, 1, 3, 2]],
            self._chart,
            order,
            sides,
        )

    def _chart(self, p: Array) -> Array:
        p = np.where(p[:, 2:3] > 0.0, p, p + (1.0, 0.0, 0.0, 0.0))
        return self.origin + np.column_stack([scale_to_radius(p[:, :2], p[:, 2]), p[:, 3]])

    def _counts(self, cell: float | None, divisions: Sequence[int] | None) -> tuple[int, ...]:
        if divisions is not None:
            return validate_divisions(divisions, 3, (MIN_SECTORS, 1, 1))
        cell = validate_cell_size(cell, self.radius / 2)
        around, layers, through = cells_along(
            (2 * np.pi * self.radius, self.length - 2.0 * self.cap, min(self.wall, self.cap)), cell
        )
        return max(MIN_SECTORS, around), layers, through
