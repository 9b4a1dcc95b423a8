"""Surface: closed or refused; inside and outside; and meshes that fill it."""

import importlib.util

import numpy as np
import pytest

from pliant.core import InputError, MeshError, MissingExtra
from pliant.geometry import Box, Ellipsoid, Surface, Tube, check_closed, fill, mesh_quality
from pliant.geometry.stuffing import stuff_isosurface


def skin(mesh):
    """The boundary of a mesh as a Surface."""
    used, triangles = np.unique(mesh.boundary(), return_inverse=True)
    return Surface(points=mesh.points[used], triangles=triangles.reshape(-1, 3))


CUBE = skin(Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1)))
BALL = skin(Ellipsoid(radii=(1, 1, 1)).mesh(divisions=(8,)))
PIPE = skin(Tube(outer=1, inner=0.6, length=1).mesh(divisions=(24, 1, 2)))


def test_volume_is_that_of_the_body():
    assert CUBE.volume() == pytest.approx(1)
    assert PIPE.volume() == pytest.approx(0.64 * 12 * np.sin(np.pi / 12))


def with_fin(triangles):
    return np.vstack([triangles, [[triangles[0, 0], triangles[0, 1], 7]]])


def with_one_turned(triangles):
    return np.vstack([triangles[:1, ::-1], triangles[1:]])


@pytest.mark.parametrize(
    ("points", "triangles", "says"),
    [
        (CUBE.points, CUBE.triangles[1:], r"3 edges are open.*first: near \["),
        (CUBE.points, with_fin(CUBE.triangles), "open|more than two triangles"),
        (
            CUBE.points,
            np.vstack([CUBE.triangles, CUBE.triangles]),
            "12 triangles of the surface are duplicated",
        ),
        (
            CUBE.points,
            with_one_turned(CUBE.triangles),
            "3 edges have triangles of opposite orientation",
        ),
        (
            CUBE.points,
            CUBE.triangles[:, ::-1],
            r"encloses -1.000e\+00 m\^3: its triangles point inward",
        ),
        (CUBE.points * np.nan, CUBE.triangles, "8 of 8 points of the surface are not finite"),
        (CUBE.points[:7], CUBE.triangles, "refers to point 7"),
        (CUBE.points, np.zeros((0, 3), int), r"shape \(0, 3\)"),
        (CUBE.points[:, :2], CUBE.triangles, r"shape \(8, 2\)"),
    ],
)
def test_a_bad_surface_is_refused_with_number_and_place(points, triangles, says):
    with pytest.raises(MeshError, match=says):
        Surface(points=points, triangles=triangles)


def test_check_closed_accepts_what_a_surface_accepts():
    check_closed(BALL.points, BALL.triangles)


def test_contains_agrees_with_the_shape_away_from_its_skin():
    x = np.random.default_rng(0).uniform(-1.3, 1.3, size=(4000, 3))
    radius = np.linalg.norm(x, axis=1)
    clear = np.abs(radius - 1) > 0.02
    np.testing.assert_array_equal(BALL.contains(x[clear]), radius[clear] < 1)
    rho = np.hypot(x[:, 0], x[:, 1])
    clear = (np.abs(rho - 0.8) < 0.17) | (np.abs(rho - 0.8) > 0.22)
    inside = (rho > 0.6) & (rho < 1) & (x[:, 2] > 0) & (x[:, 2] < 1)
    np.testing.assert_array_equal(PIPE.contains(x[clear]), inside[clear])


def test_crossings_meet_the_sphere_at_its_radius():
    rays = np.random.default_rng(1).normal(size=(500, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    t = BALL.first_crossings(np.zeros((500, 3)), 2 * rays)
    assert (2 * t <= 1 + 1e-12).all()
    assert (2 * t > 0.98).all()


@pytest.mark.parametrize("cell", [0.4, 0.31, 0.25])
def test_stuffing_keeps_good_angles_and_a_closed_skin(cell):
    for surface in (BALL, PIPE, CUBE):
        measured = mesh_quality(fill(surface, cell))
        assert measured.smallest_angle > 10
        assert measured.closed
        assert measured.surface_volume == pytest.approx(measured.total_volume)


def test_stuffing_converges_to_the_volume_with_second_order():
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


def halving(inside):
    def crossing(start, end):
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(30):
            middle = 0.5 * (low + high)
            held = inside(start + middle[:, None] * (end - start))
            low, high = np.where(held, middle, low), np.where(held, high, middle)
        return low

    return crossing


@pytest.mark.parametrize("inside", list(rotated_bodies()))
def test_stuffing_angles_hold_for_any_body(inside):
    mesh = stuff_isosurface(inside, halving(inside), (np.full(3, -2.6), np.full(3, 2.6)), 0.3)
    assert mesh_quality(mesh).smallest_angle > 10.7  # Labelle and Shewchuk, table 1: 10.78 degrees
    assert mesh_quality(mesh).closed


def test_lattice_keeps_the_cubes_whose_middle_is_inside():
    mesh = fill(CUBE, 0.25, method="lattice")
    assert mesh.n_cells == 6 * 64
    assert mesh.volumes().sum() == pytest.approx(1)


def test_fill_refuses_what_it_cannot_do():
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
