"""Smooth shading of a triangulated surface: subdivision, vertex normals with creases, and
lighting."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pliant.core import Array

MAX_TRIANGLES = 14000  # in a picture; a finer subdivision is not visible
CREASE = np.cos(np.deg2rad(35.0))  # the edge between facets at a larger angle stays sharp
KEY_LIGHT = np.array([-0.45, 0.68, 0.58])  # direction (right, up, to the camera) of the light


@dataclass(frozen=True, kw_only=True)
class Skin:
    """Shading data of a triangulated surface that are the same in all frames."""

    facets: Array  # (m, 3)
    sharp: Array  # (m, 3) whether side i, from corner i to the next, is a crease or a boundary edge
    patches: Array  # (s, 3, 3) barycentric corners of the s patches that a facet is split into
    seams: Array  # (b, 2, 3) barycentric ends of the patch sides that lie on facet sides
    side: Array  # (b,) facet side of each seam
    owner: Array  # (b,) patch of each seam
    smooth: sparse.csr_array  # (3 m, m) sums the normals of the facets around a corner
    closed: bool  # the surface is closed, so facets that face away are hidden


def make_skin(facets: Array, points: Array) -> Skin:
    """Return the shading data of facets (m, 3). Points (n, dim) [m] determine the creases."""
    patches = _split(int(np.clip(np.sqrt(MAX_TRIANGLES / max(len(facets), 1)), 1, 8)))
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
    """Return the unit normals (m, 3) of triangles with corners (m, 3, 3); zero for a triangle
    without area."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return _unit(cross)


def corner_normals(skin: Skin, corners: Array) -> Array:
    """Return the unit normals (m, 3, 3) at the corners of each facet, smooth except at creases."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return _unit(skin.smooth @ cross).reshape(-1, 3, 3)


def outward(corners: Array) -> float:
    """Return +1 if the normals of a closed surface point outward, -1 if inward. This is the sign of
    the enclosed volume."""
    middle = corners.mean(axis=(0, 1))
    a, b, c = (corners[:, i] - middle for i in range(3))
    return 1.0 if np.einsum("ij,ij->", a, np.cross(b, c)) >= 0.0 else -1.0


def light(colours: Array, facing: Array) -> Array:
    """Return the lit colours (..., 3) of surfaces with unit normals `facing` (..., 3) in camera
    coordinates. The lights are a key light, the sky and a light at the camera."""
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
    """Return the barycentric corners (n^2, 3, 3) of n^2 equal parts of a triangle."""
    up = [[(i, j), (i + 1, j), (i, j + 1)] for i in range(n) for j in range(n - i)]
    down = [[(i + 1, j), (i + 1, j + 1), (i, j + 1)] for i in range(n) for j in range(n - i - 1)]
    ij = np.array(up + down, dtype=float) / n
    return np.concatenate([ij, 1.0 - ij.sum(axis=-1, keepdims=True)], axis=-1)


def _seams(patches: Array) -> tuple[Array, Array, Array]:
    """Return the patch sides that lie on a facet side, the facet side and the patch of each. Both
    ends of such a side have the same zero barycentric coordinate."""
    sides = np.stack([patches, np.roll(patches, -1, axis=1)], axis=2)  # (s, 3 sides, 2 ends, 3)
    is_zero = np.abs(sides).max(axis=2) < 1e-12  # (s, 3, 3)
    owner, which, coordinate = np.nonzero(is_zero)
    # side i runs from corner i to i + 1, so its coordinate i + 2 is zero
    return sides[owner, which], (coordinate + 1) % 3, owner


def _sharp(facets: Array, facing: Array) -> Array:
    """Return whether each facet side (m, 3) belongs to one facet only, or to two that meet at more
    than the crease angle."""
    sides = np.sort(np.stack([facets, np.roll(facets, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, edge, count = np.unique(sides, axis=0, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), 3))
    np.add.at(total, edge, np.repeat(facing, 3, axis=0))
    # |a + b|^2 = 2 + 2 cos(angle) for two unit normals a and b
    cosine = (np.einsum("ij,ij->i", total, total) - 2.0) / 2.0
    return ((count != 2) | (cosine < CREASE))[edge].reshape(-1, 3)


def _smoothing(facets: Array, facing: Array) -> sparse.csr_array:
    """Return the matrix (3 m, m) that sums the facet normals at each corner. Facets that meet the
    corner's own facet at more than the crease angle are left out."""
    m = len(facets)
    vertex = facets.ravel()
    incidence = sparse.csr_array(
        (np.ones(3 * m), (vertex, np.arange(3 * m) // 3)), shape=(facets.max(initial=-1) + 1, m)
    )
    around = incidence[vertex].tocoo()
    corner, facet = around.coords
    smooth = np.einsum("ij,ij->i", facing[corner // 3], facing[facet]) > CREASE
    own = facet == corner // 3  # always kept, so that every corner has a normal
    keep = smooth | own
    return sparse.csr_array((np.ones(keep.sum()), (corner[keep], facet[keep])), shape=(3 * m, m))


def _closed(facets: Array) -> bool:
    """Return whether every edge is shared by two facets, in opposite directions."""
    edges = np.concatenate([facets[:, [0, 1]], facets[:, [1, 2]], facets[:, [2, 0]]])
    distinct = np.unique(edges, axis=0)
    reverse = np.unique(edges[:, ::-1], axis=0)
    return len(edges) > 0 and len(distinct) == len(edges) and np.array_equal(distinct, reverse)
