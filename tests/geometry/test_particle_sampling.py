"""Particles inside a mesh: evenly placed, of the right volume, and moved with the mesh's
vertices."""

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
    "ring": Annulus(outer=0.1, inner=0.06),
}
HOW = pytest.mark.parametrize("how", ["lattice", "jitter"])
TWO = Union(
    parts={
        "hard": Box(size=(0.1, 0.1, 0.1)),
        "soft": Box(size=(0.2, 0.1, 0.05), origin=(0.1, 0.0, 0.0)),
    }
)


@pytest.mark.parametrize("order", [1, 2])
@HOW
@pytest.mark.parametrize("name", SHAPES)
def test_every_point_is_where_its_cell_and_shares_say_and_volumes_add_up(name, how, order):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    seeds = sample_particles(mesh, spacing=0.02, method=how)
    assert seeds.points.shape == (len(seeds.cells), mesh.dim)
    assert seeds.barycentric.shape == seeds.nodes.shape == (len(seeds.cells), mesh.dim + 1)
    np.testing.assert_array_equal(seeds.nodes, mesh.corners[seeds.cells])
    np.testing.assert_allclose(
        np.einsum("na,nai->ni", seeds.barycentric, mesh.points[seeds.nodes]),
        seeds.points,
        atol=1e-14,
    )
    assert seeds.barycentric.min() > -1e-9
    assert seeds.volumes.sum() == pytest.approx(mesh.volumes().sum(), rel=1e-12)
    np.testing.assert_array_equal(seeds.regions["body"], np.arange(len(seeds.points)))
    # The count is the volume over the lattice's, up to the points of about one layer at the
    # boundary.
    assert len(seeds.points) == pytest.approx(mesh.volumes().sum() / 0.02**mesh.dim, rel=0.25)


@pytest.mark.parametrize("name", ["box", "rectangle"])
def test_a_box_is_filled_evenly(name):
    shape = SHAPES[name]
    seeds = sample_particles(
        shape.mesh(cell=0.07), spacing=0.021
    )  # neither spacing divides the sides
    counts = np.round(np.asarray(shape.size) / 0.021)
    step = np.asarray(shape.size) / counts
    assert len(seeds.points) == np.prod(counts)
    index = (seeds.points - shape.origin) / step - 0.5
    np.testing.assert_allclose(index, np.round(index), atol=1e-12)
    assert len(np.unique(np.round(index), axis=0)) == len(index)
    np.testing.assert_allclose(seeds.volumes, np.prod(step), rtol=1e-13)
    # In memory the last axis runs quickest.
    np.testing.assert_array_equal(np.lexsort(np.round(index).T[::-1]), np.arange(len(index)))


def test_jitter_has_a_point_in_each_lattice_cell_and_follows_its_seed():
    shape = SHAPES["box"]
    mesh = shape.mesh(cell=0.07)
    one, again, other = (
        sample_particles(mesh, spacing=0.02, method="jitter", rng_seed=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.points, again.points)
    assert np.abs(one.points - other.points).max() > 1e-3
    cell = np.floor((one.points - shape.origin) / (np.asarray(shape.size) / (15, 10, 5)))
    np.testing.assert_array_equal(cell, np.indices((15, 10, 5)).reshape(3, -1).T)


def test_the_lattice_agrees_with_the_shape():
    """Straight cells of a disc leave out what lies between its circle and their chords, and nothing
    else."""
    disc = Disc(radius=0.1)
    seeds = sample_particles(disc.mesh(divisions=(12,)), spacing=0.005)
    grid = -0.1 + 0.2 * (np.indices((40, 40)).reshape(2, -1).T + 0.5) / 40
    inside = grid[np.linalg.norm(grid, axis=1) < 0.1 * np.cos(np.pi / 72)]
    assert set(map(tuple, inside.round(9))) <= set(map(tuple, seeds.points.round(9)))
    assert disc.contains(seeds.points).all()


def test_each_region_has_its_points_and_its_volume():
    mesh = TWO.mesh(cell=0.025)
    seeds = sample_particles(mesh, spacing=0.01)
    volumes = mesh.volumes()
    assert set(seeds.regions) == {"hard", "soft"}
    for name, chosen in mesh.regions.items():
        assert seeds.volumes[seeds.regions[name]].sum() == pytest.approx(
            volumes[chosen].sum(), rel=1e-12
        )
        assert TWO.parts[name].contains(seeds.points[seeds.regions[name]]).all()


def test_overlapping_and_missing_regions_keep_their_volumes():
    box = Box(size=(1, 1, 1)).mesh(divisions=(4, 4, 4))
    regions = {"a": np.arange(200), "b": np.arange(100, 300)}  # the last 84 cells belong to neither
    mesh = Mesh(points=box.points, cells=box.cells, regions=regions)
    seeds = sample_particles(mesh, spacing=0.11)
    for name, chosen in regions.items():
        assert seeds.volumes[seeds.regions[name]].sum() == pytest.approx(
            mesh.volumes()[chosen].sum(), rel=1e-12
        )
    assert seeds.volumes.sum() == pytest.approx(1.0)


def test_a_coarse_mesh_is_filled_in_chunks(monkeypatch):
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1))
    whole = sample_particles(mesh, spacing=0.1, method="jitter")
    monkeypatch.setattr("pliant.geometry.particle_sampling.CHUNK_SIZE", 77)
    parts = sample_particles(mesh, spacing=0.1, method="jitter")
    np.testing.assert_array_equal(whole.points, parts.points)
    np.testing.assert_array_equal(whole.cells, parts.cells)


