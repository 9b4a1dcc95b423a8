"""Scenes made of plain arrays for the tests of pictures: a bending bar and a sagging strip."""

import numpy as np
import pytest

from pliant.report import DrawnScene, Line


def box_surface(nx, ny, nz):
    """Return the points (n, 3) and triangles (m, 3) of a unit cube. The normals point outward."""
    counts = np.array([nx, ny, nz])
    index: dict[tuple[int, ...], int] = {}
    triangles = []
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for side in (0, 1):
            for i in range(counts[u]):
                for j in range(counts[v]):
                    quad = []
                    for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1)):
                        cell = [0, 0, 0]
                        cell[axis], cell[u], cell[v] = side * counts[axis], i + di, j + dj
                        quad.append(index.setdefault(tuple(int(c) for c in cell), len(index)))
                    a, b, c, d = quad if side else quad[::-1]
                    triangles += [(a, b, c), (a, c, d)]
    return np.array(list(index)) / counts, np.array(triangles)


def bent(points, curvature):
    """Bend points (n, 3) along x into a circular arc towards +z. The curvature is in 1/m."""
    x, y, z = points.T
    if abs(curvature) < 1e-9:
        return points.copy()
    radius = 1.0 / curvature - z
    return np.stack(
        [radius * np.sin(curvature * x), y, 1.0 / curvature - radius * np.cos(curvature * x)],
        axis=1,
    )


@pytest.fixture(scope="session")
def bar():
    """A bar of 120 x 24 x 24 mm that bends up, with a cable, strain and a target for its tip."""
    return bending_bar()


def bending_bar(frames=12, cells=(20, 4, 4), **changes):
    points, facets = box_surface(*cells)
    points = points * [0.12, 0.024, 0.024] + [0.0, -0.012, 0.02]
    curvatures = np.linspace(0.0, 11.0, frames)
    shapes = np.array([bent(points, c) for c in curvatures])
    cable = np.stack([np.linspace(0.0, 0.12, 20), np.zeros(20), np.full(20, 0.038)], axis=1)
    tip = np.array([bent(np.array([[0.12, 0.0, 0.032]]), c) for c in curvatures])
    strain = 100 * np.abs(curvatures[:, None] * (points[:, 2] - 0.032))
    options = {
        "frames": shapes,
        "facets": facets,
        "dt": 0.1,
        "title": "Bending bar",
        "values": strain,
        "value_label": "strain [%]",
        "lines": (Line(points=np.array([bent(cable, c) for c in curvatures])),),
        "markers": tip,
        "targets": tip[-1] + [0.004, 0.0, 0.006],
        "ground": 0.0,
    }
    return DrawnScene(**{**options, **changes})


@pytest.fixture(scope="session")
def strip():
    """A 2D strip of triangles that sags above the ground."""
    return sagging_strip()


def sagging_strip(frames=10, **changes):
    nx, ny = 24, 4
    x, y = np.meshgrid(np.linspace(0, 0.3, nx + 1), np.linspace(0, 0.04, ny + 1), indexing="ij")
    rest = np.stack([x.ravel(), y.ravel()], axis=1) + [0.0, 0.15]
    i, j = (a.ravel() for a in np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij"))
    a = i * (ny + 1) + j
    b, c, d = a + ny + 1, a + ny + 2, a + 1
    facets = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    load = np.linspace(0.0, 1.0, frames)[:, None]
    shapes = np.stack(
        [
            np.broadcast_to(rest[:, 0], (frames, len(rest))),
            rest[:, 1] - 1.2 * load * rest[:, 0] ** 2,
        ],
        axis=2,
    )
    tip = shapes[:, [-1]]
    options = {
        "frames": shapes,
        "facets": facets,
        "dt": 0.02,
        "title": "Sagging strip",
        "markers": tip,
        "ground": 0.0,
    }
    return DrawnScene(**{**options, **changes})
