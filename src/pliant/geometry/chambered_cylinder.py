"""ChamberedCylinder: an arm with closed chambers around its axis, as in pneumatic arms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import factorial

import numpy as np

from pliant.core import Array, InputError, require_number, require_positive
from pliant.geometry.cells import remove_unused_points
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
from pliant.geometry.tubes import polar_lattice, scale_to_radius


@dataclass(frozen=True, kw_only=True)
class ChamberedCylinder:
    """A cylinder along z with closed chambers around its axis, between solid caps.

    Each chamber is a sector of a ring between a solid core and the outer wall; radial ribs separate
    them. The first is centred on the x axis, the others follow counterclockwise. The origin is at
    the bottom. A solid stem may extend from the last cap, which tapers to it.

    The surfaces are "bottom", "top", "side", and "chamber s-k" for chamber k of section s, both
    counted from 1. The regions are "core", "ribs" and "wall"; each includes its part of the caps
    and the stem. `divisions` is (arc, layers, through): cells along a chamber's arc, layers along a
    section, cells through the core, ribs, wall and caps.
    """

    radius: float  # [m]
    core: float  # [m], radius
    wall: float  # [m], between the chambers and the side
    rib: float  # [m], thickness between two chambers at their middle radius
    section: float  # [m], length of the chambers
    cap: float  # [m], length of the solid ends of each section; neighbours share one
    sections: int = 1
    chambers: int = 3
    stem: float = 0.0  # [m], length; 0: no stem
    neck: float | None = None  # [m], radius of the stem; None: that of the body
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m], centre of the bottom
    dim = 3

    def __post_init__(self) -> None:
        for name in ("radius", "core", "wall", "rib", "section", "cap"):
            require_positive(f"The {name} of a ChamberedCylinder", getattr(self, name), "m")
        if self.sections < 1 or self.chambers < 2:
            raise InputError(
                f"A ChamberedCylinder has {self.sections} sections of {self.chambers} chambers; "
                "give at least 1 section of at least 2 chambers."
            )
        if not self.core + self.wall < self.radius:
            raise InputError(
                f"The core of {self.core:g} m and the wall of {self.wall:g} m leave no chamber "
                f"within the radius of {self.radius:g} m; make them thinner."
            )
        if not self.chambers * self._rib_angle < 2 * np.pi:
            raise InputError(
                f"{self.chambers} ribs of {self.rib:g} m leave no chamber between them; make "
                "them thinner."
            )
        if not 0.0 <= require_number("The stem of a ChamberedCylinder", self.stem, "m") < np.inf:
            raise InputError(
                f"The stem of a ChamberedCylinder is {self.stem:g} m long; give zero or a "
                "positive number."
            )
        if (
            self.neck is not None
            and not require_positive("The neck of a ChamberedCylinder", self.neck, "m")
            <= self.radius
        ):
            raise InputError(
                f"The neck of {self.neck:g} m is wider than the radius of {self.radius:g} m; "
                "make it narrower."
            )
        object.__setattr__(
            self, "origin", validate_vector("The origin of a ChamberedCylinder", self.origin, 3)
        )

    @property
    def length(self) -> float:
        """Return the total length [m]."""
        return self._shoulder + self.stem

    @property
    def _shoulder(self) -> float:
        """Return the height [m] where the stem begins."""
        return self.sections * (self.section + self.cap) + self.cap

    def _slimness(self, z: Array) -> Array:
        """Return the radius at heights z (k,) [m] as a fraction of the body's radius."""
        neck = self.radius if self.neck is None or self.stem == 0.0 else self.neck
        return np.interp(z, (self._shoulder - self.cap, self._shoulder), (1.0, neck / self.radius))

    @property
    def _rib_angle(self) -> float:
        return 2 * self.rib / (self.core + self.radius - self.wall)

    @property
    def _arc(self) -> float:
        """Return the angle [rad] of a chamber."""
        return 2 * np.pi / self.chambers - self._rib_angle

    def bounds(self) -> tuple[Array, Array]:
        foot = np.asarray(self.origin, dtype=float)
        return foot - (self.radius, self.radius, 0.0), foot + (
            self.radius,
            self.radius,
            self.length,
        )

    def contains(self, points: Array) -> Array:
        x, y, z = (np.asarray(points) - self.origin).T
        radius, angle = np.hypot(x, y), np.arctan2(y, x)
        turn, pitch = 2 * np.pi / self.chambers, self.section + self.cap
        aside = np.abs(
            (angle + turn / 2) % turn - turn / 2
        )  # [rad] from the middle of the nearest chamber
        hollow = (aside < self._arc / 2) & (radius > self.core) & (radius < self.radius - self.wall)
        hollow &= (z % pitch > self.cap) & (z < self._shoulder - self.cap)
        return (radius <= self.radius * self._slimness(z)) & (z >= 0) & (z <= self.length) & ~hollow

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        arc, layers, through = counts = self._counts(cell, divisions)
        angles = grid_coordinates(
            [(self._arc, arc), (self._rib_angle, self._rib_cells(arc, through))] * self.chambers
        )
        radii = grid_coordinates(
            [
                (self.core, through),
                (self.radius - self.wall - self.core, through),
                (self.wall, through),
            ]
        )
        stem = (
            [(self.stem, max(1, round(self.stem * layers / self.section)))]
            if self.stem > 0.0
            else []
        )
        heights = grid_coordinates(
            [(self.cap, through), (self.section, layers)] * self.sections
            + [(self.cap, through)]
            + stem
        )
        cubes = (len(angles) - 1, len(radii) - 1, len(heights) - 1)
        check_count(factorial(3) * float(np.prod(cubes)))
        lattice, cells = polar_lattice(cubes)
        centres = grid_points(cubes) + 0.5
        hollow = np.any([inside_box(centres, *box) for box in self._boxes(counts).values()], axis=0)
        lattice, cells = remove_unused_points(
            lattice, merge_axis_points(lattice, cells[np.repeat(~hollow, factorial(3))])
        )
        i, j, k = lattice.T
        sides = {"bottom": k == 0, "top": k == cubes[2], "side": j == cubes[1]}
        sides |= {name: inside_box(lattice, *box) for name, box in self._boxes(counts).items()}
        angle = angles[i] - self._arc / 2
        ray = np.where(j > 0, 1.0, 0.0) * np.array(
            [np.cos(angle), np.sin(angle)]
        )  # none on the axis, where there is no angle
        radius = radii[j] * self._slimness(heights[k])
        # The polar lattice (angle, radius, z) is left-handed in space.
        mesh = mesh_from_map(
            np.column_stack([*ray, radius, heights[k]]),
            cells[:, [0, 1, 3, 2]],
            self._chart,
            order,
            sides,
        )
        slab = j[cells].min(axis=1) // through  # core, chambers and ribs, wall
        regions = {
            name: np.flatnonzero(slab == n) for n, name in enumerate(("core", "ribs", "wall"))
        }
        return replace(mesh, regions={**mesh.regions, **regions})

    def _chart(self, p: Array) -> Array:
        p = np.where(p[:, 2:3] > 0.0, p, p + (1.0, 0.0, 0.0, 0.0))
        return self.origin + np.column_stack([scale_to_radius(p[:, :2], p[:, 2]), p[:, 3]])

    def _counts(self, cell: float | None, divisions: Sequence[int] | None) -> tuple[int, ...]:
        if divisions is not None:
            return validate_divisions(divisions, 3, (1, 1, 1))
        cell = validate_cell_size(cell, self.radius / 2)
        sizes = (
            (self.radius - self.wall) * self._arc,
            self.section,
            min(self.wall, self.rib, self.core, self.cap),
        )
        return cells_along(sizes, cell)

    def _rib_cells(self, arc: int, through: int) -> int:
        """Return the number of cells across a rib, so that none is wider than those of a
        chamber."""
        return max(through, int(np.ceil(arc * self._rib_angle / self._arc - 1e-9)))

    def _boxes(self, counts: tuple[int, ...]) -> dict[str, tuple[Array, Array]]:
        """Return the lattice corners (angle, radius, z) of each chamber, by surface name."""
        arc, layers, through = counts
        size, out = np.array([arc, through, layers]), {}
        for s, k in np.ndindex(self.sections, self.chambers):
            lower = np.array(
                [
                    k * (arc + self._rib_cells(arc, through)),
                    through,
                    s * (layers + through) + through,
                ]
            )
            out[f"chamber {s + 1}-{k + 1}"] = lower, lower + size
        return out


def grid_coordinates(parts: Sequence[tuple[float, int]]) -> Array:
    """Return the positions of lattice planes along an axis of parts (size, cells), from zero."""
    return np.concatenate([[0.0], np.cumsum([size / n for size, n in parts for _ in range(n)])])


def merge_axis_points(lattice: Array, cells: Array) -> Array:
    """Return the cells with all angles merged to one point on the axis, without degenerate
    cells."""
    first = np.where(
        lattice[:, 1] == 0, lattice[:, 2], np.arange(len(lattice))
    )  # the first angle's points come first
    cells = first[cells]
    ranked = np.sort(cells, axis=1)
    return cells[(ranked[:, 1:] != ranked[:, :-1]).all(axis=1)]
