"""How good a mesh is, in numbers and in sentences."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.geometry.cells import FACETS
from pliant.geometry.mesh import Mesh

SLIVER = 5.0  # [deg]
LARGE, SMALL = 10.0, 1e-4  # [m], bounding sizes that look like a mistake of units


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What `quality` measures; volumes are areas [m^2] and angles plane for a flat mesh."""

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
    closed: bool  # every edge (corner, for a flat mesh) of the boundary has as many facets going in as out
    size: float  # [m], diagonal of the bounding box

    def warnings(self) -> list[str]:
        """Sentences on what may spoil a simulation; empty for a good mesh."""
        found = []
        if self.slivers:
            found.append(f"{self.slivers} of {self.n_cells} cells have an angle under {SLIVER:g} degrees (worst: cell "
                         f"{self.smallest_angle_cell}, {self.smallest_angle:.2f} degrees). Mesh the body anew.")  # fmt: skip
        if not self.closed:
            found.append("The boundary of the mesh is not closed. Merge coincident nodes with geometry.merged.")
        if abs(self.surface_volume - self.total_volume) > 1e-6 * self.total_volume:
            found.append(f"The boundary encloses {self.surface_volume:.4e} but the cells hold {self.total_volume:.4e}: "
                         "cells overlap. Mesh the body anew.")  # fmt: skip
        if self.size > LARGE:
            found.append(f"The body is {self.size:.3g} m large: it looks like millimetres taken as metres. Scale by 0.001.")
        if self.size < SMALL:
            found.append(f"The body is {self.size:.3g} m large: it looks like metres taken as millimetres. Scale by 1000.")
        return found


def quality(mesh: Mesh) -> Quality:
    """Measure `mesh`: sizes, angles, aspect, and whether its boundary is closed and encloses what the cells hold."""
    volumes = mesh.volumes()
    angles = smallest_angles(mesh.points, mesh.corners)
    worst = int(angles.argmin())
    return Quality(
        n_points=mesh.n_points,
        n_cells=mesh.n_cells,
        smallest_volume=float(volumes.min()),
        largest_volume=float(volumes.max()),
        total_volume=float(volumes.sum()),
        surface_volume=boundary_volume(mesh),
        smallest_angle=float(angles[worst]),
        smallest_angle_cell=worst,
        slivers=int((angles < SLIVER).sum()),
        largest_aspect=float(aspects(mesh.points, mesh.corners).max()),
        closed=is_closed(mesh.boundary()[:, : mesh.dim]),
        size=mesh.size,
    )


def height_vectors(points: Array, corners: Array) -> Array:
    """(n_cells, dim + 1, dim) [1/m] gradient of each barycentric coordinate: inward normal over the height."""
    x = points[corners]
    inverse = np.linalg.inv((x[:, 1:] - x[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def smallest_angles(points: Array, corners: Array) -> Array:
    """(n_cells,) [deg] the smallest angle between two facets of each cell."""
    slope = height_vectors(points, corners)
    normal = slope / np.linalg.norm(slope, axis=2, keepdims=True)
    i, j = np.triu_indices(corners.shape[1], 1)
    cosine = -np.einsum("kai,kai->ka", normal[:, i], normal[:, j])
    return np.degrees(np.arccos(np.clip(cosine, -1, 1))).min(axis=1)


def aspects(points: Array, corners: Array) -> Array:
    """(n_cells,) longest edge over shortest height."""
    i, j = np.triu_indices(corners.shape[1], 1)
    longest = np.linalg.norm(points[corners[:, i]] - points[corners[:, j]], axis=2).max(axis=1)
    return longest * np.linalg.norm(height_vectors(points, corners), axis=2).max(axis=1)


def is_closed(facets: Array) -> bool:
    """Whether the outward facets, edges or triangles, have no rim: each of their ends is met as often as left."""
    if facets.shape[1] == 2:
        n = int(facets.max()) + 1
        return bool((np.bincount(facets[:, 0], minlength=n) == np.bincount(facets[:, 1], minlength=n)).all())
    edges = facets[:, np.array(FACETS[3])].reshape(-1, 2)
    n = int(facets.max()) + 1
    forth, back = np.sort(edges @ np.array([n, 1])), np.sort(edges[:, ::-1] @ np.array([n, 1]))
    return bool((forth == back).all())


def boundary_volume(mesh: Mesh) -> float:
    """[m^3] the integral of x . n / dim over the boundary; exact for curved facets too."""
    # A cell spanned by the middle of the body and a facet has the cone's volume; quadratic facets need the exact rule.
    facets, apex = mesh.points[mesh.boundary()] - mesh.points.mean(axis=0), mesh.dim
    return float(sum(flux(facets, at, weight) for at, weight in facet_rule(apex, mesh.order)))


def facet_rule(dim: int, order: int) -> list[tuple[Array, float]]:
    """Quadrature on a facet: Gauss on an edge, seven points (degree 5) on a triangle; one point when it is straight."""
    if order == 1:
        return [(np.full(dim, 1 / dim), 1.0)]
    if dim == 2:
        s = np.sqrt(0.15)
        return [(np.array([0.5 - d, 0.5 + d]), w) for d, w in ((-s, 5 / 18), (0.0, 4 / 9), (s, 5 / 18))]
    rule = [(np.full(3, 1 / 3), 0.225)]
    for a, w in ((0.059715871789770, 0.132394152788506), (0.797426985353087, 0.125939180544827)):
        rule += [(np.roll([a, (1 - a) / 2, (1 - a) / 2], k), w) for k in range(3)]
    return rule


def flux(facets: Array, at: Array, weight: float) -> float:
    """The contribution of one quadrature point to the integral of x . n / dim."""
    if facets.shape[2] == 2:
        value, slope = line_shape(at, facets.shape[1])
        x, t = np.tensordot(facets, value, (1, 0)), np.tensordot(facets, slope, (1, 0))
        return weight * float((x[:, 0] * t[:, 1] - x[:, 1] * t[:, 0]).sum()) / 2
    from pliant.geometry.cells import shape_gradients, shape_values

    order = 1 if facets.shape[1] == 3 else 2
    x = np.tensordot(facets, shape_values(at[None], order)[0], (1, 0))
    t = np.tensordot(facets, shape_gradients(at[None], order)[0], (1, 0))
    return weight * float(np.einsum("ki,ki->", x, np.cross(t[:, :, 0], t[:, :, 1]))) / 6


def line_shape(at: Array, n_nodes: int) -> tuple[Array, Array]:
    """Shape functions and slopes of an edge of two ends, or two ends and a middle."""
    a, b = at
    if n_nodes == 2:
        return np.array([a, b]), np.array([-1.0, 1.0])
    return np.array([a * (2 * a - 1), b * (2 * b - 1), 4 * a * b]), np.array([1 - 4 * a, 4 * b - 1, 4 * (a - b)])
