"""A robot that a hand has pressed on an obstacle is led away from it, or let go by hand."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import arm, can

import pliant as pl
from pliant.planners import BEYOND, BY_HAND, THERE, UNKEPT, inverse
from pliant.problem import Limit, Stroke

BALL = pl.sphere((0.045, 0.0, 0.07), 0.012)  # 18 mm beside the finger


def finger(rings):
    """A silicone finger full of water with a tendon on the side of the ball."""
    tendon = pl.Cable(
        points=[(0.0128, 0.0, z) for z in (0.0, 0.02, 0.04, 0.06, 0.088)], limits=(0.0, 6.0)
    )
    return pl.Robot(
        shape=pl.geometry.Vessel(radius=0.015, wall=0.004, length=0.09, cap=0.006),
        divisions=(8, rings, 1),
        material=pl.Material(E=3e5, nu=0.45, density=1080.0),
        supports=[pl.Support(region="bottom")],
        gravity=(0.0, 0.0, -9.81),
        damping=pl.Damping(stiffness=0.02),
        contacts=[pl.Contact(obstacle=BALL)],
        effectors={"tip": pl.Effector(surface="top")},
        actuators={
            "water": pl.actuators.Hydraulic(cavity="cavity", limits=(0.0, 30_000.0)),
            "tendon": tendon,
        },
    )


def gap(model, pose):
    return BALL(model.space.position(pose.x).reshape(-1, 3))[0].min()


def pressed(controller, u, ticks=100):
    """The pose after a hand has held controls u."""
    pose = controller.begin()
    for _ in range(ticks):
        pose = controller.manual(pose, u)
    assert gap(controller.model, pose) < 0.0
    return pose


@pytest.mark.parametrize(
    ("rings", "dt", "u"), [(4, None, [0.0, 6.0]), (6, 1 / 60, [24_000.0, 4.28])]
)
def test_a_robot_that_presses_on_an_obstacle_is_led_home(rings, dt, u):
    """Seen through the obstacle no control leads away: it is what holds the robot there."""
    model = pl.Quasistatic(finger(rings)) if dt is None else pl.SemiImplicit(finger(rings), dt=dt)
    controller = inverse(model, "tip")
    home = controller.begin().places
    pose = controller.settle(pressed(controller, u), home, ticks=100)
    assert (pose.state, gap(model, pose) > 0.01) == (THERE, True)


@pytest.mark.parametrize("tension", [4.2, 6.0])
def test_a_robot_that_is_thrown_against_an_obstacle_does_not_burst(tension):
    """Where one linearised step does not meet it, finer ones do; it comes to rest where the
    quasistatic one does."""
    controller = inverse(pl.SemiImplicit(finger(4), dt=1 / 60), "tip")
    pose = pressed(controller, [0.0, tension], ticks=240)
    assert pose.text == "by hand"
    still = pl.equilibrium(
        pl.Quasistatic(finger(4)), pose.u, x0=controller.model.space.position(pose.x)
    )
    np.testing.assert_allclose(controller.model.space.position(pose.x), still.x, atol=1e-5)


@pytest.fixture(scope="module")
def hooked():
    """(a controller, the pose of its robot at rest, and one that hooks the ball and is led home in
    vain)"""
    controller = inverse(pl.Quasistatic(finger(6)), "tip")
    first, pose = controller.begin(), pressed(controller, [0.0, 6.0])
    for _ in range(20):
        pose = controller.follow(pose, first.places)
    assert pose.state == UNKEPT
    return controller, first, pose


def let_go(controller, pose, ticks):
    """The poses of a hand that lets go, until it has."""
    poses = [controller.manual(pose, [0.0, 0.0])]
    while len(poses) < ticks and poses[-1].state != BY_HAND:
        poses.append(controller.manual(poses[-1], [0.0, 0.0]))
    return poses


def test_a_robot_that_hooks_an_obstacle_slips_off_in_a_hand_that_lets_go(hooked):
    """Its next balance is far away: no step of the solver leads there."""
    controller, first, pose = hooked
    poses = let_go(controller, pose, 120)
    assert max(pose.moved for pose in poses) > 2.0 * controller.stride
    pose = poses[-1]
    for _ in range(3):
        pose = controller.manual(pose, [0.0, 0.0])
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9)


def test_it_does_not_slip_where_loads_change_in_time(hooked):
    """What it would slip to is known for time zero only."""
    controller, _, pose = hooked
    changing = pl.PointLoad(point=(0.0, 0.0, 0.09), force=lambda t: (0.0, 0.0, 0.0))
    other = inverse(pl.Quasistatic(replace(controller.model.robot, loads=[changing])), "tip")
    poses = let_go(other, other.take_over(pose), 60)
    assert max(pose.moved for pose in poses) <= other.stride


@pytest.mark.parametrize("aim", [(0.0, 0.01, 0.0), (0.01, 0.0, 0.0), (-0.01, 0.0, 0.0)])
def test_a_robot_that_rests_on_the_ground_lifts_off_it(aim):
    """Its weight presses it on what it is to keep off: it comes off, or as far as its cables bring
    it, and says what limits them."""
    ground = pl.Contact(obstacle=pl.plane((1.0, 0.0, 0.0), -0.002))
    controller = inverse(pl.Quasistatic(arm(gravity=(-9.81, 0.0, 0.0), contacts=[ground])))
    first = controller.begin()
    pose = controller.settle(first, first.places + aim)
    assert pose.moved < 1e-6 * controller.length
    assert float(np.abs(pose.places - first.places).max()) > 1e-3
    assert pose.state in (THERE, BEYOND)


def test_all_that_limits_a_robot_is_named_and_nothing_else():
    """Where a stroke holds one control, more of another would help, though it does nothing for the
    target by itself."""
    model = pl.Quasistatic(can("pressure", (0.0, 3000.0)))
    strokes = [Stroke(actuator="pull", upper=5e-4)]
    controller = inverse(model, "top", strokes=strokes)
    first = controller.begin()
    pose = controller.settle(first, first.places + (0.02, 0.0, 0.0))
    assert (pose.state, pose.u[0]) == (BEYOND, 3000.0)
    assert pose.text.endswith("limited by water (at its upper limit 3000), the stroke of 'pull'")
    wider = inverse(pl.Quasistatic(can("pressure", (0.0, 3300.0))), "top", strokes=strokes)
    assert wider.settle(wider.begin(), first.places + (0.02, 0.0, 0.0)).error < pose.error


def test_a_pump_that_may_not_let_go_is_limited_by_its_rate_alone():
    controller = inverse(
        pl.Quasistatic(can("pressure", (0.0, np.inf))),
        "top",
        fixed={"pull": 0.0},
        directions="z",
        limits=[Limit(lower=(0.0, -1.0), upper=(500.0, 1.0), order=1)],
    )
    first = controller.begin()
    high = controller.settle(first, first.places + (0.0, 0.0, 0.1))
    assert high.text.endswith("limited by its balance")
    assert controller.settle(high, first.places).text.endswith("limited by water")
