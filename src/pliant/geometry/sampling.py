"""Particles inside a mesh: where they are, what volume each stands for, and how both follow the
mesh's vertices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import (
    Array,
    InputError,
    MeshError,
    finite_array,
    nearest,
    require_kind,
    require_positive,
)
from pliant.geometry.cells import signed_volumes
from pliant.geometry.locate import slopes
from pliant.geometry.mesh import Mesh

MOST_POINTS = 5_000_000
CHUNK = 1_000_000  # pairs of a point and a cell looked at together, bounds the memory
ROUND_OFF = 1e-12  # of the mesh's size: how far outside a point still counts as on the boundary
SPANS = {
    "lattice": (0.5, 0.5),
    "jitter": (0.0, 1.0),
}  # where in its lattice cell a point may be, as a share of it


@dataclass(frozen=True, kw_only=True, eq=False)
class Seeds:
    """Material points of a mesh, in the order of the lattice, so that neighbours in space are near
    in memory."""

    points: Array  # (n, dim) [m]
    volumes: Array  # (n,) [m^3], in the plane [m^2]; over each region they sum to the region's
    cells: Array  # (n,) the mesh cell that holds each point
    nodes: Array  # (n, dim + 1) the corners of that cell
    # (n, dim + 1) barycentric coordinates in it: points = sum of shares times the corners
    shares: Array
    measures: (
        Array  # (n,) [m^3], in the plane [m^2], what the straight cell of each point holds at rest
    )
    regions: Mapping[str, Array]  # name of every region of the mesh -> indices of its points


def seed(mesh: Mesh, *, spacing: float, how: str = "lattice", rng_seed: int = 0) -> Seeds:
    """Points about `spacing` [m] apart inside a mesh, whose cells are taken as straight.

    "lattice": at the middles of the cells of a lattice over the bounding box, with the spacing
    along each axis mended so that a whole number fits. "jitter": one point anywhere in each lattice
    cell, random from `rng_seed`, and kept if it is inside.
    """
    require_kind("The mesh to fill with particles", mesh, Mesh, "pass a Mesh, such as robot.mesh()")
    spacing = require_positive("The spacing of particles", spacing, "m")
    if how not in SPANS:
        raise InputError(f"There is no seeding '{how}'; {nearest(how, SPANS)}")
    found = _inside(mesh, spacing, how, rng_seed)
    kinds = _kinds(mesh)
    count = np.bincount(kinds[found.cells], minlength=kinds.max() + 1)
    if not count.all():
        raise MeshError(_too_coarse(mesh, spacing, kinds, count))
    volumes = np.bincount(kinds, mesh.volumes()) / count
    held = {name: np.isin(found.cells, chosen) for name, chosen in mesh.regions.items()}
    return replace(
        found,
        volumes=volumes[kinds[found.cells]],
        regions={name: np.flatnonzero(mask) for name, mask in held.items()},
    )


def _inside(mesh: Mesh, spacing: float, how: str, rng_seed: int) -> Seeds:
    """Seeds without regions; their volumes are those of the lattice."""
    counts, step, lower = _lattice(mesh, spacing)
    corners = mesh.points[mesh.corners]
    first, last = SPANS[how]
    low = (
        np.ceil((corners.min(axis=1) - lower) / step - last - 1e-9)
        .astype(np.int64)
        .clip(0, counts - 1)
    )
    high = (
        np.floor((corners.max(axis=1) - lower) / step - first + 1e-9)
        .astype(np.int64)
        .clip(-1, counts - 1)
    )
    sizes = np.maximum(high - low + 1, 0)
    stride = np.append(np.cumprod(counts[::-1])[-2::-1], 1)
    touched, offsets = np.zeros(0, np.int64), np.zeros((0, mesh.dim))
    if how == "jitter":
        touched = np.unique(
            np.concatenate([np.unique(index @ stride) for _, index in _pairs(low, sizes)])
        )
        offsets = np.random.default_rng(rng_seed).random((touched.size, mesh.dim))
    slope = slopes(mesh.points, mesh.cells)
    height = 1.0 / np.linalg.norm(slope, axis=2)
    parts = []
    for cell, index in _pairs(low, sizes):
        key = index @ stride
        x = (
            lower
            + (index + (offsets[np.searchsorted(touched, key)] if how == "jitter" else 0.5)) * step
        )
        share = np.einsum("kij,kj->ki", slope[cell], x - corners[cell, 0])
        share[:, 0] += 1.0
        depth = (share * height[cell]).min(axis=1)
        keep = depth >= -ROUND_OFF * mesh.size
        parts.append((key[keep], depth[keep], cell[keep], share[keep], x[keep]))
    key, depth, cell, share, x = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort(
        (-depth, key)
    )  # of several cells that share a point, the one it lies deepest in
    order = order[np.append(True, np.diff(key[order]) > 0)] if order.size else order
    cell = cell[order]
    return Seeds(
        points=x[order],
        volumes=np.full(order.size, np.prod(step)),
        cells=cell,
        nodes=mesh.corners[cell],
        shares=share[order],
        measures=signed_volumes(mesh.points, mesh.corners)[cell],
        regions={},
    )


def _lattice(mesh: Mesh, spacing: float) -> tuple[Array, Array, Array]:
    """(counts (dim,), step (dim,) [m], lower corner (dim,) [m]) of the lattice over the bounding
    box."""
    corners = mesh.points[np.unique(mesh.corners)]
    lower, extent = corners.min(axis=0), np.ptp(corners, axis=0)
    with np.errstate(over="ignore"):  # an endless count is refused like any other that is too large
        wanted = np.maximum(1.0, np.round(extent / spacing))
        expected = mesh.volumes().sum() / np.prod(extent) * np.prod(wanted)
    if not expected <= MOST_POINTS:
        raise MeshError(
            f"A spacing of {spacing:g} m would make about {expected:.3g} particles, over the "
            f"limit of {MOST_POINTS}; choose about "
            f"{(mesh.volumes().sum() / MOST_POINTS) ** (1 / mesh.dim):.2g} m or more."
        )
    counts = wanted.astype(np.int64)
    return counts, extent / counts, lower


def _pairs(low: Array, sizes: Array) -> Iterator[tuple[Array, Array]]:
    """Chunks (cell (k,), lattice index (k, dim)) of all lattice cells in the box of each mesh cell,
    from its lowest and its size."""
    start = np.concatenate([[0], np.cumsum(sizes.prod(axis=1))])
    for first in range(0, max(1, int(start[-1])), CHUNK):
        pair = np.arange(first, min(first + CHUNK, int(start[-1])))
        cell = np.searchsorted(start, pair, side="right") - 1
        left, index = pair - start[cell], np.empty((len(pair), low.shape[1]), np.int64)
        for axis in reversed(range(low.shape[1])):
            left, index[:, axis] = np.divmod(left, sizes[cell, axis])
        yield cell, low[cell] + index


def _kinds(mesh: Mesh) -> Array:
    """(n_cells,) cells of one kind lie in the same regions, so that volumes right for every kind
    are right for every region."""
    kinds = np.zeros(mesh.n_cells, np.int64)
    for chosen in mesh.regions.values():
        kinds = 2 * kinds
        kinds[chosen] += 1
        kinds = np.unique(kinds, return_inverse=True)[1]
    return kinds


def _too_coarse(mesh: Mesh, spacing: float, kinds: Array, count: Array) -> str:
    """The sentence for cells that hold no particle, with the largest half, quarter, ... of the
    spacing at which all do."""
    if count.any():
        cell = np.flatnonzero(kinds == np.argmin(count))[0]
        names = [f"'{name}'" for name, chosen in mesh.regions.items() if cell in chosen]
        what = (
            f"in the region {' and '.join(names)}"
            if names
            else "in the cells that belong to no region"
        )
    else:
        what = "inside the mesh"
    finer = spacing / 2.0 ** np.arange(1, 12)
    for trial in finer[
        mesh.volumes().sum() / finer**mesh.dim < MOST_POINTS / 10
    ]:  # a hint is not worth more points
        if np.bincount(
            kinds[_inside(mesh, trial, "lattice", 0).cells], minlength=kinds.max() + 1
        ).all():
            return (
                f"No particle lies {what} at a spacing of {spacing:g} m; choose about "
                f"{trial:.2g} m or less."
            )
    return f"No particle lies {what} at a spacing of {spacing:g} m; choose one below its thickness."


# Moving the mesh


def moved(seeds: Seeds, vertices: Array) -> tuple[Array, Array]:
    """(points (n, dim) [m], volumes (n,)) of the same material points when the mesh's vertices
    (n_vertices, dim) [m] have moved."""
    vertices = _checked(seeds, vertices)
    ratio = signed_volumes(vertices, seeds.nodes) / seeds.measures
    bad = np.flatnonzero(ratio <= 0.0)
    if bad.size:
        raise MeshError(
            f"The moved vertices invert {np.unique(seeds.cells[bad]).size} cells that hold "
            f"particles (first: cell {seeds.cells[bad[0]]}); move them less."
        )
    return np.einsum("na,nai->ni", seeds.shares, vertices[seeds.nodes]), ratio * seeds.volumes


def moved_back(seeds: Seeds, vertices: Array, points_bar: Array, volumes_bar: Array) -> Array:
    """(n_vertices, dim) the gradient by the vertices of what has these gradients by the points and
    volumes of `moved`."""
    vertices = _checked(seeds, vertices)
    volumes = signed_volumes(vertices, seeds.nodes) / seeds.measures * seeds.volumes
    by_node = seeds.shares[:, :, None] * points_bar[:, None] + (volumes_bar * volumes)[
        :, None, None
    ] * slopes(vertices, seeds.nodes)
    return np.stack(
        [
            np.bincount(seeds.nodes.ravel(), by_node[:, :, i].ravel(), minlength=len(vertices))
            for i in range(vertices.shape[1])
        ],
        1,
    )


def _checked(seeds: Seeds, vertices: Array) -> Array:
    vertices = finite_array(
        "The array of vertices of a seeded mesh", vertices, (None, seeds.points.shape[1]), "m"
    )
    if len(vertices) <= seeds.nodes.max():
        raise InputError(
            f"There are {len(vertices)} vertices, but particles lie between more (up to vertex "
            f"{seeds.nodes.max()}); pass the points of the mesh that was seeded, moved."
        )
    return vertices
