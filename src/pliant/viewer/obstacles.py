"""Surfaces of obstacles from their signed distance: a lattice locates the surface, and Newton
steps project its points."""

import numpy as np

from pliant.contact import Distance, Obstacle
from pliant.core import Array

LATTICE_CELLS = 40  # along the longest side of the box


def obstacle_box(obstacle: Distance, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the box ((dim,), (dim,)) [m] of the drawn obstacle: around its outline if it has one,
    else (low, high)."""
    if not isinstance(obstacle, Obstacle) or not obstacle.outline:
        return low, high
    curves = np.concatenate(obstacle.outline)
    pad = 0.06 * float(np.ptp(curves, axis=0).max())
    return curves.min(axis=0) - pad, curves.max(axis=0) + pad


def obstacle_surface(obstacle: Distance, low: Array, high: Array) -> tuple[Array, Array]:
    """Return points (n, 3) [m] and outward triangles (m, 3) of an obstacle within a box.

    Dual contouring: each lattice cell that the surface crosses has a point, and each lattice edge
    that it cuts has two triangles.
    """
    step = float((high - low).max()) / LATTICE_CELLS
    counts = np.maximum(np.ceil((high - low) / step).astype(int), 2)
    axes = [a + step * np.arange(n + 1) for a, n in zip(low, counts, strict=True)]
    lattice = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    inside = np.asarray(obstacle(lattice.reshape(-1, 3))[0]).reshape(lattice.shape[:3]) < 0.0
    corners = np.stack(
        [
            inside[i : i + counts[0], j : j + counts[1], k : k + counts[2]]
            for i, j, k in np.ndindex(2, 2, 2)
        ]
    )
    crossed = corners.any(axis=0) & ~corners.all(axis=0)
    number = np.full(crossed.shape, -1)
    number[crossed] = np.arange(crossed.sum())
    points = lattice[:-1, :-1, :-1][crossed] + 0.5 * step
    return _project(obstacle, points, step), np.concatenate(
        [_edge_triangles(inside, number, axis) for axis in range(3)]
    )


def _project(obstacle: Distance, points: Array, step: float) -> Array:
    """Project points onto the zero of the distance by Newton steps of at most one cell."""
    for _ in range(8 if len(points) else 0):
        d, n, _ = obstacle(points)
        move = d[:, None] * n / np.maximum(np.sum(n * n, axis=1), 1e-12)[:, None]
        points = (
            points
            - move
            * np.minimum(1.0, step / np.maximum(np.linalg.norm(move, axis=1), 1e-300))[:, None]
        )
    return points


def _edge_triangles(inside: Array, number: Array, axis: int) -> Array:
    """Return the triangles (m, 3) around the cut lattice edges along an axis."""
    b, c = (axis + 1) % 3, (axis + 2) % 3
    start = np.moveaxis(inside, axis, 0)
    cut = np.moveaxis(start[:-1] != start[1:], 0, axis)
    at = np.argwhere(cut)
    at = at[
        (at[:, b] > 0)
        & (at[:, c] > 0)
        & (at[:, b] < number.shape[b])
        & (at[:, c] < number.shape[c])
    ]
    around = []
    for back_b, back_c in ((1, 1), (0, 1), (0, 0), (1, 0)):
        cell = at.copy()
        cell[:, b] -= back_b
        cell[:, c] -= back_c
        around.append(number[tuple(cell.T)])
    quad = np.stack(around, axis=1)
    leaving = inside[tuple(at.T)]  # inside to outside along the axis: already oriented outward
    quad = np.where(leaving[:, None], quad, quad[:, ::-1])
    return np.concatenate([quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]])


def obstacle_curves(obstacle: Distance, low: Array, high: Array) -> list[Array]:
    """Return the curves (k, 2) [m] of zero distance within a box of the plane."""
    import contourpy  # comes with matplotlib

    x, y = np.meshgrid(
        *(np.linspace(a, b, 6 * LATTICE_CELLS) for a, b in zip(low, high, strict=True))
    )
    depth = np.asarray(obstacle(np.stack([x.ravel(), y.ravel()], axis=1))[0]).reshape(x.shape)
    lines: list[Array] = contourpy.contour_generator(x, y, depth).lines(0.0)  # type: ignore[assignment]
    return lines
