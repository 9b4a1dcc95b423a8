"""Particles in a mesh are evenly spaced, have the volume of the mesh and follow its vertices."""

import numpy as np
import pytest
import trimesh
from PIL import Image, ImageDraw

import pliant as pl
from pliant.core import InputError, MeshError
from pliant.geometry import (
    Annulus,
    Box,
    Cylinder,
    Disc,
    Ellipsoid,
    Mesh,
    Rectangle,
    Union,
    displaced,
    displaced_vjp,
    fill,
    load_silhouette,
    load_surface,
    sample_particles,
)

SHAPES = {
    "box": Box(size=(0.3, 0.2, 0.1), origin=(-0.1, 0.05, 1.0)),
    "ellipsoid": Ellipsoid(radii=(0.1, 0.15, 0.2)),
    "cylinder": Cylinder(radius=0.1, length=0.2),
    "rectangle": Rectangle(size=(0.3, 0.2), origin=(0.5, -0.1)),
    "annulus": Annulus(outer=0.1, inner=0.06),
}
EVERY_METHOD = pytest.mark.parametrize("method", ["lattice", "jitter"])
TWO_PARTS = Union(
    parts={
        "hard": Box(size=(0.1, 0.1, 0.1)),
        "soft": Box(size=(0.2, 0.1, 0.05), origin=(0.1, 0.0, 0.0)),
    }
)


@pytest.mark.parametrize("order", [1, 2])
@EVERY_METHOD
@pytest.mark.parametrize("name", SHAPES)
def test_barycentric_coordinates_give_points_and_volumes_sum_to_mesh_volume(name, method, order):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    particles = sample_particles(mesh, spacing=0.02, method=method)
    assert particles.points.shape == (len(particles.cells), mesh.dim)
    assert (
        particles.barycentric.shape == particles.nodes.shape == (len(particles.cells), mesh.dim + 1)
    )
    np.testing.assert_array_equal(particles.nodes, mesh.corners[particles.cells])
    np.testing.assert_allclose(
        np.einsum("na,nai->ni", particles.barycentric, mesh.points[particles.nodes]),
        particles.points,
        atol=1e-14,
    )
    assert particles.barycentric.min() > -1e-9
    assert particles.volumes.sum() == pytest.approx(mesh.volumes().sum(), rel=1e-12)
    np.testing.assert_array_equal(particles.regions["body"], np.arange(len(particles.points)))
    # The number of points is the mesh volume over that of a lattice cell, up to about one layer of
    # points at the boundary.
    assert len(particles.points) == pytest.approx(mesh.volumes().sum() / 0.02**mesh.dim, rel=0.25)


@pytest.mark.parametrize("name", ["box", "rectangle"])
def test_box_is_filled_evenly(name):
    shape = SHAPES[name]
    particles = sample_particles(
        shape.mesh(cell=0.07), spacing=0.021
    )  # the spacing does not divide the sides
    counts = np.round(np.asarray(shape.size) / 0.021)
    step = np.asarray(shape.size) / counts
    assert len(particles.points) == np.prod(counts)
    index = (particles.points - shape.origin) / step - 0.5
    np.testing.assert_allclose(index, np.round(index), atol=1e-12)
    assert len(np.unique(np.round(index), axis=0)) == len(index)
    np.testing.assert_allclose(particles.volumes, np.prod(step), rtol=1e-13)
    # The last axis varies fastest.
    np.testing.assert_array_equal(np.lexsort(np.round(index).T[::-1]), np.arange(len(index)))


