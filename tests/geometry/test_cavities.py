"""Cavities are found on the boundary, named and measured exactly. The cavities of a chambered
cylinder are known in closed form."""

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

CYLINDER = ChamberedCylinder(
    radius=0.0125,
    core=0.004,
    wall=0.0025,
    rib=0.003,
    section=0.05,
    cap=0.005,
    sections=2,
    origin=(0.1, 0.0, -0.2),
)


def box_with_voids(counts, voids, order=1):
    """Return the mesh of a box of unit cubes without the cubes at `voids`."""
    mesh = Box(size=counts).mesh(divisions=counts)
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1)).astype(int)
    kept = ~np.any([(cube == void).all(axis=1) for void in voids], axis=0)
    points, cells = remove_unused_points(mesh.points, mesh.cells[kept])
    out = Mesh(points=points, cells=cells)
    return out.quadratic() if order == 2 else out


@pytest.mark.parametrize("order", [1, 2])
def test_every_cavity_is_found_with_exact_volume(order):
    mesh = box_with_voids((5, 3, 3), [(1, 1, 1), (3, 1, 1)], order)
    cavities = find_cavities(mesh)
    assert [len(cavity) for cavity in cavities] == [12, 12]
    np.testing.assert_allclose(
        [signed_enclosed_volume(mesh.points, cavity) for cavity in cavities], -1.0, rtol=1e-13
    )
    assert signed_enclosed_volume(mesh.points, mesh.boundary()) == pytest.approx(
        boundary_volume(mesh), rel=1e-13
    )


@pytest.mark.parametrize("second", [(2, 2, 1), (2, 2, 2)])
def test_voids_touching_at_an_edge_or_a_corner_are_separate_cavities(second):
    mesh = box_with_voids((4, 4, 4), [(1, 1, 1), second])
    assert len(connected_parts(mesh.points, mesh.boundary())) == 3
    cavities = find_cavities(mesh)
    assert [len(open_rims(cavity, 3)) for cavity in cavities] == [0, 0]
    np.testing.assert_allclose(
        [signed_enclosed_volume(mesh.points, cavity) for cavity in cavities], -1.0, rtol=1e-13
    )


def test_void_that_touches_itself_is_one_closed_cavity():
    """The void has two flat layers that a cube connects at a corner. Another cube below the upper
    layer touches the lower layer only along the four edges of its bottom face."""
    cubes = [(i, j, k) for i in range(1, 6) for j in range(1, 6) for k in (1, 3)]
    cubes = [cube for cube in cubes if cube != (3, 3, 1)] + [(3, 3, 2), (1, 1, 2)]
    mesh = box_with_voids((7, 7, 5), cubes)
    cavities = find_cavities(mesh)
    assert len(cavities) == 1
    assert signed_enclosed_volume(mesh.points, cavities[0]) == pytest.approx(-len(cubes), rel=1e-13)
    assert len(open_rims(cavities[0], 3)) == 0


