"""Polygon: a flat region with straight sides and exact corners, meshed by Delaunay triangles."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial import Delaunay

from pliant.core import Array, InputError, MeshError, finite_array
from pliant.geometry.cells import boundary_facets, compacted, oriented
from pliant.geometry.lattice import check_count, check_order, checked_cell, checked_divisions
from pliant.geometry.mesh import Mesh

PAIRS = 1_000_000  # point-side pairs held in memory at once
ROUNDS = 20  # of halving sides that the triangles miss; a narrow corner needs a few


@dataclass(frozen=True, kw_only=True)
class Polygon:
    """A simple polygon, its corners in order either way round; surface "outside".

    Every corner stays a node: an outline with corners much closer than `cell` brings thin triangles
    along it. `divisions` is (n,): cells along the longer side of the bounding box.
    """

    points: tuple[tuple[float, float], ...]  # (n, 2) [m]
    dim = 2

    def __post_init__(self) -> None:
        corners = finite_array("The table of corners of a Polygon", self.points, (None, 2), "m")
        if len(corners) < 3:
            raise InputError(
                f"The corners of a Polygon have shape {corners.shape}; pass at least 3, of shape "
                "(n, 2)."
            )
        check_simple(corners)
        object.__setattr__(self, "points", tuple((x, y) for x, y in corners.tolist()))

    def bounds(self) -> tuple[Array, Array]:
        corners = np.asarray(self.points, dtype=float)
        return corners.min(axis=0), corners.max(axis=0)

    def contains(self, points: Array) -> Array:
        """(k,) bool; by crossings, so that the boundary itself may count as either."""
        return inside_loop(np.asarray(self.points, dtype=float), np.asarray(points, dtype=float))

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        check_order(order)
        longest = float(np.ptp(np.asarray(self.points), axis=0).max())
        if divisions is not None:
            cell = longest / checked_divisions(divisions, 1, (1,))[0]
        points, cells = loop_mesh(
            np.asarray(self.points, dtype=float), checked_cell(cell, longest / 20)
        )
        surfaces = {"outside": boundary_facets(cells)}
        mesh = Mesh(
            points=points, cells=cells, regions={"body": np.arange(len(cells))}, surfaces=surfaces
        )
        return mesh.quadratic() if order == 2 else mesh


def check_simple(corners: Array) -> None:
    """No corner twice, no two sides that cross, some area."""
    a, b = corners, np.roll(corners, -1, axis=0)
    size = np.ptp(corners, axis=0).max()
    short = np.flatnonzero(np.linalg.norm(b - a, axis=1) <= 1e-9 * size)
    if short.size:
        raise InputError(
            f"Corners {short[0]} and {(short[0] + 1) % len(a)} of the Polygon coincide at "
            f"{a[short[0]].tolist()} m. Drop one; the last corner need not repeat the first."
        )
    for i in range(len(a) - 2):
        j = np.arange(i + 2, len(a) - (i == 0))
        apart = turn(a[i], b[i], a[j]) * turn(a[i], b[i], b[j]) > 0
        apart |= turn(a[j], b[j], a[i]) * turn(a[j], b[j], b[i]) > 0
        parallel = (turn(a[i], b[i], a[j]) == 0) & (turn(a[i], b[i], b[j]) == 0)
        if (~apart & ~parallel).any():
            raise InputError(
                f"Sides {i} and {j[~apart & ~parallel][0]} of the Polygon touch or cross. "
                "List the corners in order around the outline."
            )
    if abs(loop_area(corners)) <= 1e-9 * size**2:
        raise InputError(
            f"The Polygon has an area of {abs(loop_area(corners)):.2e} m^2. Spread its corners."
        )


def turn(a: Array, b: Array, c: Array) -> Array:
    """Twice the signed area of the triangle a, b, c."""
    u, v = b - a, c - a
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def loop_area(corners: Array) -> float:
    x, y = (corners - corners.mean(axis=0)).T
    return float(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())


def inside_loop(corners: Array, points: Array) -> Array:
    """(k,) whether a ray from each point crosses the loop an odd number of times."""
    odd = np.zeros(len(points), dtype=bool)
    for a, b in pairwise([*corners, corners[0]]):
        rises = (a[1] > points[:, 1]) != (b[1] > points[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            x = a[0] + (points[:, 1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0])
        odd ^= rises & (points[:, 0] < x)
    return odd


def gaps_to_loop(corners: Array, points: Array) -> Array:
    """(k,) [m] distance from each point to the nearest side."""
    a, side = corners, np.roll(corners, -1, axis=0) - corners
    gaps = []
    for part in np.array_split(points, max(1, len(points) * len(a) // PAIRS)):
        offset = part[:, None] - a
        t = np.clip(np.einsum("kmi,mi->km", offset, side) / (side**2).sum(axis=1), 0, 1)
        gaps.append(np.linalg.norm(offset - t[:, :, None] * side, axis=2).min(axis=1))
    return np.concatenate(gaps)


def loop_mesh(corners: Array, cell: float) -> tuple[Array, Array]:
    """(points, triangles): the sides divided into `cell` [m], triangles of a regular lattice
    within, smoothed."""
    corners = corners if loop_area(corners) > 0 else corners[::-1]
    check_count(3 * abs(loop_area(corners)) / cell**2, np.ptp(corners, axis=0))
    rim, inner = divided(corners, cell), hexagonal(corners, cell)
    for _ in range(4):  # each round moves the inner points to the middle of their neighbours
        rim, points, cells = covered(corners, rim, inner)
        middle = np.zeros_like(points)
        for i in range(3):
            np.add.at(middle, cells[:, i], points[cells[:, i - 1]] + points[cells[:, i - 2]])
        touches = 2 * np.bincount(cells.ravel(), minlength=len(points))
        inner = middle[len(rim) :] / np.maximum(touches[len(rim) :, None], 1)
        inner = inner[touches[len(rim) :] > 0]
    _, points, cells = covered(corners, rim, inner)
    return compacted(points, oriented(points, cells))


def divided(corners: Array, cell: float) -> Array:
    """Points along the loop, no farther apart than about `cell` [m], with every corner among
    them."""
    pieces = []
    for a, b in pairwise([*corners, corners[0]]):
        n = max(1, round(float(np.linalg.norm(b - a)) / cell))
        pieces.append(a + np.arange(n)[:, None] / n * (b - a))
    return np.vstack(pieces)


def hexagonal(corners: Array, cell: float) -> Array:
    """Points of a triangular lattice inside the loop and more than half a cell from it."""
    lower, upper = corners.min(axis=0), corners.max(axis=0)
    rows = np.arange(lower[1], upper[1], cell * np.sqrt(3) / 2)
    x, y = np.meshgrid(np.arange(lower[0] - cell, upper[0] + cell, cell), rows)
    x = x + 0.5 * cell * (np.arange(len(rows)) % 2)[:, None]
    points = np.column_stack([x.ravel(), y.ravel()])
    points = points[inside_loop(corners, points)]
    return points[gaps_to_loop(corners, points) > 0.55 * cell] if len(points) else points


def covered(corners: Array, rim: Array, inner: Array) -> tuple[Array, Array, Array]:
    """(rim, points, cells): Delaunay triangles inside; a side that they miss is halved until they
    have it."""
    for _ in range(ROUNDS):
        points = np.vstack([rim, inner])
        cells = Delaunay(points).simplices.astype(np.int64)
        x = points[cells]
        area = np.abs(turn(x[:, 0], x[:, 1], x[:, 2]))
        solid = area > 1e-9 * np.ptp(x, axis=1).max(axis=1) ** 2
        cells = cells[solid & inside_loop(corners, x.mean(axis=1))]
        missing = missing_sides(cells, len(rim))
        if not missing.size:
            return rim, points, cells
        halves = 0.5 * (rim[missing] + np.roll(rim, -1, axis=0)[missing])
        rim = np.insert(rim, missing + 1, halves, axis=0)
    raise MeshError(
        f"{missing.size} sides of the Polygon are too close to others to be meshed (first: near "
        f"{rim[missing[0]].tolist()} m). Choose a smaller cell or open its sharpest corners."
    )


def missing_sides(cells: Array, n: int) -> Array:
    """Which of the n sides (i, i + 1) of the rim are not an edge of one triangle."""
    edges = np.sort(boundary_facets(cells), axis=1)
    sides = np.sort(np.column_stack([np.arange(n), np.roll(np.arange(n), -1)]), axis=1)
    width = max(int(cells.max(initial=0)) + 1, n)
    return np.flatnonzero(~np.isin(sides @ (width, 1), edges @ (width, 1)))
