"""Sparse symmetric positive definite solves: analyse a pattern once, factorise many matrices.

The elimination order is minimum degree, or nested dissection if that is cheaper, as for large
bodies. Matrices with little fill, as those of slender robots, use the multifrontal factorisation of
`kernels/multifrontal.py`. The others use CHOLMOD (extra `fast`) if cvxopt is installed. Both detect
a matrix that is not positive definite. Several threads may factorise at the same time.
"""

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from pliant.core import Array, MissingExtra
from pliant.kernels import elimination
from pliant.kernels.dissection import nested_dissection
from pliant.kernels.multifrontal import FrontalLayout, factorise, solve

Solve = Callable[[Array], Array]  # right-hand sides (n,) or (n, k) -> solutions

# Operations for each entry of the factor above which dense blocks (BLAS) are faster.
DENSE_OPERATIONS_PER_ENTRY = 150.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern:
    """The lower triangle of a symmetric matrix in compressed columns.

    Row indices ascend in each column and include the diagonal.
    """

    indptr: Array  # (n + 1,)
    indices: Array  # (nnz,)

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def coordinates(self) -> tuple[Array, Array]:
        """Return the row (nnz,) and the column (nnz,) of each value."""
        return self.indices.astype(np.int64), np.repeat(np.arange(self.n), np.diff(self.indptr))


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """A pattern with a fill-reducing order.

    `factor(values)` returns a solve, or None if the matrix is not positive definite.
    """

    pattern: Pattern
    tree: "EliminationTree"
    name: str  # of the solver

    @cached_property
    def factor(self) -> Callable[[Array], Solve | None]:
        if self.name == "cholmod":
            return _cholmod(self.pattern, self.tree.order)
        return _multifrontal(self.pattern, self.tree)

    @property
    def n_entries(self) -> int:
        """The number of nonzeros of the factor."""
        return int(self.tree.column_counts.sum())

    def __getstate__(self) -> dict[str, Any]:
        return {  # without the function, which cannot be pickled for worker processes
            part.name: getattr(self, part.name) for part in fields(self)
        }


def available_solvers() -> tuple[str, ...]:
    """Return the names of the installed solvers."""
    return ("multifrontal", "cholmod") if find_spec("cvxopt") else ("multifrontal",)


def analyse(pattern: Pattern, solver: str | None = None, points: Array | None = None) -> Analysis:
    """Order a pattern once for many factorisations.

    `solver` is "multifrontal", "cholmod" or None for the faster one. `points` (n, dim) are the
    positions of the unknowns; with them a matrix with much fill may be ordered by nested
    dissection. Raises `MissingExtra` if the solver is not installed.
    """
    if solver not in (None, *available_solvers()):
        raise MissingExtra(
            f"The sparse solver '{solver}' is not installed (available: "
            f"{', '.join(available_solvers())}). For CHOLMOD: pip install 'pliant[fast]'."
        )
    tree = _cheapest_tree(pattern, points)
    if solver is None:
        solver = (
            "cholmod"
            if "cholmod" in available_solvers() and _has_much_fill(tree)
            else "multifrontal"
        )
    return Analysis(pattern=pattern, tree=tree, name=solver)


def low_rank_update(solve: Solve, columns: Array, weights: Array) -> Solve:
    """Return the solve of A + sum_i weights[i] h_i h_i^T from a solve of A (Woodbury).

    `columns` (n, k) are the vectors h_i.
    """
    if columns.shape[1] == 0:
        return solve
    Z = solve(columns)
    small = scipy.linalg.lu_factor(np.diag(1.0 / weights) + columns.T @ Z)

    def solve_updated(b: Array) -> Array:
        y = solve(b)
        return y - Z @ scipy.linalg.lu_solve(small, columns.T @ y)

    return solve_updated


def factor_with_update(
    pattern: Pattern, values: Array, columns: Array, weights: Array
) -> Solve | None:
    """Return the solve of A + sum_i weights[i] h_i h_i^T, or None if it is not positive definite.

    The updates are added to the sparse matrix. This is slow, and needed only if A itself is not
    positive definite.
    """
    lower = sp.csc_matrix((values, pattern.indices, pattern.indptr), shape=(pattern.n,) * 2)
    H = sp.csc_matrix(columns)
    full = sp.tril(lower + H @ sp.diags(weights) @ H.T, format="csc")
    full.sort_indices()
    return analyse(Pattern(indptr=full.indptr, indices=full.indices), "multifrontal").factor(
        full.data
    )


