"""Robots that were pressed on an obstacle in manual mode are moved away or released."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import arm, can

import pliant as pl
from pliant.planners import CONSTRAINT_VIOLATED, MANUAL, REACHED, UNREACHABLE
from pliant.planners.inverse_control import inverse_control
from pliant.problem import Limit, StrokeLimit

BALL = pl.sphere((0.045, 0.0, 0.07), 0.012)  # 18 mm beside the finger


def finger(rings):
    """A silicone finger full of water with a tendon on the side of the ball."""
    tendon = pl.Cable(
        points=[(0.0128, 0.0, z) for z in (0.0, 0.02, 0.04, 0.06, 0.088)], limits=(0.0, 6.0)
    )
    return pl.Robot(
        shape=pl.geometry.ClosedCylinder(radius=0.015, wall=0.004, length=0.09, cap=0.006),
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


def gap(model, state):
    return BALL(model.space.position(state.x).reshape(-1, 3))[0].min()


def pressed(controller, u, steps=100):
    """Return the state after manual control steps with controls u."""
    state = controller.begin()
    for _ in range(steps):
        state = controller.manual(state, u)
    assert gap(controller.model, state) < 0.0
    return state


@pytest.mark.parametrize(
    ("rings", "dt", "u"), [(4, None, [0.0, 6.0]), (6, 1 / 60, [24_000.0, 4.28])]
)
def test_robot_pressed_on_an_obstacle_returns_to_its_target(rings, dt, u):
    """The contact stiffness holds the robot: no control seems to move it away."""
    model = pl.Quasistatic(finger(rings)) if dt is None else pl.SemiImplicit(finger(rings), dt=dt)
    controller = inverse_control(model, "tip")
    home = controller.begin().positions
    state = controller.settle(pressed(controller, u), home, max_steps=100)
    assert (state.outcome, gap(model, state) > 0.01) == (REACHED, True)


@pytest.mark.parametrize("tension", [4.2, 6.0])
def test_dynamic_impact_on_an_obstacle_does_not_fail(tension):
    """Substeps resolve the impact; the robot rests at the quasistatic equilibrium."""
    controller = inverse_control(pl.SemiImplicit(finger(4), dt=1 / 60), "tip")
    state = pressed(controller, [0.0, tension], steps=240)
    assert state.message == "manual"
    still = pl.equilibrium(
        pl.Quasistatic(finger(4)), state.u, x0=controller.model.space.position(state.x)
    )
    np.testing.assert_allclose(controller.model.space.position(state.x), still.x, atol=1e-5)


@pytest.fixture(scope="module")
def hooked():
    """Return (controller, state at rest, state hooked on the ball that cannot return)."""
    controller = inverse_control(pl.Quasistatic(finger(6)), "tip")
    first, state = controller.begin(), pressed(controller, [0.0, 6.0])
    for _ in range(20):
        state = controller.follow(state, first.positions)
    assert state.outcome == CONSTRAINT_VIOLATED
    return controller, first, state


def release(controller, state, steps):
    """Return the states of a manual release."""
    states = [controller.manual(state, [0.0, 0.0])]
    while len(states) < steps and states[-1].outcome != MANUAL:
        states.append(controller.manual(states[-1], [0.0, 0.0]))
    return states


def test_hooked_robot_snaps_off_when_released(hooked):
    """Its next equilibrium is too far away for the solver."""
    controller, first, state = hooked
    states = release(controller, state, 120)
    assert max(state.displacement for state in states) > 2.0 * controller.max_step
    state = states[-1]
    for _ in range(3):
        state = controller.manual(state, [0.0, 0.0])
    np.testing.assert_allclose(state.x, first.x, atol=1e-9)


def test_hooked_robot_does_not_snap_under_time_dependent_loads(hooked):
    """The equilibrium from the rest shape is known for time zero only."""
    controller, _, state = hooked
    changing = pl.PointLoad(point=(0.0, 0.0, 0.09), force=lambda t: (0.0, 0.0, 0.0))
    other = inverse_control(
        pl.Quasistatic(replace(controller.model.robot, loads=[changing])), "tip"
    )
    states = release(other, other.take_over(state), 60)
    assert max(state.displacement for state in states) <= other.max_step


@pytest.mark.parametrize("offset", [(0.0, 0.01, 0.0), (0.01, 0.0, 0.0), (-0.01, 0.0, 0.0)])
def test_robot_lifts_off_the_ground(offset):
    """Its weight presses it on an obstacle: it lifts off as far as its cables can."""
    ground = pl.Contact(obstacle=pl.plane((1.0, 0.0, 0.0), -0.002))
    controller = inverse_control(pl.Quasistatic(arm(gravity=(-9.81, 0.0, 0.0), contacts=[ground])))
    first = controller.begin()
    state = controller.settle(first, first.positions + offset)
    assert state.displacement < 1e-6 * controller.length
    assert float(np.abs(state.positions - first.positions).max()) > 1e-3
    assert state.outcome in (REACHED, UNREACHABLE)


def test_message_names_exactly_the_active_limits():
    """With one control at its stroke, another one would help only in combination."""
    model = pl.Quasistatic(can("pressure", (0.0, 3000.0)))
    strokes = [StrokeLimit(actuator="pull", upper=5e-4)]
    controller = inverse_control(model, "top", strokes=strokes)
    first = controller.begin()
    state = controller.settle(first, first.positions + (0.02, 0.0, 0.0))
    assert (state.outcome, state.u[0]) == (UNREACHABLE, 3000.0)
    assert state.message.endswith(
        "limited by water (at its upper limit 3000), the stroke of 'pull'"
    )
    wider = inverse_control(pl.Quasistatic(can("pressure", (0.0, 3300.0))), "top", strokes=strokes)
    assert wider.settle(wider.begin(), first.positions + (0.02, 0.0, 0.0)).error < state.error


def test_irreversible_pump_is_limited_by_its_rate():
    controller = inverse_control(
        pl.Quasistatic(can("pressure", (0.0, np.inf))),
        "top",
        fixed={"pull": 0.0},
        directions="z",
        limits=[Limit(lower=(0.0, -1.0), upper=(500.0, 1.0), order=1)],
    )
    first = controller.begin()
    high = controller.settle(first, first.positions + (0.0, 0.0, 0.1))
    assert high.message.endswith("limited by a limit point")
    assert controller.settle(high, first.positions).message.endswith("limited by water")
