"""Scanline conversion of a band of rows: where triangles cross the columns, and the fluid between.

A triangle crosses row j in a span between two of its edges. Two triangles compute their common edge
with identical rounding. A span includes its left end but not its right end, and a row includes the
lower end of an edge but not the upper one. So a column through an edge or a node counts once, and
every column leaves the fluid as often as it enters.

Results are written to arrays that are used again for each band. A cell is one column of the band,
for its tops (where fluid ends) or its bottoms (where fluid begins). Bottoms are stored `cells`
entries after tops, where `cells` is the number of columns of the band.

    spans (n, 3) int32             first cell, number of cells, owner (triangle index in the band)
    lines (n, 2)                   height at the first cell [m], its slope [m/column]
    heights (2 cells,) [m]         EMPTY, the height of the only crossing, or SEVERAL
    owners (2 cells,) int32        its owner; for several crossings the last link of their list
    links (crossings, 2) int32     the previous link or -1, the owner
    link_heights (crossings,) [m]  the heights of the links
    loads (triangles, 3)           for each owner the sums of section heights h [m], of h i and h j
"""

from math import ceil
from typing import Any

import numpy as np
from numba import njit

EMPTY, SEVERAL = np.inf, -np.inf


@njit(error_model="numpy", cache=True)
def find_spans(
    q: Any, triangles: Any, members: Any, window: Any, cells: Any, spans: Any, lines: Any
) -> Any:
    """Write the spans of the triangles in the rows of window = (first, last, columns) and return
    their number.

    Each span is written and then kept only if it contains a column. A test before writing would be
    slower, because the branch is unpredictable.
    """
    (first, last, columns), n = window, 0
    for m in range(members.shape[0]):
        (x0, y0, h0), (x1, y1, h1), (x2, y2, h2), even = _corners_by_row(q, triangles, members[m])
        whole, lower, upper = 1.0 / (y2 - y0), 1.0 / (y1 - y0), 1.0 / (y2 - y1)
        for j in range(max(first, ceil(y0)), min(last, ceil(y2))):
            s = (j - y0) * whole
            x, h = x0 + s * (x2 - x0), h0 + s * (h2 - h0)
            if j < y1:
                s = (j - y0) * lower
                u, k = x0 + s * (x1 - x0), h0 + s * (h1 - h0)
            else:
                s = (j - y1) * upper
                u, k = x1 + s * (x2 - x1), h1 + s * (h2 - h1)
            i, slope = ceil(min(x, u)), (k - h) / (u - x)
            # An outward triangle that faces up is counterclockwise from above: its middle corner
            # lies to the right of its long edge.
            spans[n, 0] = (j - first) * columns + i + (0 if (u > x) == even else cells)
            spans[n, 1] = ceil(max(x, u)) - i
            spans[n, 2] = m
            lines[n, 0] = h + slope * (i - x)
            lines[n, 1] = slope
            n += spans[n, 1] > 0
    return n


@njit(error_model="numpy", cache=True)
def _corners_by_row(q: Any, triangles: Any, t: Any) -> Any:
    """Return the corners of a triangle in ascending row order, and whether the permutation is
    even."""
    a, b, c, even = triangles[t, 0], triangles[t, 1], triangles[t, 2], True
    if q[a, 1] > q[b, 1]:
        a, b, even = b, a, not even
    if q[b, 1] > q[c, 1]:
        b, c, even = c, b, not even
    if q[a, 1] > q[b, 1]:
        a, b, even = b, a, not even
    return (
        (q[a, 0], q[a, 1], q[a, 2]),
        (q[b, 0], q[b, 1], q[b, 2]),
        (q[c, 0], q[c, 1], q[c, 2]),
        even,
    )


@njit(error_model="numpy", cache=True)
def store_crossings(
    n: Any, spans: Any, lines: Any, heights: Any, owners: Any, links: Any, link_heights: Any
) -> Any:
    """Store the crossings of n spans in their cells."""
    used = 0
    for s in range(n):
        first, owner, h, slope = spans[s, 0], spans[s, 2], lines[s, 0], lines[s, 1]
        for k in range(spans[s, 1]):
            cell = first + k
            if heights[cell] == EMPTY:
                heights[cell], owners[cell] = h + slope * k, owner
            else:
                used = _append_link(
                    cell, h + slope * k, owner, heights, owners, links, link_heights, used
                )


@njit(error_model="numpy", cache=True)
def _append_link(
    cell: Any,
    h: Any,
    owner: Any,
    heights: Any,
    owners: Any,
    links: Any,
    link_heights: Any,
    used: Any,
) -> Any:
    """Add a crossing to a cell that already has one. Return the number of links in use."""
    if heights[cell] != SEVERAL:
        link_heights[used], links[used, 0], links[used, 1] = heights[cell], -1, owners[cell]
        heights[cell], owners[cell] = SEVERAL, used
        used += 1
    link_heights[used], links[used, 0], links[used, 1] = h, owners[cell], owner
    owners[cell] = used
    return used + 1