def test_jitter_has_one_point_per_lattice_cell_and_depends_on_seed():
    shape = SHAPES["box"]
    mesh = shape.mesh(cell=0.07)
    first, same, other = (
        sample_particles(mesh, spacing=0.02, method="jitter", rng_seed=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.points, same.points)
    assert np.abs(first.points - other.points).max() > 1e-3
    cell = np.floor((first.points - shape.origin) / (np.asarray(shape.size) / (15, 10, 5)))
    np.testing.assert_array_equal(cell, np.indices((15, 10, 5)).reshape(3, -1).T)


def test_lattice_contains_all_points_inside_the_shape():
    """Straight cells of a disc omit only the points between its circle and their chords."""
    disc = Disc(radius=0.1)
    particles = sample_particles(disc.mesh(divisions=(12,)), spacing=0.005)
    grid = -0.1 + 0.2 * (np.indices((40, 40)).reshape(2, -1).T + 0.5) / 40
    inside = grid[np.linalg.norm(grid, axis=1) < 0.1 * np.cos(np.pi / 72)]
    assert set(map(tuple, inside.round(9))) <= set(map(tuple, particles.points.round(9)))
    assert disc.contains(particles.points).all()


def test_each_region_has_its_particles_and_volume():
    mesh = TWO_PARTS.mesh(cell=0.025)
    particles = sample_particles(mesh, spacing=0.01)
    volumes = mesh.volumes()
    assert set(particles.regions) == {"hard", "soft"}
    for name, chosen in mesh.regions.items():
        assert particles.volumes[particles.regions[name]].sum() == pytest.approx(
            volumes[chosen].sum(), rel=1e-12
        )
        assert TWO_PARTS.parts[name].contains(particles.points[particles.regions[name]]).all()


def test_overlapping_regions_keep_their_volumes():
    box = Box(size=(1, 1, 1)).mesh(divisions=(4, 4, 4))
    regions = {"a": np.arange(200), "b": np.arange(100, 300)}  # the last 84 cells belong to neither
    mesh = Mesh(points=box.points, cells=box.cells, regions=regions)
    particles = sample_particles(mesh, spacing=0.11)
    for name, chosen in regions.items():
        assert particles.volumes[particles.regions[name]].sum() == pytest.approx(
            mesh.volumes()[chosen].sum(), rel=1e-12
        )
    assert particles.volumes.sum() == pytest.approx(1.0)


def test_particles_do_not_depend_on_chunk_size(monkeypatch):
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1))
    whole = sample_particles(mesh, spacing=0.1, method="jitter")
    monkeypatch.setattr("pliant.geometry.particle_sampling.CHUNK_SIZE", 77)
    parts = sample_particles(mesh, spacing=0.1, method="jitter")
    np.testing.assert_array_equal(whole.points, parts.points)
    np.testing.assert_array_equal(whole.cells, parts.cells)


# Bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sample_particles(SHAPES["annulus"].mesh(cell=0.05), spacing=1.0),
            r"inside the mesh at a spacing of 1 m; choose about 0.12 m",
        ),
        (
            lambda: sample_particles(TWO_PARTS.mesh(cell=0.025), spacing=0.3),
            r"in the region 'soft' at a spacing|in the region 'hard' at a spacing",
        ),
        (
            lambda: sample_particles(SHAPES["box"].mesh(), spacing=0.0),
            "The spacing of particles is 0 m; it must be a positive",
        ),
        (
            lambda: sample_particles(SHAPES["box"].mesh(), spacing=np.nan),
            "The spacing of particles is nan m",
        ),
        (
            lambda: sample_particles(SHAPES["box"].mesh(), spacing=1e-4),
            r"about 6e\+09 particles, over .*; choose about 0.0011 m or more",
        ),
        (
            lambda: sample_particles(SHAPES["box"].mesh(), spacing=1e-320),
            "particles, over the limit",
        ),
        (
            lambda: sample_particles(SHAPES["box"].mesh(), spacing=0.02, method="jiter"),
            "There is no sampling method 'jiter'; did you mean 'jitter'",
        ),
        (
            lambda: sample_particles(SHAPES["box"], spacing=0.02),
            r"The mesh to fill with particles is .*pass a Mesh",
        ),
    ],
)
def test_bad_sampling_raises_input_error(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_suggested_spacing_is_valid():
    mesh = SHAPES["annulus"].mesh(cell=0.05)
    with pytest.raises(MeshError) as caught:
        sample_particles(mesh, spacing=1.0)
    sample_particles(mesh, spacing=float(str(caught.value).split("about ")[1].split(" m")[0]))


# Files


def test_closed_stl_is_sampled_and_open_stl_raises(tmp_path):
    ball = trimesh.creation.icosphere(radius=0.05)
    ball.export(tmp_path / "ball.stl")
    mesh = fill(load_surface(tmp_path / "ball.stl"), 0.01)
    particles = sample_particles(mesh, spacing=0.005)
    assert particles.volumes.sum() == pytest.approx(mesh.volumes().sum())
    assert np.linalg.norm(particles.points, axis=1).max() < 0.05
    np.testing.assert_allclose(particles.points.mean(axis=0), 0.0, atol=2e-4)
    trimesh.Trimesh(ball.vertices, ball.faces[3:]).export(tmp_path / "open.stl")
    with pytest.raises(MeshError, match=r"open.stl: .*edges are open"):
        load_surface(tmp_path / "open.stl")


@pytest.mark.parametrize("thickness", [None, 0.04])
def test_silhouette_is_sampled(tmp_path, thickness):
    image = Image.new("L", (120, 80), 255)
    ImageDraw.Draw(image).rectangle((10, 10, 109, 69), fill=0)
    image.save(tmp_path / "bar.png")
    mesh = load_silhouette(tmp_path / "bar.png", height=0.12, cell=0.02, thickness=thickness)
    particles = sample_particles(mesh, spacing=0.01)
    assert particles.volumes.sum() == pytest.approx(0.024 * (thickness or 1.0), rel=0.02)


# Displaced vertices


def deformed(points):
    """Return the points after a smooth nonlinear deformation."""
    x = points - points.mean(axis=0)
    return points + 0.8 * x * x[:, ::-1] + 0.1 * x


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["box", "rectangle"])
def test_particle_points_and_volumes_follow_the_vertices(name, order):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    particles = sample_particles(mesh, spacing=0.02)
    points, volumes = displaced(particles, mesh.points)
    np.testing.assert_allclose(points, particles.points, atol=1e-14)
    np.testing.assert_allclose(volumes, particles.volumes, rtol=1e-12)
    # An affine map is exact: it moves the points, and its determinant scales the volumes.
    A = np.eye(mesh.dim) + 0.1 * np.arange(mesh.dim**2).reshape(mesh.dim, mesh.dim)
    points, volumes = displaced(particles, mesh.points @ A.T + 0.3)
    np.testing.assert_allclose(points, particles.points @ A.T + 0.3, atol=1e-13)
    np.testing.assert_allclose(volumes, np.linalg.det(A) * particles.volumes, rtol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["ellipsoid", "annulus"])
def test_displaced_vjp_is_gradient_by_the_vertices(name, order, rng, taylor):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    particles = sample_particles(mesh, spacing=0.03)
    at, d = deformed(mesh.points), 0.05 * rng.standard_normal(mesh.points.shape)
    points_bar, volumes_bar = (
        rng.standard_normal(particles.points.shape),
        rng.standard_normal(particles.volumes.shape) / particles.volumes.mean(),
    )

    def f(e, by_points=points_bar, by_volumes=volumes_bar):
        points, volumes = displaced(particles, at + e * d)
        return np.sum(by_points * points) + by_volumes @ volumes

    derivative = np.sum(displaced_vjp(particles, at, points_bar, volumes_bar) * d)
    assert taylor(f, derivative) == pytest.approx(2.0, abs=0.1)
    # The points alone are linear in the vertices.
    linear = np.sum(displaced_vjp(particles, at, points_bar, 0.0 * volumes_bar) * d)
    assert f(1e-3, by_volumes=0 * volumes_bar) - f(
        0.0, by_volumes=0 * volumes_bar
    ) == pytest.approx(1e-3 * linear, rel=1e-8)


def test_bad_vertices_raise():
    mesh = SHAPES["box"].mesh(cell=0.05)
    particles = sample_particles(mesh, spacing=0.02)
    with pytest.raises(InputError, match="pass all points of the sampled mesh"):
        displaced(particles, mesh.points[:5])
    with pytest.raises(MeshError, match=r"invert \d+ cells that hold particles"):
        displaced(particles, mesh.points * [1.0, 1.0, -1.0])
    with pytest.raises(InputError, match=r"shape \(.*, 3\)"):
        displaced(particles, mesh.points[:, :2])


def test_mesh_of_a_robot_is_sampled():
    robot = pl.Robot(
        shape=Box(size=(0.2, 0.1, 0.1)), divisions=(2, 1, 1), material=pl.Material(E=1e5, nu=0.3)
    )
    assert len(sample_particles(robot.mesh(), spacing=0.025).points) == 8 * 4 * 4
