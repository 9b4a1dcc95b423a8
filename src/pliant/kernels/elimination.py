"""What a sparse symmetric matrix fills in when it is factorised: its elimination tree, and blocks
of columns that fill in alike.

Columns are numbered in the order in which they are eliminated. `below` lists, of each column, the
rows after it that its matrix has (compressed columns); `above` the same of the transpose: of each
row, the columns before it.
"""

import numpy as np
from numba import njit

WIDEST = 24  # columns of a block that is made of several
SLACK = 0.1  # of what such a block stores, that may be zeros


@njit(error_model="numpy", cache=True)
def parents(start, above):
    """(n,) the first row that each column fills in below its diagonal, -1 for none (Liu)."""
    n = len(start) - 1
    parent, ancestor = np.full(n, -1), np.full(n, -1)
    for j in range(n):
        for k in range(start[j], start[j + 1]):
            i = above[k]
            while i != -1 and i < j:
                further = ancestor[i]
                ancestor[i] = j
                if further == -1:
                    parent[i] = j
                i = further
    return parent


@njit(error_model="numpy", cache=True)
def children_first(parent):
    """(n,) an order of the tree in which the columns below each stand together right before it."""
    n = len(parent)
    child, sibling = np.full(n, -1), np.full(n, -1)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            sibling[j], child[parent[j]] = child[parent[j]], j
    order, stack, found = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for root in range(n):
        top = 0 if parent[root] < 0 else -1
        stack[0] = root
        while top >= 0:
            j = stack[top]
            if child[j] == -1:
                order[found] = j
                found, top = found + 1, top - 1
            else:
                top += 1
                stack[top], child[j] = child[j], sibling[child[j]]
    return order


@njit(error_model="numpy", cache=True)
def heights(start, above, parent):
    """(n,) how many rows each column of the factor has, its diagonal with them."""
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
def blocks(parent, height):
    """((m + 1,) the first column of each block, (m,) how many rows it has). Columns that fill in
    alike are one block, and small blocks are joined with the one that they fill in first where that
    stores few zeros."""
    n = len(parent)
    first, rows, zeros = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    m, end = 0, n  # found from the last to the first
    for j in range(n - 1, -1, -1):
        if j > 0 and parent[j - 1] == j and height[j - 1] == height[j] + 1:
            continue
        wide, tall, spare = end - j, height[j], 0
        if m > 0 and parent[end - 1] == end:
            after = (n if m == 1 else first[m - 2]) - end
            more = zeros[m - 1] + wide * (wide + rows[m - 1] - tall)
            if wide + after <= WIDEST and more <= SLACK * (wide + after) * (wide + rows[m - 1]):
                m, tall, spare = m - 1, wide + rows[m - 1], more
        first[m], rows[m], zeros[m] = j, tall, spare
        m, end = m + 1, j
    return np.append(first[:m][::-1], n), rows[:m][::-1].copy()


@njit(error_model="numpy", cache=True)
def fill(start, below, first, tall):
    """(where the rows of each block begin, these rows, the block that each block fills in first or
    -1, where in that block each of its rows stands)."""
    n, m = first[-1], len(tall)
    begin = np.zeros(m + 1, np.int64)
    begin[1:] = np.cumsum(tall)
    rows, place, parent = np.empty(begin[m], np.int64), np.zeros(begin[m], np.int64), np.full(m, -1)
    child, sibling, owner = np.full(m, -1), np.full(m, -1), np.empty(n, np.int64)
    seen, where = np.full(n, -1), np.empty(n, np.int64)
    for b in range(m):
        owner[first[b] : first[b + 1]] = b
    for b in range(m):
        k = begin[b]
        for j in range(first[b], first[b + 1]):
            rows[k], seen[j], k = j, b, k + 1
        for j in range(first[b], first[b + 1]):
            for t in range(start[j], start[j + 1]):
                if seen[below[t]] != b:
                    rows[k], seen[below[t]], k = below[t], b, k + 1
        c = child[b]
        while c != -1:
            for t in range(begin[c] + first[c + 1] - first[c], begin[c + 1]):
                if seen[rows[t]] != b:
                    rows[k], seen[rows[t]], k = rows[t], b, k + 1
            c = sibling[c]
        rows[begin[b] : k].sort()
        for t in range(begin[b], k):
            where[rows[t]] = t - begin[b]
        c = child[b]
        while c != -1:
            for t in range(begin[c] + first[c + 1] - first[c], begin[c + 1]):
                place[t] = where[rows[t]]
            c = sibling[c]
        if first[b + 1] - first[b] < k - begin[b]:
            up = owner[rows[begin[b] + first[b + 1] - first[b]]]
            parent[b], sibling[b], child[up] = up, child[up], b
    return begin, rows, parent, place
