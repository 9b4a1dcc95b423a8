"""Quadrature and facet weights compared with integrals over a simplex."""

from math import factorial, prod

import numpy as np
import pytest

import pliant as pl
from pliant.bodies.elements import facet_node_weights, quadrature
from pliant.geometry.cells import shape_values


def monomials(dim, degree):
    grid = np.indices([degree + 1] * (dim + 1)).reshape(dim + 1, -1).T
    return grid[grid.sum(axis=1) == degree]


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_quadrature_is_exact_to_its_degree(dim, degree):
    """The mean of l_0^a l_1^b ... over a simplex is dim! a! b! ... / (dim + a + b + ...)!."""
    bary, weights = quadrature(dim, degree)
    np.testing.assert_allclose(bary.sum(axis=1), 1.0, rtol=1e-14)
    for powers in monomials(dim, degree):
        exact = factorial(dim) * prod(factorial(a) for a in powers) / factorial(dim + degree)
        assert weights @ np.prod(bary**powers, axis=1) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
def test_quadrature_is_not_exact_beyond_its_degree(dim, degree):
    """This shows that the test above can fail."""
    bary, weights = quadrature(dim, degree)
    powers = np.array([degree + 1] + [0] * dim)
    exact = factorial(dim) * factorial(degree + 1) / factorial(dim + degree + 1)
    assert weights @ np.prod(bary**powers, axis=1) != pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
def test_exact_weights_of_flat_facet_are_means_of_shape_functions(dim, order, rng):
    corners = rng.standard_normal((1, dim, dim))
    middles = 0.5 * (corners + np.roll(corners, -1, axis=1))[:, : 1 if dim == 2 else 3]
    nodes = corners if order == 1 else np.concatenate([corners, middles], axis=1)
    side = (corners[:, 1:] - corners[:, :1])[0]
    measure = np.sqrt(np.linalg.det(side @ side.T)) / (dim - 1)
    if (
        dim == 2
        # a facet is an edge: Simpson's rule is exact for its quadratic shape functions, corners
        # first
    ):
        mean = {1: [1 / 2, 1 / 2], 2: [1 / 6, 1 / 6, 2 / 3]}[order]
    else:
        bary, weights = quadrature(2, order)
        mean = weights @ shape_values(bary, order)
    np.testing.assert_allclose(
        facet_node_weights(nodes, lumped=False)[0], measure * np.array(mean), atol=1e-13
    )
    even = facet_node_weights(nodes, lumped=True)[0]
    assert even.sum() == pytest.approx(measure)
    assert even.min() > 0.0


@pytest.mark.parametrize(
    ("shape", "surface", "area"),
    [
        (pl.geometry.Cylinder(radius=0.5, length=2.0), "side", 2.0 * np.pi),
        (pl.geometry.Ellipsoid(radii=(0.5, 0.5, 0.5)), "outside", np.pi),
    ],
)
def test_curved_surface_area_converges_with_element_order(shape, surface, area):
    """The area error of straight facets is O(h^2), of quadratic facets O(h^4)."""
    for order, least in ((1, 1.8), (2, 3.4)):
        sizes = np.array([2, 4])
        meshes = [
            shape.mesh(divisions=(n, 2 * n) if surface == "side" else (n,), order=order)
            for n in sizes
        ]
        found = [
            facet_node_weights(mesh.points[mesh.facets(surface)], lumped=False).sum()
            for mesh in meshes
        ]
        errors = np.abs(np.array(found) - area)
        assert np.log2(errors[0] / errors[1]) > least
