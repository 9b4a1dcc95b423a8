"""The distance of a closed triangle surface to another, and to an ellipsoid."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.distance import distance_to_simplices
from pliant.geometry.nearest import nearest_on_simplices
from pliant.geometry.self_intersection import find_intersecting_pair
from pliant.geometry.winding import cluster_triangles, winding_numbers
from pliant.swimming.ellipsoid_distance import PlacedEllipsoid

PROJECTIONS = 1000  # between an ellipsoid and triangles; about ten unless they nearly touch
RELATIVE_ERROR = 1e-6  # of the distance to an ellipsoid; the result is a lower bound


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedSurface:
    """A closed surface at a pose."""

    points: Array  # (n, 3) [m]
    triangles: Array  # (k, 3)

    @property
    def corners(self) -> Array:
        return self.points[self.triangles]

    def contains(self, point: Array) -> bool:
        """Return whether a point (3,) lies inside."""
        return bool(winding_numbers(cluster_triangles(self.corners), point[None])[0] > 0.5)


def surfaces_meet(one: PlacedSurface, other: PlacedSurface) -> bool:
    """Return whether two solids overlap or touch."""
    if (one.points.min(axis=0) > other.points.max(axis=0)).any() or (
        other.points.min(axis=0) > one.points.max(axis=0)
    ).any():
        return False
    if one.contains(other.points[0]) or other.contains(one.points[0]):
        return True
    points = np.concatenate([one.points, other.points])
    triangles = np.concatenate([one.triangles, other.triangles + len(one.points)])
    return find_intersecting_pair(points, triangles) is not None


def surface_distance(one: PlacedSurface, other: PlacedSurface) -> float:
    """Return the distance [m] of two solids, 0 if they overlap or touch.

    The closest points are a vertex and a point of a triangle, or points inside two edges."""
    if surfaces_meet(one, other):
        return 0.0
    nearest = min(
        float(distance_to_simplices(one.points, other.corners).min()),
        float(distance_to_simplices(other.points, one.corners).min()),
    )
    return min(nearest, _edge_distance(_edges(one), _edges(other), nearest))


def _edges(surface: PlacedSurface) -> Array:
    """Return the ends (k, 2, 3) [m] of the edges."""
    pairs = np.sort(surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return surface.points[np.unique(pairs, axis=0)]


def _edge_distance(one: Array, other: Array, bound: float) -> float:
    """Return the smallest distance of two edges (k, 2, 3) whose closest points lie inside both,
    if it is less than `bound`."""
    halves = [0.5 * np.linalg.norm(e[:, 1] - e[:, 0], axis=1).max() for e in (one, other)]
    trees = [cKDTree(e.mean(axis=1)) for e in (one, other)]
    found = trees[0].query_ball_tree(trees[1], bound + sum(halves))
    first = one[np.repeat(np.arange(len(one)), [len(row) for row in found])]
    second = other[np.concatenate([np.asarray(row, dtype=np.int64) for row in found])]
    d1, d2, r = first[:, 1] - first[:, 0], second[:, 1] - second[:, 0], second[:, 0] - first[:, 0]
    normal = np.cross(d1, d2)
    square = np.einsum("ki,ki->k", normal, normal)
    usable = square > 0.0
    d1, d2, r, normal, square = (v[usable] for v in (d1, d2, r, normal, square))
    s = np.einsum("ki,ki->k", np.cross(r, d2), normal) / square
    t = np.einsum("ki,ki->k", np.cross(r, d1), normal) / square
    inside = (np.minimum(s, t) >= 0.0) & (np.maximum(s, t) <= 1.0)
    height = np.abs(np.einsum("ki,ki->k", r, normal)) / np.sqrt(square)
    return float(min(height[inside].min(initial=np.inf), bound))


def ellipsoid_meets_surface(ellipsoid: PlacedEllipsoid, surface: PlacedSurface) -> bool:
    """Return whether two solids overlap or touch. In the coordinates in which the ellipsoid is the
    unit sphere, they do so if a triangle comes within 1 of the origin."""
    if surface.contains(ellipsoid.centre):
        return True
    scaled = (surface.points - ellipsoid.centre) @ ellipsoid.rotation / ellipsoid.semi_axes
    return bool(distance_to_simplices(np.zeros((1, 3)), scaled[surface.triangles])[0] <= 1.0)


def ellipsoid_surface_distance(ellipsoid: PlacedEllipsoid, surface: PlacedSurface) -> float:
    """Return a lower bound of the distance [m] of two solids, 0 if they overlap or touch.

    Points are projected in turn on the ellipsoid and on each triangle. The plane between them gives
    a lower bound for each triangle, the points themselves an upper one.
    """
    if ellipsoid_meets_surface(ellipsoid, surface):
        return 0.0
    corners = (surface.corners - ellipsoid.centre) @ ellipsoid.rotation
    axes = ellipsoid.semi_axes
    on_triangle = corners.mean(axis=1)
    lower, upper, finished = np.zeros(len(corners)), np.inf, np.inf
    for _ in range(PROJECTIONS):
        on_ellipsoid = _nearest_on_ellipsoid(axes, on_triangle)
        weights = nearest_on_simplices(corners, on_ellipsoid)
        on_triangle = np.einsum("ka,kai->ki", weights, corners)
        gap = on_triangle - on_ellipsoid
        length = np.linalg.norm(gap, axis=1)
        normal = gap / length[:, None]
        support = np.linalg.norm(normal * axes, axis=1)
        plane = np.einsum("kai,ki->ka", corners, normal).min(axis=1) - support
        lower, upper = np.maximum(lower, plane), min(upper, float(length.min()))
        if lower.min() >= (1.0 - RELATIVE_ERROR) * upper:
            break
        near = lower < upper  # the others are farther than the closest
        finished = min(finished, float(lower[~near].min(initial=np.inf)))
        corners, on_triangle, lower = corners[near], on_triangle[near], lower[near]
    return float(min(lower.min(), finished))


def _nearest_on_ellipsoid(axes: Array, points: Array) -> Array:
    """Return the closest points (k, 3) of an ellipsoid around the origin to points outside.

    They are a^2 y / (a^2 + t), where Newton's method from t = 0 increases t to the root of a convex
    function."""
    t = np.zeros(len(points))
    for _ in range(100):
        shares = (axes * points / (axes**2 + t[:, None])) ** 2
        excess = shares.sum(axis=1) - 1.0
        step = 0.5 * excess / (shares / (axes**2 + t[:, None])).sum(axis=1)
        t = np.maximum(t + step, 0.0)
        if (np.abs(step) <= 1e-14 * (t + axes.min() ** 2)).all():
            break
    return axes**2 * points / (axes**2 + t[:, None])
