"""Mesh: validation, orientation, quadratic cells, point location and named surfaces."""

import pickle

import numpy as np
import pytest

from pliant.core import InputError, MeshError
from pliant.geometry import (
    Box,
    Cylinder,
    Disc,
    Mesh,
    Rectangle,
    add_surface,
    merge_points,
    orient_cells,
    remove_unused_points,
)
from pliant.geometry.cells import EDGES, FACETS, shape_values

TET = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
ONE_CELL = np.array([[0, 1, 2, 3]])
FLAT_TET = np.vstack([TET[:3], [[0.3, 0.3, 0]]])
DUPLICATE_NODES = np.vstack([TET, TET[1:] + [[0, 0, 0]], [[1, 1, 1]]])
SHARED_FACET = np.vstack([TET, [[0.2, 0.2, -1], [0.3, 0.3, 3]]])
QUADRATIC_BOX = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1), order=2)


def folded_points():
    points = QUADRATIC_BOX.points.copy()
    points[QUADRATIC_BOX.cells[0, 4]] = points[QUADRATIC_BOX.cells[0, 3]] + 0.01
    return points


@pytest.mark.parametrize(
    ("points", "cells", "message"),
    [
        (TET[:, :1], ONE_CELL, r"shape \(4, 1\)"),
        (TET, np.zeros((0, 4), int), "empty"),
        (TET, ONE_CELL[:, :3], "3 nodes do not fit points in 3D"),
        (TET[:, :2], ONE_CELL, "4 nodes do not fit points in 2D"),
        (TET, ONE_CELL.astype(float), "float64"),
        (np.where(TET == 1, np.nan, TET), ONE_CELL, "3 of 4 points are not finite .first: point 1"),
        (TET, ONE_CELL + 1, r"outside 0..3 \(first: cell 0, \[1, 2, 3, 4\]\)"),
        (TET, ONE_CELL - 1, "outside 0..3"),
        (TET, [[0, 1, 2, 2]], "1 of 1 cell names a point twice"),
        (
            np.vstack([TET, [[2, 2, 2]]]),
            ONE_CELL,
            "1 of 5 points belongs to no cell .first: point 4.*remove_unused_points",
        ),
        (DUPLICATE_NODES, [[0, 1, 2, 3], [4, 5, 6, 7]], "6 of 8 nodes coincide.*merge_points"),
        (
            TET,
            [[0, 1, 2, 3], [1, 0, 3, 2]],
            "1 of 2 cells repeats another one .first: cells 0 and 1",
        ),
        (FLAT_TET, ONE_CELL, "1 of 1 tetrahedron is flat"),
        (
            TET,
            [[1, 0, 2, 3]],
            r"1 of 1 tetrahedron is inverted \(first: cell 0, volume -1.67e-01 m\^3\)"
            r".*orient_cells",
        ),
        (TET[:3, :2], [[0, 2, 1]], "1 of 1 triangle is inverted"),
        (folded_points(), QUADRATIC_BOX.cells, "quadratic cells fold over"),
        (
            SHARED_FACET,
            orient_cells(SHARED_FACET, np.array([[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 5]])),
            "1 facets are shared by more than",
        ),
    ],
)
def test_bad_mesh_raises_with_number_and_location(points, cells, message):
    with pytest.raises(MeshError, match=message):
        Mesh(points=points, cells=cells)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"regions": {"a": [0, 6]}}, "Region 'a' names cell 6, but the cells are 0..5"),
        ({"regions": {"a": [[0]]}}, "list of cell indices"),
        ({"surfaces": {"a": [[0, 1]]}}, r"shape \(1, 2\)"),
        ({"surfaces": {"a": [[0, 7, 1]]}}, "surface 'a', 1 of 1 facet is not on the boundary"),
        (
            {"regions": {"a": [0]}, "surfaces": {"a": np.zeros((0, 3), int)}},
            "both a region and a surface",
        ),
    ],
)
def test_bad_regions_and_surfaces_raise(names, message):
    box = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1))
    with pytest.raises(MeshError, match=message):
        Mesh(points=box.points, cells=box.cells, **names)


def test_suggested_remedies_give_valid_meshes():
    inverted = np.array([[1, 0, 2, 3]])
    assert Mesh(points=TET, cells=orient_cells(TET, inverted)).volumes() == pytest.approx([1 / 6])
    with_unused = np.vstack([[[5, 5, 5]], TET])
    points, cells = remove_unused_points(with_unused, ONE_CELL + 1)
    assert Mesh(points=points, cells=cells).n_points == 4
    points, cells = merge_points(DUPLICATE_NODES, np.array([[0, 1, 2, 3], [4, 5, 6, 7]]))
    assert Mesh(points=points, cells=orient_cells(points, cells)).n_points == 5


