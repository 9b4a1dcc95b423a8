"""Cells of a grid as arrays: the compiled interpolation equals that of the grid, bit for bit."""

import numpy as np
import pytest

from pliant.surrogate import Corners, Grid, SampleError
from pliant.surrogate.cell_tables import (
    FOUND,
    MISSING,
    OUTSIDE,
    CellTables,
    constant_cells,
    interpolate,
)


def wave(x, near):
    value = np.array([np.sin(x[0] + 2.0 * x[1]), np.cos(x[0]) * x[1]])
    slope = np.array(
        [
            [np.cos(x[0] + 2.0 * x[1]), 2.0 * np.cos(x[0] + 2.0 * x[1])],
            [-np.sin(x[0]) * x[1], np.cos(x[0])],
        ]
    )
    return value, slope


def grid(f=wave):
    return Grid(Corners(f, dim=2), cell=0.25, domain=((-3.0, -3.0), (3.0, 3.0)))


@pytest.mark.parametrize("second", [False, True])
def test_compiled_interpolation_equals_the_grid_for_many_cells(second):
    lattice, points = grid(), np.random.default_rng(0).uniform(-2.9, 2.9, (300, 2))
    tables = CellTables(lattice)
    tables.require(points)
    cells, out = tables.arrays(second=second), np.zeros((6 if second else 3, 2))
    for x in points:
        assert interpolate(x, cells, out) == FOUND
        assert np.array_equal(out, lattice.rows(x, second))


def test_unknown_cells_and_points_outside_are_reported():
    tables = CellTables(grid())
    out = np.zeros((3, 2))
    assert interpolate(np.array([0.1, 0.1]), tables.arrays(), out) == MISSING
    tables.require(np.array([[0.1, 0.1]]))
    assert interpolate(np.array([0.1, 0.1]), tables.arrays(), out) == FOUND
    assert interpolate(np.array([1.1, 0.1]), tables.arrays(), out) == MISSING
    assert interpolate(np.array([0.1, 3.1]), tables.arrays(), out) == OUTSIDE
    assert interpolate(np.array([0.1, np.nan]), tables.arrays(), out) == OUTSIDE


def test_constant_map_has_no_slope():
    out = np.ones((3, 2))
    assert interpolate(np.array([7.0, 1e6]), constant_cells(np.array([4.0, 5.0]), 2), out) == FOUND
    assert out.tolist() == [[4.0, 5.0], [0.0, 0.0], [0.0, 0.0]]


def test_missing_exact_values_raise_sample_errors():
    def broken(x, near):
        raise ValueError("no value")

    tables = CellTables(grid(broken))
    with pytest.raises(SampleError, match="no value"):
        tables.require(np.array([[0.1, 0.1]]))
