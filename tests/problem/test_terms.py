"""Losses and terms: values in closed form, gradients and Hessians by finite differences, banded and
dense matrices, and bad input."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.planners.evaluation import evaluate
from pliant.planners.sensitivity import adjoint_jacobian, forward_jacobian, loss_gradients
from pliant.problem import (
    AugmentedLagrangianLoss,
    Ball,
    Constraint,
    ControlCost,
    Effort,
    Goal,
    Interval,
    LeastSquaresLoss,
    Limit,
    LinearLoss,
    Observation,
    Problem,
    QuadraticLoss,
    Residual,
    Reward,
    StateGoal,
    apply_stencil,
    paths,
    tracking_terms,
)
from pliant.problem.observations import backward_difference, jacobian
from pliant.problem.terms import steps_at_times

DT = 0.1


def jet(rule=pl.ImplicitEuler, actuators=None, limits=(-np.inf, np.inf)):
    thrust = (
        {"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=limits)}
        if actuators is None
        else actuators
    )
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0], [1.0, 0.0]]),
        actuators=thrust,
        effectors={"tip": pl.Effector(point=(0.0, 0.0)), "tail": pl.Effector(point=(1.0, 0.0))},
    )
    return rule(robot, dt=DT)


def constraint_row_of(constraint):
    return constraint.attach(jet(), 3)[0]


def bent(y):
    return np.array([y[0] ** 2 + y[1], np.sin(y[1])])


LOSSES = {
    "quadratic": QuadraticLoss(target=np.array([0.3, -0.2]), weight=2.5),
    "linear": LinearLoss(reward=np.array([1.5, -0.5])),
    "least squares": LeastSquaresLoss(
        residual=lambda y: np.array([y[0] * y[1], np.exp(y[0]), y[1] ** 3]), weight=0.7
    ),
    "penalty interval": AugmentedLagrangianLoss(
        constraint_row=constraint_row_of(
            Constraint(effector="tip", inside=Interval(lower=(-0.1, 0.4), upper=(0.2, 0.9)))
        ),
        multiplier=np.array([0.3, -0.6]),
        penalty=3.0,
    ),
    "penalty ball": AugmentedLagrangianLoss(
        constraint_row=constraint_row_of(
            Constraint(effector="tip", inside=Ball(centre=(0.1, 0.0), radius=0.3))
        ),
        multiplier=np.array([0.2, 0.5]),
        penalty=2.0,
    ),
    "penalty inside": AugmentedLagrangianLoss(
        constraint_row=constraint_row_of(
            Constraint(effector="tip", inside=Ball(centre=(0.0, 0.0), radius=9.0))
        ),
        multiplier=np.array([0.2, 0.5]),
        penalty=2.0,
    ),
    "penalty curved": AugmentedLagrangianLoss(
        constraint_row=constraint_row_of(
            Constraint(effector="tip", inside=Interval(upper=(-0.2, -0.6)), function=bent)
        ),
        multiplier=np.array([0.4, 0.1]),
        penalty=5.0,
    ),
}
Y = np.array([0.63, -0.41])


# Losses


@pytest.mark.parametrize("name", list(LOSSES))
def test_loss_gradients_match_differences_of_the_value(name, rng, taylor):
    loss, d = LOSSES[name], rng.standard_normal(2)
    slope = loss.gradient(Y) @ d
    if name in ("linear", "penalty inside"):
        assert loss.value(Y + d) == pytest.approx(loss.value(Y) + slope)
    else:
        assert taylor(lambda e: loss.value(Y + e * d), slope) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", list(LOSSES))
def test_loss_hessians_match_differences_of_the_gradient(name):
    loss, h = LOSSES[name], 1e-5
    columns = [(loss.gradient(Y + h * e) - loss.gradient(Y - h * e)) / (2.0 * h) for e in np.eye(2)]
    exact = np.stack(columns, axis=1)
    np.testing.assert_allclose(loss.hessian(Y), exact, atol=1e-6)  # differences of exact gradients
    F = loss.gauss_newton_factor(Y)
    assert F.shape[1] == 2
    if name not in (
        "least squares",
        "penalty curved",
        "penalty ball",
    ):  # the Gauss-Newton factor omits the curvature
        np.testing.assert_allclose(F.T @ F, loss.hessian(Y), atol=1e-12)


def test_loss_values_match_closed_form():
    assert LOSSES["quadratic"].value(np.array([1.3, -0.2])) == pytest.approx(1.25)
    assert LOSSES["linear"].value(np.array([2.0, 1.0])) == pytest.approx(-2.5)
    assert LOSSES["least squares"].value(np.zeros(2)) == pytest.approx(0.35)
    assert LOSSES["penalty inside"].value(Y) == 0.0


def test_complex_step_jacobian_is_exact():
    J = jacobian(bent, Y)
    np.testing.assert_allclose(J, [[2.0 * Y[0], 1.0], [0.0, np.cos(Y[1])]], rtol=1e-15)


def test_least_squares_at_its_optimum_is_gauss_newton():
    loss = LeastSquaresLoss(residual=lambda y: bent(y) - bent(Y), weight=2.0)
    np.testing.assert_allclose(
        loss.hessian(Y), loss.gauss_newton_factor(Y).T @ loss.gauss_newton_factor(Y), atol=1e-12
    )


# Control costs


def control_cost_of(order, steps, n=2):
    rng = np.random.default_rng(order)
    return ControlCost(
        stencil=backward_difference(order, 0.5),
        weight=np.arange(1.0, n + 1.0),
        reference=rng.standard_normal((steps, n)),
    )


def test_differences_are_exact_for_their_polynomials():
    t = 0.2 * np.arange(9.0)
    for order, expect in ((0, t**3), (3, np.full(9, 6.0))):
        seen = apply_stencil(backward_difference(order, 0.2), t[:, None] ** 3, np.zeros(1))[:, 0]
        np.testing.assert_allclose(seen[3:], expect[3:], atol=1e-9)
    np.testing.assert_allclose(backward_difference(2, 0.1), [100.0, -200.0, 100.0])


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_control_cost_and_its_derivatives_match_dense_matrices(order, steps, rng):
    control_cost, before = control_cost_of(order, steps), rng.standard_normal(2)
    u, d = rng.standard_normal((2, steps, 2))
    g = control_cost.gradient(u, before)
    change = control_cost.value(u + d, before) - control_cost.value(u - d, before)
    assert change == pytest.approx(
        2.0 * np.sum(g * d), rel=1e-9, abs=1e-9
    )  # exact: it is quadratic
    zero = ControlCost(
        stencil=control_cost.stencil,
        weight=control_cost.weight,
        reference=0.0 * control_cost.reference,
    )
    basis = (
        np.eye(2 * steps).reshape(2 * steps, 2, steps).swapaxes(1, 2)
    )  # one control after the other
    H = np.stack([zero.gradient(e, np.zeros(2)).T.ravel() for e in basis])
    width = min(order, steps - 1)
    banded = control_cost.banded_hessian(steps, width)
    dense = np.zeros_like(H)
    for c in range(2):
        for offset in range(width + 1):
            for row in range(steps - offset):
                i, j = c * steps + row + offset, c * steps + row
                dense[i, j] = dense[j, i] = banded[c, offset, row]
    np.testing.assert_allclose(dense, H, atol=1e-9)


def test_constant_control_has_no_rate_cost():
    u = np.tile([3.0, -2.0], (5, 1))
    for order in (1, 2, 3):
        control_cost = ControlCost(
            stencil=backward_difference(order, DT), weight=np.ones(2), reference=np.zeros((5, 2))
        )
        assert control_cost.value(u, np.array([3.0, -2.0])) == pytest.approx(0.0, abs=1e-12)
        assert control_cost.value(u, np.zeros(2)) > 1.0


# Observations


def test_observations_of_a_trajectory_match_backward_euler(rng):
    """Compare position, velocity and acceleration of a mass with an explicit backward Euler sum."""
    model, u = jet(), rng.standard_normal((6, 2))
    run = pl.simulate(model, u)
    v = DT * np.cumsum(u, axis=0)
    x = DT * np.cumsum(v, axis=0)
    a = np.diff(np.concatenate([np.zeros((1, 2)), v]), axis=0) / DT
    for what, expect in (("position", x), ("velocity", v), ("acceleration", a)):
        for observation, want in zip(
            Goal(effector="tip", target=(0.0, 0.0), quantity=what).attach(model, 6),
            expect,
            strict=True,
        ):
            np.testing.assert_allclose(
                observation.evaluate(run.states, u, np.zeros(2)), want, atol=1e-10
            )
    one = Goal(effector="tip", target=(0.0, 9.0), axes="y", time=0.3).attach(model, 6)[0]
    np.testing.assert_allclose(one.evaluate(run.states, u, np.zeros(2)), x[2, 1:], atol=1e-12)
    np.testing.assert_array_equal(one.loss.target, [9.0])


def test_observation_before_the_first_step_has_the_previous_control(rng):
    u, before = rng.standard_normal((4, 2)), np.array([5.0, 6.0])
    observation = Observation(
        name="u",
        step=2,
        loss=LOSSES["quadratic"],
        controls=(np.eye(2), 10.0 * np.eye(2), 100.0 * np.eye(2)),
    )
    np.testing.assert_allclose(
        observation.evaluate(np.zeros((5, 1)), u, before), u[1] + 10.0 * u[0] + 100.0 * before
    )


def test_goal_at_all_times_is_a_time_integral():
    goal = Goal(effector="tip", target=(2.0, 0.0))
    coarse, fine = (
        Problem(model=pl.ImplicitEuler(jet().robot, dt=dt), steps=round(1 / dt), terms=[goal])
        for dt in (0.1, 0.01)
    )
    still = [np.tile(p.initial_state, (p.steps + 1, 1)) for p in (coarse, fine)]
    assert coarse.value(still[0], coarse.guess()) == pytest.approx(2.0)
    assert fine.value(still[1], fine.guess()) == pytest.approx(2.0)


def test_time_dependent_targets_are_evaluated_at_each_step():
    model = jet()
    observations = Goal(
        effector="tip",
        target=paths.waypoints([0.0, 1.0], [[0.0, 0.0], [1.0, 2.0]]),
        time=(0.2, 0.5),
    ).attach(model, 10)
    np.testing.assert_allclose(
        [observation.loss.target for observation in observations], [[0.2, 0.4], [0.5, 1.0]]
    )
    assert [observation.step for observation in observations] == [2, 5]
    observations = Goal(effector="tip", target=[[1.0, 2.0], [3.0, 4.0]], time=(0.5, 0.2)).attach(
        model, 10
    )
    assert [(observation.step, *observation.loss.target) for observation in observations] == [
        (5, 1.0, 2.0),
        (2, 3.0, 4.0),
    ]
    goal, effort = tracking_terms(
        "tip",
        paths.circle(centre=(0.0, 0.0), radius=1.0, period=1.0),
        effort=0.2,
        order=1,
        weight=3.0,
    )
    assert goal.attach(model, 10)[4].loss.weight == pytest.approx(3.0 * DT)
    assert effort.order == 1


@pytest.mark.parametrize(
    ("time", "step"),
    [(0.1, 1), (0.14, 1), (0.16, 2), (0.30000000000000004, 3), (1.0, 10), (1.04, 10), (0.06, 1)],
)
def test_times_are_rounded_to_steps(time, step):
    assert steps_at_times("x", time, 10, DT) == [step]


def test_state_goal_and_residual_match_closed_form():
    model = jet()
    goal = StateGoal(target=np.arange(4.0), part="velocity", time=0.2).attach(model, 3)[0]
    x = np.arange(10.0, 18.0)
    np.testing.assert_allclose(
        goal.evaluate(np.stack([x] * 4), np.zeros((3, 2)), np.zeros(2)), x[4:]
    )
    assert len(StateGoal(target=np.zeros(8)).attach(model, 3)) == 3
    observation = Residual(
        effector="tail", residual=lambda y: np.array([y[0] - 1.0]), time=0.3, weight=2.0
    ).attach(model, 3)[0]
    assert observation.loss.value(np.array([3.0, 0.0])) == pytest.approx(4.0)


# Several effectors


def bar(dt=0.05):
    """Return a soft bar with a thrust at its end and effectors at its end and its middle."""
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        material=pl.Material(E=2e3, nu=0.3, density=500.0),
        supports=(pl.Support(region="x-"),),
        actuators={"hand": pl.actuators.Thrust(point=(0.2, 0.05, 0.05))},
        effectors={
            "tip": pl.Effector(surface="x+"),
            "middle": pl.Effector(point=(0.1, 0.05, 0.05)),
        },
    )
    return pl.ImplicitEuler(robot, dt=dt)


def ray(y):
    """Return where the line from the middle through the tip meets the plane x = 0.5.

    The quotient couples all components of y."""
    tip, middle = y[:3], y[3:]
    return (tip + (0.5 - tip[0]) / (tip[0] - middle[0]) * (tip - middle))[1:]


@pytest.mark.parametrize("what", ["position", "velocity", "acceleration"])
@pytest.mark.parametrize("names", [("tip", "middle"), ("middle", "tip"), ("tip", "tip", "middle")])
def test_residual_of_several_effectors_concatenates_them(rng, what, names):
    model, u = bar(), rng.standard_normal((4, 3))
    run = pl.simulate(model, u)
    term = Residual(effector=names, residual=lambda y: y, quantity=what)
    alone = {
        name: Goal(effector=name, target=np.zeros(3), quantity=what).attach(model, 4)
        for name in set(names)
    }
    observations = term.attach(model, 4)
    assert [observation.step for observation in observations] == [1, 2, 3, 4]
    for k, observation in enumerate(observations):
        seen = observation.evaluate(run.states, u, np.zeros(3))
        np.testing.assert_array_equal(
            seen,
            np.concatenate([alone[name][k].evaluate(run.states, u, np.zeros(3)) for name in names]),
        )
        assert observation.loss.value(seen) == pytest.approx(0.05 * 0.5 * seen @ seen)
        assert all(name in observation.name for name in names)
    if what == "position":
        places = [
            model.robot.effector_position(name, model.space.position(run.states[-1]))
            for name in names
        ]
        np.testing.assert_allclose(seen, np.concatenate(places), atol=1e-15)
        assert (
            np.linalg.norm(
                places[0] - model.robot.effector_position(names[0], model.robot.body().rest)
            )
            > 1e-4
        )


def test_one_name_is_the_same_as_a_tuple_of_one(rng):
    model, y = bar(), rng.standard_normal(3)
    one, alone = (
        Residual(effector=name, residual=lambda y: y**2, time=0.1, weight=2.0).attach(model, 4)[0]
        for name in (("tip",), "tip")
    )
    assert (one.states[0] != alone.states[0]).nnz == 0
    assert (one.name, one.step, one.loss.value(y)) == (alone.name, alone.step, alone.loss.value(y))


@pytest.mark.parametrize("rows", [adjoint_jacobian, forward_jacobian])
def test_gradient_of_cost_on_two_effectors_passes_taylor_test(rng, taylor, rows):
    """Compare the gradient with the cost of a soft bar: the spot of a ray and the separation speed
    of its ends."""
    model, steps = bar(), 4
    apart = lambda y: y[:3] - y[3:]
    terms = [
        Residual(
            effector=("tip", "middle"),
            residual=lambda y: ray(y) - np.array([0.1, 0.02]),
            time=(0.1, 0.2),
            weight=3.0,
        ),
        Residual(effector=("tip", "middle"), residual=apart, quantity="velocity", weight=0.5),
    ]
    problem = Problem(model=model, steps=steps, terms=terms)
    u, d = 0.3 * rng.standard_normal((2, steps, 3))
    now = evaluate(problem, u)
    R = rows(problem, now)
    assert R.shape == ((2 + steps) * 6, steps, 3)
    slope = np.einsum("r,rkc,kc->", loss_gradients(problem, now), R, d)
    assert taylor(
        lambda e: evaluate(problem, u + 10.0 * e * d).cost, 10.0 * slope
    ) == pytest.approx(2.0, abs=0.1)
    h = 1e-5
    change = (evaluate(problem, u + h * d).cost - evaluate(problem, u - h * d).cost) / (2.0 * h)
    assert slope == pytest.approx(change, rel=1e-6)


def test_problem_cost_is_the_sum_of_its_terms(rng):
    model, u = jet(), rng.standard_normal((5, 2))
    terms = [
        Goal(effector="tip", target=(1.0, 0.0), time=0.5),
        Effort(weight=2.0),
        Reward(effector="tip", direction=(0.0, 1.0), time=0.3),
    ]
    problem = Problem(model=model, steps=5, terms=terms, previous_control=(0.5, 0.5))
    run = pl.simulate(model, u)
    v = DT * np.cumsum(u, axis=0)
    x = DT * np.cumsum(v, axis=0)
    assert problem.value(run.states, u) == pytest.approx(
        0.5 * np.sum((x[-1] - [1.0, 0.0]) ** 2) + DT * np.sum(u * u) - v[2, 1]
    )
    assert [observation.step for observation in problem.observations] == [3, 5]
    np.testing.assert_array_equal(problem.guess(), np.full((5, 2), 0.5))
    assert problem.goal_errors(run.states, u) == [
        ("tip", 0.5, pytest.approx(np.linalg.norm(x[-1] - [1.0, 0.0])))
    ]


# Bad input


GOAL = {"effector": "tip", "target": (1.0, 0.0)}


@pytest.mark.parametrize(
    ("term", "says"),
    [
        (Goal(effector="tp", target=(1.0, 0.0)), "tip"),
        (Goal(effector="tip", target=(1.0,)), r"has shape \(1,\); give numbers of shape \(2,\)"),
        (
            Goal(effector="tip", target=[[1.0, 2.0]], time=(0.1, 0.2)),
            r"has shape \(1, 2\); give numbers of shape \(2, 2\)",
        ),
        (Goal(effector="tip", target=lambda t: np.array([t, np.inf])), "at t = 0.1 s is inf"),
        (Goal(**GOAL, time=0.0), "the earliest possible time is 0.1 s"),
        (Goal(**GOAL, time=-0.3), "t = -0.3 s, outside the horizon"),
        (Goal(**GOAL, time=0.7), "ends at 0.5 s after 5 steps of 0.1 s"),
        (Goal(**GOAL, time=np.nan), "finite"),
        (Goal(**GOAL, time="late"), "time"),
        (Goal(**GOAL, quantity="speed"), "choose position, velocity or acceleration"),
        (Goal(**GOAL, axes="w"), "write some of x, y"),
        (Goal(**GOAL, axes="z"), "write some of x, y"),
        (Reward(effector="tip", direction=(1.0, 0.0, 0.0)), r"direction has shape \(3,\)"),
        (
            StateGoal(target=np.zeros(4), part="heat"),
            "'heat'; this model's state has position, velocity",
        ),
        (StateGoal(target=np.zeros(3)), "shape"),
        (Effort(order=4), "order of an effort is '4'"),
        (Effort(weight=-1.0), "-1"),
        (Effort(weight=(1.0, 2.0, 3.0)), r"each control \(2\)"),
        (Effort(weight=np.nan), "finite"),
        (Effort(reference=np.nan), "finite"),
        (Effort(reference=np.zeros((4, 2))), r"each step \(5\)"),
        (Effort(weight="some"), "must be a number"),
        (Effort(order=1.0), "order"),
        (Goal(effector="tip", target=lambda t: (0.0, 0.0, 0.0)), r"at t = .* has shape \(3,\)"),
        (Goal(effector="tip", target=(1.0, 2.0), time=[]), "empty list of times"),
        (Residual(effector="tip", residual=lambda y: np.linalg.norm(y - 1.0)), "wrap it"),
        (
            Residual(effector=("tip", "tial"), residual=lambda y: y),
            "no effector 'tial'; did you mean 'tail'",
        ),
        (Residual(effector=(), residual=lambda y: y), "give its name, or the names of several"),
        (
            Residual(effector=("tip", 3), residual=lambda y: y),
            "give its name, or the names of several",
        ),
        (Residual(effector=None, residual=lambda y: y), "effector is 'None'; give its name"),
        (
            Residual(effector=("tip", "tail"), residual=lambda y: np.abs(y)),
            "'tip, tail'.*not analytic",
        ),
        (Goal(effector=None, target=(1.0, 0.0)), "give its name"),
        (
            Residual(effector="tip", residual=lambda y: np.array([np.linalg.norm(y - 1.0)])),
            "not analytic",
        ),
    ],
)
def test_bad_terms_are_rejected(term, says):
    with pytest.raises(InputError, match=says):
        Problem(model=jet(), steps=5, terms=[term])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Goal(effector="tip", target=(1.0, np.nan)), "nan at entry 1"),
        (lambda: Goal(effector="tip", target="there"), "target"),
        (lambda: Goal(**GOAL, weight=-1.0), "weight -1"),
        (lambda: Goal(**GOAL, weight=np.nan), "weight nan"),
        (lambda: Goal(**GOAL, weight=np.inf), "weight inf"),
        (lambda: Goal(**GOAL, weight="much"), "must be a number"),
        (lambda: Reward(effector="tip", direction=(1.0, 0.0), weight=-2.0), "weight -2"),
        (lambda: Goal(effector="tip", target=[(1.0, 2.0), (1.0,)]), "each time"),
        (lambda: Goal(effector="tip", target=[(1.0, 2.0), (np.inf, 0.0)]), "inf at entry"),
        (lambda: Reward(effector="tip", direction=(np.nan, 0.0)), "direction is nan"),
        (lambda: StateGoal(target=(0.0, np.nan)), "goal of the state is nan at entry 1"),
        (lambda: StateGoal(target=(0.0, 0.0), weight=-1.0), "weight -1"),
        (lambda: Residual(effector="tip", residual=np.sin, weight=-1.0), "weight -1"),
    ],
)
def test_terms_with_bad_numbers_are_rejected_at_construction(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_velocity_term_requires_a_dynamic_model():
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        material=pl.Material(E=4e4, nu=0.3),
        supports=(pl.Support(region="x-"),),
        actuators={"hand": pl.actuators.Thrust(point=(0.2, 0.05, 0.05))},
        effectors={"tip": pl.Effector(surface="x+")},
    )
    with pytest.raises(InputError, match="this model has no velocity; take a rule with inertia"):
        Problem(
            model=pl.Quasistatic(robot),
            steps=1,
            terms=[Goal(effector="tip", target=(0.0, 0.0, 0.0), quantity="velocity")],
        )


@pytest.mark.parametrize("steps", [0, -3, 2.5, "5", None, True, np.nan])
def test_bad_number_of_steps_is_rejected(steps):
    with pytest.raises(InputError, match="give a whole number, 1 or more"):
        Problem(model=jet(), steps=steps, terms=[Effort()])


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"model": jet().robot}, "make one with ImplicitEuler"),
        ({"terms": []}, "has no terms"),
        ({"model": jet(actuators={})}, "nothing to plan; add actuators"),
        ({"x0": np.zeros(3)}, r"first state has shape \(3,\)"),
        ({"x0": np.full(8, np.nan)}, "first state is nan"),
        ({"previous_control": (1.0,)}, "control before the first step has shape"),
        ({"previous_control": (np.nan, 0.0)}, "nan"),
        (
            {"limits": [Limit(lower=1.0, upper=-1.0)]},
            "limits of control 0 .* which nothing can satisfy",
        ),
        ({"limits": [Limit(lower=np.nan, upper=1.0)]}, "A limit is 'nan'"),
        (
            {"limits": [Limit(lower=(0.0, 0.0, 0.0), upper=1.0)]},
            "A limit has 3 numbers; give one, or one for each control",
        ),
        ({"limits": [Limit(lower=0.0, upper=1.0, order=3)]}, "order of a limit is 3"),
        (
            {"limits": [Limit(lower=0.5, upper=1.0)]},
            "outside its limits 0.5 to 1; start within them",
        ),
        (
            {"previous_control": (3.0, 0.0), "limits": [Limit(lower=-1.0, upper=1.0)]},
            "3 for control 0, outside its limits",
        ),
    ],
)
def test_bad_problems_are_rejected(parts, says):
    with pytest.raises(InputError, match=says):
        Problem(**{"model": jet(), "steps": 5, "terms": [Effort()], **parts})


def test_numpy_integer_is_a_number_of_steps():
    assert Problem(model=jet(), steps=np.int64(3), terms=[Effort()]).guess().shape == (3, 2)
