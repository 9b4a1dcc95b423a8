"""The condensed benchmark: crocoddyl's backward pass equals ours, and a quick run is reported."""

import json
import sys

import numpy as np
import pytest

from pliant.bench import REPORTS
from pliant.bench.condensed import backward, control_step_times, forward, report, whole_plan
from pliant.bench.peers.crocoddyl import crocoddyl_policy, crocoddyl_solver, shift_to_optimum
from pliant.dynamics import SemiImplicit
from pliant.planners import evaluate
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.linear_quadratic import LinearQuadraticModel, stack_stages
from pliant.planners.riccati import linearise_stages, stage_cost
from pliant.planners.riccati_kernels import backward_pass
from pliant.zoo.condensed_tasks import equilibrium_positions, problem_of
from pliant.zoo.experiments import diamond_two_goals


@pytest.fixture(scope="module")
def task():
    return diamond_two_goals.task(
        {**diamond_two_goals.EXPERIMENT.resolve_settings(quick=True), "steps": 16}
    )


@pytest.fixture(scope="module")
def problem(task):
    q0 = equilibrium_positions(task.robot, task.initial_controls)
    return problem_of(task, "linear", SemiImplicit(task.robot, dt=task.dt).state(q0))


@pytest.fixture(scope="module")
def about(problem):
    now, layout = (
        evaluate(problem, np.tile([4.0, 2.0, 1.0, 3.0], (problem.steps, 1))),
        AugmentedState(problem=problem),
    )
    return LinearQuadraticModel(
        problem=problem, layout=layout, now=now, stages=linearise_stages(problem.model, layout, now)
    )


def test_stacked_costs_equal_stage_costs(about):
    z, u, zz, uz, uu, *_ = about.blocks
    for k in range(about.problem.steps + 1):
        Q = stage_cost(about.problem, about.layout, about.now, k)
        np.testing.assert_allclose(z[k], Q.z, rtol=1e-14, atol=1e-14 * np.abs(z).max())
        np.testing.assert_allclose(zz[k], Q.zz, rtol=1e-14)
        if k < about.problem.steps:
            for mine, theirs in ((u[k], Q.u), (uz[k], Q.uz), (uu[k], Q.uu)):
                np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def test_crocoddyl_policy_equals_ours_without_bounds(about):
    pytest.importorskip("crocoddyl")
    stages = list(about.blocks)
    stages[7], stages[8] = np.full_like(stages[7], -np.inf), np.full_like(stages[8], np.inf)
    gains, d = _both(tuple(stages))
    assert np.abs(d[0]).min(axis=1).max() > 0.0
    _agree(gains, d)


def test_crocoddyl_policy_equals_ours_within_bounds(about):
    """Compare at the optimum of the linear-quadratic problem, where crocoddyl's V_z is exact, and
    next to it, where free controls move."""
    pytest.importorskip("crocoddyl")
    stages = shift_to_optimum(about.blocks)
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
    """Return ((gains, gains), (forward, forward)) of our backward pass and crocoddyl's."""
    ok, gains, forward, *_ = backward_pass(*stack_stages(stages), 0.0)
    assert ok
    solver = crocoddyl_solver(stages)
    solver.backwardPass()
    theirs = crocoddyl_policy(solver)
    return (gains, theirs[0]), (forward, theirs[1])


def _agree(gains, d):
    np.testing.assert_allclose(gains[1], gains[0], atol=1e-9 * np.abs(gains[0]).max())
    np.testing.assert_allclose(d[1], d[0], atol=1e-9 * max(np.abs(d[0]).max(), 1e-3))


def test_settled_problem_satisfies_optimality_conditions(about):
    """Compute the cost gradient with a separate adjoint. It is zero for free controls and points
    outwards at a bound."""
    z, u, _, _, _, A, B, low, high, *_ = shift_to_optimum(about.blocks)
    after, slope = z[-1], np.zeros_like(u)
    for k in range(len(u) - 1, -1, -1):
        slope[k] = u[k] + B[k].T @ after
        after = z[k] + A[k].T @ after
    size = np.abs(about.blocks[1]).max() + np.abs(slope).max()
    free = (low < -1e-9) & (high > 1e-9)
    assert np.abs(slope[free]).max() < 1e-9 * size
    assert np.all(slope[low >= -1e-9] > -1e-9 * size)
    assert np.all(slope[high <= 1e-9] < 1e-9 * size)


def test_quick_run_is_measured_and_reported(task, problem):
    numbers = {
        "forward": [forward(5, 3)],
        "backward": backward(problem, 3),
        "plans": [whole_plan(task, "linear", problem.initial_state, 2)],
        "control steps": control_step_times(True, 6),
    }
    numbers = json.loads(json.dumps(numbers))
    assert numbers["forward"][0]["minimum"] <= numbers["forward"][0]["median"]
    assert (
        numbers["control steps"]["p50"]
        <= numbers["control steps"]["p99"]
        <= numbers["control steps"]["largest"]
    )
    assert numbers["plans"][0]["iterations"] == 2
    if "missing" not in numbers["backward"]:
        assert numbers["backward"]["difference"] < 1e-9
    told = report(numbers)
    assert len(told.tables) == 4
    assert all(len(row) == len(columns) for _, columns, rows in told.tables for row in rows)
    assert REPORTS["condensed"](numbers).tables == told.tables


def test_missing_peer_is_reported_without_ratio(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "crocoddyl", None)
    found = backward(problem, 3)
    assert "pip install 'pliant[bench]'" in found["missing"]
    assert "ratio" not in found
    assert found["ours"]["median"] > 0.0
