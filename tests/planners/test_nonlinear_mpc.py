"""Non-linear model predictive control: exact on linear problems, within limits and out of forbidden
zones on a robot that differs from its model."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import pliant as pl
from pliant.core import InputError, Linearizable, Status, Step
from pliant.dynamics import Condensed
from pliant.planners import gauss_newton, nonlinear_mpc
from pliant.problem import Constraint, Effort, Goal, Limit, Problem

TIP, DT = (0.0, 0.0, 0.2), 0.02


def jet_problem(steps=10, target=(0.0, 0.0), x0=None, **parts):
    """Return the problem of moving a point mass with a thrust to a target and keeping it there."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0), limits=(-10.0, 10.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )
    terms = [
        Goal(effector="tip", target=target, weight=3.0),
        Goal(effector="tip", target=(0.0, 0.0), quantity="velocity", weight=0.5),
        Effort(weight=0.1),
    ]
    model = pl.ImplicitEuler(robot, dt=0.1)
    return Problem(model=model, steps=steps, terms=terms, x0=x0, **parts)


def stick(E=1e5, limit=1.0, gravity=(0.0, 0.0, 0.0)):
    """Return a soft bar with a thrust at its tip, which comes to rest within some tens of steps."""
    return pl.Robot(
        name="stick",
        shape=pl.Box(size=(0.04, 0.04, 0.2)).mesh(divisions=(1, 1, 4)),
        order=1,
        material=pl.Material(E=E, nu=0.3, density=1000.0, law="linear-corotated"),
        supports=[pl.Support(region="z-")],
        actuators={"push": pl.actuators.Thrust(point=TIP, limits=(-limit, limit))},
        effectors={"tip": pl.Effector(point=TIP)},
        damping=pl.Damping(mass=20.0, stiffness=0.02),
        gravity=gravity,
    )


def stick_problem(target=(0.01, 0.005, 0.2), steps=12, limit=1.0, **parts):
    """Return the problem of holding the tip at a target, with a cost of control changes only."""
    terms = [Goal(effector="tip", target=target, weight=1e5), Effort(weight=1e-5, order=1)]
    model = pl.SemiImplicit(stick(limit=limit), dt=DT)
    return Problem(model=model, steps=steps, terms=terms, **parts)


@dataclass
class Run:
    """The motion of a robot with a controller."""

    tips: np.ndarray  # (count + 1, dim) [m]
    controls: np.ndarray  # (count, n_controls)
    state: Any


def closed_loop(controller, plant, count, x0=None, delay=0):
    """Simulate a controller and a robot whose controls have an effect after `delay` steps."""
    x = plant.initial_state() if x0 is None else x0
    state, waiting = controller.begin(), [plant.neutral_controls()] * delay
    tips, controls = [plant.effector("tip", x)[0]], []
    for k in range(count):
        u, state = controller.act(state, tips[-1])
        waiting.append(u)
        step = plant.step(x, waiting.pop(0), None, k)
        assert step.status, step.status.text
        x = step.x
        tips.append(plant.effector("tip", x)[0])
        controls.append(u)
    return Run(tips=np.array(tips), controls=np.array(controls), state=state)


def test_long_horizon_gives_the_control_of_the_riccati_equation():
    """Over a long horizon the first control of a linear problem without active limits is -K x."""
    x0 = np.array([0.3, -0.2, 0.1, 0.4])
    problem = jet_problem(x0=x0)
    model = problem.model
    lin = model.linearize(model.step(x0, np.zeros(2)))
    A, B = lin.dense_state(), lin.dense_controls()
    Q = 0.1 * np.diag([3.0, 3.0, 0.5, 0.5])  # the terms are integrals over time
    S = scipy.linalg.solve_discrete_are(A, B, Q, 0.1 * 0.1 * np.eye(2))
    K = np.linalg.solve(0.01 * np.eye(2) + B.T @ S @ B, B.T @ S @ A)
    controller = nonlinear_mpc(problem, effectors="tip", horizon=60)
    u, _ = controller.act(controller.begin(), None)
    np.testing.assert_allclose(u, -K @ x0, rtol=1e-6)


def test_first_horizon_is_the_plan_of_gauss_newton_with_active_limits():
    problem = stick_problem(limit=0.12, limits=[Limit(lower=-2.0, upper=2.0, order=1)])
    plan = gauss_newton(problem)
    assert plan.status, plan.status.text
    assert np.any(plan.controls > 0.12 - 1e-9)  # a limit is active
    state = nonlinear_mpc(problem, effectors="tip", horizon=problem.steps).begin()
    np.testing.assert_allclose(state.plan, plan.controls, atol=1e-5)


