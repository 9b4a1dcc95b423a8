"""Inverse control satisfies limits, rates, strokes, obstacles and fixed controls."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, can

import pliant as pl
from pliant.contact import AttachedContact
from pliant.planners import MOVING, READY, UNREACHABLE
from pliant.planners.inverse_control import inverse_control
from pliant.problem import Limit, StrokeLimit

BALL = pl.sphere((0.075, 0.02, 0.15), 0.02)  # 15 mm beside the arm's tip


def stroke(model, name, x):
    """Return the displacement [m or m^3] of an actuator."""
    term = model.equations.attached(name)[0]
    return float(term.displacement(model.equations.points(term, model.space.position(x))))


def wander(controller, rng, size, targets=4, steps=15):
    """Return the states of control steps towards random targets within `size` [m] of the start."""
    states = [controller.begin()]
    for _ in range(targets):
        target = states[0].positions + size * rng.uniform(-1.0, 1.0, states[0].positions.shape)
        for _ in range(steps):
            states.append(controller.follow(states[-1], target))
    return states


@pytest.mark.parametrize("name", ROBOTS)
def test_controls_stay_within_their_limits(name, rng):
    robot = ROBOTS[name]()
    lower, upper = robot.control_limits()
    states = wander(inverse_control(pl.Quasistatic(robot)), rng, 0.1 * 0.2)
    u = np.array([state.u for state in states])
    assert np.all(u >= lower)
    assert np.all(u <= upper)
    assert np.all(np.isfinite([state.x for state in states]))
    assert [state.k for state in states] == list(range(len(states)))


def test_additional_limits_and_rates_are_satisfied(rng):
    limits = [Limit(lower=0.1, upper=[2.0, 1.0, 2.0, 1.0]), Limit(lower=-0.15, upper=0.1, order=1)]
    controller = inverse_control(pl.Quasistatic(arm()), limits=limits)
    u = np.array([state.u for state in wander(controller, rng, 0.02)])
    assert np.all(u >= 0.1)
    assert np.all(u <= [2.0, 1.0, 2.0, 1.0])
    change = np.diff(u, axis=0)  # a control step counts one second
    assert change.min() >= -0.15 - 1e-12
    assert change.max() <= 0.1 + 1e-12
    assert np.mean((change > 0.099) | (change < -0.149)) > 0.1  # the limit was active


@pytest.mark.parametrize("dt", [None, 0.01])
def test_strokes_are_never_exceeded(rng, dt):
    """The stroke and its change in each control step."""
    upper, most = 0.004, 3e-4
    qp = [StrokeLimit(actuator=name, upper=upper) for name in "abcd"]
    qp += [StrokeLimit(actuator=name, lower=-most, upper=most, increment=True) for name in "abcd"]
    model = pl.Quasistatic(arm()) if dt is None else pl.SemiImplicit(arm(), dt=dt)
    controller = inverse_control(model, strokes=qp)
    states = wander(controller, rng, 0.03, steps=40)
    taken = np.array([[stroke(model, name, state.x) for name in "abcd"] for state in states])
    assert taken.max() <= upper
    assert taken.max() > 0.99 * upper  # the limit was active
    assert np.abs(np.diff(taken, axis=0)).max() <= most
    assert np.abs(np.diff(taken, axis=0)).max() > 0.8 * most


def test_lower_stroke_limit_keeps_the_cable_retracted(rng):
    model = pl.Quasistatic(arm())
    controller = inverse_control(model, strokes=[StrokeLimit(actuator="a", lower=0.002)])
    begun = controller.begin(u=np.array([2.0, 1.0, 1.0, 1.0]))
    state = controller.settle(begun, begun.positions + (0.05, 0.0, 0.0))
    assert 0.002 <= stroke(model, "a", state.x) < 0.00205
    assert "the stroke of 'a'" in state.message


def test_stroke_limit_bounds_the_growth_of_a_chamber(rng):
    robot = ROBOTS["stiff-flop"]()
    model = pl.Quasistatic(robot)
    free = inverse_control(model)
    begun = free.begin()
    target = begun.positions + (0.0, 0.03, 0.0)
    names = [
        name
        for name, actuator in robot.actuators.items()
        if isinstance(actuator, pl.actuators.Pressure)
    ]
    grown = {name: stroke(model, name, free.settle(begun, target).x) for name in names}
    most = max(grown, key=grown.get)
    upper = 0.4 * grown[most]
    held = inverse_control(model, strokes=[StrokeLimit(actuator=most, upper=upper)])
    state, seen = held.begin(), []
    for _ in range(40):
        state = held.follow(state, target)
        seen.append(stroke(model, most, state.x))
    assert max(seen) <= upper
    assert seen[-1] > 0.95 * upper
    np.testing.assert_allclose(pl.equilibrium(model, state.u, x0=state.x).x, state.x, atol=1e-8)


@pytest.mark.parametrize("dt", [None, 0.01, 0.002])
def test_strokes_are_satisfied_in_manual_mode(dt):
    model = pl.Quasistatic(arm()) if dt is None else pl.SemiImplicit(arm(), dt=dt)
    controller = inverse_control(model, strokes=[StrokeLimit(actuator="a", upper=0.003)])
    states = [controller.begin()]
    for _ in range(120):
        states.append(controller.manual(states[-1], [6.0, 0.0, 0.0, 0.0]))
    seen = [stroke(model, "a", state.x) for state in states]
    assert max(seen) <= 0.003
    assert seen[-1] > 0.0029
    assert states[-1].u[0] < 6.0
    assert all(state.outcome in (READY, MOVING, UNREACHABLE) for state in states)
    if dt is None:
        assert (states[-1].outcome, states[-1].message) == (
            UNREACHABLE,
            "as close as the limits allow: limited by the stroke of 'a'",
        )
    assert np.all(np.array([state.u[1:] for state in states]) == 0.0)  # no other cable is used
    state = states[-1]
    for _ in range(120):
        state = controller.manual(state, [0.2, 0.3, 0.0, 0.0])
    np.testing.assert_array_equal(state.u, [0.2, 0.3, 0.0, 0.0])
    assert state.message == "manual"


def test_stroke_violated_by_inertia_is_reported():
    """The tip moves at 3 m/s, which the weak actuators cannot stop in time."""
    model = pl.SemiImplicit(arm(), dt=0.01)
    controller = inverse_control(
        model, strokes=[StrokeLimit(actuator="a", upper=0.003)], limits=[Limit(upper=0.5)]
    )
    begun = controller.begin()
    q = model.space.position(begun.x).reshape(-1, 3)
    thrown = replace(
        begun, x=np.concatenate([q.ravel(), (q[:, 2:] ** 2 / 0.16**2 * (-3.0, 0.0, 0.0)).ravel()])
    )
    for take_step in (
        lambda state: controller.manual(state, np.zeros(4)),
        lambda state: controller.follow(state, begun.positions),
    ):
        state, passed = thrown, 0
        for _ in range(6):
            state = take_step(state)
            over = stroke(model, "a", state.x) > 0.003
            passed += over
            assert not over or (state.ok, state.message) == (
                False,
                "constraint violated: the stroke of 'a'",
            )
        assert passed > 0


@pytest.mark.parametrize("dt", [None, 0.01])
def test_robot_avoids_obstacles(dt):
    """A ball between the arm and its target: every surface point stays outside, and the message
    names the obstacle."""
    robot = arm(contacts=[pl.Contact(obstacle=BALL)])
    model = pl.Quasistatic(robot) if dt is None else pl.SemiImplicit(robot, dt=dt)
    controller = inverse_control(model)
    state, gaps, texts = controller.begin(), [], []
    term = next(term for term, _ in model.equations.potentials if isinstance(term, AttachedContact))
    for target in np.repeat(
        state.positions
        + np.array([[[0.03, 0.0, -0.005]], [[0.03, 0.012, -0.005]], [[-0.01, 0.0, 0.0]]]),
        60,
        axis=0,
    ):
        state = controller.follow(state, target)
        gaps.append(BALL(model.equations.points(term, model.space.position(state.x)))[0].min())
        texts.append(state.message)
    assert min(gaps) > 0.0
    assert min(gaps) < 5e-4  # the limit was active
    assert texts[59].startswith("the target is out of reach")
    assert texts[59].endswith("an obstacle")


def test_robot_touches_the_obstacle_if_obstacles_are_ignored():
    robot = arm(contacts=[pl.Contact(obstacle=BALL)])
    model = pl.Quasistatic(robot)
    controller = inverse_control(model, obstacles=False)
    state, term = controller.begin(), model.equations.potentials[-1][0]
    for _ in range(40):
        state = controller.follow(state, controller.begin().positions + (0.03, 0.0, -0.005))
    assert BALL(model.equations.points(term, model.space.position(state.x)))[0].min() < 0.0


@pytest.mark.parametrize(
    ("beside", "asked"),
    [(0.03, [0.0, 4.0, 4.0, 0.0]), (0.02, [0.0, 6.0, 1.0, 0.0]), (0.01, [0.0, 5.0, 3.0, 0.0])],
)
def test_slip_off_an_obstacle_is_not_reported_as_lost_equilibrium(beside, asked):
    """The equilibrium takes the model's solver many iterations."""
    robot = arm(contacts=[pl.Contact(obstacle=pl.sphere((0.075, beside, 0.15), 0.02))])
    controller = inverse_control(pl.Quasistatic(robot), obstacles=False)
    state, texts = controller.begin(), set()
    for _ in range(80):
        state = controller.manual(state, asked)
        texts.add(state.message)
    assert state.message == "manual"
    assert texts == {"moving", "manual"}


