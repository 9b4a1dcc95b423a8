"""Messages to the page keep their data, and invalid messages from the page raise."""

import json

import numpy as np
import pytest
from served_robots import unpacked

from pliant.core import InputError
from pliant.viewer.command import Command, CommandRanges, apply_message
from pliant.viewer.messages import decode_message, encode_message


def test_message_contains_its_arrays(rng):
    x, n = rng.standard_normal((7, 3)), np.arange(5)
    message = encode_message(
        {"type": "frame", "text": "µm, ü"}, {"points": x, "numbers": n, "none": np.zeros(0)}
    )
    out = unpacked(message)
    assert out["text"] == "µm, ü"
    assert len(message) % 4 == 0
    np.testing.assert_array_equal(out["arrays"]["points"], x.astype(np.float32).ravel())
    np.testing.assert_array_equal(out["arrays"]["numbers"], n)
    assert out["arrays"]["none"].size == 0


def test_header_with_nan_raises():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_message({"error": float("nan")}, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ('{"type": "target", "at": [NaN, 0, 0]}', "NaN"),
        ('{"type": Infinity}', "Infinity"),
        ("[1]", "without a message type"),
        ('{"type": 3}', "without a message type"),
        ("null", "without a message type"),
        ("[" * 100_000, "not JSON"),
        (b"\x00\x01", "2 bytes"),
    ],
)
def test_invalid_message_text_raises(text, expected, raises_clear_error):
    raises_clear_error(lambda: decode_message(text), expected)


RANGES = CommandRanges(
    centre=np.zeros(3),
    size=0.2,
    lower=np.zeros(2),
    upper=np.array([10.0, np.inf]),
    colours=("strain", "none"),
)
COMMAND = Command(
    active=("tip",), targets={"tip": np.zeros(3), "base": np.ones(3)}, controls=np.zeros(2)
)


TARGET = {"type": "target", "effector": "tip"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"type": "targets"}, "did you mean 'target'"),
        ({"type": "target", "effector": "tipp", "at": [0, 0, 0]}, "did you mean 'tip'"),
        ({"type": "target", "effector": ["tip"], "at": [0, 0, 0]}, "not an effector"),
        (TARGET, r"shape \(\)"),
        ({**TARGET, "at": [0, 0]}, r"shape \(2,\)"),
        ({**TARGET, "at": [0, 0, 10**400]}, "inf"),
        ({**TARGET, "at": [0, 0, 5.0]}, "closer"),
        ({**TARGET, "at": "abc"}, "abc"),
        ({**TARGET, "at": [[0], [0], [0]]}, r"shape \(3, 1\)"),
        ({"type": "controls", "values": [1]}, r"shape \(1,\)"),
        ({"type": "controls", "values": [None, 1]}, "nan"),
        ({"type": "controls", "values": {"a": 1}}, "give numbers"),
        ({"type": "mode", "mode": "fly"}, "not a mode"),
        ({"type": "mode", "mode": "replay"}, "not a mode"),
        ({"type": "pause"}, "true or false"),
        ({"type": "record", "on": 1}, "true or false"),
        ({"type": "active", "effectors": []}, "one or more"),
        ({"type": "active", "effectors": ["x"]}, "not an effector"),
        ({"type": "colour", "by": "red"}, "not a colour"),
    ],
)
def test_invalid_command_raises(message, expected, raises_clear_error):
    raises_clear_error(
        lambda: apply_message(COMMAND, decode_message(json.dumps(message)), RANGES), expected
    )


def test_controls_are_clipped_to_limits():
    after = apply_message(COMMAND, {"type": "controls", "values": [12.0, -3.0]}, RANGES)
    np.testing.assert_array_equal(after.controls, [10.0, 0.0])


def test_change_of_effectors_during_recording_raises():
    recording = apply_message(COMMAND, {"type": "record", "on": True}, RANGES)
    with pytest.raises(InputError, match="stop it first"):
        apply_message(recording, {"type": "active", "effectors": ["base"]}, RANGES)
