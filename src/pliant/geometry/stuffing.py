"""Isosurface stuffing (Labelle and Shewchuk, SIGGRAPH 2007): good tetrahedra or triangles for a
body of any outline.

A regular lattice is laid over the body. Lattice points near the outline move onto it; cells that it
still crosses are cut. Because a cut close to a lattice point cannot remain, no cell gets thin:
angles stay over about ten degrees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, MeshError
from pliant.geometry.cavities import outer_facets
from pliant.geometry.cells import boundary_facets, compacted, oriented, signed_volumes
from pliant.geometry.lattice import check_count, grid_of
from pliant.geometry.mesh import Mesh

Inside = Callable[[Array], Array]  # (k, dim) [m] -> (k,) bool
Crossing = Callable[
    [Array, Array], Array
]  # starts inside, ends outside (k, dim) [m] -> fractions (k,)

# How near a cut may come to a lattice point, as a fraction of a long or a short edge: the paper's
# safe choice.
LONG, SHORT = 0.24999, 0.41189
# volume over longest edge cubed of a cell with all points on the outline; 0.05 in the lattice
FLATTEST = 0.005
FLAT_REACH = 0.4  # the same for the equal edges of the lattice of triangles
OFFSET = (
    0.3819,
    0.2764,
    0.4472,
)  # of a cell: a lattice in step with the body would put points exactly on its sides


@dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """Background cells before they meet the body."""

    points: Array  # (n, dim) [m]
    cells: Array  # (m, dim + 1)
    kind: Array  # (n,) int, two points of one kind share a long edge
    even: Array  # (n,) bool, alternates along long edges
    reach: tuple[float, float]  # for long and for short edges


@dataclass(frozen=True, kw_only=True, eq=False)
class Cuts:
    """The lattice after it met the body: signs of its points, and a new point on each edge still
    crossed."""

    lattice: Lattice
    sign: Array  # (n,) 1 inside, 0 on the outline, -1 outside
    keys: Array  # (k,) sorted, inside end * n + outside end
    points: Array  # (n + k, dim) [m], lattice points and then cuts

    def node(self, inner: Array, outer: Array) -> Array:
        """The point on the edge between an inside and an outside lattice point."""
        n = len(self.sign)
        return n + np.searchsorted(self.keys, inner * n + outer)

    def leads(self, a: Array, b: Array, c: Array) -> Array:
        """Whether the cut face (a, b inside, c outside) is halved from `a`: a rule on lattice
        points only, so that the cells on both sides of the face agree, and no cell gets three
        halvings in a circle."""
        kind = self.lattice.kind
        return np.where(
            kind[a] == kind[c], True, np.where(kind[b] == kind[c], False, self.lattice.even[a])
        )


class TooCoarse(MeshError):
    """The cell is larger than the body; its text names no remedy, since the caller knows a cell."""


def stuffed(inside: Inside, crossing: Crossing, bounds: tuple[Array, Array], cell: float) -> Mesh:
    """A mesh of about `cell` [m] for the body that holds the points where `inside` is true; surface
    "outside"."""
    lower, upper = bounds
    size = float(np.linalg.norm(upper - lower))
    lattice = (cubic_lattice if len(lower) == 3 else triangle_lattice)(lower, upper, cell)
    held = inside(lattice.points)
    cells = lattice.cells[held[lattice.cells].any(axis=1)]
    if not len(cells):
        raise TooCoarse(
            f"No point of a lattice of {cell:g} m lies inside the body, which is {size:.3g} m "
            "large."
        )
    cuts = snapped(lattice, cells, held, crossing)
    cells = np.vstack([cells[(cuts.sign[cells] > 0).any(axis=1)], on_outline(cuts, cells, inside)])
    if not len(cells):
        raise TooCoarse(
            f"The body, which is {size:.3g} m large, is thinner than a cell of {cell:g} m "
            "everywhere."
        )
    points, cells = compacted(
        cuts.points, np.vstack([cut(cuts, cells) for cut in CUTS[len(lower)]])
    )
    cells = oriented(points, cells)
    surfaces = {"outside": outer_facets(points, boundary_facets(cells))}
    return Mesh(
        points=points, cells=cells, regions={"body": np.arange(len(cells))}, surfaces=surfaces
    )


def snapped(lattice: Lattice, cells: Array, held: Array, crossing: Crossing) -> Cuts:
    """Move each lattice point that has a cut within reach onto its nearest cut; keep the cuts of
    the other edges."""
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
    reach = np.where(lattice.kind[a] == lattice.kind[b], *lattice.reach)
    length = np.linalg.norm(end - start, axis=1)
    ends, near = np.concatenate([a, b]), np.concatenate([t < reach, 1 - t < reach])
    gap = np.concatenate([t, 1 - t]) * np.tile(length, 2)
    order = np.flatnonzero(near)[
        np.argsort(-gap[near], kind="stable")
    ]  # the nearest cut is written last and stays
    points, sign = lattice.points.copy(), np.where(held, 1, -1)
    points[ends[order]] = np.tile(x, (2, 1))[order]
    sign[ends[order]] = 0
    left = (sign[a] != 0) & (sign[b] != 0)
    return Cuts(lattice=lattice, sign=sign, keys=keys[left], points=np.vstack([points, x[left]]))


def on_outline(cuts: Cuts, cells: Array, inside: Inside) -> Array:
    """Return the cells of thin walls: all points on the outline, the centre inside, not flat."""
    chosen = cells[(cuts.sign[cells] == 0).all(axis=1)]
    chosen = chosen[inside(cuts.points[chosen].mean(axis=1))]
    return chosen[relative_volumes(cuts.points, chosen) > FLATTEST]


def relative_volumes(points: Array, cells: Array) -> Array:
    """(k,) volume over the cube of the longest edge; area over its square in the plane."""
    x = points[cells]
    longest = np.linalg.norm(x[:, :, None] - x[:, None], axis=3).max(axis=(1, 2))
    return np.abs(signed_volumes(points, cells)) / longest ** points.shape[1]


def ranked(cuts: Cuts, cells: Array, inner: int, outer: int) -> Array:
    """The cells with that many points inside and outside, their points ordered inside, on the
    outline, outside."""
    sign = cuts.sign[cells]
    chosen = ((sign > 0).sum(axis=1) == inner) & ((sign < 0).sum(axis=1) == outer)
    order = np.argsort(-sign[chosen], axis=1, kind="stable")
    return np.take_along_axis(cells[chosen], order, axis=1)


def whole(cuts: Cuts, cells: Array) -> Array:
    return cells[(cuts.sign[cells] >= 0).all(axis=1)]


def one_inside(cuts: Cuts, cells: Array) -> Array:
    """One point inside: the outside points slide along their edges to the cuts."""
    parts = []
    for outer in range(1, cells.shape[1]):
        part = ranked(cuts, cells, 1, outer).copy()
        for column in range(cells.shape[1] - outer, cells.shape[1]):
            part[:, column] = cuts.node(part[:, 0], part[:, column])
        parts.append(part)
    return np.vstack(parts)


def two_inside_triangle(cuts: Cuts, cells: Array) -> Array:
    """Two points of a triangle inside: a quadrilateral, halved along its shorter diagonal."""
    a, b, c = ranked(cuts, cells, 2, 1).T
    A, B = cuts.node(a, c), cuts.node(b, c)
    x = cuts.points
    first = (np.linalg.norm(x[a] - x[B], axis=1) <= np.linalg.norm(x[b] - x[A], axis=1))[:, None]
    return np.where(
        np.tile(first, (2, 1)), stacked((a, b, B), (a, B, A)), stacked((a, b, A), (b, B, A))
    )


def two_inside_one_out(cuts: Cuts, cells: Array) -> Array:
    """Two points inside, one on the outline: a pyramid over a quadrilateral."""
    a, b, z, d = ranked(cuts, cells, 2, 1).T
    first = cuts.leads(a, b, d)
    a, b = np.where(first, a, b), np.where(first, b, a)
    A, B = cuts.node(a, d), cuts.node(b, d)
    return stacked((z, a, b, B), (z, a, B, A))


def two_inside_two_out(cuts: Cuts, cells: Array) -> Array:
    """Two points inside, two outside: a wedge whose third side is free."""
    a, b, c, d = ranked(cuts, cells, 2, 2).T
    lead = cuts.leads(a, b, c)
    a, b = np.where(lead, a, b), np.where(lead, b, a)  # now the face (a, b, c) is halved from a
    same = cuts.leads(a, b, d)
    ac, ad, bc, bd = cuts.node(a, c), cuts.node(a, d), cuts.node(b, c), cuts.node(b, d)
    both = stacked((a, b, bc, bd), (a, ac, bc, bd), (a, ac, bd, ad))
    mixed = stacked((a, b, bc, ad), (a, ac, bc, ad), (b, bc, bd, ad))
    return np.vstack([both[np.tile(same, 3)], mixed[np.tile(~same, 3)]])


def three_inside(cuts: Cuts, cells: Array) -> Array:
    """Three points inside: a prism, cut along the order in which its points lead."""
    abc, d = np.split(ranked(cuts, cells, 3, 1), [3], axis=1)
    wins = [
        cuts.leads(abc[:, i], abc[:, j], d[:, 0]).astype(int) for i, j in ((0, 1), (1, 2), (2, 0))
    ]
    score = np.stack([wins[0] - wins[2], wins[1] - wins[0], wins[2] - wins[1]], axis=1)
    p, q, r = np.take_along_axis(abc, np.argsort(-score, axis=1), axis=1).T
    P, Q, R = (cuts.node(v, d[:, 0]) for v in (p, q, r))
    return stacked((p, q, r, R), (p, q, Q, R), (p, P, Q, R))


def stacked(*cells: tuple[Array, ...]) -> Array:
    return np.vstack([np.column_stack(cell) for cell in cells])


CUTS: dict[int, tuple[Callable[[Cuts, Array], Array], ...]] = {
    2: (whole, one_inside, two_inside_triangle),
    3: (whole, one_inside, two_inside_one_out, two_inside_two_out, three_inside),
}


def cubic_lattice(lower: Array, upper: Array, cell: float) -> Lattice:
    """The body-centred cubic lattice: around each face of a cube, four tetrahedra between the
    middles of two cubes."""
    counts = np.ceil((upper - lower) / cell).astype(float) + 2
    check_count(12 * float(np.prod(counts)), upper - lower)
    n = counts.astype(np.int64)
    grid = np.vstack([2 * grid_of(n + 1), 2 * grid_of(n) + 1])
    corner_stride, middle_stride = (
        np.array([(n[1] + 1) * (n[2] + 1), n[2] + 1, 1]),
        np.array([n[1] * n[2], n[2], 1]),
    )
    n_corners = int(np.prod(n + 1))
    cells = []
    for axis in range(3):
        u, v = np.eye(3, dtype=np.int64)[[(axis + 1) % 3, (axis + 2) % 3]]
        step = np.eye(3, dtype=np.int64)[axis]
        cube = grid_of(n - step)
        here, there = n_corners + cube @ middle_stride, n_corners + (cube + step) @ middle_stride
        ring = [(cube + step + turn) @ corner_stride for turn in (0 * u, u, u + v, v)]
        cells += [np.column_stack([here, there, ring[i], ring[(i + 1) % 4]]) for i in range(4)]
    start = lower - cell * (1 - 0.5 * np.array(OFFSET))
    return Lattice(
        points=start + 0.5 * cell * grid,
        cells=np.vstack(cells),
        kind=grid[:, 0] % 2,
        even=(grid // 2).sum(axis=1) % 2 == 0,
        reach=(LONG, SHORT),
    )


def triangle_lattice(lower: Array, upper: Array, cell: float) -> Lattice:
    """Rows of equilateral triangles."""
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
    start = lower - cell * (1.5 - np.array(OFFSET[:2]))
    return Lattice(
        points=start + x,
        cells=np.vstack([first, second]),
        kind=np.zeros(len(x), dtype=np.int64),
        even=i % 2 == 0,
        reach=(FLAT_REACH, FLAT_REACH),
    )
