"""Weld cracks: merge vertices of open edges that lie closer together than the edges are long."""

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.cells import coincident, compacted, sorted_groups

SHARE = 0.25  # of the shortest edge: the largest tolerance, which makes no triangle degenerate
GROWTH = 4.0  # of the tolerance, from one attempt to the next
LARGEST = 0.1  # of the size, as of the merge tolerance


def welded(points: Array, triangles: Array, merge: float) -> tuple[Array, Array, float]:
    """Return (points, triangles, tolerance [m]) with the vertices of open edges merged.

    Tries tolerances from `merge` of the size up to SHARE of the shortest edge. Takes the smallest
    that leaves the fewest open edges. Returns what was given, and 0, if none closes an edge.
    """
    fewest, best, tolerance = len(open_edges(triangles)), triangles, 0.0
    rim = np.unique(open_edges(triangles))
    limit = SHARE * shortest_edge(points, triangles)
    for attempt in attempts(merge * size_of(points), limit):
        if not fewest:
            break
        number = np.arange(len(points))
        number[rim] = rim[coincident(points[rim], attempt)]
        found = number[triangles]
        count = len(open_edges(found))
        if count < fewest and (found != np.roll(found, 1, axis=1)).all():
            fewest, best, tolerance = count, found, attempt
    return *compacted(points, best), tolerance


def attempts(start: float, limit: float) -> Array:
    """Tolerances [m] that grow from `start`, and at least from 1e-6 of the limit, to the limit."""
    lowest = max(start, 1e-6 * limit)
    if not 0.0 < lowest < limit:
        return np.zeros(0)
    count = int(np.ceil(np.log(limit / lowest) / np.log(GROWTH)))
    return np.geomspace(lowest, limit, count + 1)[1:]


def merge_advice(points: Array, triangles: Array) -> str:
    """Return advice for a surface whose triangles do not join: a merge tolerance, if vertices of
    different triangles are close enough, else to add faces."""
    rim = np.unique(open_edges(triangles))
    gap = gaps(points, triangles, rim)
    share = 2.0 * float(np.quantile(gap, 0.9)) / size_of(points) if gap.size else np.inf
    if 0.0 < share <= LARGEST:
        return f"Raise merge to about {share:.1g} of the size if its triangles should join."
    return "Add the missing faces in the program that wrote it."


def gaps(points: Array, triangles: Array, rim: Array) -> Array:
    """Distances [m] from vertices of open edges to the nearest one of another triangle."""
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
    """(k, 2) the edges that belong to one triangle only."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    order, start, count = sorted_groups(edges)
    return edges[order[start[count == 1]]]


def shortest_edge(points: Array, triangles: Array) -> float:
    """[m]"""
    return float(
        min(
            np.linalg.norm(points[triangles[:, i]] - points[triangles[:, i - 1]], axis=1).min()
            for i in range(3)
        )
    )


def size_of(points: Array) -> float:
    """[m] the diagonal of the bounding box."""
    return float(np.linalg.norm(np.ptp(points, axis=0)))
