"""Surface: the closed triangle skin of a solid, as an STL file holds it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, MeshError
from pliant.geometry.cells import sorted_groups
from pliant.geometry.checks import frozen
from pliant.geometry.winding import Cluster, clusters, crossings, winding_numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface:
    """A closed surface of triangles that point outward, checked when made; every array is
    read-only."""

    points: Array  # (n_points, 3) [m]
    triangles: Array  # (n_triangles, 3) int64, counterclockwise from outside
    dim = 3

    def __post_init__(self) -> None:
        points, triangles = np.asarray(self.points), np.asarray(self.triangles)
        if triangles.ndim != 2 or triangles.shape[1] != 3 or len(triangles) == 0:
            raise MeshError(
                f"The surface has triangles of shape {triangles.shape}; pass at least one, of "
                "shape (m, 3)."
            )
        if not np.issubdtype(triangles.dtype, np.integer):
            raise MeshError(
                f"The triangles have type {triangles.dtype}; pass integer point indices."
            )
        check_points(points, triangles)
        check_closed(points, triangles)
        object.__setattr__(self, "points", frozen(points, np.float64))
        object.__setattr__(self, "triangles", frozen(triangles, np.int64))
        if self.volume() <= 0:
            raise MeshError(
                f"The surface encloses {self.volume():.3e} m^3: its triangles point inward or it "
                "is flat. Pass triangles[:, ::-1]."
            )

    @cached_property
    def _clusters(self) -> list[Cluster]:
        return clusters(self.points[self.triangles])

    def bounds(self) -> tuple[Array, Array]:
        """((3,), (3,)) the lower and upper corner of the bounding box [m]."""
        return self.points.min(axis=0), self.points.max(axis=0)

    def volume(self) -> float:
        """[m^3] enclosed, by the divergence theorem."""
        return enclosed_volume(self.points, self.triangles)

    def contains(self, points: Array) -> Array:
        """(k,) bool: which of the points (k, 3) [m] lie inside; the winding number is over one half
        there."""
        return winding_numbers(self._clusters, np.asarray(points, dtype=float)) > 0.5

    def crossings(self, start: Array, end: Array) -> Array:
        """(k,) the fraction of each segment from `start` to `end` (k, 3) [m] where it first meets
        the surface."""
        return crossings(self._clusters, start, end)


def enclosed_volume(points: Array, triangles: Array) -> float:
    """[m^3] inside outward triangles; measured from the middle of the points, where rounding is
    least."""
    a, b, c = (points[triangles[:, i]] - points.mean(axis=0) for i in range(3))
    return float(np.einsum("ki,ki->", a, np.cross(b, c)) / 6)


def check_points(points: Array, triangles: Array) -> None:
    if points.ndim != 2 or points.shape[1] != 3:
        raise MeshError(
            f"The points of the surface have shape {points.shape}; pass shape (n_points, 3)."
        )
    if triangles.min() < 0 or triangles.max() >= len(points):
        raise MeshError(
            f"A triangle names point {triangles.max()}, but the points are 0..{len(points) - 1}. "
            "Count from 0."
        )
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(points)} points of the surface are not finite (first: point "
            f"{bad[0]}). Write the file anew."
        )


def edge_faults(triangles: Array) -> tuple[Array, Array, Array]:
    """Edges (k, 2) with one triangle, with more than two, and with two that run through them in the
    same sense."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    order, start, count = sorted_groups(edges)
    forward = (edges[:, 0] < edges[:, 1])[order].astype(int)
    balance = np.add.reduceat(forward, start)
    first = edges[order[start]]
    return first[count == 1], first[count > 2], first[(count == 2) & (balance != 1)]


def check_closed(points: Array, triangles: Array) -> None:
    """Every edge lies between two triangles of one orientation, or a sentence that counts and
    places the rest."""
    gaps, crowded, twisted = edge_faults(triangles)
    for edges, fault, remedy in (
        (
            gaps,
            "are open: they belong to one triangle only",
            "Close the holes in the program that wrote it",
        ),
        (
            crowded,
            "belong to more than two triangles",
            "Keep one solid without inner walls or touching edges",
        ),
        (
            twisted,
            "have triangles of opposite orientation",
            "Make the normals consistent in the program that wrote it",
        ),
    ):
        if len(edges):
            place = points[edges[0]].mean(axis=0).tolist()
            raise MeshError(
                f"The surface does not enclose a volume: {len(edges)} edges {fault} "
                f"(first: near {place} m). {remedy}."
            )
