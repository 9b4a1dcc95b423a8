"""Messages to the page hold what they were given, and what comes from it is understood or refused
in a sentence."""

import json

import numpy as np
import pytest
from stand import unpacked

from pliant.core import InputError
from pliant.viewer.wire import packed, understood
from pliant.viewer.wish import Frame, Wish, heard


def test_a_message_holds_its_arrays_word_by_word(rng):
    x, n = rng.standard_normal((7, 3)), np.arange(5)
    message = packed(
        {"type": "frame", "text": "µm, ü"}, {"points": x, "numbers": n, "none": np.zeros(0)}
    )
    out = unpacked(message)
    assert out["text"] == "µm, ü"
    assert len(message) % 4 == 0
    np.testing.assert_array_equal(out["arrays"]["points"], x.astype(np.float32).ravel())
    np.testing.assert_array_equal(out["arrays"]["numbers"], n)
    assert out["arrays"]["none"].size == 0


def test_a_head_that_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        packed({"error": float("nan")}, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ('{"say": "target", "at": [NaN, 0, 0]}', "NaN"),
        ('{"say": Infinity}', "Infinity"),
        ("[1]", "says nothing"),
        ('{"say": 3}', "says nothing"),
        ("null", "says nothing"),
        ("[" * 100_000, "not JSON"),
        (b"\x00\x01", "2 bytes"),
    ],
)
def test_what_is_not_a_message_is_a_sentence(text, says, one_sentence):
    one_sentence(lambda: understood(text), says)


FRAME = Frame(
    middle=np.zeros(3),
    size=0.2,
    lower=np.zeros(2),
    upper=np.array([10.0, np.inf]),
    colours=("strain", "none"),
)
WISH = Wish(active=("tip",), targets={"tip": np.zeros(3), "base": np.ones(3)}, controls=np.zeros(2))


TARGET = {"say": "target", "effector": "tip"}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"say": "targets"}, "did you mean 'target'"),
        ({"say": "target", "effector": "tipp", "at": [0, 0, 0]}, "did you mean 'tip'"),
        ({"say": "target", "effector": ["tip"], "at": [0, 0, 0]}, "not an effector"),
        (TARGET, r"shape \(\)"),
        ({**TARGET, "at": [0, 0]}, r"shape \(2,\)"),
        ({**TARGET, "at": [0, 0, 10**400]}, "inf"),
        ({**TARGET, "at": [0, 0, 5.0]}, "nearer"),
        ({**TARGET, "at": "abc"}, "abc"),
        ({**TARGET, "at": [[0], [0], [0]]}, r"shape \(3, 1\)"),
        ({"say": "controls", "values": [1]}, r"shape \(1,\)"),
        ({"say": "controls", "values": [None, 1]}, "nan"),
        ({"say": "controls", "values": {"a": 1}}, "give numbers"),
        ({"say": "mode", "mode": "fly"}, "not a mode"),
        ({"say": "mode", "mode": "replay"}, "not a mode"),
        ({"say": "pause"}, "true or false"),
        ({"say": "record", "on": 1}, "true or false"),
        ({"say": "active", "effectors": []}, "one or more"),
        ({"say": "active", "effectors": ["x"]}, "not an effector"),
        ({"say": "colour", "by": "red"}, "not a colour"),
    ],
)
def test_a_wish_that_makes_no_sense_is_a_sentence(message, says, one_sentence):
    one_sentence(lambda: heard(WISH, understood(json.dumps(message)), FRAME), says)


def test_controls_are_brought_within_their_limits():
    after = heard(WISH, {"say": "controls", "values": [12.0, -3.0]}, FRAME)
    np.testing.assert_array_equal(after.controls, [10.0, 0.0])


def test_effectors_do_not_change_during_a_recording():
    recording = heard(WISH, {"say": "record", "on": True}, FRAME)
    with pytest.raises(InputError, match="stop it first"):
        heard(recording, {"say": "active", "effectors": ["base"]}, FRAME)
