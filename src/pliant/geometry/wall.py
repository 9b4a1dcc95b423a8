"""What the wall of a fluid must be: closed, outward, around a volume and free of crossings. Each fault is a sentence."""

from typing import NoReturn

import numpy as np
import scipy.sparse as sp
from numba import njit, prange
from scipy.sparse.csgraph import connected_components

from pliant.core import Array, InputError, MeshError, finite_array
from pliant.geometry.surface import Surface, check_points, enclosed_volume
from pliant.geometry.winding import clusters, winding_numbers
from pliant.kernels.threads import run

FAR = 1e9  # [m]
LIGHT = 16  # nodes or triangles that cost as much to place as one quadrature point, by which `run` counts
NEAR = 1e-10  # of the size of two triangles: closer than this they touch


def check_wall(points: Array, triangles: Array) -> Surface:
    """The closed surface of points (n, 3) [m] and triangles (k, 3), outward from the fluid, or a sentence: that it is open, inside out,
    flat, that it crosses itself, or that a part lies in another and both are outward. Takes a second for 90,000 triangles, so it is meant
    to be asked once, not after every move."""
    points, triangles = checked_wall(points, triangles)
    size, volume = float(np.ptp(points[triangles], axis=(0, 1)).max()), enclosed_volume(points, triangles)
    if abs(volume) <= 1e-12 * size**3:
        raise MeshError(f"The wall encloses {volume:.3g} m^3 within {size:.3g} m: it is flat and holds no fluid. Leave a volume.")
    surface = Surface(points=points, triangles=triangles)
    pair = crossing_pair(surface.points, surface.triangles)
    if pair is not None:
        place = surface.points[surface.triangles[pair[0]]].mean(axis=0).round(9).tolist()
        raise MeshError(f"The wall crosses or touches itself: triangles {pair[0]} and {pair[1]} meet (near {place} m). "
                        "Move its parts from each other, so that no fluid is counted twice.")  # fmt: skip
    _check_nesting(surface.points, surface.triangles)
    return surface


def _check_nesting(points: Array, triangles: Array) -> None:
    """Parts that do not cross hold fluid once where each outward one has none around it, and each inward one is a hollow in fluid."""
    ends = triangles[:, [0, 1, 1, 2]].reshape(-1, 2).T
    links = sp.coo_array((np.ones(len(ends[0])), tuple(ends)), shape=2 * (len(points),))
    label = connected_components(links, directed=False)[1][triangles[:, 0]]
    parts = [triangles[label == k] for k in np.unique(label)]
    if len(parts) < 2:
        return
    places, around = points[[part[0, 0] for part in parts]], np.zeros(len(parts))
    for k, part in enumerate(parts):
        around += np.where(np.arange(len(parts)) == k, 0.0, winding_numbers(clusters(points[part]), places))
    outward = np.array([enclosed_volume(points, part) > 0.0 for part in parts])
    wrong = np.flatnonzero(np.abs(around - np.where(outward, 0.0, 1.0)) > 0.5)
    if wrong.size:
        raise MeshError(f"{wrong.size} of {len(parts)} parts of the wall (first: near {places[wrong[0]].round(9).tolist()} m) point "
                        "outward inside another part, or inward outside of all, so that fluid is counted twice or below zero. Turn their "
                        "triangles with [:, ::-1], or leave them out.")  # fmt: skip


