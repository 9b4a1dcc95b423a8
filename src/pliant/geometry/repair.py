"""Make a closed surface of the triangles of a file: merge vertices, and repair on request."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pliant.core import Array, InputError, MeshError, require_number
from pliant.geometry.cells import first_coincident, group_rows, remove_unused_points
from pliant.geometry.duplicates import orientations, redundant_copies
from pliant.geometry.holes import close_holes
from pliant.geometry.nesting import find_nesting
from pliant.geometry.surface import (
    RepairReport,
    Surface,
    check_points,
    check_triangles,
    enclosed_volume,
)
from pliant.geometry.weld import merge_advice, weld_cracks

# Of the size. Binary STL stores 24 bits (6e-8) and text files often seven digits, so equal vertices
# differ by less; 1e-6 of a 10 cm body is 0.1 um, below any detail that can be made.
MERGE_FRACTION = 1e-6


def repair_surface(
    points: Array, triangles: Array, *, merge: float = MERGE_FRACTION
) -> tuple[Surface, RepairReport]:
    """Return a closed surface made of points (n, 3) [m] and triangles (k, 3), and a report of the
    changes.

    Merges vertices within `merge` of the size, welds cracks up to a quarter of the shortest edge,
    removes degenerate, duplicate and loose triangles, gives neighbours the same orientation, and
    closes holes up to a tenth of the size. Raises `MeshError` for a larger hole, or if the result
    is not closed or is empty.
    """
    points, triangles = np.asarray(points), np.asarray(triangles)
    check_triangles(triangles)
    check_points(points, triangles)
    distinct = len(np.unique(points[np.unique(triangles)], axis=0))
    points, before = merge_vertices(np.asarray(points, dtype=float), triangles, merge)
    merged_count = len(points)
    whole = remove_degenerate(before)
    points, whole, tolerance = weld_cracks(points, whole, merge)
    net = cancel_opposite(whole)
    single = net[~redundant_copies(net)]
    tight = remove_loose(single)
    require_triangles(points, whole, tight)
    oriented, n_reversed = make_orientation_consistent(tight)
    added, holes = close_holes(points, oriented)
    closed = cancel_opposite(np.concatenate([oriented, added]))
    require_triangles(points, whole, closed)
    closed, n_outward = orient_parts_outward(points, closed)
    report = RepairReport(
        merged_points=distinct - merged_count,
        welded_points=merged_count - len(points),
        weld_tolerance=tolerance,
        degenerate_triangles=len(before) - len(whole),
        duplicate_triangles=len(whole) - len(single),
        loose_triangles=len(single) - len(tight),
        reversed_triangles=n_reversed + n_outward,
        closed_holes=len(holes),
        largest_hole=float(holes.max(initial=0.0)),
    )
    points, closed = remove_unused_points(points, closed)
    return Surface(points=points, triangles=closed, repairs=report), report


def merge_vertices(points: Array, triangles: Array, merge: float) -> tuple[Array, Array]:
    """Return (points, triangles) with vertices within `merge` of the size merged."""
    merge = require_number("The merge tolerance", merge, "of the size")
    if not 0.0 <= merge <= 0.1:
        raise InputError(
            f"The merge tolerance is {merge:g} of the size; give a number from 0 to 0.1, such as "
            f"{MERGE_FRACTION:g}."
        )
    unique, number = np.unique(points, axis=0, return_inverse=True)
    triangles = number.reshape(-1)[triangles]
    size = float(np.linalg.norm(np.ptp(unique, axis=0)))
    return remove_unused_points(unique, first_coincident(unique, merge * size)[triangles])


def remove_degenerate(triangles: Array) -> Array:
    """Return the triangles with three different vertices. Raises `MeshError` if there is none."""
    whole = triangles[(triangles != np.roll(triangles, 1, axis=1)).all(axis=1)]
    if not len(whole):
        raise MeshError("The surface has no triangle of three different vertices. Write it again.")
    return whole


def require_triangles(points: Array, before: Array, after: Array) -> None:
    """Raise MeshError if `after` is empty, with advice on the triangles `before` the repair."""
    if not len(after):
        raise MeshError(
            "Nothing is left of the surface after the repair: its triangles enclose no volume. "
            f"{merge_advice(points, before)}"
        )


def cancel_opposite(triangles: Array) -> Array:
    """Return the triangles without opposite pairs of the same vertices, such as inner walls between
    parts."""
    order, start, count = group_rows(triangles)
    sense = orientations(triangles)[order]
    total = np.add.reduceat(sense, start)
    chosen = sense == np.repeat(np.sign(total), count)
    done = np.cumsum(chosen)
    rank = done - np.repeat((done - chosen)[start], count)
    return triangles[np.sort(order[chosen & (rank <= np.repeat(np.abs(total), count))])]


def remove_loose(triangles: Array) -> Array:
    """Return the triangles without those that are attached by an edge and have an open edge."""
    while len(triangles):
        edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        order, _, count = group_rows(edges)
        shared = np.empty(len(edges), dtype=np.int64)
        shared[order] = np.repeat(count, count)
        of_triangle = shared.reshape(-1, 3)
        loose = (of_triangle == 1).any(axis=1) & (of_triangle > 2).any(axis=1)
        if not loose.any():
            break
        triangles = triangles[~loose]
    return triangles


def make_orientation_consistent(triangles: Array) -> tuple[Array, int]:
    """Return consistently oriented triangles and how many were reversed.

    In each connected part the majority decides. Raises `MeshError` for a one-sided surface.

    Each triangle has two states, as given and reversed. Neighbours link consistent states, so each
    part splits into two components, one for each orientation.
    """
    n = len(triangles)
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    order, start, count = group_rows(edges)
    first, second = order[start[count == 2]], order[start[count == 2] + 1]
    same = (edges[first] == edges[second]).all(axis=1)  # they disagree
    t, u = first // 3, second // 3
    rows = np.concatenate([t, t + n])
    cols = np.concatenate([u + n * same, u + n * ~same])
    links = sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=(2 * n, 2 * n))
    state = connected_components(links, directed=False)[1]
    if (state[:n] == state[n:]).any():
        raise MeshError(
            "The surface has one side only, such as a Moebius strip, so it encloses no "
            "volume. Mesh the body again."
        )
    part, side = np.minimum(state[:n], state[n:]), state[:n] > state[n:]
    share = np.bincount(part, side, minlength=2 * n) / np.maximum(
        np.bincount(part, minlength=2 * n), 1
    )
    wrong = side != (share > 0.5)[part]
    return np.where(wrong[:, None], triangles[:, ::-1], triangles), int(wrong.sum())


def orient_parts_outward(points: Array, triangles: Array) -> tuple[Array, int]:
    """Return the triangles with inward outermost parts reversed, and how many triangles were
    reversed."""
    found = find_nesting(points, triangles)
    lost = ~found.outward & (np.abs(found.winding) < 0.5)
    wrong = lost[found.label]
    return np.where(wrong[:, None], triangles[:, ::-1], triangles), int(wrong.sum())


def orient_outward(points: Array, triangles: Array) -> Array:
    """Return the triangles, all reversed if the surface encloses a negative volume."""
    return triangles if enclosed_volume(points, triangles) >= 0.0 else triangles[:, ::-1]
