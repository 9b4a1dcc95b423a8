"""Quality of a mesh: measures and warnings."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array, counted, counted_of, require_kind
from pliant.geometry.boundary import boundary_volume, is_closed
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import label_pieces

SLIVER_ANGLE = 5.0  # [deg]
LARGE_SIZE, SMALL_SIZE = 10.0, 1e-4  # [m], bounding sizes that suggest wrong units


@dataclass(frozen=True, kw_only=True)
class MeshQuality:
    """The result of `mesh_quality`. For a flat mesh, volumes are areas [m^2] and angles are
    plane."""

    n_points: int
    n_cells: int
    smallest_volume: float  # [m^3]
    largest_volume: float  # [m^3]
    total_volume: float  # [m^3]
    surface_volume: float  # [m^3], enclosed by the boundary facets (divergence theorem)
    smallest_angle: float  # [deg], dihedral in space
    smallest_angle_cell: int
    slivers: int  # cells with an angle under 5 degrees
    largest_aspect: float  # longest edge over shortest height; 1.15 for an equilateral triangle
    # every edge (corner in 2D) of the boundary has consistently oriented facets
    closed: bool
    size: float  # [m], diagonal of the bounding box
    weak_connections: tuple[str, ...] = ()  # see `find_weak_connections`

    def warnings(self) -> list[str]:
        """Return warnings about defects that may spoil a simulation; empty for a good mesh."""
        found = []
        if self.slivers:
            found.append(
                f"{counted_of(self.slivers, self.n_cells, 'cell', ('has', 'have'))} an angle under "
                f"{SLIVER_ANGLE:g} degrees (worst: cell {self.smallest_angle_cell}, "
                f"{self.smallest_angle:.2f} degrees). Mesh the body again."
            )
        if not self.closed:
            found.append(
                "The boundary of the mesh is not closed. Merge coincident nodes with "
                "geometry.merge_points."
            )
        if abs(self.surface_volume - self.total_volume) > 1e-6 * self.total_volume:
            found.append(
                f"The boundary encloses {self.surface_volume:.4e} but the cells hold "
                f"{self.total_volume:.4e}: cells overlap. Mesh the body again."
            )
        found += self.weak_connections
        found += scale_warnings(self.size)
        return found


def scale_warnings(size: float) -> list[str]:
    """Return a warning if the size [m] of a body suggests wrong units."""
    if size > LARGE_SIZE:
        return [
            f"The body is {size:.3g} m large: it looks like millimetres taken as metres. Scale "
            "by 0.001 (scale = 0.001 for a file)."
        ]
    return (
        [
            f"The body is {size:.3g} m large: it looks like metres taken as millimetres. Scale "
            "by 1000."
        ]
        if size < SMALL_SIZE
        else []
    )


def mesh_quality(mesh: Mesh) -> MeshQuality:
    """Return sizes, angles, aspect ratio and boundary properties of `mesh`."""
    require_kind("The mesh to measure", mesh, Mesh, "give a Mesh, such as shape.mesh()")
    volumes = mesh.volumes()
    angles = smallest_angles(mesh.points, mesh.corners)
    worst = int(angles.argmin())
    return MeshQuality(
        n_points=mesh.n_points,
        n_cells=mesh.n_cells,
        smallest_volume=float(volumes.min()),
        largest_volume=float(volumes.max()),
        total_volume=float(volumes.sum()),
        surface_volume=boundary_volume(mesh),
        smallest_angle=float(angles[worst]),
        smallest_angle_cell=worst,
        slivers=int((angles < SLIVER_ANGLE).sum()),
        largest_aspect=float(aspect_ratios(mesh.points, mesh.corners).max()),
        closed=is_closed(mesh.boundary()[:, : mesh.dim]),
        size=mesh.size,
        weak_connections=tuple(find_weak_connections(mesh)),
    )


def find_weak_connections(mesh: Mesh) -> list[str]:
    """Return a warning if parts of the mesh share only an edge or a point, which transmits no
    moment."""
    part = label_pieces(mesh)
    if not part.any():
        return []
    node, of_part = np.unique(
        np.stack([mesh.corners.ravel(), np.repeat(part, mesh.dim + 1)], axis=1), axis=0
    ).T
    shared = node[1:][node[1:] == node[:-1]]
    if not shared.size:
        return []
    joined = np.unique(of_part[np.isin(node, shared)])
    where = "an edge or a point" if mesh.dim == 3 else "a point"
    return [
        f"{counted(joined.size, 'part')} of the mesh {'is' if joined.size == 1 else 'are'} joined "
        f"only at {where} (first: near {mesh.points[shared[0]].round(9).tolist()} m), which "
        "transmits no moment. Let them overlap by a cell, or keep them apart."
    ]


def height_vectors(points: Array, corners: Array) -> Array:
    """Return the gradient (n_cells, dim + 1, dim) [1/m] of each barycentric coordinate.

    It is the inward normal divided by the height.
    """
    x = points[corners]
    inverse = np.linalg.inv((x[:, 1:] - x[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def smallest_angles(points: Array, corners: Array) -> Array:
    """Return the smallest angle (n_cells,) [deg] between two facets of each cell."""
    slope = height_vectors(points, corners)
    normal = slope / np.linalg.norm(slope, axis=2, keepdims=True)
    i, j = np.triu_indices(corners.shape[1], 1)
    cosine = -np.einsum("kai,kai->ka", normal[:, i], normal[:, j])
    return np.degrees(np.arccos(np.clip(cosine, -1, 1))).min(axis=1)


def aspect_ratios(points: Array, corners: Array) -> Array:
    """Return longest edge over shortest height (n_cells,)."""
    i, j = np.triu_indices(corners.shape[1], 1)
    longest = np.linalg.norm(points[corners[:, i]] - points[corners[:, j]], axis=2).max(axis=1)
    return longest * np.linalg.norm(height_vectors(points, corners), axis=2).max(axis=1)
