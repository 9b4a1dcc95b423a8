"""The boundary of a mesh as a whole: whether it is closed, and the volume inside."""

import numpy as np

from pliant.core import Array
from pliant.geometry.cells import FACETS, shape_gradients, shape_values
from pliant.geometry.mesh import Mesh


def is_closed(facets: Array) -> bool:
    """Return whether outward facets (edges or triangles) have no open boundary."""
    if facets.shape[1] == 2:
        n = int(facets.max()) + 1
        return bool(
            (np.bincount(facets[:, 0], minlength=n) == np.bincount(facets[:, 1], minlength=n)).all()
        )
    edges = facets[:, np.array(FACETS[3])].reshape(-1, 2)
    n = int(facets.max()) + 1
    forth, back = np.sort(edges @ np.array([n, 1])), np.sort(edges[:, ::-1] @ np.array([n, 1]))
    return bool((forth == back).all())


def boundary_volume(mesh: Mesh) -> float:
    """Return the integral [m^3] of x . n / dim over the boundary, exact also for curved facets."""
    facets = mesh.points[mesh.boundary()] - mesh.points.mean(axis=0)  # reduces rounding errors
    return float(
        sum(facet_flux(facets, at, weight) for at, weight in facet_rule(mesh.dim, mesh.order))
    )


def facet_rule(dim: int, order: int) -> list[tuple[Array, float]]:
    """Return quadrature points and weights on a facet.

    The rule is Gauss on an edge, seven points (degree 5) on a triangle, and one point on a straight
    facet.
    """
    if order == 1:
        return [(np.full(dim, 1 / dim), 1.0)]
    if dim == 2:
        s = np.sqrt(0.15)
        return [
            (np.array([0.5 - d, 0.5 + d]), w) for d, w in ((-s, 5 / 18), (0.0, 4 / 9), (s, 5 / 18))
        ]
    rule = [(np.full(3, 1 / 3), 0.225)]
    for a, w in ((0.059715871789770, 0.132394152788506), (0.797426985353087, 0.125939180544827)):
        rule += [(np.roll([a, (1 - a) / 2, (1 - a) / 2], k), w) for k in range(3)]
    return rule


def facet_flux(facets: Array, at: Array, weight: float) -> float:
    """Return the contribution of one quadrature point to the integral of x . n / dim."""
    if facets.shape[2] == 2:
        value, slope = line_shape(at, facets.shape[1])
        x, t = np.tensordot(facets, value, (1, 0)), np.tensordot(facets, slope, (1, 0))
        return weight * float((x[:, 0] * t[:, 1] - x[:, 1] * t[:, 0]).sum()) / 2
    order = 1 if facets.shape[1] == 3 else 2
    x = np.tensordot(facets, shape_values(at[None], order)[0], (1, 0))
    t = np.tensordot(facets, shape_gradients(at[None], order)[0], (1, 0))
    return weight * float(np.einsum("ki,ki->", x, np.cross(t[:, :, 0], t[:, :, 1]))) / 6


def line_shape(at: Array, n_nodes: int) -> tuple[Array, Array]:
    """Return shape functions and derivatives of an edge with two or three nodes."""
    a, b = at
    if n_nodes == 2:
        return np.array([a, b]), np.array([-1.0, 1.0])
    return np.array([a * (2 * a - 1), b * (2 * b - 1), 4 * a * b]), np.array(
        [1 - 4 * a, 4 * b - 1, 4 * (a - b)]
    )


def facet_shape(at: Array, order: int) -> tuple[Array, Array]:
    """Return shape functions (n_nodes,) and derivatives (n_nodes, dim - 1) of an edge or a
    triangle.

    `at` (dim,) are barycentric coordinates.
    """
    if at.size == 2:
        value, slope = line_shape(at, 2 if order == 1 else 3)
        return value, slope[:, None]
    return shape_values(at[None], order)[0], shape_gradients(at[None], order)[0]
