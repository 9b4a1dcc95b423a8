"""Every shape has a valid mesh at every resolution, and the mesh converges to the shape."""

from math import pi

import numpy as np
import pytest

from pliant.core import InputError, MeshError
from pliant.geometry import (
    Annulus,
    Box,
    Cylinder,
    Disc,
    Ellipsoid,
    Polygon,
    Rectangle,
    Strip,
    Surface,
    Tube,
    Union,
    extrude,
    mesh_quality,
)
from pliant.geometry.cells import cell_facets, group_rows

STAR = tuple(
    ((0.4, 1.0)[k % 2] * np.cos(k * pi / 5), (0.4, 1.0)[k % 2] * np.sin(k * pi / 5))
    for k in range(10)
)
L_SHAPE = ((0, 2), (0, 0), (2, 0), (2, 0.3), (0.3, 0.3), (0.3, 2))

# (shape, exact volume, divisions, names of the surfaces); the divisions include odd numbers and the
# smallest ones
CASES = {
    "box": (
        Box(size=(1, 2, 3), origin=(1, 0, 0)),
        6,
        [(1, 1, 1), (2, 3, 4), (5, 1, 2)],
        "x- x+ y- y+ z- z+",
    ),
    "strip": (
        Strip(length=1, width=0.2, thickness=0.01),
        0.002,
        [(9, 2, 1), (20, 4, 1)],
        "x- x+ y- y+ z- z+",
    ),
    "cylinder": (
        Cylinder(radius=1, length=2),
        2 * pi,
        [(1, 1), (2, 3), (3, 2), (5, 5)],
        "bottom top side",
    ),
    "tube": (
        Tube(outer=1, inner=0.6, length=1),
        0.64 * pi,
        [(6, 1, 1), (7, 2, 3), (24, 2, 2)],
        "bottom top side inner",
    ),
    "ellipsoid": (
        Ellipsoid(radii=(1, 2, 0.5)),
        4 / 3 * pi,
        [(1,), (2,), (3,), (5,), (6,)],
        "outside",
    ),
    "rectangle": (Rectangle(size=(2, 3)), 6, [(1, 1), (3, 2), (4, 4)], "x- x+ y- y+"),
    "disc": (Disc(radius=2, origin=(1, 1)), 4 * pi, [(1,), (2,), (3,), (7,), (20,)], "outside"),
    "annulus": (Annulus(outer=1, inner=0.2), 0.96 * pi, [(6, 1), (9, 2), (30, 5)], "outside inner"),
    "star": (Polygon(points=STAR), 10 * 0.5 * 0.4 * np.sin(pi / 5), [(1,), (6,), (21,)], "outside"),
    "L shape": (Polygon(points=L_SHAPE), 1.11, [(1,), (5,), (40,)], "outside"),
}
EVERY_MESH = [
    (name, divisions, order)
    for name, case in CASES.items()
    for divisions in case[2]
    for order in (1, 2)
]
ROUND = {
    "cylinder": [(2, 1), (4, 1), (8, 1)],
    "tube": [(8, 1, 1), (16, 1, 1), (32, 1, 1)],
    "disc": [(2,), (4,), (8,)],
    "ellipsoid": [(2,), (4,), (8,)],
    "annulus": [(8, 1), (16, 1), (32, 1)],
}


@pytest.mark.parametrize(("name", "divisions", "order"), EVERY_MESH)
def test_every_mesh_is_conforming_closed_and_named(name, divisions, order):
    shape, exact, _, names = CASES[name]
    mesh = shape.mesh(divisions=divisions, order=order)
    assert (mesh.dim, mesh.order) == (shape.dim, order)
    assert (mesh.volumes() > 0).all()
    assert mesh.volumes().sum() <= exact * (1 + 1e-2)
    _, _, count = group_rows(cell_facets(mesh.cells)[:, : mesh.dim])
    assert set(count) <= {1, 2}
    measured = mesh_quality(mesh)
    assert measured.closed
    assert measured.surface_volume == pytest.approx(measured.total_volume, rel=1e-9)
    assert set(mesh.surfaces) == set(names.split())
    assert sum(map(len, mesh.surfaces.values())) == len(mesh.boundary())
    assert list(mesh.regions) == ["body"]


@pytest.mark.parametrize("name", ["box", "strip", "rectangle", "star", "L shape"])
def test_straight_shapes_have_exact_volume(name):
    shape, exact, divisions, _ = CASES[name]
    for counts in divisions:
        assert shape.mesh(divisions=counts).volumes().sum() == pytest.approx(exact)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ROUND)
def test_volume_of_round_shapes_converges_at_twice_the_order(name, order):
    shape, exact = CASES[name][:2]
    error = [
        abs(shape.mesh(divisions=d, order=order).volumes().sum() / exact - 1) for d in ROUND[name]
    ]
    rates = np.log2(error[:-1]) - np.log2(error[1:])
    assert (rates > 2 * order - 0.25).all()


