"""Both sparse Cholesky solvers give the same solution."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from pliant import linalg
from pliant.core import MissingExtra
from pliant.kernels import elimination

SOLVERS = [
    "multifrontal",
    pytest.param(
        "cholmod",
        marks=pytest.mark.skipif(
            "cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed"
        ),
    ),
]
both_solvers = pytest.mark.parametrize("solver", SOLVERS)
small_and_large = pytest.mark.parametrize(
    "n", [60, 400]
)  # CHOLMOD uses a simplicial factor for the first and a supernodal one for the second


def spd(rng, n=60):
    """Return a random sparse symmetric positive definite matrix. About 10 % of its entries are
    nonzero."""
    A = sp.random(n, n, 0.05, random_state=rng)
    return (A + A.T + sp.diags(np.asarray(abs(A + A.T).sum(axis=1)).ravel() + 0.1)).tocsc()


def lower(A):
    L = sp.tril(A, format="csc")
    L.sort_indices()
    return linalg.Pattern(indptr=L.indptr, indices=L.indices), L.data.copy()


def residual(A, x, b):
    """Return the backward error. For a stable solver it is a few eps for any condition number."""
    return np.abs(A @ x - b).max() / (abs(A).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max())


@both_solvers
@small_and_large
@pytest.mark.parametrize("columns", [(), (1,), (5,)])
def test_solution_has_small_backward_error(rng, solver, n, columns):
    A, b = spd(rng, n), rng.standard_normal((n, *columns))
    pattern, values = lower(A)
    kept = b.copy()
    x = linalg.analyse(pattern, solver).factor(values)(b)
    assert x.shape == b.shape
    assert residual(A, x, b) < 1e-15 * 20
    np.testing.assert_array_equal(b, kept)


@both_solvers
@small_and_large
def test_one_analysis_serves_several_factors_at_once(rng, solver, n):
    A, b = spd(rng, n), rng.standard_normal(n)
    pattern, values = lower(A)
    analysis = linalg.analyse(pattern, solver)
    solves = [analysis.factor(scale * values) for scale in (1.0, 2.0, 4.0)]
    first = solves[0](b)
    for scale, solve in zip((1.0, 2.0, 4.0), solves, strict=True):
        np.testing.assert_allclose(
            solve(b), first / scale, rtol=1e-13, atol=1e-15 * np.abs(first).max()
        )
    del solves  # the next factor may reuse their memory and must not depend on its content
    np.testing.assert_array_equal(analysis.factor(values)(b), first)


@both_solvers
@small_and_large
def test_indefinite_matrix_gives_no_factor_and_does_not_affect_the_next(rng, solver, n):
    A, b = spd(rng, n), rng.standard_normal(n)
    pattern, values = lower(A)
    analysis = linalg.analyse(pattern, solver)
    eigenvalues = np.linalg.eigvalsh(A.toarray())
    shift = lambda s: lower((A - s * sp.identity(n)).tocsc())[1]
    assert (
        analysis.factor(shift(0.5 * (eigenvalues[0] + eigenvalues[1]))) is None
    )  # one negative eigenvalue
    assert analysis.factor(-values) is None
    assert analysis.factor(shift(0.9 * eigenvalues[0])) is not None
    assert residual(A, analysis.factor(values)(b), b) < 1e-14


@both_solvers
def test_singular_matrix_gives_no_factor(solver):
    pattern = linalg.Pattern(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1]))
    assert linalg.analyse(pattern, solver).factor(np.array([1.0, 1.0, 1.0])) is None


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
@pytest.mark.parametrize(("n", "supernodal"), [(60, False), (400, True)])
def test_cholmod_uses_simplicial_and_supernodal_factors(rng, n, supernodal):
    """The tests above cover both kinds of factor. Only a supernodal factor returns its diagonal."""
    from cvxopt import cholmod, spmatrix

    pattern, values = lower(spd(rng, n))
    linalg.analyse(pattern, "cholmod")
    A = spmatrix(values, pattern.indices, np.repeat(np.arange(n), np.diff(pattern.indptr)), (n, n))
    F = cholmod.symbolic(A)
    cholmod.numeric(A, F)
    if supernodal:
        assert len(cholmod.diag(F)) == n
    else:
        with pytest.raises(ValueError, match="F must be a nonsingular supernodal Cholesky factor"):
            cholmod.diag(F)


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
def test_solvers_agree_to_round_off(rng):
    A, b = spd(rng), rng.standard_normal(60)
    pattern, values = lower(A)
    x_multifrontal, x_cholmod = (
        linalg.analyse(pattern, solver).factor(values)(b) for solver in ("multifrontal", "cholmod")
    )
    np.testing.assert_allclose(
        x_multifrontal,
        x_cholmod,
        rtol=0,
        atol=10 * np.finfo(float).eps * np.linalg.cond(A.toarray()) * np.abs(x_multifrontal).max(),
    )


@both_solvers
def test_low_rank_update_equals_dense_solution(rng, solver):
    A, H, w, b = (
        spd(rng),
        rng.standard_normal((60, 3)),
        np.array([0.5, 2.0, 1e3]),
        rng.standard_normal((60, 2)),
    )
    pattern, values = lower(A)
    solve = linalg.low_rank_update(linalg.analyse(pattern, solver).factor(values), H, w)
    full = A.toarray() + H @ np.diag(w) @ H.T
    np.testing.assert_allclose(
        solve(b), np.linalg.solve(full, b), atol=1e-15 * np.linalg.cond(full)
    )


def test_update_can_make_an_indefinite_matrix_positive_definite(rng):
    A, b = spd(rng), rng.standard_normal((60, 2))
    values, vectors = np.linalg.eigh(A.toarray())
    bad = (
        A - 0.5 * (values[0] + values[1]) * sp.identity(60)
    ).tocsc()  # one negative eigenvalue, along vectors[:, 0]
    pattern, entries = lower(bad)
    full = bad.toarray() + 10.0 * values[1] * np.outer(vectors[:, 0], vectors[:, 0])
    solve = linalg.factor_with_update(
        pattern, entries, vectors[:, :1], np.array([10.0 * values[1]])
    )
    np.testing.assert_allclose(
        solve(b), np.linalg.solve(full, b), atol=1e-14 * np.linalg.cond(full)
    )
    assert (
        linalg.factor_with_update(pattern, entries, vectors[:, 1:2], np.array([1.0])) is None
    )  # the update stiffens another direction only


def test_update_without_columns_returns_the_same_solver():
    solve = lambda b: b
    assert linalg.low_rank_update(solve, np.zeros((4, 0)), np.zeros(0)) is solve


def test_without_cvxopt_multifrontal_is_used_and_cholmod_names_install_command(rng, monkeypatch):
    A, b = spd(rng, 400), rng.standard_normal(400)
    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    pattern, values = lower(A)
    assert linalg.available_solvers() == ("multifrontal",)
    found = linalg.analyse(pattern)
    assert found.name == "multifrontal"
    assert residual(A, found.factor(values)(b), b) < 1e-14  # with the elimination order of SuperLU
    with pytest.raises(
        MissingExtra, match=r"'cholmod' is not installed.*pip install 'pliant\[fast\]'"
    ):
        linalg.analyse(pattern, "cholmod")


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
@pytest.mark.parametrize(("n", "name"), [(60, "multifrontal"), (900, "cholmod")])
def test_cholmod_is_chosen_for_large_matrices(rng, n, name):
    assert linalg.analyse(lower(spd(rng, n))[0]).name == name


@pytest.mark.parametrize(
    "A",
    [
        sp.identity(1),
        sp.identity(7),
        sp.diags([np.ones(8), np.full(9, 3.0), np.ones(8)], [-1, 0, 1]),
        sp.block_diag([np.full((5, 5), 1.0) + 5.0 * np.eye(5)] * 3),
        np.ones((30, 30)) + 30.0 * np.eye(30),
    ],
    ids=["one entry", "diagonal", "tridiagonal", "block diagonal", "dense"],
)
def test_multifrontal_factorises_every_sparsity_pattern(rng, A):
    A, b = sp.csc_matrix(A), rng.standard_normal((A.shape[0], 9))
    pattern, values = lower(A)
    np.testing.assert_allclose(
        linalg.analyse(pattern, "multifrontal").factor(values)(b),
        np.linalg.solve(A.toarray(), b),
        rtol=1e-12,
        atol=1e-13,
    )


@both_solvers
def test_empty_system_is_solved(solver):
    """A robot whose nodes are all fixed has no unknowns."""
    solve = linalg.analyse(
        linalg.Pattern(indptr=np.array([0]), indices=np.zeros(0, int)), solver
    ).factor(np.zeros(0))
    assert [solve(np.zeros(shape)).shape for shape in ((0,), (0, 3))] == [(0,), (0, 3)]


@both_solvers
@small_and_large
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_or_infinite_entry_gives_no_factor(rng, solver, n, bad):
    pattern, values = lower(spd(rng, n))
    values[len(values) // 2] = bad
    assert linalg.analyse(pattern, solver).factor(values) is None


def test_fill_equals_that_of_dense_factor_of_same_order(rng):
    """The fronts hold every nonzero of the factor. Merged fronts also hold some zeros."""
    pattern, values = lower(spd(rng, 200))
    tree = linalg._elimination_tree(pattern, linalg._minimum_degree(pattern))
    A = np.zeros((200, 200))
    A[tree.row_index, tree.column] = A[tree.column, tree.row_index] = np.abs(values)
    L = np.linalg.cholesky(A + np.diag(A.sum(axis=0)))
    np.testing.assert_array_equal(tree.column_counts, (L != 0.0).sum(axis=0))
    assert linalg.analyse(pattern, "multifrontal").n_entries == (L != 0.0).sum()
    fronts = linalg._frontal_layout(pattern, tree)
    for b, (first, last) in enumerate(pairwise(fronts.first_column)):
        for j in range(first, last):
            assert set(np.flatnonzero(L[:, j])) <= set(
                fronts.rows[fronts.row_start[b] : fronts.row_start[b + 1]]
            )
    wide, tall = np.diff(fronts.first_column), np.diff(fronts.row_start)
    zeros = [
        w * t - w * (w - 1) // 2 - tree.column_counts[j : j + w].sum()
        for w, t, j in zip(wide, tall, fronts.first_column, strict=False)
    ]
    assert max(zeros) > 0
    assert np.all(zeros <= elimination.MAX_ZERO_FRACTION * wide * tall)


@both_solvers
@small_and_large
def test_one_analysis_serves_several_threads(rng, solver, n):
    pattern, values = lower(spd(rng, n))
    analysis, b = linalg.analyse(pattern, solver), rng.standard_normal(n)
    alone = analysis.factor(values)(b)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda scale: scale * analysis.factor(scale * values)(b),
            np.tile([1.0, 2.0, 4.0, 8.0], 10),
        )
        for x in found:
            np.testing.assert_allclose(x, alone, rtol=0.0, atol=1e-12 * np.abs(alone).max())