def test_real_time_iterations_follow_the_repeated_optimum():
    """One quadratic program in a control step is close to the converged solution of each step."""
    problem = stick_problem(steps=20)
    runs = [
        closed_loop(
            nonlinear_mpc(problem, effectors="tip", iterations=n), problem.model, 20
        ).controls
        for n in (1, 6)
    ]
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-3 * np.abs(runs[1]).max())


def softer_plant(E=8e4, **parts):
    """Return the bar with 20 % less stiffness and another integrator."""
    return pl.BDF2(stick(E=E, **parts), dt=DT)


def test_softer_robot_leaves_no_steady_state_error():
    sideways = {"gravity": (0.0, -2.0, 0.0)}
    problem = stick_problem()
    problem = replace(problem, model=pl.SemiImplicit(stick(**sideways), dt=DT))
    plant, target = softer_plant(**sideways), np.array([0.01, 0.005, 0.2])
    run = closed_loop(nonlinear_mpc(problem, effectors="tip"), plant, 120)
    held = pl.simulate(problem.model, np.tile(run.controls[-1], (120, 1))).states[-1]
    missed = np.linalg.norm(problem.model.effector("tip", held)[0] - target)
    assert missed > 1e-3  # the model itself is wrong by more
    assert np.linalg.norm(run.tips[-1] - target) < 1e-3 * missed


def test_limits_and_forbidden_zone_hold_on_a_softer_robot():
    """The straight way to the target leads through a ball; the rate limit is active too."""
    target, zone = (0.02, 0.0, 0.2), pl.sphere((0.01, -0.001, 0.2), 0.004)
    problem = stick_problem(
        target=target,
        limit=0.5,
        limits=[Limit(lower=-1.5, upper=1.5, order=1)],
        constraints=[pl.keep_out("tip", zone, margin=0.001)],
    )
    plant = softer_plant(limit=0.5)
    run = closed_loop(nonlinear_mpc(problem, effectors="tip"), plant, 80)
    assert zone(run.tips)[0].min() > 0.0
    assert 0.5 - 1e-6 < np.abs(run.controls).max() <= 0.5  # the target is out of reach
    rates = np.diff(run.controls, axis=0, prepend=0.0) / DT
    assert 1.5 - 1e-6 < np.abs(rates).max() <= 1.5 + 1e-12
    through = closed_loop(
        nonlinear_mpc(replace(problem, constraints=()), effectors="tip"), plant, 80
    )
    assert zone(through.tips)[0].min() < -0.001
    np.testing.assert_allclose(run.tips[-1], through.tips[-1], atol=1e-5)


def test_robot_in_a_forbidden_zone_leaves_it():
    zone = pl.sphere((0.0, -0.001, 0.2), 0.004)
    problem = stick_problem(target=TIP, constraints=[pl.keep_out("tip", zone)])
    run = closed_loop(nonlinear_mpc(problem, effectors="tip"), problem.model, 40)
    assert zone(run.tips[:1])[0] < -0.002
    assert abs(zone(run.tips[-1:])[0]) < 1e-5  # at its surface, where the target is nearest


def test_ball_is_not_left():
    """A constraint may also be a ball that contains the tip."""
    inside = pl.problem.Ball(centre=(0.0, 0.0), radius=0.006)
    row = Constraint(effector="tip", function=lambda y: y[:2], inside=inside)
    problem = stick_problem(constraints=[row])
    run = closed_loop(nonlinear_mpc(problem, effectors="tip"), problem.model, 40)
    distance = np.linalg.norm(run.tips[:, :2], axis=1)
    assert distance.max() <= 0.006 * (1.0 + 1e-3)
    assert distance[-1] > 0.0059


def test_known_delay_changes_a_motion_from_rest_by_the_delay_only():
    problem = jet_problem(target=(0.2, -0.1))
    plain = closed_loop(nonlinear_mpc(problem, effectors="tip"), problem.model, 30)
    delayed = closed_loop(
        nonlinear_mpc(problem, effectors="tip", delay=3), problem.model, 33, delay=3
    )
    np.testing.assert_allclose(delayed.tips[3:], plain.tips, atol=1e-9)


