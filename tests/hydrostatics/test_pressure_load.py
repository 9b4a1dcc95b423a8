"""A fluid that fills a closed surface: moments in closed form, weight, torque and derivatives."""

from math import pi

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pliant.geometry import Box, Disc, Ellipsoid, Mesh, Rectangle, hare_surface, icosphere
from pliant.geometry.boundary import facet_rule
from pliant.hydrostatics import hydrostatic_load, hydrostatic_stiffness, volume_properties
from pliant.hydrostatics.volume_moments import first_moment

WATER, HARE = 1000.0, hare_surface(0.02, divisions=14)
DIRECTIONS = [(0.0, 0.0, -9.81), (0.0, 0.0, 9.81), (9.81, 0.0, 0.0), (3.0, -5.0, 2.0)]


def facets(mesh):
    return mesh.points[mesh.boundary()].reshape(len(mesh.boundary()), -1)


@pytest.mark.parametrize("order", [1, 2])
def test_first_moment_of_straight_bodies_is_volume_times_centroid(order):
    box = Box(size=(1.0, 2.0, 3.0), origin=(0.5, -0.2, 0.1)).mesh(divisions=(1, 2, 1), order=order)
    flat = Rectangle(size=(1.0, 2.0), origin=(0.3, 0.4)).mesh(divisions=(2, 1), order=order)
    corners = np.array([[0.1, 0.2, 0.3], [1.0, 0.0, 0.1], [0.2, 1.5, 0.0], [0.3, 0.2, 2.0]])
    tetrahedron = Mesh(points=corners, cells=np.array([[0, 1, 2, 3]]))
    tetrahedron = tetrahedron.quadratic() if order == 2 else tetrahedron
    for mesh, g, centroid in (
        (box, (0.3, -0.7, 1.1), (1.0, 0.8, 1.6)),
        (flat, (0.3, -0.7), (0.8, 1.4)),
        (tetrahedron, (0.3, -0.7, 1.1), corners.mean(axis=0)),
    ):
        moment, _, _ = first_moment(facets(mesh), mesh.dim, order, np.array(g))
        assert moment == pytest.approx(mesh.volumes().sum() * np.dot(g, centroid), rel=1e-13)


@pytest.mark.parametrize(("order", "expected"), [(1, -2.0), (2, -4.0)])
def test_first_moment_of_round_bodies_converges_at_twice_the_order(rate, order, expected):
    g, c, sizes = np.array([0.3, -0.7, 1.1]), np.array([0.2, 0.1, -0.4]), np.array([4, 8, 16])
    for dim, shape, content in (
        (3, Ellipsoid(radii=(1.0, 0.7, 0.5)), 4 / 3 * pi * 0.35),
        (2, Disc(radius=1.0), pi),
    ):
        errors = []
        for n in sizes:
            mesh = shape.mesh(divisions=(n,), order=order)
            y = (mesh.points + c[:dim])[mesh.boundary()].reshape(len(mesh.boundary()), -1)
            errors.append(
                abs(first_moment(y, dim, order, g[:dim])[0] - content * (g[:dim] @ c[:dim]))
            )
        assert rate(sizes, errors) == pytest.approx(expected, abs=0.4)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [Box(size=(1.0, 1.0, 1.0)), Rectangle(size=(1.0, 1.0))])
def test_first_moment_gradient_and_hessian_are_correct(taylor, rng, shape, order):
    y, g = (
        facets(shape.mesh(divisions=(2,) * shape.dim, order=order)),
        rng.standard_normal(shape.dim),
    )
    y = y + 0.1 * rng.standard_normal(
        y.shape
    )  # random facets: correct derivatives of each facet imply those of a closed surface
    d = 0.1 * rng.standard_normal(y.shape)
    moment, gradient, hessians = first_moment(y, shape.dim, order, g)
    assert taylor(
        lambda e: first_moment(y + e * d, shape.dim, order, g)[0], np.sum(gradient * d)
    ) == pytest.approx(2.0, abs=0.1)
    hessian_product = np.einsum("kij,kj->ki", hessians, d)
    assert taylor(
        lambda e: first_moment(y + e * d, shape.dim, order, g)[1], hessian_product
    ) == pytest.approx(2.0, abs=0.1)
    along = first_moment(y + 1e-30j * d, shape.dim, order, g)
    np.testing.assert_allclose(along[1].imag / 1e-30, hessian_product, atol=1e-13)
    assert along[0].imag / 1e-30 == pytest.approx(np.sum(gradient * d), rel=1e-12)
    np.testing.assert_array_equal(hessians, hessians.transpose(0, 2, 1))
    assert np.sum(gradient * y) == pytest.approx(
        (shape.dim + 1) * moment, rel=1e-12
    )  # Euler's theorem for a homogeneous function of degree dim + 1


