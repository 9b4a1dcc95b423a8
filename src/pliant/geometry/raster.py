"""Compiled loops of the columns: which triangles stand over which band of rows, and the sum over
all bands.

Nodes are placed in the grid, so that columns stand at whole numbers (i, j). Rows are cut into bands
of equal work, small enough for the cache, and the bands shared out among the threads.
"""

from math import ceil
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.geometry.bands import EMPTY, enter, find_spans, match, spread

ROW_COST = 6.0  # candidate columns that take as long as the two edges of a triangle in a row
COLUMN_COST = 0.5  # the same of a column that no triangle stands over
# columns, far over the rounding of a crossing: a triangle this near to a column is looked at
SLACK = 1e-9


class Reach(NamedTuple):
    """Where triangles and rows meet; cumulative numbers begin with 0 before the first row."""

    # (k, 2) int32, the first row of each triangle and the one after its last; none where it lies
    # between the columns
    rows: Array
    begun: Array  # (rows + 1,) int64, triangles that begin before each row
    ended: Array  # (rows + 1,) int64, triangles that end at or before it
    candidates: Array  # (rows + 1,) int64, columns in the boxes of triangles before it
    # (rows + 1,) cost before it: candidate columns, a share for each triangle in a row, and one for
    # each column
    work: Array


class Bands(NamedTuple):
    """The triangles over each band of rows, in their own order."""

    cuts: Array  # (bands + 1,) the first row of each band
    start: Array  # (bands + 1,) where each band begins in `members`
    members: Array  # (pairs,) int32, triangles


@njit(error_model="numpy", cache=True, parallel=True)
def projected(points, triangles, frame):
    """((n, 3) across and up [m], lower corner (2,), upper corner (2,)); a node without a triangle
    does not stretch the box."""
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
def reached(q, triangles, lower, step, counts):
    """The rows that each triangle crosses; moves the first two coordinates of q to the grid."""
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
    begun, ended, wide = (
        np.zeros(counts[1] + 1, np.int64),
        np.zeros(counts[1] + 1, np.int64),
        np.zeros(counts[1] + 1, np.int64),
    )
    for t in range(rows.shape[0]):
        j0, j1 = rows[t, 0], rows[t, 1]
        if j0 < j1:
            begun[j0 + 1] += 1
            ended[j1] += 1
            wide[j0] += width[t]
            wide[j1] -= width[t]
    return Reach(rows, *_summed(begun, ended, wide, counts[0]))


@njit(error_model="numpy", cache=True)
def _box(q, a, b, c):
    """(first row, row after the last, candidate columns in a row) of a triangle."""
    i0, i1 = (
        ceil(min(q[a, 0], q[b, 0], q[c, 0]) - SLACK),
        ceil(max(q[a, 0], q[b, 0], q[c, 0]) + SLACK),
    )
    j0, j1 = ceil(min(q[a, 1], q[b, 1], q[c, 1])), ceil(max(q[a, 1], q[b, 1], q[c, 1]))
    return j0, (j1 if i0 < i1 else j0), i1 - i0


@njit(error_model="numpy", cache=True)
def _summed(begun, ended, wide, columns):
    """Cumulative numbers from those of each row."""
    candidates, work, now = np.zeros_like(wide), np.zeros(wide.shape[0]), 0
    for j in range(wide.shape[0] - 1):
        begun[j + 1] += begun[j]
        ended[j + 1] += ended[j]
        now += wide[j]
        candidates[j + 1] = candidates[j] + now
        work[j + 1] = work[j] + now + ROW_COST * (begun[j + 1] - ended[j]) + COLUMN_COST * columns
    return begun, ended, candidates, work


@njit(error_model="numpy", cache=True)
def banded(reach, cuts):
    """The triangles over each band."""
    rows, bands = reach.rows, cuts.shape[0] - 1
    band_of, start = np.zeros(cuts[bands], np.int32), np.zeros(bands + 1, np.int64)
    for b in range(bands):
        band_of[cuts[b] : cuts[b + 1]] = b
        over = reach.begun[cuts[b + 1]] - reach.ended[cuts[b]] if cuts[b] < cuts[b + 1] else 0
        start[b + 1] = start[b] + over
    members, cursor = np.empty(start[bands], np.int32), start[:bands].copy()
    for t in range(rows.shape[0]):
        if rows[t, 0] < rows[t, 1]:
            for b in range(band_of[rows[t, 0]], band_of[rows[t, 1] - 1] + 1):
                if cuts[b] < cuts[b + 1]:
                    members[cursor[b]] = t
                    cursor[b] += 1
    return Bands(cuts, start, members)


@njit(error_model="numpy", cache=True, parallel=True)
def swept(q, triangles, bands, most, columns, parts):
    """(sums (n,) of section heights that each node carries, their total, sections, columns that do
    not match); `most` are the rows, the triangles and the candidate columns of the largest band.

    The paper shares the candidate columns of each triangle out among k = alpha mean(candidates)
    threads of a GPU, so that one large triangle does not keep the others waiting. A processor has
    few threads, and what matters is that they end together: the candidates of all triangles, row by
    row, are cut into bands of equal cost, and each part takes as many bands. A large triangle is
    shared by the bands that it stands over, small ones by the thousand go to one.
    """
    n = bands.cuts.shape[0] - 1
    sums, totals, counts = (
        np.zeros((parts, q.shape[0])),
        np.zeros(parts),
        np.zeros((parts, 2), np.int64),
    )
    for c in prange(parts):
        part = (n * c // parts, n * (c + 1) // parts)
        totals[c], counts[c, 0], counts[c, 1] = _swept_part(
            q, triangles, bands, part, most, columns, sums[c]
        )
    for i in prange(q.shape[0]):
        for c in range(1, parts):
            sums[0, i] += sums[c, i]
    return sums[0], totals.sum(), counts[:, 0].sum(), counts[:, 1].sum()


@njit(error_model="numpy", cache=True)
def _swept_part(q, triangles, bands, part, most, columns, sums):
    """(sum of section heights, sections, columns that do not match) of some bands; adds what each
    node carries to `sums`."""
    cells, room = most[0] * columns, most[2] + 1
    heights, owners = np.empty(2 * cells), np.empty(2 * cells, np.int32)
    spans, lines = np.empty((room, 3), np.int32), np.empty((room, 2))
    links, further, order = np.empty((room, 2), np.int32), np.empty(room), np.empty((room, 3))
    carried, total, sections, unmatched = np.zeros((most[1], 3)), 0.0, 0, 0
    for b in range(part[0], part[1]):
        first, last, members = (
            bands.cuts[b],
            bands.cuts[b + 1],
            bands.members[bands.start[b] : bands.start[b + 1]],
        )
        heights[:] = EMPTY
        n = find_spans(q, triangles, members, (first, last, columns), cells, spans, lines)
        enter(n, spans, lines, heights, owners, links, further)
        for j in range(first, last):
            height, found, faults = match(
                j, (j - first) * columns, columns, heights, owners, links, further, carried, order
            )
            total, sections, unmatched = total + height, sections + found, unmatched + faults
        for m in range(members.shape[0]):
            if carried[m, 0] != 0.0:
                spread(q, triangles, members[m], carried, m, sums)
    return total, sections, unmatched
