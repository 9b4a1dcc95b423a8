"""Cavities: found among the boundary, named, measured exactly; and the chambered arm, whose voids
are known."""

from math import pi

import numpy as np
import pytest

from pliant.core import InputError
from pliant.geometry import (
    Annulus,
    Box,
    ChamberedCylinder,
    Ellipsoid,
    Mesh,
    Surface,
    Tube,
    cavity_names,
    fill,
    find_cavities,
    mesh_quality,
    name_cavities,
    name_cavities_if_present,
    remove_unused_points,
)
from pliant.geometry.boundary import boundary_volume
from pliant.geometry.cavities import (
    connected_parts,
    open_rims,
    outer_facets,
    signed_enclosed_volume,
)
from pliant.geometry.cells import cell_facets, group_rows

ARM = ChamberedCylinder(
    radius=0.0125,
    core=0.004,
    wall=0.0025,
    rib=0.003,
    section=0.05,
    cap=0.005,
    sections=2,
    origin=(0.1, 0.0, -0.2),
)


def hollow(counts, voids, order=1):
    """A box of unit cubes without some of them."""
    mesh = Box(size=counts).mesh(divisions=counts)
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1)).astype(int)
    kept = ~np.any([(cube == void).all(axis=1) for void in voids], axis=0)
    points, cells = remove_unused_points(mesh.points, mesh.cells[kept])
    out = Mesh(points=points, cells=cells)
    return out.quadratic() if order == 2 else out


@pytest.mark.parametrize("order", [1, 2])
def test_every_void_is_found_and_measured(order):
    mesh = hollow((5, 3, 3), [(1, 1, 1), (3, 1, 1)], order)
    walls = find_cavities(mesh)
    assert [len(wall) for wall in walls] == [12, 12]
    np.testing.assert_allclose(
        [signed_enclosed_volume(mesh.points, wall) for wall in walls], -1.0, rtol=1e-13
    )
    assert signed_enclosed_volume(mesh.points, mesh.boundary()) == pytest.approx(
        boundary_volume(mesh), rel=1e-13
    )


@pytest.mark.parametrize("second", [(2, 2, 1), (2, 2, 2)])
def test_voids_that_touch_at_an_edge_or_a_corner_are_two(second):
    mesh = hollow((4, 4, 4), [(1, 1, 1), second])
    assert len(connected_parts(mesh.points, mesh.boundary())) == 3
    walls = find_cavities(mesh)
    assert [len(open_rims(wall, 3)) for wall in walls] == [0, 0]
    np.testing.assert_allclose(
        [signed_enclosed_volume(mesh.points, wall) for wall in walls], -1.0, rtol=1e-13
    )


def test_a_void_that_touches_itself_is_one_closed_cavity():
    """Two flat rooms, joined in a corner; a pit in the ceiling of the lower one touches it along
    the four edges of its floor."""
    cubes = [(i, j, k) for i in range(1, 6) for j in range(1, 6) for k in (1, 3)]
    cubes = [cube for cube in cubes if cube != (3, 3, 1)] + [(3, 3, 2), (1, 1, 2)]
    mesh = hollow((7, 7, 5), cubes)
    walls = find_cavities(mesh)
    assert len(walls) == 1
    assert signed_enclosed_volume(mesh.points, walls[0]) == pytest.approx(-len(cubes), rel=1e-13)
    assert len(open_rims(walls[0], 3)) == 0


