"""A band of rows of columns: where triangles meet them, and the fluid between. Compiled.

A triangle meets row j in a span between two of its edges. Two triangles compute their common edge
in the same way, to the last bit, and a span holds its left end but not its right one, as a row
holds the lower end of an edge but not the upper one. So a column on an edge or on a node counts
once, and every column leaves the fluid as often as it enters it.

Plain arrays, used again for each band, hold what is found. A cell is one column of the band, seen
from above (a top, where the fluid ends) or from below (a bottom, where it begins); with `cells`
columns in the band, bottoms follow `cells` after tops.

    spans (n, 3) int32           first cell, number of cells, the owner: a triangle, counted within
    the band
    lines (n, 2)                 height at the first cell [m], its slope [m/column]
    heights (2 cells,) [m]       EMPTY, or that of the only crossing, or SEVERAL
    owners (2 cells,) int32      its owner; where there are several, the last link of their chain
    links (crossings, 2) int32   the link before or -1, the owner
    further (crossings,) [m]     the heights of the links
    carried (triangles, 3)       of each owner the sums of section heights h [m], of h i and of h j
"""

from math import ceil

import numpy as np
from numba import njit

EMPTY, SEVERAL = np.inf, -np.inf


@njit(error_model="numpy", cache=True)
def find_spans(q, triangles, members, window, cells, spans, lines):
    """How many spans the triangles have in the rows first to last - 1; window = (first, last,
    columns).

    Each is written, and stays only if it holds a column: to ask before would cost more, for nothing
    tells the answer early.
    """
    (first, last, columns), n = window, 0
    for m in range(members.shape[0]):
        (x0, y0, h0), (x1, y1, h1), (x2, y2, h2), even = _upward(q, triangles, members[m])
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
            # An outward triangle that faces up runs counterclockwise seen from above: its middle
            # corner lies to the right of its long edge
            spans[n, 0] = (j - first) * columns + i + (0 if (u > x) == even else cells)
            spans[n, 1] = ceil(max(x, u)) - i
            spans[n, 2] = m
            lines[n, 0] = h + slope * (i - x)
            lines[n, 1] = slope
            n += spans[n, 1] > 0
    return n


@njit(error_model="numpy", cache=True)
def _upward(q, triangles, t):
    """The corners of a triangle from the lowest row to the highest, and whether that turns it as it
    was."""
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
def enter(n, spans, lines, heights, owners, links, further):
    """Put the crossings of n spans in their cells."""
    used = 0
    for s in range(n):
        first, owner, h, slope = spans[s, 0], spans[s, 2], lines[s, 0], lines[s, 1]
        for k in range(spans[s, 1]):
            cell = first + k
            if heights[cell] == EMPTY:
                heights[cell], owners[cell] = h + slope * k, owner
            else:
                used = _chain(cell, h + slope * k, owner, heights, owners, links, further, used)


@njit(error_model="numpy", cache=True)
def _chain(cell, h, owner, heights, owners, links, further, used):
    """One more crossing in a cell that has some; gives how many links are in use."""
    if heights[cell] != SEVERAL:
        further[used], links[used, 0], links[used, 1] = heights[cell], -1, owners[cell]
        heights[cell], owners[cell] = SEVERAL, used
        used += 1
    further[used], links[used, 0], links[used, 1] = h, owners[cell], owner
    owners[cell] = used
    return used + 1


@njit(error_model="numpy", cache=True)
def match(j, start, columns, heights, owners, links, further, carried, order):
    """(sum of section heights, sections, columns that do not match) of row j, from cell `start` on;
    sections over one triangle that follow each other are summed before they are carried. `order`
    (crossings, 3) is room to sort in."""
    total, sections, unmatched = 0.0, 0, 0
    owner, run, moment, cells = -1, 0.0, 0.0, heights.shape[0] // 2
    for i in range(columns):
        top, bottom = heights[start + i], heights[cells + start + i]
        h = top - bottom
        if SEVERAL < h < EMPTY:
            if owners[cells + start + i] != owner:
                total += _carry(carried, owner, run, moment, j)
                owner, run, moment = owners[cells + start + i], 0.0, 0.0
            run += h
            moment += h * i
            sections += 1
        elif top == SEVERAL and bottom == SEVERAL:
            n, found = _sorted(owners[start + i], owners[cells + start + i], links, further, order)
            unmatched += not found
            sections += n
            for r in range(n):
                h = order[r, 0] - order[r, 1]
                total += _carry(carried, int(order[r, 2]), h, h * i, j)
        else:
            unmatched += top != bottom
    return total + _carry(carried, owner, run, moment, j), sections, unmatched


@njit(error_model="numpy", cache=True)
def _carry(carried, owner, height, moment, j):
    if owner >= 0:
        carried[owner, 0] += height
        carried[owner, 1] += moment
        carried[owner, 2] += height * j
    return height


@njit(error_model="numpy", cache=True)
def _sorted(top, bottom, links, further, order):
    """(sections, whether there are as many tops) of two chains: the lowest top ends the section of
    the lowest bottom, and so on. `order` gets tops, bottoms and the bottoms' owners, upwards."""
    tops = bottoms = 0
    while top >= 0:
        _insert(order, 0, tops, further[top], 0.0)
        tops, top = tops + 1, links[top, 0]
    while bottom >= 0:
        _insert(order, 1, bottoms, further[bottom], float(links[bottom, 1]))
        bottoms, bottom = bottoms + 1, links[bottom, 0]
    return min(tops, bottoms), tops == bottoms


@njit(error_model="numpy", cache=True)
def _insert(order, side, n, h, owner):
    """Put a height among the first n of a side, which ascend; owners go along with bottoms."""
    while n > 0 and order[n - 1, side] > h:
        order[n, side] = order[n - 1, side]
        order[n, 2] = order[n - 1, 2] if side == 1 else 0.0
        n -= 1
    order[n, side] = h
    order[n, 2] = owner


@njit(error_model="numpy", cache=True)
def spread(q, triangles, t, carried, m, sums):
    """What triangle t carries, as the band's number m, goes to its nodes by barycentric
    coordinates, and it carries nothing any more."""
    a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
    h, x, y = (
        carried[m, 0],
        carried[m, 1] - carried[m, 0] * q[a, 0],
        carried[m, 2] - carried[m, 0] * q[a, 1],
    )
    ux, uy, vx, vy = q[b, 0] - q[a, 0], q[b, 1] - q[a, 1], q[c, 0] - q[a, 0], q[c, 1] - q[a, 1]
    area = ux * vy - uy * vx
    to_b, to_c = (x * vy - y * vx) / area, (y * ux - x * uy) / area
    low, high = min(h, 0.0), max(h, 0.0)
    to_b = (
        min(max(to_b, low), high) if area != 0.0 else h / 3.0
    )  # rounding, over a triangle that is nearly upright
    to_c = min(max(to_c, low - min(to_b, 0.0)), high - max(to_b, 0.0)) if area != 0.0 else h / 3.0
    sums[a] += h - to_b - to_c
    sums[b] += to_b
    sums[c] += to_c
    carried[m, 0] = carried[m, 1] = carried[m, 2] = 0.0
