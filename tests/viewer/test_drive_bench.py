"""The drive benchmark measures the loop, without a page and with one, and tells what it found."""

import asyncio
import json

import pytest
from served_robots import small_arm

from pliant.bench import REPORTS
from pliant.bench.drive import alone, report, watched
from pliant.viewer.chromium import find_chromium

STEPS = 20


@pytest.fixture(scope="module")
def session():
    return small_arm()


def checked(found):
    assert found["work 50"] <= found["work 99"] <= found["gap 99"]
    assert 0.0 < found["rate"] <= found["free"]
    assert found["rate"] < 66.0  # it rests until a sixtieth of a second has passed
    return found


def test_the_loop_is_measured_and_told(session):
    numbers = {
        "nodes": 81,
        "controls": 4,
        "steps": STEPS,
        "without a page": checked(alone(session, STEPS)),
        "with a page": {"missing": "No page."},
    }
    told = report(json.loads(json.dumps(numbers)))
    (_, columns, rows) = told.tables[0]
    assert [len(row) for row in rows] == [len(columns)]
    assert "No page." in told.notes
    assert REPORTS["drive"](numbers).tables == told.tables


@pytest.mark.skipif(
    find_chromium() is None, reason="THE BROWSER TESTS ARE LEFT OUT: there is no Chromium or Chrome"
)
def test_a_browser_is_attached_and_draws(session):
    checked(
        asyncio.run(watched(session, STEPS, find_chromium()))
    )  # which has no figures unless the page drew its first frames
