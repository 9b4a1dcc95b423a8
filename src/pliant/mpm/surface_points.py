"""Points on the surface of a body of particles, with their normals."""

import numpy as np

from pliant.core import Array
from pliant.mpm.particles import Particles

POINTS_PER_CELL = 3.0  # along an edge of a facet


def surface_points(body: Particles, name: str | None, cell: float) -> tuple[Array, Array, float]:
    """Return points (k, dim) [m] on a named surface (None: the whole boundary), at most a third of
    a cell [m] apart, their outward normals (k, dim), and the largest distance [m] of neighbours."""
    mesh, dim = body.mesh, body.dim
    facets = mesh.boundary() if name is None else mesh.facets(name)
    corners = mesh.points[facets[:, :dim]]
    longest = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())
    n = int(np.ceil(POINTS_PER_CELL * longest / cell))
    if dim == 2:
        normal = (corners[:, 1] - corners[:, 0]) @ np.array([[0.0, -1.0], [1.0, 0.0]])
        grid = np.stack([np.linspace(0, 1, n + 1), 1.0 - np.linspace(0, 1, n + 1)], axis=1)
    else:
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        i, j = np.array([(i, j) for i in range(n + 1) for j in range(n + 1 - i)]).T
        grid = np.stack([i, j, n - i - j], axis=1) / n
    middle = corners.mean(axis=1)
    inward = body.rest.reshape(-1, dim)[body.tree.query(middle)[1]] - middle
    normal *= -np.sign(np.sum(normal * inward, axis=1))[:, None]
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    points = np.einsum("ga,fai->fgi", grid, corners).reshape(-1, dim)
    return points, np.repeat(normal, len(grid), axis=0), longest / n