@njit(error_model="numpy", cache=True)
def match_crossings(
    j: Any,
    start: Any,
    columns: Any,
    heights: Any,
    owners: Any,
    links: Any,
    link_heights: Any,
    loads: Any,
    order: Any,
) -> Any:
    """Return (sum of section heights, sections, unmatched columns) of row j, starting at cell
    `start`.

    Consecutive sections over the same triangle are summed before they are added to `loads`. `order`
    (crossings, 3) is scratch memory for sorting.
    """
    total, sections, unmatched = 0.0, 0, 0
    owner, run, moment, cells = -1, 0.0, 0.0, heights.shape[0] // 2
    for i in range(columns):
        top, bottom = heights[start + i], heights[cells + start + i]
        h = top - bottom
        if SEVERAL < h < EMPTY:
            if owners[cells + start + i] != owner:
                total += _add_load(loads, owner, run, moment, j)
                owner, run, moment = owners[cells + start + i], 0.0, 0.0
            run += h
            moment += h * i
            sections += 1
        elif top == SEVERAL and bottom == SEVERAL:
            n, found = _sort_crossings(
                owners[start + i], owners[cells + start + i], links, link_heights, order
            )
            unmatched += not found
            sections += n
            for r in range(n):
                h = order[r, 0] - order[r, 1]
                total += _add_load(loads, int(order[r, 2]), h, h * i, j)
        else:
            unmatched += top != bottom
    return total + _add_load(loads, owner, run, moment, j), sections, unmatched


@njit(error_model="numpy", cache=True)
def _add_load(loads: Any, owner: Any, height: Any, moment: Any, j: Any) -> Any:
    """Add a section to the loads of its owner and return its height."""
    if owner >= 0:
        loads[owner, 0] += height
        loads[owner, 1] += moment
        loads[owner, 2] += height * j
    return height


@njit(error_model="numpy", cache=True)
def _sort_crossings(top: Any, bottom: Any, links: Any, link_heights: Any, order: Any) -> Any:
    """Return the number of sections of two lists, and whether there are as many tops as bottoms.

    The lowest top ends the section of the lowest bottom, and so on. `order` gets tops, bottoms and
    the owners of the bottoms, in ascending height.
    """
    tops = bottoms = 0
    while top >= 0:
        _insert(order, 0, tops, link_heights[top], 0.0)
        tops, top = tops + 1, links[top, 0]
    while bottom >= 0:
        _insert(order, 1, bottoms, link_heights[bottom], float(links[bottom, 1]))
        bottoms, bottom = bottoms + 1, links[bottom, 0]
    return min(tops, bottoms), tops == bottoms


@njit(error_model="numpy", cache=True)
def _insert(order: Any, side: Any, n: Any, h: Any, owner: Any) -> Any:
    """Insert a height into the first n sorted entries of a side. Bottoms carry their owners
    along."""
    while n > 0 and order[n - 1, side] > h:
        order[n, side] = order[n - 1, side]
        order[n, 2] = order[n - 1, 2] if side == 1 else 0.0
        n -= 1
    order[n, side] = h
    order[n, 2] = owner


@njit(error_model="numpy", cache=True)
def distribute_to_nodes(q: Any, triangles: Any, t: Any, loads: Any, m: Any, sums: Any) -> Any:
    """Add the load of triangle t, number m of the band, to its nodes by barycentric coordinates,
    and clear it."""
    a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
    h, x, y = (
        loads[m, 0],
        loads[m, 1] - loads[m, 0] * q[a, 0],
        loads[m, 2] - loads[m, 0] * q[a, 1],
    )
    ux, uy, vx, vy = q[b, 0] - q[a, 0], q[b, 1] - q[a, 1], q[c, 0] - q[a, 0], q[c, 1] - q[a, 1]
    area = ux * vy - uy * vx
    to_b, to_c = (x * vy - y * vx) / area, (y * ux - x * uy) / area
    low, high = min(h, 0.0), max(h, 0.0)
    # The clips remove rounding errors of nearly vertical triangles.
    to_b = min(max(to_b, low), high) if area != 0.0 else h / 3.0
    to_c = min(max(to_c, low - min(to_b, 0.0)), high - max(to_b, 0.0)) if area != 0.0 else h / 3.0
    sums[a] += h - to_b - to_c
    sums[b] += to_b
    sums[c] += to_c
    loads[m, 0] = loads[m, 1] = loads[m, 2] = 0.0
