"""Self-intersections of a triangle surface, by a compiled sweep along the longest axis."""

from typing import Any

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.kernels.threads import run_kernel

TOUCH_TOLERANCE = 1e-10  # of the size of two triangles; closer triangles touch


def find_intersecting_pair(points: Array, triangles: Array) -> tuple[int, int] | None:
    """Return the first two triangles that intersect outside common nodes and edges, or None."""
    points, triangles = np.asarray(points, dtype=float), np.asarray(triangles, dtype=np.int64)
    centred = points - points.mean(axis=0)  # reduces rounding errors
    corners = centred[triangles]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    axis = int(np.ptp(centred, axis=0).argmax())
    order = np.argsort(lower[:, axis], kind="stable")
    sides = np.roll(np.arange(3), -axis)  # the sweep runs along the first
    met = run_kernel(
        _first_intersecting,
        len(order),
        centred,
        triangles[order],
        lower[order][:, sides],
        upper[order][:, sides],
    )
    found = np.flatnonzero(met >= 0)
    return None if not found.size else (int(order[found[0]]), int(order[met[found[0]]]))


@njit(error_model="numpy", cache=True, parallel=True)
def _first_intersecting(points: Any, triangles: Any, lower: Any, upper: Any) -> Any:
    """Return for each triangle the first later one (k,) that it intersects, -1 for none.

    Triangles are sorted by the lower end of their boxes.
    """
    met = np.full(triangles.shape[0], -1)
    for i in prange(triangles.shape[0]):
        j = i + 1
        while j < triangles.shape[0] and lower[j, 0] <= upper[i, 0]:
            apart = (
                lower[j, 1] > upper[i, 1]
                or upper[j, 1] < lower[i, 1]
                or lower[j, 2] > upper[i, 2]
                or upper[j, 2] < lower[i, 2]
            )
            if not apart and _triangles_intersect(points, triangles[i], triangles[j]):
                met[i] = j
                break
            j += 1
    return met


@njit(error_model="numpy", cache=True)
def _triangles_intersect(points: Any, A: Any, B: Any) -> Any:
    """Return whether two triangles intersect outside a common node or edge."""
    low, high = 1.0, -1.0
    for b in B:
        if b != A[0] and b != A[1] and b != A[2]:
            side = _side(points, A[0], A[1], A[2], b)
            low, high = min(low, side), max(high, side)
    if low > 0.0 or high < 0.0:
        return (
            low > high
        )  # all of B's own corners lie on one side; where it has none it is A once more
    if low == high:
        return _coplanar_overlap(points, A, B)
    return _shared_nodes(A, B) < 2 and (
        _edges_intersect(points, A, B) or _edges_intersect(points, B, A)
    )


@njit(error_model="numpy", cache=True)
def _shared_nodes(A: Any, B: Any) -> Any:
    common = 0
    for a in A:
        common += a == B[0] or a == B[1] or a == B[2]
    return common


@njit(error_model="numpy", cache=True)
def _edges_intersect(points: Any, A: Any, B: Any) -> Any:
    """Return whether an edge of A that contains no common node intersects B."""
    for k in range(3):
        p, q = A[k], A[(k + 1) % 3]
        common = p == B[0] or p == B[1] or p == B[2] or q == B[0] or q == B[1] or q == B[2]
        if not common and _edge_intersects(points, p, q, B):
            return True
    return False


@njit(error_model="numpy", cache=True)
def _edge_intersects(points: Any, p: Any, q: Any, B: Any) -> Any:
    """Return whether the edge from p to q intersects triangle B. Coplanar edges do not count."""
    a, b = _side(points, B[0], B[1], B[2], p), _side(points, B[0], B[1], B[2], q)
    if a * b > 0.0 or (a == 0.0 and b == 0.0):
        return False
    u, v, w = (
        _side(points, p, q, B[0], B[1]),
        _side(points, p, q, B[1], B[2]),
        _side(points, p, q, B[2], B[0]),
    )
    return not (min(u, v, w) < 0.0 < max(u, v, w))


@njit(error_model="numpy", cache=True)
def _side(points: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the side of the plane of a, b, c on which node d lies: 1, -1, or 0 within
    TOUCH_TOLERANCE."""
    u0, u1, u2 = (
        points[b, 0] - points[a, 0],
        points[b, 1] - points[a, 1],
        points[b, 2] - points[a, 2],
    )
    v0, v1, v2 = (
        points[c, 0] - points[a, 0],
        points[c, 1] - points[a, 1],
        points[c, 2] - points[a, 2],
    )
    w0, w1, w2 = (
        points[d, 0] - points[a, 0],
        points[d, 1] - points[a, 1],
        points[d, 2] - points[a, 2],
    )
    volume = u0 * (v1 * w2 - v2 * w1) + u1 * (v2 * w0 - v0 * w2) + u2 * (v0 * w1 - v1 * w0)
    bound = (
        abs(u0) * (abs(v1 * w2) + abs(v2 * w1))
        + abs(u1) * (abs(v2 * w0) + abs(v0 * w2))
        + abs(u2) * (abs(v0 * w1) + abs(v1 * w0))
    )
    return 0.0 if abs(volume) <= TOUCH_TOLERANCE * bound else (1.0 if volume > 0.0 else -1.0)


@njit(error_model="numpy", cache=True)
def _coplanar_overlap(points: Any, A: Any, B: Any) -> Any:
    """Return whether two coplanar triangles share more than a rim."""
    e, f = points[A[1]] - points[A[0]], points[A[2]] - points[A[0]]
    n0, n1, n2 = (
        abs(e[1] * f[2] - e[2] * f[1]),
        abs(e[2] * f[0] - e[0] * f[2]),
        abs(e[0] * f[1] - e[1] * f[0]),
    )
    drop = 0 if (n0 >= n1 and n0 >= n2) else (1 if n1 >= n2 else 2)
    i, j = (drop + 1) % 3, (drop + 2) % 3
    return not (_is_separated(points, A, B, i, j) or _is_separated(points, B, A, i, j))


@njit(error_model="numpy", cache=True)
def _is_separated(points: Any, A: Any, B: Any, i: Any, j: Any) -> Any:
    """Return whether an edge of A separates it from B in the projection along one axis."""
    for k in range(3):
        a, b, inner = (
            A[k],
            A[(k + 1) % 3],
            _orientation(points, A[k], A[(k + 1) % 3], A[(k + 2) % 3], i, j),
        )
        if inner == 0.0:
            return True  # a triangle without area holds nothing
        if (
            max(
                inner * _orientation(points, a, b, B[0], i, j),
                inner * _orientation(points, a, b, B[1], i, j),
                inner * _orientation(points, a, b, B[2], i, j),
            )
            <= 0.0
        ):
            return True
    return False


@njit(error_model="numpy", cache=True)
def _orientation(points: Any, a: Any, b: Any, c: Any, i: Any, j: Any) -> Any:
    """Return 1 if c lies left of the line from a to b in the plane of axes i and j, -1 right, 0 on
    it."""
    left = (points[b, i] - points[a, i]) * (points[c, j] - points[a, j])
    right = (points[b, j] - points[a, j]) * (points[c, i] - points[a, i])
    return (
        0.0
        if abs(left - right) <= TOUCH_TOLERANCE * (abs(left) + abs(right))
        else (1.0 if left > right else -1.0)
    )
