"""Rods and servos in robot files."""

import numpy as np
import pytest

import pliant as pl
from pliant.robot_files import load_robot, load_task

CRANE = """
name = "crane"
gravity = [0, 0, -9.81]

[geometry]
points = [[0, 0, 0], [0, 0, 0.2], [0.2, 0, 0.2]]
rods = [[0, 1], [1, 2]]
divide = 4
section = { mast = { type = "circular", radius = 0.01 }, boom = { type = "rectangular", width = 0.02, height = 0.01 } }
regions = { foot = [0], tip = [2] }
parts = { mast = [0], boom = [1] }

[material]
E = 1e7
nu = 0.4

[actuators.motor]
type = "servo"
region = "foot"
axis = [0, 0, 1]
limits = [-1.5, 1.5]

[effectors.tip]
point = [0.2, 0, 0.2]

[task]
dt = 0.01
steps = 3
controls = [0.1]
"""  # noqa: E501


def test_rods_file_matches_python_robot(write_file):
    robot = load_robot(write_file(CRANE))
    mast, boom = (
        pl.geometry.CircularSection(radius=0.01),
        pl.geometry.RectangularSection(width=0.02, height=0.01),
    )
    rods = pl.geometry.Rods(
        points=[[0, 0, 0], [0, 0, 0.2], [0.2, 0, 0.2]],
        rods=[[0, 1], [1, 2]],
        section={"mast": mast, "boom": boom},
        regions={"foot": [0], "tip": [2]},
        parts={"mast": [0], "boom": [1]},
    ).refine(4)
    np.testing.assert_array_equal(robot.shape.points, rods.points)
    np.testing.assert_array_equal(robot.shape.rods, rods.rods)
    assert robot.shape.sections == rods.sections
    assert robot.control_limits()[1].tolist() == [1.5]
    task = load_task(write_file(CRANE))
    assert task.model().step(task.model().initial_state(), task.control(0)).status


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rods = [[0, 1], [1, 2]]", "rods = [[0, 1], [1, 9]]"), "geometry: Rod 1 names point 9"),
        (
            ('region = "foot"', 'region = "fot"'),
            r"actuators\.motor: The rods have no region 'fot'; did you mean 'foot'",
        ),
        (
            ("radius = 0.01", "radious = 0.01"),
            r"geometry\.section\.mast: there is no key 'radious' here; did you mean 'radius'",
        ),
        (("divide = 4", "divide = 0"), "geometry: Rods cannot be divided into '0'"),
        (("divide = 4", "cell = 0.1"), "geometry: there is no key 'cell' here"),
        (('type = "rectangular"', 'type = "tube"'), 'there is no type "tube"'),
    ],
)
def test_rods_file_errors_name_their_place(write_file, raises_clear_error, change, message):
    raises_clear_error(lambda: load_robot(write_file(CRANE.replace(*change))), message)
