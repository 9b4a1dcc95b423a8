"""Constraints inside the recursion over a reduced horizon: against dense quadratic programs and
against the augmented Lagrangian around the planner."""

from dataclasses import replace

import numpy as np
import pytest
from test_reduced_horizon import LIMITS, exact_jacobian, follow

from pliant.planners import Options, evaluate, gauss_newton
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.constrained_model import ConstrainedModel
from pliant.planners.exact_penalty import ExactPenaltyLoss, has_linear_bounds
from pliant.planners.horizon_reduction import reduce_horizon
from pliant.planners.reduced_model import ReducedModel
from pliant.planners.sensitivity import adjoint_jacobian
from pliant.planners.trust_region import limit_rows, solve_qp
from pliant.problem import Ball, Constraint, Interval

LARGE = 1.0  # a penalty above every multiplier


def tip(inside, function=None, **kwargs):
    return Constraint(effector="tip", inside=inside, function=function, **kwargs)


def tip_bounds(problem, below, above):
    """Return a constraint on both coordinates of the tip relative to its start."""
    start = problem.model.effector("tip", problem.initial_state)[0]
    return tip(Interval(lower=start + below, upper=start + above))


def constrained_model(problem, constraint, penalty):
    """Return the model of a reduced horizon with a constraint, and the problem with its penalty."""
    rows = constraint.attach(problem.model, problem.steps)
    losses = [
        replace(row.observation, loss=ExactPenaltyLoss(constraint_row=row, penalty=penalty))
        for row in rows
    ]
    with_penalty = problem.with_observations(losses)
    now = evaluate(with_penalty, problem.guess())
    horizon = reduce_horizon(AugmentedState(problem=with_penalty), now, 0.0)
    reduced = ReducedModel.at(with_penalty, now, horizon)
    return ConstrainedModel(model=reduced, now=now), losses


def dense_solution(problem, model, rows, inside, penalty):
    """Return the minimiser (steps, n_controls) by a dense quadratic program with all Jacobian rows,
    with a violation of each row at a cost."""
    now, n = model.now, problem.n_variables
    J = exact_jacobian(problem, now)
    observed = replace(problem, terms=problem.with_observations(rows).terms[-1:])
    C = adjoint_jacobian(observed, now).transpose(0, 2, 1).reshape(-1, n)
    args = now.states, now.controls, problem.previous_control
    c = np.concatenate([row.evaluate(*args) for row in rows])
    low, high = (np.tile(side, len(rows)) - c for side in (inside.lower, inside.upper))
    k = len(C)
    G, lower, upper = limit_rows(problem, now.controls)
    P = np.zeros((n + 2 * k, n + 2 * k))
    P[:n, :n] = model.model.metric.sparse.toarray() + J.T @ J
    rows_of_all = np.block(
        [
            [G.toarray(), np.zeros((G.shape[0], 2 * k))],
            [C, np.eye(k), -np.eye(k)],
            [np.zeros((2 * k, n)), np.eye(2 * k)],
        ]
    )
    out = solve_qp(
        P,
        np.concatenate([model.model.gradient.T.ravel(), np.full(2 * k, penalty)]),
        np.zeros((0, n + 2 * k)),
        np.zeros(0),
        rows_of_all,
        np.concatenate([lower, low, np.zeros(2 * k)]),
        np.concatenate([upper, high, np.full(2 * k, np.inf)]),
    )
    return out[:n].reshape(problem.model.n_controls, problem.steps).T


TIP_BOX = np.array([-0.02, -0.005]), np.array([0.01, 0.02])


@pytest.mark.parametrize("limits", [[], LIMITS[:1], LIMITS], ids=["free", "0", "all"])
def test_step_equals_that_of_a_dense_quadratic_program(limits):
    problem = follow(limits=limits)
    constraint = tip_bounds(problem, *TIP_BOX)
    model, rows = constrained_model(problem, constraint, LARGE)
    found = model.solve()
    assert found.converged
    want = dense_solution(problem, model, rows, constraint.inside, LARGE)
    np.testing.assert_allclose(found.d, want, atol=1e-8 * np.abs(want).max())
    free = model.model.minimise(np.inf).change
    assert np.abs(found.d - free).max() > 1e-2 * np.abs(free).max()  # the constraint is active


@pytest.mark.parametrize("limits", [[], LIMITS], ids=["free", "limited"])
def test_violation_costs_its_penalty(limits):
    """With a small penalty the step violates the constraint. PIQP is less accurate there, so the
    decreases are compared."""
    problem = follow(limits=limits)
    constraint = tip_bounds(problem, *TIP_BOX)
    model, rows = constrained_model(problem, constraint, 0.02)
    step = model.minimise(np.inf)
    want = dense_solution(problem, model, rows, constraint.inside, 0.02)
    gain = model.gain_of(want)
    assert gain == pytest.approx(step.gain, rel=1e-8)
    assert step.gain >= gain * (1.0 - 1e-10)
    assert np.abs(model.solve().multipliers).max() >= 0.02 * (1.0 - 1e-8)


@pytest.mark.parametrize("limits", [[], LIMITS[1:2]], ids=["free", "limited"])
def test_plan_equals_that_of_the_augmented_lagrangian(limits):
    problem = follow(limits=limits)
    start = problem.model.effector("tip", problem.initial_state)[0]
    below = tip(Interval(upper=start[1] + 0.01), lambda y: y[1:2])
    problem = replace(problem, constraints=[below])
    options = Options(tolerance=1e-8, iterations=200)
    inside = gauss_newton(problem, route="reduced", options=options)
    outside = plan_with_constraints(problem, gauss_newton, options=options, route="adjoint")
    assert inside.status, inside.status.text
    assert max(inside.constraint_violation, outside.constraint_violation) <= 1e-7
    assert inside.limit_violation <= 1e-9
    assert inside.cost == pytest.approx(outside.cost, rel=1e-5)
    spread = np.ptp(outside.controls)
    np.testing.assert_allclose(inside.controls, outside.controls, atol=1e-3 * spread)
    assert len(inside.history) < len(outside.history)


@pytest.mark.parametrize(
    ("inside", "function", "is_linear"),
    [
        (Interval(lower=0.0), lambda y: 3.0 * y[1:] - y[:1], True),
        (Interval(lower=0.1), lambda y: np.array([np.sqrt(np.sum(y**2))]), False),
        (Ball(centre=(0.0, 0.0), radius=1.0), None, False),
    ],
)
def test_only_linear_bounds_are_inside_the_recursion(inside, function, is_linear):
    problem = follow()
    row = tip(inside, function).attach(problem.model, problem.steps)[0]
    assert has_linear_bounds(row) == is_linear


def test_unreachable_constraint_is_named():
    problem = follow(limits=LIMITS)
    far = tip(Interval(lower=5.0), lambda y: y[1:2])
    plan = gauss_newton(replace(problem, constraints=[far]), route="reduced")
    assert not plan.status
    assert "the constraint on the position of 'tip' at t = 0.03 s is still violated" in (
        plan.status.text
    )
    assert plan.limit_violation <= 1e-9


def test_equality_holds_exactly():
    problem = follow(limits=LIMITS)
    height = problem.model.effector("tip", problem.initial_state)[0, 1] + 0.005
    final = tip(Interval(lower=height, upper=height), lambda y: y[1:2], time=0.36)
    plan = gauss_newton(replace(problem, constraints=[final]), route="reduced")
    assert plan.status, plan.status.text
    assert plan.constraint_violation <= 1e-10
