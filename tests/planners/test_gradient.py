"""Gradient planners: closed forms of a point mass, limits of every order, models with only a
pullback, and failures."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from planner_models import Wrapped, jet
from scipy.optimize import lsq_linear

import pliant as pl
from pliant.core import InputError, Linearizable, Reversible, Status, Step, StepError
from pliant.planners import Options, ddp, evaluate, gauss_newton, newton
from pliant.planners.gradient_planner import bfgs_hessian, gradient, typical_controls
from pliant.planners.trust_region import control_metric, limit_rows, project_to_limits, solve_qp
from pliant.problem import Effort, Goal, Limit, Problem

DT, N = 0.1, 10
GOALS = (
    Goal(effector="tip", target=(1.0, 0.5), time=1.0, weight=10.0),
    Goal(effector="tip", target=(0.0, 0.0), time=1.0, quantity="velocity"),
)
TERMS = (*GOALS, Effort(weight=0.01))
EASY = (*GOALS, Effort(weight=0.3))  # better conditioned, for Adam


def rows_of(problem):
    """Return F and b of a linear problem with cost 1/2 |F u - b|^2, axis by axis.

    Backward Euler is implemented here, independently of the model."""
    h = DT
    j = np.arange(N)
    place = h * h * (N - j)  # of x_N by u_j: v_k = h sum u, x = h sum v
    speed = h * np.ones(N)
    F = np.concatenate(
        [
            np.sqrt(10.0) * place[None],
            speed[None],
            np.sqrt(problem.terms[-1].weight * h) * np.eye(N),
        ]
    )
    return F, [np.concatenate([[np.sqrt(10.0) * target], np.zeros(N + 1)]) for target in (1.0, 0.5)]


def exact(problem, lower=-np.inf, upper=np.inf):
    F, bs = rows_of(problem)
    return np.stack([lsq_linear(F, b, (lower, upper), tol=1e-14).x for b in bs], axis=1)


@dataclass
class OnlyPullback(Wrapped):
    """A model without `linearize`, whose step fails if a control is larger than `weak`."""

    weak: float = np.inf

    def step(self, x, u, p=None, k=0):
        step = self.model.step(x, u, p, k)
        return (
            Step(step.x, Status(ok=False, text="torn"), step.tape)
            if np.abs(u).max() > self.weak
            else step
        )

    def pullback(self, step, x_bar):
        return self.model.pullback(step, x_bar)


# Optima


BOTH = pytest.mark.parametrize(
    ("optimiser", "terms"), [("lbfgs", TERMS), ("adam", EASY)], ids=["lbfgs", "adam"]
)


@BOTH
def test_gradient_finds_least_effort_of_a_point_mass(optimiser, terms):
    problem = Problem(model=jet(), steps=N, terms=terms)
    plan = gradient(
        problem,
        optimiser=optimiser,
        options=Options(iterations=500, tolerance=1e-9 if optimiser == "lbfgs" else 1e-5),
    )
    u = exact(problem)
    assert plan.status, plan.status.text
    np.testing.assert_allclose(
        plan.controls, u, atol=(5e-3 if optimiser == "lbfgs" else 0.05) * np.abs(u).max()
    )
    assert plan.cost == pytest.approx(
        evaluate(problem, u).cost, rel=1e-6 if optimiser == "lbfgs" else 1e-3
    )
    assert plan.cost == plan.replay(problem.model, problem)
    costs = [row.cost for row in plan.history]
    assert optimiser == "adam" or costs == sorted(costs, reverse=True)


@BOTH
def test_actuator_and_user_bounds_hold(optimiser, terms):
    problem = Problem(
        model=jet((-3.0, 8.0)), steps=N, terms=terms, limits=[Limit(lower=-4.0, upper=1.2)]
    )
    plan = gradient(
        problem,
        optimiser=optimiser,
        options=Options(iterations=500, tolerance=1e-9 if optimiser == "lbfgs" else 1e-5),
    )
    u = exact(problem, -3.0, 1.2)
    assert np.isclose(u, 1.2).any()  # the bound is active
    np.testing.assert_allclose(plan.controls, u, atol=0.02 if optimiser == "lbfgs" else 0.1)
    assert plan.cost == pytest.approx(
        evaluate(problem, u).cost, rel=1e-6 if optimiser == "lbfgs" else 1e-3
    )
    assert plan.limit_violation <= 1e-9


@BOTH
def test_rate_and_acceleration_limits_hold(optimiser, terms):
    limits = [
        Limit(lower=-2.0, upper=2.0),
        Limit(lower=-5.0, upper=8.0, order=1),
        Limit(lower=-60.0, upper=60.0, order=2),
    ]
    problem = Problem(model=jet(), steps=N, terms=terms, limits=limits)
    plan = gradient(
        problem,
        optimiser=optimiser,
        options=Options(iterations=500, tolerance=1e-9 if optimiser == "lbfgs" else 1e-5),
    )
    F, bs = rows_of(problem)
    G, low, high = limit_rows(problem, problem.guess())
    both = sp.block_diag([F.T @ F] * 2, format="csc")
    u = (
        solve_qp(
            both,
            -np.concatenate([F.T @ b for b in bs]),
            sp.csc_matrix((0, 2 * N)),
            np.zeros(0),
            G,
            low,
            high,
        )
        .reshape(2, N)
        .T
    )
    assert plan.status, plan.status.text
    assert plan.limit_violation <= 1e-8
    assert plan.cost == pytest.approx(
        evaluate(problem, u).cost, rel=1e-5 if optimiser == "lbfgs" else 1e-3
    )


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.SemiImplicit, pl.BDF2])
def test_gradient_agrees_with_gauss_newton_on_a_soft_beam(rule):
    actuators = {
        "line": pl.Cable(points=[[0.02, 0.02, 0.08], [0.1, 0.05, 0.09], [0.19, 0.02, 0.08]])
    }
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        supports=(pl.Support(region="x-"),),
        actuators=actuators,
        effectors={"tip": pl.Effector(surface="x+")},
    )
    terms = [
        Goal(effector="tip", target=(0.19, 0.05, 0.06), time=0.16, weight=1e5),
        Effort(weight=0.1, order=1),
    ]
    problem = Problem(model=rule(robot, dt=0.02), steps=8, terms=terms)
    reference, plan = gauss_newton(problem), gradient(problem)
    assert plan.status, plan.status.text
    assert plan.cost == pytest.approx(reference.cost, rel=1e-5)
    assert plan.cost < 0.96 * plan.history[0].cost


def test_gradient_needs_only_a_pullback():
    model = OnlyPullback(jet())
    assert isinstance(model, Reversible)
    assert not isinstance(model, Linearizable)
    problem = Problem(model=model, steps=N, terms=TERMS)
    np.testing.assert_allclose(gradient(problem).controls, exact(problem), atol=1e-2)


def test_control_without_cost_is_planned():
    problem = Problem(
        model=jet(),
        steps=4,
        terms=[Goal(effector="tip", target=(1.0, 0.0), time=0.4), Effort(weight=(1.0, 0.0))],
    )
    plan = gradient(problem)
    assert plan.status, plan.status.text
    np.testing.assert_allclose(plan.controls[:, 1], 0.0, atol=1e-6)


def test_memory_limit_does_not_change_the_plan():
    problem = Problem(model=jet(), steps=N, terms=TERMS)
    plans = {c: gradient(problem, checkpoints=c) for c in ("all", "sqrt", 600)}
    for plan in plans.values():
        np.testing.assert_array_equal(plan.controls, plans["all"].controls)
    assert (
        plans[600].notes["peak_bytes"]
        <= 600
        < plans["sqrt"].notes["peak_bytes"]
        < plans["all"].notes["peak_bytes"]
    )
    assert plans["all"].notes["extra_steps"] == 0 < plans[600].notes["extra_steps"]


# Failures


def test_adam_returns_to_best_iterate_after_failed_simulation():
    top = float(np.abs(exact(Problem(model=jet(), steps=N, terms=EASY))).max())
    problem = Problem(model=OnlyPullback(jet(), weak=1.02 * top), steps=N, terms=EASY)
    plan = gradient(problem, optimiser="adam", rate=0.5, options=Options(iterations=150))
    assert sum(row.failed for row in plan.history) > 0
    assert plan.cost == pytest.approx(evaluate(problem, exact(problem)).cost, rel=1e-2)


def test_adam_halves_step_after_failed_simulation():
    top = float(np.abs(exact(Problem(model=jet(), steps=N, terms=EASY))).max())
    problem = Problem(
        model=OnlyPullback(jet(), weak=0.5 * top), steps=N, terms=EASY
    )  # before any other failure
    rows = gradient(problem, optimiser="adam", rate=0.1, options=Options(iterations=60)).history
    first = next(k for k, row in enumerate(rows) if row.failed)
    assert first > 2  # there is progress to keep
    assert [row.cost for row in rows[:first]] == sorted(
        (row.cost for row in rows[:first]), reverse=True
    )
    assert rows[first + 1].step == pytest.approx(0.5 * rows[first].step)


def test_adam_rate_recovers_after_failed_simulation():
    top = float(np.abs(exact(Problem(model=jet(), steps=N, terms=EASY))).max())
    problem = Problem(model=OnlyPullback(jet(), weak=1.02 * top), steps=N, terms=EASY)
    rows = gradient(problem, optimiser="adam", rate=0.5, options=Options(iterations=60)).history
    rates = [row.regulariser for row in rows[1:]]
    first = next(k for k, row in enumerate(rows[1:]) if row.failed)
    lowest = first + int(np.argmin(rates[first : first + 10]))
    assert rates[first] == pytest.approx(0.25)
    assert max(rates[lowest:]) > 1.2 * rates[lowest]
    assert max(rates) <= 0.5


@pytest.mark.parametrize("weak", [1.05, 1.5])
def test_failed_trial_steps_are_shortened(weak):
    """Actuator limits of 100 N make the first step far too long. The model fails slightly above the
    optimal controls."""
    problem = Problem(model=jet((-100.0, 100.0)), steps=N, terms=TERMS)
    u = exact(problem)
    problem = Problem(
        model=OnlyPullback(problem.model, weak=weak * np.abs(u).max()), steps=N, terms=TERMS
    )
    plan = gradient(problem)
    failed = sum(row.failed for row in plan.history)
    assert plan.status, plan.status.text
    assert failed > 0
    assert f"{failed} trial steps failed" in plan.status.text
    assert plan.cost == pytest.approx(evaluate(problem, u).cost, rel=1e-5)


def test_interrupted_search_returns_best_and_resumes(tmp_path):
    problem = Problem(model=jet(), steps=N, terms=TERMS)

    def stop(what, done, total):
        if done == 3:
            raise KeyboardInterrupt

    plan = gradient(problem, options=Options(progress=stop, folder=tmp_path))
    assert plan.interrupted
    assert not plan.status
    assert plan.cost == min(row.cost for row in plan.history) == plan.replay(problem.model, problem)
    told = []
    onward = gradient(
        problem,
        options=Options(
            folder=tmp_path, resume=True, progress=lambda what, done, total: told.append(done)
        ),
    )
    assert onward.status
    assert [row.cost for row in onward.history[:4]] == [row.cost for row in plan.history]
    assert told[0] == 4
    assert onward.cost == pytest.approx(gradient(problem).cost, rel=1e-6)


def test_warm_start_needs_few_iterations():
    problem = Problem(model=jet(), steps=N, terms=TERMS)
    plan = gradient(problem)
    again = gradient(problem, guess=plan.controls, options=Options(tolerance=1e-6))
    assert len(again.history) < len(plan.history) / 2
    assert again.cost <= plan.cost


@pytest.mark.parametrize("planner", [gauss_newton, newton, ddp, gradient])
def test_guess_is_projected_to_limits(planner):
    problem = Problem(model=jet((-2.0, 2.0)), steps=N, terms=TERMS)
    plan = planner(
        problem, guess=exact(problem)
    )  # the unconstrained optimum, better than every admissible one
    assert plan.limit_violation <= 1e-9
    assert plan.cost == pytest.approx(evaluate(problem, exact(problem, -2.0, 2.0)).cost, rel=1e-6)


def test_missing_convergence_is_reported():
    plan = gradient(
        Problem(model=jet(), steps=N, terms=TERMS), options=Options(iterations=2, tolerance=1e-12)
    )
    assert not plan.status
    assert "2 iterations; allow more" in plan.status.text
    assert len(plan.history) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"optimiser": "lbgfs"}, "did you mean 'lbfgs'"),
        ({"rate": -1.0}, "positive"),
        ({"checkpoints": "none"}, "choose one of all, sqrt"),
        ({"checkpoints": 3}, "or more"),
        ({"guess": np.zeros((3, 2))}, "guess"),
    ],
)
def test_bad_options_are_rejected(options, says):
    with pytest.raises(InputError, match=says):
        gradient(Problem(model=jet(), steps=N, terms=TERMS), **options)


def test_guess_that_fails_to_simulate_is_rejected():
    with pytest.raises(StepError, match="torn"):
        gradient(
            Problem(model=OnlyPullback(jet(), weak=1.0), steps=N, terms=TERMS),
            guess=np.full((N, 2), 2.0),
        )


# Parts


def test_product_form_of_bfgs_matches_the_dense_update():
    problem = Problem(model=jet(), steps=5, terms=[Effort(weight=0.5, order=1)])
    base, rng = control_metric(problem, 1.0), np.random.default_rng(3)
    n = problem.n_variables
    M = np.linalg.cholesky(base.sparse.toarray())
    S = rng.standard_normal((3, n))
    H = base.sparse.toarray() + np.outer(np.arange(n), np.arange(n)) + np.eye(n)
    pairs = [(M.T @ s, np.linalg.solve(M, H @ s)) for s in S]
    hessian = bfgs_hessian(base, 1.0, pairs)
    B = min(s @ y / (s @ s) for s, y in pairs) * base.sparse.toarray()
    for s in S:  # the textbook update
        y = H @ s
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    d = rng.standard_normal(n)
    assert hessian.quadratic_form(d) == pytest.approx(d @ B @ d, rel=1e-10)
    np.testing.assert_allclose(hessian.solve(B @ d), d, rtol=1e-8)
    np.testing.assert_allclose(
        hessian.solve_within_limits(problem, problem.guess(), -B @ d), d, atol=1e-6
    )


def test_projection_is_the_nearest_point():
    problem = Problem(
        model=jet((-1.0, 1.0)),
        steps=6,
        terms=[Effort()],
        limits=[Limit(lower=-3.0, upper=3.0, order=1)],
    )
    far = 2.0 * np.random.default_rng(2).standard_normal((6, 2))
    near = project_to_limits(problem, far)
    assert problem.limit_violation(near) <= 1e-8
    for other in np.random.default_rng(4).uniform(-0.15, 0.15, (50, 6, 2)):
        inside = near + 0.5 * (other - near)  # between two admissible controls
        assert problem.limit_violation(other) <= 0.0
        assert np.sum((far - near) * (inside - near)) <= 1e-6
    np.testing.assert_array_equal(
        project_to_limits(problem, 0.1 * np.ones((6, 2))), 0.1 * np.ones((6, 2))
    )


def test_typical_controls_follow_limits_or_guess():
    problem = Problem(model=jet((-1.0, 3.0)), steps=3, terms=[Effort()])
    np.testing.assert_array_equal(typical_controls(problem, np.zeros((3, 2))), [2.0, 2.0])
    problem = Problem(model=jet(), steps=3, terms=[Effort()])
    np.testing.assert_array_equal(
        typical_controls(problem, np.array([[0.0, 1.0], [0.0, -7.0], [0.0, 0.0]])), [1.0, 7.0]
    )
