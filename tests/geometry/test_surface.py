"""Surface: closedness, point containment and meshes that fill it."""

import importlib.util

import numpy as np
import pytest

from pliant.core import InputError, MeshError, MissingExtra
from pliant.geometry import Box, Ellipsoid, Surface, Tube, check_closed, fill, mesh_quality
from pliant.geometry.stuffing import stuff_isosurface


def boundary_surface(mesh):
    """Return the boundary of a mesh as a Surface."""
    used, triangles = np.unique(mesh.boundary(), return_inverse=True)
    return Surface(points=mesh.points[used], triangles=triangles.reshape(-1, 3))


CUBE = boundary_surface(Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1)))
BALL = boundary_surface(Ellipsoid(radii=(1, 1, 1)).mesh(divisions=(8,)))
PIPE = boundary_surface(Tube(outer=1, inner=0.6, length=1).mesh(divisions=(24, 1, 2)))


def test_surface_volume_equals_body_volume():
    assert CUBE.volume() == pytest.approx(1)
    assert PIPE.volume() == pytest.approx(0.64 * 12 * np.sin(np.pi / 12))


def with_fin(triangles):
    return np.vstack([triangles, [[triangles[0, 0], triangles[0, 1], 7]]])


def with_one_reversed(triangles):
    return np.vstack([triangles[:1, ::-1], triangles[1:]])


@pytest.mark.parametrize(
    ("points", "triangles", "message"),
    [
        (CUBE.points, CUBE.triangles[1:], r"3 edges are open.*first: near \["),
        (CUBE.points, with_fin(CUBE.triangles), "open|more than two triangles"),
        (
            CUBE.points,
            np.vstack([CUBE.triangles, CUBE.triangles]),
            "12 duplicated triangles",
        ),
        (
            CUBE.points,
            with_one_reversed(CUBE.triangles),
            "3 edges have triangles of opposite orientation",
        ),
        (
            CUBE.points,
            CUBE.triangles[:, ::-1],
            r"encloses -1.000e\+00 m\^3: its triangles point inward",
        ),
        (CUBE.points * np.nan, CUBE.triangles, "Of the surface, 8 of 8 points are not finite"),
        (CUBE.points[:7], CUBE.triangles, "refers to point 7"),
        (CUBE.points, np.zeros((0, 3), int), r"shape \(0, 3\)"),
        (CUBE.points[:, :2], CUBE.triangles, r"shape \(8, 2\)"),
    ],
)
def test_bad_surface_raises_with_number_and_location(points, triangles, message):
    with pytest.raises(MeshError, match=message):
        Surface(points=points, triangles=triangles)


def test_check_closed_accepts_a_valid_surface():
    check_closed(BALL.points, BALL.triangles)


def test_contains_agrees_with_the_shape_away_from_its_surface():
    x = np.random.default_rng(0).uniform(-1.3, 1.3, size=(4000, 3))
    radius = np.linalg.norm(x, axis=1)
    off_surface = np.abs(radius - 1) > 0.02
    np.testing.assert_array_equal(BALL.contains(x[off_surface]), radius[off_surface] < 1)
    rho = np.hypot(x[:, 0], x[:, 1])
    off_surface = (np.abs(rho - 0.8) < 0.17) | (np.abs(rho - 0.8) > 0.22)
    inside = (rho > 0.6) & (rho < 1) & (x[:, 2] > 0) & (x[:, 2] < 1)
    np.testing.assert_array_equal(PIPE.contains(x[off_surface]), inside[off_surface])


def test_first_crossings_lie_on_the_sphere():
    rays = np.random.default_rng(1).normal(size=(500, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    t = BALL.first_crossings(np.zeros((500, 3)), 2 * rays)
    assert (2 * t <= 1 + 1e-12).all()
    assert (2 * t > 0.98).all()


@pytest.mark.parametrize("cell", [0.4, 0.31, 0.25])
def test_stuffing_gives_good_angles_and_closed_boundary(cell):
    for surface in (BALL, PIPE, CUBE):
        measured = mesh_quality(fill(surface, cell))
        assert measured.smallest_angle > 10
        assert measured.closed
        assert measured.surface_volume == pytest.approx(measured.total_volume)


def test_stuffing_volume_converges_at_second_order():
    error = [1 - fill(BALL, cell).volumes().sum() / BALL.volume() for cell in (0.4, 0.2)]
    assert np.log2(error[0] / error[1]) > 1.5


def rotated_bodies():
    rng = np.random.default_rng(2)
    for k in range(12):
        frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        radii, centre = rng.uniform(0.5, 1.2, 3), rng.uniform(-0.5, 0.5, 3)
        power = 2 if k % 2 else 40  # ellipsoids, and boxes with sharp edges
        yield (
            lambda x, f=frame, r=radii, c=centre, p=power: (
                (np.abs((x - c) @ f / r) ** p).sum(axis=1) < 1
            )
        )


def bisection(inside):
    def crossing(start, end):
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(30):
            middle = 0.5 * (low + high)
            is_inside = inside(start + middle[:, None] * (end - start))
            low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
        return low

    return crossing


@pytest.mark.parametrize("inside", list(rotated_bodies()))
def test_stuffing_angle_bound_holds_for_rotated_bodies(inside):
    mesh = stuff_isosurface(inside, bisection(inside), (np.full(3, -2.6), np.full(3, 2.6)), 0.3)
    assert mesh_quality(mesh).smallest_angle > 10.7  # Labelle and Shewchuk, table 1: 10.78 degrees
    assert mesh_quality(mesh).closed


def test_lattice_keeps_cubes_whose_centre_is_inside():
    mesh = fill(CUBE, 0.25, method="lattice")
    assert mesh.n_cells == 6 * 64
    assert mesh.volumes().sum() == pytest.approx(1)


def test_bad_fill_arguments_raise():
    with pytest.raises(InputError, match=r"no method 'magic'.*stuffing, lattice, gmsh"):
        fill(CUBE, 0.5, method="magic")
    with pytest.raises(InputError, match="cell size is -1 m"):
        fill(CUBE, -1)
    with pytest.raises(MeshError, match="over the limit"):
        fill(CUBE, 1e-4)
    with pytest.raises(MeshError, match=r"1.73 m large\. Use cell = 0\.\d+\.$"):
        fill(CUBE, 50.0)


def test_gmsh_is_optional():
    if importlib.util.find_spec("gmsh") is None:
        with pytest.raises(MissingExtra, match=r"pip install 'pliant\[mesh\]'"):
            fill(CUBE, 0.5, method="gmsh")
    else:
        assert fill(CUBE, 0.5, method="gmsh").volumes().sum() == pytest.approx(1)