def test_unavoidable_obstacle_violation_is_reported():
    """The foot is clamped inside a ball."""
    ball = pl.sphere((0.05, 0.02, 0.02), 0.02)
    model = pl.Quasistatic(arm(contacts=[pl.Contact(obstacle=ball)]))
    controller = inverse_control(model)
    state = controller.begin()
    for _ in range(10):
        state = controller.follow(state, state.positions + (0.01, 0.0, 0.0))
        assert np.all(np.isfinite(state.x))
    assert state.ok is False
    assert state.message == "constraint violated: an obstacle"


def test_obstacles_are_selected_by_index():
    other = pl.sphere((0.02, 0.02, 0.5), 0.02)
    robot = arm(contacts=[pl.Contact(obstacle=other), pl.Contact(obstacle=BALL)])
    met = lambda **options: [
        constraint.term.contact.obstacle
        for constraint in inverse_control(pl.Quasistatic(robot), **options).obstacles
    ]
    assert met(obstacles=(1,)) == [BALL]
    assert met() == [other, BALL]


def test_fixed_cable_length_stays_constant():
    """Three cables are controlled; the fourth is a tendon of fixed length."""
    cables = arm().actuators
    robot = arm(
        actuators={
            **cables,
            "a": replace(cables["a"], drive="length", limits=(0.5, 1.5), stiffness=2e3),
        }
    )
    model = pl.Quasistatic(robot)
    controller = inverse_control(model, fixed={"a": 0.95})
    begun = controller.begin()
    assert begun.u[0] == 0.95
    assert stroke(model, "a", begun.x) > 0.005  # it bends the arm from the start
    target = begun.positions + (0.004, 0.0, -0.001)
    state = controller.settle(begun, target)
    assert state.u[0] == 0.95
    assert state.message == "at the target"
    assert controller.manual(state, np.full(4, 1.2)).u[0] == 0.95
    np.testing.assert_allclose(pl.equilibrium(model, state.u, x0=state.x).x, state.x, atol=1e-8)


