"""A filled mesh is compared with its surface. Lost features raise an error, inaccurate geometry
warns, and the suggested cell size works."""

import re
import warnings

import numpy as np
import pytest

from pliant.core import MeshError
from pliant.geometry import (
    Box,
    FillTolerances,
    Mesh,
    Polygon,
    Surface,
    Union,
    compare_fill,
    fill,
    find_cavities,
    icosphere,
    name_cavities,
)
from pliant.geometry.cavities import find_voids, signed_enclosed_volume
from pliant.geometry.cells import boundary_facets
from pliant.geometry.distance import distance_to_simplices
from pliant.geometry.fill_advice import suggest_accurate_cell, suggest_valid_cell
from pliant.geometry.filling import fill_by_stuffing
from pliant.geometry.pieces import label_pieces


def joined(*parts):
    """Return one Surface of several (points, triangles)."""
    start = np.cumsum([0] + [len(points) for points, _ in parts])
    triangles = [t + n for (_, t), n in zip(parts, start, strict=False)]
    return Surface(points=np.vstack([p for p, _ in parts]), triangles=np.vstack(triangles))


def box(size, origin=(0.0, 0.0, 0.0), inward=False):
    mesh = Box(size=size, origin=origin).mesh(divisions=(1, 1, 1))
    return mesh.points, mesh.boundary()[:, ::-1] if inward else mesh.boundary()


def cubes(mask, step):
    """Return the surface of cubes of edge length `step` [m] where the mask (nx, ny, nz) is true."""
    mesh = Box(size=mask.shape).mesh(divisions=mask.shape)
    chosen = mask[tuple(np.floor(mesh.points[mesh.cells].mean(axis=1)).astype(int).T)]
    used, triangles = np.unique(boundary_facets(mesh.cells[chosen]), return_inverse=True)
    return Surface(points=step * mesh.points[used], triangles=triangles.reshape(-1, 3))


def hollow_box(wall=0.004):
    size = np.array([0.06, 0.04, 0.03])
    return joined(box(size), box(size - 2 * wall, 3 * [wall], inward=True))


def cone(radius=0.02, height=0.06, n=32):
    angle = 2 * np.pi * np.arange(n) / n
    rim = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle])
    i, j = np.arange(n), (np.arange(n) + 1) % n
    sides = np.column_stack([i, j, 0 * i + n + 1]), np.column_stack([j, i, 0 * i + n])
    return Surface(points=np.vstack([rim, [[0, 0, 0], [0, 0, height]]]), triangles=np.vstack(sides))


def maze():
    mask = np.zeros((9, 9, 4), dtype=bool)
    mask[:, :, 0] = mask[::4] = mask[:, ::8] = True
    return cubes(mask, 0.002)


def pneunet():
    """Return a body with walls of 4 mm and two chambers of 6 x 6 x 6 mm. A channel of 2 mm connects
    the chambers."""
    mask = np.ones((12, 7, 7), dtype=bool)
    mask[2:-2, 3, 2] = False
    mask[2:5, 2:5, 2:5] = mask[7:10, 2:5, 2:5] = False
    return cubes(mask, 0.002)


def shell(subdivisions=1):
    outer, inner = (
        icosphere(0.03, subdivisions=subdivisions),
        icosphere(0.026, subdivisions=subdivisions),
    )
    return joined((outer.points, outer.triangles), (inner.points, inner.triangles[:, ::-1]))


def ball_with_small_voids():
    void_surface = icosphere(0.001, subdivisions=1)
    centres = [(0.01, 0.0, 0.0), (-0.01, 0.004, 0.0), (0.0, -0.01, 0.005)]
    outer = icosphere(0.03, subdivisions=3)
    return joined(
        (outer.points, outer.triangles),
        *((void_surface.points + centre, void_surface.triangles[:, ::-1]) for centre in centres),
    )


def suggested_cell(text):
    return float(re.search(r"cell = ([\d.e-]+\d)", text)[1])


