"""Quadrature and shape gradients of tetrahedra (4 and 10 nodes) and triangles (3 and 6 nodes)."""

from math import factorial

import numpy as np

from pliant.core import Array
from pliant.geometry.boundary import facet_rule, facet_shape
from pliant.geometry.cells import shape_gradients, shape_values


def quadrature(dim: int, degree: int) -> tuple[Array, Array]:
    """Return barycentric points (k, dim + 1) and weights (k,) that are exact for a polynomial
    degree.

    The weights sum to one.
    """
    if degree == 1:
        return np.full((1, dim + 1), 1.0 / (dim + 1)), np.ones(1)
    if degree == 2:
        a = {2: 2.0 / 3.0, 3: (5.0 + 3.0 * np.sqrt(5.0)) / 20.0}[dim]
        b = (1.0 - a) / dim
        return np.full((dim + 1, dim + 1), b) + (a - b) * np.eye(dim + 1), np.full(
            dim + 1, 1.0 / (dim + 1)
        )
    return _collapsed_gauss(dim, (degree + dim + 1) // 2)


def _collapsed_gauss(dim: int, n: int) -> tuple[Array, Array]:
    """Return Gauss points of a cube that are collapsed to the simplex (Duffy's map), for any
    degree."""
    x, w = np.polynomial.legendre.leggauss(n)
    grid = np.stack(np.meshgrid(*[0.5 * (x + 1.0)] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weights = np.prod(
        np.stack(np.meshgrid(*[w] * dim, indexing="ij"), axis=-1).reshape(-1, dim), axis=1
    )
    bary, rest = np.zeros((len(grid), dim + 1)), np.ones(len(grid))
    for axis in range(dim):
        bary[:, axis] = rest * grid[:, axis]
        weights = weights * rest if axis else weights
        rest = rest * (1.0 - grid[:, axis])
    bary[:, dim] = rest
    return bary, weights / weights.sum()


def gradients(points: Array, cells: Array, order: int, bary: Array) -> tuple[Array, Array]:
    """Return shape gradients (n_cells, k, n_nodes, dim) [1/m] and measures (n_cells, k) [m^dim].

    A measure is the Jacobian determinant times the volume of the reference simplex.
    """
    slopes = shape_gradients(bary, order)
    jacobian = np.einsum("cai,gak->cgik", points[cells], slopes)
    measure = np.linalg.det(jacobian) / factorial(points.shape[1])
    return np.einsum("gak,cgki->cgai", slopes, np.linalg.inv(jacobian)), measure


def unit_mass(points: Array, cells: Array, order: int) -> Array:
    """Return the consistent mass matrix (n_cells, n_nodes, n_nodes) [m^dim] of each cell at density
    one. It is analytic in complex points."""
    bary, weights = quadrature(points.shape[1], 2 * order)
    N = shape_values(bary, order)
    out = np.zeros((len(cells), N.shape[1], N.shape[1]), points.dtype)
    for at, weight, values in zip(
        bary, weights, N, strict=True
    ):  # point by point: all Jacobians at once would need too much memory
        _, measure = gradients(points, cells, order, at[None])
        out += weight * measure[:, :, None] * np.outer(values, values)
    return out


def facet_node_weights(nodes: Array, *, lumped: bool) -> Array:
    """Return the part (n_facets, n_nodes) [m^(dim - 1)] of each facet's measure that its nodes
    carry.

    `nodes` (n_facets, n_nodes, dim) [m] are the nodes of each facet. A weight is the integral of
    the shape function, which is zero at the corners of a flat 6-node facet. With `lumped`, the
    measure is divided in proportion to the integral of the squared shape function. Lumped weights
    are positive, as penalty forces on nodes require.
    """
    dim = nodes.shape[2]
    order = 1 if nodes.shape[1] == dim else 2
    exact, squared = (np.zeros(nodes.shape[:2], nodes.dtype) for _ in range(2))
    for at, weight in facet_rule(dim, 2):
        value, slope = facet_shape(at, order)
        t = np.einsum("fai,ak->fik", nodes, slope)
        measure = weight * np.sqrt(np.linalg.det(np.swapaxes(t, 1, 2) @ t)) / (dim - 1)
        exact += measure[:, None] * value
        squared += measure[:, None] * value**2
    return (
        exact.sum(axis=1, keepdims=True) * squared / squared.sum(axis=1, keepdims=True)
        if lumped
        else exact
    )
