"""Outlines of obstacles for pictures, traced from their signed distance where they do not bring
any."""

from typing import Any, cast

import contourpy  # comes with matplotlib
import numpy as np

from pliant.contact import Distance, Obstacle
from pliant.core import Array

FINE = 60  # steps of the tracing grid along a body's length
APART = 0.4  # of a body's length, between slices in 3D
MOST_SLICES = 60


def surroundings(obstacles: list[Distance], frames: Array, reach: float) -> tuple[Array, ...]:
    """Curves (k, dim) [m] of obstacles within `reach` [m] of the bodies in frames (count, n, dim):
    in the plane closed ones about their inside, in space slices through them."""
    low, high = frames.min(axis=(0, 1)) - reach, frames.max(axis=(0, 1)) + reach
    step = float(np.ptp(frames, axis=1).max()) / FINE or reach / FINE
    if frames.shape[2] == 2:
        return tuple(curve for obstacle in obstacles for curve in _rings(obstacle, low, high, step))
    return tuple(curve for obstacle in obstacles for curve in _slices(obstacle, low, high, step))


def _axis(low: float, high: float, step: float) -> Array:
    return np.linspace(low, high, int(np.clip((high - low) / step, 2, 1500)) + 1)


def _depth(obstacle: Distance, grid: list[Array]) -> Array:
    """The distance at the nodes of a grid."""
    return np.asarray(
        obstacle(np.stack([axis.ravel() for axis in grid], axis=1))[0], float
    ).reshape(grid[0].shape)


def _rings(obstacle: Distance, low: Array, high: Array, step: float) -> list[Array]:
    """Closed curves about the inside; those about holes run the other way."""
    x, y = np.meshgrid(_axis(low[0], high[0], step), _axis(low[1], high[1], step))
    traced = contourpy.contour_generator(
        x, y, _depth(obstacle, [x, y]), fill_type=contourpy.FillType.OuterOffset
    )
    points, offsets = cast(Any, traced.filled(-np.inf, 0.0))
    return [
        ring
        for shape, at in zip(points, offsets, strict=True)
        for ring in np.split(shape, at[1:-1])
    ]


def _slices(obstacle: Distance, low: Array, high: Array, step: float) -> list[Array]:
    """Where upright planes along the first and the second axis cut the surface; an obstacle's own
    outline where it has one."""
    if isinstance(obstacle, Obstacle) and obstacle.outline:
        return list(obstacle.outline)
    out: list[Array] = []
    gap = max(APART * FINE * step, float((high - low).max()) / MOST_SLICES)
    for across, along in ((0, 1), (1, 0)):
        u, z = np.meshgrid(
            _axis(low[along], high[along], 2.0 * step), _axis(low[2], high[2], 2.0 * step)
        )
        for place in gap * np.arange(np.ceil(low[across] / gap), high[across] / gap):
            grid = (
                [np.full(u.shape, place), u, z] if across == 0 else [u, np.full(u.shape, place), z]
            )
            curves: Any = contourpy.contour_generator(u, z, _depth(obstacle, grid)).lines(0.0)
            out += [np.insert(curve, across, place, axis=1) for curve in curves]
    return out
