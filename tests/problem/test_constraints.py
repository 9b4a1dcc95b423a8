"""Limits and constraints: projections by their defining inequality, violations in closed form, and
bad input."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.contact import Obstacle
from pliant.core import InputError
from pliant.planners.evaluation import evaluate
from pliant.planners.sensitivity import adjoint_jacobian, control_cost_gradient, loss_gradients
from pliant.problem import (
    AugmentedLagrangianLoss,
    Ball,
    Constraint,
    Effort,
    Goal,
    Interval,
    Limit,
    Problem,
    Residual,
    keep_out,
)

DT = 0.1


def jet(limits=(-np.inf, np.inf)):
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=limits)},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    return pl.ImplicitEuler(robot, dt=DT)


def problem_of(constraints=(), limits=(), motors=(-np.inf, np.inf), steps=4):
    return Problem(
        model=jet(motors), steps=steps, terms=[Effort()], constraints=constraints, limits=limits
    )


REGIONS = {
    "box": Interval(lower=(-1.0, 0.5), upper=(0.3, 0.5)),
    "half space": Interval(upper=0.2),
    "ball": Ball(centre=(0.4, -0.3), radius=0.5),
}


@pytest.mark.parametrize("name", list(REGIONS))
def test_projection_is_the_nearest_point(name, rng):
    """(c - P c) . (z - P c) <= 0 for every z of the set, and P P = P."""
    region = REGIONS[name]
    inside = [region.project(z) for z in 2.0 * rng.standard_normal((30, 2))]
    for c in 2.0 * rng.standard_normal((30, 2)):
        nearest = region.project(c)
        np.testing.assert_allclose(region.project(nearest), nearest, atol=1e-14)
        assert all((c - nearest) @ (z - nearest) <= 1e-12 for z in inside)


@pytest.mark.parametrize("name", list(REGIONS))
def test_projection_jacobians_match_differences(name, rng):
    region, h = REGIONS[name], 1e-6
    for c in 2.0 * rng.standard_normal((20, 2)):
        J = np.stack(
            [
                (region.project(c + h * e) - region.project(c - h * e)) / (2.0 * h)
                for e in np.eye(2)
            ],
            axis=1,
        )
        np.testing.assert_allclose(region.projection_jacobian(c), J, atol=1e-6)


def test_violations_match_closed_form():
    run = np.zeros((5, 4))
    run[2, :2], run[4, :2] = (3.0, 4.0), (0.0, 1.5)
    assert (
        problem_of(
            [Constraint(effector="tip", inside=Ball(centre=(0.0, 0.0), radius=1.0))]
        ).constraint_violation(run, np.zeros((4, 2)))
        == 4.0
    )
    last = Constraint(effector="tip", inside=Interval(upper=1.0), time=0.4)
    assert problem_of([last]).constraint_violation(run, np.zeros((4, 2))) == 0.5
    height = Constraint(
        effector="tip", inside=Interval(lower=1.5, upper=1.5), time=0.4, function=lambda y: y[1:]
    )
    assert problem_of([height]).constraint_violation(run, np.zeros((4, 2))) == 0.0
    assert problem_of().constraint_violation(run, np.zeros((4, 2))) == 0.0


def test_velocity_constraint_violation_matches_closed_form(rng):
    problem = problem_of(
        [
            Constraint(
                effector="tip", inside=Interval(upper=0.0), quantity="velocity", time=(0.1, 0.3)
            )
        ]
    )
    u = np.abs(rng.standard_normal((4, 2)))
    run = pl.simulate(problem.model, u)
    assert [constraint_row.observation.step for constraint_row in problem.constraint_rows] == [1, 3]
    assert problem.constraint_violation(run.states, u) == pytest.approx(
        np.linalg.norm(DT * u[:3].sum(axis=0))
    )


def pair():
    """Return two masses in the plane, each with its own thrust."""
    at = {"left": (0.0, 0.0), "right": (1.0, 0.0)}
    robot = pl.Robot(
        shape=pl.PointMass(points=list(at.values())),
        actuators={k: pl.actuators.Thrust(point=x) for k, x in at.items()},
        effectors={k: pl.Effector(point=x) for k, x in at.items()},
    )
    return pl.ImplicitEuler(robot, dt=DT)


def test_constraint_on_several_effectors_concatenates_them():
    """Two masses must keep a distance, which depends on both positions."""
    model, u = pair(), np.tile([3.0, 0.0, -2.0, 1.0], (4, 1))
    gap = lambda y: np.array([((y[:2] - y[2:]) ** 2).sum()])
    states = pl.simulate(model, u).states
    moved = DT**2 * np.array(
        [k * (k + 1) / 2 for k in range(1, 5)]
    )  # [s^2] backward Euler from rest under one newton on one kilogram
    left, right = moved[:, None] * u[0, :2], [1.0, 0.0] + moved[:, None] * u[0, 2:]
    for names, first, second in (
        (("left", "right"), left, right),
        (("right", "left"), right, left),
    ):
        problem = Problem(
            model=model,
            steps=4,
            terms=[Effort()],
            constraints=[Constraint(effector=names, inside=Interval(lower=1.0), function=gap)],
        )
        for constraint_row, a, b in zip(problem.constraint_rows, first, second, strict=True):
            y = constraint_row.observation.evaluate(states, u, np.zeros(4))
            np.testing.assert_allclose(y, [*a, *b], atol=1e-13)
            assert constraint_row.observation.name == ", ".join(names)
            assert constraint_row.violation(y) == pytest.approx(1.0 - ((a - b) ** 2).sum())
        assert problem.constraint_violation(states, u) == pytest.approx(
            1.0 - ((left[-1] - right[-1]) ** 2).sum()
        )
    box = Constraint(
        effector=("left", "right"), inside=Interval(upper=(9.0, 9.0, 0.5, 9.0)), time=0.4
    )
    assert Problem(model=model, steps=4, terms=[Effort()], constraints=[box]).constraint_violation(
        states, u
    ) == pytest.approx(right[-1, 0] - 0.5)


def test_penalty_gradient_of_several_effectors_matches_differences(rng, taylor):
    """Compare the control gradient of the cost with penalties with differences of the cost."""
    model = pair()
    gap = lambda y: np.array([((y[:2] - y[2:]) ** 2).sum()])
    apart = Constraint(
        effector=("left", "right"), inside=Interval(lower=1.2), function=gap, time=(0.2, 0.4)
    )
    problem = Problem(model=model, steps=4, terms=[Effort(weight=0.3)], constraints=[apart])
    priced = problem.with_observations(
        [
            replace(
                constraint_row.observation,
                loss=AugmentedLagrangianLoss(
                    constraint_row=constraint_row, multiplier=np.array([-0.3]), penalty=5.0
                ),
            )
            for constraint_row in problem.constraint_rows
        ]
    )
    u, d = rng.standard_normal((2, 4, 4))
    now = evaluate(priced, u)
    g = np.einsum(
        "r,rkc->kc", loss_gradients(priced, now), adjoint_jacobian(priced, now)
    ) + control_cost_gradient(priced, u)
    assert taylor(
        lambda e: evaluate(priced, u + 10.0 * e * d).cost, 10.0 * np.sum(g * d)
    ) == pytest.approx(2.0, abs=0.1)
    assert priced.value(now.states, u) > problem.value(now.states, u)


def test_function_undefined_at_the_origin_is_accepted():
    """An example is the spot of a laser beam, whose two ends coincide at the origin."""
    slope = Constraint(
        effector=("left", "right"),
        inside=Interval(upper=1.0),
        function=lambda y: np.array([(y[1] - y[3]) / (y[0] - y[2])]),
    )
    assert len(slope.attach(pair(), 3)) == 3


def test_multiplier_matches_closed_form():
    """min 1/2 y^2 with y >= 1: y = 1, multiplier -1. There the gradient of the penalty balances
    that of the cost for every penalty factor."""
    constraint_row = problem_of(
        [Constraint(effector="tip", inside=Interval(lower=1.0), function=lambda y: y[:1], time=0.1)]
    ).constraint_rows[0]
    for penalty in (0.1, 1.0, 1e4):
        loss = AugmentedLagrangianLoss(
            constraint_row=constraint_row, multiplier=np.array([-1.0]), penalty=penalty
        )
        y = np.array([1.0, 0.0])
        np.testing.assert_allclose(loss.gradient(y) + [1.0, 0.0], 0.0, atol=1e-12)
        np.testing.assert_allclose(loss.next_multiplier(y), [-1.0])
    still = AugmentedLagrangianLoss(
        constraint_row=constraint_row, multiplier=np.zeros(1), penalty=2.0
    )
    assert still.value(np.array([3.0, 0.0])) == 0.0
    assert still.value(np.array([0.0, 0.0])) == 1.0


def test_limit_violation_is_relative_to_width():
    u = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 3.0], [1.0, 3.0]])
    assert problem_of(limits=[Limit(lower=-1.0, upper=1.0)]).limit_violation(u) == pytest.approx(
        1.0
    )
    assert problem_of(limits=[Limit(lower=-4.0, upper=4.0)]).limit_violation(u) == 0.0
    assert problem_of(limits=[Limit(lower=-20.0, upper=20.0, order=1)]).limit_violation(
        u
    ) == pytest.approx(10.0 / 40.0)
    assert problem_of(limits=[Limit(lower=-300.0, upper=300.0, order=2)]).limit_violation(u) == 0.0
    assert problem_of(motors=(-2.0, 2.0)).limit_violation(u) == pytest.approx(
        1.0 / 4.0
    )  # the limits of the actuators always apply


def test_limit_can_differ_for_each_control():
    bound = Limit(lower=(-1.0, -np.inf), upper=2.0, order=1).attach(jet())
    np.testing.assert_array_equal(bound.lower, [-1.0, -np.inf])
    np.testing.assert_array_equal(bound.upper, [2.0, 2.0])
    np.testing.assert_allclose(bound.stencil, [10.0, -10.0])


def test_problem_with_constraints_only_has_no_cost():
    there = Constraint(effector="tip", inside=Interval(lower=1.0, upper=1.0), time=0.4)
    problem = Problem(model=jet(), steps=4, terms=[], constraints=[there])
    assert problem.value(np.zeros((5, 4)), np.zeros((4, 2))) == 0.0
    priced = problem.with_observations(
        [constraint_row.observation for constraint_row in problem.constraint_rows]
    )
    assert not priced.constraints
    assert len(priced.observations) == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Interval(lower=1.0, upper=0.0), "is empty"),
        (lambda: Interval(lower=np.nan), "is empty"),
        (lambda: problem_of([Constraint(effector="tp", inside=Interval())]), "tip"),
        (
            lambda: problem_of([Constraint(effector=("tip", "tp"), inside=Interval())]),
            "no effector 'tp'; did you mean 'tip'",
        ),
        (
            lambda: problem_of([Constraint(effector=(), inside=Interval())]),
            "give its name, or the names of several",
        ),
        (
            lambda: problem_of(
                [Constraint(effector=("tip", "tip"), inside=Ball(centre=(0.0, 0.0), radius=1.0))]
            ),
            "returns 4 numbers",
        ),
        (
            lambda: problem_of([Constraint(effector="tip", inside=Interval(), time=0.9)]),
            "outside the horizon",
        ),
        (
            lambda: problem_of([Constraint(effector="tip", inside=Interval(), quantity="heat")]),
            "choose position",
        ),
        (
            lambda: problem_of(
                [Constraint(effector="tip", inside=Interval(), function=lambda y: y[0])]
            ),
            r"wrap it in np.array",
        ),
        (
            lambda: problem_of(
                [Constraint(effector="tip", inside=Ball(centre=(0.0, 0.0), radius=-1.0))]
            ),
            "radius",
        ),
        (
            lambda: problem_of(
                [Constraint(effector="tip", inside=Ball(centre=(0.0, 0.0, 0.0), radius=1.0))]
            ),
            "set",
        ),
        (
            lambda: problem_of(
                [Constraint(effector="tip", inside=Interval(lower=(0.0, 0.0, 0.0)))]
            ),
            "set",
        ),
        (
            lambda: problem_of(limits=[Limit(lower="low", upper=1.0)]),
            "A limit is 'low'; give a number",
        ),
        (
            lambda: problem_of(limits=[Limit(upper=[1.0, [2.0, 3.0]])]),
            "A limit is .* give a number",
        ),
        (lambda: problem_of(limits=[Limit(upper=1j)]), "A limit is '1j'; give a number"),
        (lambda: problem_of(limits=[Limit(upper=True)]), "A limit is 'True'; give a number"),
        (lambda: problem_of(limits=[Limit(upper=np.nan)]), "A limit is 'nan'; give a number"),
        (
            lambda: problem_of(limits=[Limit(upper=[1.0, 2.0, 3.0])]),
            "A limit has 3 numbers; give one, or one for each control .2.",
        ),
    ],
)
def test_bad_constraints_are_rejected(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_constraint_is_rejected_as_a_term():
    problem = Problem(
        model=jet(), steps=4, terms=[Goal(effector="tip", target=(1.0, 0.0), time=0.4)]
    )
    assert not problem.constraint_rows


def nan_left_of_here(y):
    return np.array([np.where(y[0].real < 0.1, np.nan, y[0])])


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(effector="tip", function=nan_left_of_here, inside=Interval(lower=0.0)),
        keep_out("tip", Obstacle(distance=lambda y: (nan_left_of_here(y.T)[0], y, y))),
    ],
)
def test_nan_constraint_of_the_guess_is_rejected(constraint, raises_clear_error):
    """NaN is neither inside nor outside a set, so a plan could report it as satisfied."""
    raises_clear_error(
        lambda: pl.plan(problem_of([constraint])),
        r"constraint on 'tip': its function returns nan at \[0\., 0\.\]",
    )


def test_nan_residual_of_the_guess_is_rejected(raises_clear_error):
    terms = [Residual(effector="tip", residual=nan_left_of_here)]
    raises_clear_error(
        lambda: pl.plan(Problem(model=jet(), steps=2, terms=terms)),
        r"residual of 'tip': its function returns nan at",
    )


@pytest.mark.parametrize("method", ["gauss_newton", "newton", "ddp"])
def test_trials_where_a_residual_is_nan_are_shortened(method):
    """The optimum y = 0.05 is at the edge of the domain; the first guess y = 0 is inside."""

    def residual(y):
        with np.errstate(invalid="ignore"):
            return np.sqrt(0.05 - y[:1])

    terms = [Residual(effector="tip", residual=residual, time=4 * DT), Effort(weight=1e-6)]
    plan = getattr(pl.planners, method)(Problem(model=jet(), steps=4, terms=terms))
    place = plan.states[-1][0]
    assert np.isfinite(plan.cost)
    assert 0.03 < place <= 0.05
    assert plan.cost < 0.5 * plan.history[0].cost


def nan_right_of_here(y):
    return np.array([np.where(y[0].real > 0.04, np.nan, y[0])])


def test_nan_constraint_counts_as_violated():
    constraint = Constraint(effector="tip", function=nan_right_of_here, inside=Interval(lower=-1.0))
    problem = problem_of([constraint])
    assert problem.constraint_violation(*_run(problem, 0.0)) == 0.0
    assert problem.constraint_violation(*_run(problem, 10.0)) == np.inf


def _run(problem, thrust):
    controls = np.full((problem.steps, problem.model.n_controls), thrust)
    return evaluate(problem, controls).states, controls


def test_plan_avoids_nan_of_a_constraint():
    """The goal is beyond the edge from which on the constraint is NaN."""
    problem = Problem(
        model=jet(),
        steps=4,
        terms=[Goal(effector="tip", target=(0.1, 0.0), time=4 * DT), Effort(weight=1e-4)],
        constraints=[
            Constraint(effector="tip", function=nan_right_of_here, inside=Interval(lower=-1.0))
        ],
    )
    plan = pl.plan(problem)
    assert np.isfinite(plan.constraint_violation)
    assert plan.states[:, 0].max() <= 0.04


def test_state_constraint_bounds_a_part_of_the_state():
    """A point mass that has to move 0.1 m in 0.5 s with a limited speed needs nearly that speed
    all the time; without the limit it is faster."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=1.0),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    model = pl.ImplicitEuler(robot, dt=0.05)
    terms = [
        pl.Goal(effector="tip", target=(0.1, 0.0), time=0.5, weight=1e4),
        pl.Effort(weight=1e-3),
    ]
    limit = pl.problem.StateConstraint(part="velocity", inside=Interval(lower=-0.22, upper=0.22))
    free = pl.plan(model, terms, steps=10)
    bounded = pl.plan(model, terms, steps=10, constraints=[limit])
    speed = lambda plan: max(model.space.split(x).velocity[0] for x in plan.states)
    assert speed(free) > 0.25
    assert speed(bounded) < 0.2201
    assert bounded.states[-1][0] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"part": "speed"}, "this model's state has"),
        ({"part": "velocity", "inside": Interval(lower=np.zeros(3))}, "another size"),
        ({"part": "velocity", "function": lambda y: np.abs(y)}, "not analytic"),
    ],
)
def test_wrong_state_constraints_raise_input_errors(parts, text):
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    )
    constraint = pl.problem.StateConstraint(**{"inside": Interval(lower=0.0), **parts})
    with pytest.raises(InputError, match=text):
        constraint.attach(pl.ImplicitEuler(robot, dt=0.05), 3)
