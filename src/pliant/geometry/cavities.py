"""Cavities: the closed voids inside a body, found in its boundary and measured by their walls."""

from collections.abc import Sequence
from itertools import permutations
from math import factorial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.geometry.cells import FACETS, matched, sorted_groups
from pliant.geometry.mesh import Mesh


def cavities(mesh: Mesh) -> list[Array]:
    """Return the wall (k, nodes per facet) of each closed void, in the order of mesh.boundary().
    Its facets point into the void."""
    return voids(mesh.points, mesh.boundary())


def voids(points: Array, facets: Array) -> list[Array]:
    """Return the parts of the outward `facets` that enclose a void."""
    parts = connected(points, facets)
    return [part for part in parts if enclosed(points, part) < 0.0]


def outer_facets(points: Array, facets: Array) -> Array:
    """Return the facets of a closed boundary without the walls of its voids."""
    parts = [part for part in connected(points, facets) if enclosed(points, part) >= 0.0]
    return facets[np.sort(matched(np.vstack(parts), facets, points.shape[1]))]


def rims(facets: Array, dim: int) -> Array:
    """(k, n_facets per cell, dim - 1) the directed ends of edges or edges of triangles, each as its
    outgoing sense has it."""
    corners = facets[:, :dim]
    return corners[:, :, None] if dim == 2 else corners[:, np.array(FACETS[3])]


def open_rims(facets: Array, dim: int) -> Array:
    """(m, dim - 1) the nodes (plane) or edges (space) where facets do not go on in the same sense;
    none where they are closed."""
    n = int(facets.max()) + 1
    if dim == 2:
        left, met = (np.bincount(facets[:, k], minlength=n) for k in range(2))
        return np.flatnonzero(left != met)[:, None]
    edges = rims(facets, 3).reshape(-1, 2)
    forth, back = edges @ np.array([n, 1]), edges[:, ::-1] @ np.array([n, 1])
    keys, balance = np.unique(np.concatenate([forth, back]), return_inverse=True)
    unpaired = np.bincount(balance, np.repeat([1.0, -1.0], len(edges)), minlength=len(keys)) > 0.0
    return np.stack([keys[unpaired] // n, keys[unpaired] % n], axis=1)


def connected(points: Array, facets: Array) -> list[Array]:
    """Return the connected parts of a boundary.

    Where more than two facets meet at a rim, two facets are connected if they bound the same
    outer wedge. So two voids that touch are two, and one that touches itself is one."""
    dim = points.shape[1]
    ends = rims(facets, dim)
    owner = np.repeat(np.arange(len(facets)), ends.shape[1])
    order, start, count = sorted_groups(ends.reshape(len(owner), -1))
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
    """(2, k) indices into `crowded`, the two rims that bound each outer wedge.

    `crowded` numbers the rims of all facets, facet by facet; `group` (n,) tells which coincide.
    Around a shared rim, an outer wedge runs from a facet that faces a growing angle to the next."""
    angle, faces_on = rim_angles(points, facets, crowded)
    order = np.lexsort([angle, group])
    start = np.flatnonzero(np.diff(group[order], prepend=-1))
    following = np.append(order[1:], 0)
    following[np.append(start[1:], len(order)) - 1] = order[start]
    return np.stack([order, following])[:, faces_on[order]]


def rim_angles(points: Array, facets: Array, chosen: Array) -> tuple[Array, Array]:
    """Return the angle [rad] (k,) of each facet about its rim, and whether it faces a growing
    angle."""
    dim = points.shape[1]
    facet, ends = chosen // dim, rims(facets, dim).reshape(-1, dim - 1)[chosen]
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
    """The constant tensor of what a facet's nodes y add to the enclosed volume, the integral of x .
    n / dim over it.

    It is homogeneous in y: a cubic form in space, where S (n, n, n) gives H = S y, and a quadratic
    one in the plane, where H = S (n, n); n = dim times the nodes of a facet. With H the Hessian,
    the gradient is H y / (dim - 1) and the volume y . gradient / dim.
    """
    parts = [weight * _outer(*facet_shape(at, order)) for at, weight in facet_rule(dim, 2)]
    integral = np.sum(parts, axis=0) / factorial(dim)
    # Of the nodes' integrals only the alternating share counts, since a determinant of the nodes'
    # positions multiplies them.
    form = np.sum([_sign(p) * np.transpose(integral, p) for p in permutations(range(dim))], axis=0)
    axes = "abc"[:dim], "ijk"[:dim]
    mixed = "".join(a + i for a, i in zip(*axes, strict=True))
    return np.einsum(f"{axes[0]},{axes[1]}->{mixed}", form, _alternating(dim)).reshape(
        dim * (dim * len(form),)
    )


def volume_hessians(form: Array, y: Array) -> Array:
    """(k, n, n) the Hessian H of the volume for the nodes y (k, n) of each facet; takes complex
    y."""
    return (
        np.tensordot(y, form, axes=1)
        if form.ndim == 3
        else np.broadcast_to(form, (len(y), *form.shape))
    )


def enclosed(points: Array, facets: Array) -> float:
    """[m^3], in the plane [m^2]: what outward facets enclose, curved ones too; negative for the
    wall of a cavity."""
    dim = points.shape[1]
    y = (points[facets] - points[facets].mean(axis=(0, 1))).reshape(
        len(facets), -1
    )  # near the origin, where rounding is least
    H = volume_hessians(volume_form(dim, 1 if facets.shape[1] == dim else 2), y)
    return float(np.einsum("fi,fij,fj->", y, H, y)) / (dim * (dim - 1))


def _outer(value: Array, slope: Array) -> Array:
    """N_a N_b,1 (N_c,2): what multiplies the determinant of the nodes a, b (and c)."""
    return (
        np.einsum("a,b->ab", value, slope[:, 0])
        if slope.shape[1] == 1
        else np.einsum("a,b,c->abc", value, *slope.T)
    )


def _sign(permutation: Sequence[int]) -> float:
    return float(round(np.linalg.det(np.eye(len(permutation))[list(permutation)])))


def _alternating(dim: int) -> Array:
    """The Levi-Civita tensor."""
    out = np.zeros(dim * (dim,))
    for p in permutations(range(dim)):
        out[p] = _sign(p)
    return out