def factor_column_counts(pattern: Pattern, points: Array) -> dict[str, Array]:
    """Return the number of rows (n,) of each column of the factor, by elimination order."""
    orders = {
        "minimum degree": _minimum_degree(pattern),
        "dissection": _nested_dissection_order(pattern, points),
    }
    return {name: _elimination_tree(pattern, order).column_counts for name, order in orders.items()}


def _cheapest_tree(pattern: Pattern, points: Array | None) -> "EliminationTree":
    """Return the elimination tree of the cheaper order.

    Nested dissection is tried only if minimum degree leaves much fill; otherwise it is not cheaper.
    """
    tree = _elimination_tree(pattern, _minimum_degree(pattern))
    if points is None or not _has_much_fill(tree):
        return tree
    return min(
        tree, _elimination_tree(pattern, _nested_dissection_order(pattern, points)), key=_cost
    )


def _has_much_fill(tree: "EliminationTree") -> bool:
    """Return whether the factorisation is faster with dense blocks."""
    return bool(
        np.sum(tree.column_counts**2.0) > DENSE_OPERATIONS_PER_ENTRY * np.sum(tree.column_counts)
    )


def _cost(tree: "EliminationTree") -> float:
    """Return the operations of a factorisation plus its memory traffic, counted as operations."""
    return float(
        np.sum(tree.column_counts**2.0) + DENSE_OPERATIONS_PER_ENTRY * np.sum(tree.column_counts)
    )


