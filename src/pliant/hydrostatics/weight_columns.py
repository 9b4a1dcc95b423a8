"""The weight of a fluid in a closed surface by columns along gravity [Rodriguez2017, section III].

A grid of columns covers the surface. Fluid begins where a column crosses a triangle that faces
down, and ends where it crosses one that faces up. Each section in between is a weight on the
triangle below it. `hydrostatic_load` needs no grid and includes the pressure on all walls; this
module reproduces the paper.
"""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError, MeshError
from pliant.geometry.surface import check_closed
from pliant.hydrostatics.closed_surface_checks import (
    ITEMS_PER_WORK_UNIT,
    has_balanced_edges,
    validate_fluid,
    validate_surface_arrays,
)
from pliant.hydrostatics.column_raster import (
    assign_bands,
    find_row_ranges,
    project_nodes,
    sum_sections,
)
from pliant.kernels.threads import run_kernel

MAX_COLUMNS = 20_000  # along a side
MAX_PARTS = 8  # each has its own nodal sums
COLUMNS_PER_BAND = 8192  # their data fits into the cache of a core


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnWeights:
    """The result of `column_weights`. The weights act along gravity and sum to density g volume."""

    volume: float  # [m^3]
    weights: Array  # (n,) [N] on each node
    sections: int  # number of fluid sections in all columns


def column_weights(
    points: Array,
    triangles: Array,
    *,
    grid: int | tuple[int, int],
    density: float,
    gravity: Array,
    check: bool = True,
) -> ColumnWeights:
    """Return the weight of the fluid on the nodes of a closed surface.

    `points` (n, 3) [m] and outward `triangles` (k, 3) form the surface, `density` is in [kg/m^3]
    and `gravity` (3,) [m/s^2] may have any direction. `grid` is the number of columns along each
    side of the bounding box across gravity. Raises `MeshError` if the surface is not closed.
    Without `check`, for triangles that are known to be closed, only holes that a column crosses are
    detected.
    """
    points, triangles = validate_surface_arrays(points, triangles)
    (density, gravity), counts = validate_fluid(density, gravity), validate_grid(grid)
    if check and not has_balanced_edges(len(points), triangles):
        check_closed(points, triangles)  # slower, but reports where
    q, lower, upper = run_kernel(
        project_nodes,
        len(points) // ITEMS_PER_WORK_UNIT,
        points,
        triangles,
        vertical_frame(gravity),
    )
    step = (upper - lower) / counts
    if not (step > 0.0).all():
        raise MeshError(
            "The wall is flat along gravity, so it cannot hold a fluid. Pass a closed surface "
            "around a volume."
        )
    sums, volume, sections = _sections(q, triangles, lower, step, counts)
    area = float(step[0] * step[1])
    if not volume > 0.0:
        raise MeshError(
            "The columns contain no fluid: the triangles point inward, or the grid is too "
            "coarse. Pass triangles[:, ::-1], or a finer grid."
        )
    return ColumnWeights(
        volume=area * volume,
        weights=density * float(np.linalg.norm(gravity)) * area * sums,
        sections=sections,
    )


def validate_grid(grid: int | tuple[int, int]) -> Array:
    """Return the number of columns (2,) along each side. Raises `InputError` for an invalid
    grid."""
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
            f"The grid is {grid!r}. Pass the number of columns along each side: one or two "
            "whole numbers, 1 or more."
        )
    if counts.max() > MAX_COLUMNS:
        raise InputError(
            f"The grid is {grid!r}, over the limit of {MAX_COLUMNS} columns along a side. "
            "Choose fewer."
        )
    return np.broadcast_to(counts, (2,)).astype(np.int64)


def vertical_frame(gravity: Array) -> Array:
    """Return a rotation (3, 3) whose rows are two directions across gravity and the upward
    direction.

    It is the smallest rotation that maps up to z, so x and y change as little as possible.
    """
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
    """Return (sums (n,) of section heights [m] that each node carries, their total [m], number of
    sections)."""
    ranges = run_kernel(
        find_row_ranges, len(triangles) // ITEMS_PER_WORK_UNIT, q, triangles, lower, step, counts
    )
    work = ranges.work[-1]
    parts = _count_parts(work, len(q))
    bands = assign_bands(
        ranges,
        _band_limits(ranges.work, parts * -(-int(np.prod(counts)) // (parts * COLUMNS_PER_BAND))),
    )
    largest = (
        np.diff(bands.cuts).max(),
        np.diff(bands.start).max(),
        np.diff(ranges.candidates[bands.cuts]).max(),
    )
    sums, total, sections, unmatched = run_kernel(
        sum_sections,
        int(work) if parts > 1 else 0,
        q,
        triangles,
        bands,
        largest,
        int(counts[0]),
        parts,
    )
    if unmatched:
        raise MeshError(
            f"The wall leaks along {unmatched} of {np.prod(counts)} columns. Close its holes; "
            "hydrostatics.check_closed_surface reports where."
        )
    return sums, total, sections


def _count_parts(work: float, n: int) -> int:
    """Return the number of parts of the bands, a power of two.

    It depends only on the work, so results do not depend on the number of threads. Each part has
    its own nodal sums, whose cost must be small compared to the work.
    """
    parts = 1
    while parts < MAX_PARTS and work > 16 * parts * (n + 1000):
        parts *= 2
    return parts


def _band_limits(work: Array, bands: int) -> Array:
    """Return the first row (bands + 1,) of each band, for about equal work."""
    cuts = np.searchsorted(work, work[-1] * np.arange(bands + 1) / bands)
    cuts[0], cuts[-1] = 0, len(work) - 1
    return cuts
