"""Compiled loops over columns: assign triangles to bands of rows, and sum over all bands.

Node coordinates are scaled to the grid, so columns are at integer positions (i, j). Rows are
divided into bands of equal work that fit into the cache, and the bands are divided among the
threads.
"""

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.hydrostatics.column_scanline import (
    EMPTY,
    distribute_to_nodes,
    find_spans,
    match_crossings,
    store_crossings,
)

ROW_COST = 6.0  # of the two edges of a triangle in a row, in candidate columns
COLUMN_COST = 0.5  # of a column without a triangle, in candidate columns
# [columns] far above the rounding of a crossing; triangles this close to a column are checked
COLUMN_TOLERANCE = 1e-9


class RowRanges(NamedTuple):
    """The rows that each triangle covers. Cumulative counts start with 0 before the first row."""

    # (k, 2) int32, the first row of each triangle and the one after its last; an empty range if it
    # lies between the columns
    rows: Array
    n_begun: Array  # (rows + 1,) int64, triangles that start before each row
    n_ended: Array  # (rows + 1,) int64, triangles that end at or before it
    candidates: Array  # (rows + 1,) int64, columns in the boxes of triangles before it
    # (rows + 1,) cost before it: of candidate columns, triangles in a row, and all columns
    work: Array


class RowBands(NamedTuple):
    """The triangles over each band of rows, in ascending order."""

    cuts: Array  # (bands + 1,) the first row of each band
    start: Array  # (bands + 1,) the start of each band in `members`
    members: Array  # (pairs,) int32, triangles


@njit(error_model="numpy", cache=True, parallel=True)
def project_nodes(points: Any, triangles: Any, frame: Any) -> Any:
    """Return nodes (n, 3) [m] in the vertical frame, and the lower (2,) and upper corner (2,) of
    their box.

    Nodes without a triangle do not extend the box.
    """
    q = np.empty(points.shape)
    for i in prange(points.shape[0]):
        for r in range(3):
            q[i, r] = (
                frame[r, 0] * points[i, 0] + frame[r, 1] * points[i, 1] + frame[r, 2] * points[i, 2]
            )
    used = np.zeros(q.shape[0], np.bool_)
    for t in range(triangles.shape[0]):
        used[triangles[t, 0]] = used[triangles[t, 1]] = used[triangles[t, 2]] = True
    x0 = x1 = q[triangles[0, 0], 0]
    y0 = y1 = q[triangles[0, 0], 1]
    for i in range(q.shape[0]):
        if used[i]:
            x0, x1, y0, y1 = min(x0, q[i, 0]), max(x1, q[i, 0]), min(y0, q[i, 1]), max(y1, q[i, 1])
    return q, np.array([x0, y0]), np.array([x1, y1])


@njit(error_model="numpy", cache=True, parallel=True)
def find_row_ranges(q: Any, triangles: Any, lower: Any, step: Any, counts: Any) -> Any:
    """Return the rows that each triangle covers. Scales the first two coordinates of q to the
    grid."""
    for i in prange(q.shape[0]):
        for r in range(2):
            q[i, r] = (q[i, r] - lower[r]) / step[r] - 0.5
    rows, width = (
        np.empty((triangles.shape[0], 2), np.int32),
        np.empty(triangles.shape[0], np.int32),
    )
    for t in prange(triangles.shape[0]):
        rows[t, 0], rows[t, 1], width[t] = _box(
            q, triangles[t, 0], triangles[t, 1], triangles[t, 2]
        )
    n_begun, n_ended, wide = (
        np.zeros(counts[1] + 1, np.int64),
        np.zeros(counts[1] + 1, np.int64),
        np.zeros(counts[1] + 1, np.int64),
    )
    for t in range(rows.shape[0]):
        j0, j1 = rows[t, 0], rows[t, 1]
        if j0 < j1:
            n_begun[j0 + 1] += 1
            n_ended[j1] += 1
            wide[j0] += width[t]
            wide[j1] -= width[t]
    return RowRanges(rows, *_accumulate(n_begun, n_ended, wide, counts[0]))


@njit(error_model="numpy", cache=True)
def _box(q: Any, a: Any, b: Any, c: Any) -> Any:
    """Return (first row, row after the last, candidate columns in a row) of a triangle."""
    i0, i1 = (
        ceil(min(q[a, 0], q[b, 0], q[c, 0]) - COLUMN_TOLERANCE),
        ceil(max(q[a, 0], q[b, 0], q[c, 0]) + COLUMN_TOLERANCE),
    )
    j0, j1 = ceil(min(q[a, 1], q[b, 1], q[c, 1])), ceil(max(q[a, 1], q[b, 1], q[c, 1]))
    return j0, (j1 if i0 < i1 else j0), i1 - i0


