"""The first moment of the volume inside facets and its derivatives, for the weight of a fluid."""

from functools import cache
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from pliant.core import Array
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.kernels.threads import read_only, run_kernel


class QuadratureRule(NamedTuple):
    """A quadrature rule on a facet. In 2D the rows of the third direction are zero."""

    weights: Array  # (q,) with the divisor dim + 1 and the measure of the reference facet
    shapes: Array  # (q, nodes, 3) shape functions, then their derivatives along the facet
    # (q, pairs of nodes a < b, 3) entry s: determinant of the other two entries of `shapes`
    pairs: Array


def first_moment(
    y: Array, dim: int, order: int, g: Array, *, with_hessian: bool = True
) -> tuple[Array, Array, Array]:
    """Return the integral of g . x over the volume inside outward facets, its gradient and its
    Hessians.

    By the divergence theorem it is the integral of (g . x)(x . n) / (dim + 1) over the facets. `y`
    (k, nodes dim) [m], real or complex, are the nodes of each facet, corners first: edges (dim 2)
    or triangles (dim 3), straight (order 1) or curved (order 2).

    The moment [m^(dim + 1) times the unit of g], the gradient (k, nodes dim) and the Hessians (k,
    nodes dim, nodes dim) are exact: each facet adds a polynomial of degree dim + 1. Without
    `with_hessian` the Hessians, which are most of the work, have length zero.
    """
    rule = _rule(dim, order)
    kind = np.result_type(y, g, float)
    nodes, g = (
        read_only(np.asarray(y, dtype=kind).reshape(len(y), -1, dim)),
        np.append(g, np.zeros(3 - dim)).astype(kind),
    )
    value, gradient, hessian = run_kernel(
        _moments, len(y) * len(rule.weights), nodes, g, rule, with_hessian
    )
    return value.sum(), gradient.reshape(y.shape), hessian.reshape(-1, *2 * y.shape[1:])


@cache
def _rule(dim: int, order: int) -> QuadratureRule:
    """Return a quadrature rule that is exact for the moment."""
    points = _conical_rule() if (dim, order) == (3, 2) else facet_rule(dim, order)
    shapes = np.array([np.column_stack(facet_shape(at, order)) for at, _ in points])
    shapes = np.concatenate([shapes, np.zeros((*shapes.shape[:2], 3 - dim))], axis=2)
    products = [shapes[:, :, (s + 1) % 3, None] * shapes[:, None, :, (s + 2) % 3] for s in range(3)]
    b, a = np.tril_indices(shapes.shape[1], -1)
    pairs = np.stack([product[:, a, b] - product[:, b, a] for product in products], axis=2)
    return QuadratureRule(
        np.array([w for _, w in points]) / ((dim + 1) * factorial(dim - 1)), shapes, pairs
    )


def _conical_rule() -> list[tuple[Array, float]]:
    """Return sixteen points on a triangle, exact to degree 6: Gauss points of a square, collapsed.

    The moment of a curved triangle has degree 6.
    """
    s, w = np.polynomial.legendre.leggauss(4)
    s, w = 0.5 * (1.0 + s), 0.5 * w
    return [
        (np.array([a, (1.0 - a) * b, (1.0 - a) * (1.0 - b)]), 2.0 * (1.0 - a) * u * v)
        for a, u in zip(s, w, strict=True)
        for b, v in zip(s, w, strict=True)
    ]


@njit(error_model="numpy", cache=True, parallel=True)
def _moments(nodes: Any, g: Any, rule: Any, with_hessian: Any) -> Any:
    """Return moments (k,), gradients (k, nodes, dim) and Hessians (k, nodes, dim, nodes, dim) of
    facets.

    There are no Hessians unless `with_hessian` is true.
    """
    k, n, dim = nodes.shape
    value, gradient = np.zeros(k, nodes.dtype), np.zeros((k, n, dim), nodes.dtype)
    hessian = np.empty((k if with_hessian else 0, n, dim, n, dim), nodes.dtype)
    for f in prange(k):
        row, mixed, axes = (
            np.empty((n, dim), nodes.dtype),
            np.zeros((n, n, dim), nodes.dtype),
            np.zeros((rule.pairs.shape[1], 3), nodes.dtype),
        )
        for q in range(rule.weights.shape[0]):
            value[f] += _add_point(
                nodes[f], g, rule, q, gradient[f], row, mixed, axes, with_hessian
            )
        if with_hessian:
            _assemble(g, mixed, axes, hessian[f])
    return value, gradient, hessian


