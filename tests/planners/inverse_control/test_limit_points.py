"""Inverse control at limit points: it stops before them, reports them and returns."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import can, chambers

import pliant as pl
from pliant.core import PliantError
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.planners import CONSTRAINT_VIOLATED, MOVING, REACHED, UNREACHABLE
from pliant.planners.inverse_control import inverse_control
from pliant.planners.inverse_control.limit_points import StableEquilibrium
from pliant.problem import Limit, StrokeLimit

UP = np.array([0.0, 0.0, 0.02])  # [m] further than the top of the can goes


@pytest.fixture(scope="module")
def model():
    return Quasistatic(can("pressure", (0.0, np.inf)))


@pytest.fixture(scope="module")
def controller(model):
    return inverse_control(model, "top")


@pytest.fixture(scope="module")
def largest(model):
    """Return the largest pressure [Pa] at which the solver finds an equilibrium, to within 1 Pa.

    The pressure increases slowly."""
    low, high, x = 0.0, 20_000.0, None
    while high - low > 1.0:
        pressure = min(low + 200.0, 0.5 * (low + high))
        try:
            low, x = pressure, equilibrium(model, np.array([pressure, 0.0]), x0=x).x
        except PliantError:
            high = pressure
    return low


def follow(controller, state, target, steps):
    """Return the states after some control steps towards a target."""
    out = []
    for _ in range(steps):
        state = controller.follow(state, target)
        out.append(state)
    return out


def test_robot_rests_within_one_percent_of_the_limit_pressure(controller, largest):
    first = controller.begin()
    states = follow(controller, first, first.positions + UP, 60)
    assert any("no stable equilibrium was found" in state.message for state in states)
    assert max(
        float(np.abs(state.positions - first.positions).max()) for state in states
    ) < 1.5 * float((states[-1].positions - first.positions)[0, 2])
    for state in states[-20:]:
        assert state.outcome == UNREACHABLE
        assert "limited by" in state.message
        assert "a limit point" in state.message
        assert state.displacement < 1e-9 * controller.length
        assert 0.99 * largest < state.u[0] < largest
    np.testing.assert_allclose(
        equilibrium(controller.model, states[-1].u, x0=states[-1].x).x,
        states[-1].x,
        atol=1e-7 * controller.length,
    )


def test_settle_terminates_at_a_limit_point(controller):
    first = controller.begin()
    end = controller.settle(first, first.positions + UP)
    assert (end.outcome, end.k < 60) == (UNREACHABLE, True)
    back = controller.settle(end, first.positions)
    assert back.ok
    assert back.error < 1e-4 * controller.length
    assert back.limit_points == ()


def test_manual_mode_stops_before_a_limit_point_and_releases(controller, largest):
    first = state = controller.begin()
    for _ in range(60):
        state = controller.manual(state, [1e5, 0.0])
    assert (state.outcome, state.message) == (
        CONSTRAINT_VIOLATED,
        "no stable equilibrium was found for the next controls: the robot would snap",
    )
    assert 0.98 * largest < state.u[0] < largest
    for _ in range(60):
        state = controller.manual(state, [0.0, 0.0])
    np.testing.assert_allclose(state.x, first.x, atol=1e-9)


def test_manual_mode_moves_other_controls_at_a_limit_point(controller):
    state = controller.begin()
    for _ in range(60):
        state = controller.manual(state, [1e5, 0.0])
    assert state.outcome == CONSTRAINT_VIOLATED
    states, pull = [], state.u[1]
    while state.u[1] < 0.5:
        state = controller.manual(state, [1e5, 0.5])
        assert state.u[1] > pull
        pull = state.u[1]
        states.append(state.outcome)
    assert set(states) == {MOVING}


def test_softened_irreversible_robot_can_still_move(model):
    """A load has made it a hundred times softer: the reversible cable must still move."""
    controller = inverse_control(
        model, "top", limits=[Limit(lower=(0.0, -1.0), upper=(100.0, 1.0), order=1)]
    )
    state = controller.manual(controller.manual(controller.begin(), [1000.0, 0.2]), [1000.0, 0.2])
    stiff = StableEquilibrium(
        x=controller.begin().x,
        u=controller.begin().u,
        mobility=0.01 * state.stable_equilibrium.mobility,
    )
    after = controller.manual(replace(state, stable_equilibrium=stiff), [1000.0, 0.0])
    assert after.u[1] < state.u[1]
    assert after.displacement > 0.0


def test_settle_reports_that_the_release_is_unfinished(controller):
    state = controller.settle(
        controller.resume(controller.begin().x, [1e5, 0.0], 0),
        controller.begin().positions,
        max_steps=2,
    )
    assert state.outcome == CONSTRAINT_VIOLATED
    assert state.message.startswith("still moving after 2 control steps (")


def test_return_from_a_limit_point_satisfies_rates(model, largest):
    controller = inverse_control(model, "top", limits=[Limit(lower=-300.0, upper=300.0, order=1)])
    first = before = controller.begin()
    for state in follow(controller, first, first.positions + UP, 80):
        assert np.abs(state.u - before.u).max() <= 300.0 * (1.0 + 1e-12)
        before = state
    assert state.outcome == UNREACHABLE
    assert 0.99 * largest < state.u[0] < largest


@pytest.mark.parametrize("rate", [100.0, 5000.0])
def test_irreversible_rate_stops_before_the_limit_point(model, largest, rate):
    controller = inverse_control(
        model, "top", limits=[Limit(lower=(0.0, -1.0), upper=(rate, 1.0), order=1)]
    )
    first = before = controller.begin()
    for state in follow(controller, first, first.positions + UP, 160):
        assert state.u[0] >= before.u[0]
        assert "no stable equilibrium" not in state.message
        before = state
    assert (state.outcome, "a limit point" in state.message) == (UNREACHABLE, True)
    assert state.displacement < 1e-9 * controller.length
    assert 0.99 * largest < state.u[0] < largest


def test_irreversible_stroke_stops_before_the_limit_point(model, largest):
    whole = model.equations.attached("water")[0].rest_volume
    controller = inverse_control(
        model,
        "top",
        strokes=[StrokeLimit(actuator="water", lower=0.0, upper=0.02 * whole, increment=True)],
    )
    constraint, first = controller.strokes[0], controller.begin()
    before = first
    for state in follow(controller, first, first.positions + UP, 250):
        assert constraint.value(state.x) - constraint.value(before.x) >= -1e-9 * whole
        before = state
    assert state.outcome == UNREACHABLE
    assert 0.98 * largest < state.u[0] < largest


def test_return_prevented_by_rates_is_reported(model):
    """It resumes from controls without an equilibrium."""
    controller = inverse_control(model, "top", limits=[Limit(lower=0.0, upper=np.inf, order=1)])
    first = controller.begin()
    state = controller.follow(controller.resume(first.x, [1e5, 0.0], 0), first.positions)
    assert state.outcome == CONSTRAINT_VIOLATED
    assert state.message.endswith("; its limits prevent a return")
    np.testing.assert_array_equal(state.u, [1e5, 0.0])


@pytest.mark.parametrize("fraction", [0.02, 0.5])
def test_return_from_a_limit_point_satisfies_increments(model, fraction):
    """A bound on the volume change per control step must not prevent the return."""
    whole = model.equations.attached("water")[0].rest_volume
    stroke = StrokeLimit(
        actuator="water", lower=-fraction * whole, upper=fraction * whole, increment=True
    )
    controller = inverse_control(model, "top", strokes=[stroke])
    constraint, first = controller.strokes[0], controller.begin()
    before = first
    for state in follow(controller, first, first.positions + UP, 300):
        assert abs(constraint.value(state.x) - constraint.value(before.x)) <= fraction * whole * (
            1.0 + 1e-9
        )
        before = state
    assert state.outcome == UNREACHABLE
    for _ in range(150):
        state = controller.manual(state, [0.0, 0.0])
    assert state.message == "manual"
    np.testing.assert_allclose(state.x, first.x, atol=1e-9)


def test_limit_point_after_a_long_soft_range_is_remembered():
    """A chamber loses its equilibrium long after it has become soft."""
    controller = inverse_control(Quasistatic(chambers("pressure", (0.0, np.inf))))
    state, asked, falls = controller.begin(), np.zeros(controller.model.n_controls), 0
    asked[0] = 1e6
    for k in range(320):
        state = controller.manual(state, asked)
        falls += "returned" in state.message
        assert k < 220 or state.displacement < 1e-6 * controller.length
    assert 0 < falls < 6
    assert state.outcome == CONSTRAINT_VIOLATED


@pytest.mark.parametrize("limits", [[], [Limit(lower=-500.0, upper=500.0, order=1)]])
def test_settle_continues_during_the_release(model, limits):
    controller = inverse_control(model, "top", limits=limits)
    first = controller.begin()
    state = controller.settle(
        controller.resume(first.x, [1e5 if not limits else 2e4, 0.0], 0), first.positions
    )
    assert state.outcome == REACHED


@pytest.mark.parametrize("comes", [0, 60])
def test_limit_point_is_forgotten_when_a_load_moves_it(comes):
    """The target is reached under a weight, whether it is there from the start or comes later."""
    weight = pl.PointLoad(
        point=(0.019, 0.0, 0.06), force=lambda t: (0.0, 0.0, -0.7 if t >= comes else 0.0)
    )
    robot = replace(can("pressure", (0.0, np.inf)), loads=[weight])
    controller = inverse_control(Quasistatic(robot), "top", fixed={"pull": 0.0}, directions="z")
    rest = inverse_control(Quasistatic(can("pressure", (0.0, np.inf))), "top").begin().positions
    state = follow(controller, controller.begin(), rest + (0.0, 0.0, 0.03), 55)[-1]
    assert state.outcome == UNREACHABLE
    assert follow(controller, state, rest + (0.0, 0.0, 0.0145), 60)[-1].outcome == REACHED


def test_stable_equilibrium_is_forgotten_when_its_load_is_removed(largest):
    """A weight on its top raises the limit pressure of the can."""
    removed = 40
    weight = pl.PointLoad(
        point=(0.019, 0.0, 0.06), force=lambda t: (0.0, 0.0, -1.5 if t < removed else 0.0)
    )
    robot = replace(can("pressure", (0.0, np.inf)), loads=[weight])
    controller = inverse_control(Quasistatic(robot), "top", fixed={"pull": 0.0}, directions="z")
    first = controller.begin()
    states = follow(controller, first, first.positions + 1.5 * UP, 140)
    assert states[removed - 2].u[0] > 1.01 * largest
    for state in states[-20:]:
        assert state.outcome == UNREACHABLE
        assert state.displacement < 1e-9 * controller.length
        assert 0.98 * largest < state.u[0] < largest


def test_controls_beyond_a_limit_point_are_released(controller, largest):
    first = controller.begin()
    state = controller.resume(first.x, [3e4, 0.0], 0)
    for _ in range(60):
        state = controller.manual(state, [0.0, 0.0])
    assert state.message == "manual"
    np.testing.assert_allclose(state.x, first.x, atol=1e-9)


def test_dynamic_robot_reports_bursting():
    controller = inverse_control(SemiImplicit(can("pressure", (0.0, np.inf)), dt=1 / 60), "top")
    first = state = controller.begin()
    for _ in range(90):  # the liquid's inertia delays the burst by 53 steps
        state = controller.manual(state, [1e5, 0.0])
        assert np.all(np.isfinite(state.x))
    assert (state.outcome, "has burst" in state.message, "begin again" in state.message) == (
        CONSTRAINT_VIOLATED,
        True,
        True,
    )
    again = controller.follow(controller.begin(), first.positions)
    assert again.ok


def test_take_over_keeps_limit_points(model, controller, raises_clear_error):
    first = controller.begin()
    end = controller.settle(first, first.positions + UP)
    other = inverse_control(model, "top", fixed={"pull": 0.0})
    state = other.take_over(end)
    np.testing.assert_array_equal(state.x, end.x)
    assert (state.k, state.limit_points) == (end.k, end.limit_points)
    for _ in range(5):
        state = other.follow(state, first.positions + UP)
        assert (state.outcome, state.displacement < 1e-9 * controller.length) == (UNREACHABLE, True)
    raises_clear_error(lambda: other.take_over(None), "The control state is 'None'")


def test_limit_point_is_forgotten_away_from_it(controller):
    first = controller.begin()
    end = controller.settle(first, first.positions + UP)
    away = replace(end, x=first.x, u=first.u, positions=first.positions)
    assert len(end.limit_points) == 1
    assert controller.follow(away, first.positions).limit_points == ()


def test_robot_between_two_limit_points_returns():
    """A can inflated against a ceiling has limit points on both sides."""
    ceiling = pl.Contact(obstacle=pl.plane((0.0, 0.0, -1.0), -0.064))
    robot = replace(
        can("volume", (0.5, 6.0)),
        contacts=[ceiling],
        actuators={"water": can("volume", (0.5, 6.0)).actuators["water"]},
    )
    controller = inverse_control(Quasistatic(robot), "top", obstacles=False)
    first = controller.begin()
    states = follow(controller, first, first.positions + (0.0, 0.0, 0.008), 80)
    assert states[-1].outcome == UNREACHABLE
    assert states[-1].displacement < 1e-6 * controller.length
    assert follow(controller, states[-1], first.positions, 40)[-1].outcome == REACHED


def test_unstable_equilibrium_is_found_to_round_off():
    """The straight can under the ceiling is an unstable equilibrium."""
    ceiling = pl.Contact(obstacle=pl.plane((0.0, 0.0, -1.0), -0.064))
    model = Quasistatic(replace(can("volume", (0.5, 6.0)), contacts=[ceiling]))
    step = equilibrium(model, np.array([5.0, 0.0]))
    assert step.status.text.startswith("converged to an unstable equilibrium")
    assert step.status.residual < 1e-6 * model.forces(step.tape)[2]
