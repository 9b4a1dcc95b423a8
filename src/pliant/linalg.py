"""Sparse symmetric positive definite solves: the pattern is analysed once, the numbers are
factorised as often as needed.

The elimination order is minimum degree, or nested dissection where that is cheaper, as for large
bodies. The factor is multifrontal (`kernels/fronts.py`) for matrices with little fill, as those of
slender robots; for the others it is CHOLMOD (extra `fast`), where cvxopt is installed. Both detect
a matrix that is not positive definite. Several threads may factorise at the same time.
"""

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
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
from pliant.kernels.fronts import Fronts, factorise, solve

Solve = Callable[[Array], Array]  # (n,) or (n, k) right sides -> solutions

# sums and products for each number of the factor; from there on dense blocks of BLAS are quicker
BULKY = 150.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern:
    """The lower triangle of a symmetric matrix in compressed columns, rows ascending, diagonal
    always there."""

    indptr: Array  # (n + 1,)
    indices: Array  # (nnz,)

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def places(self) -> tuple[Array, Array]:
        """((nnz,), (nnz,)) the row and the column of each value."""
        return self.indices.astype(np.int64), np.repeat(np.arange(self.n), np.diff(self.indptr))


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """A pattern with its fill-reducing order; `factor(values)` gives a solve, or None where not
    positive definite."""

    pattern: Pattern
    factor: Callable[[Array], Solve | None]
    name: str
    fill: int  # numbers of the factor


def available() -> tuple[str, ...]:
    """The solvers on this machine."""
    return ("fronts", "cholmod") if find_spec("cvxopt") else ("fronts",)


def analyse(pattern: Pattern, solver: str | None = None, points: Array | None = None) -> Analysis:
    """Order a pattern once for many factorisations; `solver` is "fronts", "cholmod" or None for the
    quicker one here. With the position of each unknown, points (n, dim), a matrix with much fill
    may be ordered by nested dissection."""
    if solver not in (None, *available()):
        raise MissingExtra(
            f"The sparse solver '{solver}' is not installed here (there is "
            f"{', '.join(available())}). For CHOLMOD: pip install 'pliant[fast]'."
        )
    tree = _cheapest_tree(pattern, points)
    if solver is None:
        solver = "cholmod" if "cholmod" in available() and _has_much_fill(tree) else "fronts"
    factor = _cholmod(pattern, tree.order) if solver == "cholmod" else _by_fronts(pattern, tree)
    return Analysis(pattern=pattern, factor=factor, name=solver, fill=int(tree.height.sum()))


def low_rank(solve: Solve, columns: Array, weights: Array) -> Solve:
    """The solve of A + sum_i weights[i] h_i h_i^T from a solve of A (Woodbury); columns (n, k)
    holds the h_i."""
    if columns.shape[1] == 0:
        return solve
    Z = solve(columns)
    small = scipy.linalg.lu_factor(np.diag(1.0 / weights) + columns.T @ Z)

    def solve_updated(b: Array) -> Array:
        y = solve(b)
        return y - Z @ scipy.linalg.lu_solve(small, columns.T @ y)

    return solve_updated


def factor_with(pattern: Pattern, values: Array, columns: Array, weights: Array) -> Solve | None:
    """The solve of A + sum_i weights[i] h_i h_i^T with the shares filled in; slow, for a matrix
    that only they make positive."""
    lower = sp.csc_matrix((values, pattern.indices, pattern.indptr), shape=(pattern.n,) * 2)
    H = sp.csc_matrix(columns)
    full = sp.tril(lower + H @ sp.diags(weights) @ H.T, format="csc")
    full.sort_indices()
    return analyse(Pattern(indptr=full.indptr, indices=full.indices), "fronts").factor(full.data)


def column_heights(pattern: Pattern, points: Array) -> dict[str, Array]:
    """The rows (n,) of each column of the factor, by the name of the elimination order."""
    orders = {"minimum degree": _minimum_degree(pattern), "dissection": _dissected(pattern, points)}
    return {name: _tree(pattern, order).height for name, order in orders.items()}


def _cheapest_tree(pattern: Pattern, points: Array | None) -> "Tree":
    """The elimination tree of the cheaper order. Nested dissection is tried only where minimum
    degree leaves much fill: elsewhere it does not win."""
    tree = _tree(pattern, _minimum_degree(pattern))
    if points is None or not _has_much_fill(tree):
        return tree
    return min(tree, _tree(pattern, _dissected(pattern, points)), key=_cost)


def _has_much_fill(tree: "Tree") -> bool:
    return bool(np.sum(tree.height**2.0) > BULKY * np.sum(tree.height))


def _cost(tree: "Tree") -> float:
    """The operations of a factorisation, and the memory traffic that is worth as many."""
    return float(np.sum(tree.height**2.0) + BULKY * np.sum(tree.height))


