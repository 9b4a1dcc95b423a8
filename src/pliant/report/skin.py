"""How triangles become a smooth, lit skin: finer triangles, normals that respect creases, and
light."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pliant.core import Array

FINE = 14000  # triangles in a picture above which a finer split is no longer seen
CREASE = np.cos(
    np.deg2rad(35.0)
)  # facets that meet at a larger angle keep a sharp edge between them
KEY_LIGHT = np.array([-0.45, 0.68, 0.58])  # (right, up, to the eye): from the upper left


@dataclass(frozen=True, kw_only=True)
class Skin:
    """What the facets alone decide, made once for a scene."""

    facets: Array  # (m, 3)
    sharp: Array  # (m, 3) whether side i, from corner i to the next, is a crease or a border
    patches: Array  # (s, 3, 3) barycentric corners of the s smaller triangles of a facet
    seams: Array  # (b, 2, 3) barycentric ends of the pieces of the facet's edges
    side: Array  # (b,) which side of the facet a seam lies on
    owner: Array  # (b,) which patch a seam borders
    smooth: sparse.csr_array  # (3 m, m) sums the normals of the facets around a corner
    closed: bool  # facets that look away are hidden by others


def make_skin(facets: Array, points: Array) -> Skin:
    """The skin of facets (m, 3), with creases where points (n, dim) have them."""
    patches = _split(int(np.clip(np.sqrt(FINE / max(len(facets), 1)), 1, 8)))
    seams, side, owner = _seams(patches)
    solid = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))  # a flat body is a sheet in 3D
    facing = normals(solid[facets])
    return Skin(
        facets=facets,
        sharp=_sharp(facets, facing),
        patches=patches,
        seams=seams,
        side=side,
        owner=owner,
        smooth=_smoothing(facets, facing),
        closed=_closed(facets),
    )


def normals(corners: Array) -> Array:
    """(m, 3) unit normals of triangles with corners (m, 3, 3); zero where a triangle has no
    area."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return _unit(cross)


def corner_normals(skin: Skin, corners: Array) -> Array:
    """(m, 3, 3) a unit normal at each corner of each facet, smooth except across creases."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return _unit(skin.smooth @ cross).reshape(-1, 3, 3)


def outward(corners: Array) -> float:
    """+1 when the facets of a closed surface turn outward, -1 when inward, by the sign of the
    enclosed volume."""
    middle = corners.mean(axis=(0, 1))
    a, b, c = (corners[:, i] - middle for i in range(3))
    return 1.0 if np.einsum("ij,ij->", a, np.cross(b, c)) >= 0.0 else -1.0


def light(colours: Array, facing: Array) -> Array:
    """(..., 3) colours under a key light, a sky, a lamp at the eye and a soft gloss; `facing` (...,
    3) as KEY_LIGHT."""
    key = _unit(KEY_LIGHT)
    sky, eye = 0.5 + 0.5 * facing[..., 1], np.clip(facing[..., 2], 0.0, None)
    lambert = np.clip(facing @ key, 0.0, None)
    gloss = np.clip(facing @ _unit(key + [0.0, 0.0, 1.0]), 0.0, None) ** 24
    bright = 0.44 + 0.12 * sky + 0.24 * eye + 0.40 * lambert
    return np.clip(colours * bright[..., None] + 0.08 * gloss[..., None], 0.0, 1.0)


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0.0, length, 1.0)


def _split(n: int) -> Array:
    """(n^2, 3, 3) barycentric corners of a triangle cut into n^2 equal ones."""
    up = [[(i, j), (i + 1, j), (i, j + 1)] for i in range(n) for j in range(n - i)]
    down = [[(i + 1, j), (i + 1, j + 1), (i, j + 1)] for i in range(n) for j in range(n - i - 1)]
    ij = np.array(up + down, dtype=float) / n
    return np.concatenate([ij, 1.0 - ij.sum(axis=-1, keepdims=True)], axis=-1)


def _seams(patches: Array) -> tuple[Array, Array, Array]:
    """The sides of the patches that lie on a side of the facet: both their ends lack the same
    coordinate."""
    sides = np.stack([patches, np.roll(patches, -1, axis=1)], axis=2)  # (s, 3 sides, 2 ends, 3)
    lacks = np.abs(sides).max(axis=2) < 1e-12  # (s, 3, 3)
    owner, which, coordinate = np.nonzero(lacks)
    return (
        sides[owner, which],
        (coordinate + 1) % 3,
        owner,
    )  # side i runs from corner i to i + 1, so it lacks i + 2


def _sharp(facets: Array, facing: Array) -> Array:
    """(m, 3) sides that belong to one facet only, or to two that meet at more than the crease
    angle."""
    sides = np.sort(np.stack([facets, np.roll(facets, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, edge, count = np.unique(sides, axis=0, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), 3))
    np.add.at(total, edge, np.repeat(facing, 3, axis=0))
    cosine = (
        np.einsum("ij,ij->i", total, total) - 2.0
    ) / 2.0  # |a + b|^2 = 2 + 2 cos for two unit normals
    return ((count != 2) | (cosine < CREASE))[edge].reshape(-1, 3)


def _smoothing(facets: Array, facing: Array) -> sparse.csr_array:
    """Pairs each corner with the facets around its vertex that meet its own facet at less than the
    crease angle."""
    m = len(facets)
    vertex = facets.ravel()
    incidence = sparse.csr_array(
        (np.ones(3 * m), (vertex, np.arange(3 * m) // 3)), shape=(facets.max(initial=-1) + 1, m)
    )
    around = incidence[vertex].tocoo()
    corner, facet = around.coords
    gentle = np.einsum("ij,ij->i", facing[corner // 3], facing[facet]) > CREASE
    own = facet == corner // 3  # kept even without area, so that no corner is left without a normal
    keep = gentle | own
    return sparse.csr_array((np.ones(keep.sum()), (corner[keep], facet[keep])), shape=(3 * m, m))


def _closed(facets: Array) -> bool:
    """Whether every edge is shared by two facets that run along it in opposite directions."""
    edges = np.concatenate([facets[:, [0, 1]], facets[:, [1, 2]], facets[:, [2, 0]]])
    there = np.unique(edges, axis=0)
    back = np.unique(edges[:, ::-1], axis=0)
    return len(edges) > 0 and len(there) == len(edges) and np.array_equal(there, back)
