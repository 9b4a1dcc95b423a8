"""Outlines of obstacles for pictures. An obstacle without an outline is contoured from its signed
distance."""

from typing import Any, cast

import contourpy  # comes with matplotlib
import numpy as np

from pliant.contact import Distance, Obstacle
from pliant.core import Array

STEPS_PER_LENGTH = 60  # steps of the contouring grid per body length
SLICE_SPACING = 0.4  # body lengths between slices in 3D
MAX_SLICES = 60


def surroundings(obstacles: list[Distance], frames: Array, reach: float) -> tuple[Array, ...]:
    """Return curves (k, dim) [m] of obstacles within a distance `reach` [m] of the body in frames
    (count, n, dim) [m]. In 2D they are the closed boundaries, in 3D slices of the surface."""
    low, high = frames.min(axis=(0, 1)) - reach, frames.max(axis=(0, 1)) + reach
    step = float(np.ptp(frames, axis=1).max()) / STEPS_PER_LENGTH or reach / STEPS_PER_LENGTH
    if frames.shape[2] == 2:
        return tuple(
            curve for obstacle in obstacles for curve in _boundary_curves(obstacle, low, high, step)
        )
    return tuple(curve for obstacle in obstacles for curve in _slices(obstacle, low, high, step))


def _axis(low: float, high: float, step: float) -> Array:
    return np.linspace(low, high, int(np.clip((high - low) / step, 2, 1500)) + 1)


def _grid_distance(obstacle: Distance, grid: list[Array]) -> Array:
    """Return the signed distance [m] at the nodes of a grid."""
    return np.asarray(
        obstacle(np.stack([axis.ravel() for axis in grid], axis=1))[0], float
    ).reshape(grid[0].shape)


def _boundary_curves(obstacle: Distance, low: Array, high: Array, step: float) -> list[Array]:
    """Return the closed boundary curves (k, 2) [m]. Those of holes have the opposite sense."""
    x, y = np.meshgrid(_axis(low[0], high[0], step), _axis(low[1], high[1], step))
    traced = contourpy.contour_generator(
        x, y, _grid_distance(obstacle, [x, y]), fill_type=contourpy.FillType.OuterOffset
    )
    points, offsets = cast(Any, traced.filled(-np.inf, 0.0))
    return [
        ring
        for shape, at in zip(points, offsets, strict=True)
        for ring in np.split(shape, at[1:-1])
    ]


def _slices(obstacle: Distance, low: Array, high: Array, step: float) -> list[Array]:
    """Return the outline of an obstacle, or the intersections (k, 3) [m] of its surface with
    vertical planes normal to the first and second axis."""
    if isinstance(obstacle, Obstacle) and obstacle.outline:
        return list(obstacle.outline)
    out: list[Array] = []
    gap = max(SLICE_SPACING * STEPS_PER_LENGTH * step, float((high - low).max()) / MAX_SLICES)
    for across, along in ((0, 1), (1, 0)):
        u, z = np.meshgrid(
            _axis(low[along], high[along], 2.0 * step), _axis(low[2], high[2], 2.0 * step)
        )
        for place in gap * np.arange(np.ceil(low[across] / gap), high[across] / gap):
            grid = (
                [np.full(u.shape, place), u, z] if across == 0 else [u, np.full(u.shape, place), z]
            )
            curves: Any = contourpy.contour_generator(u, z, _grid_distance(obstacle, grid)).lines(
                0.0
            )
            out += [np.insert(curve, across, place, axis=1) for curve in curves]
    return out