def _dissected(pattern: Pattern, points: Array) -> Array:
    """(n,) an order by nested dissection; unknowns at the same point stay together."""
    by_point = np.lexsort(points.T)
    first = np.append(True, np.any(np.diff(points[by_point], axis=0) != 0.0, axis=1))
    vertex = np.empty(pattern.n, np.int64)
    vertex[by_point] = np.cumsum(first) - 1
    i, j = (vertex[places] for places in pattern.places)
    edges = np.unique((np.maximum(i, j) * pattern.n + np.minimum(i, j))[i != j])
    vertices = nested_dissection(
        points[by_point[first]], np.stack([edges // pattern.n, edges % pattern.n], axis=1)
    )
    return np.argsort(np.argsort(vertices)[vertex], kind="stable")


def _minimum_degree(pattern: Pattern) -> Array:
    """(n,) an order by minimum degree: of cvxopt where it is installed, else of SuperLU, which
    finds it on the way to an incomplete factor, with everything dropped, of a diagonally dominant
    matrix of the same pattern."""
    n, (rows, cols) = pattern.n, pattern.places
    if "cholmod" in available():
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
class Tree:
    """The elimination tree of a pattern, its columns in the order in which they are eliminated."""

    order: Array  # (n,) the unknown of each column
    before: Array  # (nnz,) the column of each value of the pattern, the smaller of its two
    after: Array  # (nnz,) and the row
    parent: Array  # (n,)
    height: Array  # (n,) rows of each column of the factor


def _tree(pattern: Pattern, order: Array) -> Tree:
    before, after = _in_order(pattern, order)
    order = order[
        elimination.children_first(elimination.parents(*_columns(pattern.n, after, before)))
    ]
    before, after = _in_order(pattern, order)
    above = _columns(pattern.n, after, before)
    parent = elimination.parents(*above)
    return Tree(
        order=order,
        before=before,
        after=after,
        parent=parent,
        height=elimination.heights(*above, parent),
    )


def _in_order(pattern: Pattern, order: Array) -> tuple[Array, Array]:
    """(column, row) of each value of a pattern whose unknowns are eliminated in an order."""
    new = np.empty(pattern.n, np.int64)
    new[order] = np.arange(pattern.n)
    i, j = (new[places] for places in pattern.places)
    return np.minimum(i, j), np.maximum(i, j)


def _columns(n: int, cols: Array, rows: Array) -> tuple[Array, Array]:
    """(where each column begins, the rows of all)"""
    A = sp.csc_matrix((np.ones(len(rows), np.int8), (rows, cols)), shape=(n, n))
    return A.indptr.astype(np.int64), A.indices.astype(np.int64)


def _fronts(pattern: Pattern, tree: Tree) -> Fronts:
    first, tall = elimination.blocks(tree.parent, tree.height)
    begin, rows, parent, place = elimination.fill(
        *_columns(pattern.n, tree.before, tree.after), first, tall
    )
    wide, m = np.diff(first), len(tall)
    below, block = tall - wide, np.repeat(np.arange(m), wide)
    own, row = (wide + 3) // 4, (wide + 3) // 4 + (below + 3) // 4
    panel = np.concatenate([[0], np.cumsum(wide * row)])
    spread = lambda b, k: np.where(
        k < wide[b], k, k - wide[b] + 4 * own[b]
    )  # where place k of a block stands in its rows
    b, of_rows = block[tree.before], np.repeat(np.arange(m), tall)
    k = np.searchsorted(of_rows * pattern.n + rows, b * pattern.n + tree.after) - begin[b]
    goal = 4 * (panel[b] + (tree.before - first[b]) * row[b]) + spread(b, k)
    left = below * (row - own)
    return Fronts(
        order=tree.order,
        first=first,
        begin=begin,
        rows=rows,
        parent=parent,
        place=spread(parent[of_rows], place),
        panel=panel,
        goal=goal,
        most=_most_waiting(parent, left),
        widest=int(left.max(initial=0)),
    )


def _most_waiting(parent: Array, left: Array) -> int:
    """The most that waits at a time, where each block takes what its children left and leaves its
    own."""
    taken = np.bincount(parent[parent >= 0], left[parent >= 0], minlength=len(parent))
    return int(np.cumsum(left - taken).max(initial=0.0))


def _by_fronts(pattern: Pattern, tree: Tree) -> Callable[[Array], Solve | None]:
    fronts = _fronts(pattern, tree)

    def factor(values: Array) -> Solve | None:
        L = factorise(fronts, values)
        return (
            None
            if L is None
            else lambda b: solve(
                fronts, L, np.ascontiguousarray(b if b.ndim == 2 else b[:, None])
            ).reshape(b.shape)
        )

    return factor


def _is_positive(factor: Any, n: int) -> bool:
    """Whether D of an L D L^T is positive; a factor of dense blocks is L L^T, and exists only
    then."""
    from cvxopt import cholmod, matrix

    ones = matrix(1.0, (n, 1))
    cholmod.solve(factor, ones, sys=6)
    inverse = np.asarray(ones)
    return bool(np.all((inverse > 0.0) & (inverse < np.inf)))


def _cholmod(pattern: Pattern, order: Array) -> Callable[[Array], Solve | None]:
    from cvxopt import cholmod, matrix, spmatrix

    rows, cols = pattern.places
    cholmod.options["supernodal"] = (
        # columns one by one where the factor is thin, else in dense blocks: CHOLMOD knows which is
        # quicker
        1
    )
    A, permuted = spmatrix(1.0, matrix(rows), matrix(cols), (pattern.n,) * 2), matrix(order)

    spare: deque[Any] = deque(
        maxlen=2
    )  # symbolic factors that no solve holds any more; a numeric one is written into its place
    lock = Lock()

    def factor(values: Array) -> Solve | None:
        if not np.isfinite(values).all():  # dense blocks do not stop at them
            return None
        with lock:
            A.V = matrix(
                values
            )  # in the pattern's own order; CHOLMOD copies it, so that one matrix serves all calls
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