def test_outer_facets_and_cavities_make_up_the_boundary():
    mesh = box_with_voids((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    outer = outer_facets(mesh.points, mesh.boundary())
    assert signed_enclosed_volume(mesh.points, outer) == pytest.approx(45.0, rel=1e-13)
    assert len(outer) + sum(map(len, find_cavities(mesh))) == len(mesh.boundary())


def without_cells(mesh, chosen):
    points, cells = remove_unused_points(mesh.points, np.delete(mesh.cells, chosen, axis=0))
    return Mesh(points=points, cells=cells)


def test_void_smaller_than_a_cell_is_not_named():
    mesh = box_with_voids((7, 7, 7), [(5, 5, 5)])
    small = np.argmin(np.linalg.norm(mesh.points[mesh.cells].mean(axis=1) - 2.5, axis=1))
    both = without_cells(mesh, [small])
    assert len(find_cavities(both)) == 2
    with pytest.warns(UserWarning, match=r"1 closed void .* smaller than a cell.*near \[2\.\d"):
        named = name_cavities(both)
    assert signed_enclosed_volume(named.points, named.surfaces["cavity-1"]) == pytest.approx(-1.0)
    assert "cavity-2" not in named.surfaces
    only = without_cells(Box(size=(5, 5, 5)).mesh(divisions=(5, 5, 5)), [6 * 62])
    with pytest.raises(InputError, match=r"no cavity: 1 closed void.*smaller than a cell"):
        name_cavities(only)
    assert name_cavities_if_present(only) is only


def test_name_cavities_if_present_searches_once(monkeypatch):
    mesh, calls = box_with_voids((3, 3, 3), [(1, 1, 1)]), []
    monkeypatch.setattr(
        cavity_names, "find_cavities", lambda m: calls.append(m) or find_cavities(m)
    )
    assert set(name_cavities_if_present(mesh).surfaces) == {"cavity-1"}
    assert len(calls) == 1


def test_dent_and_through_hole_are_not_cavities():
    assert find_cavities(box_with_voids((3, 3, 3), [(1, 1, 2)])) == []
    assert find_cavities(Tube(outer=1.0, inner=0.5, length=1.0).mesh()) == []


def test_annulus_cavity_area_converges_at_twice_the_order(rate):
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
def test_filled_surface_keeps_its_cavity(method):
    """A ball has a concentric spherical cavity. Its mean radius is exact within half a cell."""
    outer, inner = (Ellipsoid(radii=(r, r, r)).mesh(divisions=(6,)) for r in (1.0, 0.5))
    surfaces = [(m.points, m.boundary()) for m in (outer, inner)]
    points = np.vstack([p for p, _ in surfaces])
    triangles = np.vstack([surfaces[0][1], surfaces[1][1][:, ::-1] + len(surfaces[0][0])])
    used, triangles = np.unique(triangles, return_inverse=True)
    body = fill(
        Surface(points=points[used], triangles=triangles.reshape(-1, 3)), 0.15, method=method
    )
    cavities = find_cavities(body)
    assert len(cavities) == 1
    radius = (-signed_enclosed_volume(body.points, cavities[0]) * 3 / (4 * pi)) ** (1 / 3)
    assert radius == pytest.approx(0.5, abs=0.075)
    assert set(name_cavities(body).surfaces) == {*body.surfaces, "cavity-1"}


def test_cavities_get_the_given_names():
    mesh = box_with_voids((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    named = name_cavities(mesh, ["left", "right"])
    assert list(named.surfaces) == ["left", "right"]
    for name, x in (("left", 1.5), ("right", 3.5)):
        np.testing.assert_allclose(mesh.points[named.nodes(name)].mean(axis=0), (x, 1.5, 1.5))


def test_bad_cavity_names_raise(raises_clear_error):
    mesh = box_with_voids((5, 3, 3), [(1, 1, 1), (3, 1, 1)])
    raises_clear_error(
        lambda: name_cavities(mesh, ["left"]), r"has 2 cavities, not 1.*\[1.5, 1.5, 1.5\]"
    )
    raises_clear_error(lambda: name_cavities(mesh, ["left", "left"]), "'left' already names")
    raises_clear_error(lambda: name_cavities(name_cavities(mesh)), "'cavity-1' already names")
    raises_clear_error(lambda: name_cavities(Box(size=(1, 1, 1)).mesh()), "no cavity")


# Chambered cylinder


@pytest.mark.parametrize("divisions", [(1, 1, 1), (2, 3, 1), (3, 2, 2), (5, 4, 1)])
@pytest.mark.parametrize("order", [1, 2])
def test_chambered_cylinder_mesh_is_conforming_closed_and_named(divisions, order):
    mesh = CYLINDER.mesh(divisions=divisions, order=order)
    _, _, count = group_rows(cell_facets(mesh.cells)[:, :3])
    found, cavities = mesh_quality(mesh), find_cavities(mesh)
    assert set(count) <= {1, 2}
    assert (mesh.volumes() > 0).all()
    assert found.closed
    assert found.surface_volume == pytest.approx(found.total_volume, rel=1e-12)
    names = [f"chamber {s}-{k}" for s in (1, 2) for k in (1, 2, 3)]
    assert set(mesh.surfaces) == {"bottom", "top", "side", *names}
    assert sum(len(facets) for facets in mesh.surfaces.values()) == len(mesh.boundary())
    assert {tuple(np.unique(cavity)) for cavity in cavities} == {
        tuple(mesh.nodes(name)) for name in names
    }
    assert sorted(
        np.concatenate([mesh.regions[name] for name in ("core", "ribs", "wall")])
    ) == list(range(mesh.n_cells))


def test_chamber_volume_converges_to_annular_sector_at_order_four(rate):
    """The cells are quadratic and curved. The mesh has the volume of the solid cylinder minus its
    chambers."""
    arc = 2 * pi / 3 - 2 * 0.003 / 0.014
    chamber, whole = 0.5 * arc * (0.01**2 - 0.004**2) * 0.05, pi * 0.0125**2 * 0.115
    arcs, errors = np.array([2, 4, 8]), []
    for n in arcs:
        mesh = CYLINDER.mesh(divisions=(n, 2, 1), order=2)
        errors.append(
            abs(signed_enclosed_volume(mesh.points, mesh.surfaces["chamber 2-3"]) + chamber)
            / chamber
        )
    assert rate(arcs, errors) == pytest.approx(-4.0, abs=0.3)
    assert mesh.volumes().sum() == pytest.approx(whole - 6 * chamber, rel=1e-3)


def test_first_chamber_lies_towards_x_and_contains_agrees_with_the_mesh(rng):
    mesh = CYLINDER.mesh(divisions=(8, 2, 1))
    middle = mesh.points[mesh.nodes("chamber 1-1")].mean(axis=0) - CYLINDER.origin
    assert middle[0] > 0.005
    assert abs(middle[1]) < 1e-4
    lower, upper = CYLINDER.bounds()
    points = lower + (upper - lower) * rng.random((20_000, 3))
    volume = CYLINDER.contains(points).mean() * np.prod(upper - lower)
    assert volume == pytest.approx(
        mesh.volumes().sum(), rel=0.03
    )  # three standard deviations of 20,000 samples, plus the faceting error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wall": 0.01}, "leave no chamber within the radius of 0.0125"),
        ({"rib": 0.02}, "3 ribs of 0.02 m leave no chamber"),
        ({"sections": 0}, "0 sections of 3 chambers"),
        ({"cap": -1.0}, "cap of a ChamberedCylinder is -1"),
    ],
)
def test_bad_chambered_cylinder_raises(change, message):
    dimensions = {
        "radius": 0.0125,
        "core": 0.004,
        "wall": 0.0025,
        "rib": 0.003,
        "section": 0.05,
        "cap": 0.005,
    }
    with pytest.raises(InputError, match=message):
        ChamberedCylinder(**{**dimensions, **change})
