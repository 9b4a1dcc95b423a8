"""Which cells share which nodes: how the blocks and forces of cells add up to those of a body."""

import numpy as np

from pliant.core import Array


def upper_nodes(n: int) -> tuple[Array, Array]:
    """Local nodes (a, b), a <= b, of the blocks of a cell with n nodes, in the order of
    `stiffness.cell_stiffness`."""
    a, b = np.triu_indices(n)
    order = np.lexsort((a, b))
    return a[order], b[order]


def pair_links(cells: Array, n_nodes: int) -> tuple[Array, Array, Array, Array]:
    """(pairs, start, source, flip): the blocks of cells (n_cells, nodes) that add up to each node
    pair i >= j."""
    a, b = upper_nodes(cells.shape[1])
    i, j = cells[:, a].ravel(), cells[:, b].ravel()
    low, high = np.minimum(i, j), np.maximum(i, j)
    source = np.lexsort((np.arange(len(i)), high, low))
    keys = low[source] * n_nodes + high[source]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    pairs = np.stack([high[source][first], low[source][first]], axis=1)
    return pairs, np.concatenate([first, [len(keys)]]), source, (i < j)[source]