@dataclass(frozen=True, eq=False)
class PullbackModel:
    """A model with the members of Reversible only."""

    model: Any
    last_step: int = 10**6  # later steps fail

    def __getattr__(self, name):
        if name == "linearize":
            raise AttributeError(name)
        return getattr(self.model, name)

    def step(self, x, u, p=None, k=0):
        if k > self.last_step:
            return Step(x, Status(ok=False, text="the step is too late"))
        return self.model.step(x, u, p, k)


def test_model_without_linearize_gives_the_same_controls():
    problem = stick_problem()
    wrapped = replace(problem, model=PullbackModel(problem.model))
    assert not isinstance(wrapped.model, Linearizable)
    plans = [
        nonlinear_mpc(one, effectors="tip", horizon=3).begin().plan for one in (problem, wrapped)
    ]
    np.testing.assert_allclose(plans[1], plans[0], atol=1e-9)


def test_failed_prediction_keeps_the_last_plan():
    problem = jet_problem(target=(0.2, 0.1))
    controller = nonlinear_mpc(
        replace(problem, model=PullbackModel(problem.model, last_step=9)),
        effectors="tip",
        horizon=8,
    )
    state = controller.begin()
    for _ in range(3):
        u, state = controller.act(state, None)
    planned = state.plan[0]
    u, after = controller.act(state, (0.0, 0.05))
    assert not after.status
    assert "too late" in after.status.text
    np.testing.assert_array_equal(u, planned)
    with pytest.raises(InputError, match="cannot predict its first horizon: the step is too late"):
        nonlinear_mpc(controller.problem, effectors="tip", horizon=11).begin()


def test_horizon_positions_start_at_the_measurement():
    controller = nonlinear_mpc(stick_problem(), effectors="tip", horizon=5, gain=1.0)
    measured = np.array([0.001, -0.002, 0.2])
    _, state = controller.act(controller.begin(), measured)
    np.testing.assert_allclose(
        state.disturbance, measured - TIP, atol=1e-12
    )  # all of the difference at gain 1
    ahead = controller.horizon_positions(state)
    assert ahead.shape == (6, 3)
    np.testing.assert_allclose(
        ahead[0], controller.predicted_positions(state) + state.disturbance, atol=1e-15
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effectors": ()}, "at least one effector"),
        ({"effectors": "tup"}, "tip"),
        ({"effectors": 3}, "The effectors of nonlinear_mpc are '3'"),
        ({"horizon": 0}, "The horizon of nonlinear_mpc is '0'; give a whole number, 1 or more"),
        ({"delay": -1}, "The delay of nonlinear_mpc is '-1'; give a whole number, 0 or more"),
        ({"iterations": 1.5}, "number of iterations of nonlinear_mpc is '1.5'"),
        ({"gain": 0.0}, "above 0, and at most 1"),
        ({"gain": np.nan}, "above 0, and at most 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        nonlinear_mpc(jet_problem(), **{"effectors": "tip", **options})


def test_wrong_problems_states_and_measurements_are_refused():
    problem = jet_problem()
    with pytest.raises(InputError, match=r"make one with Problem"):
        nonlinear_mpc(problem.model, effectors="tip")
    with pytest.raises(InputError, match="limits on accelerations"):
        nonlinear_mpc(
            replace(problem, limits=[Limit(lower=-1.0, upper=1.0, order=2)]), effectors="tip"
        )
    with pytest.raises(InputError, match="approximations"):
        nonlinear_mpc(
            replace(stick_problem(), model=Condensed(model=stick_problem().model)),
            effectors="tip",
        )
    controller = nonlinear_mpc(problem, effectors="tip", horizon=2)
    state = controller.begin()
    with pytest.raises(InputError, match=r"start with controller\.begin"):
        controller.act(np.zeros(4), np.zeros(2))
    with pytest.raises(InputError, match="another horizon or other effectors"):
        controller.act(nonlinear_mpc(problem, effectors="tip", horizon=3).begin(), np.zeros(2))
    for measured in ((0.0, np.nan), (0.0, 0.0, 0.0)):
        with pytest.raises(InputError, match="The measurement"):
            controller.act(state, measured)


def test_constraint_with_another_set_is_refused():
    class Everything:
        def project(self, c):
            return c

        def projection_jacobian(self, c):
            return np.eye(len(c))

    row = Constraint(effector="tip", inside=Everything())
    with pytest.raises(InputError, match="give an Interval or a Ball"):
        nonlinear_mpc(jet_problem(constraints=[row]), effectors="tip")
