"""Cavities: the closed voids inside a body, found on its boundary."""

from collections.abc import Sequence
from itertools import permutations
from math import factorial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.geometry.cells import FACETS, group_rows, match_facets
from pliant.geometry.mesh import Mesh


def find_cavities(mesh: Mesh) -> list[Array]:
    """Return the wall (k, nodes per facet) of each closed void, in the order of mesh.boundary().

    Its facets point into the void.
    """
    return find_voids(mesh.points, mesh.boundary())


def find_voids(points: Array, facets: Array) -> list[Array]:
    """Return the parts of the outward `facets` that enclose a void."""
    parts = connected_parts(points, facets)
    return [part for part in parts if signed_enclosed_volume(points, part) < 0.0]


def outer_facets(points: Array, facets: Array) -> Array:
    """Return the facets of a closed boundary without the walls of its voids."""
    parts = [
        part
        for part in connected_parts(points, facets)
        if signed_enclosed_volume(points, part) >= 0.0
    ]
    return facets[np.sort(match_facets(np.vstack(parts), facets, points.shape[1]))]


def facet_rims(facets: Array, dim: int) -> Array:
    """Return the directed ends of edges or edges of triangles, (k, n_facets per cell, dim - 1)."""
    corners = facets[:, :dim]
    return corners[:, :, None] if dim == 2 else corners[:, np.array(FACETS[3])]