@njit(error_model="numpy", cache=True)
def _accumulate(n_begun: Any, n_ended: Any, wide: Any, columns: Any) -> Any:
    """Return cumulative counts of those of each row."""
    candidates, work, now = np.zeros_like(wide), np.zeros(wide.shape[0]), 0
    for j in range(wide.shape[0] - 1):
        n_begun[j + 1] += n_begun[j]
        n_ended[j + 1] += n_ended[j]
        now += wide[j]
        candidates[j + 1] = candidates[j] + now
        work[j + 1] = (
            work[j] + now + ROW_COST * (n_begun[j + 1] - n_ended[j]) + COLUMN_COST * columns
        )
    return n_begun, n_ended, candidates, work


@njit(error_model="numpy", cache=True)
def assign_bands(ranges: Any, cuts: Any) -> Any:
    """Return the triangles over each band."""
    rows, bands = ranges.rows, cuts.shape[0] - 1
    band_of, start = np.zeros(cuts[bands], np.int32), np.zeros(bands + 1, np.int64)
    for b in range(bands):
        band_of[cuts[b] : cuts[b + 1]] = b
        over = ranges.n_begun[cuts[b + 1]] - ranges.n_ended[cuts[b]] if cuts[b] < cuts[b + 1] else 0
        start[b + 1] = start[b] + over
    members, cursor = np.empty(start[bands], np.int32), start[:bands].copy()
    for t in range(rows.shape[0]):
        if rows[t, 0] < rows[t, 1]:
            for b in range(band_of[rows[t, 0]], band_of[rows[t, 1] - 1] + 1):
                if cuts[b] < cuts[b + 1]:
                    members[cursor[b]] = t
                    cursor[b] += 1
    return RowBands(cuts, start, members)


@njit(error_model="numpy", cache=True, parallel=True)
def sum_sections(q: Any, triangles: Any, bands: Any, largest: Any, columns: Any, parts: Any) -> Any:
    """Return (sums (n,) of section heights that each node carries, their total, sections, unmatched
    columns).

    `largest` is (rows, triangles, candidate columns) of the largest band.

    [Rodriguez2017] divides the candidate columns of each triangle among k = alpha mean(candidates)
    GPU threads, so that one large triangle does not delay the others. A CPU has few threads that
    should finish together. So the candidates of all triangles, row by row, are divided into bands
    of equal cost, and each part processes the same number of bands. A large triangle spans several
    bands; thousands of small ones share a band.
    """
    n = bands.cuts.shape[0] - 1
    sums, totals, counts = (
        np.zeros((parts, q.shape[0])),
        np.zeros(parts),
        np.zeros((parts, 2), np.int64),
    )
    for c in prange(parts):
        part = (n * c // parts, n * (c + 1) // parts)
        totals[c], counts[c, 0], counts[c, 1] = _sum_band_sections(
            q, triangles, bands, part, largest, columns, sums[c]
        )
    for i in prange(q.shape[0]):
        for c in range(1, parts):
            sums[0, i] += sums[c, i]
    return sums[0], totals.sum(), counts[:, 0].sum(), counts[:, 1].sum()


@njit(error_model="numpy", cache=True)
def _sum_band_sections(
    q: Any, triangles: Any, bands: Any, part: Any, largest: Any, columns: Any, sums: Any
) -> Any:
    """Return (sum of section heights, sections, unmatched columns) of some bands.

    Adds the heights that each node carries to `sums`.
    """
    cells, capacity = largest[0] * columns, largest[2] + 1
    heights, owners = np.empty(2 * cells), np.empty(2 * cells, np.int32)
    spans, lines = np.empty((capacity, 3), np.int32), np.empty((capacity, 2))
    links, link_heights, order = (
        np.empty((capacity, 2), np.int32),
        np.empty(capacity),
        np.empty((capacity, 3)),
    )
    loads, total, sections, unmatched = np.zeros((largest[1], 3)), 0.0, 0, 0
    for b in range(part[0], part[1]):
        first, last, members = (
            bands.cuts[b],
            bands.cuts[b + 1],
            bands.members[bands.start[b] : bands.start[b + 1]],
        )
        heights[:] = EMPTY
        n = find_spans(q, triangles, members, (first, last, columns), cells, spans, lines)
        store_crossings(n, spans, lines, heights, owners, links, link_heights)
        for j in range(first, last):
            height, found, faults = match_crossings(
                j,
                (j - first) * columns,
                columns,
                heights,
                owners,
                links,
                link_heights,
                loads,
                order,
            )
            total, sections, unmatched = total + height, sections + found, unmatched + faults
        for m in range(members.shape[0]):
            if loads[m, 0] != 0.0:
                distribute_to_nodes(q, triangles, members[m], loads, m, sums)
    return total, sections, unmatched
