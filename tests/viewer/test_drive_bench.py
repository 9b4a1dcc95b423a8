"""The drive benchmark measures and reports the control loop, with and without a page."""

import asyncio
import json

import pytest
from served_robots import small_arm

from pliant.bench import REPORTS
from pliant.bench.drive import measure_with_page, measure_without_page, report
from pliant.viewer.chromium import find_chromium

STEPS = 20


@pytest.fixture(scope="module")
def session():
    return small_arm()


def check_times(found):
    """Check the order of the measured times and rates and return them."""
    assert found["computing time p50"] <= found["computing time p99"] <= found["interval p99"]
    assert 0.0 < found["rate"] <= found["rate without pacing"]
    return found


def test_benchmark_measures_and_reports_the_loop(session):
    numbers = {
        "nodes": 81,
        "controls": 4,
        "steps": STEPS,
        "without a page": check_times(measure_without_page(session, STEPS)),
        "with a page": {"missing": "No page."},
    }
    drive_report = report(json.loads(json.dumps(numbers)))
    (_, columns, rows) = drive_report.tables[0]
    assert [len(row) for row in rows] == [len(columns)]
    assert "No page." in drive_report.notes
    assert REPORTS["drive"](numbers).tables == drive_report.tables


@pytest.mark.skipif(
    find_chromium() is None, reason="THE BROWSER TESTS ARE LEFT OUT: there is no Chromium or Chrome"
)
def test_benchmark_measures_the_loop_with_a_browser(session):
    # `measure_with_page` returns no times unless the page drew its first frames
    check_times(asyncio.run(measure_with_page(session, STEPS, find_chromium())))
