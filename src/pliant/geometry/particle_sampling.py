"""Particles inside a mesh: positions, volumes, and their derivatives by the mesh vertices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import (
    Array,
    InputError,
    MeshError,
    counted,
    finite_array,
    nearest,
    require_kind,
    require_positive,
)
from pliant.geometry.cells import signed_volumes
from pliant.geometry.locate import barycentric_gradients
from pliant.geometry.mesh import Mesh

MAX_POINTS = 5_000_000
CHUNK_SIZE = 1_000_000  # pairs of point and cell at once; limits the memory
BOUNDARY_TOLERANCE = 1e-12  # of the mesh size; closer points count as on the boundary
SAMPLING_RANGES = {
    "lattice": (0.5, 0.5),
    "jitter": (0.0, 1.0),
}  # where in its lattice cell a point may be, as a share of it


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticleSamples:
    """Material points of a mesh in lattice order, so that neighbours are close in memory."""

    points: Array  # (n, dim) [m]
    volumes: Array  # (n,) [m^3], in the plane [m^2]; over each region they sum to the region's
    cells: Array  # (n,) the mesh cell that holds each point
    nodes: Array  # (n, dim + 1) the corners of that cell
    # (n, dim + 1) barycentric coordinates in it: points = sum of barycentric times the corners
    barycentric: Array
    rest_volumes: (
        Array  # (n,) [m^3], in the plane [m^2], what the straight cell of each point holds at rest
    )
    regions: Mapping[str, Array]  # name of every region of the mesh -> indices of its points


def sample_particles(
    mesh: Mesh, *, spacing: float, method: str = "lattice", rng_seed: int = 0
) -> ParticleSamples:
    """Return points about `spacing` [m] apart inside a mesh. Cells are treated as straight.

    "lattice" places points at the centres of a lattice over the bounding box; the spacing along
    each axis is adjusted to a whole number of lattice cells. "jitter" places one random point
    (`rng_seed`) in each lattice cell and keeps it if it is inside. Raises `MeshError` if a region
    gets no particle.
    """
    require_kind("The mesh to fill with particles", mesh, Mesh, "pass a Mesh, such as robot.mesh()")
    spacing = require_positive("The spacing of particles", spacing, "m")
    if method not in SAMPLING_RANGES:
        raise InputError(
            f"There is no sampling method '{method}'; {nearest(method, SAMPLING_RANGES)}"
        )
    found = _points_inside(mesh, spacing, method, rng_seed)
    kinds = _region_combinations(mesh)
    count = np.bincount(kinds[found.cells], minlength=kinds.max() + 1)
    if not count.all():
        raise MeshError(_too_coarse_message(mesh, spacing, kinds, count))
    volumes = np.bincount(kinds, mesh.volumes()) / count
    held = {name: np.isin(found.cells, chosen) for name, chosen in mesh.regions.items()}
    return replace(
        found,
        volumes=volumes[kinds[found.cells]],
        regions={name: np.flatnonzero(mask) for name, mask in held.items()},
    )


def _points_inside(mesh: Mesh, spacing: float, method: str, rng_seed: int) -> ParticleSamples:
    """Return samples without regions; their volumes are those of the lattice cells."""
    counts, step, lower = _lattice(mesh, spacing)
    corners = mesh.points[mesh.corners]
    first, last = SAMPLING_RANGES[method]
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
    if method == "jitter":
        touched = np.unique(
            np.concatenate([np.unique(index @ stride) for _, index in _pairs(low, sizes)])
        )
        offsets = np.random.default_rng(rng_seed).random((touched.size, mesh.dim))
    slope = barycentric_gradients(mesh.points, mesh.cells)
    height = 1.0 / np.linalg.norm(slope, axis=2)
    parts = []
    for cell, index in _pairs(low, sizes):
        key = index @ stride
        x = (
            lower
            + (index + (offsets[np.searchsorted(touched, key)] if method == "jitter" else 0.5))
            * step
        )
        share = np.einsum("kij,kj->ki", slope[cell], x - corners[cell, 0])
        share[:, 0] += 1.0
        depth = (share * height[cell]).min(axis=1)
        keep = depth >= -BOUNDARY_TOLERANCE * mesh.size
        parts.append((key[keep], depth[keep], cell[keep], share[keep], x[keep]))
    key, depth, cell, share, x = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort(
        (-depth, key)
    )  # of several cells that share a point, the one it lies deepest in
    order = order[np.append(True, np.diff(key[order]) > 0)] if order.size else order
    cell = cell[order]
    return ParticleSamples(
        points=x[order],
        volumes=np.full(order.size, np.prod(step)),
        cells=cell,
        nodes=mesh.corners[cell],
        barycentric=share[order],
        rest_volumes=signed_volumes(mesh.points, mesh.corners)[cell],
        regions={},
    )


def _lattice(mesh: Mesh, spacing: float) -> tuple[Array, Array, Array]:
    """Return counts (dim,), steps (dim,) [m] and lower corner (dim,) [m] of the lattice."""
    corners = mesh.points[np.unique(mesh.corners)]
    lower, extent = corners.min(axis=0), np.ptp(corners, axis=0)
    with np.errstate(over="ignore"):  # an infinite count is an error like any too large one
        wanted = np.maximum(1.0, np.round(extent / spacing))
        expected = mesh.volumes().sum() / np.prod(extent) * np.prod(wanted)
    if not expected <= MAX_POINTS:
        raise MeshError(
            f"A spacing of {spacing:g} m would make about {expected:.3g} particles, over the "
            f"limit of {MAX_POINTS}; choose about "
            f"{(mesh.volumes().sum() / MAX_POINTS) ** (1 / mesh.dim):.2g} m or more."
        )
    counts = wanted.astype(np.int64)
    return counts, extent / counts, lower


def _pairs(low: Array, sizes: Array) -> Iterator[tuple[Array, Array]]:
    """Yield chunks (cell (k,), lattice index (k, dim)) of the lattice cells in each mesh cell's
    box."""
    start = np.concatenate([[0], np.cumsum(sizes.prod(axis=1))])
    for first in range(0, max(1, int(start[-1])), CHUNK_SIZE):
        pair = np.arange(first, min(first + CHUNK_SIZE, int(start[-1])))
        cell = np.searchsorted(start, pair, side="right") - 1
        left, index = pair - start[cell], np.empty((len(pair), low.shape[1]), np.int64)
        for axis in reversed(range(low.shape[1])):
            left, index[:, axis] = np.divmod(left, sizes[cell, axis])
        yield cell, low[cell] + index


def _region_combinations(mesh: Mesh) -> Array:
    """Return a number (n_cells,) that is equal for cells in the same regions.

    Volumes that are correct for each combination are correct for each region.
    """
    kinds = np.zeros(mesh.n_cells, np.int64)
    for chosen in mesh.regions.values():
        kinds = 2 * kinds
        kinds[chosen] += 1
        kinds = np.unique(kinds, return_inverse=True)[1]
    return kinds


def _too_coarse_message(mesh: Mesh, spacing: float, kinds: Array, count: Array) -> str:
    """Return the message for cells without a particle.

    It names the largest half, quarter, ... of the spacing at which all cells have particles.
    """
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
        mesh.volumes().sum() / finer**mesh.dim < MAX_POINTS / 10
    ]:  # a hint is not worth more points
        if np.bincount(
            kinds[_points_inside(mesh, trial, "lattice", 0).cells], minlength=kinds.max() + 1
        ).all():
            return (
                f"No particle lies {what} at a spacing of {spacing:g} m; choose about "
                f"{trial:.2g} m or less."
            )
    return f"No particle lies {what} at a spacing of {spacing:g} m; choose one below its thickness."


# Displaced meshes


def displaced(samples: ParticleSamples, vertices: Array) -> tuple[Array, Array]:
    """Return points (n, dim) [m] and volumes (n,) for moved vertices (n_vertices, dim) [m].

    Raises `MeshError` if a cell is inverted.
    """
    vertices = _validate_vertices(samples, vertices)
    ratio = signed_volumes(vertices, samples.nodes) / samples.rest_volumes
    bad = np.flatnonzero(ratio <= 0.0)
    if bad.size:
        raise MeshError(
            f"The moved vertices invert {counted(np.unique(samples.cells[bad]).size, 'cell')} that "
            f"hold particles (first: cell {samples.cells[bad[0]]}); move them less."
        )
    return np.einsum(
        "na,nai->ni", samples.barycentric, vertices[samples.nodes]
    ), ratio * samples.volumes


def displaced_vjp(
    samples: ParticleSamples, vertices: Array, points_bar: Array, volumes_bar: Array
) -> Array:
    """Return the gradient (n_vertices, dim) by the vertices from gradients by the points and
    volumes of `displaced`."""
    vertices = _validate_vertices(samples, vertices)
    volumes = signed_volumes(vertices, samples.nodes) / samples.rest_volumes * samples.volumes
    by_node = samples.barycentric[:, :, None] * points_bar[:, None] + (volumes_bar * volumes)[
        :, None, None
    ] * barycentric_gradients(vertices, samples.nodes)
    return np.stack(
        [
            np.bincount(samples.nodes.ravel(), by_node[:, :, i].ravel(), minlength=len(vertices))
            for i in range(vertices.shape[1])
        ],
        1,
    )


def _validate_vertices(samples: ParticleSamples, vertices: Array) -> Array:
    vertices = finite_array(
        "The array of vertices of a sampled mesh", vertices, (None, samples.points.shape[1]), "m"
    )
    if len(vertices) <= samples.nodes.max():
        raise InputError(
            f"There are {len(vertices)} vertices, but the particles refer to more (up to vertex "
            f"{samples.nodes.max()}); pass all points of the sampled mesh, displaced."
        )
    return vertices
