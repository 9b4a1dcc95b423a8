"""Saving robots: `load_robot` returns the robot that `save` wrote."""

import numpy as np
import pytest

import pliant as pl
from pliant.robot import PointLoad, Robot, Support
from pliant.robot.digest import robot_digests
from pliant.robot_files import Keyframes, load_robot
from pliant.zoo import robots

ROBOTS = [name for name in robots.__all__ if name != "irb14000"]  # an arm is not a robot


@pytest.mark.parametrize("name", ROBOTS)
def test_saved_zoo_robot_is_loaded_unchanged(name, tmp_path):
    robot = getattr(robots, name)()
    robot.save(tmp_path / "saved.toml")
    again = load_robot(tmp_path / "saved.toml")
    assert robot_digests(again) == robot_digests(robot)
    assert again.name == robot.name
    if isinstance(robot, Robot):
        assert np.array_equal(again.body().rest, robot.body().rest)


def bar(**fields) -> Robot:
    return Robot(
        shape=pl.Box(size=(0.1, 0.02, 0.02)),
        material=pl.Material(E=1e5, nu=0.4),
        divisions=(2, 1, 1),
        order=1,
        **fields,
    )


def test_motion_by_keyframes_is_saved(tmp_path):
    motion = Keyframes(times=np.array([0.0, 1.0]), values=np.array([[0.0] * 3, [0.0, 0.0, 0.1]]))
    load = PointLoad(point=(0.1, 0.01, 0.01), force=motion)
    bar(supports=[Support(region="x-", motion=motion)], loads=[load]).save(tmp_path / "bar.toml")
    again = load_robot(tmp_path / "bar.toml")
    assert np.array_equal(again.supports[0].motion(0.3), motion(0.3))
    assert np.array_equal(again.loads[0].value(3, 0.3), motion(0.3))


def test_point_masses_are_saved_without_a_material(tmp_path):
    points = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.3]]
    robot = Robot(shape=pl.PointMass(points=points, mass_each=0.2), gravity=(0.0, 0.0, -9.81))
    robot.save(tmp_path / "points.toml")
    again = load_robot(tmp_path / "points.toml")
    assert robot_digests(again) == robot_digests(robot)
    assert "material" not in (tmp_path / "points.toml").read_text()


def test_python_functions_are_rejected_with_their_place(tmp_path):
    robot = bar(supports=[Support(region="x-", motion=lambda t: np.zeros(3))])
    with pytest.raises(pl.InputError, match=r"supports\[0\]: .*Python function .*Keyframes"):
        robot.save(tmp_path / "bar.toml")
    obstacle = lambda y: (y[:, 2], np.tile([0.0, 0.0, 1.0], (len(y), 1)), np.zeros((*y.shape, 3)))
    with pytest.raises(pl.InputError, match=r"contacts\[0\]: .*obstacle that is a Python function"):
        bar(contacts=[pl.Contact(obstacle=obstacle)]).save(tmp_path / "bar.toml")
    assert not (tmp_path / "bar.toml").exists()
