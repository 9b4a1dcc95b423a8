"""Checks of mesh arrays. Each raises `MeshError` with the number, the location and the remedy."""

from collections.abc import Mapping

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import MAX_COORDINATE, Array, MeshError, counted, counted_of, quoted
from pliant.geometry.cells import (
    DIMENSION,
    QUADRATURE_RULES,
    cell_facets,
    determinants,
    group_rows,
    jacobians,
    match_facets,
    signed_volumes,
)

MIN_SIZE = 1e-9  # [m] of the bounding box; a smaller body has wrong units
MIN_RELATIVE_VOLUME = 1e-9  # volume over longest edge^dim; flatter cells are degenerate


def validate_arrays(points: Array, cells: Array) -> tuple[Array, Array]:
    """Return both as contiguous, finite, read-only arrays of consistent shape."""
    try:
        points, cells = np.asarray(points, dtype=float), np.asarray(cells)
    except (TypeError, ValueError, OverflowError):  # text, ragged lists, complex numbers
        raise MeshError(
            f"The points are {quoted(points)}..., not a table of numbers; pass (n_points, 2) "
            "or (n_points, 3) [m]."
        ) from None
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise MeshError(
            f"The points have shape {points.shape}; pass an array of shape (n_points, 2) or "
            "(n_points, 3)."
        )
    if cells.ndim != 2 or len(cells) == 0 or len(points) == 0:
        raise MeshError(
            f"The mesh is empty: {counted(len(points), 'point')} and cells of shape {cells.shape}. "
            "Pass at least one cell."
        )
    if DIMENSION.get(cells.shape[1]) != points.shape[1]:
        raise MeshError(
            f"Cells of {cells.shape[1]} nodes do not fit points in {points.shape[1]}D; "
            "use 3 or 6 nodes in 2D and 4 or 10 nodes in 3D."
        )
    if not np.issubdtype(cells.dtype, np.integer):
        raise MeshError(f"The cells have type {cells.dtype}; pass integer point indices.")
    points = read_only(points, np.float64)
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(points), 'point', ('is', 'are'))} not finite (first: point "
            f"{bad[0]}, {points[bad[0]]}). Replace or drop them."
        )
    check_extent("The mesh", points)
    return points, read_only(cells, np.int64)


def check_extent(name: str, points: Array) -> None:
    """Raise `MeshError` if points (n, dim) [m] extend too far, or span less than any robot.

    Points that all coincide are reported elsewhere.
    """
    reach = np.abs(points).max()
    if reach > MAX_COORDINATE:
        raise MeshError(
            f"{name} reaches {reach:g} m, over the limit of {MAX_COORDINATE:g} m. Check the units."
        )
    size = np.ptp(points, axis=0).max()
    if 0.0 < size < MIN_SIZE:
        raise MeshError(
            f"{name} is {size:g} m large, below the limit of {MIN_SIZE:g} m. Check the "
            "units and the scale."
        )


def read_only(array: Array, dtype: type) -> Array:
    """Return a read-only contiguous copy."""
    array = np.array(array, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def check_topology(points: Array, cells: Array) -> None:
    """Raise `MeshError` unless each cell has different, existing points and each point has a
    cell."""
    n = len(points)
    bad = np.flatnonzero(((cells < 0) | (cells >= n)).any(axis=1))
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(cells), 'cell', ('names', 'name'))} points outside "
            f"0..{n - 1} (first: cell {bad[0]}, {cells[bad[0]].tolist()}). Count points from 0."
        )
    bad = np.flatnonzero((np.diff(np.sort(cells, axis=1), axis=1) == 0).any(axis=1))
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(cells), 'cell', ('names', 'name'))} a point twice (first: "
            f"cell {bad[0]}, {cells[bad[0]].tolist()}). Drop those cells."
        )
    loose = np.flatnonzero(np.bincount(cells.ravel(), minlength=n) == 0)
    if loose.size:
        raise MeshError(
            f"{counted_of(loose.size, n, 'point', ('belongs', 'belong'))} to no cell (first: point "
            f"{loose[0]}). Drop them with geometry.remove_unused_points(points, cells)."
        )


def check_neighbours(cells: Array, dim: int) -> None:
    """Raise `MeshError` for duplicate cells and for facets of more than two cells."""
    order, start, count = group_rows(cells[:, : dim + 1])
    if (count > 1).any():
        first = order[start[count > 1][0] :][:2]
        raise MeshError(
            f"{counted_of((count - 1).sum(), len(cells), 'cell', ('repeats', 'repeat'))} another "
            f"one (first: cells {first[0]} and {first[1]}). Drop one of each."
        )
    facets = cell_facets(cells)[:, :dim]
    order, start, count = group_rows(facets)
    if (count > 2).any():
        first = facets[order[start[count > 2][0]]].tolist()
        raise MeshError(
            f"{(count > 2).sum()} facets are shared by more than two cells (first: points "
            f"{first}). Cells overlap there; mesh the body again."
        )