def test_ball_of_rodriguez2017_has_its_volume():
    """A ball of radius 1 cm with 5,120 triangles has 4.1798 cm^3 [Rodriguez2017, Table I]."""
    found = volume_properties(icosphere(0.01).points, icosphere(0.01).triangles)
    assert len(icosphere(0.01).triangles) == 5120
    assert found.volume == pytest.approx(4.1798e-6, abs=1e-10)
    np.testing.assert_allclose(found.centroid, 0.0, atol=1e-17)


def test_volume_and_area_of_a_ball_converge_at_second_order(rate):
    found = [
        volume_properties(b.points + 0.3, b.triangles)
        for b in (icosphere(1.0, subdivisions=k) for k in (2, 3, 4, 5))
    ]
    sizes = 2.0 ** np.arange(4)
    assert rate(sizes, [4 / 3 * pi - m.volume for m in found]) == pytest.approx(-2.0, abs=0.05)
    assert rate(sizes, [4 * pi - m.area for m in found]) == pytest.approx(-2.0, abs=0.05)
    np.testing.assert_allclose([m.centroid for m in found], 0.3, atol=1e-12)


@pytest.mark.parametrize("gravity", DIRECTIONS)
@pytest.mark.parametrize("rotation", [(0.0, 0.0, 0.0), (0.4, -1.1, 2.0)])
def test_resultant_force_is_the_weight_at_the_centroid(gravity, rotation):
    points = Rotation.from_rotvec(rotation).apply(HARE.points.copy()) + (0.05, 0.02, -0.03)
    found, whole = (
        hydrostatic_load(points, HARE.triangles, density=WATER, gravity=gravity, pressure=500.0),
        volume_properties(points, HARE.triangles),
    )
    weight = WATER * whole.volume * np.array(gravity)
    np.testing.assert_allclose(
        found.forces.sum(axis=0), weight, atol=1e-12 * np.linalg.norm(weight)
    )  # no force perpendicular to gravity
    torque, arm = np.cross(points, found.forces).sum(axis=0), np.cross(whole.centroid, weight)
    np.testing.assert_allclose(torque, arm, atol=1e-12 * 0.1 * np.linalg.norm(weight))
    assert found.volume == pytest.approx(whole.volume, rel=1e-12)


