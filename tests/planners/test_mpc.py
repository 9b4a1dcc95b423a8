"""Model predictive control of a soft bar: it repeats the plan without disturbances, and an unknown
force leaves no steady-state error."""

from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics import Condensed, simulate
from pliant.planners import gauss_newton, mpc
from pliant.planners.receding_horizon import effector_responses
from pliant.problem import Effort, Goal, Limit, Problem
from pliant.robot import PointLoad

TIP, STEPS, DT, LONG = (0.0, 0.0, 0.2), 16, 0.02, 120
FORCE = (0.02, -0.03, 0.0)  # [N] unknown to the model


def stick(limit=1.0, layers=4):
    """Return a soft bar with a thrust at its tip, which comes to rest within some tens of steps."""
    return pl.Robot(
        name="stick",
        shape=pl.Box(size=(0.04, 0.04, 0.2)).mesh(divisions=(1, 1, layers)),
        order=1,
        material=pl.Material(E=1e5, nu=0.3, density=1000.0, law="linear-corotated"),
        supports=[pl.Support(region="z-")],
        actuators={"push": pl.actuators.Thrust(point=TIP, limits=(-limit, limit))},
        effectors={"tip": pl.Effector(point=TIP), "foot": pl.Effector(point=(0.0, 0.0, 0.0))},
        damping=pl.Damping(mass=20.0, stiffness=0.02),
    )


def sidestep_problem(robot):
    """Return the problem of moving the tip 1 cm aside in half the time and keeping it there."""
    way = lambda t: np.array([0.01 * min(2.0 * t / (STEPS * DT), 1.0), 0.0, 0.2])
    return Problem(
        model=pl.SemiImplicit(robot, dt=DT),
        steps=STEPS,
        terms=[Goal(effector="tip", target=way, weight=1e4), Effort(weight=1e-3)],
    )


@pytest.fixture(scope="module")
def problem():
    return sidestep_problem(stick())


@pytest.fixture(scope="module")
def plan(problem):
    found = gauss_newton(problem)
    assert found.status, found.status.text
    return found


def tips(model, states):
    rows = model.effector_rows("tip")
    return np.array([rows @ model.space.position(x) for x in states])


def closed_loop(controller, model, count, noise=0.0):
    """Simulate a controller and a model, with noise [m] in the measured tip position."""
    rows, random, state = model.effector_rows("tip"), np.random.default_rng(3), controller.begin()

    def policy(k, x):
        nonlocal state
        u, state = controller.act(
            state, rows @ model.space.position(x) + noise * random.standard_normal(3)
        )
        return u

    return simulate(model, policy, steps=count)


def loaded_model(robot, force=FORCE):
    return pl.SemiImplicit(replace(robot, loads=[PointLoad(point=TIP, force=force)]), dt=DT)


def extended_controls(plan, count):
    return np.concatenate(
        [plan.controls, np.tile(plan.controls[-1], (count - len(plan.controls), 1))]
    )


@pytest.mark.parametrize(("horizon", "response_steps"), [(1, 30), (10, 30), (5, 60)])
def test_controller_repeats_plan_without_disturbance(problem, plan, horizon, response_steps):
    on = tips(problem.model, simulate(problem.model, extended_controls(plan, STEPS + 60)).states)
    run = closed_loop(
        mpc(
            problem,
            plan,
            effectors=("tip",),
            reference=on,
            horizon=horizon,
            response_steps=response_steps,
        ),
        problem.model,
        STEPS,
    )
    np.testing.assert_allclose(run.controls, plan.controls, atol=1e-6 * np.abs(plan.controls).max())
    np.testing.assert_allclose(
        tips(problem.model, run.states), tips(problem.model, plan.states), atol=1e-8
    )


