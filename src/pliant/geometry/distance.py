"""Evenly spread points on surfaces and in boxes, and their distance to segments or triangles."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array
from pliant.geometry.nearest import nearest_on_simplices

MAX_PAIRS = 5_000_000  # of point and simplex in one search; limits the memory
MAX_POINTS = 20_000  # on a surface; their distances take less than a second


def quasirandom_points(n: int, dim: int = 3) -> Array:
    """Return points (n, dim) that are spread evenly over the unit cube [Roberts2018].

    They are the fractional parts of multiples of powers of the root of x^(dim + 1) = x + 1.
    """
    root = {2: 1.32471795724474603, 3: 1.22074408460575947}[dim]
    return (0.5 + np.arange(1, n + 1)[:, None] * root ** -np.arange(1.0, dim + 1.0)) % 1.0


def sample_surface(points: Array, parts: Sequence[Array], spacing: float) -> Array:
    """Return points (k, 3) [m] on the triangles of `parts`, about `spacing` [m] apart, with their
    corners.

    Each part has at most MAX_POINTS points.
    """
    triangles = np.vstack(parts)
    corners = points[np.unique(triangles)]
    a, b, c = (points[triangles[:, k]] for k in range(3))
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    density = min(1.0 / spacing**2, MAX_POINTS / area.sum())
    count = np.diff(np.floor(density * np.cumsum(area)), prepend=0.0).astype(int)
    owner = np.repeat(np.arange(len(triangles)), count)
    s, t = quasirandom_points(len(owner), 2).T
    s, t = np.where(s + t > 1.0, 1.0 - s, s)[:, None], np.where(s + t > 1.0, 1.0 - t, t)[:, None]
    between = (1.0 - s - t) * a[owner] + s * b[owner] + t * c[owner]
    return np.vstack([corners[:: len(corners) // MAX_POINTS + 1], between])


def distance_to_simplices(points: Array, corners: Array) -> Array:
    """Return the distance (k,) [m] of points (k, dim) to the closest segment (m, 2, dim) or
    triangle (m, 3, dim).

    Simplices may differ in size.
    """
    centres = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
    distance = cKDTree(corners.reshape(-1, points.shape[1])).query(points)[0]
    size = np.frexp(radius)[1]  # one search for each power of two, so that small ones stay quick
    for chosen in (np.flatnonzero(size == power) for power in np.unique(size)):
        tree, reach = cKDTree(centres[chosen]), float(radius[chosen].max())
        step = max(1, MAX_PAIRS // len(chosen))
        for rows in np.split(np.arange(len(points)), np.arange(step, len(points), step)):
            # A simplex whose centre is farther than this is not nearer.
            near = tree.query_ball_point(points[rows], (distance[rows] + reach) * (1.0 + 1e-9))
            point = np.repeat(rows, [len(found) for found in near])
            pairs = corners[chosen[np.concatenate(near).astype(np.int64)]]
            bary = nearest_on_simplices(pairs, points[point])
            foot = np.einsum("ka,kai->ki", bary, pairs)
            np.minimum.at(distance, point, np.linalg.norm(foot - points[point], axis=1))
    return distance