@pytest.mark.parametrize(
    ("surface", "cell", "message"),
    [
        (hollow_box(), 0.0052, r"49 % of the volume, it falls into \d+ pieces instead of 1"),
        (
            hollow_box(),
            0.0098,
            r"loses 1 of 1 cavity \(the largest has 3.66e-05 m\^3, near \[0.03",
        ),
        (shell(), 0.0069, r"loses 1 of 1 cavity"),
        (shell(), 0.013, r"The body, which is 0.104 m large, is thinner than a cell of 0.013 m"),
        (maze(), 0.0035, r"does not represent the surface: it has \d+ % of the volume"),
        (pneunet(), 0.0037, r"loses 1 of 1 cavity"),
    ],
)
def test_lost_walls_and_cavities_raise_and_suggested_cell_is_valid(surface, cell, message):
    with pytest.raises(MeshError, match=message) as caught:
        fill(surface, cell)
    finer = suggested_cell(str(caught.value))
    assert finer < cell
    mesh = fill(surface, finer)
    assert mesh.volumes().sum() == pytest.approx(surface.volume(), rel=0.2)
    assert len(find_cavities(mesh)) == len(find_voids(surface.points, surface.triangles))


@pytest.mark.parametrize(
    ("surface", "cell", "method"),
    [
        (cone(), 0.0103, "stuffing"),
        (joined(box((0.02, 0.02, 0.03))), 0.0071, "stuffing"),
        (icosphere(0.03, subdivisions=2), 0.017, "stuffing"),
        (hollow_box(), 0.0052, "lattice"),
    ],
)
def test_inaccurate_mesh_warns_and_suggested_cell_is_accurate(surface, cell, method):
    with pytest.warns(UserWarning, match="differs from the surface") as caught:
        fill(surface, cell, method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fill(surface, suggested_cell(str(caught[0].message)), method=method)


@pytest.mark.parametrize("suggest", [suggest_valid_cell, suggest_accurate_cell])
def test_at_most_three_finer_cells_are_tried(suggest):
    surface, tried = joined(box((0.02, 0.02, 0.03))), []

    def mesher(surface, cell):
        tried.append(cell)
        raise MeshError("no mesh")

    mesh = Box(size=(0.02, 0.02, 0.02)).mesh(divisions=(1, 1, 1))
    cell = 0.009 if suggest is suggest_valid_cell else compare_fill(mesh, surface, 0.009)
    text = suggest(surface, cell, mesher, FillTolerances())
    assert 1 < len(tried) <= 3
    assert sorted(tried, reverse=True) == tried
    assert suggested_cell(text) < min(tried)


def test_warning_locates_a_truncated_tip():
    with pytest.warns(
        UserWarning, match=r"up to 0.0\d+ m \(\d.\d cells\) away, near \[0.0, 0.0, 0.1"
    ):
        fill(cone(radius=0.008, height=0.1, n=16), 0.0068)


def test_wide_tolerances_accept_a_coarse_mesh():
    wide = FillTolerances(volume_error=2.0, volume_warning=2.0, distance_warning=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = fill(cone(), 0.016, tolerances=wide)
    assert mesh.volumes().sum() < 0.8 * cone().volume()


def test_wall_of_one_cell_is_preserved():
    """Cells with all corners on the surface are kept. Without them a fifth of the shell is lost."""
    surface = shell(subdivisions=2)
    mesh = fill_by_stuffing(surface, 0.00416)
    report = compare_fill(mesh, surface, 0.00416)
    assert report.volume_ratio == pytest.approx(1.0, abs=0.01)
    assert (report.pieces, report.lost_cavities) == (1, ())
    assert report.distance < 0.3 * report.cell


def test_small_voids_are_counted_and_not_named():
    surface = ball_with_small_voids()
    with pytest.warns(UserWarning, match="The surface has 3 voids or pieces smaller than a cell"):
        mesh = fill(surface, 0.006)
    assert compare_fill(mesh, surface, 0.006).small_parts == 3
    assert set(mesh.surfaces) == {"outside"}


def test_connected_chambers_of_a_pneunet_are_one_named_cavity():
    mesh = name_cavities(fill(pneunet(), 0.0021))
    assert set(mesh.surfaces) == {"outside", "cavity-1"}
    assert len(mesh.surfaces["outside"]) + len(mesh.surfaces["cavity-1"]) == len(mesh.boundary())
    void = np.prod(np.ptp(pneunet().points, axis=0)) - pneunet().volume()
    assert -signed_enclosed_volume(mesh.points, mesh.surfaces["cavity-1"]) == pytest.approx(
        void, rel=0.1
    )


def test_overlap_of_parts_is_counted_once():
    """The signed volume counts the overlap twice. Surface points in the body add no distance."""
    surface = joined(box((0.05, 0.02, 0.02)), box((0.02, 0.05, 0.02), (0.004, 0.003, 0.0051)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = fill(surface, 0.003)
    report = compare_fill(mesh, surface, 0.003)
    overlap = 0.02 * 0.017 * 0.0149
    assert report.surface_volume == pytest.approx(surface.volume() - overlap, rel=0.01)


def test_strict_tolerances_detect_a_small_overlap():
    surface = joined(box((0.05, 0.02, 0.02)), box((0.05, 0.02, 0.02), (0.046, 0.0, 0.0)))
    mesh = Box(size=(0.096, 0.02, 0.02)).mesh(cell=0.004)
    strict = FillTolerances(volume_warning=0.01)
    report = compare_fill(mesh, surface, 0.004, strict)
    assert report.volume_ratio == pytest.approx(1.0, rel=1e-3)
    assert report.warnings(strict) == []


@pytest.mark.parametrize("tolerances", [0.5, {"volume_error": 0.5}, False])
def test_tolerances_of_wrong_type_raise(tolerances, raises_clear_error):
    surface = joined(box((0.02, 0.02, 0.03)))
    raises_clear_error(
        lambda: fill(surface, 0.005, tolerances=tolerances), "give geometry.FillToler"
    )


def test_separate_bodies_are_separate_pieces():
    surface = joined(box((0.05, 0.02, 0.02)), box((0.02, 0.05, 0.02), (0.1, 0.0, 0.0)))
    report = compare_fill(fill(surface, 0.005), surface, 0.005)
    assert (report.pieces, report.surface_pieces) == (2, 2)


def test_union_with_a_part_of_two_pieces_does_not_warn():
    two = joined(box((0.02, 0.02, 0.02)), box((0.02, 0.02, 0.02), (0.04, 0.0, 0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for parts in ({"feet": two}, {"feet": Union(parts={"feet": two})}):
            mesh = Union(parts=parts, cell=0.01).mesh()
            assert label_pieces(mesh).max() == 1


def test_pieces_are_numbered_by_decreasing_volume():
    mesh = Mesh(
        points=np.vstack([np.eye(4, 3), 5 + 2 * np.eye(4, 3)]),
        cells=[[3, 0, 1, 2], [7, 4, 5, 6]],
    )
    assert label_pieces(mesh).tolist() == [1, 0]


def mixed_triangles():
    """Return triangles (300, 3, 3) of sizes from 0.01 to 3."""
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-2, 0.5, size=(300, 1, 1))
    return rng.normal(size=(300, 1, 3)) + size * rng.normal(size=(300, 3, 3))


def test_distance_to_a_triangle_equals_smallest_sampled_distance():
    points = np.random.default_rng(1).normal(size=(200, 3))
    s, t = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    weights = np.stack([1 - s - t, s, t], axis=-1)[s + t <= 1 + 1e-12]
    for triangle in mixed_triangles()[:5]:
        dense = np.linalg.norm(points[:, None] - weights @ triangle, axis=2).min(axis=1)
        found = distance_to_simplices(points, triangle[None])
        np.testing.assert_allclose(found, dense, atol=0.02 * np.ptp(triangle, axis=0).max())


def test_nearest_of_triangles_of_mixed_sizes_is_found():
    points, corners = 2.0 * np.random.default_rng(1).normal(size=(200, 3)), mixed_triangles()
    smallest = np.min(
        [distance_to_simplices(points, triangle[None]) for triangle in corners], axis=0
    )
    np.testing.assert_allclose(distance_to_simplices(points, corners), smallest, rtol=1e-9)


# Millimetres read as metres


@pytest.mark.parametrize(
    "mesh",
    [
        lambda: fill(joined(box((60.0, 40.0, 30.0))), 0.004),
        lambda: fill(joined(box((60.0, 40.0, 30.0))), 0.004, method="lattice"),
        lambda: Box(size=(60.0, 40.0, 30.0)).mesh(cell=0.004),
        lambda: Polygon(points=((0, 0), (60, 0), (60, 40))).mesh(cell=0.004),
    ],
)
def test_too_many_cells_of_a_large_body_suggest_millimetres(mesh):
    with pytest.raises(MeshError, match=r"looks like millimetres.*scale = 0\.001"):
        mesh()


def test_too_many_cells_of_a_smaller_body_suggest_a_larger_cell():
    with pytest.raises(MeshError, match=r"8.66 m large: choose a larger cell, or scale = 0\.001"):
        Box(size=(5.0, 5.0, 5.0)).mesh(cell=0.001)
    with pytest.raises(MeshError, match=r"limit of 2000000. Choose a larger cell\.$"):
        Box(size=(0.5, 0.5, 0.5)).mesh(cell=0.001)
