"""Surface: the closed triangle surface of a solid."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from pliant.core import Array, MeshError, counted, counted_of
from pliant.geometry.cavities import connected_parts
from pliant.geometry.cells import group_rows
from pliant.geometry.checks import check_extent, read_only
from pliant.geometry.duplicates import redundant_copies
from pliant.geometry.winding import (
    TriangleCluster,
    cluster_triangles,
    first_crossings,
    winding_numbers,
)


@dataclass(frozen=True, kw_only=True)
class RepairReport:
    """The changes of `repair_surface`, as counts; `str(report)` is one sentence."""

    merged_points: int = 0
    welded_points: int = 0  # at open edges, merged with a larger tolerance than the others
    weld_tolerance: float = 0.0  # [m] with which they were merged
    degenerate_triangles: int = 0  # two equal vertices; removed
    duplicate_triangles: int = 0  # the same vertices as another; removed
    loose_triangles: int = 0  # attached to a surface by an edge, with an open edge; removed
    reversed_triangles: int = 0
    closed_holes: int = 0
    largest_hole: float = 0.0  # [m] diameter of its rim

    @property
    def changed(self) -> bool:
        """Return whether anything besides merged points changed."""
        return self != RepairReport(merged_points=self.merged_points)

    def __str__(self) -> str:
        counts = [
            f"{getattr(self, field.name)} {field.name.replace('_', ' ')}"
            for field in fields(self)
            if field.type is int and getattr(self, field.name)
        ]
        hole = f" (up to {self.largest_hole:.3g} m)" if self.closed_holes else ""
        weld = f"; welded within {self.weld_tolerance:.3g} m" if self.welded_points else ""
        return f"Repair of the surface: {', '.join(counts) or 'nothing to repair'}{hole}{weld}."


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Surface:
    """A closed surface of outward triangles, validated on construction; every array is read-only.

    An edge may belong to more than two triangles, such as where two parts touch, if they traverse
    it equally often in both directions. Raises `MeshError` for an invalid surface.
    """

    points: Array  # (n_points, 3) [m]
    triangles: Array  # (n_triangles, 3) int64, counterclockwise from outside
    repairs: RepairReport | None = None  # what repair_surface changed; None: not repaired
    dim = 3

    def __post_init__(self) -> None:
        points, triangles = np.asarray(self.points), np.asarray(self.triangles)
        check_triangles(triangles)
        check_points(points, triangles)
        check_closed(points, triangles)
        check_duplicates(points, triangles)
        object.__setattr__(self, "points", read_only(points, np.float64))
        object.__setattr__(self, "triangles", read_only(triangles, np.int64))
        if self.volume() <= 0:
            raise MeshError(
                f"The surface encloses {self.volume():.3e} m^3: its triangles point inward or it "
                "is flat. Pass triangles[:, ::-1]."
            )

    def __repr__(self) -> str:
        """Return one line: points, triangles, size."""
        sides = " x ".join(f"{side:.3g}" for side in np.ptp(self.points, axis=0))
        return f"<Surface: {len(self.points)} points, {len(self.triangles)} triangles, {sides} m>"

    @cached_property
    def _clusters(self) -> list[TriangleCluster]:
        return cluster_triangles(self.points[self.triangles])

    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and upper corner (3,) [m] of the bounding box."""
        return self.points.min(axis=0), self.points.max(axis=0)

    def volume(self) -> float:
        """Return the enclosed volume [m^3], by the divergence theorem."""
        return enclosed_volume(self.points, self.triangles)

    @cached_property
    def n_pieces(self) -> int:
        """Return the number of separate pieces.

        Pieces that share only an edge are separate: seen from inside, they bound different wedges.
        """
        parts = connected_parts(self.points, self.triangles[:, ::-1])
        return sum(enclosed_volume(self.points, part) < 0.0 for part in parts)

    def contains(self, points: Array) -> Array:
        """Return bool (k,): which points (k, 3) [m] lie inside, where the winding number is over
        one half."""
        return winding_numbers(self._clusters, np.asarray(points, dtype=float)) > 0.5

    def first_crossings(self, start: Array, end: Array) -> Array:
        """Return the fraction (k,) of each segment from `start` to `end` (k, 3) [m] at its first
        intersection."""
        return first_crossings(self._clusters, start, end)


def enclosed_volume(points: Array, triangles: Array) -> float:
    """Return the volume [m^3] inside outward triangles.

    The origin is the mean corner, to reduce rounding errors.
    """
    corners = points[triangles]
    a, b, c = np.moveaxis(corners - corners.mean(axis=(0, 1)), 1, 0)
    return float(np.einsum("ki,ki->", a, np.cross(b, c)) / 6)


def check_triangles(triangles: Array) -> None:
    if triangles.ndim != 2 or triangles.shape[1] != 3 or len(triangles) == 0:
        raise MeshError(
            f"The surface has triangles of shape {triangles.shape}; pass at least one, of shape "
            "(m, 3)."
        )
    if not np.issubdtype(triangles.dtype, np.integer):
        raise MeshError(f"The triangles have type {triangles.dtype}; pass integer point indices.")


def check_points(points: Array, triangles: Array) -> None:
    if points.ndim != 2 or points.shape[1] != 3:
        raise MeshError(
            f"The points of the surface have shape {points.shape}; pass shape (n_points, 3)."
        )
    if triangles.min() < 0 or triangles.max() >= len(points):
        raise MeshError(
            f"A triangle refers to point {triangles.max()}, but the points are "
            f"0..{len(points) - 1}. Count from 0."
        )
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise MeshError(
            f"Of the surface, {counted_of(bad.size, len(points), 'point', ('is', 'are'))} not "
            f"finite (first: point {bad[0]}). Write the file again."
        )
    check_extent("The surface", points)


def edge_faults(triangles: Array) -> tuple[Array, Array, Array]:
    """Return edges (k, 2) with one triangle, with several unbalanced ones, and with two of equal
    direction."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    order, start, count = group_rows(edges)
    forward = (edges[:, 0] < edges[:, 1])[order].astype(int)
    balance = np.add.reduceat(forward, start)
    first = edges[order[start]]
    uneven = 2 * balance != count
    return first[count == 1], first[(count > 2) & uneven], first[(count == 2) & uneven]


def check_duplicates(points: Array, triangles: Array) -> None:
    """Raise `MeshError` for copies of triangles that close nothing, so that a volume counts
    twice."""
    copies = np.flatnonzero(redundant_copies(triangles))
    if copies.size:
        place = points[triangles[copies[0]]].mean(axis=0).tolist()
        raise MeshError(
            f"The surface has {counted(copies.size, 'duplicated triangle')} (first: near {place} "
            "m). Remove the duplicates, or repair it (repair_surface, repair = true)."
        )


def check_closed(points: Array, triangles: Array) -> None:
    """Raise `MeshError` unless triangles traverse every edge equally often in both directions."""
    gaps, crowded, twisted = edge_faults(triangles)
    for edges, fault, remedy in (
        (
            gaps,
            "are open: they belong to one triangle only",
            "Close the holes, or repair it (repair_surface, repair = true)",
        ),
        (
            crowded,
            "belong to more than two triangles",
            "Remove inner walls, or repair it (repair_surface, repair = true)",
        ),
        (
            twisted,
            "have triangles of opposite orientation",
            "Make the normals consistent, or repair it (repair_surface, repair = true)",
        ),
    ):
        if len(edges):
            place = points[edges[0]].mean(axis=0).tolist()
            raise MeshError(
                f"The surface does not enclose a volume: {counted(len(edges), 'edge')} {fault} "
                f"(first: near {place} m). {remedy}."
            )
