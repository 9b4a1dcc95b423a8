"""Sparse symmetric positive definite solves: the pattern is analysed once, the numbers are factorised as often as needed.

CHOLMOD (extra `fast`) where cvxopt is installed, SciPy's SuperLU in symmetric mode otherwise; both say whether the matrix was
positive definite. A factorisation may be asked for from several threads.
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

Solve = Callable[[Array], Array]  # (n,) or (n, k) right sides -> solutions


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern:
    """The lower triangle of a symmetric matrix in compressed columns, rows ascending, diagonal always there."""

    indptr: Array  # (n + 1,)
    indices: Array  # (nnz,)

    @property
    def n(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """A pattern with its fill-reducing order; `factor(values)` gives a solve, or None where not positive definite."""

    pattern: Pattern
    factor: Callable[[Array], Solve | None]
    name: str


def available() -> tuple[str, ...]:
    """The solvers on this machine, the preferred first."""
    return ("cholmod", "superlu") if find_spec("cvxopt") else ("superlu",)


def analyse(pattern: Pattern, solver: str | None = None) -> Analysis:
    """Order a pattern once for many factorisations; `solver` is "cholmod", "superlu" or None for the preferred one."""
    solver = solver or available()[0]
    if solver not in available():
        raise MissingExtra(f"The sparse solver '{solver}' is not installed here (there is {', '.join(available())}). "
                           "For CHOLMOD: pip install 'pliant[fast]'.")  # fmt: skip
    factor = _cholmod(pattern) if solver == "cholmod" else _superlu(pattern)
    return Analysis(pattern=pattern, factor=factor, name=solver)


def low_rank(solve: Solve, columns: Array, weights: Array) -> Solve:
    """The solve of A + sum_i weights[i] h_i h_i^T from a solve of A (Woodbury); columns (n, k) holds the h_i."""
    if columns.shape[1] == 0:
        return solve
    Z = solve(columns)
    small = scipy.linalg.lu_factor(np.diag(1.0 / weights) + columns.T @ Z)

    def solve_updated(b: Array) -> Array:
        y = solve(b)
        return y - Z @ scipy.linalg.lu_solve(small, columns.T @ y)

    return solve_updated


def factor_with(pattern: Pattern, values: Array, columns: Array, weights: Array) -> Solve | None:
    """The solve of A + sum_i weights[i] h_i h_i^T with the shares filled in; slow, for a matrix that only they make positive."""
    lower = sp.csc_matrix((values, pattern.indices, pattern.indptr), shape=(pattern.n,) * 2)
    H = sp.csc_matrix(columns)
    full = sp.tril(lower + H @ sp.diags(weights) @ H.T, format="csc")
    full.sort_indices()
    return analyse(Pattern(indptr=full.indptr, indices=full.indices), "superlu").factor(full.data)


def _superlu(pattern: Pattern) -> Callable[[Array], Solve | None]:
    n, rows, cols = pattern.n, pattern.indices, np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))
    order = _superlu_order(pattern)
    new = np.empty(n, np.int64)
    new[order] = np.arange(n)
    off = np.flatnonzero(rows != cols)
    source = np.concatenate([np.arange(len(rows)), off])
    i, j = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
    keys = np.lexsort((new[i], new[j]))
    source, i, j = source[keys], new[i][keys], new[j][keys]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(j, minlength=n))])
    options = {"SymmetricMode": True, "Equil": False}

    def factor(values: Array) -> Solve | None:
        A = sp.csc_matrix((values[source], i, indptr), shape=(n, n))
        try:
            lu = spla.splu(A, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
        except RuntimeError:  # "Factor is exactly singular"
            return None
        if not (np.array_equal(lu.perm_r, lu.perm_c) and np.all(lu.U.diagonal() > 0.0)):
            return None

        def solve(b: Array) -> Array:
            x = np.empty_like(b)
            x[order] = lu.solve(np.ascontiguousarray(b[order]))
            return x

        return solve

    return factor


def _superlu_order(pattern: Pattern) -> Array:
    """A minimum-degree order of A + A^T, from one factorisation of a diagonally dominant matrix of the same pattern."""
    lower = sp.csc_matrix((np.full(len(pattern.indices), -1.0), pattern.indices, pattern.indptr), shape=(pattern.n,) * 2)
    A = lower + lower.T
    A = A + sp.diags(1.0 - 2.0 * np.asarray(A.sum(axis=1)).ravel())
    lu = spla.splu(A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return np.argsort(lu.perm_c)


def _is_positive(factor: Any, n: int) -> bool:
    """Whether D of an L D L^T is positive; a factor of dense blocks is L L^T, and exists only then."""
    from cvxopt import cholmod, matrix

    ones = matrix(1.0, (n, 1))
    cholmod.solve(factor, ones, sys=6)
    inverse = np.asarray(ones)
    return bool(np.all((inverse > 0.0) & (inverse < np.inf)))


def _cholmod(pattern: Pattern) -> Callable[[Array], Solve | None]:
    from cvxopt import amd, cholmod, matrix, spmatrix

    cols = np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))
    cholmod.options["supernodal"] = 1  # columns one by one where the factor is thin, else in dense blocks: CHOLMOD knows which is quicker
    A = spmatrix(1.0, matrix(pattern.indices.astype(np.int64)), matrix(cols.astype(np.int64)), (pattern.n,) * 2)
    order = amd.order(A)

    spare: deque[Any] = deque(maxlen=2)  # symbolic factors that no solve holds any more; a numeric one is written into its place
    lock = Lock()

    def factor(values: Array) -> Solve | None:
        with lock:
            A.V = matrix(values)  # in the pattern's own order; CHOLMOD copies it, so that one matrix serves all calls
            F = spare.pop() if spare else cholmod.symbolic(A, p=order)
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