def open_rims(facets: Array, dim: int) -> Array:
    """Return the nodes (2D) or edges (3D), (m, dim - 1), where facets are not continued
    consistently.

    The result is empty for closed facets.
    """
    n = int(facets.max()) + 1
    if dim == 2:
        left, met = (np.bincount(facets[:, k], minlength=n) for k in range(2))
        return np.flatnonzero(left != met)[:, None]
    edges = facet_rims(facets, 3).reshape(-1, 2)
    forth, back = edges @ np.array([n, 1]), edges[:, ::-1] @ np.array([n, 1])
    keys, balance = np.unique(np.concatenate([forth, back]), return_inverse=True)
    unpaired = np.bincount(balance, np.repeat([1.0, -1.0], len(edges)), minlength=len(keys)) > 0.0
    return np.stack([keys[unpaired] // n, keys[unpaired] % n], axis=1)


def connected_parts(points: Array, facets: Array) -> list[Array]:
    """Return the connected parts of a boundary.

    If more than two facets share a rim, two facets are connected if they bound the same outer
    wedge. So two voids that touch are two parts, and one void that touches itself is one.
    """
    dim = points.shape[1]
    ends = facet_rims(facets, dim)
    owner = np.repeat(np.arange(len(facets)), ends.shape[1])
    order, start, count = group_rows(ends.reshape(len(owner), -1))
    pairs = start[count == 2]
    links = [np.stack([owner[order[pairs]], owner[order[pairs + 1]]])]
    crowded = order[np.repeat(count > 2, count)]
    if len(crowded):
        group = np.repeat(np.arange(start.size), count)[np.repeat(count > 2, count)]
        links.append(owner[crowded[wedges(points, facets, crowded, group)]])
    a, b = np.hstack(links)
    joined = coo_array((np.ones(len(a)), (a, b)), shape=2 * (len(facets),))
    piece = connected_components(joined, directed=False)[1]
    order = np.argsort(piece, kind="stable")
    return np.split(facets[order], np.flatnonzero(np.diff(piece[order])) + 1)


def wedges(points: Array, facets: Array, crowded: Array, group: Array) -> Array:
    """Return indices (2, k) into `crowded` of the two rims that bound each outer wedge.

    `crowded` numbers the rims of all facets, facet by facet. `group` (n,) is equal for coincident
    rims. Around a shared rim, an outer wedge extends from a facet that faces an increasing angle to
    the next facet.
    """
    angle, faces_on = rim_angles(points, facets, crowded)
    order = np.lexsort([angle, group])
    start = np.flatnonzero(np.diff(group[order], prepend=-1))
    following = np.append(order[1:], 0)
    following[np.append(start[1:], len(order)) - 1] = order[start]
    return np.stack([order, following])[:, faces_on[order]]


def rim_angles(points: Array, facets: Array, chosen: Array) -> tuple[Array, Array]:
    """Return the angle [rad] (k,) of each facet about its rim, and whether it faces an increasing
    angle."""
    dim = points.shape[1]
    facet, ends = chosen // dim, facet_rims(facets, dim).reshape(-1, dim - 1)[chosen]
    apex = points[facets[facet, :dim]].sum(axis=1) - points[ends].sum(axis=1)
    at = np.sort(ends, axis=1)
    arm = apex - points[at[:, 0]]
    if dim == 2:
        return np.arctan2(arm[:, 1], arm[:, 0]), facets[facet, 1] == at[:, 0]
    axis = points[at[:, 1]] - points[at[:, 0]]
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    first = np.cross(axis, np.eye(3)[np.abs(axis).argmin(axis=1)])
    second = np.cross(axis, first)
    x, y = np.einsum("ki,ki->k", arm, first), np.einsum("ki,ki->k", arm, second)
    return np.arctan2(y, x), ends[:, 0] == at[:, 0]


def volume_form(dim: int, order: int) -> Array:
    """Return the constant tensor of the volume below a facet as a function of its nodes y.

    The volume is the integral of x . n / dim. It is homogeneous in y: cubic in 3D, where the
    Hessian is H = S y with S (n, n, n), and quadratic in 2D, where H = S (n, n); n = dim times the
    nodes of a facet. The gradient is H y / (dim - 1) and the volume is y . gradient / dim.
    """
    parts = [weight * _outer(*facet_shape(at, order)) for at, weight in facet_rule(dim, 2)]
    integral = np.sum(parts, axis=0) / factorial(dim)
    # Only the alternating part of the integrals matters, because a determinant multiplies them.
    form = np.sum([_sign(p) * np.transpose(integral, p) for p in permutations(range(dim))], axis=0)
    axes = "abc"[:dim], "ijk"[:dim]
    mixed = "".join(a + i for a, i in zip(*axes, strict=True))
    return np.einsum(f"{axes[0]},{axes[1]}->{mixed}", form, _alternating(dim)).reshape(
        dim * (dim * len(form),)
    )


def volume_hessians(form: Array, y: Array) -> Array:
    """Return the Hessian H (k, n, n) of the volume for the nodes y (k, n) of each facet, real or
    complex."""
    return (
        np.tensordot(y, form, axes=1)
        if form.ndim == 3
        else np.broadcast_to(form, (len(y), *form.shape))
    )


def signed_enclosed_volume(points: Array, facets: Array) -> float:
    """Return the volume [m^3] (area [m^2] in 2D) inside outward facets, straight or curved.

    It is negative for the wall of a cavity.
    """
    dim = points.shape[1]
    y = (points[facets] - points[facets].mean(axis=(0, 1))).reshape(
        len(facets), -1
    )  # reduces rounding errors
    H = volume_hessians(volume_form(dim, 1 if facets.shape[1] == dim else 2), y)
    return float(np.einsum("fi,fij,fj->", y, H, y)) / (dim * (dim - 1))


def _outer(value: Array, slope: Array) -> Array:
    """Return the products N_a N_b,1 (N_c,2) that multiply the determinant of the nodes a, b (and
    c)."""
    return (
        np.einsum("a,b->ab", value, slope[:, 0])
        if slope.shape[1] == 1
        else np.einsum("a,b,c->abc", value, *slope.T)
    )


def _sign(permutation: Sequence[int]) -> float:
    """Return the sign of a permutation."""
    return float(round(np.linalg.det(np.eye(len(permutation))[list(permutation)])))


def _alternating(dim: int) -> Array:
    """Return the Levi-Civita tensor."""
    out = np.zeros(dim * (dim,))
    for p in permutations(range(dim)):
        out[p] = _sign(p)
    return out
