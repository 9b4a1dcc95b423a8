"""Surfaces from files: merged vertices, reported repairs and warnings."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, MeshError
from pliant.geometry import Surface, fill, icosphere, load_surface, mesh_quality, repair_surface
from pliant.geometry.holes import min_area_triangulation
from pliant.geometry.load import merge_surface
from pliant.geometry.repair import MERGE_FRACTION
from pliant.geometry.surface_warnings import find_surface_warnings

BALL = icosphere(0.05, subdivisions=3)  # 1280 triangles, neighbours 7 mm apart


def box(lower=(0, 0, 0), upper=(1, 1, 1)):
    mesh = pl.Box(size=np.subtract(upper, lower), origin=lower).mesh(divisions=(1, 1, 1))
    return mesh.points, mesh.boundary()


def concatenated(*parts):
    """Return the points and triangles of several surfaces, without merging."""
    starts = np.cumsum([0] + [len(points) for points, _ in parts])
    return (
        np.vstack([points for points, _ in parts]),
        np.vstack(
            [triangles + start for (_, triangles), start in zip(parts, starts, strict=False)]
        ),
    )


def triangle_soup(points, triangles):
    """Return triangles that share no vertices, as in an STL file."""
    return points[triangles].reshape(-1, 3), np.arange(triangles.size).reshape(-1, 3)


def merged(*parts):
    return merge_surface(*concatenated(*parts), MERGE_FRACTION)


def test_vertices_merge_within_a_relative_tolerance():
    points, triangles = triangle_soup(BALL.points, BALL.triangles)
    noisy = points + 1e-10 * np.random.default_rng(0).uniform(-1, 1, points.shape)  # 1e-7 mm
    found = merge_surface(noisy, triangles, MERGE_FRACTION)
    assert len(found.points) == len(BALL.points)
    assert found.volume() == pytest.approx(BALL.volume(), rel=1e-6)
    with pytest.raises(MeshError, match=r"3840 edges are open.*repair"):
        merge_surface(noisy, triangles, 0.0)


def test_merge_tolerance_scales_with_the_body():
    for scale in (1e-3, 1.0, 1e3):
        points, triangles = triangle_soup(scale * BALL.points, BALL.triangles)
        noise = 1e-8 * scale * np.random.default_rng(0).uniform(-1, 1, points.shape)
        assert len(merge_surface(points + noise, triangles, MERGE_FRACTION).points) == len(
            BALL.points
        )


@pytest.mark.parametrize("merge", [-1.0, 0.5, np.nan, "fine"])
def test_bad_merge_tolerance_raises(merge):
    with pytest.raises(InputError, match="merge tolerance"):
        merge_surface(BALL.points, BALL.triangles, merge)


def test_parts_that_share_an_edge_or_a_face_are_closed_and_filled():
    edge = merged(box(), box((1, 1, 0), (2, 2, 1)))
    assert edge.volume() == pytest.approx(2)
    assert fill(edge, 0.25, method="lattice").volumes().sum() == pytest.approx(2)
    face = merged(box(), box((1, 0, 0), (2, 1, 1)))
    assert len(face.triangles) == 20  # the shared face is removed
    assert fill(face, 0.25, method="lattice").volumes().sum() == pytest.approx(2)


DEFECTS = {
    "hole": (lambda t: np.delete(t, [2, 3], axis=0), "closed_holes"),
    "two holes": (lambda t: np.delete(t, [3, 900], axis=0), "closed_holes"),
    "reversed": (lambda t: np.vstack([t[:40, ::-1], t[40:]]), "reversed_triangles"),
    "duplicates": (lambda t: np.vstack([t, t[5:9]]), "duplicate_triangles"),
    "doubled": (lambda t: np.vstack([t, t]), "duplicate_triangles"),
    "degenerate": (lambda t: np.vstack([t, [[3, 3, 4]]]), "degenerate_triangles"),
    "fin": (lambda t: np.vstack([t, [[t[0, 0], t[0, 1], t[90, 0]]]]), "loose_triangles"),
}


@pytest.mark.parametrize("case", DEFECTS)
def test_defect_is_repaired_and_reported(case):
    add_defect, count = DEFECTS[case]
    surface, report = repair_surface(BALL.points, add_defect(BALL.triangles))
    assert surface.volume() == pytest.approx(BALL.volume(), rel=0.01)
    assert getattr(report, count) > 0
    assert count.replace("_", " ") in str(report)
    assert surface.repairs is report


def test_repaired_surface_can_be_filled():
    surface, _ = repair_surface(BALL.points, np.delete(BALL.triangles, [2, 3], axis=0))
    assert mesh_quality(fill(surface, 0.02)).closed


def test_valid_surface_needs_no_repair():
    surface, report = repair_surface(BALL.points, BALL.triangles)
    assert not report.changed
    assert str(report) == "Repair of the surface: nothing to repair."
    assert surface.volume() == pytest.approx(BALL.volume(), rel=1e-14)


def test_reversed_part_beside_another_is_oriented_outward():
    points, triangles = concatenated(box(), box((2, 0, 0), (3, 1, 1)))
    triangles[:12] = triangles[:12, ::-1]
    surface, report = repair_surface(points, triangles)
    assert surface.volume() == pytest.approx(2)
    assert report.reversed_triangles == 12


def test_cracks_between_triangles_are_welded_and_reported():
    points, triangles = triangle_soup(BALL.points, BALL.triangles)
    noisy = points + 1e-6 * np.random.default_rng(0).normal(size=points.shape)
    surface, report = repair_surface(noisy, triangles)
    assert len(surface.points) == len(BALL.points)
    assert surface.volume() == pytest.approx(BALL.volume(), rel=1e-3)
    assert report.merged_points + report.welded_points == len(points) - len(BALL.points)
    assert 2e-6 < report.weld_tolerance < 2e-5
    assert "welded points" in str(report)
    assert "welded within" in str(report)


def test_cracks_are_welded_and_a_hole_is_closed():
    points, triangles = triangle_soup(BALL.points, np.delete(BALL.triangles, [2, 3], axis=0))
    noisy = points + 1e-6 * np.random.default_rng(0).normal(size=points.shape)
    surface, report = repair_surface(noisy, triangles)
    assert report.closed_holes == 1
    assert surface.volume() == pytest.approx(BALL.volume(), rel=0.01)


def test_repair_that_removes_all_triangles_raises_and_suggests_a_tolerance():
    points, triangles = box((0, 0, 0), (1, 1, 0.004))
    points, triangles = triangle_soup(points, triangles)
    noisy = points + 1e-2 * np.random.default_rng(0).normal(size=points.shape)
    with pytest.raises(MeshError, match=r"Nothing is left.*Raise merge to about 0.0\d of the size"):
        repair_surface(noisy, triangles)


@pytest.mark.parametrize("triangles", [[[0, 1, 2]], [[0, 1, 2], [0, 2, 1]]])
def test_sheet_without_volume_raises(triangles):
    with pytest.raises(MeshError, match=r"Nothing is left.*Add the missing faces"):
        repair_surface(np.eye(3), triangles)


def test_triangles_shared_by_two_closed_parts_are_kept():
    parts = concatenated(box(), box((0, 0, 0), (1, 1, 2)))  # both have the same bottom face
    surface, report = repair_surface(*parts)
    assert not report.changed
    assert len(surface.triangles) == len(merged(box(), box((0, 0, 0), (1, 1, 2))).triangles) == 24
    assert "filled as one" in find_surface_warnings(surface)[0]
    assert fill(surface, 0.25, method="lattice").volumes().sum() == pytest.approx(2)


def test_missing_face_raises():
    points, triangles = box()
    with pytest.raises(MeshError, match=r"a hole of 1.41 m and 4 edges.*missing face"):
        repair_surface(points, triangles[(points[triangles][:, :, 2] > 0).any(axis=1)])


def test_non_orientable_surface_raises():
    angle = np.linspace(0, 2 * np.pi, 13)[:-1]
    rings = [
        np.stack(
            [
                (1 + w * np.cos(angle / 2)) * np.cos(angle),
                (1 + w * np.cos(angle / 2)) * np.sin(angle),
                w * np.sin(angle / 2),
            ],
            axis=1,
        )
        for w in (-0.3, 0.3)
    ]
    quads = [(i, i + 1, 12 + i, 13 + i) for i in range(11)] + [(11, 12, 23, 0)]
    triangles = np.array([t for a, b, c, d in quads for t in ((a, b, d), (a, d, c))])
    with pytest.raises(MeshError, match="one side only"):
        repair_surface(np.vstack(rings), triangles)


def test_hole_is_closed_by_the_triangulation_of_least_area():
    rim = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [1, 0.5, 0], [0, 2, 0]], float)
    a, b, c = rim[min_area_triangulation(rim)].transpose(1, 0, 2)
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()
    assert area == pytest.approx(4 - 1.5)  # area of the concave polygon


def test_overlapping_parts_are_reported():
    overlap = merged(box(), box((0.5, 0.5, 0.5), (1.5, 1.5, 1.5)))
    assert "parts overlap" in find_surface_warnings(overlap)[0]
    assert fill(overlap, 0.25, method="lattice").volumes().sum() == pytest.approx(2 - 0.125)
    assert find_surface_warnings(BALL) == []


def test_nested_part_must_be_oriented_inward():
    inner = box((0.3, 0.3, 0.3), (0.7, 0.7, 0.7))
    with pytest.raises(MeshError, match=r"1 of 2 parts.*outward inside another part.*a cavity"):
        find_surface_warnings(merged(box(), inner))
    assert find_surface_warnings(merged(box(), (inner[0], inner[1][:, ::-1]))) == []


def test_spike_is_reported_and_cone_is_not():
    points = np.array(BALL.points)
    points[17] *= 20.0
    spiked = Surface(points=points, triangles=BALL.triangles)
    assert "1 spike (longest: 0.95" in find_surface_warnings(spiked)[0]
    points[17] = 3.0 * BALL.points[17]
    assert find_surface_warnings(Surface(points=points, triangles=BALL.triangles)) == []


def ascii_stl(surface, triangles):
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x:.9e} {y:.9e} {z:.9e}\n" for x, y, z in corners)
        + "endloop\nendfacet\n"
        for corners in surface.points[triangles]
    )
    return f"solid ball\n{facets}endsolid ball\n"


def test_file_is_repaired_on_request_with_a_warning(tmp_path):
    path = tmp_path / "ball.stl"
    path.write_text(ascii_stl(BALL, np.delete(BALL.triangles, [2, 3], axis=0)))
    with pytest.raises(MeshError, match=r"edges are open.*repair = true"):
        load_surface(path)
    with pytest.warns(UserWarning, match=r"ball.stl: Repair of the surface: 1 closed holes"):
        surface = load_surface(path, repair=True)
    assert surface.repairs.closed_holes == 1


def test_robot_file_repairs_its_surface(tmp_path):
    (tmp_path / "ball.stl").write_text(ascii_stl(BALL, np.delete(BALL.triangles, [2, 3], axis=0)))
    path = tmp_path / "ball.toml"
    path.write_text(
        '[geometry]\nsurface = "ball.stl"\ncell = 0.03\norder = 1\nmerge = 1e-5\nrepair = true\n'
        "[material]\nE = 1e5\nnu = 0.3\n"
    )
    with pytest.warns(UserWarning, match="1 closed holes"):
        robot = pl.load_robot(path)
    assert robot.mesh().volumes().sum() == pytest.approx(BALL.volume(), rel=0.2)


def test_surface_repr_is_one_line():
    assert repr(BALL) == "<Surface: 642 points, 1280 triangles, 0.1 x 0.1 x 0.1 m>"