def check_coincident(points: Array) -> None:
    """Raise `MeshError` for nodes at the same position, which would disconnect cells."""
    size = np.linalg.norm(np.ptp(points, axis=0))
    distance, nearest = cKDTree(points).query(points, k=2)
    bad = np.flatnonzero(distance[:, 1] <= 1e-9 * size)
    if bad.size:
        first = bad[0]
        twin = nearest[first][nearest[first] != first][0]
        raise MeshError(
            f"{counted_of(bad.size, len(points), 'node', ('coincides', 'coincide'))} with another "
            f"(first: nodes {first} and {twin} at {points[first].tolist()} m). Merge them with "
            "geometry.merge_points(points, cells)."
        )


def check_volumes(points: Array, cells: Array) -> None:
    """Raise `MeshError` for flat, inverted or folded cells."""
    dim, noun = points.shape[1], {2: "triangle", 3: "tetrahedron"}[points.shape[1]]
    plural = {2: None, 3: "tetrahedra"}[dim]
    unit = f"m^{dim}"
    corners = cells[:, : dim + 1]
    volume = signed_volumes(points, corners)
    longest = np.max(
        [np.linalg.norm(points[a] - points[b], axis=1) for a in corners.T for b in corners.T],
        axis=0,
    )
    bad = np.flatnonzero(np.abs(volume) <= MIN_RELATIVE_VOLUME * longest**dim)
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(cells), noun, ('is', 'are'), plural)} flat (first: cell "
            f"{bad[0]}, volume {volume[bad[0]]:.2e} {unit} with a longest edge of "
            f"{longest[bad[0]]:.2e} m). Remove them or mesh the body again."
        )
    bad = np.flatnonzero(volume < 0)
    if bad.size:
        raise MeshError(
            f"{counted_of(bad.size, len(cells), noun, ('is', 'are'), plural)} inverted (first: "
            f"cell {bad[0]}, volume {volume[bad[0]]:.2e} {unit}). Swap two vertices of each, or "
            "pass geometry.orient_cells(points, cells)."
        )
    if cells.shape[1] > dim + 1:
        check_curved_cells(points, cells, volume)


def check_curved_cells(points: Array, cells: Array, volume: Array) -> None:
    """Raise `MeshError` for folded quadratic cells.

    The Jacobian must be positive at the corners and the quadrature points.
    """
    dim = points.shape[1]
    for at in np.vstack([np.eye(dim + 1), QUADRATURE_RULES[dim][0]]):
        bad = np.flatnonzero(determinants(jacobians(points, cells, at)) <= 1e-6 * volume)
        if bad.size:
            raise MeshError(
                f"{counted_of(bad.size, len(cells), 'quadratic cell', ('folds', 'fold'))} over "
                f"(first: cell {bad[0]}, at barycentric {at.round(2).tolist()}). Move their middle "
                "nodes towards the middle of the edges."
            )


def validate_regions(regions: Mapping[str, Array], n_cells: int) -> dict[str, Array]:
    """Return each region as read-only cell indices. Boolean masks are accepted."""
    out = {}
    for name, chosen in regions.items():
        chosen = np.asarray(chosen)
        if chosen.dtype == bool and chosen.shape == (n_cells,):
            chosen = np.flatnonzero(chosen)
        if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
            raise MeshError(
                f"Region '{name}' has shape {chosen.shape} and type {chosen.dtype}; pass a list "
                "of cell indices."
            )
        bad = chosen[(chosen < 0) | (chosen >= n_cells)]
        if bad.size:
            raise MeshError(
                f"Region '{name}' names cell {bad[0]}, but the cells are 0..{n_cells - 1}. Count "
                "cells from 0."
            )
        out[name] = read_only(np.unique(chosen), np.int64)
    return out


def validate_surfaces(surfaces: Mapping[str, Array], boundary: Array, dim: int) -> dict[str, Array]:
    """Return each surface as rows of `boundary`, so that its facets are outward."""
    out = {}
    for name, facets in surfaces.items():
        facets = np.asarray(facets)
        if facets.ndim != 2 or facets.shape[1] not in (dim, boundary.shape[1]):
            raise MeshError(
                f"Surface '{name}' has shape {facets.shape}; pass facets of shape (k, "
                f"{boundary.shape[1]})."
            )
        row = match_facets(facets, boundary, dim)
        bad = np.flatnonzero(row < 0)
        if bad.size:
            raise MeshError(
                f"Of surface '{name}', {counted_of(bad.size, len(facets), 'facet', ('is', 'are'))} "
                f"not on the boundary (first: {facets[bad[0]].tolist()}). Choose rows of "
                "mesh.boundary()."
            )
        out[name] = read_only(boundary[np.unique(row)], np.int64)
    return out
