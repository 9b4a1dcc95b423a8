"""The weight of the fluid in a closed wall by columns along gravity (Rodriguez, Coevoet, Duriez
2017, section III).

A grid of columns stands over the wall. Where a column passes a triangle that faces down, the fluid
begins; where it passes one that faces up, it ends. Each section between two such crossings is a
weight on the triangle below it. `hydrostatics` does without a grid and presses on every wall; this
is what the paper does.
"""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, MeshError
from pliant.geometry.raster import banded, projected, reached, swept
from pliant.geometry.surface import check_closed
from pliant.geometry.wall import LIGHT, checked_fluid, checked_wall, closed
from pliant.kernels.threads import run

MOST_COLUMNS = 20_000  # along a side
MOST_PARTS = 8
BAND = 8192  # columns of a band: what is kept of them fits in the cache of a core


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """What the columns found. `weights` point along gravity and sum to density g volume."""

    volume: float  # [m^3]
    weights: Array  # (n,) [N] on each node
    sections: int  # stretches of fluid in all columns together


def column_weights(
    points: Array,
    triangles: Array,
    *,
    grid: int | tuple[int, int],
    density: float,
    gravity: Array,
    check: bool = True,
) -> Columns:
    """The fluid's weight on the nodes of a closed wall: points (n, 3) [m], outward triangles (k,
    3), density [kg/m^3], gravity (3,) [m/s^2] in any direction. `grid` columns stand along each
    side of the bounding box across gravity. Without `check`, for triangles that are known to close,
    only a hole that a column meets is found."""
    points, triangles = checked_wall(points, triangles)
    (density, gravity), counts = checked_fluid(density, gravity), checked_grid(grid)
    if check and not closed(len(points), triangles):
        check_closed(points, triangles)  # says where, at many times the cost
    q, lower, upper = run(projected, len(points) // LIGHT, points, triangles, across(gravity))
    step = (upper - lower) / counts
    if not (step > 0.0).all():
        raise MeshError(
            "The wall is flat along gravity, so that it holds no fluid. Give a closed surface "
            "around a volume."
        )
    sums, volume, sections = _sections(q, triangles, lower, step, counts)
    area = float(step[0] * step[1])
    if not volume > 0.0:
        raise MeshError(
            "The wall holds no fluid in its columns: its triangles point inward, or the grid is "
            "too coarse to meet it. Pass triangles[:, ::-1], or a finer grid."
        )
    return Columns(
        volume=area * volume,
        weights=density * float(np.linalg.norm(gravity)) * area * sums,
        sections=sections,
    )


def checked_grid(grid: int | tuple[int, int]) -> Array:
    """(2,) the columns along each side."""
    try:
        counts = np.asarray(grid)
    except (ValueError, OverflowError):  # ragged lists, huge integers
        counts = np.zeros(1)
    if (
        not np.issubdtype(counts.dtype, np.integer)
        or counts.shape not in ((), (2,))
        or counts.min() < 1
    ):
        raise InputError(
            f"The grid is {grid!r}; give the columns along each side as a whole number, 1 or "
            "more, or as two of them."
        )
    if counts.max() > MOST_COLUMNS:
        raise InputError(
            f"The grid is {grid!r}; more than {MOST_COLUMNS} columns along a side tell nothing "
            "new. Choose fewer."
        )
    return np.broadcast_to(counts, (2,)).astype(np.int64)


def across(gravity: Array) -> Array:
    """(3, 3) rows: two directions across gravity and up. Up is turned to z the shortest way, so
    that x and y stay where they can."""
    up = -gravity / np.linalg.norm(gravity)
    x, y, z = up
    if z < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    s = 1.0 / (1.0 + z)
    return np.array(
        [[1.0 - s * x * x, -s * x * y, -x], [-s * x * y, 1.0 - s * y * y, -y], [x, y, z]]
    )


def _sections(
    q: Array, triangles: Array, lower: Array, step: Array, counts: Array
) -> tuple[Array, float, int]:
    """(sums (n,) of section heights [m] that each node carries, their total [m], sections)"""
    reach = run(reached, len(triangles) // LIGHT, q, triangles, lower, step, counts)
    work = reach.work[-1]
    parts = _parts(work, len(q))
    bands = banded(reach, _cuts(reach.work, parts * -(-int(np.prod(counts)) // (parts * BAND))))
    most = (
        np.diff(bands.cuts).max(),
        np.diff(bands.start).max(),
        np.diff(reach.candidates[bands.cuts]).max(),
    )
    sums, total, sections, unmatched = run(
        swept, int(work) if parts > 1 else 0, q, triangles, bands, most, int(counts[0]), parts
    )
    if unmatched:
        raise MeshError(
            f"The wall leaks: {unmatched} of {np.prod(counts)} columns enter the fluid and do "
            "not leave it. Close its holes; geometry.check_wall says where they are."
        )
    return sums, total, sections


def _parts(work: float, n: int) -> int:
    """How many parts the bands are shared out in, a power of two: by the work alone, so that the
    bits do not depend on the threads. Each part sums to nodes of its own, which must cost little
    beside the work."""
    parts = 1
    while parts < MOST_PARTS and work > 16 * parts * (n + 1000):
        parts *= 2
    return parts


def _cuts(work: Array, bands: int) -> Array:
    """(bands + 1,) the first row of each band, of about equal work."""
    cuts = np.searchsorted(work, work[-1] * np.arange(bands + 1) / bands)
    cuts[0], cuts[-1] = 0, len(work) - 1
    return cuts