@njit(error_model="numpy", cache=True)
def _add_point(
    nodes: Any,
    g: Any,
    rule: Any,
    q: Any,
    gradient: Any,
    row: Any,
    mixed: Any,
    axes: Any,
    with_hessian: Any,
) -> Any:
    """Add the contribution of one quadrature point to the gradient and return its moment.

    If `with_hessian` is true, also add N_a d(det)/dy_b and the terms that couple two coordinates.
    The moment is weight (g . x) det(x, t1, t2), where t2 is the out-of-plane unit vector in 2D. The
    derivative of the determinant is the cross product of its other rows.
    """
    w, x, t1 = (
        rule.weights[q],
        _interpolate(nodes, rule.shapes[q], 0),
        _interpolate(nodes, rule.shapes[q], 1),
    )
    t2 = (
        _interpolate(nodes, rule.shapes[q], 2)
        if nodes.shape[1] == 3
        else (0.0 * x[0], 0.0 * x[0], 0.0 * x[0] + 1.0)
    )
    c0, c1, c2 = _cross(t1, t2), _cross(t2, x), _cross(x, t1)
    depth = w * (g[0] * x[0] + g[1] * x[1] + g[2] * x[2])
    volume = w * (x[0] * c0[0] + x[1] * c0[1] + x[2] * c0[2])
    for b in range(nodes.shape[0]):
        s0, s1, s2 = rule.shapes[q, b, 0], rule.shapes[q, b, 1], rule.shapes[q, b, 2]
        for j in range(nodes.shape[1]):
            row[b, j] = s0 * c0[j] + s1 * c1[j] + s2 * c2[j]
            gradient[b, j] += depth * row[b, j] + volume * s0 * g[j]
    if not with_hessian:
        return depth * volume / w
    for a in range(nodes.shape[0]):
        N = w * rule.shapes[q, a, 0]
        for b in range(nodes.shape[0]):
            for j in range(nodes.shape[1]):
                mixed[a, b, j] += N * row[b, j]
    for m in range(rule.pairs.shape[1]):
        p0, p1, p2 = (
            depth * rule.pairs[q, m, 0],
            depth * rule.pairs[q, m, 1],
            depth * rule.pairs[q, m, 2],
        )
        for i in range(3):
            axes[m, i] += p0 * x[i] + p1 * t1[i] + p2 * t2[i]
    return depth * volume / w


@njit(error_model="numpy", cache=True)
def _interpolate(nodes: Any, shapes: Any, s: Any) -> Any:
    """Return the position (s = 0) or a tangent (s = 1, 2) of a facet."""
    x = y = z = 0.0 * nodes[0, 0]
    for a in range(nodes.shape[0]):
        x += shapes[a, s] * nodes[a, 0]
        y += shapes[a, s] * nodes[a, 1]
        if nodes.shape[1] == 3:
            z += shapes[a, s] * nodes[a, 2]
    return x, y, z


@njit(error_model="numpy", cache=True)
def _cross(a: Any, b: Any) -> Any:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(error_model="numpy", cache=True)
def _assemble(g: Any, mixed: Any, axes: Any, hessian: Any) -> Any:
    """Assemble the Hessian from g_i N_a d(det)/dy_bj, its transpose and the Hessian of the
    determinant.

    Block (a, b) of the Hessian of the determinant is a cross product.
    """
    n, dim = hessian.shape[0], hessian.shape[1]
    for a in range(n):
        for b in range(n):
            for i in range(dim):
                for j in range(dim):
                    hessian[a, i, b, j] = g[i] * mixed[a, b, j] + g[j] * mixed[b, a, i]
    m = 0
    for b in range(n):
        for a in range(b):
            for i in range(dim if dim == 3 else 1):
                j, entry = (i + 1) % 3, axes[m, (i + 2) % 3]
                hessian[a, i, b, j] += entry
                hessian[a, j, b, i] -= entry
                hessian[b, j, a, i] += entry
                hessian[b, i, a, j] -= entry
            m += 1
