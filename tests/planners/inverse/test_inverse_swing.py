"""Inverse control of a robot that swings: the state is the model's own step, targets at rest are
reached and moving ones followed."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, can, reachable

import pliant as pl
from pliant.planners import UNKEPT, inverse
from pliant.problem import Limit

DT = 0.01


@pytest.mark.parametrize("name", ["arm", "arm of lengths", "diamond", "stiff-flop", "liandford"])
def test_every_tick_is_a_step_of_the_model_with_the_controls_that_it_says(name, rng):
    """To round-off, whether the step is linear in the controls or a spring is moved by them."""
    robot = ROBOTS[name]()
    model = pl.SemiImplicit(robot, dt=DT)
    controller = inverse(model)
    lower, upper = robot.control_limits()
    pose = controller.begin()
    for k in range(12):
        before, target = (
            pose,
            controller.begin().places + 0.01 * rng.uniform(-1.0, 1.0, pose.places.shape),
        )
        pose = controller.follow(pose, target)
        step = model.step(before.x, pose.u, None, k)
        assert step.status
        np.testing.assert_allclose(pose.x, step.x, atol=1e-9 * np.abs(step.x).max())
        assert np.all((pose.u >= lower) & (pose.u <= upper))


@pytest.mark.parametrize("name", ["arm", "strip", "diamond", "stiff-flop"])
def test_a_target_within_reach_is_reached_and_the_robot_comes_to_rest(name, rng):
    robot = ROBOTS[name]()
    controller = inverse(pl.SemiImplicit(robot, dt=0.02))
    _, target = reachable(name, robot, rng)
    pose = controller.settle(controller.begin(), target, ticks=600, tolerance=1e-9)
    assert pose.error < 1e-4 * controller.length
    assert pose.text == "at the target"
    assert np.abs(controller.model.space.velocity(pose.x)).max() < 1e-5
    still = pl.Quasistatic(robot)
    np.testing.assert_allclose(
        pl.equilibrium(still, pose.u, x0=pose.x[: still.space.size]).x,
        pose.x[: still.space.size],
        atol=1e-6,
    )


def test_a_step_ahead_hits_a_near_target_in_one_tick():
    """With a horizon of one step the program is exact: what it foresees is what comes."""
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse(model, horizon=DT)
    begun = controller.begin(u=np.full(4, 2.0))
    pose = controller.follow(begun, begun.places + (1e-4, -5e-5, 3e-5))
    assert pose.error < 1e-9


def test_a_moving_target_is_followed():
    """Around an ellipse at up to 30 mm/s: one step ahead it is met at every tick, further ahead the
    lag is that of the horizon."""
    lag = []
    for ahead in (1, 3):
        controller = inverse(pl.SemiImplicit(pl.robots.diamond(along=5), dt=DT), horizon=ahead * DT)
        pose = controller.begin()
        middle, errors = pose.places + (0.0, 0.0, 0.001), []
        for angle in 2.0 * np.pi * np.arange(150) / 125:
            pose = controller.follow(
                pose, middle + [[0.003 * np.sin(angle), -0.006 * np.cos(angle), 0.0]]
            )
            errors.append(pose.error)
        lag.append(max(errors[50:]))
    fastest = 0.006 * 2.0 * np.pi / (125 * DT)
    assert lag[0] < 0.01 * DT * fastest
    assert 0.1 * DT * fastest < lag[1] < 2.0 * DT * fastest


def test_looking_ahead_calms_a_slender_arm():
    """With short steps one step ahead shakes the stiff-flop; three steps ahead it comes to rest."""
    left = []
    for ahead in (1, 3):
        controller = inverse(
            pl.SemiImplicit(ROBOTS["stiff-flop"](), dt=0.005), horizon=ahead * 0.005
        )
        pose, last = controller.begin(), []
        target = pose.places + (0.02, 0.01, 0.002)
        for _ in range(100):
            pose = controller.follow(pose, target)
            last.append(pose.u)
        left.append(np.abs(np.diff(last[-20:], axis=0)).max())
    assert left[1] < 0.1 * left[0]


def test_a_robot_that_nothing_holds_begins_in_its_rest_shape():
    robot = arm(supports=[], gravity=(0.0, 0.0, -9.81))
    controller = inverse(pl.SemiImplicit(robot, dt=DT))
    pose = controller.begin()
    np.testing.assert_array_equal(pose.x, controller.model.initial_state())
    fallen = controller.follow(pose, pose.places)
    assert np.all(np.isfinite(fallen.x))


def test_a_horizon_shorter_than_a_step_is_a_sentence(one_sentence):
    one_sentence(lambda: inverse(pl.SemiImplicit(arm(), dt=DT), horizon=0.5 * DT), "horizon")
    one_sentence(lambda: inverse(pl.SemiImplicit(arm(), dt=DT), horizon=np.nan), "horizon")


def test_by_hand_the_model_steps_with_the_controls_given():
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse(model)
    pose = controller.begin()
    run = pl.simulate(model, np.tile([1.0, 0.0, 0.5, 0.0], (10, 1)), x0=pose.x)
    for _ in range(10):
        pose = controller.manual(pose, [1.0, 0.0, 0.5, 0.0])
    np.testing.assert_allclose(pose.x, run.states[-1], atol=1e-12)


def test_a_robot_swings_on_where_no_controls_keep_all_limits():
    """It was pulled beyond a limit that its rate does not let it come back to in a tick."""
    model = pl.SemiImplicit(arm(), dt=DT)
    controller = inverse(model, limits=[Limit(upper=2.0), Limit(lower=-1.0, upper=1.0, order=1)])
    begun = controller.begin()
    pose = controller.follow(replace(begun, u=np.full(4, 3.0)), begun.places)
    assert (pose.state, pose.text) == (
        UNKEPT,
        "no controls keep all limits together, so that they stay as they are",
    )
    np.testing.assert_array_equal(pose.u, np.full(4, 3.0))
    np.testing.assert_allclose(pose.x, model.step(begun.x, np.full(4, 3.0), None, 0).x, atol=1e-12)


def test_a_robot_that_has_burst_keeps_its_state_and_its_controls():
    controller = inverse(pl.SemiImplicit(can("pressure", (0.0, np.inf)), dt=1 / 60), "top")
    pose = controller.begin()
    for _ in range(60):
        before, pose = pose, controller.manual(pose, [1e5, 0.0])
        if "burst" in pose.text:
            break
    assert pose.state == UNKEPT
    np.testing.assert_array_equal(pose.x, before.x)
    np.testing.assert_array_equal(pose.u, before.u)