def test_orient_cells_reorders_mid_edge_nodes():
    mesh = Cylinder(radius=1, length=1).mesh(divisions=(2, 1), order=2)
    mirrored = mesh.points * [-1, 1, 1]
    fixed = Mesh(points=mirrored, cells=orient_cells(mirrored, mesh.cells))
    assert fixed.volumes().sum() == pytest.approx(mesh.volumes().sum())


@pytest.mark.parametrize("shape", [Box(size=(1, 2, 3)), Rectangle(size=(1, 2))])
def test_quadratic_appends_mid_edge_nodes(shape):
    mesh = shape.mesh(divisions=(3, 2, 1)[: shape.dim])
    fine = mesh.quadratic()
    assert fine.order == 2
    assert fine.quadratic() is fine
    np.testing.assert_array_equal(fine.points[: mesh.n_points], mesh.points)
    for column, (a, b) in enumerate(EDGES[mesh.dim], start=mesh.dim + 1):
        middle = 0.5 * (fine.points[fine.cells[:, a]] + fine.points[fine.cells[:, b]])
        np.testing.assert_allclose(fine.points[fine.cells[:, column]], middle)
    assert len(np.unique(fine.points.round(9), axis=0)) == fine.n_points
    for name, facets in fine.surfaces.items():
        np.testing.assert_array_equal(facets[:, : mesh.dim], mesh.surfaces[name])
        edge_ends = ((0, 1), (1, 2), (2, 0))[: facets.shape[1] - mesh.dim]
        for column, (a, b) in enumerate(edge_ends, start=mesh.dim):
            middle = 0.5 * (fine.points[facets[:, a]] + fine.points[facets[:, b]])
            np.testing.assert_allclose(fine.points[facets[:, column]], middle)
    assert set(fine.regions) == {"body"}


def test_facet_tables_of_both_orders_agree():
    for low, high, dim in ((3, 6, 2), (4, 10, 3)):
        for straight, curved in zip(FACETS[low], FACETS[high], strict=True):
            assert curved[:dim] == straight
            edge_ends = ((0, 1), (1, 2), (2, 0))[: len(curved) - dim]
            edges = [set(EDGES[dim][node - dim - 1]) for node in curved[dim:]]
            assert edges == [{straight[a], straight[b]} for a, b in edge_ends]


def test_arrays_are_read_only_and_copied():
    points = TET.copy()
    mesh = Mesh(points=points, cells=ONE_CELL)
    points[0] = 9
    assert mesh.points[0, 0] == 0
    for array in (mesh.points, mesh.cells, mesh.boundary()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert mesh.boundary() is mesh.boundary()
    assert pickle.loads(pickle.dumps(mesh)).n_cells == 1


def test_surface_facets_are_oriented_outward():
    mesh = Mesh(points=TET, cells=ONE_CELL, surfaces={"floor": [[1, 2, 0]]})
    a, b, c = TET[mesh.surfaces["floor"][0]]
    assert np.cross(b - a, c - a)[2] < 0


def test_nodes_are_found_by_name_and_error_suggests_similar_name():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(2, 2, 2))
    assert (mesh.points[mesh.nodes("z+"), 2] == 1).all()
    assert mesh.nodes("z+").size == 9
    assert mesh.nodes("body").size == mesh.n_points
    with pytest.raises(InputError, match=r"no surface or region 'bodi'.*Did you mean 'body'"):
        mesh.nodes("bodi")


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "shape",
    [Box(size=(1, 0.1, 5)), Rectangle(size=(3, 1)), Disc(radius=2), Cylinder(radius=1, length=2)],
)
def test_locate_returns_cell_and_barycentric_coordinates(shape, order):
    rng = np.random.default_rng(0)
    mesh = shape.mesh(order=order)
    chosen = rng.integers(mesh.n_cells, size=300)
    bary = rng.dirichlet(np.ones(mesh.dim + 1), size=300)
    x = np.einsum("ka,kai->ki", shape_values(bary, order), mesh.points[mesh.cells[chosen]])
    found, bary_found = mesh.locate(x)
    back = np.einsum("ka,kai->ki", shape_values(bary_found, order), mesh.points[mesh.cells[found]])
    np.testing.assert_allclose(back, x, atol=1e-9 * mesh.size)
    np.testing.assert_allclose(bary_found.sum(axis=1), 1)
    assert (found == chosen).mean() > 0.99


def test_locate_works_for_cells_of_large_aspect_ratio():
    mesh = Box(size=(1, 1, 0.001)).mesh(divisions=(1, 1, 9))
    x = np.random.default_rng(1).uniform(0, [1, 1, 0.001], size=(50, 3))
    found, bary = mesh.locate(x)
    assert bary.min() > -1e-9
    np.testing.assert_allclose(
        np.einsum("ka,kai->ki", bary, mesh.points[mesh.cells[found]]), x, atol=1e-12
    )


