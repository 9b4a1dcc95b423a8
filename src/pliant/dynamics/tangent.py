"""The sparse tangent: node-pair blocks of a body and its attachments, gathered into the pattern of the factor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant import linalg
from pliant.bodies import Body
from pliant.core import Array, InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Tangent:
    """Where every number of the matrix goes; found once for a body, its supports and what is attached to it."""

    body: Body
    held: Array  # (n_dofs,) bool
    looks: Sequence[tuple[sp.csr_matrix, int]]  # of each attachment: its weights (n_points, n_nodes), points in a group
    solver: str | None = None

    def __post_init__(self) -> None:
        if self.solver not in (None, "cholmod", "superlu"):
            raise InputError(f"There is no sparse solver '{self.solver}'; choose 'cholmod', 'superlu' or None for the best one here.")

    @property
    def _nodes(self) -> int:
        return len(self.held) // self.body.dim

    @cached_property
    def _layout(self) -> tuple[Array, list[tuple[Any, ...]], linalg.Pattern, Array]:
        """(pairs, each attachment's triplets, pattern of the free unknowns, gather from blocks to the pattern's values)."""
        key = np.array([1, self._nodes])
        triplets = [_pair_triplets(weights, group) for weights, group in self.looks]
        keys = np.unique(np.concatenate([self.body.pairs @ key, *(t[0] @ key for t in triplets)]))
        pairs = np.stack([keys % self._nodes, keys // self._nodes], axis=1)
        where = [(np.searchsorted(keys, t[0] @ key), *t[1:]) for t in triplets]
        return pairs, where, *_free_pattern(pairs, self.held, self.body.dim)

    @cached_property
    def _body_pairs(self) -> Array:
        key = np.array([1, self._nodes])
        return np.searchsorted(self._layout[0] @ key, self.body.pairs @ key)

    @cached_property
    def analysis(self) -> linalg.Analysis:
        return linalg.analyse(self._layout[2], self.solver)

    def values(self, body_blocks: Array, pair_mass: Array, point_blocks: Sequence[Array | None], project: bool = False) -> Array:
        """(nnz,) the free tangent in the factor's pattern: blocks (n_pairs, dim, dim) and masses (n_pairs,) of the body's node pairs,
        and the Hessians of all points (None: those of an attachment that does not count); `project` makes the last positive."""
        pairs, where, _, gather = self._layout
        dim = self.body.dim
        blocks = np.zeros((len(pairs), dim, dim))
        blocks[self._body_pairs] = body_blocks
        for axis in range(dim):
            blocks[self._body_pairs, axis, axis] += pair_mass
        for (index, group, a, b, coefficient), H in zip(where, point_blocks, strict=True):
            if H is None:
                continue
            H = _positive(H) if project else H
            share = H.reshape(len(H), -1, dim, H.shape[1] // dim, dim)[group, a, :, b, :]
            np.add.at(blocks, index, coefficient[:, None, None] * share)
        return np.take(blocks, gather)

    def factor(self, values: Array, columns: Array, weights: Array) -> linalg.Solve | None:
        """The solve on the free unknowns with a tangent and its rank-one shares, None where it is not positive definite."""
        if not np.all(np.isfinite(values)):
            return None
        solve = self.analysis.factor(values)
        if solve is None and weights.size:  # a buckled body may be held by a length-driven cable
            return linalg.factor_with(self.analysis.pattern, values, columns[~self.held], weights)
        return None if solve is None else linalg.low_rank(solve, columns[~self.held], weights)

    def factor_shifted(self, values: Array, pair_mass: Array, columns: Array, weights: Array) -> linalg.Solve | None:
        """As `factor`, with as much mass added as it takes to make the tangent positive."""
        if not np.all(np.isfinite(values)):
            return None
        dim = self.body.dim
        still = [np.zeros((w.shape[0] // group, group * dim, group * dim)) for w, group in self.looks]
        unit = self.values(np.zeros((len(pair_mass), dim, dim)), pair_mass, still)
        ratio = np.abs(values).max() / np.abs(unit).max()
        for share in (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0):
            solve = self.analysis.factor(values + share * ratio * unit)
            if solve is not None:
                return linalg.low_rank(solve, columns[~self.held], weights)
        return None


def _positive(H: Array) -> Array:
    """Each small symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(H)
    return np.einsum("nik,nk,njk->nij", vectors, np.maximum(values, 0.0), vectors)


def _pair_triplets(weights: sp.csr_matrix, group: int) -> tuple[Array, ...]:
    """For every pair of nodes i >= j that a group of points looks at: (pairs (k, 2), group, point a, point b, coefficient)."""
    rows: list[tuple] = []
    index, data, start = weights.indices, weights.data, weights.indptr
    for k in range(weights.shape[0] // group * group * group):
        g, a, b = k // group**2, k // group % group, k % group
        A, B = (slice(start[g * group + c], start[g * group + c + 1]) for c in (a, b))
        i, j = np.repeat(index[A], len(index[B])), np.tile(index[B], len(index[A]))
        keep = i >= j
        rows.append((np.stack([i, j], 1)[keep], *(np.full(keep.sum(), c) for c in (g, a, b)), np.outer(data[A], data[B]).ravel()[keep]))
    if not rows:
        return np.zeros((0, 2), int), *(np.zeros(0, int) for _ in range(3)), np.zeros(0)
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def _free_pattern(pairs: Array, held: Array, dim: int) -> tuple[linalg.Pattern, Array]:
    """The lower triangle of the free unknowns for node pairs i >= j, and where in the blocks its values lie."""
    number = np.cumsum(~held) - 1
    block, r, c = (m.ravel() for m in np.meshgrid(np.arange(len(pairs)), np.arange(dim), np.arange(dim), indexing="ij"))
    row, col = pairs[block, 0] * dim + r, pairs[block, 1] * dim + c
    keep = np.flatnonzero((row >= col) & ~held[row] & ~held[col])
    row, col = number[row[keep]], number[col[keep]]
    order = np.lexsort((row, col))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=int((~held).sum())))])
    return linalg.Pattern(indptr=indptr, indices=row[order]), keep[order]
