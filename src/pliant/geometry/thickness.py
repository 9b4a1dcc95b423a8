"""Thickness of a body and the number of cells across it, and the width of its cavities."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.geometry.cells import boundary_rows, cell_facets
from pliant.geometry.mesh import Mesh
from pliant.geometry.winding import segment_hits

MAX_FACETS = 200  # boundary facets that are measured, at equal index steps
MAX_PAIRS = 200_000  # of ray and facet at once; limits the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Thickness:
    """The thickness along the inward normal of some boundary facets."""

    length: Array  # (k,) [m] to the opposite boundary
    cells: Array  # (k,) how many cells high, from the height of the facet's own cell
    area: Array  # (k,) [m^2], in the plane [m]: of each facet


def measure_thickness(mesh: Mesh) -> Thickness:
    """Return the thickness of a mesh by rays from at most 200 boundary facets, treated as
    straight."""
    rows = boundary_rows(mesh.corners)
    facets, owners = cell_facets(mesh.corners)[rows], rows // (mesh.dim + 1)
    chosen = np.unique(np.linspace(0, len(facets) - 1, MAX_FACETS).astype(int))
    corners, far = mesh.points[facets], 1.01 * mesh.size
    normals = _area_vectors(corners[chosen])
    area = np.linalg.norm(normals, axis=1)
    height = mesh.volumes()[owners[chosen]] / area * mesh.dim
    start = corners[chosen].mean(axis=1)
    length = far * _first_hits(corners, start, start - far * normals / area[:, None])
    return Thickness(length=length, cells=np.maximum(1.0, np.round(length / height)), area=area)


def cavity_width(mesh: Mesh, name: str) -> float:
    """Return the median distance [m] from the wall of a cavity to the opposite wall, by rays along
    the normal from at most 200 facets, treated as straight."""
    corners = mesh.points[mesh.facets(name)[:, : mesh.dim]]
    chosen = np.unique(np.linspace(0, len(corners) - 1, MAX_FACETS).astype(int))
    normals = _area_vectors(corners[chosen])  # they point into the cavity
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    start, far = corners[chosen].mean(axis=1), 1.01 * mesh.size
    return far * float(np.median(_first_hits(corners, start, start + far * normals)))


def _area_vectors(corners: Array) -> Array:
    """Return the outward area vectors (k, dim) of facets."""
    along = corners[:, 1] - corners[:, 0]
    if corners.shape[1] == 2:
        return np.stack([along[:, 1], -along[:, 0]], axis=1)
    return 0.5 * np.cross(along, corners[:, 2] - corners[:, 0])


def _first_hits(facets: Array, start: Array, end: Array) -> Array:
    """Return the fraction (k,) of each segment at its first facet beyond the start; 1 if there is
    none."""
    if facets.shape[2] == 2:
        facets = _upright(facets)
        start, end = (np.pad(points, ((0, 0), (0, 1))) for points in (start, end))
    first, step = np.ones(len(start)), max(1, MAX_PAIRS // len(facets))
    for at in range(0, len(start), step):
        share = segment_hits(facets, start[at : at + step], end[at : at + step])
        share[share < 1e-6] = np.inf  # the facet that the segment starts from
        first[at : at + step] = np.minimum(1.0, share.min(axis=1))
    return first


def _upright(edges: Array) -> Array:
    """Return plane edges (k, 2, 2) as rectangles from z = -1 to 2, two triangles each, (2 k, 3, 3).

    Segments at z = 0 intersect them where they intersect the edges.
    """
    low, high = (np.insert(edges, 2, z, axis=2) for z in (-1.0, 2.0))
    return np.concatenate(
        [
            np.stack([low[:, 0], low[:, 1], high[:, 0]], axis=1),
            np.stack([low[:, 1], high[:, 1], high[:, 0]], axis=1),
        ]
    )
