"""The sparse tangent stiffness: node-pair blocks of a body and its attachments, assembled in the
pattern of the factor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant import linalg
from pliant.bodies import Body
from pliant.core import Array, InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Tangent:
    """The assembly of the tangent matrix of a body, its supports and its attachments. The sparsity
    pattern is computed once. Raises InputError for an unknown solver."""

    body: Body
    held: Array  # (n_dofs,) bool
    # of each attachment: the weights (n_points, n_nodes) of its points, and the points per block
    point_weights: Sequence[tuple[sp.csr_matrix, int]]
    solver: str | None = None

    def __post_init__(self) -> None:
        if self.solver not in (None, "cholmod", "multifrontal"):
            raise InputError(
                f"There is no sparse solver '{self.solver}'; choose 'multifrontal', 'cholmod' or "
                "None for the faster one."
            )

    @property
    def _nodes(self) -> int:
        return len(self.held) // self.body.dim

    @cached_property
    def _layout(self) -> tuple[Array, linalg.Pattern, Array]:
        """The keys of all node pairs, the pattern of the free unknowns, and the place of its values
        in the blocks of these pairs."""
        keys = np.unique(
            np.concatenate(
                [self._keys(self.body.pairs), *(self._keys(t[0]) for t in self._triplets)]
            )
        )
        return keys, *_free_pattern(
            np.stack([keys % self._nodes, keys // self._nodes], axis=1), self.held, self.body.dim
        )

    def _keys(self, pairs: Array) -> Array:
        return pairs @ np.array([1, self._nodes])

    @cached_property
    def _triplets(self) -> list[tuple[Array, ...]]:
        return [_pair_triplets(weights, group) for weights, group in self.point_weights]

    @cached_property
    def _of_body(self) -> tuple[Array, Array, Array, Array]:
        """The place of each value in the body's blocks, the values without one, the values on block
        diagonals, and the body's pair of each of these."""
        (keys, _, gather), size = self._layout, self.body.dim**2
        own = np.full(len(keys), -1)
        own[np.searchsorted(keys, self._keys(self.body.pairs))] = np.arange(len(self.body.pairs))
        pair, entry = own[gather // size], gather % size
        diagonal = np.flatnonzero((entry % (self.body.dim + 1) == 0) & (pair >= 0))
        return (
            np.maximum(pair, 0) * size + entry,
            np.flatnonzero(pair < 0),
            diagonal,
            pair[diagonal],
        )

    @cached_property
    def _of_points(self) -> list[tuple[Array, sp.csr_matrix]]:
        """For each attachment: the values that it changes, and the matrix that maps its Hessians to
        them."""
        (keys, _, gather), dim = self._layout, self.body.dim
        place = np.full(len(keys) * dim**2, -1)
        place[gather] = np.arange(len(gather))
        out = []
        for (weights, points), (pairs, group, a, b, coefficient) in zip(
            self.point_weights, self._triplets, strict=True
        ):
            r, c = np.arange(dim)[:, None], np.arange(dim)
            to = place[
                np.searchsorted(keys, self._keys(pairs))[:, None, None] * dim**2 + r * dim + c
            ]
            source = (
                ((group * points + a)[:, None, None] * dim + r) * points * dim
                + b[:, None, None] * dim
                + c
            )
            share, keep = np.broadcast_to(coefficient[:, None, None], to.shape), to >= 0
            rows, which = np.unique(to[keep], return_inverse=True)
            shape = (len(rows), weights.shape[0] // points * (points * dim) ** 2)
            out.append((rows, sp.csr_matrix((share[keep], (which, source[keep])), shape=shape)))
        return out

    @cached_property
    def analysis(self) -> linalg.Analysis:
        return linalg.analyse(self._layout[1], self.solver, self.points)

    @property
    def points(self) -> Array | None:
        """(n_free, dim) [m] the node of each free unknown; None if some nodes are rotations."""
        dim = self.body.dim
        if not np.all(self.body.is_position):
            return None
        return self.body.rest.reshape(-1, dim)[np.flatnonzero(~self.held) // dim]

    def values(
        self,
        body_blocks: Array,
        pair_mass: Array,
        point_blocks: Sequence[Array | None],
        project: bool = False,
    ) -> Array:
        """Return the tangent of the free unknowns (nnz,) in the factor's pattern.

        `body_blocks` (n_pairs, dim, dim) and `pair_mass` (n_pairs,) belong to the body's node
        pairs, `point_blocks` are the Hessians of each attachment (None: excluded). `project` makes
        the latter positive semidefinite."""
        source, none, diagonal, pair = self._of_body
        values = np.take(body_blocks, source)
        values[none] = 0.0
        values[diagonal] += pair_mass[pair]
        for (rows, spread), H in zip(self._of_points, point_blocks, strict=True):
            if H is not None:
                values[rows] += spread @ (_positive(H) if project else H).ravel()
        return values

    def factor(self, values: Array, columns: Array, weights: Array) -> linalg.Solve | None:
        """Return the solve on the free unknowns with a tangent and its rank-one terms, or None if
        it is not positive definite."""
        if not np.all(np.isfinite(values)):
            return None
        solve = self.analysis.factor(values)
        if solve is None and weights.size:  # a buckled body may be held by a length-driven cable
            return linalg.factor_with_update(
                self.analysis.pattern, values, columns[~self.held], weights
            )
        return (
            None if solve is None else linalg.low_rank_update(solve, columns[~self.held], weights)
        )

    def factor_shifted(
        self, values: Array, pair_mass: Array, columns: Array, weights: Array
    ) -> linalg.Solve | None:
        """Return `factor` with enough mass added to make the tangent positive definite."""
        if not np.all(np.isfinite(values)):
            return None
        unit = self.values(
            np.zeros((len(pair_mass), self.body.dim, self.body.dim)),
            pair_mass,
            len(self.point_weights) * [None],
        )
        ratio = np.abs(values).max() / np.abs(unit).max()
        for share in (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0):
            solve = self.analysis.factor(values + share * ratio * unit)
            if solve is not None:
                return linalg.low_rank_update(solve, columns[~self.held], weights)
        return None


def _positive(H: Array) -> Array:
    """Return each small symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(H)
    return np.einsum("nik,nk,njk->nij", vectors, np.maximum(values, 0.0), vectors)


def _pair_triplets(weights: sp.csr_matrix, group: int) -> tuple[Array, ...]:
    """Return pairs (k, 2), block, point a, point b and coefficient for every pair of nodes i >= j
    that a block of points depends on."""
    rows: list[tuple] = []
    index, data, start = weights.indices, weights.data, weights.indptr
    for k in range(weights.shape[0] // group * group * group):
        g, a, b = k // group**2, k // group % group, k % group
        A, B = (slice(start[g * group + c], start[g * group + c + 1]) for c in (a, b))
        i, j = np.repeat(index[A], len(index[B])), np.tile(index[B], len(index[A]))
        keep = i >= j
        rows.append(
            (
                np.stack([i, j], 1)[keep],
                *(np.full(keep.sum(), c) for c in (g, a, b)),
                np.outer(data[A], data[B]).ravel()[keep],
            )
        )
    if not rows:
        return np.zeros((0, 2), int), *(np.zeros(0, int) for _ in range(3)), np.zeros(0)
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def _free_pattern(pairs: Array, held: Array, dim: int) -> tuple[linalg.Pattern, Array]:
    """Return the lower triangle of the free unknowns for node pairs i >= j, and the place of its
    values in the blocks."""
    number = np.cumsum(~held) - 1
    block, r, c = (
        m.ravel()
        for m in np.meshgrid(np.arange(len(pairs)), np.arange(dim), np.arange(dim), indexing="ij")
    )
    row, col = pairs[block, 0] * dim + r, pairs[block, 1] * dim + c
    keep = np.flatnonzero((row >= col) & ~held[row] & ~held[col])
    row, col = number[row[keep]], number[col[keep]]
    order = np.lexsort((row, col))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(col, minlength=int((~held).sum())))])
    return linalg.Pattern(indptr=indptr, indices=row[order]), keep[order]
