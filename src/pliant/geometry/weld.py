"""Weld cracks: merge vertices of open edges that lie closer together than the edges are long."""

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.cells import first_coincident, group_rows, remove_unused_points

MAX_EDGE_FRACTION = 0.25  # of the shortest edge; no triangle becomes degenerate below it
TOLERANCE_GROWTH = 4.0  # from one attempt to the next
MAX_MERGE_FRACTION = 0.1  # of the size; the limit of the merge tolerance


def weld_cracks(points: Array, triangles: Array, merge: float) -> tuple[Array, Array, float]:
    """Return (points, triangles, tolerance [m]) with the vertices of open edges merged.

    Tries tolerances from `merge` of the size up to MAX_EDGE_FRACTION of the shortest edge, and uses
    the smallest that leaves the fewest open edges. Returns the input and 0 if none closes an edge.
    """
    fewest, best, tolerance = len(open_edges(triangles)), triangles, 0.0
    rim = np.unique(open_edges(triangles))
    limit = MAX_EDGE_FRACTION * shortest_edge(points, triangles)
    for attempt in weld_tolerances(merge * bounding_diagonal(points), limit):
        if not fewest:
            break
        number = np.arange(len(points))
        number[rim] = rim[first_coincident(points[rim], attempt)]
        found = number[triangles]
        count = len(open_edges(found))
        if count < fewest and (found != np.roll(found, 1, axis=1)).all():
            fewest, best, tolerance = count, found, attempt
    return *remove_unused_points(points, best), tolerance


def weld_tolerances(start: float, limit: float) -> Array:
    """Return tolerances [m] that grow from `start`, or 1e-6 of the limit if larger, to the
    limit."""
    lowest = max(start, 1e-6 * limit)
    if not 0.0 < lowest < limit:
        return np.zeros(0)
    count = int(np.ceil(np.log(limit / lowest) / np.log(TOLERANCE_GROWTH)))
    return np.geomspace(lowest, limit, count + 1)[1:]


def merge_advice(points: Array, triangles: Array) -> str:
    """Return advice for a surface whose triangles are not connected.

    It suggests a merge tolerance if vertices of different triangles are close, else to add faces.
    """
    rim = np.unique(open_edges(triangles))
    gap = vertex_gaps(points, triangles, rim)
    share = 2.0 * float(np.quantile(gap, 0.9)) / bounding_diagonal(points) if gap.size else np.inf
    if 0.0 < share <= MAX_MERGE_FRACTION:
        return f"Raise merge to about {share:.1g} of the size if its triangles should join."
    return "Add the missing faces in the program that wrote it."


def vertex_gaps(points: Array, triangles: Array, rim: Array) -> Array:
    """Return distances [m] from vertices of open edges to the closest vertex of another
    triangle."""
    owner = np.full(len(points), -1)
    owner[triangles] = np.arange(len(triangles))[:, None]
    k = min(4, len(rim))
    if k < 2:
        return np.zeros(0)
    distance, other = cKDTree(points[rim]).query(points[rim], k=k)
    foreign = owner[rim[other]] != owner[rim][:, None]
    nearest = np.where(foreign, distance, np.inf).min(axis=1)
    return nearest[np.isfinite(nearest)]


def open_edges(triangles: Array) -> Array:
    """Return the edges (k, 2) that belong to one triangle only."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    order, start, count = group_rows(edges)
    return edges[order[start[count == 1]]]


def shortest_edge(points: Array, triangles: Array) -> float:
    """Return the length [m] of the shortest edge."""
    return float(
        min(
            np.linalg.norm(points[triangles[:, i]] - points[triangles[:, i - 1]], axis=1).min()
            for i in range(3)
        )
    )


def bounding_diagonal(points: Array) -> float:
    """Return the diagonal [m] of the bounding box."""
    return float(np.linalg.norm(np.ptp(points, axis=0)))