def test_locate_accepts_boundary_points_and_reports_first_point_outside():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(2, 2, 2))
    mesh.locate(mesh.points)
    mesh.locate([[1 + 1e-6, 0.5, 0.5]])
    with pytest.raises(
        InputError, match=r"2 of 3 points lie outside.*point 1 at \[1.5, 0.5, 0.5\] m, 0.5 m from"
    ):
        mesh.locate([[0.5, 0.5, 0.5], [1.5, 0.5, 0.5], [9, 9, 9]])
    with pytest.raises(InputError, match="finite"):
        mesh.locate([[np.nan, 0, 0]])
    with pytest.raises(InputError, match="3D"):
        mesh.locate([[0.0, 0.0]])


def test_add_surface_rejects_existing_names():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1))
    with pytest.raises(InputError, match=r"already has a surface 'z\+'.*another name"):
        add_surface(mesh, "z+", lambda x: x[:, 0] < 0.5)
    with pytest.raises(InputError, match="already has a region 'body'"):
        add_surface(mesh, "body", lambda x: x[:, 0] < 0.5)


def position(mesh, found):
    cells, bary = found
    return np.einsum("ka,kai->ki", shape_values(bary, mesh.order), mesh.points[mesh.cells[cells]])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [Box(size=(0.1, 0.1, 0.1)), Rectangle(size=(0.1, 0.1))])
def test_locate_projects_points_slightly_outside_to_the_surface(shape, order):
    mesh = shape.mesh(divisions=(2,) * shape.dim, order=order)
    at = np.full((1, mesh.dim), 0.03)
    at[0, 0] = 0.1 + 2e-7
    expected = np.minimum(at, 0.1)
    np.testing.assert_allclose(position(mesh, mesh.locate(at)), expected, atol=1e-15)
    at[0, 0] = 0.13
    np.testing.assert_allclose(position(mesh, mesh.locate(at, snap=0.031)), expected, atol=1e-15)


def test_locate_error_reports_distance_to_surface_not_to_node():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1))
    with pytest.raises(
        InputError,
        match=r"0\.2 m from the surface\)\. Move it to the nearest point \[1\.0, 0\.4, 0\.3\] m.*"
        r"snap=0\.2",
    ):
        mesh.locate([[1.2, 0.4, 0.3]])


@pytest.mark.parametrize(
    ("shape", "scale"), [(Disc(radius=1), (1, 1)), (Cylinder(radius=1, length=2), (1, 1, 0))]
)
def test_locate_finds_nearest_point_of_curved_facets(shape, scale):
    mesh = shape.mesh(cell=0.3, order=2)
    angle = np.linspace(0, 6, 20)
    at = np.stack([np.cos(angle), np.sin(angle), 0 * angle + 0.9], axis=1)[:, : mesh.dim]
    found = position(mesh, mesh.locate(at + 0.3 * at * scale, snap=0.31))
    np.testing.assert_allclose(found, at, atol=1e-3)


@pytest.mark.parametrize("order", [1, 2])
def test_locate_rejects_distant_points_and_negative_snap(order):
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(1, 1, 1), order=order)
    with pytest.raises(InputError, match="Check the units"):
        mesh.locate([[1e16, 0, 0]])
    with pytest.raises(InputError, match=r"1e\+08 m from the surface"):
        mesh.locate([[1e8, 0, 0]])
    with pytest.raises(InputError, match="snap distance is -1 m"):
        mesh.locate([[0, 0, 0]], snap=-1)


def test_mesh_repr_is_one_line():
    mesh = Box(size=(1, 1, 2)).mesh(divisions=(3, 3, 3))
    assert repr(mesh) == (
        "<Mesh: 64 points, 162 tetrahedra of order 1, 1 x 1 x 2 m; regions body; surfaces "
        "x-, x+, y-, y+, z-, z+>"
    )


def test_add_surface_accepts_predicate_and_mask():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(2, 2, 2))
    tip = add_surface(mesh, "tip", lambda x: (x[:, 2] > 0.99) & (x[:, 0] < 0.5))
    assert len(tip.surfaces["tip"]) == 4
    mask = (mesh.points[mesh.boundary()].mean(axis=1) > 0.99)[:, 2]
    np.testing.assert_array_equal(add_surface(mesh, "lid", mask).nodes("lid"), mesh.nodes("z+"))
    with pytest.raises(InputError, match="No boundary facet"):
        add_surface(mesh, "tip", lambda x: x[:, 2] > 2)
    with pytest.raises(InputError, match="one bool for each of the 48"):
        add_surface(mesh, "tip", np.ones(3, dtype=bool))
