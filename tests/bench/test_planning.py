"""The planning benchmark: every method is measured, and growth exponents are correct."""

import pytest

from pliant.bench.planning import (
    BODIES,
    METHODS,
    PATH_METHODS,
    case,
    exponent,
    problem,
    report,
)
from pliant.planners.newton_planner import check_second_order


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_measured(method):
    found = case("rod", 4, method)
    assert found["seconds"] > 0.0
    assert found["iterations"] >= 1
    assert found["cost"] <= problem("rod", 4).value(*_standing("rod"))


@pytest.mark.parametrize("body", BODIES)
def test_every_body_of_the_benchmark_has_second_derivatives(body):
    check_second_order(problem(body, 4), True)  # raises InputError otherwise


@pytest.mark.parametrize("method", PATH_METHODS)
def test_every_method_is_measured_with_a_goal_at_every_step(method):
    found = case("rod path", 4, method)
    assert found["seconds"] > 0.0
    assert found["simulation"] > 0.0
    assert found["cost"] < problem("rod path", 4).value(*_standing("rod path"))


def test_path_problems_have_a_goal_at_every_step():
    steps = [observation.step for observation in problem("rod path", 6).observations]
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    assert len(problem("rod", 6).observations) == 1


def _standing(body):
    from pliant.planners import evaluate

    now = evaluate(problem(body, 4), problem(body, 4).guess())
    return now.states, now.controls


def test_exponents_and_ratios_are_reported():
    rows = [
        {
            "body": "rod",
            "steps": n,
            "method": m,
            "seconds": c * n**p,
            "simulation": 1e-2,
            "megabytes": n / 10,
            "cost": 1.0,
        }
        for m, c, p in (("gauss_newton", 1e-3, 1.0), ("ddp (iLQR)", 2e-2, 1.0))
        for n in (20, 40, 80)
    ]
    assert exponent(
        [row for row in rows if row["method"] == "gauss_newton"], "seconds"
    ) == pytest.approx(1.0)
    (title, columns, table), *_ = report(
        [*rows, {"body": "rod", "steps": 20, "method": "collocation", "missing": "no casadi"}]
    ).tables
    assert "rod" in title
    assert columns[-1].startswith("speed-up of gauss_newton")
    assert [line[-1] for line in table] == ["1.0x", "20.0x"]