@pytest.mark.parametrize("name", CASES)
def test_mesh_lies_within_bounds_and_contains_agrees(name):
    shape = CASES[name][0]
    mesh = shape.mesh(order=2)
    lower, upper = shape.bounds()
    assert (mesh.points >= lower - 1e-9).all()
    assert (mesh.points <= upper + 1e-9).all()
    centres = mesh.points[mesh.corners].mean(axis=1)
    assert shape.contains(centres).all()
    assert not shape.contains(np.vstack([upper + 0.1, lower - 0.1])).any()


@pytest.mark.parametrize("name", ["disc", "cylinder", "ellipsoid"])
def test_angles_of_round_shapes_do_not_decrease_with_resolution(name):
    shape = {
        "disc": Disc(radius=1),
        "cylinder": Cylinder(radius=1, length=1),
        "ellipsoid": Ellipsoid(radii=(1, 1, 1)),
    }[name]
    angles = [mesh_quality(shape.mesh(cell=cell)).smallest_angle for cell in (1, 0.3, 0.2, 0.12)]
    assert min(angles) > 15


def test_box_of_jia2019_has_its_number_of_points_and_cells():
    mesh = Box(size=(0.04, 0.04, 0.2)).mesh(divisions=(4, 4, 20))
    assert (mesh.n_points, mesh.n_cells) == (525, 1920)


@pytest.mark.parametrize(
    "shape",
    [Box(size=(1, 1, 1)), Rectangle(size=(1, 1)), Disc(radius=1), Ellipsoid(radii=(1, 1, 1))],
)
def test_meshes_of_even_divisions_are_symmetric_about_every_midplane(shape):
    mesh = shape.mesh(divisions=(4,) * (1 if isinstance(shape, Disc | Ellipsoid) else shape.dim))
    middle = 0.5 * (mesh.points.max(axis=0) + mesh.points.min(axis=0))
    centres = mesh.points[mesh.cells].mean(axis=1) - middle
    for axis in range(mesh.dim):
        mirrored = centres * np.where(np.arange(mesh.dim) == axis, -1, 1)
        assert as_set(mirrored) == as_set(centres)


def as_set(points):
    return {tuple(p) for p in (points.round(9) + 0.0).tolist()}


def test_named_surfaces_have_correct_positions():
    tube = Tube(outer=1, inner=0.5, length=2, origin=(1, 2, 3)).mesh(cell=0.3, order=2)
    radius = np.hypot(*(tube.points[:, :2] - (1, 2)).T)
    np.testing.assert_allclose(radius[tube.nodes("side")], 1)
    np.testing.assert_allclose(radius[tube.nodes("inner")], 0.5)
    np.testing.assert_allclose(tube.points[tube.nodes("bottom"), 2], 3)
    np.testing.assert_allclose(tube.points[tube.nodes("top"), 2], 5)


def test_strip_cells_are_well_shaped_if_cell_size_exceeds_thickness():
    mesh = Strip(length=0.1, width=0.02, thickness=0.001).mesh(cell=0.02)
    assert mesh_quality(mesh).smallest_angle > 10


def test_union_of_two_boxes_equals_the_arm_of_jia2019():
    arm = Union(
        parts={"soft": Box(size=(4, 4, 10)), "stiff": Box(size=(4, 4, 10), origin=(0, 0, 10))},
        cell=1.0,
    ).mesh()
    assert (arm.n_points, arm.n_cells) == (525, 1920)
    assert arm.volumes()[arm.regions["stiff"]].sum() == pytest.approx(160)
    assert (arm.points[arm.cells[arm.regions["soft"]], 2] <= 10).all()
    assert set(arm.surfaces) == {"x-", "x+", "y-", "y+", "z-", "z+", "outside"}


def test_union_assigns_shared_cells_to_the_first_part():
    inner, outer = Box(size=(1, 1, 1), origin=(1, 1, 1)), Box(size=(3, 3, 3))
    mesh = Union(parts={"core": inner, "hull": outer}, cell=1.0).mesh(order=2)
    assert [len(mesh.regions[name]) for name in ("core", "hull")] == [6, 26 * 6]
    assert mesh_quality(mesh).closed


