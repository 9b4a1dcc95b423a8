"""Isosurface stuffing (Labelle and Shewchuk, SIGGRAPH 2007): well-shaped tetrahedra or triangles.

A regular lattice covers the body. Lattice points close to the outline are moved onto it, and cells
that it still crosses are cut. No cut remains close to a lattice point, so no cell becomes thin:
angles stay above about ten degrees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, MeshError
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cells import (
    boundary_facets,
    orient_cells,
    remove_unused_points,
    signed_volumes,
)
from pliant.geometry.lattice import check_count, grid_points
from pliant.geometry.mesh import Mesh

Inside = Callable[[Array], Array]  # (k, dim) [m] -> (k,) bool
Crossing = Callable[
    [Array, Array], Array
]  # starts inside, ends outside (k, dim) [m] -> fractions (k,)

# Fractions of long and short edges within which a lattice point is moved to a cut, as in the paper.
LONG_EDGE_SNAP, SHORT_EDGE_SNAP = 0.24999, 0.41189
# volume over longest edge cubed of a thin-wall cell; lattice cells have 0.05
MIN_RELATIVE_VOLUME = 0.005
TRIANGLE_EDGE_SNAP = 0.4  # snap fraction for the equal edges of the triangle lattice
LATTICE_OFFSET = (
    0.3819,
    0.2764,
    0.4472,
)  # of a cell; keeps lattice points off the sides of axis-aligned bodies


@dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """Background cells before they are fitted to the body."""

    points: Array  # (n, dim) [m]
    cells: Array  # (m, dim + 1)
    kind: Array  # (n,) int, two points of one kind share a long edge
    is_even: Array  # (n,) bool, alternates along long edges
    snap_fractions: tuple[float, float]  # for long and for short edges


@dataclass(frozen=True, kw_only=True, eq=False)
class Cuts:
    """The fitted lattice: signs of its points, and a new point on each edge that is still
    crossed."""

    lattice: Lattice
    sign: Array  # (n,) 1 inside, 0 on the outline, -1 outside
    keys: Array  # (k,) sorted, inside end * n + outside end
    points: Array  # (n + k, dim) [m], lattice points and then cuts

    def node(self, inner: Array, outer: Array) -> Array:
        """Return the point on the edge between an inside and an outside lattice point."""
        n = len(self.sign)
        return n + np.searchsorted(self.keys, inner * n + outer)

    def splits_from(self, a: Array, b: Array, c: Array) -> Array:
        """Return whether the cut face (a, b inside, c outside) is split from `a`.

        The rule depends on lattice points only, so the cells on both sides agree, and no cell gets
        three splits in a cycle.
        """
        kind = self.lattice.kind
        return np.where(
            kind[a] == kind[c], True, np.where(kind[b] == kind[c], False, self.lattice.is_even[a])
        )


class TooCoarseError(MeshError):
    """An error for a cell larger than the body. The caller adds the remedy."""


def stuff_isosurface(
    inside: Inside, crossing: Crossing, bounds: tuple[Array, Array], cell: float
) -> Mesh:
    """Return a mesh of about `cell` [m] of the points where `inside` is true; surface "outside".

    Raises `TooCoarseError` if the cell is too large.
    """
    lower, upper = bounds
    size = float(np.linalg.norm(upper - lower))
    lattice = (cubic_lattice if len(lower) == 3 else triangle_lattice)(lower, upper, cell)
    held = inside(lattice.points)
    cells = lattice.cells[held[lattice.cells].any(axis=1)]
    if not len(cells):
        raise TooCoarseError(
            f"No point of a lattice of {cell:g} m lies inside the body, which is {size:.3g} m "
            "large."
        )
    cuts = snap_to_outline(lattice, cells, held, crossing)
    cells = np.vstack(
        [cells[(cuts.sign[cells] > 0).any(axis=1)], thin_wall_cells(cuts, cells, inside)]
    )
    if not len(cells):
        raise TooCoarseError(
            f"The body, which is {size:.3g} m large, is thinner than a cell of {cell:g} m "
            "everywhere."
        )
    points, cells = remove_unused_points(
        cuts.points, np.vstack([cut(cuts, cells) for cut in CUTS[len(lower)]])
    )
    cells = orient_cells(points, cells)
    surfaces = {"outside": outer_facets(points, boundary_facets(cells))}
    return Mesh(
        points=points, cells=cells, regions={"body": np.arange(len(cells))}, surfaces=surfaces
    )


def snap_to_outline(lattice: Lattice, cells: Array, held: Array, crossing: Crossing) -> Cuts:
    """Move lattice points with a close cut onto the closest cut; keep the cuts of the other
    edges."""
    n = len(held)
    pairs = [
        cells[:, [i, j]] for i in range(cells.shape[1]) for j in range(cells.shape[1]) if i != j
    ]
    edges = np.vstack([pair[held[pair[:, 0]] & ~held[pair[:, 1]]] for pair in pairs])
    keys = np.unique(edges[:, 0] * n + edges[:, 1])
    a, b = keys // n, keys % n
    start, end = lattice.points[a], lattice.points[b]
    t = crossing(start, end)
    x = start + t[:, None] * (end - start)
    snap_fractions = np.where(lattice.kind[a] == lattice.kind[b], *lattice.snap_fractions)
    length = np.linalg.norm(end - start, axis=1)
    ends, near = (
        np.concatenate([a, b]),
        np.concatenate([t < snap_fractions, 1 - t < snap_fractions]),
    )
    gap = np.concatenate([t, 1 - t]) * np.tile(length, 2)
    order = np.flatnonzero(near)[
        np.argsort(-gap[near], kind="stable")
    ]  # the nearest cut is written last and stays
    points, sign = lattice.points.copy(), np.where(held, 1, -1)
    points[ends[order]] = np.tile(x, (2, 1))[order]
    sign[ends[order]] = 0
    left = (sign[a] != 0) & (sign[b] != 0)
    return Cuts(lattice=lattice, sign=sign, keys=keys[left], points=np.vstack([points, x[left]]))


def thin_wall_cells(cuts: Cuts, cells: Array, inside: Inside) -> Array:
    """Return the cells of thin walls: all points on the outline, centre inside, not flat."""
    chosen = cells[(cuts.sign[cells] == 0).all(axis=1)]
    chosen = chosen[inside(cuts.points[chosen].mean(axis=1))]
    return chosen[relative_volumes(cuts.points, chosen) > MIN_RELATIVE_VOLUME]


def relative_volumes(points: Array, cells: Array) -> Array:
    """Return the volume (k,) over the cube of the longest edge; in 2D the area over its square."""
    x = points[cells]
    longest = np.linalg.norm(x[:, :, None] - x[:, None], axis=3).max(axis=(1, 2))
    return np.abs(signed_volumes(points, cells)) / longest ** points.shape[1]


def sort_by_sign(cuts: Cuts, cells: Array, inner: int, outer: int) -> Array:
    """Return the cells with `inner` points inside and `outer` outside, with points ordered inside,
    on, outside."""
    sign = cuts.sign[cells]
    chosen = ((sign > 0).sum(axis=1) == inner) & ((sign < 0).sum(axis=1) == outer)
    order = np.argsort(-sign[chosen], axis=1, kind="stable")
    return np.take_along_axis(cells[chosen], order, axis=1)


def uncut_cells(cuts: Cuts, cells: Array) -> Array:
    return cells[(cuts.sign[cells] >= 0).all(axis=1)]


def cut_one_inside(cuts: Cuts, cells: Array) -> Array:
    """Cut cells with one point inside: the outside points move along their edges to the cuts."""
    parts = []
    for outer in range(1, cells.shape[1]):
        part = sort_by_sign(cuts, cells, 1, outer).copy()
        for column in range(cells.shape[1] - outer, cells.shape[1]):
            part[:, column] = cuts.node(part[:, 0], part[:, column])
        parts.append(part)
    return np.vstack(parts)


def cut_two_inside_triangle(cuts: Cuts, cells: Array) -> Array:
    """Cut triangles with two points inside: a quadrilateral, split along its shorter diagonal."""
    a, b, c = sort_by_sign(cuts, cells, 2, 1).T
    A, B = cuts.node(a, c), cuts.node(b, c)
    x = cuts.points
    first = (np.linalg.norm(x[a] - x[B], axis=1) <= np.linalg.norm(x[b] - x[A], axis=1))[:, None]
    return np.where(
        np.tile(first, (2, 1)), stack_cells((a, b, B), (a, B, A)), stack_cells((a, b, A), (b, B, A))
    )


def cut_two_inside_one_outside(cuts: Cuts, cells: Array) -> Array:
    """Cut cells with two points inside and one on the outline: a pyramid over a quadrilateral."""
    a, b, z, d = sort_by_sign(cuts, cells, 2, 1).T
    first = cuts.splits_from(a, b, d)
    a, b = np.where(first, a, b), np.where(first, b, a)
    A, B = cuts.node(a, d), cuts.node(b, d)
    return stack_cells((z, a, b, B), (z, a, B, A))


def cut_two_inside_two_outside(cuts: Cuts, cells: Array) -> Array:
    """Cut cells with two points inside and two outside: a wedge."""
    a, b, c, d = sort_by_sign(cuts, cells, 2, 2).T
    lead = cuts.splits_from(a, b, c)
    a, b = np.where(lead, a, b), np.where(lead, b, a)  # now the face (a, b, c) is halved from a
    same = cuts.splits_from(a, b, d)
    ac, ad, bc, bd = cuts.node(a, c), cuts.node(a, d), cuts.node(b, c), cuts.node(b, d)
    both = stack_cells((a, b, bc, bd), (a, ac, bc, bd), (a, ac, bd, ad))
    mixed = stack_cells((a, b, bc, ad), (a, ac, bc, ad), (b, bc, bd, ad))
    return np.vstack([both[np.tile(same, 3)], mixed[np.tile(~same, 3)]])


def cut_three_inside(cuts: Cuts, cells: Array) -> Array:
    """Cut cells with three points inside: a prism, split in the order of `splits_from`."""
    abc, d = np.split(sort_by_sign(cuts, cells, 3, 1), [3], axis=1)
    wins = [
        cuts.splits_from(abc[:, i], abc[:, j], d[:, 0]).astype(int)
        for i, j in ((0, 1), (1, 2), (2, 0))
    ]
    score = np.stack([wins[0] - wins[2], wins[1] - wins[0], wins[2] - wins[1]], axis=1)
    p, q, r = np.take_along_axis(abc, np.argsort(-score, axis=1), axis=1).T
    P, Q, R = (cuts.node(v, d[:, 0]) for v in (p, q, r))
    return stack_cells((p, q, r, R), (p, q, Q, R), (p, P, Q, R))


def stack_cells(*cells: tuple[Array, ...]) -> Array:
    return np.vstack([np.column_stack(cell) for cell in cells])


CUTS: dict[int, tuple[Callable[[Cuts, Array], Array], ...]] = {
    2: (uncut_cells, cut_one_inside, cut_two_inside_triangle),
    3: (
        uncut_cells,
        cut_one_inside,
        cut_two_inside_one_outside,
        cut_two_inside_two_outside,
        cut_three_inside,
    ),
}


def cubic_lattice(lower: Array, upper: Array, cell: float) -> Lattice:
    """Return the body-centred cubic lattice, with four tetrahedra around each face of a cube."""
    counts = np.ceil((upper - lower) / cell).astype(float) + 2
    check_count(12 * float(np.prod(counts)), upper - lower)
    n = counts.astype(np.int64)
    grid = np.vstack([2 * grid_points(n + 1), 2 * grid_points(n) + 1])
    corner_stride, middle_stride = (
        np.array([(n[1] + 1) * (n[2] + 1), n[2] + 1, 1]),
        np.array([n[1] * n[2], n[2], 1]),
    )
    n_corners = int(np.prod(n + 1))
    cells = []
    for axis in range(3):
        u, v = np.eye(3, dtype=np.int64)[[(axis + 1) % 3, (axis + 2) % 3]]
        step = np.eye(3, dtype=np.int64)[axis]
        cube = grid_points(n - step)
        here, there = n_corners + cube @ middle_stride, n_corners + (cube + step) @ middle_stride
        ring = [(cube + step + turn) @ corner_stride for turn in (0 * u, u, u + v, v)]
        cells += [np.column_stack([here, there, ring[i], ring[(i + 1) % 4]]) for i in range(4)]
    start = lower - cell * (1 - 0.5 * np.array(LATTICE_OFFSET))
    return Lattice(
        points=start + 0.5 * cell * grid,
        cells=np.vstack(cells),
        kind=grid[:, 0] % 2,
        is_even=(grid // 2).sum(axis=1) % 2 == 0,
        snap_fractions=(LONG_EDGE_SNAP, SHORT_EDGE_SNAP),
    )


def triangle_lattice(lower: Array, upper: Array, cell: float) -> Lattice:
    """Return rows of equilateral triangles."""
    height = cell * np.sqrt(3) / 2
    counts = np.ceil((upper - lower) / (cell, height)) + 3
    check_count(2 * float(np.prod(counts)), upper - lower)
    columns, rows = counts.astype(np.int64)
    j, i = np.indices((rows + 1, columns + 1)).reshape(2, -1)
    x = np.column_stack([(i + 0.5 * (j % 2)) * cell, j * height])
    J, I = np.indices((rows, columns)).reshape(2, -1)
    a, b = J * (columns + 1) + I, (J + 1) * (columns + 1) + I
    slant = J % 2 == 0  # odd rows lie half a cell to the right
    first = np.where(slant[:, None], np.column_stack([a, a + 1, b]), np.column_stack([a, b + 1, b]))
    second = np.where(
        slant[:, None], np.column_stack([a + 1, b + 1, b]), np.column_stack([a, a + 1, b + 1])
    )
    start = lower - cell * (1.5 - np.array(LATTICE_OFFSET[:2]))
    return Lattice(
        points=start + x,
        cells=np.vstack([first, second]),
        kind=np.zeros(len(x), dtype=np.int64),
        is_even=i % 2 == 0,
        snap_fractions=(TRIANGLE_EDGE_SNAP, TRIANGLE_EDGE_SNAP),
    )
