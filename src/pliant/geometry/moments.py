"""The first moment of what facets enclose, and its derivatives: with the volume, all that the
weight of a fluid needs."""

from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.kernels.threads import for_reading, run


class Rule(NamedTuple):
    """A quadrature on a facet. In the plane the rows of the third direction are empty."""

    weights: Array  # (q,) with the divisor dim + 1 and the measure of the reference facet
    shapes: Array  # (q, nodes, 3) shape functions, then their slopes along the facet
    # (q, pairs of nodes a < b, 3) entry s: the determinant of the two others of `shapes` at a and b
    pairs: Array


def first_moment(
    y: Array, dim: int, order: int, g: Array, *, bends: bool = True
) -> tuple[Array, Array, Array]:
    """The integral of g . x over what outward facets enclose, by the divergence theorem that of (g
    . x)(x . n) / (dim + 1) over them.

    y (k, nodes dim) [m] are the nodes of each facet, edges (dim 2) or triangles (dim 3), straight
    (order 1) or curved (order 2), corners first; complex ones too. Gives the moment () [m^(dim + 1)
    times the unit of g], its slope (k, nodes dim) and its Hessians (k, nodes dim, nodes dim),
    exact: each facet adds a form of degree dim + 1 in its nodes. Without `bends` the Hessians,
    which are most of the work, are left out: their number is zero.
    """
    rule = _rule(dim, order)
    kind = np.result_type(y, g, float)
    nodes, g = (
        for_reading(np.asarray(y, dtype=kind).reshape(len(y), -1, dim)),
        np.append(g, np.zeros(3 - dim)).astype(kind),
    )
    value, slope, hessian = run(_moments, len(y) * len(rule.weights), nodes, g, rule, bends)
    return value.sum(), slope.reshape(y.shape), hessian.reshape(-1, *2 * y.shape[1:])


@cache
def _rule(dim: int, order: int) -> Rule:
    points = _conical_rule() if (dim, order) == (3, 2) else facet_rule(dim, order)
    shapes = np.array([np.column_stack(facet_shape(at, order)) for at, _ in points])
    shapes = np.concatenate([shapes, np.zeros((*shapes.shape[:2], 3 - dim))], axis=2)
    products = [shapes[:, :, (s + 1) % 3, None] * shapes[:, None, :, (s + 2) % 3] for s in range(3)]
    b, a = np.tril_indices(shapes.shape[1], -1)
    pairs = np.stack([product[:, a, b] - product[:, b, a] for product in products], axis=2)
    return Rule(np.array([w for _, w in points]) / ((dim + 1) * factorial(dim - 1)), shapes, pairs)


def _conical_rule() -> list[tuple[Array, float]]:
    """Sixteen points on a triangle, exact to degree 6, which the moment of a curved one has: a
    square's Gauss points, drawn together."""
    s, w = np.polynomial.legendre.leggauss(4)
    s, w = 0.5 * (1.0 + s), 0.5 * w
    return [
        (np.array([a, (1.0 - a) * b, (1.0 - a) * (1.0 - b)]), 2.0 * (1.0 - a) * u * v)
        for a, u in zip(s, w, strict=True)
        for b, v in zip(s, w, strict=True)
    ]


@njit(error_model="numpy", cache=True, parallel=True)
def _moments(nodes, g, rule, bends):
    """(moments (k,), slopes (k, nodes, dim), Hessians (k, nodes, dim, nodes, dim), none unless it
    `bends`) of each facet."""
    k, n, dim = nodes.shape
    value, slope = np.zeros(k, nodes.dtype), np.zeros((k, n, dim), nodes.dtype)
    hessian = np.empty((k if bends else 0, n, dim, n, dim), nodes.dtype)
    for f in prange(k):
        row, steep, axes = (
            np.empty((n, dim), nodes.dtype),
            np.zeros((n, n, dim), nodes.dtype),
            np.zeros((rule.pairs.shape[1], 3), nodes.dtype),
        )
        for q in range(rule.weights.shape[0]):
            value[f] += _add_point(nodes[f], g, rule, q, slope[f], row, steep, axes, bends)
        if bends:
            _assemble(g, steep, axes, hessian[f])
    return value, slope, hessian


@njit(error_model="numpy", cache=True)
def _add_point(nodes, g, rule, q, slope, row, steep, axes, bends):
    """Adds the share of one point: of the slope and, where it `bends`, of N_a d(det)/dy_b and of
    what turns one coordinate to another. Gives its moment.

    The moment is weight (g . x) det(x, t1, t2), in the plane with t2 out of it; the determinant has
    the cross products of its rows as its slope.
    """
    w, x, t1 = rule.weights[q], _row(nodes, rule.shapes[q], 0), _row(nodes, rule.shapes[q], 1)
    t2 = (
        _row(nodes, rule.shapes[q], 2)
        if nodes.shape[1] == 3
        else (0.0 * x[0], 0.0 * x[0], 0.0 * x[0] + 1.0)
    )
    c0, c1, c2 = _cross(t1, t2), _cross(t2, x), _cross(x, t1)
    depth = w * (g[0] * x[0] + g[1] * x[1] + g[2] * x[2])
    content = w * (x[0] * c0[0] + x[1] * c0[1] + x[2] * c0[2])
    for b in range(nodes.shape[0]):
        s0, s1, s2 = rule.shapes[q, b, 0], rule.shapes[q, b, 1], rule.shapes[q, b, 2]
        for j in range(nodes.shape[1]):
            row[b, j] = s0 * c0[j] + s1 * c1[j] + s2 * c2[j]
            slope[b, j] += depth * row[b, j] + content * s0 * g[j]
    if not bends:
        return depth * content / w
    for a in range(nodes.shape[0]):
        N = w * rule.shapes[q, a, 0]
        for b in range(nodes.shape[0]):
            for j in range(nodes.shape[1]):
                steep[a, b, j] += N * row[b, j]
    for m in range(rule.pairs.shape[1]):
        p0, p1, p2 = (
            depth * rule.pairs[q, m, 0],
            depth * rule.pairs[q, m, 1],
            depth * rule.pairs[q, m, 2],
        )
        for i in range(3):
            axes[m, i] += p0 * x[i] + p1 * t1[i] + p2 * t2[i]
    return depth * content / w


@njit(error_model="numpy", cache=True)
def _row(nodes, shapes, s):
    """The place, or a tangent, of a facet, as a vector of three."""
    x = y = z = 0.0 * nodes[0, 0]
    for a in range(nodes.shape[0]):
        x += shapes[a, s] * nodes[a, 0]
        y += shapes[a, s] * nodes[a, 1]
        if nodes.shape[1] == 3:
            z += shapes[a, s] * nodes[a, 2]
    return x, y, z


@njit(error_model="numpy", cache=True)
def _cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(error_model="numpy", cache=True)
def _assemble(g, steep, axes, hessian):
    """g_i N_a d(det)/dy_bj and its mirror image, and the second derivative of the determinant,
    whose block (a, b) is a cross product."""
    n, dim = hessian.shape[0], hessian.shape[1]
    for a in range(n):
        for b in range(n):
            for i in range(dim):
                for j in range(dim):
                    hessian[a, i, b, j] = g[i] * steep[a, b, j] + g[j] * steep[b, a, i]
    m = 0
    for b in range(n):
        for a in range(b):
            for i in range(dim if dim == 3 else 1):
                j, turn = (i + 1) % 3, axes[m, (i + 2) % 3]
                hessian[a, i, b, j] += turn
                hessian[a, j, b, i] -= turn
                hessian[b, j, a, i] += turn
                hessian[b, i, a, j] -= turn
            m += 1
