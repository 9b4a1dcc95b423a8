"""Find the cell of a point and its barycentric coordinates."""

import numpy as np
from scipy.spatial import cKDTree

from pliant.core import MAX_COORDINATE, Array, InputError, counted_of, quoted, require_number
from pliant.geometry.cells import shape_gradients, shape_values
from pliant.geometry.nearest import nearest_on_boundary

ROUNDING_TOLERANCE = 1e-9  # of the size; points this close to a cell are inside it
# Of the size: points this far outside are moved to the surface by default. Coordinates with four
# digits have smaller errors; 1e-4 of a 10 cm body is 10 um, below manufacturing accuracy.
DEFAULT_SNAP = 1e-4


def locate(
    points: Array, cells: Array, at: Array, snap: float | None = None
) -> tuple[Array, Array]:
    """Return (cells (k,), barycentric (k, dim + 1)) for positions `at` (k, dim) [m].

    A position up to `snap` [m] outside (None: DEFAULT_SNAP of the size) is moved to the closest
    point of the surface. Raises `InputError` with the distance for one farther away.
    """
    at = validate_positions(at, points.shape[1])
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    limit = snap_limit(snap, size)
    owner, bary, depth = _deepest(points, cells, at, size)
    outside = np.flatnonzero(depth < -ROUNDING_TOLERANCE * size)
    if outside.size:
        owner[outside], bary[outside], gap = nearest_on_boundary(points, cells, at[outside])
        far = gap > limit
        if far.any():
            k = outside[far][0]
            nodes = points[cells[owner[k]]]
            order = 1 if len(nodes) == points.shape[1] + 1 else 2
            place = shape_values(bary[[k]], order)[0] @ nodes
            raise outside_error(at, int(k), place, int(far.sum()), limit)
    return owner, bary


def snap_limit(snap: float | None, size: float) -> float:
    """Return the snap distance [m] for a body of `size` [m]."""
    if snap is None:
        return DEFAULT_SNAP * size
    limit = require_number("The snap distance", snap, "m")
    if not 0.0 <= limit < np.inf:
        raise InputError(f"The snap distance is {limit:g} m; it must be zero or positive.")
    return limit


def _deepest(points: Array, cells: Array, at: Array, size: float) -> tuple[Array, Array, Array]:
    """Return for each position the cell where it is deepest, its barycentric coordinates and the
    depth [m].

    The depth is -inf far from the mesh.
    """
    dim = points.shape[1]
    tree = cKDTree(points[cells[:, : dim + 1]].mean(axis=1))
    best = (
        np.zeros(len(at), dtype=np.int64),
        np.zeros((len(at), dim + 1)),
        np.full(len(at), -np.inf),
    )
    lower, upper = points.min(axis=0) - 0.1 * size, points.max(axis=0) + 0.1 * size
    near = ((at >= lower) & (at <= upper)).all(axis=1)
    for k in (8, 64):  # nearly every point lies in one of the cells with the nearest centres
        todo = np.flatnonzero(near & (best[2] < -1e-12 * size))
        if todo.size:
            candidates = tree.query(at[todo], k=min(k, len(cells)))[1].reshape(todo.size, -1)
            keep_deepest(points, cells, at, todo, candidates, best)
    todo = np.flatnonzero(near & (best[2] < -ROUNDING_TOLERANCE * size))
    if todo.size:
        boxes = cell_boxes(points, cells)
    for i in todo:
        candidates = np.flatnonzero(((at[i] >= boxes[0]) & (at[i] <= boxes[1])).all(axis=1))
        if candidates.size:
            keep_deepest(points, cells, at, np.array([i]), candidates[None], best)
    return best


def validate_positions(at: Array, dim: int) -> Array:
    try:
        at = np.atleast_2d(np.asarray(at, dtype=float))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The points to locate are {quoted(at)}; pass numbers [m] of shape (k, {dim})."
        ) from None
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
    bad = np.flatnonzero((np.abs(at) > MAX_COORDINATE).any(axis=1))
    if bad.size:
        raise InputError(
            f"Point {bad[0]} to locate is {at[bad[0]].tolist()} m, over the limit of "
            f"{MAX_COORDINATE:g} m. Check the units."
        )
    return at


def cell_boxes(points: Array, cells: Array) -> tuple[Array, Array]:
    """Return the lower and upper corners (n_cells, dim) [m] of cell bounding boxes, 10 % larger for
    curved sides."""
    corners = points[cells]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    slack = 0.1 * (upper - lower).max(axis=1, keepdims=True)
    return lower - slack, upper + slack


def keep_deepest(
    points: Array, cells: Array, at: Array, todo: Array, candidates: Array, best: tuple[Array, ...]
) -> None:
    """Keep for each point the candidate cell where it is deepest."""
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


def barycentric_gradients(points: Array, cells: Array) -> Array:
    """Return the gradients (n_cells, dim + 1, dim) [1/m] of the barycentric coordinates of straight
    cells."""
    corners = points[cells[:, : points.shape[1] + 1]]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    return np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)


def barycentric(points: Array, cells: Array, x: Array) -> tuple[Array, Array]:
    """Return the barycentric coordinates (k, dim + 1) of x (k, dim), and the depth (k,) [m] below
    the closest facet."""
    slope = barycentric_gradients(points, cells)
    xi = np.einsum("kij,kj->ki", slope[:, 1:], x - points[cells[:, 0]])
    if cells.shape[1] > points.shape[1] + 1:
        xi = invert_quadratic_map(points[cells], x, xi)
    lam = np.hstack([1 - xi.sum(axis=1, keepdims=True), xi])
    return lam, (lam / np.linalg.norm(slope, axis=2)).min(axis=1)


def invert_quadratic_map(nodes: Array, x: Array, xi: Array) -> Array:
    """Invert the map of quadratic cells by Newton steps: one for a straight cell, six for a curved
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


def outside_error(at: Array, k: int, place: Array, count: int, limit: float) -> InputError:
    """Return the error for `count` positions outside the mesh; k is the first of them.

    `place` is the closest point of the surface, farther than `limit` [m].
    """
    distance = float(np.linalg.norm(at[k] - place))
    return InputError(
        f"{counted_of(count, len(at), 'point', ('lies', 'lie'))} outside the mesh by more than "
        f"{limit:.2g} m (first: point {k} at {at[k].tolist()} m, {distance:.3g} m from the "
        f"surface). Move it to the nearest point {place.round(9).tolist()} m, or allow the "
        f"distance with snap={round_up(distance):g} (of the robot or of locate)."
    )


def round_up(distance: float) -> float:
    """Return `distance` [m] rounded up to two digits."""
    unit = 10.0 ** (np.floor(np.log10(distance)) - 1)
    return float(unit * (np.floor(distance / unit) + 1))
