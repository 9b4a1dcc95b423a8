"""Points spread evenly on surfaces and in boxes, and their distance to segments or triangles."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.nearest import nearest_on_simplices

PAIRS = 5_000_000  # of point and simplex: the most that one search can return
MOST_POINTS = 20_000  # on a surface; their distances take below a second


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


def distance_to_simplices(points: Array, corners: Array) -> Array:
    """(k,) [m] distance of points (k, dim) to the nearest of some segments (m, 2, dim) or triangles
    (m, 3, dim), which may differ in size."""
    centres = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
    distance = cKDTree(corners.reshape(-1, points.shape[1])).query(points)[0]
    size = np.frexp(radius)[1]  # one search for each power of two, so that small ones stay quick
    for chosen in (np.flatnonzero(size == power) for power in np.unique(size)):
        tree, reach = cKDTree(centres[chosen]), float(radius[chosen].max())
        step = max(1, PAIRS // len(chosen))
        for rows in np.split(np.arange(len(points)), np.arange(step, len(points), step)):
            # A simplex whose centre is farther than this is not nearer.
            near = tree.query_ball_point(points[rows], (distance[rows] + reach) * (1.0 + 1e-9))
            point = np.repeat(rows, [len(found) for found in near])
            pairs = corners[chosen[np.concatenate(near).astype(np.int64)]]
            bary = nearest_on_simplices(pairs, points[point])
            foot = np.einsum("ka,kai->ki", bary, pairs)
            np.minimum.at(distance, point, np.linalg.norm(foot - points[point], axis=1))
    return distance
