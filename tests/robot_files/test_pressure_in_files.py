"""Cavities under pressure and fibres in robot files."""

import numpy as np
import pytest

from pliant.actuators import Fibres, Pressure
from pliant.actuators.fibres import radial
from pliant.core import InputError
from pliant.dynamics.equations import Equations
from pliant.robot_files import load_robot
from pliant.zoo.check import check

ARM = """
[geometry]
shape = "chambered_cylinder"
radius = 0.0125
core = 0.004
wall = 0.0025
rib = 0.003
section = 0.05
cap = 0.005
divisions = [2, 1, 1]
order = 1
[material]
E = 2e5
nu = 0.45
[[supports]]
region = "bottom"
[actuators.air]
type = "pressure"
cavity = "chamber 1-2"
limits = [-1e3, 3e4]
"""
THREAD = (
    '[actuators.thread]\ntype = "fibres"\nregion = "ribs"\nstiffness = 1e6\ndirection = "radial"\n'
)
# Triangles of a cube of eight points. An STL of a small cube inside a large one has the void
# "cavity-1".
CUBE = [
    (0, 2, 1),
    (1, 2, 3),
    (4, 5, 6),
    (5, 7, 6),
    (0, 1, 4),
    (1, 5, 4),
    (2, 6, 3),
    (3, 6, 7),
    (0, 4, 2),
    (2, 4, 6),
    (1, 3, 5),
    (3, 7, 5),
]


@pytest.fixture
def read(tmp_path):
    def write(text: str):
        path = tmp_path / "arm.toml"
        path.write_text(text)
        return load_robot(path)

    return write


def test_actuators_match_file(read):
    robot = read(ARM + THREAD)
    air, thread = robot.actuators.values()
    assert isinstance(air, Pressure)
    assert (air.cavity, air.drive, air.limits, air.bulk) == (
        "chamber 1-2",
        "pressure",
        (-1e3, 3e4),
        1e6,
    )
    assert isinstance(thread, Fibres)
    assert (thread.region, thread.stiffness, thread.direction, thread.n_controls) == (
        "ribs",
        1e6,
        radial,
        0,
    )
    assert robot.n_controls == 1
    assert thread.attach(robot.body()).weights.shape[1] == robot.body().mesh.n_points


def test_void_of_surface_is_named_cavity_1(read, tmp_path):
    corners = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
    skin = np.concatenate([corners[np.array(CUBE)], (0.3 + 0.4 * corners)[np.array(CUBE)[:, ::-1]]])
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x} {y} {z}\n" for x, y, z in tri)
        + "endloop\nendfacet\n"
        for tri in 0.1 * skin
    )
    (tmp_path / "bag.stl").write_text(f"solid bag\n{facets}endsolid bag\n")
    robot = read(
        '[geometry]\nsurface = "bag.stl"\ncell = 0.01\nmethod = "lattice"\norder = '
        '1\n[material]\nE = 1e5\nnu = 0.3\n[actuators.air]\ntype = "pressure"\ncavity = '
        '"cavity-1"\ndrive = "volume"\nbulk = 2e5\n'
    )
    air = robot.actuators["air"].attach(robot.body())
    assert air.rest_volume == pytest.approx(0.04**3, rel=1e-6)
    assert (air.drive, air.bulk) == ("volume", 2e5)


# A bottle has three parts: a tube and two lids. Without the upper lid it has no closed void.
LID = '[geometry.parts.{name}]\nshape = "cylinder"\nradius = 0.02\nlength = 0.01\norigin = {at}\n'
BOTTLE = """
[geometry]
cell = 0.005
order = 1
[geometry.parts.wall]
shape = "tube"
outer = 0.02
inner = 0.01
length = 0.04
""" + LID.format(name="floor", at=[0.0, 0.0, -0.01])
AIR = """
[material]
E = 1e5
nu = 0.3
[actuators.air]
type = "pressure"
cavity = "cavity-1"
"""


def test_void_between_parts_is_a_cavity(read):
    robot = read(BOTTLE + LID.format(name="lid", at=[0.0, 0.0, 0.04]) + AIR)
    mesh = robot.mesh()
    wall, outside = (set(map(tuple, mesh.surfaces[name])) for name in ("cavity-1", "outside"))
    assert robot.actuators["air"].attach(robot.body()).rest_volume == pytest.approx(
        np.pi * 0.01**2 * 0.04, rel=0.1
    )
    assert not wall & outside
    assert len(wall) + len(outside) == len(mesh.boundary())


def test_pressure_without_void_error_names_remedy(read):
    with pytest.raises(InputError, match="no closed void that is larger than a cell; leave one"):
        Equations(robot=read(BOTTLE + AIR))


def test_check_prints_cavity_volume(tmp_path):
    path = tmp_path / "arm.toml"
    path.write_text(ARM)
    arc = 2 * np.pi / 3 - 2 * 0.003 / 0.014
    chords = 2 * np.sin(arc / 4) * np.cos(arc / 4) / (arc / 2)  # two straight cells along the arc
    volume = 0.5 * arc * chords * (0.01**2 - 0.004**2) * 0.05
    assert (
        dict(check(path).facts)["cavity air"]
        == f"{1e6 * volume:.4g} ml, closed by 20 facets, driven by pressure"
    )


def test_check_prints_liquid_weight_and_warns_about_high_density(tmp_path):
    path = tmp_path / "arm.toml"
    for density, n_warnings in ((1000.0, 0), (1e6, 1)):
        path.write_text(
            "gravity = [0.0, 0.0, 0.0]\n"
            + ARM.replace('type = "pressure"', f'type = "hydraulic"\ndensity = {density}')
        )
        found = check(path)
        volume, weight = (
            float(text.split()[0]) for text in dict(found.facts)["cavity air"].split(", ")[:2]
        )
        assert weight == pytest.approx(1e-6 * density * volume, rel=1e-3)
        assert (
            sum(
                "more than any metal. If it is in g/m^3, write 1000." in text
                for text in found.warnings
            )
            == n_warnings
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("cavity = ", "void = "), "no key 'void'"),
        (("limits = [-1e3, 3e4]", 'drive = "flow"'), "'pressure' or 'volume'"),
        (("limits = [-1e3, 3e4]", THREAD.replace("radial", "radail")), "did you mean 'radial'"),
    ],
)
def test_bad_pressure_in_file_is_rejected(read, change, message):
    with pytest.raises(InputError, match=message):
        read(ARM.replace(*change))
