"""Polygon: a flat region with straight sides and exact corners, meshed by Delaunay triangles."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial import Delaunay

from pliant.core import Array, InputError, MeshError, counted, finite_array
from pliant.geometry.cells import boundary_facets, orient_cells, remove_unused_points
from pliant.geometry.lattice import check_count, check_order, validate_cell_size, validate_divisions
from pliant.geometry.mesh import Mesh

MAX_PAIRS = 1_000_000  # of point and side at once; limits the memory
MAX_REFINEMENTS = 20  # of sides that the triangulation misses; a narrow corner needs a few


@dataclass(frozen=True, kw_only=True)
class Polygon:
    """A simple polygon with its corners in either orientation; surface "outside".

    Every corner becomes a node, so corners much closer than `cell` cause thin triangles.
    `divisions` is (n,): cells along the longer side of the bounding box.
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
        """Return bool (k,): which points lie inside. Points on the boundary may count as either."""
        return inside_polygon(np.asarray(self.points, dtype=float), np.asarray(points, dtype=float))

    def mesh(
        self, *, cell: float | None = None, divisions: Sequence[int] | None = None, order: int = 1
    ) -> Mesh:
        check_order(order)
        longest = float(np.ptp(np.asarray(self.points), axis=0).max())
        if divisions is not None:
            cell = longest / validate_divisions(divisions, 1, (1,))[0]
        points, cells = triangulate_polygon(
            np.asarray(self.points, dtype=float), validate_cell_size(cell, longest / 20)
        )
        surfaces = {"outside": boundary_facets(cells)}
        mesh = Mesh(
            points=points, cells=cells, regions={"body": np.arange(len(cells))}, surfaces=surfaces
        )
        return mesh.quadratic() if order == 2 else mesh


def check_simple(corners: Array) -> None:
    """Raise `InputError` for coincident corners, crossing sides or zero area."""
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
        apart = signed_double_area(a[i], b[i], a[j]) * signed_double_area(a[i], b[i], b[j]) > 0
        apart |= signed_double_area(a[j], b[j], a[i]) * signed_double_area(a[j], b[j], b[i]) > 0
        parallel = (signed_double_area(a[i], b[i], a[j]) == 0) & (
            signed_double_area(a[i], b[i], b[j]) == 0
        )
        if (~apart & ~parallel).any():
            raise InputError(
                f"Sides {i} and {j[~apart & ~parallel][0]} of the Polygon touch or cross. "
                "List the corners in order around the outline."
            )
    if abs(polygon_area(corners)) <= 1e-9 * size**2:
        raise InputError(
            f"The Polygon has an area of {abs(polygon_area(corners)):.2e} m^2. Spread its corners."
        )


def signed_double_area(a: Array, b: Array, c: Array) -> Array:
    """Return twice the signed area of the triangle a, b, c."""
    u, v = b - a, c - a
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def polygon_area(corners: Array) -> float:
    x, y = (corners - corners.mean(axis=0)).T
    return float(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())


