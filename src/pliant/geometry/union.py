"""Union: several shapes on one lattice, each with its own region."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from pliant.core import Array, InputError, MeshError, require_kind
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cavity_names import name_cavities_if_present
from pliant.geometry.cells import boundary_facets, remove_unused_points
from pliant.geometry.fill_report import FillTolerances, sampled_volume
from pliant.geometry.lattice import box_side_masks, check_order, grid_points, kuhn_lattice
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import label_pieces
from pliant.geometry.shapes import Domain, box_counts
from pliant.geometry.surface import Surface


@dataclass(frozen=True, kw_only=True)
class Union:
    """Parts on one lattice over their common bounds. A cube belongs to the first part with its
    centre.

    Regions have the names of the parts. Surfaces are "outside", the sides "x-", "x+", "y-"... of
    the common bounding box that the body touches, and the walls of closed voids, "cavity-1"...
    `divisions` are the cubes along each side. Raises `InputError` for invalid parts.
    """

    parts: Mapping[str, Domain]  # shapes, or a closed Surface
    cell: float | None = None  # [m], the edge of a cube when mesh() is not told another

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError(
                "This Union has 0 parts. Name at least one: Union(parts={'arm': Box(...)})."
            )
        for name, part in self.parts.items():
            require_kind(
                f"Part '{name}' of the Union",
                part,
                Domain,
                "give a shape such as Box, or a closed Surface",
            )
        dims = {name: part.dim for name, part in self.parts.items()}
        if len(set(dims.values())) > 1:
            raise InputError(
                "The parts of a Union must be all flat or all solid, but their dimensions are "
                f"{dims}."
            )
        clash = sorted({"outside", "x-", "x+", "y-", "y+", "z-", "z+"} & set(self.parts))
        if clash:
            raise InputError(
                f"A part is named '{clash[0]}', which is the name of a surface. Rename the part."
            )

    @property
    def dim(self) -> int:
        return next(iter(self.parts.values())).dim

    def bounds(self) -> tuple[Array, Array]:
        lower, upper = zip(*(part.bounds() for part in self.parts.values()), strict=True)
        return np.min(lower, axis=0), np.max(upper, axis=0)

    def contains(self, points: Array) -> Array:
        return np.any([part.contains(points) for part in self.parts.values()], axis=0)

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        check_order(order)
        mesh = name_cavities_if_present(self.unnamed_mesh(cell=cell, divisions=divisions))
        ratio = float(mesh.volumes().sum()) / sampled_volume(self)
        n_pieces = int(label_pieces(mesh).max()) + 1
        if abs(ratio - 1.0) > FillTolerances.volume_error or n_pieces > max_pieces(self):
            warnings.warn(
                f"The cubes of the Union have {100 * ratio:.0f} % of the volume of its parts and "
                f"make {n_pieces} pieces, so walls or gaps are thinner than a cube. Choose a "
                "smaller cell.",
                stacklevel=2,
            )
        return mesh.quadratic() if order == 2 else mesh

    def unnamed_mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None
    ) -> Mesh:
        """Return the mesh of order 1 without names for its cavities."""
        lower, upper = self.bounds()
        counts = box_counts(upper - lower, self.cell if cell is None else cell, divisions)
        lattice, cells = kuhn_lattice(counts)
        step = (upper - lower) / np.asarray(counts)
        centres = lower + (grid_points(counts) + 0.5) * step
        owner = self._owners(centres, step)
        cells, owner = cells[np.repeat(owner >= 0, factorial(self.dim))], owner[owner >= 0]
        lattice, cells = remove_unused_points(lattice, cells)
        regions = {
            name: np.flatnonzero(np.repeat(owner == i, factorial(self.dim)))
            for i, name in enumerate(self.parts)
        }
        facets = boundary_facets(cells)
        sides = {
            name: facets[mask[facets].all(axis=1)]
            for name, mask in box_side_masks(lattice, counts).items()
        }
        surfaces = {name: side for name, side in sides.items() if len(side)}
        points = lower + lattice * step
        surfaces["outside"] = outer_facets(points, facets)
        return Mesh(points=points, cells=cells, regions=regions, surfaces=surfaces)

    def _owners(self, centres: Array, step: Array) -> Array:
        """Return the index (n_cubes,) of the part that contains each cube, -1 for none."""
        owner = np.full(len(centres), -1)
        for i, (name, part) in enumerate(self.parts.items()):
            mine = part.contains(centres) & (owner < 0)
            if not mine.any():
                raise MeshError(
                    f"Part '{name}' of the Union owns none of the {len(centres)} cubes of "
                    f"{step.round(6).tolist()} m: it is thinner than a cube or hidden by an "
                    "earlier part. Choose a smaller cell, or move it forward in the parts."
                )
            owner[mine] = i
        return owner


def max_pieces(part: Domain) -> int:
    """Return the number of pieces of a shape whose parts do not touch."""
    if isinstance(part, Union):
        return sum(map(max_pieces, part.parts.values()))
    return part.n_pieces if isinstance(part, Surface) else 1