@pytest.mark.parametrize(("name", "swells"), [("volumes", 0.02), ("gas", 0.2)])
def test_fixed_chamber_keeps_its_volume_or_gas(name, swells):
    """A closed liquid keeps its volume, closed air follows Boyle's law."""
    robot = ROBOTS[name]()
    model, names = pl.Quasistatic(robot), list(robot.actuators)
    controller, at = inverse_control(model, fixed={"lower-1": 1.0}), names.index("lower-1")
    goal, most = robot.neutral_controls(), robot.control_limits()[1]
    for other, fraction in (("upper-2", 0.6), ("lower-3", 0.5)):
        goal[names.index(other)] = 1.0 + fraction * (most[names.index(other)] - 1.0)
    state = controller.settle(
        controller.begin(), robot.effector_position("tip", pl.equilibrium(model, goal).x)[None]
    )
    assert state.u[at] == 1.0
    assert state.message == "at the target"
    assert np.delete(state.u, at).max() > 1.001
    term = model.equations.attached("lower-1")[0]
    y = model.equations.points(term, state.x)
    assert 1e-6 < abs(term.displacement(y)) / term.rest_volume < swells
    if name == "gas":
        assert (term.pressure(y, np.ones(1)) + 101325.0) * term.volume(y) == pytest.approx(
            101325.0 * term.rest_volume, rel=1e-12
        )