# What cannot be filled


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: sample_particles(SHAPES["ring"].mesh(cell=0.05), spacing=1.0),
            r"inside the mesh at a spacing of 1 m; choose about 0.12 m",
        ),
        (
            lambda: sample_particles(TWO.mesh(cell=0.025), spacing=0.3),
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
def test_what_cannot_be_seeded_is_one_sentence(make, says):
    with pytest.raises(InputError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_spacing_that_a_sentence_names_will_do():
    mesh = SHAPES["ring"].mesh(cell=0.05)
    with pytest.raises(MeshError) as caught:
        sample_particles(mesh, spacing=1.0)
    sample_particles(mesh, spacing=float(str(caught.value).split("about ")[1].split(" m")[0]))


# Files


def test_an_stl_becomes_particles_and_one_with_a_hole_a_sentence(tmp_path):
    ball = trimesh.creation.icosphere(radius=0.05)
    ball.export(tmp_path / "ball.stl")
    mesh = fill(load_surface(tmp_path / "ball.stl"), 0.01)
    seeds = sample_particles(mesh, spacing=0.005)
    assert seeds.volumes.sum() == pytest.approx(mesh.volumes().sum())
    assert np.linalg.norm(seeds.points, axis=1).max() < 0.05
    np.testing.assert_allclose(seeds.points.mean(axis=0), 0.0, atol=2e-4)
    trimesh.Trimesh(ball.vertices, ball.faces[3:]).export(tmp_path / "open.stl")
    with pytest.raises(MeshError, match=r"open.stl: .*edges are open"):
        load_surface(tmp_path / "open.stl")


@pytest.mark.parametrize("thickness", [None, 0.04])
def test_a_silhouette_becomes_particles(tmp_path, thickness):
    image = Image.new("L", (120, 80), 255)
    ImageDraw.Draw(image).rectangle((10, 10, 109, 69), fill=0)
    image.save(tmp_path / "bar.png")
    mesh = load_silhouette(tmp_path / "bar.png", height=0.12, cell=0.02, thickness=thickness)
    seeds = sample_particles(mesh, spacing=0.01)
    assert seeds.volumes.sum() == pytest.approx(0.024 * (thickness or 1.0), rel=0.02)


# Moving the mesh


def bent(points):
    """A smooth map that bends and swells."""
    x = points - points.mean(axis=0)
    return points + 0.8 * x * x[:, ::-1] + 0.1 * x


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["box", "rectangle"])
def test_points_and_volumes_follow_the_vertices(name, order):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    seeds = sample_particles(mesh, spacing=0.02)
    points, volumes = displaced(seeds, mesh.points)
    np.testing.assert_allclose(points, seeds.points, atol=1e-14)
    np.testing.assert_allclose(volumes, seeds.volumes, rtol=1e-12)
    # An affine map is exact: points go with it and volumes grow by its determinant.
    A = np.eye(mesh.dim) + 0.1 * np.arange(mesh.dim**2).reshape(mesh.dim, mesh.dim)
    points, volumes = displaced(seeds, mesh.points @ A.T + 0.3)
    np.testing.assert_allclose(points, seeds.points @ A.T + 0.3, atol=1e-13)
    np.testing.assert_allclose(volumes, np.linalg.det(A) * seeds.volumes, rtol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["ellipsoid", "ring"])
def test_moving_back_is_the_gradient_by_the_vertices(name, order, rng, taylor):
    mesh = SHAPES[name].mesh(cell=0.05, order=order)
    seeds = sample_particles(mesh, spacing=0.03)
    at, d = bent(mesh.points), 0.05 * rng.standard_normal(mesh.points.shape)
    points_bar, volumes_bar = (
        rng.standard_normal(seeds.points.shape),
        rng.standard_normal(seeds.volumes.shape) / seeds.volumes.mean(),
    )

    def f(e, by_points=points_bar, by_volumes=volumes_bar):
        points, volumes = displaced(seeds, at + e * d)
        return np.sum(by_points * points) + by_volumes @ volumes

    slope = np.sum(displaced_vjp(seeds, at, points_bar, volumes_bar) * d)
    assert taylor(f, slope) == pytest.approx(2.0, abs=0.1)
    # The points alone are linear in the vertices.
    linear = np.sum(displaced_vjp(seeds, at, points_bar, 0.0 * volumes_bar) * d)
    assert f(1e-3, by_volumes=0 * volumes_bar) - f(
        0.0, by_volumes=0 * volumes_bar
    ) == pytest.approx(1e-3 * linear, rel=1e-8)


def test_vertices_that_do_not_fit_are_refused():
    mesh = SHAPES["box"].mesh(cell=0.05)
    seeds = sample_particles(mesh, spacing=0.02)
    with pytest.raises(InputError, match="pass all points of the sampled mesh"):
        displaced(seeds, mesh.points[:5])
    with pytest.raises(MeshError, match=r"invert \d+ cells that hold particles"):
        displaced(seeds, mesh.points * [1.0, 1.0, -1.0])
    with pytest.raises(InputError, match=r"shape \(.*, 3\)"):
        displaced(seeds, mesh.points[:, :2])


def test_a_robots_mesh_can_be_seeded():
    robot = pl.Robot(
        shape=Box(size=(0.2, 0.1, 0.1)), divisions=(2, 1, 1), material=pl.Material(E=1e5, nu=0.3)
    )
    assert len(sample_particles(robot.mesh(), spacing=0.025).points) == 8 * 4 * 4
