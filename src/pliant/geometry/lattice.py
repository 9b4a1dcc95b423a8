"""Lattices of cubes divided into simplices, for structured meshes."""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import factorial, prod

import numpy as np

from pliant.core import Array, InputError, MeshError, quoted, require_positive
from pliant.geometry.cells import add_midside_nodes, boundary_facets
from pliant.geometry.mesh import Mesh
from pliant.geometry.quality import LARGE_SIZE, scale_warnings

MAX_CELLS = 2_000_000


def kuhn_lattice(
    counts: Sequence[int], flips: Sequence[Array] | None = None
) -> tuple[Array, Array]:
    """Return lattice points (n_points, dim) int and simplices of a grid of `counts` cubes.

    Each cube has dim! simplices, stored cube by cube. Kuhn's subdivision follows the diagonal from
    the lowest corner of a cube to the highest; `flips[axis][i]` mirrors slab i. Slabs may be
    mirrored freely, because a shared face depends on the other axes only. By default every second
    slab is mirrored, so the mesh is symmetric about the middle for even counts.
    """
    dim = len(counts)
    check_count(factorial(dim) * prod(int(n) for n in counts))
    flips = [np.arange(n) % 2 for n in counts] if flips is None else flips
    cubes = grid_points(counts)
    mirror = np.stack([np.asarray(flip)[cubes[:, axis]] for axis, flip in enumerate(flips)], axis=1)
    stride = np.append(np.cumprod((np.asarray(counts) + 1)[::-1])[-2::-1], 1)
    cells = []
    for axes in permutations(range(dim)):
        path = np.array(
            [[axes.index(axis) < step for axis in range(dim)] for step in range(dim + 1)],
            dtype=np.int64,
        )
        simplex = (cubes[:, None] + (path[None] ^ mirror[:, None])) @ stride
        odd = (round(np.linalg.det(np.eye(dim)[list(axes)])) < 0) ^ (mirror.sum(axis=1) % 2 == 1)
        simplex[odd] = simplex[odd][:, [*range(dim - 1), dim, dim - 1]]
        cells.append(simplex)
    return grid_points(np.asarray(counts) + 1), np.stack(cells, axis=1).reshape(-1, dim + 1)


def grid_points(counts: Sequence[int] | Array) -> Array:
    """Return all integer points (product of counts, dim) of a grid; the last axis varies
    fastest."""
    return np.indices(tuple(int(n) for n in counts)).reshape(len(counts), -1).T


def flips_towards_centre(n: int) -> Array:
    """Return flips that orient every diagonal towards the middle slab, for round shapes."""
    return (np.arange(n) < n // 2).astype(np.int64)


def check_count(n_cells: float, extent: Sequence[float] | Array = ()) -> None:
    """Raise `MeshError` if a mesh would have too many cells.

    The message suggests another unit if the `extent` [m] of the body along each axis is given and
    large.
    """
    if n_cells > MAX_CELLS:
        size = float(np.linalg.norm(extent)) if len(extent) else 0.0
        remedy = "Choose a larger cell."
        if size > LARGE_SIZE:
            remedy = scale_warnings(size)[0]
        elif size > 1.0:
            remedy = (
                f"The body is {size:.3g} m large: choose a larger cell, or scale = 0.001 if that "
                "is in millimetres."
            )
        raise MeshError(
            f"This mesh would have about {n_cells:.3g} cells, over the limit of {MAX_CELLS}. "
            f"{remedy}"
        )


def cells_along(size: Sequence[float] | Array, cell: float) -> tuple[int, ...]:
    """Return how many cubes of about `cell` [m] fit along each side. Raises `MeshError` for too
    many cells."""
    with np.errstate(over="ignore"):  # an infinite count is an error like any too large one
        wanted = np.maximum(1.0, np.round(np.asarray(size) / cell))
        check_count(factorial(len(size)) * float(np.prod(wanted)), size)
    return tuple(int(n) for n in wanted)


def validate_cell_size(cell: float | None, default: float) -> float:
    return require_positive("The cell size", default if cell is None else cell, "m")


def validate_divisions(
    divisions: Sequence[int] | int, n: int, least: Sequence[int]
) -> tuple[int, ...]:
    """Return `divisions` as n whole numbers, each at least its lower limit. Raises `InputError`
    otherwise."""
    values = np.atleast_1d(np.asarray(divisions))
    if (
        values.shape != (n,)
        or not np.issubdtype(values.dtype, np.integer)
        or (values < least).any()
    ):
        raise InputError(
            f"The divisions are {quoted(divisions)}; this shape takes {n} whole numbers, at least "
            f"{tuple(least)}."
        )
    counts = tuple(int(v) for v in values)
    check_divisions(counts)
    return counts


def check_divisions(divisions: Sequence[int]) -> None:
    """Raise `MeshError` if a lattice with these divisions has too many cells."""
    n_cells = factorial(len(divisions)) * prod(divisions)
    if n_cells > MAX_CELLS:
        raise MeshError(
            f"The divisions {quoted(list(divisions))} make about {n_cells:.3g} cells, over the "
            f"limit of {MAX_CELLS}. Choose fewer divisions."
        )


def check_order(order: int) -> None:
    if order not in (1, 2):
        raise InputError(
            f"The order is {order}; cells have order 1 (corners) or 2 (corners and middles of "
            "edges)."
        )


def mesh_from_map(
    parameters: Array,
    cells: Array,
    chart: Callable[[Array], Array],
    order: int,
    sides: Mapping[str, Array],
) -> Mesh:
    """Return a mesh of `cells` with points chart(parameters).

    Midside nodes of order 2 are mapped too, so that they follow a curved side. `sides` maps the
    name of a surface to the mask of its corner nodes.
    """
    check_order(order)
    facets = boundary_facets(cells)
    surfaces = {name: facets[mask[facets].all(axis=1)] for name, mask in sides.items()}
    if order == 2:
        parameters, cells = add_midside_nodes(parameters, cells)
    return Mesh(
        points=chart(parameters),
        cells=cells,
        regions={"body": np.arange(len(cells))},
        surfaces=surfaces,
    )


def box_side_masks(lattice: Array, counts: Sequence[int]) -> dict[str, Array]:
    """Return masks "x-", "x+", "y-"... of the lattice points on each side of the grid."""
    sides = {}
    for axis, (letter, n) in enumerate(zip("xyz", counts, strict=False)):
        sides[f"{letter}-"] = lattice[:, axis] == 0
        sides[f"{letter}+"] = lattice[:, axis] == n
    return sides
