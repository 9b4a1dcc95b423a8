"""A sparse Cholesky factor by fronts, for matrices that fill in little: small dense blocks, four
numbers at a time.

A block of columns is gathered from the matrix and from what its children left, factorised, and
leaves to its parent what it takes off the rest (Duff and Reid's multifrontal method). On blocks of
some ten rows this is several times as quick as calls of BLAS.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from pliant.core import Array
from pliant.kernels.lanes import lanes, load, store
from pliant.kernels.matrix import FAST


class Fronts(NamedTuple):
    """What the loops read of an analysis, of m blocks of n columns. A row of a block is that of its
    own columns and then that of the rows below, each filled up to a multiple of four."""

    order: Array  # (n,) the unknown of each column
    first: Array  # (m + 1,) the first column of each block
    begin: Array  # (m + 1,) where in `rows` those of each block begin
    rows: Array  # (k,) its own columns and then those below
    parent: Array  # (m,) the block that it leaves to, -1 for none
    place: Array  # (k,) where in the row of its parent each of the rows below stands
    panel: Array  # (m + 1,) where in the factor each block begins, in fours
    goal: Array  # (nnz,) where in the factor each value of the matrix goes
    most: int  # fours that are left to parents at any time
    widest: int  # fours that a block leaves


@njit(error_model="numpy", cache=True)
def _sizes(fronts, b):
    """(columns, rows below, fours of the columns, fours of the rows below)"""
    wide = fronts.first[b + 1] - fronts.first[b]
    below = fronts.begin[b + 1] - fronts.begin[b] - wide
    return wide, below, (wide + 3) // 4, (below + 3) // 4


@njit(error_model="numpy", cache=True)
def _take_over(fronts, c, left, top, factor, at, rest, own, row):
    """Add what child c left, from four `top` on, to its parent: to its columns, `row` fours each
    from `at` on of the factor, of which `own` are the columns' own, and to the rest."""
    _, n, _, fours = _sizes(fronts, c)
    place = fronts.place[fronts.begin[c + 1] - n : fronts.begin[c + 1]]
    for i in range(n):
        source = 4 * (top + i * fours)
        if place[i] < 4 * own:
            to = 4 * (at + place[i] * row)
            for j in range(i, n):
                factor[to + place[j]] += left[source + j]
        else:
            to = 4 * ((place[i] - 4 * own) * (row - own) - own)
            for j in range(i, n):
                rest[to + place[j]] += left[source + j]


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _eliminate(factor, flat, at, wide, row):
    """Factorise a block's columns in place; were they positive?"""
    for k in range(wide):
        here = at + k * row
        pivot = flat[4 * here + k]
        if not 0.0 < pivot < np.inf:
            return False
        scale = 1.0 / np.sqrt(pivot)
        for j in range(k // 4, row):
            store(factor, here + j, scale * load(factor, here + j))
        for i in range(k + 1, wide):
            x, there = -flat[4 * here + i], at + i * row
            for j in range(i // 4, row):
                store(factor, there + j, load(factor, there + j) + x * load(factor, here + j))
    return True


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _take_off(rest, factor, flat, at, wide, below, own, row):
    """rest -= L L^T of the rows below a block, three columns at a time."""
    fours = row - own
    for k in range(0, wide - wide % 3, 3):
        a = at + k * row + own
        b, c = a + row, a + 2 * row
        for i in range(below):
            x, y, z, to = -flat[4 * a + i], -flat[4 * b + i], -flat[4 * c + i], i * fours
            for j in range(i // 4, fours):
                store(
                    rest,
                    to + j,
                    load(rest, to + j)
                    + x * load(factor, a + j)
                    + y * load(factor, b + j)
                    + z * load(factor, c + j),
                )
    for k in range(wide - wide % 3, wide):
        a = at + k * row + own
        for i in range(below):
            x, to = -flat[4 * a + i], i * fours
            for j in range(i // 4, fours):
                store(rest, to + j, load(rest, to + j) + x * load(factor, a + j))


@njit(error_model="numpy", cache=True)
def factorise(fronts, values):
    """(k, 4) the factor of a matrix, None where it is not positive definite."""
    factor, left, rest = (
        np.zeros((fronts.panel[-1], 4)),
        np.empty((fronts.most, 4)),
        np.empty((fronts.widest, 4)),
    )
    flat, flat_left, flat_rest = factor.reshape(-1), left.reshape(-1), rest.reshape(-1)
    for k in range(len(values)):
        flat[fronts.goal[k]] = values[k]
    waiting, depth, top, none = (
        np.empty(len(fronts.parent), np.int64),
        0,
        0,
        lanes(0.0, 0.0, 0.0, 0.0),
    )
    for b in range(len(fronts.parent)):
        wide, below, own, fours = _sizes(fronts, b)
        at, row = fronts.panel[b], own + fours
        for i in range(below):
            for j in range(i // 4, fours):
                store(rest, i * fours + j, none)
        while depth > 0 and fronts.parent[waiting[depth - 1]] == b:
            depth -= 1
            _, n, _, size = _sizes(fronts, waiting[depth])
            top -= n * size
            _take_over(fronts, waiting[depth], flat_left, top, flat, at, flat_rest, own, row)
        if not _eliminate(factor, flat, at, wide, row):
            return None
        _take_off(rest, factor, flat, at, wide, below, own, row)
        for i in range(below):
            for j in range(i // 4, fours):
                store(left, top + i * fours + j, load(rest, i * fours + j))
        waiting[depth], depth, top = b, depth + 1, top + below * fours
    return factor


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _forward(fronts, flat, x):
    """L y = x, in place."""
    for b in range(len(fronts.parent)):
        wide, below, own, fours = _sizes(fronts, b)
        at, row, first, rows = (
            4 * fronts.panel[b],
            4 * (own + fours),
            fronts.first[b],
            fronts.rows[fronts.begin[b] + wide :],
        )
        for k in range(wide):
            here = at + k * row
            y = (1.0 / flat[here + k]) * load(x, first + k)
            store(x, first + k, y)
            for i in range(k + 1, wide):
                store(x, first + i, load(x, first + i) + (-flat[here + i]) * y)
        for k in range(0, wide - wide % 3, 3):
            p = at + k * row + 4 * own
            q, r, u, v, w = (
                p + row,
                p + 2 * row,
                load(x, first + k),
                load(x, first + k + 1),
                load(x, first + k + 2),
            )
            for i in range(below):
                store(
                    x,
                    rows[i],
                    load(x, rows[i]) + (-flat[p + i]) * u + (-flat[q + i]) * v + (-flat[r + i]) * w,
                )
        for k in range(wide - wide % 3, wide):
            p, u = at + k * row + 4 * own, load(x, first + k)
            for i in range(below):
                store(x, rows[i], load(x, rows[i]) + (-flat[p + i]) * u)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def _backward(fronts, flat, x):
    """L^T y = x, in place."""
    for b in range(len(fronts.parent) - 1, -1, -1):
        wide, below, own, fours = _sizes(fronts, b)
        at, row, first, rows = (
            4 * fronts.panel[b],
            4 * (own + fours),
            fronts.first[b],
            fronts.rows[fronts.begin[b] + wide :],
        )
        for k in range(0, wide - wide % 3, 3):
            p = at + k * row + 4 * own
            q, r, u, v, w = (
                p + row,
                p + 2 * row,
                load(x, first + k),
                load(x, first + k + 1),
                load(x, first + k + 2),
            )
            for i in range(below):
                y = load(x, rows[i])
                u += (-flat[p + i]) * y
                v += (-flat[q + i]) * y
                w += (-flat[r + i]) * y
            store(x, first + k, u)
            store(x, first + k + 1, v)
            store(x, first + k + 2, w)
        for k in range(wide - wide % 3, wide):
            p, u = at + k * row + 4 * own, load(x, first + k)
            for i in range(below):
                u += (-flat[p + i]) * load(x, rows[i])
            store(x, first + k, u)
        for k in range(wide - 1, -1, -1):
            here, u = at + k * row, load(x, first + k)
            for i in range(k + 1, wide):
                u += (-flat[here + i]) * load(x, first + i)
            store(x, first + k, (1.0 / flat[here + k]) * u)


@njit(error_model="numpy", cache=True)
def solve(fronts, factor, sides):
    """(n, k) the solutions for right sides (n, k), four at a time."""
    n, k = sides.shape
    out, flat, x = np.empty((n, k)), factor.reshape(-1), np.zeros((n, 4))
    for c in range(0, k, 4):
        for j in range(n):
            for i in range(min(4, k - c)):
                x[j, i] = sides[fronts.order[j], c + i]
        _forward(fronts, flat, x)
        _backward(fronts, flat, x)
        for j in range(n):
            for i in range(min(4, k - c)):
                out[fronts.order[j], c + i] = x[j, i]
    return out
