"""Sparse solves: two solvers, one answer."""

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
both = pytest.mark.parametrize("solver", SOLVERS)
thin_and_bulky = pytest.mark.parametrize(
    "n", [60, 400]
)  # CHOLMOD factorises the first by columns and the second in dense blocks


def spd(rng, n=60):
    """A random sparse symmetric positive definite matrix with a twentieth of its entries."""
    A = sp.random(n, n, 0.05, random_state=rng)
    return (A + A.T + sp.diags(np.asarray(abs(A + A.T).sum(axis=1)).ravel() + 0.1)).tocsc()


def lower(A):
    L = sp.tril(A, format="csc")
    L.sort_indices()
    return linalg.Pattern(indptr=L.indptr, indices=L.indices), L.data.copy()


def residual(A, x, b):
    """Backward error; a stable solver keeps it at a few eps whatever the condition."""
    return np.abs(A @ x - b).max() / (abs(A).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max())


@both
@thin_and_bulky
@pytest.mark.parametrize("sides", [(), (1,), (5,)])
def test_a_solve_solves(rng, solver, n, sides):
    A, b = spd(rng, n), rng.standard_normal((n, *sides))
    pattern, values = lower(A)
    kept = b.copy()
    x = linalg.analyse(pattern, solver).factor(values)(b)
    assert x.shape == b.shape
    assert residual(A, x, b) < 1e-15 * 20
    np.testing.assert_array_equal(b, kept)


@both
@thin_and_bulky
def test_one_analysis_serves_many_factors_that_live_side_by_side(rng, solver, n):
    A, b = spd(rng, n), rng.standard_normal(n)
    pattern, values = lower(A)
    analysis = linalg.analyse(pattern, solver)
    solves = [analysis.factor(scale * values) for scale in (1.0, 2.0, 4.0)]
    first = solves[0](b)
    for scale, solve in zip((1.0, 2.0, 4.0), solves, strict=True):
        np.testing.assert_allclose(
            solve(b), first / scale, rtol=1e-13, atol=1e-15 * np.abs(first).max()
        )
    del solves  # their place may be written into, by a factor that must not remember them
    np.testing.assert_array_equal(analysis.factor(values)(b), first)


@both
@thin_and_bulky
def test_an_indefinite_matrix_is_told_and_does_not_spoil_the_next(rng, solver, n):
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


@both
def test_an_exactly_singular_matrix_is_told(solver):
    pattern = linalg.Pattern(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1]))
    assert linalg.analyse(pattern, solver).factor(np.array([1.0, 1.0, 1.0])) is None


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
@pytest.mark.parametrize(("n", "blocks"), [(60, False), (400, True)])
def test_cholmod_takes_both_its_ways(rng, n, blocks):
    """So that the tests above look at both; only a factor of dense blocks tells its diagonal."""
    from cvxopt import cholmod, spmatrix

    pattern, values = lower(spd(rng, n))
    linalg.analyse(pattern, "cholmod")
    A = spmatrix(values, pattern.indices, np.repeat(np.arange(n), np.diff(pattern.indptr)), (n, n))
    F = cholmod.symbolic(A)
    cholmod.numeric(A, F)
    if blocks:
        assert len(cholmod.diag(F)) == n
    else:
        with pytest.raises(ValueError, match="F must be a nonsingular supernodal Cholesky factor"):
            cholmod.diag(F)


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
def test_the_solvers_agree_to_round_off(rng):
    A, b = spd(rng), rng.standard_normal(60)
    pattern, values = lower(A)
    one, two = (
        linalg.analyse(pattern, solver).factor(values)(b) for solver in ("multifrontal", "cholmod")
    )
    np.testing.assert_allclose(
        one,
        two,
        rtol=0,
        atol=10 * np.finfo(float).eps * np.linalg.cond(A.toarray()) * np.abs(one).max(),
    )


@both
def test_a_low_rank_update_is_the_dense_one(rng, solver):
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


def test_shares_can_make_an_indefinite_matrix_positive(rng):
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
    )  # held in another direction only


def test_no_columns_leave_the_solve_as_it_is():
    solve = lambda b: b
    assert linalg.low_rank_update(solve, np.zeros((4, 0)), np.zeros(0)) is solve


def test_without_cvxopt_fronts_serve_and_cholmod_names_the_command(rng, monkeypatch):
    A, b = spd(rng, 400), rng.standard_normal(400)
    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    pattern, values = lower(A)
    assert linalg.available_solvers() == ("multifrontal",)
    found = linalg.analyse(pattern)
    assert found.name == "multifrontal"
    assert residual(A, found.factor(values)(b), b) < 1e-14  # with the order of another library
    with pytest.raises(
        MissingExtra, match=r"'cholmod' is not installed.*pip install 'pliant\[fast\]'"
    ):
        linalg.analyse(pattern, "cholmod")


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
@pytest.mark.parametrize(("n", "name"), [(60, "multifrontal"), (900, "cholmod")])
def test_with_cvxopt_bulky_matrices_are_for_cholmod(rng, n, name):
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
    ids=["one", "diagonal", "chain", "parts", "dense"],
)
def test_matrices_of_any_shape_are_factorised_by_fronts(rng, A):
    A, b = sp.csc_matrix(A), rng.standard_normal((A.shape[0], 9))
    pattern, values = lower(A)
    np.testing.assert_allclose(
        linalg.analyse(pattern, "multifrontal").factor(values)(b),
        np.linalg.solve(A.toarray(), b),
        rtol=1e-12,
        atol=1e-13,
    )


@both
def test_nothing_to_solve_for_is_solved(solver):
    """A robot that is held everywhere."""
    solve = linalg.analyse(
        linalg.Pattern(indptr=np.array([0]), indices=np.zeros(0, int)), solver
    ).factor(np.zeros(0))
    assert [solve(np.zeros(shape)).shape for shape in ((0,), (0, 3))] == [(0,), (0, 3)]


@both
@thin_and_bulky
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_told(rng, solver, n, bad):
    pattern, values = lower(spd(rng, n))
    values[len(values) // 2] = bad
    assert linalg.analyse(pattern, solver).factor(values) is None


def test_the_fill_is_that_of_a_dense_factor_of_the_same_order(rng):
    """The blocks hold every number of the factor that is not zero, and where blocks were joined
    some that are."""
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


@both
@thin_and_bulky
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