def test_contradicting_limits_keep_the_controls_unchanged():
    """A slow actuator cannot return within its limits in one control step."""
    controller = inverse_control(
        pl.Quasistatic(arm()), limits=[Limit(lower=-0.1, upper=0.1, order=1), Limit(upper=2.0)]
    )
    begun = controller.begin()
    state = controller.follow(replace(begun, u=np.full(4, 3.0)), begun.positions)
    assert state.ok is False
    assert "no controls satisfy all limits together" in state.message
    np.testing.assert_array_equal(state.x, begun.x)


def test_irreversible_stroke_allows_rest():
    model = pl.Quasistatic(can("pressure", (0.0, np.inf)))
    whole = model.equations.attached("water")[0].rest_volume
    controller = inverse_control(
        model,
        "top",
        strokes=[StrokeLimit(actuator="water", lower=0.0, upper=0.02 * whole, increment=True)],
    )
    first = state = controller.begin()
    for _ in range(5):
        state = controller.follow(state, first.positions)
    np.testing.assert_allclose(state.x, first.x, atol=1e-9 * controller.length)


def test_rest_shape_inside_an_obstacle_is_rejected(raises_clear_error):
    robot = replace(
        can("pressure", (0.0, np.inf)),
        contacts=[pl.Contact(obstacle=pl.sphere((0.02, 0.0, 0.06), 0.008))],
    )
    raises_clear_error(
        inverse_control(pl.Quasistatic(robot), "top").begin,
        "rest shape is 0.008 m deep in an obstacle",
    )
    inverse_control(pl.Quasistatic(robot), "top", obstacles=False).begin()
    aside = pl.Quasistatic(
        replace(
            can("pressure", (0.0, np.inf)),
            contacts=[pl.Contact(obstacle=pl.sphere((0.04, 0.0, 0.06), 0.008))],
        )
    )
    controller = inverse_control(aside, "top")
    raises_clear_error(
        lambda: controller.begin(x=controller.begin().x + np.tile((0.02, 0.0, 0.0), 116)),
        "first state is 0.00769 m deep",
    )


@pytest.mark.parametrize("centre", [(0.031, 0.0, 0.05), (0.005, 0.002, 0.071)])
def test_manual_contact_is_made_and_released_in_few_steps(centre):
    """The layer of a contact is much thinner than a control step."""
    robot = replace(
        can("pressure", (0.0, np.inf)), contacts=[pl.Contact(obstacle=pl.sphere(centre, 0.01))]
    )
    controller = inverse_control(pl.Quasistatic(robot), "top")
    first = state = controller.begin()
    for _ in range(20):
        state = controller.manual(state, [7000.0, 0.2])
    assert state.message == "manual"
    assert controller.obstacles[0].gaps(state.x).min() < 0.0
    for _ in range(20):
        state = controller.manual(state, [0.0, 0.0])
    np.testing.assert_allclose(state.x, first.x, atol=1e-9 * controller.length)


def test_manual_mode_reports_an_irreversible_rate():
    controller = inverse_control(
        pl.Quasistatic(arm()), limits=[Limit(lower=0.0, upper=1.0, order=1)]
    )
    state = controller.begin(u=[2.0, 0.0, 2.0, 0.0])
    for _ in range(3):
        state = controller.manual(state, np.zeros(4))
    assert (state.outcome, state.message) == (
        UNREACHABLE,
        "as close as the limits allow: limited by a, c",
    )


def test_distant_obstacle_has_no_effect():
    """The model's solver is not called for a contact out of range."""
    away = pl.Contact(obstacle=pl.sphere((5.0, 0.0, 0.0), 0.1))
    free, beside = (
        inverse_control(pl.Quasistatic(arm(contacts=contacts)), max_step=0.5)
        for contacts in ([], [away])
    )
    a, b = free.begin(), beside.begin()
    for _ in range(10):
        a, b = (
            free.follow(a, a.positions + (0.15, 0.1, -0.1)),
            beside.follow(b, b.positions + (0.15, 0.1, -0.1)),
        )
        np.testing.assert_allclose(b.x, a.x, atol=1e-12)


def test_change_to_a_limit_ends_exactly_at_it():
    """Rounding of u + change does not leave a control next to its limit."""
    ranges = inverse_control(pl.Quasistatic(arm()), "tip").controls
    rng = np.random.default_rng(0)
    n = len(ranges.neutral)
    for _ in range(200):
        u, scale = rng.uniform(0.0, 1.0, n), rng.uniform(0.1, 10.0, n)
        change = (scale * (0.0 - u)) / scale  # as returned by a program with scaled variables
        np.testing.assert_array_equal(ranges.add_change(u, change), np.zeros(n))
