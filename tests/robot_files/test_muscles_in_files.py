"""Muscles and fluids in robot files."""

import numpy as np
import pytest

from pliant.actuators import Fluidic, Muscle
from pliant.core import InputError
from pliant.robot_files import load_robot

LIMB = """
[geometry]
divisions = [4, 1, 1]
order = 1
[geometry.parts.hip]
shape = "box"
size = [0.1, 0.1, 0.1]
[geometry.parts.leg]
shape = "box"
size = [0.1, 0.1, 0.1]
origin = [0.1, 0, 0]
[material]
E = 1e5
nu = 0.4
"""


@pytest.fixture
def read(tmp_path):
    def write(text: str):
        path = tmp_path / "limb.toml"
        path.write_text(LIMB + text)
        return load_robot(path)

    return write


def test_actuators_match_file(read):
    robot = read("""
[actuators.pull]
type = "muscle"
region = "leg"
axis = [0, 0, 2]
limits = [-1e3, 5e4]
[actuators.swell]
type = "fluidic"
region = "hip"
""")
    pull, swell = robot.actuators["pull"], robot.actuators["swell"]
    assert isinstance(pull, Muscle)
    assert isinstance(swell, Fluidic)
    np.testing.assert_array_equal(pull.stress(robot.body())[1], np.diag([0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(swell.stress(robot.body())[0], robot.mesh().regions["hip"])
    np.testing.assert_array_equal(robot.control_limits(), [[-1e3, 0.0], [5e4, np.inf]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'type = "muscle"\nregion = "lag"\naxis = [1, 0, 0]',
            "actuators.a: The body has no region 'lag'; did you mean 'leg'",
        ),
        ('type = "muscle"\nregion = "leg"', "actuators.a.axis: this is missing"),
        (
            'type = "muscle"\nregion = "leg"\naxis = [0, 0, 0]',
            "actuators.a: The axis of a muscle is zero",
        ),
        (
            'type = "muscle"\nregion = "leg"\naxis = [1, 0]',
            "actuators.a: The axis of a muscle has shape",
        ),
        (
            'type = "fluidic"\nregion = 3',
            "actuators.a.region: this is 3; it must be text in quotes",
        ),
        ('type = "fluidic"\nregion = "leg"\naxis = [1, 0, 0]', "no key 'axis' here"),
    ],
)
def test_bad_muscle_in_file_is_rejected(read, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read(f"[actuators.a]\n{text}\n")
    assert "\n" not in str(caught.value)
