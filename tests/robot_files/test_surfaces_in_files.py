"""Surface files in robot files: lost walls are rejected, and `check` compares the volumes."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.geometry import Box
from pliant.robot_files import load_robot, load_task
from pliant.zoo.check import check

ROBOT = """
[geometry]
surface = "bag.stl"
cell = {cell}
order = 1
{more}
[material]
E = 1e5
nu = 0.3
[[supports]]
region = "body"
"""


def write_bag(folder, cell, scale=1.0, more=""):
    """Write a robot file and the STL of a box of 60 x 40 x 30 mm with walls of 4 mm."""
    size = np.array([0.06, 0.04, 0.03])
    outer = Box(size=size).mesh(divisions=(1, 1, 1))
    inner = Box(size=size - 0.008, origin=(0.004, 0.004, 0.004)).mesh(divisions=(1, 1, 1))
    skin = np.vstack([outer.points[outer.boundary()], inner.points[inner.boundary()[:, ::-1]]])
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in corners)
        + "endloop\nendfacet\n"
        for corners in scale * skin
    )
    (folder / "bag.stl").write_text(f"solid bag\n{facets}endsolid bag\n")
    path = folder / "bag.toml"
    path.write_text(ROBOT.format(cell=cell, more=more))
    return path


def test_check_compares_mesh_with_surface_of_file(tmp_path):
    path = write_bag(tmp_path, 0.0039)
    facts = dict(check(path).facts)
    volume = 0.06 * 0.04 * 0.03 - 0.052 * 0.032 * 0.022
    assert facts["surface of the file"].startswith(f"{volume:.4g} m^3, of which the mesh has 9")
    assert "1 of 1 cavity, up to 0.00" in facts["surface of the file"]
    assert "surface" not in facts["volume"]


def test_surface_that_loses_its_walls_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"bag.toml.*does not represent the surface.*Use cell = 0"):
        load_robot(write_bag(tmp_path, 0.0052))


def test_millimetres_without_scale_are_recognised(tmp_path):
    with pytest.raises(InputError, match=r"looks like millimetres taken as metres.*scale = 0\.001"):
        load_robot(write_bag(tmp_path, 0.0039, scale=1000.0))
    path = write_bag(tmp_path, 0.0039, scale=1000.0, more="scale = 0.001")
    surface, cell = load_task(path).fill_source
    np.testing.assert_allclose(surface.bounds()[1], (0.06, 0.04, 0.03))
    assert cell == 0.0039


def test_check_repairs_surface_with_repair_option(tmp_path):
    path = write_bag(tmp_path, 0.0039, more="repair = true")
    stl = tmp_path / "bag.stl"
    facets = stl.read_text().split("facet normal")
    stl.write_text("facet normal".join([facets[0], *facets[2:]]))  # without its first triangle
    volume = 0.06 * 0.04 * 0.03 - 0.052 * 0.032 * 0.022
    facts = dict(check(path).facts)
    assert facts["surface of the file"].startswith(f"{volume:.4g} m^3")
