"""Symbolic Cholesky factorisation: elimination tree, supernodes and their rows.

Columns are numbered in elimination order. `below` lists the rows below the diagonal of each column
of the matrix (compressed columns). `above` lists the columns before the diagonal of each row.
"""

from typing import Any

import numpy as np
from numba import njit

MAX_MERGED_COLUMNS = 24  # columns of a merged supernode
MAX_ZERO_FRACTION = 0.1  # zeros that a merged supernode may store


@njit(error_model="numpy", cache=True)
def elimination_tree(start: Any, above: Any) -> Any:
    """Return the parent (n,) of each column in the elimination tree, -1 for a root (Liu, 1986)."""
    n = len(start) - 1
    parent, ancestor = np.full(n, -1), np.full(n, -1)
    for j in range(n):
        for k in range(start[j], start[j + 1]):
            i = above[k]
            while i != -1 and i < j:
                next_ancestor = ancestor[i]
                ancestor[i] = j
                if next_ancestor == -1:
                    parent[i] = j
                i = next_ancestor
    return parent


@njit(error_model="numpy", cache=True)
def postorder(parent: Any) -> Any:
    """Return a postorder (n,) of the tree: each subtree is contiguous, and its root is last."""
    n = len(parent)
    child, sibling = np.full(n, -1), np.full(n, -1)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            sibling[j], child[parent[j]] = child[parent[j]], j
    order, stack, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for root in range(n):
        top = 0 if parent[root] < 0 else -1
        stack[0] = root
        while top >= 0:
            j = stack[top]
            if child[j] == -1:
                order[count] = j
                count, top = count + 1, top - 1
            else:
                top += 1
                stack[top], child[j] = child[j], sibling[child[j]]
    return order


@njit(error_model="numpy", cache=True)
def column_counts(start: Any, above: Any, parent: Any) -> Any:
    """Return the number of rows (n,) of each column of the factor, including the diagonal."""
    n = len(parent)
    height, seen = np.ones(n, np.int64), np.full(n, -1)
    for i in range(n):
        seen[i] = i
        for k in range(start[i], start[i + 1]):
            j = above[k]
            while seen[j] != i:
                height[j] += 1
                seen[j] = i
                j = parent[j]
    return height


@njit(error_model="numpy", cache=True)
def supernodes(parent: Any, height: Any) -> Any:
    """Return the first column (m + 1,) and the number of rows (m,) of each supernode.

    Columns with the same rows form one supernode. A small supernode is merged with its parent if
    the merged block stores few zeros.
    """
    n = len(parent)
    first, rows, zeros = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    m, end = 0, n  # from the last supernode to the first
    for j in range(n - 1, -1, -1):
        if j > 0 and parent[j - 1] == j and height[j - 1] == height[j] + 1:
            continue
        width, n_rows, n_zeros = end - j, height[j], 0
        if m > 0 and parent[end - 1] == end:
            next_width = (n if m == 1 else first[m - 2]) - end
            merged_zeros = zeros[m - 1] + width * (width + rows[m - 1] - n_rows)
            if width + next_width <= MAX_MERGED_COLUMNS and merged_zeros <= MAX_ZERO_FRACTION * (
                width + next_width
            ) * (width + rows[m - 1]):
                m, n_rows, n_zeros = m - 1, width + rows[m - 1], merged_zeros
        first[m], rows[m], zeros[m] = j, n_rows, n_zeros
        m, end = m + 1, j
    return np.append(first[:m][::-1], n), rows[:m][::-1].copy()


@njit(error_model="numpy", cache=True)
def supernode_rows(start: Any, below: Any, first: Any, n_rows: Any) -> Any:
    """Return the rows of all supernodes and their positions in the parents.

    The result is (start of the rows of each supernode (m + 1,), rows (k,), parent of each supernode
    or -1 (m,), position of each row in the rows of the parent (k,)).
    """
    n, m = first[-1], len(n_rows)
    row_start = np.zeros(m + 1, np.int64)
    row_start[1:] = np.cumsum(n_rows)
    rows, parent_row, parent = (
        np.empty(row_start[m], np.int64),
        np.zeros(row_start[m], np.int64),
        np.full(m, -1),
    )
    child, sibling, owner = np.full(m, -1), np.full(m, -1), np.empty(n, np.int64)
    seen, position = np.full(n, -1), np.empty(n, np.int64)
    for b in range(m):
        owner[first[b] : first[b + 1]] = b
    for b in range(m):
        k = row_start[b]
        for j in range(first[b], first[b + 1]):
            rows[k], seen[j], k = j, b, k + 1
        for j in range(first[b], first[b + 1]):
            for t in range(start[j], start[j + 1]):
                if seen[below[t]] != b:
                    rows[k], seen[below[t]], k = below[t], b, k + 1
        c = child[b]
        while c != -1:
            for t in range(row_start[c] + first[c + 1] - first[c], row_start[c + 1]):
                if seen[rows[t]] != b:
                    rows[k], seen[rows[t]], k = rows[t], b, k + 1
            c = sibling[c]
        rows[row_start[b] : k].sort()
        for t in range(row_start[b], k):
            position[rows[t]] = t - row_start[b]
        c = child[b]
        while c != -1:
            for t in range(row_start[c] + first[c + 1] - first[c], row_start[c + 1]):
                parent_row[t] = position[rows[t]]
            c = sibling[c]
        if first[b + 1] - first[b] < k - row_start[b]:
            b_parent = owner[rows[row_start[b] + first[b + 1] - first[b]]]
            parent[b], sibling[b], child[b_parent] = b_parent, child[b_parent], b
    return row_start, rows, parent, parent_row
