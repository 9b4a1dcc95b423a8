"""Particles as a body: masses, interpolation of material points, surfaces and neighbours."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.geometry import Rectangle, Union, sample_particles
from pliant.materials import moduli
from pliant.mpm.particles import Particles

SOFT, HARD = (
    pl.Material(E=1e4, nu=0.3, density=800.0),
    pl.Material(E=3e4, nu=0.2, density=1200.0, power=2),
)
SIZE = {2: (0.1, 0.06), 3: (0.1, 0.06, 0.05)}
every_dim = pytest.mark.parametrize("dim", [2, 3])


def box(dim):
    return (Rectangle if dim == 2 else pl.Box)(size=SIZE[dim])


def body(dim, spacing=0.01, how="lattice", materials=None, thickness=1.0, shape=None):
    mesh = (shape or box(dim)).mesh(divisions=(4, 2, 2)[:dim])
    return Particles(
        mesh=mesh,
        samples=sample_particles(mesh, spacing=spacing, method=how),
        materials=materials or {"body": SOFT},
        thickness=thickness,
    )


@every_dim
@pytest.mark.parametrize("how", ["lattice", "jitter"])
def test_volumes_and_masses_sum_to_those_of_the_body(dim, how):
    depth = 0.3 if dim == 2 else 1.0  # in 3D the thickness has no effect
    particles = body(dim, how=how, thickness=0.3)
    whole = depth * np.prod(SIZE[dim])
    assert particles.volumes().sum() == pytest.approx(whole, rel=1e-12)
    assert particles.particle_data(particles.fields).mass.sum() == pytest.approx(
        800.0 * whole, rel=1e-12
    )


def test_materials_follow_their_regions():
    shape = Union(
        parts={
            "hip": pl.Box(size=(0.05, 0.06, 0.05)),
            "leg": pl.Box(size=(0.05, 0.06, 0.05), origin=(0.05, 0.0, 0.0)),
        }
    )
    particles = body(3, shape=shape, materials={"hip": SOFT, "leg": HARD})
    left = particles.samples.points[:, 0] < 0.05
    assert left.sum() == len(left) / 2
    np.testing.assert_array_equal(particles.material_cells["hip"], np.flatnonzero(left))
    np.testing.assert_array_equal(particles.fields.E, np.where(left, 1e4, 3e4))
    np.testing.assert_array_equal(
        particles.particle_data(particles.fields).power, np.where(left, 0, 2)
    )
    masses = particles.particle_data(particles.fields).mass
    assert masses[left].sum() == pytest.approx(800.0 * 0.05 * 0.06 * 0.05, rel=1e-12)
    assert masses[~left].sum() == pytest.approx(1200.0 * 0.05 * 0.06 * 0.05, rel=1e-12)
    np.testing.assert_allclose(
        particles.node_volumes(particles.material_cells["leg"]),
        np.where(left, 0.0, particles.volumes()),
    )


def test_moduli_and_their_derivatives_match_the_material():
    particles = body(2, materials={"body": HARD})
    particle_data, e = particles.particle_data(particles.fields), 1e-6
    np.testing.assert_allclose(particle_data.moduli[0], moduli(3e4, 0.2, 2))
    np.testing.assert_allclose(
        particle_data.by_E[0],
        (moduli(3e4 + 1.0, 0.2, 2) - moduli(3e4 - 1.0, 0.2, 2)) / 2.0,
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        particle_data.by_nu[0],
        (moduli(3e4, 0.2 + e, 2) - moduli(3e4, 0.2 - e, 2)) / (2.0 * e),
        rtol=1e-8,
    )


# Interpolation of material points


@every_dim
@pytest.mark.parametrize("how", ["lattice", "jitter"])
@pytest.mark.parametrize("spacing", [0.0051, 0.01, 0.0125, 0.02, 0.033])
def test_affine_motions_are_interpolated_exactly(rng, dim, how, spacing):
    """Test points inside and on faces, edges and corners. The nearest particles of a face centre
    lie in one plane. Affine motions are exact, and no weight is much larger than one."""
    particles = body(dim, spacing, how)
    share = np.concatenate([rng.random((20, dim)), rng.integers(0, 3, (40, dim)) / 2.0])
    points = share * SIZE[dim]
    W = particles.locate(points)
    A, b = rng.standard_normal((dim, dim)), rng.standard_normal(dim)
    moved = particles.rest.reshape(-1, dim) @ A.T + b
    np.testing.assert_allclose(W @ moved, points @ A.T + b, atol=1e-12)
    assert np.abs(W).sum(axis=1).max() < 8.0


@every_dim
def test_force_distribution_preserves_resultant_and_moment(rng, dim):
    particles = body(dim)
    points, forces = rng.random((5, dim)) * SIZE[dim], rng.standard_normal((5, dim))
    spread, at = particles.locate(points).T @ forces, particles.rest.reshape(-1, dim)
    np.testing.assert_allclose(spread.sum(axis=0), forces.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        at.T @ spread, points.T @ forces, atol=1e-13
    )  # all first moments, including the torque


def test_single_layer_of_particles_carries_adjacent_points():
    """One layer cannot represent changes across it, but the force on its face is complete."""
    particles = body(3, shape=pl.Box(size=(0.1, 0.06, 0.004)))
    assert np.unique(particles.samples.points[:, 2]).size == 1
    W = particles.locate(np.array([[0.03, 0.02, 0.004]]))
    assert W.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(W @ particles.samples.points, [[0.03, 0.02, 0.002]], atol=1e-12)
    assert (
        np.abs(particles.samples.points[W.indices] - [0.03, 0.02, 0.002]).max()
        < 5 * particles.spacing()
    )  # only nearby particles contribute


def test_single_particle_carries_every_point():
    particles = body(2, spacing=1.0)
    assert particles.n_particles == 1
    np.testing.assert_allclose(particles.locate(np.array([[0.0, 0.0], [0.1, 0.06]])).toarray(), 1.0)


def test_point_outside_mesh_raises():
    with pytest.raises(InputError, match=r"outside the mesh.*Move it to the nearest point"):
        body(2).locate(np.array([[0.2, 0.0]]))


# Surfaces and neighbours


@every_dim
def test_node_areas_match_surface_area_and_centre(dim):
    particles, area = body(dim, thickness=0.3), (0.3 * 0.06 if dim == 2 else 0.06 * 0.05)
    share = particles.node_areas("x+")
    assert share.sum() == pytest.approx(area, rel=1e-12)
    np.testing.assert_allclose(
        share @ particles.samples.points / area, [0.1, *np.divide(SIZE[dim][1:], 2)], atol=1e-12
    )
    even = particles.node_areas("x+", lumped=True)
    assert np.all(even >= 0.0)
    assert even.sum() == pytest.approx(area, rel=1e-12)
    whole = {2: 2 * 0.3 * (0.1 + 0.06), 3: 2 * (0.1 * 0.06 + 0.1 * 0.05 + 0.06 * 0.05)}[dim]
    assert particles.node_areas(None).sum() == pytest.approx(whole, rel=1e-12)
    assert set(np.flatnonzero(even)) <= set(particles.region("x+"))
    assert particles.samples.points[particles.region("x+"), 0].min() > 0.06


@every_dim
def test_rest_neighbours_are_lattice_neighbours(dim):
    particles = body(dim)
    counts = np.round(np.array(SIZE[dim]) / 0.01).astype(int)
    gaps = np.linalg.norm(
        np.diff(particles.samples.points[particles.rest_neighbours], axis=1)[:, 0], axis=1
    )
    np.testing.assert_allclose(gaps, 0.01, rtol=1e-9)
    assert len(particles.rest_neighbours) == sum(
        np.prod(counts - np.eye(dim, dtype=int)[axis]) for axis in range(dim)
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"materials": {"leg": SOFT}}, "no such region. It has"),
        ({"thickness": 0.0}, "thickness is 0 m; it must be a positive"),
    ],
)
def test_invalid_particles_raise_a_clear_error(options, says):
    with pytest.raises(InputError, match=says):
        body(2, **options)


def test_particle_without_material_raises():
    shape = Union(
        parts={
            "hip": Rectangle(size=(0.05, 0.06)),
            "leg": Rectangle(size=(0.05, 0.06), origin=(0.05, 0.0)),
        }
    )
    with pytest.raises(
        InputError, match=r"30 of 60 particles have no material \(first: particle 30\).*hip, leg"
    ):
        body(2, shape=shape, materials={"hip": SOFT})
