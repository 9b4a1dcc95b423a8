"""Robots have materials by region with a default, a short repr, and checked actuators."""

import numpy as np
import pytest

import pliant as pl
from pliant.geometry import CircularSection, Rods, Union
from pliant.robot_files import load_robot

SOFT, HARD = pl.Material(E=1e5, nu=0.3), pl.Material(E=1e7, nu=0.3)
PARTS = Union(
    parts={
        "arm": pl.Box(size=(0.04, 0.02, 0.02)),
        "hand": pl.Box(size=(0.02, 0.02, 0.02), origin=(0.04, 0, 0)),
        "nail": pl.Box(size=(0.02, 0.02, 0.02), origin=(0.06, 0, 0)),
    }
)


@pytest.mark.parametrize("default", ["body", "default"])
@pytest.mark.parametrize("first", [True, False])
def test_regions_without_material_have_default_material(default, first):
    named = [(default, SOFT), ("hand", HARD)]
    robot = pl.Robot(shape=PARTS, material=dict(named if first else named[::-1]), cell=0.02)
    body = robot.body()
    E = np.full(len(body.volumes()), SOFT.E)
    E[body.cell_regions["hand"]] = HARD.E
    np.testing.assert_array_equal(body.fields.E, E)


BODY_PARTS = Union(
    parts={
        "body": pl.Box(size=(0.04, 0.02, 0.02)),
        "skin": pl.Box(size=(0.02, 0.02, 0.02), origin=(0.04, 0, 0)),
        "nail": pl.Box(size=(0.02, 0.02, 0.02), origin=(0.06, 0, 0)),
    }
)


@pytest.mark.parametrize("has_body", [False, True])
def test_default_material_applies_to_region_called_body(has_body):
    """The mesh region "body" has no special role."""
    named = {"skin": HARD, "default": SOFT} | ({"body": HARD} if has_body else {})
    body = pl.Robot(shape=BODY_PARTS, material=named, cell=0.02).body()
    moduli = {name: set(body.fields.E[cells]) for name, cells in body.cell_regions.items()}
    assert moduli == {
        "body": {HARD.E if has_body else SOFT.E},
        "skin": {HARD.E},
        "nail": {SOFT.E},
    }
    assert list(body.material_cells) == ["default", *(["body"] if has_body else []), "skin"]


def test_default_material_comes_first():
    body = pl.Robot(shape=PARTS, material={"hand": HARD, "body": SOFT}, cell=0.02).body()
    assert list(body.material_cells) == ["body", "hand"]


@pytest.mark.parametrize("default", ["body", "default"])
def test_rods_without_material_have_default_material(default):
    rods = Rods(
        points=[(0, 0, 0), (0.1, 0, 0), (0.2, 0, 0)],
        rods=[(0, 1), (1, 2)],
        section={"tip": CircularSection(radius=0.002), default: CircularSection(radius=0.005)},
        parts={"tip": [1]},
    )
    body = pl.Robot(shape=rods, material={"tip": HARD, default: SOFT}).body()
    np.testing.assert_array_equal(body.fields.E, [SOFT.E, HARD.E])
    assert [section.radius for section in rods.sections] == [0.005, 0.002]


def test_region_without_material_raises():
    with pytest.raises(pl.InputError, match=r"have no material.*arm, hand, nail.*'default'"):
        pl.Robot(shape=PARTS, material={"hand": HARD}, cell=0.02).body()


def test_file_can_have_default_material(tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(
        "[geometry]\ncell = 0.02\n"
        '[geometry.parts.arm]\nshape = "box"\nsize = [0.04, 0.02, 0.02]\n'
        '[geometry.parts.hand]\nshape = "box"\nsize = [0.02, 0.02, 0.02]\norigin = [0.04, 0, 0]\n'
        "[material.hand]\nE = 1e7\nnu = 0.3\n[material.default]\nE = 1e5\nnu = 0.3\n"
    )
    body = load_robot(path).body()
    assert set(body.fields.E[body.cell_regions["hand"]]) == {1e7}
    assert set(body.fields.E[body.cell_regions["arm"]]) == {1e5}


def test_repr_of_robot_is_one_short_line():
    robot = pl.Robot(
        shape=PARTS.mesh(cell=0.02),
        material={"default": SOFT, "hand": HARD},
        supports=[pl.Support(region="x-")],
        actuators={"tendon": pl.Cable(points=[(0, 0.01, 0.01), (0.05, 0.01, 0.01)])},
    )
    text = repr(robot)
    assert len(text) < 200
    for word in ("Robot(", "Mesh", "tendon", "hand", "supports=1"):
        assert word in text


@pytest.mark.parametrize("q", [[[1, 2], [3]], "abc", None])
def test_effector_position_of_invalid_numbers_raises(q):
    robot = pl.Robot(
        shape=PARTS.mesh(cell=0.02), material=SOFT, effectors={"tip": pl.Effector(region="hand")}
    )
    with pytest.raises(pl.InputError, match=r"The positions are|numbers?, but the body"):
        robot.effector_position("tip", q)


def test_support_accepts_arrays_and_removes_duplicate_nodes():
    corners = np.array([[0.0, 0.0, 0.0], [0.001, 0.02, 0.02]])
    body = pl.Robot(shape=PARTS, material=SOFT, cell=0.02).body()
    np.testing.assert_array_equal(
        pl.Support(box=corners).nodes_of(body), pl.Support(region="x-").nodes_of(body)
    )
    assert pl.Support(nodes=np.array([2, 1, 1])).nodes == (1, 2)


class PartialActuator:
    """An object that has only some members of an actuator."""

    n_controls, limits, neutral = 1, (0.0, 1.0), 0.0

    def attach(self, body):
        raise AssertionError


@pytest.mark.parametrize(
    ("actuator", "message"),
    [
        (
            PartialActuator(),
            "The actuator 'motor' of robot is a PartialActuator without units, polylines; add the "
            "missing members of pliant.robot.Actuator",
        ),
        ("cable", "The actuator 'motor' of robot is 'cable' .str., which is not an actuator; give"),
        (
            None,
            "The actuator 'motor' of robot is 'None' .NoneType., which is not an actuator; give",
        ),
    ],
)
def test_incomplete_actuator_error_names_missing_members(actuator, message):
    with pytest.raises(pl.InputError, match=message):
        pl.Robot(shape=PARTS, material=SOFT, actuators={"motor": actuator})
