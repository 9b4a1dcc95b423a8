"""Derivatives of a solid by its rest shape, against central differences of solids on moved
meshes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pliant.bodies import Solid
from pliant.bodies.shape_derivatives import RestChange
from pliant.core import Array
from pliant.geometry import Box, Rectangle
from pliant.materials import Material

STEP = 1e-4  # relative to the change; the differences are of fourth order


def solid(dim: int, order: int, law: str) -> Solid:
    shape = Box(size=(0.2, 0.1, 0.1)) if dim == 3 else Rectangle(size=(0.2, 0.1))
    mesh = shape.mesh(divisions=(2, 1, 1)[:dim], order=order)
    return Solid(
        mesh=mesh,
        materials={"body": Material(E=1e5, nu=0.3, density=1100.0, law=law)},
        thickness=0.05,
    )


def moved(body: Solid, dX: Array, e: float) -> Solid:
    points = body.mesh.points + e * dX.reshape(-1, body.dim)
    mesh = replace(body.mesh, points=points)
    return replace(body, mesh=mesh)


def difference(value: Callable[[Solid, float], Array], body: Solid, dX: Array) -> Array:
    at = lambda e: value(moved(body, dX, e), e)
    near, far = at(STEP) - at(-STEP), at(2.0 * STEP) - at(-2.0 * STEP)
    return (8.0 * near - far) / (12.0 * STEP)


def case(dim: int, order: int, law: str) -> tuple[Solid, Array, Array, Array, Array]:
    body, rng = solid(dim, order, law), np.random.default_rng(dim + 10 * order)
    q, dX, dq, w = (0.01 * rng.standard_normal(body.rest.size) for _ in range(4))
    return body, body.rest + q, 3.0 * dX, dq, w


def mass_times(body: Solid, density: Array, y: Array) -> Array:
    (i, j), m, Y = body.pairs.T, body.mass(density), y.reshape(-1, body.dim)
    out = np.zeros_like(Y)
    np.add.at(out, i, m[:, None] * Y[j])
    np.add.at(out, j[i != j], (m[:, None] * Y[i])[i != j])
    return out.ravel()


CASES = [
    (3, 1, "linear-corotated"),
    (3, 1, "fixed-corotated"),
    (3, 2, "neo-hookean"),
    (2, 1, "neo-hookean"),
    (2, 2, "fixed-corotated"),
]


@pytest.mark.parametrize(("dim", "order", "law"), CASES)
def test_force_and_stiffness_change_with_the_rest_shape(dim: int, order: int, law: str) -> None:
    body, q, dX, dq, w = case(dim, order, law)
    change, fields = RestChange(solid=body, change=dX), body.fields
    expected = difference(lambda s, e: s.gradient(q + e * dq, fields), body, dX)
    found = change.force_change(q, fields, dq)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())
    expected = difference(lambda s, e: s.stiffness_times(q, fields, w), body, dX)
    found = change.stiffness_times_change(q, fields, w)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("dim", "order", "law"), CASES[1:4])
def test_viscous_force_changes_with_the_rest_shape(dim: int, order: int, law: str) -> None:
    body, q, dX, dq, w = case(dim, order, law)
    change, fields, rates, levels = RestChange(solid=body, change=dX), body.fields, [3.0, -3.0], [w]
    viscous = lambda s, q: (
        s.energy(q, fields, s.viscosity_of_step(fields, 0.1, rates, [w]))[1] - s.gradient(q, fields)
    )
    expected = difference(lambda s, e: viscous(s, q + e * dq), body, dX)
    found = change.viscous_force_change(q, fields, 0.1, rates, levels, dq)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())
    m = 0.1 * fields.moduli[:, :2]
    expected = difference(lambda s, e: s.viscous_jvp(q, q, w, m), body, dX)
    found = change.viscous_jvp_change(q, w, m)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("dim", "order"), [(3, 1), (3, 2), (2, 1), (2, 2)])
def test_masses_areas_and_sizes_change_with_the_rest_shape(dim: int, order: int) -> None:
    body, _, dX, _, _ = case(dim, order, "linear-corotated")
    change, density = RestChange(solid=body, change=dX), body.fields.density
    y = np.random.default_rng(1).standard_normal(body.rest.size)
    expected = difference(lambda s, e: mass_times(s, density, y), body, dX)
    found = change.mass_times_change(density, y)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    for kind in ({"lumped": False}, {"lumped": True}):
        areas = partial(lambda kind, s, e: s.node_areas("x+", **kind), kind)
        expected = difference(areas, body, dX)
        found = change.node_areas("x+", **kind).imag / 1e-30
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    expected = difference(lambda s, e: np.array(s.cell_size()), body, dX)
    np.testing.assert_allclose(change.cell_size_change, expected, rtol=1e-8)


def test_points_are_attached_in_the_reference() -> None:
    body = solid(3, 2, "linear-corotated")
    rng = np.random.default_rng(0)
    other = replace(
        moved(body, 0.002 * rng.standard_normal(body.rest.size), 1.0), reference=body.mesh
    )
    points = np.array([[0.11, 0.04, 0.03], [0.2, 0.1, 0.1]])
    assert (body.locate(points) != other.locate(points)).nnz == 0
    np.testing.assert_array_equal(body.cell_centres(), other.cell_centres())