def _nested_dissection_order(pattern: Pattern, points: Array) -> Array:
    """Return an order (n,) by nested dissection. Unknowns at the same point stay together."""
    by_point = np.lexsort(points.T)
    first = np.append(True, np.any(np.diff(points[by_point], axis=0) != 0.0, axis=1))
    vertex = np.empty(pattern.n, np.int64)
    vertex[by_point] = np.cumsum(first) - 1
    i, j = (vertex[index] for index in pattern.coordinates)
    edges = np.unique((np.maximum(i, j) * pattern.n + np.minimum(i, j))[i != j])
    vertices = nested_dissection(
        points[by_point[first]], np.stack([edges // pattern.n, edges % pattern.n], axis=1)
    )
    return np.argsort(np.argsort(vertices)[vertex], kind="stable")


def _minimum_degree(pattern: Pattern) -> Array:
    """Return an order (n,) by minimum degree.

    It comes from cvxopt if that is installed, else from SuperLU: the incomplete factorisation of a
    diagonally dominant matrix of the same pattern computes it.
    """
    n, (rows, cols) = pattern.n, pattern.coordinates
    if "cholmod" in available_solvers():
        from cvxopt import amd, matrix, spmatrix

        return np.array(
            amd.order(spmatrix(1.0, matrix(rows), matrix(cols), (n, n))), np.int64
        ).ravel()
    lower = sp.csc_matrix((np.full(len(rows), -1.0), pattern.indices, pattern.indptr), shape=(n, n))
    A = lower + lower.T
    A = A + sp.diags(1.0 - 2.0 * np.asarray(A.sum(axis=1)).ravel())
    lu = spla.spilu(
        A.tocsc(),
        drop_tol=1.0,
        fill_factor=1.0,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return np.argsort(lu.perm_c)


@dataclass(frozen=True, kw_only=True, eq=False)
class EliminationTree:
    """The elimination tree of a pattern. Columns are numbered in elimination order."""

    order: Array  # (n,) the unknown of each column
    column: Array  # (nnz,) the column of each value of the pattern
    row_index: Array  # (nnz,) the row of each value of the pattern
    parent: Array  # (n,)
    column_counts: Array  # (n,) rows of each column of the factor


def _elimination_tree(pattern: Pattern, order: Array) -> EliminationTree:
    """Return the elimination tree of an order, in postorder."""
    column, row_index = _permuted_coordinates(pattern, order)
    order = order[
        elimination.postorder(
            elimination.elimination_tree(*_compressed_columns(pattern.n, row_index, column))
        )
    ]
    column, row_index = _permuted_coordinates(pattern, order)
    above = _compressed_columns(pattern.n, row_index, column)
    parent = elimination.elimination_tree(*above)
    return EliminationTree(
        order=order,
        column=column,
        row_index=row_index,
        parent=parent,
        column_counts=elimination.column_counts(*above, parent),
    )


def _permuted_coordinates(pattern: Pattern, order: Array) -> tuple[Array, Array]:
    """Return the column and the row of each value after the unknowns are permuted."""
    new = np.empty(pattern.n, np.int64)
    new[order] = np.arange(pattern.n)
    i, j = (new[index] for index in pattern.coordinates)
    return np.minimum(i, j), np.maximum(i, j)


def _compressed_columns(n: int, cols: Array, rows: Array) -> tuple[Array, Array]:
    """Return the start of each column and the rows of all columns."""
    A = sp.csc_matrix((np.ones(len(rows), np.int8), (rows, cols)), shape=(n, n))
    return A.indptr.astype(np.int64), A.indices.astype(np.int64)


def _frontal_layout(pattern: Pattern, tree: EliminationTree) -> FrontalLayout:
    """Return the memory layout of the multifrontal factorisation."""
    first, n_rows = elimination.supernodes(tree.parent, tree.column_counts)
    row_start, rows, parent, parent_row = elimination.supernode_rows(
        *_compressed_columns(pattern.n, tree.column, tree.row_index), first, n_rows
    )
    width, m = np.diff(first), len(n_rows)
    below, block = n_rows - width, np.repeat(np.arange(m), width)
    column_vectors, row_vectors = (width + 3) // 4, (width + 3) // 4 + (below + 3) // 4
    panel = np.concatenate([[0], np.cumsum(width * row_vectors)])
    # the position of row k of a supernode in its padded rows
    padded = lambda b, k: np.where(k < width[b], k, k - width[b] + 4 * column_vectors[b])
    b, row_block = block[tree.column], np.repeat(np.arange(m), n_rows)
    k = np.searchsorted(row_block * pattern.n + rows, b * pattern.n + tree.row_index) - row_start[b]
    target = 4 * (panel[b] + (tree.column - first[b]) * row_vectors[b]) + padded(b, k)
    update_sizes = below * (row_vectors - column_vectors)
    return FrontalLayout(
        order=tree.order,
        first_column=first,
        row_start=row_start,
        rows=rows,
        parent=parent,
        parent_row=padded(parent[row_block], parent_row),
        panel_start=panel,
        value_position=target,
        stack_size=_max_stack_size(parent, update_sizes),
        update_size=int(update_sizes.max(initial=0)),
    )


def _max_stack_size(parent: Array, update_sizes: Array) -> int:
    """Return the largest total size of the update matrices that wait for their parents."""
    consumed = np.bincount(parent[parent >= 0], update_sizes[parent >= 0], minlength=len(parent))
    return int(np.cumsum(update_sizes - consumed).max(initial=0.0))


def _multifrontal(pattern: Pattern, tree: EliminationTree) -> Callable[[Array], Solve | None]:
    """Return the multifrontal `factor` function of a pattern."""
    layout = _frontal_layout(pattern, tree)

    def factor(values: Array) -> Solve | None:
        L = factorise(layout, values)
        return (
            None
            if L is None
            else lambda b: solve(
                layout, L, np.ascontiguousarray(b if b.ndim == 2 else b[:, None])
            ).reshape(b.shape)
        )

    return factor


def _is_positive(factor: Any, n: int) -> bool:
    """Return whether D of an L D L^T factorisation is positive.

    A supernodal factor is L L^T and exists only for a positive definite matrix.
    """
    from cvxopt import cholmod, matrix

    ones = matrix(1.0, (n, 1))
    cholmod.solve(factor, ones, sys=6)
    inverse = np.asarray(ones)
    return bool(np.all((inverse > 0.0) & (inverse < np.inf)))


def _cholmod(pattern: Pattern, order: Array) -> Callable[[Array], Solve | None]:
    """Return the CHOLMOD `factor` function of a pattern."""
    from cvxopt import cholmod, matrix, spmatrix

    rows, cols = pattern.coordinates
    cholmod.options["supernodal"] = 1  # CHOLMOD chooses between simplicial and supernodal
    A, permuted = spmatrix(1.0, matrix(rows), matrix(cols), (pattern.n,) * 2), matrix(order)

    spare: deque[Any] = deque(maxlen=2)  # unused factors, whose symbolic part is used again
    lock = Lock()

    def factor(values: Array) -> Solve | None:
        if not np.isfinite(values).all():  # CHOLMOD's dense blocks do not detect NaN
            return None
        with lock:
            A.V = matrix(values)  # CHOLMOD copies it, so all calls can share A
            F = spare.pop() if spare else cholmod.symbolic(A, p=permuted)
            try:
                cholmod.numeric(A, F)
                positive = _is_positive(F, pattern.n)
            except ArithmeticError:
                positive = False
            if not positive:
                spare.append(F)
                return None

        def solve(b: Array) -> Array:
            x = matrix(np.array(b, dtype=float, order="F", copy=True))
            cholmod.solve(F, x)
            return np.array(x).reshape(b.shape)

        weakref.finalize(solve, spare.append, F)
        return solve

    return factor