def test_controller_repeats_plan_without_measurements(problem, plan):
    run = tips(problem.model, simulate(problem.model, extended_controls(plan, STEPS + 60)).states)
    controller = mpc(problem, plan, effectors=("tip",), reference=run)
    state = controller.begin()
    for k in range(STEPS + 3):
        np.testing.assert_allclose(controller.predicted_positions(state), run[k], atol=1e-7)
        u, state = controller.act(state, None)
        np.testing.assert_allclose(
            u, plan.controls[min(k, STEPS - 1)], atol=1e-6 * np.abs(plan.controls).max()
        )


def test_unknown_force_leaves_no_steady_state_error(problem, plan):
    """A constant control deviation has no cost, so the error vanishes for every effort weight."""
    true, goal = loaded_model(stick()), tips(problem.model, plan.states)[-1]
    lasting = np.linalg.norm(
        tips(true, simulate(true, extended_controls(plan, LONG)).states)[-1] - goal
    )
    known = np.linalg.norm(
        tips(problem.model, simulate(problem.model, extended_controls(plan, LONG)).states)[-1]
        - goal
    )
    assert lasting > 3.0 * known
    assert lasting > 1e-3
    left = {}
    for effort in (1e-3, 1e-4, 1e-7):
        controller = mpc(
            problem,
            plan,
            effectors=("tip",),
            reference=tips(problem.model, plan.states),
            response_steps=40,
            horizon=12,
            effort=effort,
        )
        left[effort] = np.linalg.norm(
            tips(true, closed_loop(controller, true, LONG).states)[-1] - goal
        )
    assert max(left.values()) < 1e-5 * lasting


def test_unlimited_control_that_the_plan_does_not_use_rejects_a_disturbance():
    """Its weight follows from its effect on the tip, not from its planned value of zero."""
    robot = stick(limit=np.inf)
    problem = sidestep_problem(robot)
    u = np.zeros((STEPS, 3))
    u[:, 0] = np.linspace(0.0, 0.1, STEPS)
    run = simulate(problem.model, u)
    plan = replace(gauss_newton(problem), controls=u, states=run.states)
    controller = mpc(problem, plan, effectors="tip", response_steps=40, horizon=12)
    true, goal = loaded_model(robot, (0.0, -0.03, 0.0)), tips(problem.model, run.states)[-1]
    lasting = tips(true, simulate(true, extended_controls(plan, LONG)).states)[-1] - goal
    left = tips(true, closed_loop(controller, true, LONG).states)[-1] - goal
    assert abs(lasting[1]) > 1e-4
    assert abs(left[1]) < 1e-3 * abs(lasting[1])


def test_controller_holds_the_last_planned_position(problem, plan):
    goal = tips(problem.model, plan.states)[-1]
    left = tips(problem.model, simulate(problem.model, extended_controls(plan, LONG)).states)[-1]
    run = closed_loop(
        mpc(problem, plan, effectors="tip", response_steps=40, horizon=12), problem.model, LONG
    )
    assert np.linalg.norm(tips(problem.model, run.states)[-1] - goal) < 1e-3 * np.linalg.norm(
        left - goal
    )


def test_disturbance_equals_the_deflection_by_the_force(problem, plan):
    """With gain 1 and planned controls, the disturbance equals measured minus planned position."""
    true = loaded_model(stick())
    controller = mpc(problem, plan, effectors=("tip",), gain=1.0)
    state, run = controller.begin(), simulate(true, plan.controls)
    for k in range(STEPS):
        state = controller.update_disturbance(replace(state, k=k), tips(true, run.states)[k])
    np.testing.assert_allclose(
        state.disturbance,
        (tips(true, run.states) - tips(problem.model, plan.states))[STEPS - 1],
        atol=1e-12,
    )


