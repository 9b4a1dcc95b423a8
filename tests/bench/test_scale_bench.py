"""The scale benchmark: every method is measured, and growth exponents are correct."""

import pytest

from pliant.bench.scale import CASES, MODELS, case, exponent, report


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_measured(name):
    found = case(name, 3)
    assert found["unknowns"] == 3 * 4**3
    assert list(found["parts"]) == ["set-up", "step", "vjp"]
    assert all(part["seconds"] > 0.0 for part in found["parts"].values())
    peaks = [part["megabytes"] for part in found["parts"].values()]
    assert peaks == sorted(peaks)


def test_factors_are_measured_in_both_orders():
    found = case("factors", 6)
    assert set(found["fill"]) == {"minimum degree", "dissection"}
    assert all(seconds["factor"] > 0.0 for seconds in found["seconds"].values())


def test_exponents_and_failures_are_reported():
    rows = [
        {
            "case": name,
            "unknowns": n,
            "parts": {"step": {"seconds": 1e-6 * n**2, "megabytes": 1e-3 * n}},
        }
        for name in MODELS
        for n in (100, 1000)
    ]
    failed = {"case": CASES[0], "divisions": 36, "error": "it took over 1200 s"}
    found = report([*rows, failed])
    (_, columns, seconds), (_, _, memory), _ = found.tables
    assert columns[1:] == ["100 unknowns", "1,000 unknowns", "exponent"]
    assert {line[-1] for line in seconds} == {"2.00"}
    assert {line[-1] for line in memory} == {"1.00"}
    assert any("36^3 cells failed: it took over 1200 s" in note for note in found.notes)
    assert exponent([10, 100], [1.0, 1.0]) == pytest.approx(0.0)
