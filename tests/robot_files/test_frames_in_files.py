"""Grippers and tethers in robot files, with moving frames and with arms."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from texts import BOX

import pliant
from pliant.actuators import Arm, MovingFrame
from pliant.core import InputError
from pliant.robot_files import load_robot, load_task
from pliant.robot_files.layout import FRAMES

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "robot-files.md").read_text()
ARM = Path(pliant.__file__).parent / "zoo" / "robots" / "irb14000.toml"
HAND = '[actuators.hand]\ntype = "gripper"\nsurface = "x-"\n'


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "robot.toml"
        path.write_text(BOX + text)
        shutil.copy(ARM, tmp_path / "my_arm.toml")
        return path

    return write


def test_gripper_and_tether_match_file(written):
    robot = load_robot(
        written("""
[actuators.hand]
type = "gripper"
surface = "x-"
stiffness = 2e6
frame = { type = "moving", origin = [0, 0.01, 0.01], limits = [[-0.1, -0.1, -0.1, -1, -1, -1], [0.1, 0.1, inf, 1, 1, 1]] }
[actuators.leash]
type = "tether"
point = [0.1, 0.01, 0.01]
anchor = [0.1, 0.01, 0.2]
length = 0.25
stiffness = 500
frame = { type = "moving", origin = [0.1, 0.01, 0.15], start = [0, 0, 0, 0, 0, 0.5] }
""")  # noqa: E501
    )
    hand, leash = robot.actuators["hand"], robot.actuators["leash"]
    assert isinstance(hand.frame, MovingFrame)
    assert hand.stiffness == 2e6
    assert (leash.length, leash.stiffness) == (0.25, 500)
    np.testing.assert_array_equal(leash.anchor, [0.1, 0.01, 0.2])
    np.testing.assert_array_equal(
        robot.control_limits()[1],
        [0.1, 0.1, np.inf, 1, 1, 1, np.inf, np.inf, np.inf, np.pi, np.pi, np.pi],
    )
    np.testing.assert_array_equal(robot.neutral_controls(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5])


def test_arm_is_read_from_file_in_same_folder(written):
    task = load_task(
        written(
            HAND + 'frame = { type = "arm", file = "my_arm.toml", side = "right" }\n[task]\ndt = '
            "0.01\nsteps = 1"
        )
    )
    arm = task.robot.actuators["hand"].frame
    assert isinstance(arm, Arm)
    np.testing.assert_array_equal(
        task.control(0), arm.start
    )  # without controls, the arm keeps its start
    model = task.model()
    step = model.step(model.initial_state(), task.control(0))
    np.testing.assert_allclose(step.x, model.initial_state(), atol=1e-12)


def test_control_outside_its_limits_is_rejected(written):
    with pytest.raises(
        InputError, match=r"Control 1 is 1 in row 0, outside its limits -2.5045 to 0.7592"
    ):
        load_task(
            written(
                HAND + 'frame = { type = "arm", file = "my_arm.toml", side = "right" }\n'
                "[task]\ndt = 0.01\ncontrols = [0, 1, 0, 0, 0, 0, 0]"
            )
        )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ('{ type = "moving" }', r"actuators.hand.frame.origin: this is missing"),
        ('{ type = "moveing", origin = [0, 0, 0] }', "did you mean 'moving'"),
        ("{ origin = [0, 0, 0] }", "the key 'type' is missing; choose one of moving, arm"),
        ('"moving"', "must be a table of keys"),
        (
            '{ type = "moving", origin = [0, 0] }',
            "actuators.hand: The frame of a gripper is 2D, but the body is 3D",
        ),
        (
            '{ type = "moving", origin = [0, 0, 0], start = [0, 0, 0, 9, 0, 0] }',
            "'rotation x' at 9, outside its limits",
        ),
        ('{ type = "moving", origin = [0, 0, nan] }', "finite number"),
        ('{ type = "arm", file = "other.toml" }', r"other.toml: There is no such arm file"),
        ('{ type = "arm", file = "../my_arm.toml" }', "outside the folder"),
        (
            '{ type = "arm", file = "my_arm.toml", side = "middle" }',
            "no side 'middle'; choose one of right, left",
        ),
        (
            '{ type = "arm", file = "my_arm.toml", side = "left", start = [0, 2, 0, 0, 0, 0, 0] }',
            "'2' at 2, outside its limits",
        ),
        ('{ type = "arm", file = "my_arm.toml", side = "left", hand = 1 }', "no key 'hand' here"),
    ],
)
def test_bad_frame_in_file_is_rejected(written, frame, message):
    with pytest.raises(InputError, match=message) as caught:
        load_robot(written(f"{HAND}frame = {frame}"))
    assert "\n" not in str(caught.value)


def test_guide_documents_every_key_of_frames():
    keys = {key for kind in FRAMES.values() for key in kind.__origin__.model_fields} | {
        "xyz",
        "rpy",
    }
    assert [key for key in sorted(keys) if f"`{key}`" not in GUIDE] == []
    assert all(f'`"{name}"`' in GUIDE for name in FRAMES)
