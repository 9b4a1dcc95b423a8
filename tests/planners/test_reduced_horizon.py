"""Reduced horizons against dense Jacobians and dense Riccati recursions."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.linalg

import pliant as pl
from pliant.core import InputError
from pliant.planners import Options, ddp, ddp_planner, evaluate, gauss_newton
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.gauss_newton_search import row_model
from pliant.planners.horizon_reduction import reduce_horizon
from pliant.planners.operation_counts import cheapest_route, reduction_pays_off
from pliant.planners.reduced_model import ReducedModel
from pliant.planners.riccati import linearise_stages, riccati_step
from pliant.planners.sensitivity import adjoint_jacobian, gauss_newton_rows
from pliant.problem import Effort, Goal, Limit, Problem, Residual, Reward

STEPS = 12
TIGHT = Options(tolerance=1e-10)


@cache
def strip(rule, divisions=(3, 1)):
    """Return (model, state) of a foam strip at rest, whose left end a gripper moves and rotates."""
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.4, 0.04)),
        divisions=divisions,
        thickness=0.04,
        order=1,
        gravity=(0, -9.81),
        material=pl.Material(E=6e4, nu=0.4, density=35.0),
        damping=pl.Damping(stiffness=0.02),
        actuators={
            "hand": pl.Gripper(surface="x-", frame=pl.actuators.MovingFrame(origin=(0, 0.02)))
        },
        effectors={"tip": pl.Effector(surface="x+")},
    )
    model = rule(robot, dt=0.03)
    return model, model.state(pl.equilibrium(pl.Quasistatic(robot), np.zeros(3)).x)


def follow(rule=pl.ImplicitEuler, *, steps=STEPS, limits=(), terms=()):
    """Return the problem of following a path: a position and an acceleration at every step."""
    model, x0 = strip(rule)
    start = model.effector("tip", x0)[0]
    path = lambda t: start + np.array([-0.1 * t, 0.05 * np.sin(8.0 * t)])
    own = [
        Goal(effector="tip", target=path, weight=100.0),
        Goal(effector="tip", target=(0.0, 0.5), quantity="acceleration", weight=1e-4),
        *(Effort(weight=1e-3 * 10.0 ** (-2 * order), order=order) for order in range(3)),
    ]
    return Problem(model=model, steps=steps, x0=x0, limits=limits, terms=[*own, *terms])


def with_every_loss():
    """Return a problem with linear, quadratic and nonlinear losses."""
    bend = Residual(
        effector="tip", residual=lambda y: np.array([y[0] * y[1], np.sin(3.0 * y[0])]), weight=5.0
    )
    return follow(terms=[bend, Reward(effector="tip", direction=(0.5, 1.0), weight=0.1)])


PROBLEMS = {
    "euler": follow,
    "bdf2": lambda: follow(pl.BDF2),
    "semi-implicit": lambda: follow(pl.SemiImplicit),
    "every loss": with_every_loss,
}
every = pytest.mark.parametrize("name", PROBLEMS)


def away_from_rest(problem):
    rng = np.random.default_rng(1)
    return evaluate(problem, problem.guess() + 0.02 * rng.standard_normal(problem.guess().shape))


def models(problem, tolerance):
    """Return the model of a reduced horizon and the one with all rows."""
    now = away_from_rest(problem)
    horizon = reduce_horizon(AugmentedState(problem=problem), now, tolerance)
    return ReducedModel.at(problem, now, horizon), row_model(problem, now, "adjoint")


def exact_jacobian(problem, now):
    """Return the Jacobian (rows, n_variables) of the weighted residuals."""
    return gauss_newton_rows(problem, now, adjoint_jacobian(problem, now))


def reduced_jacobian(problem, horizon):
    """Return the Jacobian (rows, n_variables) of a reduced horizon, column by column."""
    shape = (problem.model.n_controls, problem.steps)
    units = np.eye(problem.n_variables).reshape(-1, *shape)
    return np.stack([np.concatenate(horizon.residual_change(d.T)) for d in units], axis=1)


# The exact model, without truncation


@every
def test_gradient_equals_that_of_all_rows(name):
    reduced, rows = models(PROBLEMS[name](), 1e-3)
    g = reduced.gradient.T.ravel()
    np.testing.assert_allclose(g, rows.gradient, atol=1e-10 * np.abs(g).max())


@every
def test_step_equals_dense_riccati_step(name):
    problem = PROBLEMS[name]()
    reduced, _ = models(problem, 0.0)
    layout = AugmentedState(problem=problem)
    stages = linearise_stages(problem.model, layout, reduced.now)
    for shift in (0.0, 3.0):
        dense = riccati_step(problem, layout, reduced.now, stages, shift, 0.0)
        step, _ = reduced.stages.solve(reduced.gradient, shift, 0.0)
        np.testing.assert_allclose(step, dense, atol=1e-8 * np.abs(dense).max())


@every
@pytest.mark.parametrize("share", [np.inf, 0.5, 0.01])
def test_step_in_a_trust_region_equals_that_of_all_rows(name, share):
    reduced, rows = models(PROBLEMS[name](), 0.0)
    radius = share * rows.minimise(np.inf).size
    one, other = reduced.minimise(radius), rows.minimise(radius)
    np.testing.assert_allclose(one.change, other.change, atol=1e-5 * np.abs(other.change).max())
    assert one.gain == pytest.approx(other.gain, rel=1e-5)
    assert one.size <= 1.00001 * radius


LIMITS = [
    Limit(lower=-0.01, upper=0.02),
    Limit(lower=-0.3, upper=0.2, order=1),
    Limit(lower=-9.0, upper=7.0, order=2),
]


@pytest.mark.parametrize("limits", [LIMITS[:1], LIMITS[1:2], LIMITS], ids=["0", "1", "all"])
def test_limited_step_equals_that_of_all_rows(limits):
    problem = follow(limits=limits)
    now = evaluate(problem, problem.guess())
    horizon = reduce_horizon(AugmentedState(problem=problem), now, 0.0)
    one = ReducedModel.at(problem, now, horizon).minimise(np.inf)
    other = row_model(problem, now, "adjoint").minimise(np.inf)
    assert problem.limit_violation(one.change) <= 1e-9
    assert one.gain == pytest.approx(other.gain, rel=1e-7)
    np.testing.assert_allclose(one.change, other.change, atol=1e-6)


def test_reused_jacobian_gives_the_gradient_of_all_rows():
    reduced, rows = models(follow(), 0.0)
    trial = evaluate(follow(), reduced.controls + 0.01)
    one, other = reduced.reuse_jacobian(trial), rows.reuse_jacobian(trial)
    g = other.gradient
    np.testing.assert_allclose(one.gradient.T.ravel(), g, atol=1e-9 * np.abs(g).max())


# Truncation


@every
@pytest.mark.parametrize("tolerance", [1e-3, 1e-4, 1e-5])
def test_truncation_error_is_within_its_bound(name, tolerance):
    """The exact Hessian is between (1 - c) H' and (1 + c) H' for c = 2 error + error^2."""
    problem = PROBLEMS[name]()
    reduced, rows = models(problem, tolerance)
    horizon, B = reduced.stages.horizon, reduced.metric.sparse.toarray()
    J, kept = exact_jacobian(problem, reduced.now), reduced_jacobian(problem, horizon)
    exact, approximate = B + J.T @ J, B + kept.T @ kept
    ratio = scipy.linalg.eigvalsh(exact, approximate)
    error = reduced.truncation_error
    c = 2.0 * error + error**2
    assert max(ratio[-1] - 1.0, 1.0 - ratio[0]) > 1e-12
    assert 1.0 - c <= ratio[0] <= ratio[-1] <= 1.0 + c

    d = reduced.minimise(np.inf).change.T.ravel()
    gain, best = -float(rows.gradient @ d + 0.5 * d @ exact @ d), rows.minimise(np.inf).gain
    assert (1.0 - c**2) * best <= gain <= best * (1.0 + 1e-12)


def test_rank_does_not_grow_with_the_horizon():
    """Old observations are damped: twice the goals need no further directions."""
    ranks = []
    for steps in (40, 80):
        problem = follow(steps=steps)
        now = evaluate(problem, problem.guess())
        ranks.append(reduce_horizon(AugmentedState(problem=problem), now, 1e-6).rank)
    assert ranks[1] <= ranks[0] < 40


# Plans


@pytest.mark.parametrize("limits", [[], LIMITS[1:]], ids=["free", "limited"])
def test_iterates_equal_those_with_all_rows(limits):
    problem = follow(limits=limits)
    one, other = (gauss_newton(problem, route=route) for route in ("reduced", "adjoint"))
    assert one.status, one.status.text
    costs = [row.cost for row in other.history]
    np.testing.assert_allclose([row.cost for row in one.history], costs, atol=1e-6 * costs[0])
    assert one.cost == pytest.approx(other.cost, rel=1e-8)
    np.testing.assert_allclose(one.controls, other.controls, atol=1e-5)
    assert one.notes["model_error"] <= 0.02
    assert one.notes["rank"] < 4 * STEPS


@pytest.mark.parametrize("limits", [[], LIMITS[:1]], ids=["free", "limited"])
def test_gains_equal_those_of_ddp(limits):
    problem = replace(follow(limits=limits), terms=follow().terms)
    plan = gauss_newton(problem, route="reduced", options=TIGHT)
    best = ddp(problem, options=TIGHT, guess=plan.controls)
    assert plan.gains.shape == best.gains.shape
    np.testing.assert_allclose(plan.controls, best.controls, atol=1e-6)
    np.testing.assert_allclose(plan.gains, best.gains, atol=1e-4 * np.abs(best.gains).max())


def test_saved_plan_has_its_gains(tmp_path):
    problem = follow(steps=4)
    plan = gauss_newton(problem, route="reduced", options=Options(folder=tmp_path))
    assert np.array_equal(pl.Plan.load(tmp_path, model=problem.model).gains, plan.gains)


def test_route_follows_the_number_of_rows():
    model, x0 = strip(pl.ImplicitEuler, divisions=(30, 3))
    goal = Goal(effector="tip", target=(0.3, 0.1), weight=10.0)
    path = Problem(model=model, steps=200, x0=x0, terms=[goal, Effort(weight=1e-3)])
    end = replace(path, terms=[replace(goal, time=6.0), Effort(weight=1e-3)])
    assert (cheapest_route(path), cheapest_route(end)) == ("reduced", "adjoint")


def test_effector_without_actuator_is_rejected():
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0], [1.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"other": pl.Effector(point=(1.0, 0.0))},
    )
    terms = [Goal(effector="other", target=(1.0, 0.5)), Effort(weight=1e-3)]
    problem = Problem(model=pl.ImplicitEuler(robot, dt=0.1), steps=3, terms=terms)
    with pytest.raises(InputError, match="No control affects the terms"):
        gauss_newton(problem, route="reduced")


@pytest.mark.parametrize("limits", [[], LIMITS[:1], LIMITS[1:2]], ids=["free", "0", "1"])
def test_ddp_over_reduced_horizons_equals_ddp_over_states(limits, monkeypatch):
    problem = follow(limits=limits)
    dense = ddp(problem)
    monkeypatch.setattr(ddp_planner, "reduction_pays_off", lambda problem: True)
    reduced = ddp(problem)
    assert reduced.status, reduced.status.text
    assert len(reduced.history) == len(dense.history)
    assert reduced.cost == pytest.approx(dense.cost, rel=1e-8)
    np.testing.assert_allclose(reduced.controls, dense.controls, atol=1e-5)
    np.testing.assert_allclose(reduced.gains, dense.gains, atol=1e-3 * np.abs(dense.gains).max())


def test_ddp_reduces_large_bodies_only():
    model, x0 = strip(pl.ImplicitEuler, divisions=(30, 3))
    large = Problem(model=model, steps=5, x0=x0, terms=follow().terms)
    assert reduction_pays_off(large)
    assert not reduction_pays_off(follow())
