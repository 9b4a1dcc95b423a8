"""Quadrature and shape gradients of the four elements: 4- and 10-node tetrahedra, 3- and 6-node triangles."""

from math import factorial

import numpy as np

from pliant.core import Array
from pliant.geometry.cells import shape_gradients

# Share of a facet's area that each of its nodes carries, (dim, order) -> corners, middles. The even one is positive
# everywhere, as a penalty on the nodes needs; the exact one integrates a constant traction, and on a 6-node facet its corners are 0.
EXACT_SHARE = {(2, 1): (1 / 2,) * 2, (2, 2): (1 / 6, 1 / 6, 2 / 3), (3, 1): (1 / 3,) * 3, (3, 2): (0, 0, 0, 1 / 3, 1 / 3, 1 / 3)}
EVEN_SHARE = {**EXACT_SHARE, (3, 2): (1 / 12,) * 3 + (1 / 4,) * 3}


def quadrature(dim: int, degree: int) -> tuple[Array, Array]:
    """(barycentric points (k, dim + 1), weights (k,) that sum to one), exact for polynomials of the degree."""
    if degree == 1:
        return np.full((1, dim + 1), 1.0 / (dim + 1)), np.ones(1)
    if degree == 2:
        a = {2: 2.0 / 3.0, 3: (5.0 + 3.0 * np.sqrt(5.0)) / 20.0}[dim]
        b = (1.0 - a) / dim
        return np.full((dim + 1, dim + 1), b) + (a - b) * np.eye(dim + 1), np.full(dim + 1, 1.0 / (dim + 1))
    return _collapsed_gauss(dim, (degree + dim + 1) // 2)


def _collapsed_gauss(dim: int, n: int) -> tuple[Array, Array]:
    """Gauss points of a cube folded onto the simplex (Duffy's map): any degree, used once for the mass matrix."""
    x, w = np.polynomial.legendre.leggauss(n)
    grid = np.stack(np.meshgrid(*[0.5 * (x + 1.0)] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weights = np.prod(np.stack(np.meshgrid(*[w] * dim, indexing="ij"), axis=-1).reshape(-1, dim), axis=1)
    bary, rest = np.zeros((len(grid), dim + 1)), np.ones(len(grid))
    for axis in range(dim):
        bary[:, axis] = rest * grid[:, axis]
        weights = weights * rest if axis else weights
        rest = rest * (1.0 - grid[:, axis])
    bary[:, dim] = rest
    return bary, weights / weights.sum()


def gradients(points: Array, cells: Array, order: int, bary: Array) -> tuple[Array, Array]:
    """Shape gradients (n_cells, k, n_nodes, dim) [1/m] and measures (n_cells, k) [m^dim], Jacobian times simplex volume."""
    slopes = shape_gradients(bary, order)
    jacobian = np.einsum("cai,gak->cgik", points[cells], slopes)
    measure = np.linalg.det(jacobian) / factorial(points.shape[1])
    return np.einsum("gak,cgki->cgai", slopes, np.linalg.inv(jacobian)), measure