def test_union_accepts_a_closed_surface_as_a_part():
    corners = np.array([[0.0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 3]])
    tip = Surface(points=corners, triangles=[[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])
    mesh = Union(parts={"tip": tip, "base": Box(size=(3, 3, 1), origin=(0, 0, -1))}).mesh(cell=0.25)
    assert mesh.volumes()[mesh.regions["tip"]].sum() == pytest.approx(tip.volume(), rel=0.2)


def test_extrude_keeps_the_outline_and_its_names():
    flat = Rectangle(size=(2, 1)).mesh(divisions=(3, 2))
    solid = extrude(flat, thickness=0.5, layers=2)
    assert solid.volumes().sum() == pytest.approx(1.0)
    assert set(solid.surfaces) == {"x-", "x+", "y-", "y+", "bottom", "top"}
    assert (solid.points[solid.nodes("x+"), 0] == 2).all()
    assert sum(map(len, solid.surfaces.values())) == len(solid.boundary())
    centres = solid.points[solid.cells].mean(axis=1)
    assert as_set(centres * [1, 1, -1] + [0, 0, 0.5]) == as_set(centres)


ONE_PART = {"a": Box(size=(1, 1, 1))}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(size=(1, 0, 1)), r"size of a Box\[1\] is 0 m"),
        (lambda: Box(size=(1, np.nan, 1)), r"\[1\] is nan m"),
        (lambda: Box(size=(1, 1)), "pass 3 numbers"),
        (lambda: Box(size="long"), "pass 3 numbers"),
        (lambda: Box(size=(1, 1, 1), origin=(0, np.inf, 0)), r"origin of a Box\[1\] is inf"),
        (lambda: Cylinder(radius=-1, length=1), "radius of a Cylinder is -1 m"),
        (
            lambda: Tube(outer=1, inner=1, length=1),
            "inner radius of a Tube, 1 m, is not under the outer, 1 m",
        ),
        (lambda: Annulus(outer=1, inner=0), "inner radius of an Annulus is 0 m"),
        (lambda: Ellipsoid(radii=(1, 1, -1)), r"radii of an Ellipsoid\[2\]"),
        (lambda: Strip(length=1, width=1, thickness=0), "thickness of a Strip"),
        (lambda: Polygon(points=((0, 0), (1, 0))), "at least 3"),
        (
            lambda: Polygon(points=((0, 0), (1, 1), (1, 0), (0, 1))),
            "Sides 0 and 2 of the Polygon touch or cross",
        ),
        (
            lambda: Polygon(points=((0, 0), (1, 0), (1, 1), (0, 0))),
            "Corners 3 and 0 of the Polygon coincide",
        ),
        (lambda: Polygon(points=((0, 0), (1, 0), (2, 0))), "area"),
        (lambda: Polygon(points=((0, 0), (1, np.inf), (2, 0))), "at entry 1, "),
        (lambda: Box(size=(1, 1, 1)).mesh(cell=0), "cell size is 0 m"),
        (lambda: Box(size=(1, 1, 1)).mesh(cell=np.nan), "cell size is nan m"),
        (
            lambda: Box(size=(1, 1, 1)).mesh(cell=1e-3),
            r"about 6e\+09 cells, over the limit of 2000000",
        ),
        (lambda: Box(size=(1, 1, 1)).mesh(cell=1e-300), "about inf cells"),
        (lambda: Disc(radius=1).mesh(cell=1e-9), "over the limit"),
        (lambda: Disc(radius=1).mesh(divisions=(10**9,)), "over the limit"),
        (lambda: Cylinder(radius=1, length=1).mesh(divisions=(10**9, 1)), "over the limit"),
        (lambda: Tube(outer=1, inner=0.5, length=1).mesh(cell=1e-9), "over the limit"),
        (lambda: Polygon(points=STAR).mesh(cell=1e-6), "over the limit"),
        (lambda: Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 0)), "3 whole numbers"),
        (lambda: Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1.5)), "3 whole numbers"),
        (lambda: Annulus(outer=1, inner=0.5).mesh(divisions=(4, 1)), r"at least \(6, 1\)"),
        (lambda: Box(size=(1, 1, 1)).mesh(order=3), "order is 3"),
        (lambda: Union(parts=ONE_PART).mesh(order=0), "order is 0"),
        (lambda: Union(parts={}), "0 parts"),
        (lambda: Union(parts={**ONE_PART, "b": Disc(radius=1)}), "all flat or all solid"),
        (lambda: Union(parts={"x-": Box(size=(1, 1, 1))}), "name of a surface"),
        (
            lambda: Union(parts={**ONE_PART, "b": ONE_PART["a"]}, cell=0.5).mesh(),
            "Part 'b' of the Union owns none",
        ),
        (lambda: extrude(Rectangle(size=(1, 1)).mesh(), thickness=-1), "thickness"),
        (lambda: extrude(Rectangle(size=(1, 1)).mesh(), thickness=1, layers=0), "0 layers"),
        (lambda: extrude(Box(size=(1, 1, 1)).mesh(), thickness=1), "dim 3"),
    ],
)
def test_bad_shapes_raise(make, message):
    with pytest.raises((InputError, MeshError), match=message):
        make()


@pytest.mark.parametrize(
    ("inner", "message"), [(0.019, "have 56 % of"), (0.0195, r"make \d+ pieces")]
)
def test_union_that_loses_thin_walls_warns(inner, message):
    base = Box(size=(0.01, 0.01, 0.01), origin=(-0.005, -0.005, 0.0))
    parts = {"base": base, "pipe": Tube(outer=0.02, inner=inner, length=0.04)}
    with pytest.warns(UserWarning, match=message):
        Union(parts=parts).mesh(cell=0.004)
