"""Multifrontal sparse Cholesky factorisation (Duff and Reid, 1983), for matrices with little fill.

Each supernode is assembled from the matrix and from the update matrices of its children. It is
factorised as a dense block, and its own update matrix is passed to its parent. Rows are processed
in vectors of four numbers. For blocks of about ten rows this is several times as fast as BLAS.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pliant.core import Array
from pliant.kernels.matrix import FUSED
from pliant.kernels.simd import load, store, vector4


class FrontalLayout(NamedTuple):
    """The symbolic factorisation of a matrix with n columns in m supernodes.

    A row of a supernode holds its own columns and then the rows below them. Both parts are padded
    to a multiple of four numbers. Sizes in vectors count groups of four numbers.
    """

    order: Array  # (n,) the unknown of each column
    first_column: Array  # (m + 1,) the first column of each supernode
    row_start: Array  # (m + 1,) index into `rows` of the first row of each supernode
    rows: Array  # (k,) the rows of each supernode: its own columns, then the rows below
    parent: Array  # (m,) the parent supernode, -1 for a root
    parent_row: Array  # (k,) the position of each row below in the rows of the parent
    panel_start: Array  # (m + 1,) the first vector of each supernode in the factor
    value_position: Array  # (nnz,) the position of each value of the matrix in the factor
    stack_size: int  # vectors: the largest total of update matrices that wait for their parents
    update_size: int  # vectors: the largest update matrix


@njit(error_model="numpy", cache=True)
def _sizes(layout: Any, b: Any) -> Any:
    """Return (columns, rows below, vectors of the columns, vectors of the rows below)."""
    width = layout.first_column[b + 1] - layout.first_column[b]
    below = layout.row_start[b + 1] - layout.row_start[b] - width
    return width, below, (width + 3) // 4, (below + 3) // 4


@njit(error_model="numpy", cache=True)
def _assemble_child(
    layout: Any,
    c: Any,
    stack: Any,
    top: Any,
    factor: Any,
    start: Any,
    update: Any,
    column_vectors: Any,
    row_vectors: Any,
) -> Any:
    """Add the update matrix of child c to its parent.

    The update matrix starts at vector `top` of the stack. The columns of the parent start at vector
    `start` of the factor, `row_vectors` vectors each, of which `column_vectors` are its own
    columns.
    """
    _, n, _, below_vectors = _sizes(layout, c)
    parent_row = layout.parent_row[layout.row_start[c + 1] - n : layout.row_start[c + 1]]
    for i in range(n):
        source = 4 * (top + i * below_vectors)
        if parent_row[i] < 4 * column_vectors:
            target = 4 * (start + parent_row[i] * row_vectors)
            for j in range(i, n):
                factor[target + parent_row[j]] += stack[source + j]
        else:
            target = 4 * (
                (parent_row[i] - 4 * column_vectors) * (row_vectors - column_vectors)
                - column_vectors
            )
            for j in range(i, n):
                update[target + parent_row[j]] += stack[source + j]


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _eliminate(factor: Any, flat: Any, start: Any, width: Any, row_vectors: Any) -> Any:
    """Factorise the columns of a supernode in place. Return False if a pivot is not positive."""
    for k in range(width):
        pivot_row = start + k * row_vectors
        pivot = flat[4 * pivot_row + k]
        if not 0.0 < pivot < np.inf:
            return False
        scale = 1.0 / np.sqrt(pivot)
        for j in range(k // 4, row_vectors):
            store(factor, pivot_row + j, scale * load(factor, pivot_row + j))
        for i in range(k + 1, width):
            x, target_row = -flat[4 * pivot_row + i], start + i * row_vectors
            for j in range(i // 4, row_vectors):
                store(
                    factor,
                    target_row + j,
                    load(factor, target_row + j) + x * load(factor, pivot_row + j),
                )
    return True


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _subtract_product(
    update: Any,
    factor: Any,
    flat: Any,
    start: Any,
    width: Any,
    below: Any,
    column_vectors: Any,
    row_vectors: Any,
) -> Any:
    """Subtract L L^T of the rows below a supernode from `update`, three columns at a time."""
    below_vectors = row_vectors - column_vectors
    for k in range(0, width - width % 3, 3):
        a = start + k * row_vectors + column_vectors
        b, c = a + row_vectors, a + 2 * row_vectors
        for i in range(below):
            x, y, z, target = (
                -flat[4 * a + i],
                -flat[4 * b + i],
                -flat[4 * c + i],
                i * below_vectors,
            )
            for j in range(i // 4, below_vectors):
                store(
                    update,
                    target + j,
                    load(update, target + j)
                    + x * load(factor, a + j)
                    + y * load(factor, b + j)
                    + z * load(factor, c + j),
                )
    for k in range(width - width % 3, width):
        a = start + k * row_vectors + column_vectors
        for i in range(below):
            x, target = -flat[4 * a + i], i * below_vectors
            for j in range(i // 4, below_vectors):
                store(update, target + j, load(update, target + j) + x * load(factor, a + j))


@njit(error_model="numpy", cache=True)
def factorise(layout: Any, values: Any) -> Any:
    """Return the factor (k, 4) of a matrix, or None if it is not positive definite."""
    factor, stack, update = (
        np.zeros((layout.panel_start[-1], 4)),
        np.empty((layout.stack_size, 4)),
        np.empty((layout.update_size, 4)),
    )
    flat, flat_stack, flat_update = factor.reshape(-1), stack.reshape(-1), update.reshape(-1)
    for k in range(len(values)):
        flat[layout.value_position[k]] = values[k]
    pending, depth, top, zero = (
        np.empty(len(layout.parent), np.int64),
        0,
        0,
        vector4(0.0, 0.0, 0.0, 0.0),
    )
    for b in range(len(layout.parent)):
        width, below, column_vectors, below_vectors = _sizes(layout, b)
        start, row_vectors = layout.panel_start[b], column_vectors + below_vectors
        for i in range(below):
            for j in range(i // 4, below_vectors):
                store(update, i * below_vectors + j, zero)
        while depth > 0 and layout.parent[pending[depth - 1]] == b:
            depth -= 1
            _, n, _, size = _sizes(layout, pending[depth])
            top -= n * size
            _assemble_child(
                layout,
                pending[depth],
                flat_stack,
                top,
                flat,
                start,
                flat_update,
                column_vectors,
                row_vectors,
            )
        if not _eliminate(factor, flat, start, width, row_vectors):
            return None
        _subtract_product(update, factor, flat, start, width, below, column_vectors, row_vectors)
        for i in range(below):
            for j in range(i // 4, below_vectors):
                store(stack, top + i * below_vectors + j, load(update, i * below_vectors + j))
        pending[depth], depth, top = b, depth + 1, top + below * below_vectors
    return factor


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _forward(layout: Any, flat: Any, x: Any) -> Any:
    """Solve L y = x in place."""
    for b in range(len(layout.parent)):
        width, below, column_vectors, below_vectors = _sizes(layout, b)
        start, row_length, first_column, rows = (
            4 * layout.panel_start[b],
            4 * (column_vectors + below_vectors),
            layout.first_column[b],
            layout.rows[layout.row_start[b] + width :],
        )
        for k in range(width):
            pivot_row = start + k * row_length
            y = (1.0 / flat[pivot_row + k]) * load(x, first_column + k)
            store(x, first_column + k, y)
            for i in range(k + 1, width):
                store(x, first_column + i, load(x, first_column + i) + (-flat[pivot_row + i]) * y)
        for k in range(0, width - width % 3, 3):
            p = start + k * row_length + 4 * column_vectors
            q, r, u, v, w = (
                p + row_length,
                p + 2 * row_length,
                load(x, first_column + k),
                load(x, first_column + k + 1),
                load(x, first_column + k + 2),
            )
            for i in range(below):
                store(
                    x,
                    rows[i],
                    load(x, rows[i]) + (-flat[p + i]) * u + (-flat[q + i]) * v + (-flat[r + i]) * w,
                )
        for k in range(width - width % 3, width):
            p, u = start + k * row_length + 4 * column_vectors, load(x, first_column + k)
            for i in range(below):
                store(x, rows[i], load(x, rows[i]) + (-flat[p + i]) * u)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def _backward(layout: Any, flat: Any, x: Any) -> Any:
    """Solve L^T y = x in place."""
    for b in range(len(layout.parent) - 1, -1, -1):
        width, below, column_vectors, below_vectors = _sizes(layout, b)
        start, row_length, first_column, rows = (
            4 * layout.panel_start[b],
            4 * (column_vectors + below_vectors),
            layout.first_column[b],
            layout.rows[layout.row_start[b] + width :],
        )
        for k in range(0, width - width % 3, 3):
            p = start + k * row_length + 4 * column_vectors
            q, r, u, v, w = (
                p + row_length,
                p + 2 * row_length,
                load(x, first_column + k),
                load(x, first_column + k + 1),
                load(x, first_column + k + 2),
            )
            for i in range(below):
                y = load(x, rows[i])
                u += (-flat[p + i]) * y
                v += (-flat[q + i]) * y
                w += (-flat[r + i]) * y
            store(x, first_column + k, u)
            store(x, first_column + k + 1, v)
            store(x, first_column + k + 2, w)
        for k in range(width - width % 3, width):
            p, u = start + k * row_length + 4 * column_vectors, load(x, first_column + k)
            for i in range(below):
                u += (-flat[p + i]) * load(x, rows[i])
            store(x, first_column + k, u)
        for k in range(width - 1, -1, -1):
            pivot_row, u = start + k * row_length, load(x, first_column + k)
            for i in range(k + 1, width):
                u += (-flat[pivot_row + i]) * load(x, first_column + i)
            store(x, first_column + k, (1.0 / flat[pivot_row + k]) * u)


@njit(error_model="numpy", cache=True)
def solve(layout: Any, factor: Any, right_sides: Any) -> Any:
    """Return the solutions (n, k) for right-hand sides (n, k), four at a time."""
    n, k = right_sides.shape
    out, flat, x = np.empty((n, k)), factor.reshape(-1), np.zeros((n, 4))
    for c in range(0, k, 4):
        for j in range(n):
            for i in range(min(4, k - c)):
                x[j, i] = right_sides[layout.order[j], c + i]
        _forward(layout, flat, x)
        _backward(layout, flat, x)
        for j in range(n):
            for i in range(min(4, k - c)):
                out[layout.order[j], c + i] = x[j, i]
    return out
