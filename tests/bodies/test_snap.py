"""Points slightly outside a body are attached to its surface; distant points are rejected with
their distance."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.geometry import CircularSection, Rods
from pliant.mpm import MaterialPoint
from pliant.robot import PointLoad

SOFT = pl.Material(E=1e5, nu=0.3, density=1000.0)
OUTSIDE = (0.05, 0.02, 0.023)  # 3 mm above the box, 3 mm beside the rod


def box(**more):
    return pl.Robot(
        shape=pl.Box(size=(0.1, 0.04, 0.02)), divisions=(4, 2, 1), material=SOFT, **more
    )


def rod(**more):
    points = [[0.0, 0.02, 0.02], [0.1, 0.02, 0.02]]
    return pl.Robot(
        shape=Rods(points=points, rods=[[0, 1]], section=CircularSection(radius=0.002)),
        material=SOFT,
        **more,
    )


def particles(**more):
    return MaterialPoint(box(**more), dt=0.001, cell=0.01).body


BODIES = {
    "solid": lambda **more: box(**more).body(),
    "beams": lambda **more: rod(**more).body(),
    "particles": particles,
}
every_body = pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)


def attached(body, point):
    return (body.locate(np.array([point])) @ body.rest.reshape(-1, 3))[0]


@every_body
def test_point_within_tolerance_is_attached_to_nearest_point(make):
    body = make()
    np.testing.assert_allclose(attached(body, (0.05, 0.02, 0.0200002)), (0.05, 0.02, 0.02))


@every_body
def test_point_beyond_tolerance_is_rejected_with_its_distance(make):
    with pytest.raises(InputError, match=r"0\.003 m (from the surface|away).*snap=0\.003"):
        make().locate([OUTSIDE])


@every_body
def test_larger_snap_distance_attaches_distant_point(make):
    np.testing.assert_allclose(attached(make(snap=0.004), OUTSIDE), (0.05, 0.02, 0.02))


@pytest.mark.parametrize("what", ["cable", "effector", "load"])
def test_every_attachment_uses_snap_distance_of_robot(what):
    def attach(robot):
        return {
            "cable": pl.Cable(points=[(0.01, 0.02, 0.01), OUTSIDE]),
            "effector": pl.Effector(point=OUTSIDE),
            "load": PointLoad(point=OUTSIDE, force=(0, 0, 1)),
        }[what].attach(robot.body())

    attach(box(snap=0.004))
    with pytest.raises(InputError, match=r"0\.003 m from the surface"):
        attach(box())


def test_snapped_cable_length_is_distance_of_attached_points():
    points = [(0.02, 0.02, 0.02), (0.05, 0.02, 0.023)]
    cable = pl.Cable(points=points, drive="length", limits=(0.5, 1.0))
    assert cable.attach(box(snap=0.004).body()).rest_length == pytest.approx(0.03, abs=1e-9)


def test_negative_snap_distance_is_rejected():
    with pytest.raises(InputError, match="snap distance is -1 m"):
        box(snap=-1)


def test_robot_file_can_set_snap_distance(tmp_path):
    text = (
        'snap = 0.004\n[geometry]\nshape = "box"\nsize = [0.1, 0.04, 0.02]\n'
        "divisions = [2, 1, 1]\n[material]\nE = 1e5\nnu = 0.3\n"
        "[effectors.tip]\npoint = [0.1, 0.02, 0.022]\n"
    )
    path = tmp_path / "robot.toml"
    path.write_text(text)
    assert pl.load_robot(path).snap == 0.004
    path.write_text(text.replace("0.004", "0.001"))
    with pytest.raises(InputError, match=r"effectors\.tip.*0\.002 m from the surface"):
        pl.load_robot(path)
