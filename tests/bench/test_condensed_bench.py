"""The condensed benchmark: crocoddyl's backward pass does the same work as ours, and a quick run is
measured and told."""

import json
import sys

import numpy as np
import pytest

from pliant.bench import REPORTS
from pliant.bench.condensed import backward, decisions, forward, report, whole_plan
from pliant.bench.peers.crocoddyl import crocoddyl_policy, crocoddyl_solver, settled
from pliant.dynamics import SemiImplicit
from pliant.planners import evaluate
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.linear_quadratic import LinearQuadraticModel, stack_stages
from pliant.planners.riccati import linearise_stages, stage_cost
from pliant.planners.riccati_kernels import backward_pass
from pliant.zoo.condensed_tasks import problem_of, rest
from pliant.zoo.experiments import diamond_two_goals


@pytest.fixture(scope="module")
def task():
    return diamond_two_goals.task({**diamond_two_goals.EXPERIMENT.chosen(quick=True), "steps": 16})


@pytest.fixture(scope="module")
def problem(task):
    return problem_of(
        task, "linear", SemiImplicit(task.robot, dt=task.dt).state(rest(task.robot, task.first))
    )


@pytest.fixture(scope="module")
def about(problem):
    now, layout = (
        evaluate(problem, np.tile([4.0, 2.0, 1.0, 3.0], (problem.steps, 1))),
        AugmentedState(problem=problem),
    )
    return LinearQuadraticModel(
        problem=problem, layout=layout, now=now, stages=linearise_stages(problem.model, layout, now)
    )


def test_stacked_costs_are_those_of_each_stage(about):
    z, u, zz, uz, uu, *_ = about.blocks
    for k in range(about.problem.steps + 1):
        Q = stage_cost(about.problem, about.layout, about.now, k)
        np.testing.assert_allclose(z[k], Q.z, rtol=1e-14, atol=1e-14 * np.abs(z).max())
        np.testing.assert_allclose(zz[k], Q.zz, rtol=1e-14)
        if k < about.problem.steps:
            for mine, theirs in ((u[k], Q.u), (uz[k], Q.uz), (uu[k], Q.uu)):
                np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def test_crocoddyl_makes_the_same_policy_without_bounds(about):
    pytest.importorskip("crocoddyl")
    stages = list(about.blocks)
    stages[7], stages[8] = np.full_like(stages[7], -np.inf), np.full_like(stages[8], np.inf)
    gains, d = _both(tuple(stages))
    assert np.abs(d[0]).min(axis=1).max() > 0.0
    _agree(gains, d)


def test_crocoddyl_makes_the_same_policy_within_bounds(about):
    """At the optimum of the linear-quadratic problem, where crocoddyl's V_z is exact, and beside
    it: what is free then moves."""
    pytest.importorskip("crocoddyl")
    stages = settled(about.blocks)
    gains, d = _both(stages)
    held = ~np.any(gains[0], axis=2)
    assert 0.1 < held.mean() < 0.9
    np.testing.assert_array_equal(held, ~np.any(gains[1], axis=2))
    np.testing.assert_allclose(d[0], 0.0, atol=1e-10 * (stages[8] - stages[7]).max())
    _agree(gains, d)
    pushed = (1.01 * stages[0], *stages[1:])
    gains, d = _both(pushed)
    assert np.abs(d[0]).max() > 1e-3
    _agree(gains, d)


def _both(stages):
    """((gains, gains), (forward, forward)) of our pass and theirs."""
    ok, gains, forward, *_ = backward_pass(*stack_stages(stages), 0.0)
    assert ok
    solver = crocoddyl_solver(stages)
    solver.backwardPass()
    theirs = crocoddyl_policy(solver)
    return (gains, theirs[0]), (forward, theirs[1])


def _agree(gains, d):
    np.testing.assert_allclose(gains[1], gains[0], atol=1e-9 * np.abs(gains[0]).max())
    np.testing.assert_allclose(d[1], d[0], atol=1e-9 * max(np.abs(d[0]).max(), 1e-3))


def test_settling_lowers_the_cost_to_where_no_control_wants_to_move(about):
    """The slope of the cost by each control, by an adjoint of its own: zero where it is free, and
    outwards at a bound."""
    z, u, _, _, _, A, B, low, high, *_ = settled(about.blocks)
    after, slope = z[-1], np.zeros_like(u)
    for k in range(len(u) - 1, -1, -1):
        slope[k] = u[k] + B[k].T @ after
        after = z[k] + A[k].T @ after
    size = np.abs(about.blocks[1]).max() + np.abs(slope).max()
    free = (low < -1e-9) & (high > 1e-9)
    assert np.abs(slope[free]).max() < 1e-9 * size
    assert np.all(slope[low >= -1e-9] > -1e-9 * size)
    assert np.all(slope[high <= 1e-9] < 1e-9 * size)


def test_a_quick_run_is_measured_and_told(task, problem):
    numbers = {
        "forward": [forward(5, 3)],
        "backward": backward(problem, 3),
        "plans": [whole_plan(task, "linear", problem.initial_state, 2)],
        "decisions": decisions(True, 6),
    }
    numbers = json.loads(json.dumps(numbers))
    assert numbers["forward"][0]["minimum"] <= numbers["forward"][0]["median"]
    assert (
        numbers["decisions"]["p50"] <= numbers["decisions"]["p99"] <= numbers["decisions"]["worst"]
    )
    assert numbers["plans"][0]["iterations"] == 2
    if "missing" not in numbers["backward"]:
        assert numbers["backward"]["difference"] < 1e-9
    told = report(numbers)
    assert len(told.tables) == 4
    assert all(len(row) == len(columns) for _, columns, rows in told.tables for row in rows)
    assert REPORTS["condensed"](numbers).tables == told.tables


def test_a_missing_peer_is_a_sentence_and_no_ratio(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "crocoddyl", None)
    found = backward(problem, 3)
    assert "pip install 'pliant[bench]'" in found["missing"]
    assert "ratio" not in found
    assert found["ours"]["median"] > 0.0
