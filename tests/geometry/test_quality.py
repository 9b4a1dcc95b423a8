"""Mesh quality: closed forms for simple cells, and warnings."""

import numpy as np
import pytest

import pliant as pl
from pliant.geometry import Box, Cylinder, Ellipsoid, Mesh, Rectangle, Union, mesh_quality


def test_regular_triangle_and_tetrahedron_have_closed_form_quality():
    triangle = mesh_quality(Mesh(points=[[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]], cells=[[0, 1, 2]]))
    assert triangle.smallest_angle == pytest.approx(60)
    assert triangle.largest_aspect == pytest.approx(2 / np.sqrt(3))
    corners = np.array([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1.0]])
    tetrahedron = mesh_quality(Mesh(points=corners, cells=[[0, 1, 2, 3]]))
    assert tetrahedron.smallest_angle == pytest.approx(np.degrees(np.arccos(1 / 3)))
    assert tetrahedron.total_volume == pytest.approx(8 / 3)
    assert tetrahedron.largest_aspect == pytest.approx(np.sqrt(3 / 2))


def test_kuhn_cubes_have_angles_of_45_degrees():
    measured = mesh_quality(Box(size=(1, 1, 1)).mesh(divisions=(2, 2, 2)))
    assert measured.smallest_angle == pytest.approx(45)
    assert (measured.n_points, measured.n_cells) == (27, 48)
    assert measured.smallest_volume == pytest.approx(measured.largest_volume)
    assert measured.size == pytest.approx(np.sqrt(3))
    assert measured.warnings() == []


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [Ellipsoid(radii=(1, 2, 3)), Cylinder(radius=1, length=1)])
def test_boundary_of_curved_cells_encloses_their_total_volume(shape, order):
    measured = mesh_quality(shape.mesh(cell=1.0, order=order))
    assert measured.surface_volume == pytest.approx(measured.total_volume, rel=1e-12)


def test_slivers_are_counted_and_located():
    measured = mesh_quality(Rectangle(size=(1, 0.01)).mesh(divisions=(2, 1)))
    (warning,) = measured.warnings()
    assert warning.startswith("4 of 4 cells have an angle under 5 degrees (worst: cell")


@pytest.mark.parametrize(("size", "message"), [(150.0, "Scale by 0.001"), (1e-5, "Scale by 1000")])
def test_implausible_size_suggests_a_scale(size, message):
    (warning,) = mesh_quality(Box(size=(size, size, size)).mesh(divisions=(1, 1, 1))).warnings()
    assert message in warning


@pytest.mark.parametrize(
    ("origin", "weak"),
    [((1, 1, 0), True), ((1, 1, 1), True), ((1, 0, 0), False), ((2, 0, 0), False)],
    ids=["edge", "point", "face", "apart"],
)
def test_parts_that_share_only_an_edge_or_a_point_are_reported(origin, weak):
    shape = Union(
        parts={"a": Box(size=(1, 1, 1)), "b": Box(size=(1, 1, 1), origin=origin)}, cell=0.5
    )
    reported = [
        text for text in mesh_quality(shape.mesh()).warnings() if "transmits no moment" in text
    ]
    assert bool(reported) == weak


def test_robot_of_parts_joined_at_an_edge_warns():
    shape = Union(
        parts={
            "a": Box(size=(0.1, 0.1, 0.1)),
            "b": Box(size=(0.1, 0.1, 0.1), origin=(0.1, 0.1, 0)),
        }
    )
    robot = pl.Robot(shape=shape, cell=0.05, order=1, material=pl.Material(E=1e5, nu=0.3))
    with pytest.warns(UserWarning, match=r"2 parts of the mesh are joined only at an edge"):
        robot.body()
