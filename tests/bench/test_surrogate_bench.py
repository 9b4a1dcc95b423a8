"""The surrogate benchmark: every method on the ridge, the benefit of derivatives, and the
report."""

import json

import numpy as np
import pytest

from pliant.bench.surrogate import (
    ERRORS,
    METHODS,
    PEERS,
    BenchmarkMap,
    arm,
    measure_map,
    measure_method,
    query_rows,
    report,
    ridge,
    slope_seconds,
)

KEYS = [f"{error:.0e}" for error in ERRORS]


@pytest.fixture(scope="module")
def measured():
    m = ridge(count=60)
    return m, *measure_map(m)


def test_every_method_is_measured(measured):
    m, numbers, made = measured
    assert list(numbers["methods"]) == list(made) == list(METHODS)
    for found in numbers["methods"].values():
        at = [found[key] for key in KEYS if key in found]
        assert len(at) >= 2
        assert all(one["error"] <= error for one, error in zip(at, ERRORS, strict=False))
        assert np.all(np.diff([one["evaluations"] for one in at]) >= 0)
        assert at[-1]["evaluations"] <= m.limit


def test_derivatives_reduce_evaluations(measured):
    """Grid and RegularGrid both have fourth order, but Grid uses value and gradient of each
    evaluation. Chebyshev interpolation of a smooth map converges faster than any order."""
    tightest = {
        name: found[KEYS[-1]]["evaluations"]
        for name, found in measured[1]["methods"].items()
        if KEYS[-1] in found
    }
    assert tightest["Chebyshev"] < tightest["Grid"] < tightest["RegularGrid"]


@pytest.mark.parametrize(
    "method", [name for name in METHODS if name != "Tree"]
)  # later queries change the tree
def test_reported_errors_are_largest_errors_at_queries(measured, method):
    m, numbers, made = measured
    off = (
        max(np.abs(made[method](x)[0] - m.f(x, None)[0]).max() for x in m.queries)
        / np.abs(m.truth).max()
    )
    best = list(numbers["methods"][method].values())[-1]
    assert off <= best["error"] * (1.0 + 1e-9)
    if KEYS[-1] in numbers["methods"][method]:  # otherwise it continued up to the limit
        assert off == pytest.approx(best["error"])


def test_evaluations_are_shared_and_limited():
    calls = []

    def bowl(x, near):
        calls.append(x.tobytes())
        return np.array([x @ x]), 2.0 * x[None]

    m = BenchmarkMap(
        name="bowl",
        f=bowl,
        queries=np.array([[0.2, 0.3], [0.9, 0.8], [0.1, 0.9]]),
        cell=1.0,
        origin=-0.25,
        limit=7,
    )
    numbers, made = measure_map(m)
    assert len(calls) == len(set(calls)) == numbers["total evaluations"]
    assert made.keys() == {
        "Chebyshev"
    }  # the queries lie in three cells with eight corners; SciPy's methods start with 16 points
    assert report({"maps": [numbers], "queries": []}).tables[0][2][0] == [
        "Grid",
        *["more than 7", "-"] * 3,
    ]


def test_arm_is_measured():
    m = arm(quick=True)
    found, made = measure_method(m, "Grid")
    assert set(found) == set(KEYS)
    assert slope_seconds(m) > 0.0
    (row,) = query_rows(m, {"Grid": made})
    assert 4 < row["coefficients"] < m.truth.shape[1]


def test_report_lists_every_method(measured):
    _, numbers, _ = measured
    queries = [
        {
            "method": name,
            "evaluations": 9,
            "all outputs": 2.0,
            **({} if name in PEERS else {"coefficients": 4, "rows": 1.0}),
        }
        for name in METHODS
    ]
    priced = numbers | {
        "evaluation": 2.0,
        "slope": 0.5,
        "methods": {
            name: {KEYS[0]: {"evaluations": 10, "method seconds": 1.0}} for name in METHODS
        },
    }
    found = report(json.loads(json.dumps({"maps": [numbers, priced], "queries": queries})))
    (title, columns, rows), (_, _, prices), (_, query_columns, query_lines) = found.tables
    assert "ridge" in title
    assert [row[0] for row in rows] == [row[0] for row in query_lines] == list(METHODS)
    assert {len(row) for row in rows} == {len(columns)}
    assert {len(row) for row in query_lines} == {len(query_columns)}
    assert [row[2] for row in prices] == ["16" if name in PEERS else "21" for name in METHODS]
    assert "3 numbers" in found.notes[0]
    assert "25%" in found.notes[1]
