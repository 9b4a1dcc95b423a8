"""Mesh: points and simplex cells of a body at rest, with named regions and surfaces."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pliant.core import (
    Array,
    InputError,
    MeshError,
    nearest,
    quoted,
)
from pliant.geometry.cells import add_midside_nodes, boundary_facets, signed_volumes
from pliant.geometry.checks import (
    check_coincident,
    check_neighbours,
    check_topology,
    check_volumes,
    read_only,
    validate_arrays,
    validate_regions,
    validate_surfaces,
)
from pliant.geometry.locate import locate


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Mesh:
    """A mesh of tetrahedra or plane triangles, validated on construction; every array is read-only.

    Quadratic cells list their corners, then the midside nodes of the edges (0,1) (1,2) (0,2) (0,3)
    (1,3) (2,3) of a tetrahedron or (0,1) (1,2) (2,0) of a triangle, as in VTK. Facets list corners,
    then midside nodes, in the same way. Raises `MeshError` for an invalid mesh.

    >>> import pliant as pl
    >>> triangle = pl.Mesh(points=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], cells=[[0, 1, 2]])
    >>> triangle.points.shape
    (3, 2)
    """

    points: Array  # (n_points, dim) [m]
    cells: Array  # (n_cells, n_vertices) int64: 4 or 10 nodes in space, 3 or 6 in the plane
    regions: Mapping[str, Array] = field(default_factory=dict)  # name -> cell indices
    surfaces: Mapping[str, Array] = field(
        default_factory=dict
    )  # name -> boundary facets (k, nodes per facet), outward

    def __post_init__(self) -> None:
        points, cells = validate_arrays(self.points, self.cells)
        check_topology(points, cells)
        check_neighbours(cells, points.shape[1])
        check_coincident(points)
        check_volumes(points, cells)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "regions", validate_regions(self.regions, len(cells)))
        object.__setattr__(
            self, "surfaces", validate_surfaces(self.surfaces, self._boundary, self.dim)
        )
        both = sorted(set(self.regions) & set(self.surfaces))
        if both:
            raise MeshError(f"'{both[0]}' names both a region and a surface. Rename one of them.")

    @property
    def dim(self) -> int:
        return int(self.points.shape[1])

    @property
    def order(self) -> int:
        """Return 1 for straight cells, 2 for cells with midside nodes."""
        return 1 if self.cells.shape[1] == self.dim + 1 else 2

    @property
    def n_points(self) -> int:
        return len(self.points)

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    @property
    def corners(self) -> Array:
        """Return the corner nodes (n_cells, dim + 1) of each cell."""
        return self.cells[:, : self.dim + 1]

    @property
    def size(self) -> float:
        """Return the diagonal [m] of the bounding box."""
        return float(np.linalg.norm(np.ptp(self.points, axis=0)))

    def volumes(self) -> Array:
        """Return the volume (n_cells,) [m^3] of each cell, or the area [m^2] in 2D."""
        return signed_volumes(self.points, self.cells)

    def boundary(self) -> Array:
        """Return every outward facet (k, nodes per facet) of the boundary."""
        return self._boundary

    @cached_property
    def _boundary(self) -> Array:
        return read_only(boundary_facets(self.cells), np.int64)

    def quadratic(self) -> "Mesh":
        """Return the same body with a midside node on every edge, after the old nodes."""
        if self.order == 2:
            return self
        points, cells = add_midside_nodes(self.points, self.cells)
        return Mesh(points=points, cells=cells, regions=self.regions, surfaces=self.surfaces)

    def nodes(self, name: str) -> Array:
        """Return the sorted nodes of a surface or region. Raises `InputError` for an unknown
        name."""
        if name in self.surfaces:
            return np.unique(self.surfaces[name])
        if name in self.regions:
            return np.unique(self.cells[self.regions[name]])
        raise unknown_name_error(name, [*self.surfaces, *self.regions])

    def facets(self, name: str) -> Array:
        """Return the facets (k, nodes per facet) of a surface. Raises `InputError` for an unknown
        name."""
        if name not in self.surfaces:
            raise unknown_name_error(name, list(self.surfaces))
        if not len(self.surfaces[name]):
            raise InputError(
                f"The surface '{name}' has no facets, so nothing can act on it; give it some, or "
                "name another surface."
            )
        return self.surfaces[name]

    def locate(self, points: Array, *, snap: float | None = None) -> tuple[Array, Array]:
        """Return (cells (k,), barycentric (k, dim + 1)) that contain `points` (k, dim) [m].

        In a curved cell the coordinates are those of its quadratic map. A point up to `snap` [m]
        outside (None: 1e-4 of the size) is moved to the closest point of the surface. Raises
        `InputError` with the distance for one farther away.
        """
        return locate(self.points, self.cells, points, snap)

    def __repr__(self) -> str:
        """Return one line: points, cells, order, size, names."""
        kind = {2: "triangles", 3: "tetrahedra"}[self.dim]
        names = [
            f"{what} {', '.join(list(names)[:8])}{', ...' if len(names) > 8 else ''}"
            for what, names in (("regions", self.regions), ("surfaces", self.surfaces))
            if names
        ]
        return (
            f"<Mesh: {self.n_points} points, {self.n_cells} {kind} of order {self.order}, "
            f"{' x '.join(f'{side:.3g}' for side in np.ptp(self.points, axis=0))} m"
            f"{''.join(f'; {part}' for part in names)}>"
        )


def unknown_name_error(name: str, known: list[str], advice: str = "") -> InputError:
    """Return the error for an unknown surface or region, with the closest known name."""
    hint = nearest(name, known)
    if str(name).startswith("cavity") and not advice:
        advice = (
            "A robot file names each closed void that is larger than a cell; in Python, use "
            "geometry.name_cavities(mesh)."
        )
    return InputError(
        f"The mesh has no surface or region {quoted(name)}; it has {', '.join(known) or 'none'}. "
        f"{hint[0].upper()}{hint[1:]} {advice}".strip()
    )


def add_surface(mesh: Mesh, name: str, where: Callable[[Array], Array] | Array) -> Mesh:
    """Return `mesh` with one more surface.

    `where` is a mask (k,) of the facets of mesh.boundary(), or a predicate of facet centres, (k,
    dim) [m] -> (k,). Raises `InputError` if the name exists or no facet is selected.
    """
    if name in mesh.surfaces or name in mesh.regions:
        raise InputError(
            f"The mesh already has a {'surface' if name in mesh.surfaces else 'region'} '{name}'. "
            "Give the new surface another name."
        )
    facets = mesh.boundary()
    centres = mesh.points[facets[:, : mesh.dim]].mean(axis=1)
    mask = np.asarray(where(centres) if callable(where) else where)
    if mask.dtype != bool or mask.shape != (len(facets),):
        raise InputError(
            f"The mask of surface '{name}' has shape {mask.shape} and type {mask.dtype}; it must "
            f"be one bool for each of the {len(facets)} boundary facets."
        )
    if not mask.any():
        raise InputError(
            f"No boundary facet belongs to surface '{name}'; the mesh spans "
            f"{mesh.points.min(axis=0).tolist()} to {mesh.points.max(axis=0).tolist()} m."
        )
    return replace(mesh, surfaces={**mesh.surfaces, name: facets[mask]})
