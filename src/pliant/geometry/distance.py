"""Points spread evenly on surfaces and in boxes, and their distance to triangles."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array

NEIGHBOURS = 16  # triangles with the nearest centres, among which the nearest one is looked for
MOST_POINTS = 20_000


def spread(n: int, dim: int = 3) -> Array:
    """(n, dim) points spread evenly over the unit cube: multiples of the powers of the root of
    x^(dim + 1) = x + 1, without their whole parts [Roberts2018]."""
    root = {2: 1.32471795724474603, 3: 1.22074408460575947}[dim]
    return (0.5 + np.arange(1, n + 1)[:, None] * root ** -np.arange(1.0, dim + 1.0)) % 1.0


def points_on(points: Array, parts: Sequence[Array], spacing: float) -> Array:
    """(k, 3) [m] corners of the triangles of `parts`, and points between them about `spacing` [m]
    apart; at most MOST_POINTS of each."""
    triangles = np.vstack(parts)
    corners = points[np.unique(triangles)]
    a, b, c = (points[triangles[:, k]] for k in range(3))
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    density = min(1.0 / spacing**2, MOST_POINTS / area.sum())
    count = np.diff(np.floor(density * np.cumsum(area)), prepend=0.0).astype(int)
    owner = np.repeat(np.arange(len(triangles)), count)
    s, t = spread(len(owner), 2).T
    s, t = np.where(s + t > 1.0, 1.0 - s, s)[:, None], np.where(s + t > 1.0, 1.0 - t, t)[:, None]
    between = (1.0 - s - t) * a[owner] + s * b[owner] + t * c[owner]
    return np.vstack([corners[:: len(corners) // MOST_POINTS + 1], between])


def to_triangles(points: Array, corners: Array) -> Array:
    """(k,) [m] distance of points (k, 3) to the nearest of triangles (m, 3, 3) of similar size."""
    tree = cKDTree(corners.mean(axis=1))
    _, near = tree.query(points, k=min(NEIGHBOURS, len(corners)))
    return to_triangle(points[:, None], corners[near.reshape(len(points), -1)]).min(axis=1)


def to_triangle(points: Array, corners: Array) -> Array:
    """(...,) distance of points (..., 3) to triangles (..., 3, 3): to the plane if the point lies
    above the triangle, otherwise to its edges."""
    a, b, c = (corners[..., k, :] for k in range(3))
    normal = np.cross(b - a, c - a)
    square = _dot(normal, normal)
    v = _dot(np.cross(points - a, c - a), normal)
    w = _dot(np.cross(b - a, points - a), normal)
    above = (v >= 0.0) & (w >= 0.0) & (v + w <= square)
    height = np.abs(_dot(points - a, normal)) / np.sqrt(square)
    sides = [to_segment(points, *ends) for ends in ((a, b), (b, c), (c, a))]
    return np.where(above, height, np.min(sides, axis=0))


def to_segment(points: Array, start: Array, end: Array) -> Array:
    along = end - start
    t = np.clip(_dot(points - start, along) / _dot(along, along), 0.0, 1.0)
    return np.linalg.norm(points - start - t[..., None] * along, axis=-1)


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("...i,...i->...", a, b)
