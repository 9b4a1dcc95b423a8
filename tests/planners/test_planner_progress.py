"""Planners, simulations and surrogates show progress by default, but only in long computations."""

import sys

import numpy as np
import pytest
from planner_models import jet

import pliant as pl
from pliant.planners import Options
from pliant.problem import Constraint, Effort, Goal, Interval, Problem
from pliant.progress import Log

METHODS = ["gauss_newton", "newton", "ddp", "gradient", "collocation"]


@pytest.fixture
def shown(monkeypatch, capsys):
    """Return shown(), the progress lines so far. Displays start without delay."""
    monkeypatch.setattr("pliant.progress.DELAY", 0.0)
    monkeypatch.setattr(
        "pliant.progress._choose_sink", lambda: Log(stream=sys.stderr, interval=0.0)
    )
    return lambda: capsys.readouterr().err.splitlines()


def reach(constraints=()) -> Problem:
    return Problem(
        model=jet(),
        steps=4,
        terms=[Goal(effector="tip", target=(0.1, 0.2), time=0.4), Effort(weight=1e-3)],
        constraints=constraints,
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_planner_reports_iterations(method, shown):
    if method == "collocation":
        pytest.importorskip("casadi")
    pl.plan(reach(), method=method, options=Options(iterations=50))
    lines = shown()
    assert " 0/50 after " in lines[0]
    assert all(line.startswith("planning (") for line in lines)


def test_rounds_share_one_progress_display(shown):
    above = Constraint(
        effector="tip", function=lambda y: y[1:2], inside=Interval(lower=0.0, upper=0.15)
    )
    pl.plan(reach([above]), options=Options(iterations=80))
    done = [int(line.split()[2].split("/")[0]) for line in shown()]
    assert done == sorted(done)
    assert len(done) > 2


def test_fast_plan_prints_no_progress(capfd):
    pl.plan(reach())
    pl.simulate(jet(), np.zeros((3, 2)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", [{"progress": False}, {"options": Options(progress=False)}])
def test_progress_false_silences_a_plan(how, shown):
    pl.plan(reach(), **how)
    assert shown() == []


def test_progress_function_receives_reports(shown):
    seen = []
    pl.plan(reach(), progress=lambda *report: seen.append(report))
    assert seen[0] == ("planning (gauss_newton)", 0, 200)
    assert shown() == []


def test_simulation_shows_its_steps(shown):
    pl.simulate(jet(), np.zeros((3, 2)))
    assert [line.split(" after ")[0] for line in shown()] == [
        "simulating 1/3",
        "simulating 2/3",
        "simulating 3/3",
    ]
    pl.simulate(jet(), np.zeros((3, 2)), progress=False)
    assert shown() == []


def test_bad_progress_is_rejected(raises_clear_error):
    raises_clear_error(lambda: Options(progress=3), "progress is '3'")
    raises_clear_error(lambda: pl.plan(reach(), progress="loud"), "progress is 'loud'")
