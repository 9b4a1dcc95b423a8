"""Constraints with every planner: closed forms, an independent program, all kinds of sets, and
infeasible problems."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from planner_models import jet

import pliant as pl
from pliant.core import InputError
from pliant.planners import Options, ddp, evaluate, gauss_newton, newton
from pliant.planners.augmented_lagrangian import first_penalty, plan_with_constraints
from pliant.planners.gradient_planner import gradient
from pliant.planners.trust_region import solve_qp
from pliant.problem import Ball, Constraint, Effort, Goal, Interval, Limit, Problem

DT, N = 0.1, 10
PLANNERS = [gauss_newton, newton, ddp, gradient]


def places():
    """Return the derivatives (N, N) of x_k by u_j for backward Euler with unit mass."""
    return np.array([[DT * DT * max(k - j, 0) for j in range(N)] for k in range(1, N + 1)])


def speeds():
    return DT * np.tri(N)


@pytest.mark.parametrize("planner", PLANNERS)
def test_least_effort_to_a_final_point_matches_closed_form(planner):
    """min 1/2 |u|^2 with a . u = 1 has u = a / |a|^2."""
    problem = Problem(
        model=jet(),
        steps=N,
        terms=[Effort()],
        constraints=[
            Constraint(
                effector="tip",
                inside=Interval(lower=1.0, upper=1.0),
                time=1.0,
                function=lambda y: y[:1],
            )
        ],
    )
    plan = plan_with_constraints(
        problem, planner, options=Options(tolerance=1e-10, iterations=1000)
    )
    a = places()[-1]
    assert plan.status, plan.status.text
    assert plan.constraint_violation <= 1e-6
    np.testing.assert_allclose(plan.controls[:, 0], a / (a @ a), rtol=1e-3)
    np.testing.assert_allclose(plan.controls[:, 1], 0.0, atol=1e-6)
    assert plan.cost == pytest.approx(0.5 * DT / (a @ a), rel=1e-4)  # without penalties
    assert plan.cost == plan.replay(problem.model, problem)


@pytest.mark.parametrize("planner", PLANNERS)
def test_active_speed_constraint_matches_independent_program(planner):
    """Compare with an independent program: 1/2 10 (x_N - 1)^2 + 1/2 0.01 dt |u|^2 with v <= 0.8 at
    every step."""
    problem = Problem(
        model=jet(),
        steps=N,
        terms=[Goal(effector="tip", target=(1.0, 0.0), time=1.0, weight=10.0), Effort(weight=0.01)],
        constraints=[Constraint(effector="tip", inside=Interval(upper=0.8), quantity="velocity")],
    )
    a, V = places()[-1], speeds()
    H = sp.csc_matrix(10.0 * np.outer(a, a) + 0.01 * DT * np.eye(N))
    u = solve_qp(
        H,
        -10.0 * a,
        sp.csc_matrix((0, N)),
        np.zeros(0),
        sp.csc_matrix(V),
        np.full(N, -np.inf),
        np.full(N, 0.8),
    )
    plan = plan_with_constraints(problem, planner, options=Options(tolerance=1e-9, iterations=1000))
    assert plan.status, plan.status.text
    assert plan.constraint_violation <= 1e-6
    assert np.isclose(V @ u, 0.8, atol=1e-6).sum() > 3  # the limit is active at many steps
    assert plan.cost == pytest.approx(
        evaluate(problem, np.stack([u, 0.0 * u], axis=1)).cost, rel=1e-4
    )


@pytest.mark.parametrize("planner", PLANNERS)
def test_inactive_constraint_does_not_change_the_plan(planner):
    terms = [Goal(effector="tip", target=(1.0, 0.0), time=1.0, weight=10.0), Effort(weight=0.01)]
    free = planner(Problem(model=jet(), steps=N, terms=terms))
    problem = Problem(
        model=jet(),
        steps=N,
        terms=terms,
        constraints=[Constraint(effector="tip", inside=Interval(lower=-9.0, upper=9.0))],
    )
    plan = plan_with_constraints(problem, planner)
    assert plan.status
    assert plan.constraint_violation == 0.0
    assert plan.cost == pytest.approx(free.cost, rel=1e-6)


def test_plan_avoids_obstacle():
    """A disc blocks the path. Its complement is not convex, but the squared distance is in an
    interval."""
    centre, radius = np.array([0.5, 0.02]), 0.2
    keep = Constraint(
        effector="tip",
        inside=Interval(lower=radius**2),
        function=lambda y: np.array([np.sum((y - centre) ** 2)]),
    )
    terms = [Goal(effector="tip", target=(1.0, 0.0), time=1.0, weight=100.0), Effort(weight=1e-3)]
    problem = Problem(model=jet(), steps=N, terms=terms, constraints=[keep])
    plan = plan_with_constraints(problem, gauss_newton, guess=np.tile([2.0, -0.1], (N, 1)))
    path = plan.states[:, :2]
    assert plan.status, plan.status.text
    assert np.linalg.norm(path[1:] - centre, axis=1).min() >= radius - 1e-5
    assert np.linalg.norm(path[1:] - centre, axis=1).min() == pytest.approx(radius, abs=1e-4)
    assert np.linalg.norm(path[-1] - [1.0, 0.0]) < 0.02


def test_ball_constraint_limits_distance():
    leash = Constraint(effector="tip", inside=Ball(centre=(0.0, 0.0), radius=0.5))
    problem = Problem(
        model=jet(),
        steps=N,
        terms=[Goal(effector="tip", target=(0.6, 0.8), time=1.0, weight=10.0), Effort(weight=1e-3)],
        constraints=[leash],
    )
    plan = plan_with_constraints(problem, gauss_newton)
    assert plan.status, plan.status.text
    np.testing.assert_allclose(plan.states[-1, :2], [0.3, 0.4], atol=1e-3)


def test_soft_beam_stays_in_corridor():
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        supports=(pl.Support(region="x-"),),
        actuators={"hand": pl.actuators.Thrust(point=(0.2, 0.05, 0.05))},
        effectors={"tip": pl.Effector(surface="x+")},
    )
    terms = [
        Goal(effector="tip", target=(0.2, 0.07, 0.05), time=0.16, weight=1e4),
        Effort(weight=1e-3, order=1),
    ]
    free = Problem(model=pl.BDF2(robot, dt=0.02), steps=8, terms=terms)
    wall = Constraint(effector="tip", inside=Interval(upper=0.06), function=lambda y: y[1:2])
    problem = Problem(model=free.model, steps=8, terms=terms, constraints=[wall])
    assert problem.constraint_violation(gauss_newton(free).states, free.guess()) > 0.005
    plans = [plan_with_constraints(problem, planner) for planner in (gauss_newton, gradient)]
    for plan in plans:
        assert plan.status, plan.status.text
        assert plan.constraint_violation <= 1e-6
    assert plans[1].cost == pytest.approx(plans[0].cost, rel=1e-3)


def test_units_and_weights_do_not_change_the_plan():
    """Scaling the cost by 1e6 and the constraint by 1e3 does not change the controls."""
    found = []
    for weight, unit in ((1.0, 1.0), (1e6, 1.0), (1.0, 1e3), (1e-6, 1e-3)):
        fast = Constraint(
            effector="tip",
            inside=Interval(upper=0.8 * unit),
            quantity="velocity",
            function=lambda y, unit=unit: unit * y,
        )
        terms = [
            Goal(effector="tip", target=(1.0, 0.0), time=1.0, weight=10.0 * weight),
            Effort(weight=0.01 * weight),
        ]
        plan = plan_with_constraints(
            Problem(model=jet(), steps=N, terms=terms, constraints=[fast]), gauss_newton
        )
        assert plan.status, plan.status.text
        found.append(plan)
    for plan in found[1:]:
        np.testing.assert_allclose(plan.controls, found[0].controls, atol=1e-3)
        assert plan.status.iterations == pytest.approx(found[0].status.iterations, abs=8)


@pytest.mark.parametrize("planner", [gauss_newton, gradient])
def test_infeasible_constraint_is_named(planner):
    constraints = [
        Constraint(effector="tip", inside=inside, time=0.9)
        for inside in (Interval(lower=2.0), Interval(upper=1.0))
    ]
    plan = plan_with_constraints(
        Problem(model=jet(), steps=N, terms=[Effort(weight=0.01)], constraints=constraints), planner
    )
    assert not plan.status
    assert (
        "the constraint on the position of 'tip' at t = 0.9 s is still violated by "
        in plan.status.text
    )
    assert plan.constraint_violation > 0.1
    assert float(plan.status.text.split()[-1]) == pytest.approx(plan.constraint_violation, rel=0.5)


def test_constraint_beyond_actuator_limits_is_named():
    """A force of 1 N moves 1 kg by at most 0.55 m in 1 s of backward Euler."""
    there = Constraint(
        effector="tip", inside=Interval(lower=1.0), time=1.0, function=lambda y: y[:1]
    )
    plan = plan_with_constraints(
        Problem(model=jet((-1.0, 1.0)), steps=N, terms=[Effort()], constraints=[there]),
        gauss_newton,
    )
    assert not plan.status
    assert plan.constraint_violation == pytest.approx(1.0 - places()[-1].sum(), abs=1e-3)
    assert "violated by 0.45" in plan.status.text
    assert plan.limit_violation <= 1e-8


def test_limits_and_constraints_hold_together():
    problem = Problem(
        model=jet(),
        steps=N,
        terms=[Goal(effector="tip", target=(1.0, 0.5), time=1.0, weight=10.0), Effort(weight=0.01)],
        limits=[Limit(lower=-3.0, upper=3.0), Limit(lower=-20.0, upper=20.0, order=1)],
        constraints=[Constraint(effector="tip", inside=Interval(upper=0.8), quantity="velocity")],
    )
    plans = [
        plan_with_constraints(problem, planner, options=Options(iterations=1000))
        for planner in PLANNERS
    ]
    for plan in plans:
        assert plan.status, plan.status.text
        assert plan.constraint_violation <= 2e-6
        assert plan.limit_violation <= 1e-7
        assert plan.cost == pytest.approx(plans[0].cost, rel=1e-3)


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_handles_constraints(planner):
    plan = planner(speedy(), options=Options(iterations=1000))
    assert plan.status, plan.status.text
    assert plan.constraint_violation <= 1e-6


# Iterations


def speedy():
    return Problem(
        model=jet(),
        steps=N,
        terms=[Goal(effector="tip", target=(1.0, 0.0), time=1.0, weight=10.0), Effort(weight=0.01)],
        constraints=[Constraint(effector="tip", inside=Interval(upper=0.8), quantity="velocity")],
    )


def test_history_contains_the_violation():
    told = []
    plan = plan_with_constraints(
        speedy(),
        gauss_newton,
        options=Options(progress=lambda what, done, total: told.append((done, total))),
    )
    amounts = [row.infeasibility for row in plan.history]
    assert max(amounts) > 1e-3
    assert amounts[-1] == plan.constraint_violation
    assert [row.seconds for row in plan.history] == sorted(row.seconds for row in plan.history)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert plan.status.iterations == len(plan.history) - 1


def test_interrupted_search_is_resumed_with_its_multipliers(tmp_path):
    whole = plan_with_constraints(speedy(), gauss_newton)

    def stop(what, done, total):
        if done == len(whole.history) // 2:
            raise KeyboardInterrupt

    plan = plan_with_constraints(
        speedy(), gauss_newton, options=Options(progress=stop, folder=tmp_path)
    )
    assert plan.interrupted
    assert not plan.status
    assert (tmp_path / "multipliers.json").is_file()
    onward = plan_with_constraints(
        speedy(), gauss_newton, options=Options(folder=tmp_path, resume=True)
    )
    assert onward.status, onward.status.text
    assert onward.cost == pytest.approx(whole.cost, rel=1e-4)
    other = replace(
        speedy(),
        terms=[Goal(effector="tip", target=(1.0, 0.1), time=1.0, weight=10.0), Effort(weight=0.01)],
    )
    with pytest.raises(InputError, match="belongs to another problem"):
        plan_with_constraints(other, gauss_newton, options=Options(folder=tmp_path, resume=True))
    (tmp_path / "multipliers.json").write_text('{"multipliers": [[1.0]], "penalties": [1.0]}')
    with pytest.raises(InputError, match="does not belong to these constraints"):
        plan_with_constraints(speedy(), gauss_newton, options=Options(folder=tmp_path, resume=True))


def test_too_few_iterations_or_rounds_are_reported():
    plan = plan_with_constraints(speedy(), gradient, options=Options(iterations=5))
    assert not plan.status
    assert "5 iterations; allow more" in plan.status.text
    plan = plan_with_constraints(speedy(), gauss_newton, rounds=1)
    assert "1 rounds of multipliers; allow more with rounds" in plan.status.text
    assert "velocity of 'tip'" in plan.status.text


def test_bad_options_are_rejected():
    with pytest.raises(InputError, match="tolerance of the constraints is 0"):
        plan_with_constraints(speedy(), gauss_newton, tolerance=0.0)
    with pytest.raises(InputError, match="1 round or more"):
        plan_with_constraints(speedy(), gauss_newton, rounds=0)


def test_first_penalty_is_that_of_algencan_and_scales():
    assert first_penalty(3.0, 0.5, 1.0) == pytest.approx(2.0 * 3.0 / 0.5)
    assert first_penalty(300.0, 0.5e-4, 1e-4) == pytest.approx(1e6 * first_penalty(3.0, 0.5, 1.0))
    assert first_penalty(3.0, 1e-30, 1.0) == 3e4
    assert first_penalty(0.0, 0.0, 0.0) == 2.0
