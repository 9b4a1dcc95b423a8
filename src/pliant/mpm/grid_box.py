"""The box of grid nodes around the particles in a step."""

import numpy as np

from pliant.core import Array, InputError
from pliant.mpm.grid import GridBox

MOST_CELLS = 2e8  # of a box; its masses and velocities then take 6 GB


def extent(values: Array, dim: int) -> Array:
    """Return the least and the largest value (2, dim) along each axis, for values (n * dim,)."""
    # numpy reduces a column much faster than the rows of a long, narrow array
    columns = [values[axis::dim] for axis in range(dim)]
    return np.array([[part.min() for part in columns], [part.max() for part in columns]])


def grid_box(around: Array, margin: Array | int, cell: float) -> GridBox:
    """Return the grid around particles with an extent (2, dim) [m], with a margin [cells] along
    each axis. Its corners are on every fourth node, so that it rarely changes. Raises InputError if
    it is too large."""
    index = np.floor(around / cell - 0.5)
    first = 4 * np.floor((index[0] - margin) / 4.0)
    last = 4 * np.ceil((index[1] + 3 + margin) / 4.0)
    if not np.all(np.abs(index) < 2**40):
        raise InputError(
            f"A particle is {np.abs(index).max() * cell:.3g} m from the origin, too far for cells "
            f"of {cell:g} m; move the body closer."
        )
    if np.prod(last - first) > MOST_CELLS:
        raise InputError(
            "The particles and their margin for a step cover "
            f"{np.prod(last - first):.3g} grid cells of {cell:g} m; the cell is far too small, the "
            "particles are too fast, or they are not one body."
        )
    o, n = first.astype(int).tolist(), (last - first).astype(int).tolist()
    return GridBox(*o, *n) if len(o) == 3 else GridBox(o[0], o[1], 0, n[0], n[1], 1)
