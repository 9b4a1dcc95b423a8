"""Holes of a triangle surface: their rims, and triangles that close them."""

import numpy as np

from pliant.core import Array, MeshError

MAX_HOLE_FRACTION = 0.1  # of the size; a larger opening is a missing face
MAX_EDGES = 300  # of a rim; takes below a second, and the time grows cubically


def close_holes(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Return triangles (k, 3) that close every hole, and the rim diameter (n_holes,) [m] of each.

    Raises `MeshError` for a hole larger than MAX_HOLE_FRACTION of the size, unless one triangle
    closes it.
    """
    size = float(np.linalg.norm(np.ptp(points[triangles], axis=(0, 1))))
    added, diameters = [np.zeros((0, 3), dtype=np.int64)], []
    for rim in hole_loops(triangles):
        span = float(np.linalg.norm(np.ptp(points[rim], axis=0)))
        if len(rim) > 3 and (span > MAX_HOLE_FRACTION * size or len(rim) > MAX_EDGES):
            raise MeshError(
                f"The surface has a hole of {span:.3g} m and {len(rim)} edges near "
                f"{points[rim].mean(axis=0).round(9).tolist()} m, too large to be closed. Add the "
                "missing face in the program that wrote it."
            )
        added.append(rim[min_area_triangulation(points[rim])])
        diameters.append(span)
    return np.concatenate(added), np.array(diameters)


def hole_loops(triangles: Array) -> list[Array]:
    """Return the nodes of each hole's rim, in the orientation of the missing triangles."""
    following: dict[int, list[int]] = {}
    for start, end in missing_edges(triangles).tolist():
        following.setdefault(start, []).append(end)
    loops = []
    for first in list(following):
        path = [first]
        while following.get(path[-1]):
            node = following[path[-1]].pop()
            if node in path:  # a loop is complete; the rest of the path goes on
                at = path.index(node)
                loops.append(np.array(path[at:]))
                path = path[: at + 1]
            else:
                path.append(node)
    return loops


def missing_edges(triangles: Array) -> Array:
    """Return the directed edges (k, 2) that are missing to balance the directions of every edge."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    n = int(edges.max()) + 1
    both = np.concatenate([edges @ [n, 1], edges[:, ::-1] @ [n, 1]])
    keys, group = np.unique(both, return_inverse=True)
    surplus = np.bincount(group, np.repeat([-1.0, 1.0], len(edges)), minlength=len(keys))
    keys = np.repeat(keys, np.maximum(surplus, 0.0).astype(int))
    return np.stack([keys // n, keys % n], axis=1)


def min_area_triangulation(rim: Array) -> Array:
    """Return the triangles (n - 2, 3) of least total area over a closed polygon (n, 3)
    [Barequet1995]."""
    n = len(rim)
    cost, split = np.zeros((n, n)), np.zeros((n, n), dtype=np.int64)
    for gap in range(2, n):
        first = np.arange(n - gap)[:, None]
        last, inner = first + gap, first + np.arange(1, gap)
        normal = np.cross(rim[inner] - rim[first], rim[last] - rim[first])
        total = cost[first, inner] + cost[inner, last] + np.linalg.norm(normal, axis=2)
        split[first, last] = first + 1 + total.argmin(axis=1, keepdims=True)
        cost[first, last] = total.min(axis=1, keepdims=True)
    out, todo = [], [(0, n - 1)]
    while todo:
        i, j = todo.pop()
        if j - i > 1:
            k = int(split[i, j])
            out.append((i, k, j))
            todo += [(i, k), (k, j)]
    return np.array(out, dtype=np.int64).reshape(-1, 3)
