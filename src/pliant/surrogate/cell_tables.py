"""The cells of a Grid as plain arrays, so that compiled code can interpolate without Python."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pliant.core import Array, InputError
from pliant.surrogate.domain import within
from pliant.surrogate.grid import Grid
from pliant.surrogate.hermite import contract, contraction_plan
from pliant.surrogate.sample import SampleError

FOUND, MISSING, OUTSIDE = 0, 1, 2  # results of a compiled lookup
KEY_BITS = 62  # of all axes of a packed cell index
MAX_LOAD = 0.5  # filled share of the hash table, so that few slots are probed


class CellArrays(NamedTuple):
    """The known cells of a grid: a hash table of packed cell indices, and the table of each cell.
    A NamedTuple, because compiled code takes it as it is. Without keys the map is constant, and
    its value is tables[0, 0]."""

    origin: Array  # (d,)
    size: Array  # (d,)
    lower: Array  # (d,) of the domain
    upper: Array  # (d,)
    keys: Array  # (slots,) int64 packed index, or -1
    rows: Array  # (slots,) int64 row of `tables`
    tables: Array  # (capacity, 4^d, r)
    source: Array  # the contraction plan of value, slopes and second derivatives
    order: Array
    counts: Array


@njit(error_model="numpy", cache=True)
def pack_index(index: Any) -> Any:
    """Return the packed index of a cell (d,)."""
    bits = KEY_BITS // len(index)
    key = np.int64(0)
    for i in range(len(index)):
        key = (key << bits) | (np.int64(index[i]) + (np.int64(1) << (bits - 1)))
    return key


@njit(error_model="numpy", cache=True)
def find_row(key: Any, keys: Any, rows: Any) -> Any:
    """Return the row of a key in the hash table, or -1."""
    mask = len(keys) - 1
    slot = (key ^ (key >> 17) ^ (key >> 31)) & mask
    while keys[slot] != -1:
        if keys[slot] == key:
            return rows[slot]
        slot = (slot + 1) & mask
    return np.int64(-1)


@njit(error_model="numpy", cache=True)
def interpolate(x: Any, cells: Any, out: Any) -> Any:
    """Fill `out` (n, r) with value, slopes and second derivatives at x (d,). Return FOUND, MISSING
    if the cell of x is not known, or OUTSIDE of the domain."""
    d = len(x)
    if len(cells.keys) == 0:
        out[:] = 0.0
        out[0] = cells.tables[0, 0]
        return FOUND
    index, t = np.empty(d, np.int64), np.empty(d)
    for i in range(d):
        if not (cells.lower[i] <= x[i] <= cells.upper[i]):
            return OUTSIDE
        place = (x[i] - cells.origin[i]) / cells.size[i]
        index[i] = np.int64(np.floor(place))
        t[i] = place - index[i]
    row = find_row(pack_index(index), cells.keys, cells.rows)
    if row < 0:
        return MISSING
    out[:] = contract(cells.tables[row], t, cells.size, cells.source, cells.order, cells.counts)
    return FOUND


def constant_cells(value: Array, dim: int) -> CellArrays:
    """Return the cells of a map of `dim` numbers with a constant value (r,)."""
    none, bounds = np.zeros(0, np.int64), np.full(dim, np.inf)
    plan = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    table = np.array(value, float).reshape(1, 1, -1)
    return CellArrays(np.zeros(dim), np.ones(dim), -bounds, bounds, none, none, table, *plan)


class CellTables:
    """The cells of a grid that compiled code has used so far. `require` adds those of more
    points."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._keys, self._rows = np.full(64, -1, np.int64), np.zeros(64, np.int64)
        self._tables = np.zeros((0, 0, 0))
        self._indices: list[Array] = []
        self._arrays: dict[bool, CellArrays] = {}  # by whether they give second derivatives

    def arrays(self, *, second: bool = False) -> CellArrays:
        """Return the known cells, to interpolate values and slopes, with `second` also second
        derivatives. They are valid until the next call of `require`."""
        if second not in self._arrays:
            self._arrays[second] = self._make_arrays(second)
        return self._arrays[second]

    def _make_arrays(self, second: bool) -> CellArrays:
        tables = self._tables
        if not self._indices:
            tables = np.zeros((1, 4**self.grid.dim, 1))
        return CellArrays(
            self.grid.origin,
            self.grid.size,
            *self.grid.domain,
            self._keys,
            self._rows,
            tables,
            *contraction_plan(self.grid.dim, second),
        )

    def require(self, points: Array) -> None:
        """Add the cells of points (k, d), in the order of their indices, so that the order of the
        points does not matter. Raises SampleError if an exact value is missing."""
        inside = [x for x in points if np.all(within(x, self.grid.domain))]
        places = [np.floor((x - self.grid.origin) / self.grid.size) for x in inside]
        missing = {tuple(place.astype(np.int64).tolist()) for place in places}
        for cell in sorted(missing):
            index = np.array(cell, np.int64)
            if find_row(pack_index(index), self._keys, self._rows) < 0:
                self._add(index, self.grid.table(index))

    def _add(self, index: Array, table: Array) -> None:
        limit = 2 ** (KEY_BITS // self.grid.dim - 1)
        if np.abs(index).max() >= limit:
            raise SampleError(
                f"The cell {index} is too far from the origin of the grid. Use larger cells, or a "
                "smaller domain."
            )
        count = len(self._indices)
        if count and table.shape[1] != self._tables.shape[2]:
            raise InputError(
                "The map is compressed, so the number of its coefficients changes; compiled "
                "interpolation needs a surrogate without compression."
            )
        if count == len(self._tables):
            grown = np.zeros((max(16, 2 * count), *table.shape))
            if count:
                grown[:count] = self._tables
            self._tables = grown
        self._arrays.clear()
        self._tables[count] = table
        self._indices.append(index)
        if count + 1 > MAX_LOAD * len(self._keys):
            self._keys = np.full(2 * len(self._keys), -1, np.int64)
            self._rows = np.zeros(len(self._keys), np.int64)
            for row, known in enumerate(self._indices):
                _insert(pack_index(known), row, self._keys, self._rows)
        else:
            _insert(pack_index(index), count, self._keys, self._rows)


@njit(error_model="numpy", cache=True)
def _insert(key: Any, row: Any, keys: Any, rows: Any) -> Any:
    mask = len(keys) - 1
    slot = (key ^ (key >> 17) ^ (key >> 31)) & mask
    while keys[slot] != -1:
        slot = (slot + 1) & mask
    keys[slot], rows[slot] = key, row
