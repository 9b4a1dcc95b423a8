"""Which cell holds a point, and where in it."""

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import Array, InputError
from pliant.geometry.cells import shape_gradients, shape_values

REACH = 1e-6  # of the bounding size: how far outside a boundary facet a point still counts as on it


def locate(points: Array, cells: Array, at: Array) -> tuple[Array, Array]:
    """(cells (k,), barycentric (k, dim + 1)) for places `at` (k, dim) [m]."""
    at = checked_places(at, points.shape[1])
    centres = points[cells[:, : points.shape[1] + 1]].mean(axis=1)
    tree = cKDTree(centres)
    owner, bary, depth = (
        np.zeros(len(at), dtype=np.int64),
        np.zeros((len(at), points.shape[1] + 1)),
        np.full(len(at), -np.inf),
    )
    size = np.linalg.norm(np.ptp(points, axis=0))
    near, rounding = -REACH * size, -1e-12 * size
    for k in (8, 64):  # nearly every point lies in one of the cells with the nearest centres
        todo = np.flatnonzero(depth < rounding)
        if todo.size:
            candidates = tree.query(at[todo], k=min(k, len(cells)))[1].reshape(todo.size, -1)
            keep_best(points, cells, at, todo, candidates, (owner, bary, depth))
    for i in np.flatnonzero(depth < near):
        candidates = boxes_around(points, cells, at[i])
        if candidates.size:
            keep_best(points, cells, at, np.array([i]), candidates[None], (owner, bary, depth))
    refuse_outside(points, at, np.flatnonzero(depth < near))
    return owner, bary


def checked_places(at: Array, dim: int) -> Array:
    at = np.atleast_2d(np.asarray(at, dtype=float))
    if at.ndim != 2 or at.shape[1] != dim:
        raise InputError(
            f"The points to locate have shape {at.shape}; this mesh is {dim}D, so pass shape (k, "
            f"{dim})."
        )
    bad = np.flatnonzero(~np.isfinite(at).all(axis=1))
    if bad.size:
        raise InputError(
            f"Point {bad[0]} to locate is {at[bad[0]].tolist()}; every coordinate must be a "
            "finite number."
        )
    return at


def boxes_around(points: Array, cells: Array, place: Array) -> Array:
    """Cells whose bounding box, made larger by its own size for curved sides, holds the place."""
    corners = points[cells]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    slack = 0.1 * (upper - lower).max(axis=1, keepdims=True)
    return np.flatnonzero(((place >= lower - slack) & (place <= upper + slack)).all(axis=1))


def keep_best(
    points: Array, cells: Array, at: Array, todo: Array, candidates: Array, best: tuple[Array, ...]
) -> None:
    """Among the candidates of each point keep the cell that it lies deepest in."""
    owner, bary, depth = best
    k = candidates.shape[1]
    chunk = max(1, 200_000 // k)  # bounds the memory of the pairs
    for part in range(0, len(todo), chunk):
        rows, trial = todo[part : part + chunk], candidates[part : part + chunk]
        x, c = np.repeat(at[rows], k, axis=0), trial.ravel()
        lam, inside = barycentric(points, cells[c], x)
        first = inside.reshape(-1, k).argmax(axis=1) + k * np.arange(len(rows))
        better = inside[first] > depth[rows]
        rows, first = rows[better], first[better]
        owner[rows], bary[rows], depth[rows] = c[first], lam[first], inside[first]


def slopes(points: Array, cells: Array) -> Array:
    """(n_cells, dim + 1, dim) [1/m] the gradients of the barycentric coordinates of each straight
    cell."""
    corners = points[cells[:, : points.shape[1] + 1]]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def barycentric(points: Array, cells: Array, x: Array) -> tuple[Array, Array]:
    """Coordinates (k, dim + 1) of each x (k, dim) in its own cell, and its depth (k,) [m] under the
    nearest facet."""
    slope = slopes(points, cells)
    xi = np.einsum("kij,kj->ki", slope[:, 1:], x - points[cells[:, 0]])
    if cells.shape[1] > points.shape[1] + 1:
        xi = newton(points[cells], x, xi)
    lam = np.hstack([1 - xi.sum(axis=1, keepdims=True), xi])
    return lam, (lam / np.linalg.norm(slope, axis=2)).min(axis=1)


def newton(nodes: Array, x: Array, xi: Array) -> Array:
    """Invert the map of quadratic cells; one step is exact for a straight cell, six for a curved
    one."""
    start = xi
    for _ in range(6):
        lam = np.hstack([1 - xi.sum(axis=1, keepdims=True), xi])
        miss = np.einsum("ka,kai->ki", shape_values(lam, 2), nodes) - x
        if np.abs(miss).max(initial=0.0) == 0.0:
            break
        J = np.einsum("kai,kaj->kij", nodes, shape_gradients(lam, 2))
        # Far outside the cell the map may fold; the small ridge and the clip keep those hopeless
        # candidates finite.
        ridge = 1e-14 * np.abs(J).max(axis=(1, 2))[:, None, None] * np.eye(x.shape[1])
        xi = np.clip(
            xi - np.linalg.solve(J + ridge, miss[:, :, None])[:, :, 0], start - 1, start + 1
        )
    return xi


def refuse_outside(points: Array, at: Array, outside: Array) -> None:
    if outside.size:
        x = at[outside[0]]
        distance, node = cKDTree(points).query(x)
        raise InputError(
            f"{outside.size} of {len(at)} points lie outside the mesh (first: point {outside[0]} "
            f"at {x.tolist()} m, {distance:.3g} m from the nearest node {node} at "
            f"{points[node].tolist()} m). The mesh spans {points.min(axis=0).tolist()} to "
            f"{points.max(axis=0).tolist()} m; move the points inside it."
        )