def test_outer_facets_and_cavities_make_up_the_boundary():
    mesh = hollow((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    outer = outer_facets(mesh.points, mesh.boundary())
    assert signed_enclosed_volume(mesh.points, outer) == pytest.approx(45.0, rel=1e-13)
    assert len(outer) + sum(map(len, find_cavities(mesh))) == len(mesh.boundary())


def without_cells(mesh, chosen):
    points, cells = remove_unused_points(mesh.points, np.delete(mesh.cells, chosen, axis=0))
    return Mesh(points=points, cells=cells)


def test_a_void_smaller_than_a_cell_gets_no_name():
    mesh = hollow((7, 7, 7), [(5, 5, 5)])
    crumb = np.argmin(np.linalg.norm(mesh.points[mesh.cells].mean(axis=1) - 2.5, axis=1))
    both = without_cells(mesh, [crumb])
    assert len(find_cavities(both)) == 2
    with pytest.warns(UserWarning, match=r"1 closed voids .* smaller than a cell.*near \[2\.\d"):
        named = name_cavities(both)
    assert signed_enclosed_volume(named.points, named.surfaces["cavity-1"]) == pytest.approx(-1.0)
    assert "cavity-2" not in named.surfaces
    only = without_cells(Box(size=(5, 5, 5)).mesh(divisions=(5, 5, 5)), [6 * 62])
    with pytest.raises(InputError, match=r"no cavity: 1 closed voids.*smaller than a cell"):
        name_cavities(only)
    assert name_cavities_if_present(only) is only


def test_naming_cavities_finds_them_once(monkeypatch):
    mesh, calls = hollow((3, 3, 3), [(1, 1, 1)]), []
    monkeypatch.setattr(
        cavity_names, "find_cavities", lambda m: calls.append(m) or find_cavities(m)
    )
    assert set(name_cavities_if_present(mesh).surfaces) == {"cavity-1"}
    assert len(calls) == 1


def test_a_dent_and_a_bore_are_no_cavities():
    assert find_cavities(hollow((3, 3, 3), [(1, 1, 2)])) == []
    assert find_cavities(Tube(outer=1.0, inner=0.5, length=1.0).mesh()) == []


def test_a_ring_has_a_cavity_in_the_plane_whose_area_converges(rate):
    sizes = np.array([8, 16, 32])
    for order, expected in ((1, -2.0), (2, -4.0)):
        mesh = [Annulus(outer=1.0, inner=0.5).mesh(divisions=(n, 2), order=order) for n in sizes]
        errors = [
            abs(signed_enclosed_volume(m.points, find_cavities(m)[0]) + 0.25 * pi) for m in mesh
        ]
        assert rate(sizes, errors) == pytest.approx(expected, abs=0.1)


def test_open_rims_are_counted():
    mesh = Box(size=(1, 1, 1)).mesh(divisions=(2, 2, 2))
    assert len(open_rims(mesh.surfaces["z+"], 3)) == 8
    assert len(open_rims(mesh.boundary(), 3)) == 0
    ring = Annulus(outer=1.0, inner=0.5).mesh(divisions=(8, 1))
    assert len(open_rims(ring.surfaces["inner"][1:], 2)) == 2


@pytest.mark.parametrize("method", ["stuffing", "lattice"])
def test_a_filled_surface_keeps_its_void(method):
    """Of a ball with a ball inside: what the cavity lacks is at most half a cell of its radius on
    average."""
    outer, inner = (Ellipsoid(radii=(r, r, r)).mesh(divisions=(6,)) for r in (1.0, 0.5))
    skins = [(m.points, m.boundary()) for m in (outer, inner)]
    points = np.vstack([p for p, _ in skins])
    triangles = np.vstack([skins[0][1], skins[1][1][:, ::-1] + len(skins[0][0])])
    used, triangles = np.unique(triangles, return_inverse=True)
    body = fill(
        Surface(points=points[used], triangles=triangles.reshape(-1, 3)), 0.15, method=method
    )
    walls = find_cavities(body)
    assert len(walls) == 1
    radius = (-signed_enclosed_volume(body.points, walls[0]) * 3 / (4 * pi)) ** (1 / 3)
    assert radius == pytest.approx(0.5, abs=0.075)
    assert set(name_cavities(body).surfaces) == {*body.surfaces, "cavity-1"}


def test_cavities_get_the_names_that_they_are_given():
    mesh = hollow((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    named = name_cavities(mesh, ["left", "right"])
    assert list(named.surfaces) == ["left", "right"]
    for name, x in (("left", 1.5), ("right", 3.5)):
        np.testing.assert_allclose(mesh.points[named.nodes(name)].mean(axis=0), (x, 1.5, 1.5))


def test_bad_cavities_are_refused(one_sentence):
    mesh = hollow((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    one_sentence(
        lambda: name_cavities(mesh, ["left"]), r"1 names for 2 cavities.*\[1.5, 1.5, 1.5\]"
    )
    one_sentence(lambda: name_cavities(mesh, ["left", "left"]), "'left' already names")
    one_sentence(lambda: name_cavities(name_cavities(mesh)), "'cavity-1' already names")
    one_sentence(lambda: name_cavities(Box(size=(1, 1, 1)).mesh()), "no cavity")


# The chambered arm


@pytest.mark.parametrize("divisions", [(1, 1, 1), (2, 3, 1), (3, 2, 2), (5, 4, 1)])
@pytest.mark.parametrize("order", [1, 2])
def test_the_chambered_arm_is_conforming_closed_and_named(divisions, order):
    mesh = ARM.mesh(divisions=divisions, order=order)
    _, _, count = group_rows(cell_facets(mesh.cells)[:, :3])
    found, walls = mesh_quality(mesh), find_cavities(mesh)
    assert set(count) <= {1, 2}
    assert (mesh.volumes() > 0).all()
    assert found.closed
    assert found.surface_volume == pytest.approx(found.total_volume, rel=1e-12)
    names = [f"chamber {s}-{k}" for s in (1, 2) for k in (1, 2, 3)]
    assert set(mesh.surfaces) == {"bottom", "top", "side", *names}
    assert sum(len(facets) for facets in mesh.surfaces.values()) == len(mesh.boundary())
    assert {tuple(np.unique(wall)) for wall in walls} == {tuple(mesh.nodes(name)) for name in names}
    assert sorted(
        np.concatenate([mesh.regions[name] for name in ("core", "ribs", "wall")])
    ) == list(range(mesh.n_cells))


def test_the_chambers_converge_to_sectors_of_a_ring(rate):
    """4th order with curved quadratic cells; the arm has what the solid cylinder has less the
    chambers."""
    arc = 2 * pi / 3 - 2 * 0.003 / 0.014
    chamber, whole = 0.5 * arc * (0.01**2 - 0.004**2) * 0.05, pi * 0.0125**2 * 0.115
    arcs, errors = np.array([2, 4, 8]), []
    for n in arcs:
        mesh = ARM.mesh(divisions=(n, 2, 1), order=2)
        errors.append(
            abs(signed_enclosed_volume(mesh.points, mesh.surfaces["chamber 2-3"]) + chamber)
            / chamber
        )
    assert rate(arcs, errors) == pytest.approx(-4.0, abs=0.3)
    assert mesh.volumes().sum() == pytest.approx(whole - 6 * chamber, rel=1e-3)


def test_the_first_chamber_lies_towards_x_and_contains_agrees_with_the_mesh(rng):
    mesh = ARM.mesh(divisions=(8, 2, 1))
    middle = mesh.points[mesh.nodes("chamber 1-1")].mean(axis=0) - ARM.origin
    assert middle[0] > 0.005
    assert abs(middle[1]) < 1e-4
    lower, upper = ARM.bounds()
    points = lower + (upper - lower) * rng.random((20_000, 3))
    share = ARM.contains(points).mean() * np.prod(upper - lower)
    assert share == pytest.approx(
        mesh.volumes().sum(), rel=0.03
    )  # three deviations of 20,000 draws, and the chords


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"wall": 0.01}, "leave no chamber within the radius of 0.0125"),
        ({"rib": 0.02}, "3 ribs of 0.02 m leave no chamber"),
        ({"sections": 0}, "0 sections of 3 chambers"),
        ({"cap": -1.0}, "cap of a ChamberedCylinder is -1"),
    ],
)
def test_a_bad_chambered_arm_is_refused(change, says):
    given = {
        "radius": 0.0125,
        "core": 0.004,
        "wall": 0.0025,
        "rib": 0.003,
        "section": 0.05,
        "cap": 0.005,
    }
    with pytest.raises(InputError, match=says):
        ChamberedCylinder(**{**given, **change})