def checked_wall(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Both as arrays that compiled loops can read without leaving them; the rest is `check_wall`'s."""
    points, triangles = as_wall(points, triangles)
    return (points, triangles) if _sound(points, triangles) else refuse_wall(points, triangles)


def as_wall(points: Array, triangles: Array) -> tuple[Array, Array]:
    """Both as arrays of their shapes and types, whatever numbers are in them."""
    if not (isinstance(points, np.ndarray) and points.dtype == np.float64 and points.ndim == 2 and points.shape[1] == 3):
        points = finite_array("The points of the wall", points, (None, 3), "m")
    triangles = np.asarray(triangles)
    if triangles.ndim != 2 or triangles.shape[1] != 3 or not len(triangles) or not np.issubdtype(triangles.dtype, np.integer):
        raise MeshError(f"The triangles of the wall have shape {triangles.shape} and type {triangles.dtype}; give node numbers of shape "
                        "(k, 3).")  # fmt: skip
    return for_reading(points), for_reading(triangles.astype(np.int64, copy=False))


def refuse_wall(points: Array, triangles: Array) -> NoReturn:
    """Say what is wrong with the numbers of a wall, which is more work than to find out that something is."""
    finite_array("The points of the wall", points, (None, 3), "m")
    if triangles.min() < 0:
        raise MeshError(f"A triangle names point {triangles.min()}, but the points are 0..{len(points) - 1}. Count from 0.")
    check_points(points, triangles)
    raise MeshError(f"The wall reaches {np.abs(points).max():g} m; no robot is larger than {FAR:g} m, so check the units.")


def for_reading(array: Array) -> Array:
    """A contiguous view that cannot be written to: compiled loops then have one form, whatever they are given."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@njit(error_model="numpy", cache=True)
def _sound(points, triangles):
    """Whether all points are finite, no further than FAR, and all triangles name points."""
    least, most, sound = np.int64(0), np.int64(-1), True
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        least, most = min(least, a, b, c), max(most, a, b, c)
    for i in range(points.shape[0]):
        sound &= abs(points[i, 0]) <= FAR and abs(points[i, 1]) <= FAR and abs(points[i, 2]) <= FAR
    return sound and least == 0 and most < points.shape[0]


def closed(n: int, triangles: Array) -> bool:
    """Whether every edge is run through as often one way as the other, of triangles (k, 3) on n nodes.

    Each node gets a place in a plane by chance. There the signed areas of the triangles sum to zero if they close and, in whole numbers
    modulo 2^64, hardly otherwise, which is much quicker to find than the pairs of edges.
    """
    return int(run(_scattered_area, len(triangles) // LIGHT, n, triangles)) == 0


@njit(error_model="numpy", cache=True, parallel=True)
def _scattered_area(n, triangles):
    x, y, total = np.empty(n, np.int64), np.empty(n, np.int64), np.int64(0)
    for i in prange(n):
        x[i], y[i] = _scattered(np.int64(2 * i + 1)), _scattered(np.int64(2 * i + 2))
    for t in prange(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        total += x[a] * (y[b] - y[c]) + x[b] * (y[c] - y[a]) + x[c] * (y[a] - y[b])
    return total


@njit(error_model="numpy", cache=True)
def _scattered(i):
    """A whole number that looks like chance; products wrap around."""
    i = i * 0x1E3779B97F4A7C15
    i = (i ^ (i >> 29)) * 0x3F58476D1CE4E5B9
    return (i ^ (i >> 32)) * 0x14D049BB133111EB


def checked_gravity(gravity: Array) -> Array:
    """(3,) [m/s^2], not zero: without it there is no up, no level and no weight."""
    gravity = finite_array("The gravity of the fluid", gravity, (3,), "m/s^2")
    if not np.linalg.norm(gravity) > 0.0:
        raise InputError(
            "The gravity of the fluid is zero, so that it has no weight and no level; give a direction, such as (0, 0, -9.81)."
        )
    return gravity


def crossing_pair(points: Array, triangles: Array) -> tuple[int, int] | None:
    """The first two triangles that meet elsewhere than in a common node or edge; None where there are none."""
    points, triangles = np.asarray(points, dtype=float), np.asarray(triangles, dtype=np.int64)
    centred = points - points.mean(axis=0)  # near the origin, where rounding is least
    corners = centred[triangles]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    axis = int(np.ptp(centred, axis=0).argmax())
    order = np.argsort(lower[:, axis], kind="stable")
    sides = np.roll(np.arange(3), -axis)  # the sweep runs along the first
    met = run(_partners, len(order), centred, triangles[order], lower[order][:, sides], upper[order][:, sides])
    found = np.flatnonzero(met >= 0)
    return None if not found.size else (int(order[found[0]]), int(order[met[found[0]]]))


@njit(error_model="numpy", cache=True, parallel=True)
def _partners(points, triangles, lower, upper):
    """(k,) for each triangle the first one after it that it meets, -1 for none; they are sorted by the lower end of their boxes."""
    met = np.full(triangles.shape[0], -1)
    for i in prange(triangles.shape[0]):
        j = i + 1
        while j < triangles.shape[0] and lower[j, 0] <= upper[i, 0]:
            apart = lower[j, 1] > upper[i, 1] or upper[j, 1] < lower[i, 1] or lower[j, 2] > upper[i, 2] or upper[j, 2] < lower[i, 2]
            if not apart and _meet(points, triangles[i], triangles[j]):
                met[i] = j
                break
            j += 1
    return met


@njit(error_model="numpy", cache=True)
def _meet(points, A, B):
    """Whether two triangles have a place in common that is no common node or edge."""
    low, high = 1.0, -1.0
    for b in B:
        if b != A[0] and b != A[1] and b != A[2]:
            side = _side(points, A[0], A[1], A[2], b)
            low, high = min(low, side), max(high, side)
    if low > 0.0 or high < 0.0:
        return low > high  # all of B's own corners lie on one side; where it has none it is A once more
    if low == high:
        return _overlap(points, A, B)
    return _shared(A, B) < 2 and (_pierced(points, A, B) or _pierced(points, B, A))


@njit(error_model="numpy", cache=True)
def _shared(A, B):
    common = 0
    for a in A:
        common += a == B[0] or a == B[1] or a == B[2]
    return common


@njit(error_model="numpy", cache=True)
def _pierced(points, A, B):
    """Whether an edge of A, other than those at a common node, meets B."""
    for k in range(3):
        p, q = A[k], A[(k + 1) % 3]
        common = p == B[0] or p == B[1] or p == B[2] or q == B[0] or q == B[1] or q == B[2]
        if not common and _meets(points, p, q, B):
            return True
    return False


@njit(error_model="numpy", cache=True)
def _meets(points, p, q, B):
    """Whether the edge from p to q, ends included, meets the triangle B, rim included; not where it lies in its plane."""
    a, b = _side(points, B[0], B[1], B[2], p), _side(points, B[0], B[1], B[2], q)
    if a * b > 0.0 or (a == 0.0 and b == 0.0):
        return False
    u, v, w = _side(points, p, q, B[0], B[1]), _side(points, p, q, B[1], B[2]), _side(points, p, q, B[2], B[0])
    return not (min(u, v, w) < 0.0 < max(u, v, w))


@njit(error_model="numpy", cache=True)
def _side(points, a, b, c, d):
    """On which side of the plane of a, b, c the node d lies: 1, -1, or 0 within NEAR."""
    u0, u1, u2 = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1], points[b, 2] - points[a, 2]
    v0, v1, v2 = points[c, 0] - points[a, 0], points[c, 1] - points[a, 1], points[c, 2] - points[a, 2]
    w0, w1, w2 = points[d, 0] - points[a, 0], points[d, 1] - points[a, 1], points[d, 2] - points[a, 2]
    volume = u0 * (v1 * w2 - v2 * w1) + u1 * (v2 * w0 - v0 * w2) + u2 * (v0 * w1 - v1 * w0)
    bound = abs(u0) * (abs(v1 * w2) + abs(v2 * w1)) + abs(u1) * (abs(v2 * w0) + abs(v0 * w2)) + abs(u2) * (abs(v0 * w1) + abs(v1 * w0))
    return 0.0 if abs(volume) <= NEAR * bound else (1.0 if volume > 0.0 else -1.0)


@njit(error_model="numpy", cache=True)
def _overlap(points, A, B):
    """Whether two triangles of one plane share more than a rim: no edge of either has the other on its far side."""
    e, f = points[A[1]] - points[A[0]], points[A[2]] - points[A[0]]
    n0, n1, n2 = abs(e[1] * f[2] - e[2] * f[1]), abs(e[2] * f[0] - e[0] * f[2]), abs(e[0] * f[1] - e[1] * f[0])
    drop = 0 if (n0 >= n1 and n0 >= n2) else (1 if n1 >= n2 else 2)
    i, j = (drop + 1) % 3, (drop + 2) % 3
    return not (_parted(points, A, B, i, j) or _parted(points, B, A, i, j))


@njit(error_model="numpy", cache=True)
def _parted(points, A, B, i, j):
    """Whether an edge of A has B on its far side, seen along one axis."""
    for k in range(3):
        a, b, inner = A[k], A[(k + 1) % 3], _turn(points, A[k], A[(k + 1) % 3], A[(k + 2) % 3], i, j)
        if inner == 0.0:
            return True  # a triangle without area holds nothing
        if (
            max(inner * _turn(points, a, b, B[0], i, j), inner * _turn(points, a, b, B[1], i, j), inner * _turn(points, a, b, B[2], i, j))
            <= 0.0
        ):
            return True
    return False


@njit(error_model="numpy", cache=True)
def _turn(points, a, b, c, i, j):
    """1 where c lies to the left of the line from a to b in the plane of axes i and j, -1 to the right, 0 on it."""
    left = (points[b, i] - points[a, i]) * (points[c, j] - points[a, j])
    right = (points[b, j] - points[a, j]) * (points[c, i] - points[a, i])
    return 0.0 if abs(left - right) <= NEAR * (abs(left) + abs(right)) else (1.0 if left > right else -1.0)
