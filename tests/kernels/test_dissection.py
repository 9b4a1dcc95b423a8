"""Nested dissection: a permutation with little fill, for any graph with positions."""

from itertools import product

import numpy as np
import pytest

from pliant import linalg
from pliant.kernels.dissection import nested_dissection


def _lattice(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n^3, 3) of a cube and the edges (k, 2) of its cells, six tetrahedra each."""
    points = np.stack(np.meshgrid(*[np.arange(float(n))] * 3, indexing="ij"), -1).reshape(-1, 3)
    number, edges = np.arange(n**3).reshape(n, n, n), []
    for step in list(product((0, 1), repeat=3))[1:]:
        near = number[tuple(slice(n - k) for k in step)]
        far = number[tuple(slice(k, n) for k in step)]
        edges.append(np.stack([far.ravel(), near.ravel()], axis=1))
    return points, np.concatenate(edges)


def _pattern(n: int, edges: np.ndarray) -> linalg.Pattern:
    rows = np.concatenate([edges.max(axis=1), np.arange(n)])
    cols = np.concatenate([edges.min(axis=1), np.arange(n)])
    order = np.lexsort((rows, cols))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(cols, minlength=n))])
    return linalg.Pattern(indptr=indptr, indices=rows[order])


def _operations(pattern: linalg.Pattern, order: np.ndarray) -> float:
    return float(np.sum(linalg._elimination_tree(pattern, order).column_counts ** 2.0))


@pytest.mark.parametrize(
    ("points", "edges"),
    [
        (np.zeros((0, 3)), np.zeros((0, 2), int)),
        (np.zeros((1, 2)), np.zeros((0, 2), int)),
        (np.zeros((30, 3)), np.stack(np.triu_indices(30, 1), 1)),
        (np.zeros((30, 3)), np.zeros((0, 2), int)),
        (np.arange(100.0)[:, None], np.stack([np.arange(99), np.arange(1, 100)], 1)),
        _lattice(6),
    ],
    ids=[
        "no vertices",
        "one vertex",
        "clique at a point",
        "isolated vertices at a point",
        "chain",
        "lattice",
    ],
)
def test_every_vertex_is_eliminated_once(points, edges):
    order = nested_dissection(points, edges)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(points)))


def test_operations_of_a_cube_grow_with_the_square_of_its_vertices():
    """Check George's bound, which minimum degree exceeds."""
    sizes = (8, 16)
    cost = {"dissection": [], "minimum degree": []}
    for n in sizes:
        points, edges = _lattice(n)
        pattern = _pattern(n**3, edges)
        cost["dissection"].append(_operations(pattern, nested_dissection(points, edges)))
        cost["minimum degree"].append(_operations(pattern, linalg._minimum_degree(pattern)))
    exponent = {
        name: np.log(large / small) / np.log((sizes[1] / sizes[0]) ** 3)
        for name, (small, large) in cost.items()
    }
    assert exponent["dissection"] < 2.2 < exponent["minimum degree"]
    assert cost["dissection"][1] < 0.7 * cost["minimum degree"][1]


@pytest.mark.parametrize("solver", linalg.available_solvers())
def test_large_block_is_ordered_by_dissection_and_solved(rng, solver):
    points, edges = _lattice(14)
    pattern = _pattern(len(points), edges)
    plain, dissected = (linalg.analyse(pattern, solver, at) for at in (None, points))
    assert dissected.n_entries < 0.9 * plain.n_entries
    rows, cols = pattern.coordinates
    values, b = np.where(rows == cols, 15.0, -1.0), rng.standard_normal(len(points))
    np.testing.assert_allclose(
        dissected.factor(values)(b), plain.factor(values)(b), rtol=0.0, atol=1e-12
    )


def test_slender_body_is_ordered_by_minimum_degree():
    points, edges = np.arange(100.0)[:, None], np.stack([np.arange(99), np.arange(1, 100)], 1)
    pattern = _pattern(100, edges)
    np.testing.assert_array_equal(
        linalg._cheapest_tree(pattern, points).order, linalg._cheapest_tree(pattern, None).order
    )
