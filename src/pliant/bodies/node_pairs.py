"""Node pairs that share cells, and the order in which cell blocks are summed."""

import numpy as np

from pliant.core import Array


def upper_triangle_nodes(n: int) -> tuple[Array, Array]:
    """Return the local nodes (a, b), a <= b, of the blocks of a cell, in the order of
    `stiffness.cell_stiffness`."""
    a, b = np.triu_indices(n)
    order = np.lexsort((a, b))
    return a[order], b[order]


def pair_block_sources(cells: Array, n_nodes: int) -> tuple[Array, Array, Array, Array]:
    """Return (pairs, start, source, flip): the cell blocks that are summed for each node pair i >=
    j.

    `cells` (n_cells, nodes) are the nodes of each cell. Pair p sums the blocks
    source[start[p]:start[p + 1]]; `flip` marks blocks that are transposed.
    """
    a, b = upper_triangle_nodes(cells.shape[1])
    i, j = cells[:, a].ravel(), cells[:, b].ravel()
    low, high = np.minimum(i, j), np.maximum(i, j)
    source = np.lexsort((np.arange(len(i)), high, low))
    keys = low[source] * n_nodes + high[source]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    pairs = np.stack([high[source][first], low[source][first]], axis=1)
    return pairs, np.concatenate([first, [len(keys)]]), source, (i < j)[source]


def entry_block_sources(cells: Array, n_nodes: int) -> tuple[Array, Array]:
    """Return (start, source): the blocks of full cell matrices that are summed for each pair of
    nodes, sorted by row and then by column.

    Pair p sums the blocks source[start[p]:start[p + 1]]. Block (a, b) of a cell c with k nodes has
    the number k^2 c + k a + b.
    """
    keys = (cells[:, :, None].astype(np.int64) * n_nodes + cells[:, None, :]).ravel()
    source = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[source], prepend=-1))
    return np.append(first, len(keys)), source
