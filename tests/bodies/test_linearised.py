"""`linearised` is the gradient, the stiffness and the viscous stiffness of a body in one pass: it
must be theirs to round-off."""

import numba
import numpy as np
import pytest

import pliant as pl
from pliant.bodies import NO_VISCOSITY, Solid
from pliant.materials import LAWS


def block(dim, order, law, *, power=0, n=3):
    """Return a body whose number of cells is not a multiple of the SIMD width."""
    if dim == 3:
        shape = pl.Box(size=(0.1, 0.07, 0.05))
        mesh = shape.mesh(divisions=(n, 1, 1), order=order)
    else:
        mesh = pl.geometry.Rectangle(size=(0.1, 0.06)).mesh(divisions=(n, n), order=order)
    return Solid(
        mesh=mesh,
        materials={"body": pl.Material(E=3e5, nu=0.35, law=law, power=power)},
        thickness=0.02,
    )


def shaken(body, size, seed=0):
    return body.rest + size * np.random.default_rng(seed).standard_normal(body.rest.size)


def apart(body, q, viscosity):
    viscous = (
        body.viscosity_at_velocity(body.fields, viscosity, 1.0, q, np.zeros_like(q))
        if viscosity > 0.0
        else NO_VISCOSITY
    )
    return body.gradient(q, body.fields), body.stiffness(q, body.fields, viscous)


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12 * np.abs(b).max())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("viscosity", [0.0, 2.5])
def test_gradient_and_stiffness_match_separate_calls(dim, order, law, viscosity):
    body = block(dim, order, law)
    q = shaken(body, 1e-3)
    assert body.inadmissible_cell(q) is None
    assert_same(body.gradient_and_stiffness(q, body.fields, viscosity), apart(body, q, viscosity))


@pytest.mark.parametrize("law", LAWS)
def test_gradient_and_stiffness_include_near_incompressible_terms(law):
    body = block(3, 1, law, power=2)
    q = shaken(body, 1e-3)
    assert_same(body.gradient_and_stiffness(q, body.fields, 1.0), apart(body, q, 1.0))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("law", ["fixed-corotated", "linear-corotated"])
def test_inverted_and_flat_cells_match_separate_calls(dim, law):
    """The SIMD iteration for rotations handles regular cells only. Other cells must not fail or
    affect their neighbours."""
    body = block(dim, 1, law)
    q = shaken(body, 2e-2, seed=3)
    J = [np.linalg.det(F) for F in body.field_gradient(q)[:, 0]]
    assert min(J) < 0.0 < max(J)
    assert_same(body.gradient_and_stiffness(q, body.fields, 0.5), apart(body, q, 0.5))


def test_mixed_laws_match_separate_calls():
    mesh = pl.Box(size=(0.1, 0.05, 0.05)).mesh(divisions=(4, 1, 1), order=1)
    halves = {"left": np.arange(0, len(mesh.cells), 2), "right": np.arange(1, len(mesh.cells), 2)}
    mesh = pl.Mesh(points=mesh.points, cells=mesh.cells, regions=halves)
    body = Solid(
        mesh=mesh,
        materials={
            "left": pl.Material(E=1e5, nu=0.3),
            "right": pl.Material(E=4e5, nu=0.4, law="linear-corotated"),
        },
    )
    q = shaken(body, 1e-3)
    assert_same(body.gradient_and_stiffness(q, body.fields, 3.0), apart(body, q, 3.0))


def test_gradient_and_stiffness_match_finite_differences():
    body = block(3, 1, "linear-corotated", n=5)
    q, y = shaken(body, 1e-3), np.random.default_rng(1).standard_normal(body.rest.size)
    g, blocks = body.gradient_and_stiffness(q, body.fields, 0.0)
    h = 1e-6
    energies = [body.energy(q + side * h * y, body.fields)[0] for side in (1.0, -1.0)]
    assert g @ y == pytest.approx((energies[0] - energies[1]) / (2 * h), rel=1e-7)
    ahead, behind = (
        body.gradient_and_stiffness(q + side * h * y, body.fields, 0.0)[0] for side in (1.0, -1.0)
    )
    (i, j), z = body.pairs.T, y.reshape(-1, 3)
    product = np.zeros_like(z)
    np.add.at(product, i, np.einsum("pij,pj->pi", blocks, z[j]))
    off = i != j
    np.add.at(product, j[off], np.einsum("pji,pj->pi", blocks[off], z[i[off]]))
    np.testing.assert_allclose(
        product.ravel(), (ahead - behind) / (2 * h), rtol=0.0, atol=1e-6 * np.abs(product).max()
    )


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_result_is_bit_identical_for_every_thread_count():
    robot = pl.robots.diamond(along=31)
    body = robot.body()
    q = shaken(body, 1e-4)
    before = numba.get_num_threads()
    found = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        found.append(body.gradient_and_stiffness(q, body.fields, 1.0))
    numba.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_point_masses_have_zero_gradient():
    body = pl.PointMass(points=np.zeros((2, 3)) + np.arange(2)[:, None])
    g, blocks = body.gradient_and_stiffness(body.rest, body.fields, 1.0)
    assert not g.any()
    assert blocks.shape == (len(body.pairs), 3, 3)