@pytest.mark.parametrize("noise", [0.0, 2e-3])
def test_actuator_limits_are_never_exceeded(noise):
    limit = 0.5
    tight = sidestep_problem(stick(limit))
    plan = gauss_newton(tight)
    controller = mpc(tight, plan, effectors=("tip",), gain=1.0, effort=1e-6)
    run = closed_loop(controller, loaded_model(stick(limit), force=(-0.3, 0.2, 0.0)), 40, noise)
    assert np.abs(run.controls).max() <= limit + 1e-9
    assert np.mean(np.abs(run.controls) > limit - 1e-6) > 0.1


def test_problem_limits_are_never_exceeded(problem):
    """The problem bounds the controls more tightly than the actuators, and also their rates."""
    tight = replace(
        problem, limits=[Limit(lower=-0.2, upper=0.2), Limit(lower=-8.0, upper=8.0, order=1)]
    )
    plan = gauss_newton(tight)
    run = closed_loop(
        mpc(tight, plan, effectors=("tip",), gain=1.0, effort=1e-6),
        loaded_model(stick(), force=(-0.3, 0.2, 0.0)),
        40,
    )
    assert np.abs(run.controls).max() <= 0.2 + 1e-9
    assert np.abs(np.diff(run.controls, axis=0)).max() <= 8.0 * problem.model.dt * (1.0 + 1e-6)


def test_condensed_model_with_approximate_derivatives_is_rejected(problem, plan):
    with pytest.raises(InputError, match="approximations"):
        mpc(replace(problem, model=Condensed(model=problem.model)), plan, effectors=("tip",))


def test_response_matches_finite_differences(problem, plan):
    """G[k, j] = dp_{k+1+j}/du_k, also after the end of the plan."""
    count, eps = 6, 1e-4
    rows = problem.model.effector_rows("tip")
    _, G = effector_responses(problem, plan.controls, rows, count)
    assert G.shape == (STEPS, count, 3, 3)
    for k in (0, 5, STEPS - 3, STEPS - 1):
        for i in range(3):
            moved = []
            for side in (eps, -eps):
                controls = extended_controls(plan, STEPS + count)
                controls[k, i] += side
                moved.append(
                    tips(
                        problem.model,
                        simulate(problem.model, controls, x0=problem.initial_state).states,
                    )[k + 1 : k + 1 + count]
                )
            np.testing.assert_allclose(
                G[k, :, :, i], (moved[0] - moved[1]) / (2.0 * eps), atol=1e-6 * np.abs(G).max()
            )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.0}, "horizon"),
        ({"response_steps": 0}, "response_steps"),
        ({"gain": 0.0}, "gain"),
        ({"gain": 2.0}, "gain"),
        ({"gain": np.nan}, "gain"),
        ({"effort": 0.0}, "effort"),
        ({"effectors": ("foot",)}, "W_ea = 0"),
        ({"effectors": ("tap",)}, "tap"),
        ({"effectors": ()}, "effector"),
        ({"reference": np.zeros((3, 2))}, "reference"),
        ({"reference": np.full((STEPS + 1, 3), np.nan)}, "reference"),
    ],
)
def test_wrong_option_raises_one_line(problem, plan, options, words):
    with pytest.raises(InputError, match=words) as error:
        mpc(problem, plan, **{"effectors": ("tip",), **options})
    assert "\n" not in str(error.value)


def test_plan_of_another_problem_is_rejected(problem, plan):
    with pytest.raises(InputError, match="that was planned"):
        mpc(replace(problem, steps=STEPS - 1), plan, effectors=("tip",))
    with pytest.raises(InputError, match="that was planned"):
        mpc(sidestep_problem(stick(layers=3)), plan, effectors=("tip",))


@pytest.mark.parametrize(
    "measurement", [[0.0, np.nan, 0.2], [np.inf, 0.0, 0.2], [0.0, 0.2], np.zeros((2, 3)), "here"]
)
def test_wrong_measurement_is_rejected(problem, plan, measurement):
    controller = mpc(problem, plan, effectors=("tip",))
    with pytest.raises(InputError, match="measurement"):
        controller.act(controller.begin(), measurement)
