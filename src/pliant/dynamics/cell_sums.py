"""Assembly of cell matrices into one sparse matrix with a fixed pattern."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class CellSums:
    """The sparsity pattern of an assembled matrix, and the place of each entry of the cell
    matrices."""

    cell_nodes: Array  # (n_cells, k)
    n_nodes: int
    dim: int

    @cached_property
    def dofs(self) -> Array:
        """The unknowns (n_cells, k dim) of each cell."""
        return (self.cell_nodes[:, :, None] * self.dim + np.arange(self.dim)).reshape(
            len(self.cell_nodes), -1
        )

    @cached_property
    def _layout(self) -> tuple[Array, Array, Array]:
        """The place of every entry of the cell matrices in the CSR data, the CSR indices and
        indptr."""
        n, dim, axis = self.n_nodes, self.dim, np.arange(self.dim)
        keys, pair = np.unique(
            self.cell_nodes[:, :, None].astype(np.int64) * n + self.cell_nodes[:, None, :],
            return_inverse=True,
        )
        pair, first = (
            pair.reshape(*self.cell_nodes.shape, -1),
            np.searchsorted(keys, n * np.arange(n + 1, dtype=np.int64)),
        )
        # The dim rows of a node are consecutive, each with dim entries per neighbour
        width = dim * np.diff(first)
        indptr = np.concatenate([[0], np.cumsum(np.repeat(width, dim))])
        row = indptr[:-1].reshape(n, dim)[self.cell_nodes][:, :, :, None, None]
        along = dim * (pair - first[self.cell_nodes][:, :, None])[:, :, None, :, None]
        places, indices = row + along + axis, np.empty(indptr[-1], np.int32)
        indices[places] = self.dofs.reshape(len(self.cell_nodes), 1, 1, -1, dim)
        return places.ravel(), indices, indptr.astype(np.int32)

    def matrix(self, blocks: Array) -> sp.csr_matrix:
        """Return the sum (n_dofs, n_dofs) of cell matrices (n_cells, k dim, k dim), in a fixed
        order."""
        places, indices, _ = self._layout
        return self._matrix(np.bincount(places, blocks.ravel(), minlength=len(indices)))

    def matrix_of_entries(self, blocks: Array) -> sp.csr_matrix:
        """Return the matrix of blocks (n_entries, dim, dim) of all pairs of nodes that share a
        cell, sorted by row and then by column."""
        return self._matrix(blocks.ravel()[self._entry_order])

    @cached_property
    def _entry_order(self) -> Array:
        """The place in such blocks of each entry of the CSR data."""
        _, indices, indptr = self._layout
        dim, row = self.dim, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        before = np.arange(len(indices)) - indptr[row]  # entries of the same row
        first = indptr[row - row % dim] // dim**2  # block of the node's row
        return (first + before // dim) * dim**2 + (row % dim) * dim + before % dim

    def _matrix(self, data: Array) -> sp.csr_matrix:
        _, indices, indptr = self._layout
        return sp.csr_matrix((data, indices, indptr), shape=(self.dim * self.n_nodes,) * 2)
