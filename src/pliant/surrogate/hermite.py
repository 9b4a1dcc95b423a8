"""Tensor-product Hermite interpolation in a cell of R^d: C1 across cells, exact for cubics.

The data of a corner is (2^d, r). The bits of a row index form a set of axes; the row is the
derivative of the map once along each of them. The table of a cell is (4^d, r), one row per product
of the four functions of an axis: value and slope at the lower corner, then at the upper one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from pliant.core import Array


@njit(error_model="numpy", cache=True)
def hermite_functions(t: Any, h: Any, out: Any) -> Any:
    """Fill `out` (3, 4) with the four Hermite functions at t in [0, 1] of a cell of size h, and
    their first and second derivatives."""
    s = 1.0 - t
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = (
        (1.0 + 2.0 * t) * s * s,
        h * t * s * s,
        t * t * (3.0 - 2.0 * t),
        -h * t * t * s,
    )
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = (
        -6.0 * t * s / h,
        s * (1.0 - 3.0 * t),
        6.0 * t * s / h,
        t * (3.0 * t - 2.0),
    )
    out[2, 0], out[2, 1] = (12.0 * t - 6.0) / (h * h), (6.0 * t - 4.0) / h
    out[2, 2], out[2, 3] = (6.0 - 12.0 * t) / (h * h), (6.0 * t - 2.0) / h


@lru_cache
def contraction_plan(d: int, second: bool) -> tuple[Array, Array, Array]:
    """Return how a table is contracted axis by axis, the last axis first. For each of d stages: the
    source array of the previous stage (d, n), the order of the Hermite functions (d, n), and the
    number of results (d,). The last stage has value, slopes and second derivatives (0, 0), (0, 1),
    ..., (1, 1), ..."""
    unit = np.eye(d, dtype=int)
    wanted = [
        np.zeros(d, int),
        *unit,
        *((unit[i] + unit[j] for i in range(d) for j in range(i, d)) if second else ()),
    ]
    # orders along the axes that are already contracted
    stages = [list(dict.fromkeys(tuple(o[axis:]) for o in wanted)) for axis in range(d, -1, -1)]
    source, order = np.zeros((2, d, len(wanted)), np.int64)
    for k in range(d):
        for n, done in enumerate(stages[k + 1]):
            source[k, n], order[k, n] = stages[k].index(done[1:]), done[0]
    return source, order, np.array([len(stage) for stage in stages[1:]])


@njit(error_model="numpy", cache=True)
def contract(table: Any, t: Any, h: Any, source: Any, order: Any, counts: Any) -> Any:
    """Return the value, slopes and second derivatives (n, r) of a cell's table (4^d, r) at t (d,).
    Each column is summed separately in a fixed order, so added columns change no bit of others."""
    d, r = len(t), table.shape[1]
    functions = np.empty((3, 4))
    old = table.reshape(1, len(table), r)
    for k in range(d):
        axis = d - 1 - k
        hermite_functions(t[axis], h[axis], functions)
        rows = old.shape[1] // 4
        new = np.empty((counts[k], rows, r))
        for n in range(counts[k]):
            f, part = functions[order[k, n]], old[source[k, n]]
            for j in range(rows):
                for m in range(r):
                    new[n, j, m] = (
                        f[0] * part[4 * j, m]
                        + f[1] * part[4 * j + 1, m]
                        + f[2] * part[4 * j + 2, m]
                        + f[3] * part[4 * j + 3, m]
                    )
        old = new
    return old.reshape(counts[d - 1], r)


@lru_cache
def table_rows(d: int) -> Array:
    """Return the row in a cell's table of each derivative at each corner (2^d corners, 2^d sets of
    axes); bits are axes."""
    corner, axes = np.meshgrid(np.arange(2**d), np.arange(2**d), indexing="ij")
    digits = [2 * (corner >> i & 1) + (axes >> i & 1) for i in range(d)]
    return sum(digit * 4 ** (d - 1 - i) for i, digit in enumerate(digits))


@lru_cache
def corner_offsets(d: int) -> Array:
    """Return the corners (2^d, d) of the unit cell; bit i of the row index is axis i."""
    return np.arange(2**d)[:, None] >> np.arange(d) & 1


def cell_table(data: Sequence[Array] | Array) -> Array:
    """Return the table (4^d, r) of a cell from the data (2^d, r) of its corners, padded with
    zeros."""
    d = int(np.log2(len(data)))
    table = np.zeros((4**d, max(part.shape[1] for part in data)))
    for part, places in zip(data, table_rows(d), strict=True):
        table[places, : part.shape[1]] = part
    return table


def mixed_derivatives(values: Array, h: Array) -> Array:
    """Return the data (2^d, 2^d, r) of all corners of a cell of size h (d,) from their values and
    slopes (2^d, 1 + d, r).

    The mixed derivatives are those of the cell's Adini polynomial, which interpolates these values
    and slopes and reproduces cubics: d_S p = sum over i in S of D_{S - i} f_i - (|S| - 1) D_S f,
    where D is the divided difference over the named axes.
    """
    d = values.shape[1] - 1
    grid = values.reshape(*(2,) * d, 1 + d, -1)  # axis i of the cell is axis d - 1 - i of the array
    data = np.empty((2**d, 2**d, grid.shape[-1]))
    for subset in range(2**d):
        axes = [i for i in range(d) if subset >> i & 1]
        if not axes:
            derivative = grid[..., 0, :]
        else:
            derivative = np.sum(
                [_divided(grid[..., 1 + i, :], [j for j in axes if j != i], h) for i in axes],
                axis=0,
            )
            derivative = (
                derivative - (len(axes) - 1) * _divided(grid[..., 0, :], axes, h)
                if len(axes) > 1
                else derivative
            )
        data[:, subset] = np.broadcast_to(derivative, (*(2,) * d, grid.shape[-1])).reshape(2**d, -1)
    return data


def _divided(f: Array, axes: list[int], h: Array) -> Array:
    """Return the divided difference of corner values (2, ..., 2, r) over some axes of the cell,
    repeated at both ends of each axis."""
    d = f.ndim - 1
    for i in axes:
        f = np.diff(f, axis=d - 1 - i) / h[i]
        f = np.repeat(f, 2, axis=d - 1 - i)
    return f
