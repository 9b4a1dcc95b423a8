"""Cavities: the closed voids inside a body, found among its boundary, named, and measured by the
walls around them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import factorial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pliant.core import Array, InputError
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.geometry.cells import FACETS, sorted_groups
from pliant.geometry.mesh import Mesh


def cavities(mesh: Mesh) -> list[Array]:
    """The walls (k, nodes per facet) of each closed void, in the order of mesh.boundary(); their
    facets point into the void."""
    return [
        wall for wall in connected(mesh.boundary(), mesh.dim) if enclosed(mesh.points, wall) < 0.0
    ]


def with_cavities(mesh: Mesh, names: Sequence[str] | None = None) -> Mesh:
    """`mesh` with a surface for the wall of each of its cavities: `names` in the order of
    `cavities`, or "cavity-1", "cavity-2"..."""
    walls = cavities(mesh)
    names = [f"cavity-{k + 1}" for k in range(len(walls))] if names is None else list(names)
    if not walls:
        raise InputError(
            "The mesh has no cavity: its boundary has no part that encloses a void. Leave a "
            "closed void in the body, at least a cell wide."
        )
    if len(names) != len(walls):
        places = ", ".join(
            str(mesh.points[wall].mean(axis=(0, 1)).round(6).tolist()) for wall in walls
        )
        raise InputError(
            f"There are {len(names)} names for {len(walls)} cavities; give one for each of those "
            f"about {places} m."
        )
    taken = [name for k, name in enumerate(names) if name in mesh.surfaces or name in names[:k]]
    if taken:
        raise InputError(
            f"'{taken[0]}' already names a surface of the mesh; give the cavity another name."
        )
    return replace(mesh, surfaces={**mesh.surfaces, **dict(zip(names, walls, strict=True))})


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


def connected(facets: Array, dim: int) -> list[Array]:
    """The facets, apart into the pieces that hang together. A rim of more than two facets, where
    two voids touch, joins nothing."""
    ends = rims(facets, dim)
    owner = np.repeat(np.arange(len(facets)), ends.shape[1])
    order, start, count = sorted_groups(ends.reshape(len(owner), -1))
    pairs = start[count == 2]
    joined = coo_array(
        (np.ones(len(pairs)), (owner[order[pairs]], owner[order[pairs + 1]])),
        shape=2 * (len(facets),),
    )
    n, piece = connected_components(joined, directed=False)
    return [facets[piece == k] for k in range(n)]


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