def test_forces_equal_integrated_pressure():
    """A seven-point rule replaces the closed form."""
    g, top = (
        np.array([3.0, -5.0, 2.0]),
        HARE.points[np.argmin(HARE.points @ np.array([3.0, -5.0, 2.0]))],
    )
    corners = HARE.points[HARE.triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    expected = np.zeros_like(HARE.points)
    for at, weight in facet_rule(3, 2):
        p = 70.0 + WATER * ((np.einsum("a,kai->ki", at, corners) - top) @ g)
        for a in range(3):
            np.add.at(expected, HARE.triangles[:, a], weight * at[a] * p[:, None] * normal)
    found = hydrostatic_load(
        HARE.points, HARE.triangles, density=WATER, gravity=g, pressure=70.0
    ).forces
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_energy_forces_and_stiffness_are_derivatives_of_each_other(taylor, rng):
    case = {
        "density": WATER,
        "gravity": (1.0, 2.0, -9.0),
        "pressure": 100.0,
        "datum": (0.0, 0.0, 0.03),
    }
    d = 0.002 * rng.standard_normal(HARE.points.shape)  # much less than an edge length
    at = lambda e: hydrostatic_load(HARE.points + e * d, HARE.triangles, **case)
    K = hydrostatic_stiffness(HARE.points, HARE.triangles, **case)
    assert taylor(lambda e: at(e).energy, -np.sum(at(0.0).forces * d)) == pytest.approx(
        2.0, abs=0.1
    )
    assert taylor(lambda e: at(e).forces.ravel(), -(K @ d.ravel())) == pytest.approx(2.0, abs=0.1)
    assert abs(K - K.T).max() < 1e-12 * abs(K).max()


def test_nodes_without_triangles_have_no_force_or_stiffness():
    case, far = (
        {"density": WATER, "gravity": (0.0, 0.0, -9.81)},
        np.vstack([HARE.points, (0.5, 0.0, 1.0)]),
    )
    alone, found = (
        hydrostatic_load(points, HARE.triangles, **case) for points in (HARE.points, far)
    )
    np.testing.assert_array_equal(found.forces, np.vstack([alone.forces, np.zeros(3)]))
    assert found.energy == alone.energy
    K, more = (
        hydrostatic_stiffness(points, HARE.triangles, **case) for points in (HARE.points, far)
    )
    assert abs(more[: K.shape[0], : K.shape[0]] - K).max() == 0.0
    assert more.nnz == K.nnz


def test_forces_are_linear_in_pressure_and_gravity():
    forces = lambda **case: (
        hydrostatic_load(HARE.points, HARE.triangles, datum=(0.0, 0.0, 0.02), **case).forces
    )
    g = np.array([1.0, 2.0, -9.0])
    whole = forces(density=WATER, gravity=g, pressure=100.0)
    parts = [
        forces(density=WATER, gravity=0.0 * g, pressure=100.0),
        *(forces(density=WATER, gravity=g[k] * np.eye(3)[k]) for k in range(3)),
    ]
    np.testing.assert_allclose(whole, sum(parts), atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"triangles": HARE.triangles[1:]}, "leaks.*do not sum to zero"),
        ({"triangles": HARE.triangles[:, ::-1]}, "point inward"),
        ({"points": HARE.points * (1.0, 1.0, 0.0)}, "is flat and cannot hold a fluid"),
        (
            {"triangles": np.concatenate([HARE.triangles, HARE.triangles[:, ::-1]])},
            "is flat and cannot hold a fluid",
        ),
        ({"points": 1e-110 * HARE.points}, "is flat and cannot hold a fluid"),
        (
            {"points": np.where(HARE.points == HARE.points.max(), np.nan, HARE.points)},
            "points of the wall is nan at entry",
        ),
        ({"points": HARE.points[:-1]}, "refers to point"),
        ({"points": HARE.points[:, :2]}, r"shape \(1962, 2\)"),
        ({"triangles": HARE.triangles.astype(float)}, "type float64"),
        ({"triangles": HARE.triangles - 1}, "refers to point -1, but"),
        ({"density": "much"}, "density of the fluid is 'much'"),
        ({"density": np.inf}, "density of the fluid is inf .* positive finite"),
        ({"density": 1e308}, "density of the fluid is 1e\\+308 .* Check the units"),
        ({"gravity": (0.0, 0.0, -1e200)}, "gravity of the fluid is 1e\\+200 .* Check the units"),
        ({"density": 0.0}, "density of the fluid is 0"),
        ({"density": -1.0}, "density of the fluid is -1"),
        ({"gravity": (0.0, -9.81)}, r"gravity of the fluid has shape \(2,\)"),
        ({"gravity": (0.0, np.nan, 0.0)}, "gravity of the fluid is nan"),
        ({"datum": 3.0}, r"datum of the pressure has shape \(\)"),
    ],
)
@pytest.mark.parametrize("function", [hydrostatic_load, hydrostatic_stiffness])
def test_bad_fluid_or_surface_raises(raises_clear_error, function, change, message):
    case = {
        "points": HARE.points,
        "triangles": HARE.triangles,
        "density": WATER,
        "gravity": (0.0, 0.0, -9.81),
        **change,
    }
    raises_clear_error(lambda: function(case.pop("points"), case.pop("triangles"), **case), message)