def inside_polygon(corners: Array, points: Array) -> Array:
    """Return bool (k,): whether a ray from each point crosses the loop an odd number of times."""
    odd = np.zeros(len(points), dtype=bool)
    for a, b in pairwise([*corners, corners[0]]):
        rises = (a[1] > points[:, 1]) != (b[1] > points[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            x = a[0] + (points[:, 1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0])
        odd ^= rises & (points[:, 0] < x)
    return odd


def distance_to_polygon(corners: Array, points: Array) -> Array:
    """Return the distance (k,) [m] from each point to the closest side."""
    a, side = corners, np.roll(corners, -1, axis=0) - corners
    gaps = []
    for part in np.array_split(points, max(1, len(points) * len(a) // MAX_PAIRS)):
        offset = part[:, None] - a
        t = np.clip(np.einsum("kmi,mi->km", offset, side) / (side**2).sum(axis=1), 0, 1)
        gaps.append(np.linalg.norm(offset - t[:, :, None] * side, axis=2).min(axis=1))
    return np.concatenate(gaps)


def triangulate_polygon(corners: Array, cell: float) -> tuple[Array, Array]:
    """Return (points, triangles): sides divided into `cell` [m] and a smoothed regular lattice
    inside."""
    corners = corners if polygon_area(corners) > 0 else corners[::-1]
    check_count(3 * abs(polygon_area(corners)) / cell**2, np.ptp(corners, axis=0))
    rim, inner = divide_sides(corners, cell), hexagonal_points(corners, cell)
    for _ in range(4):  # each round moves the inner points to the middle of their neighbours
        rim, points, cells = triangulate_inside(corners, rim, inner)
        middle = np.zeros_like(points)
        for i in range(3):
            np.add.at(middle, cells[:, i], points[cells[:, i - 1]] + points[cells[:, i - 2]])
        touches = 2 * np.bincount(cells.ravel(), minlength=len(points))
        inner = middle[len(rim) :] / np.maximum(touches[len(rim) :, None], 1)
        inner = inner[touches[len(rim) :] > 0]
    _, points, cells = triangulate_inside(corners, rim, inner)
    return remove_unused_points(points, orient_cells(points, cells))


def divide_sides(corners: Array, cell: float) -> Array:
    """Return points along the loop at most about `cell` [m] apart, including every corner."""
    pieces = []
    for a, b in pairwise([*corners, corners[0]]):
        n = max(1, round(float(np.linalg.norm(b - a)) / cell))
        pieces.append(a + np.arange(n)[:, None] / n * (b - a))
    return np.vstack(pieces)


def hexagonal_points(corners: Array, cell: float) -> Array:
    """Return points of a triangular lattice inside the loop and more than half a cell from it."""
    lower, upper = corners.min(axis=0), corners.max(axis=0)
    rows = np.arange(lower[1], upper[1], cell * np.sqrt(3) / 2)
    x, y = np.meshgrid(np.arange(lower[0] - cell, upper[0] + cell, cell), rows)
    x = x + 0.5 * cell * (np.arange(len(rows)) % 2)[:, None]
    points = np.column_stack([x.ravel(), y.ravel()])
    points = points[inside_polygon(corners, points)]
    return points[distance_to_polygon(corners, points) > 0.55 * cell] if len(points) else points


def triangulate_inside(corners: Array, rim: Array, inner: Array) -> tuple[Array, Array, Array]:
    """Return (rim, points, cells) of a Delaunay triangulation. Sides that it misses are halved."""
    for _ in range(MAX_REFINEMENTS):
        points = np.vstack([rim, inner])
        cells = Delaunay(points).simplices.astype(np.int64)
        x = points[cells]
        area = np.abs(signed_double_area(x[:, 0], x[:, 1], x[:, 2]))
        solid = area > 1e-9 * np.ptp(x, axis=1).max(axis=1) ** 2
        cells = cells[solid & inside_polygon(corners, x.mean(axis=1))]
        missing = missing_sides(cells, len(rim))
        if not missing.size:
            return rim, points, cells
        halves = 0.5 * (rim[missing] + np.roll(rim, -1, axis=0)[missing])
        rim = np.insert(rim, missing + 1, halves, axis=0)
    raise MeshError(
        f"{counted(missing.size, 'side')} of the Polygon {'is' if missing.size == 1 else 'are'} "
        f"too close to others to be meshed (first: near {rim[missing[0]].tolist()} m). Choose a "
        "smaller cell or open its sharpest corners."
    )


def missing_sides(cells: Array, n: int) -> Array:
    """Return which of the n sides (i, i + 1) of the rim are not an edge of one triangle."""
    edges = np.sort(boundary_facets(cells), axis=1)
    sides = np.sort(np.column_stack([np.arange(n), np.roll(np.arange(n), -1)]), axis=1)
    width = max(int(cells.max(initial=0)) + 1, n)
    return np.flatnonzero(~np.isin(sides @ (width, 1), edges @ (width, 1)))
