"""Dynamic inverse control: the model's time step, targets at rest and moving targets."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, can, reachable

import pliant as pl
from pliant.planners import CONSTRAINT_VIOLATED
from pliant.planners.inverse_control import inverse_control
from pliant.problem import Limit

DT = 0.01


@pytest.mark.parametrize("name", ["arm", "arm of lengths", "diamond", "stiff-flop", "liandford"])
def test_dynamic_control_step_is_a_time_step_of_the_model(name, rng):
    """To round-off, for affine steps and for stiff drives."""
    robot = ROBOTS[name]()
    model = pl.SemiImplicit(robot, dt=DT)
    controller = inverse_control(model)
    lower, upper = robot.control_limits()
    state = controller.begin()
    for k in range(12):
        before, target = (
            state,
            controller.begin().positions + 0.01 * rng.uniform(-1.0, 1.0, state.positions.shape),
        )
        state = controller.follow(state, target)
        step = model.step(before.x, state.u, None, k)
        assert step.status
        np.testing.assert_allclose(state.x, step.x, atol=1e-9 * np.abs(step.x).max())
        assert np.all((state.u >= lower) & (state.u <= upper))


@pytest.mark.parametrize("name", ["arm", "strip", "diamond", "stiff-flop"])
def test_dynamic_robot_reaches_the_target_and_comes_to_rest(name, rng):
    robot = ROBOTS[name]()
    controller = inverse_control(pl.SemiImplicit(robot, dt=0.02))
    _, target = reachable(name, robot, rng)
    state = controller.settle(controller.begin(), target, max_steps=600, tolerance=1e-9)
    assert state.error < 1e-4 * controller.length
    assert state.message == "at the target"
    assert np.abs(controller.model.space.velocity(state.x)).max() < 1e-5
    still = pl.Quasistatic(robot)
    np.testing.assert_allclose(
        pl.equilibrium(still, state.u, x0=state.x[: still.space.size]).x,
        state.x[: still.space.size],
        atol=1e-6,
    )


def test_horizon_of_one_step_reaches_a_near_target_at_once():
    """With a horizon of one time step the prediction is exact."""
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse_control(model, horizon=DT)
    begun = controller.begin(u=np.full(4, 2.0))
    state = controller.follow(begun, begun.positions + (1e-4, -5e-5, 3e-5))
    assert state.error < 1e-9


def test_tracking_lag_is_that_of_the_horizon():
    """Around an ellipse at up to 30 mm/s: with one step the lag vanishes, with more the
    lag is that of the horizon."""
    lag = []
    for ahead in (1, 3):
        controller = inverse_control(
            pl.SemiImplicit(pl.robots.diamond(along=5), dt=DT), horizon=ahead * DT
        )
        state = controller.begin()
        middle, errors = state.positions + (0.0, 0.0, 0.001), []
        for angle in 2.0 * np.pi * np.arange(150) / 125:
            state = controller.follow(
                state, middle + [[0.003 * np.sin(angle), -0.006 * np.cos(angle), 0.0]]
            )
            errors.append(state.error)
        lag.append(max(errors[50:]))
    fastest = 0.006 * 2.0 * np.pi / (125 * DT)
    assert lag[0] < 0.01 * DT * fastest
    assert 0.1 * DT * fastest < lag[1] < 2.0 * DT * fastest


def test_longer_horizon_damps_a_slender_arm():
    """A horizon of one short time step makes the stiff-flop oscillate; three damp it."""
    left = []
    for ahead in (1, 3):
        controller = inverse_control(
            pl.SemiImplicit(ROBOTS["stiff-flop"](), dt=0.005), horizon=ahead * 0.005
        )
        state, last = controller.begin(), []
        target = state.positions + (0.02, 0.01, 0.002)
        for _ in range(100):
            state = controller.follow(state, target)
            last.append(state.u)
        left.append(np.abs(np.diff(last[-20:], axis=0)).max())
    assert left[1] < 0.1 * left[0]


def test_unsupported_robot_begins_in_its_rest_shape():
    robot = arm(supports=[], gravity=(0.0, 0.0, -9.81))
    controller = inverse_control(pl.SemiImplicit(robot, dt=DT))
    state = controller.begin()
    np.testing.assert_array_equal(state.x, controller.model.initial_state())
    fallen = controller.follow(state, state.positions)
    assert np.all(np.isfinite(fallen.x))


def test_horizon_shorter_than_a_step_raises(raises_clear_error):
    raises_clear_error(
        lambda: inverse_control(pl.SemiImplicit(arm(), dt=DT), horizon=0.5 * DT), "horizon"
    )
    raises_clear_error(
        lambda: inverse_control(pl.SemiImplicit(arm(), dt=DT), horizon=np.nan), "horizon"
    )


def test_manual_dynamic_steps_match_simulate():
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse_control(model)
    state = controller.begin()
    run = pl.simulate(model, np.tile([1.0, 0.0, 0.5, 0.0], (10, 1)), x0=state.x)
    for _ in range(10):
        state = controller.manual(state, [1.0, 0.0, 0.5, 0.0])
    np.testing.assert_allclose(state.x, run.states[-1], atol=1e-12)


def test_dynamic_robot_moves_on_if_limits_contradict():
    """The rate does not allow a return within the limits in one control step."""
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse_control(
        model, limits=[Limit(upper=2.0), Limit(lower=-1.0, upper=1.0, order=1)]
    )
    begun = controller.begin()
    state = controller.follow(replace(begun, u=np.full(4, 3.0)), begun.positions)
    assert (state.outcome, state.message) == (
        CONSTRAINT_VIOLATED,
        "no controls satisfy all limits together; the controls stay unchanged",
    )
    np.testing.assert_array_equal(state.u, np.full(4, 3.0))
    np.testing.assert_allclose(state.x, model.step(begun.x, np.full(4, 3.0), None, 0).x, atol=1e-12)


def test_failed_time_step_keeps_state_and_controls():
    controller = inverse_control(pl.SemiImplicit(can("pressure", (0.0, np.inf)), dt=1 / 60), "top")
    state = controller.begin()
    for _ in range(60):
        before, state = state, controller.manual(state, [1e5, 0.0])
        if "burst" in state.message:
            break
    assert state.outcome == CONSTRAINT_VIOLATED
    np.testing.assert_array_equal(state.x, before.x)
    np.testing.assert_array_equal(state.u, before.u)
