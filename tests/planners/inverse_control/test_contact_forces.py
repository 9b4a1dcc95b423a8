"""Bounds on contact forces: closed forms of point masses, and a finger that leans on a wall."""

import numpy as np
import pytest
from scipy.optimize import brentq

import pliant as pl
from pliant.planners import CONSTRAINT_VIOLATED, UNREACHABLE, ContactForceLimit
from pliant.planners.inverse_control import inverse_control

STIFFNESS, LAYER = 1e4, 1e-4  # [N/m], [m] of the contact
SPRING, HEIGHT = 100.0, 0.004  # [N/m] of both supports together, [m] above the ground
MASS, FRICTION, SLIP_SPEED = 0.2, 0.5, 1e-3


def masses(dim, **changes):
    """Two masses, the first one with a controlled force."""
    points = np.zeros((2, dim))
    points[1, 0] = 0.1
    return pl.Robot(
        shape=pl.PointMass(points=points, mass_each=MASS),
        actuators={"force": pl.actuators.Thrust(point=points[0], limits=(-20.0, 20.0))},
        effectors={"tip": pl.Effector(point=points[0])},
        **changes,
    )


def sprung_masses():
    ground = pl.Contact(obstacle=pl.plane((0.0, 1.0), -HEIGHT), stiffness=STIFFNESS, layer=LAYER)
    support = pl.Support(region="body", stiffness=SPRING)
    return pl.Quasistatic(masses(2, supports=[support], contacts=[ground]))


def normal_force(controller, state):
    return controller.contact_forces[0].value(controller.model.space.position(state.x))


def pressing_force(normal):
    """The force on a mass that presses on the ground with a normal force [N], in closed form."""
    return normal + 0.5 * SPRING * (HEIGHT + normal / STIFFNESS + 0.5 * LAYER)


@pytest.mark.parametrize("upper", [0.5, 2.0, 5.0])
def test_normal_force_ends_at_its_upper_bound_as_in_closed_form(upper):
    controller = inverse_control(
        sprung_masses(),
        "tip",
        directions=("y",),
        contact_forces=[ContactForceLimit(contact=0, upper=upper)],
    )
    state, forces = controller.begin(), []
    for _ in range(40):
        state = controller.follow(state, [[0.0, -0.03]])
        forces.append(normal_force(controller, state))
    assert max(forces) <= upper
    assert forces[-1] == pytest.approx(upper, rel=1e-6)
    assert -state.u[1] == pytest.approx(pressing_force(upper), rel=1e-6)
    assert state.outcome == UNREACHABLE
    assert "the force of contact 0" in state.message


def test_lower_bound_keeps_a_pressed_mass_on_the_ground():
    model, lower = sprung_masses(), 0.8
    controller = inverse_control(
        model,
        "tip",
        directions=("y",),
        contact_forces=[ContactForceLimit(contact=0, lower=lower)],
    )
    pressed = controller.begin(u=[0.0, -pressing_force(3.0)])
    assert normal_force(controller, pressed) == pytest.approx(3.0, rel=1e-6)
    state = controller.settle(pressed, [[0.0, 0.01]])
    assert lower <= normal_force(controller, state) < 1.01 * lower
    assert -state.u[1] == pytest.approx(pressing_force(lower), rel=0.01)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_sticking_contact_uses_its_share_of_the_friction_cone(dim, share):
    """A mass on the ground is drawn sideways. The force ends at the share of Coulomb's friction,
    and the mass creeps with the velocity at which the regularised friction has this share."""
    up = np.eye(dim)[-1]
    ground = pl.Contact(
        obstacle=pl.plane(up, 0.0),
        stiffness=STIFFNESS,
        layer=LAYER,
        friction=FRICTION,
        slip_speed=SLIP_SPEED,
    )
    robot = masses(dim, gravity=-9.81 * up, contacts=[ground])
    model = pl.SemiImplicit(robot, dt=0.01)
    rest = robot.body().rest.reshape(-1, dim) - up * (MASS * 9.81 / STIFFNESS + 0.5 * LAYER)
    controller = inverse_control(
        model,
        "tip",
        directions=("xy"[: dim - 1],),
        contact_forces=[ContactForceLimit(contact=0, friction_share=share)],
    )
    state = controller.begin(x=model.state(rest.ravel()))
    target = np.array([[1.0, 1.0, 0.0][:dim]])  # along an edge of the pyramid
    for _ in range(30):
        state = controller.follow(state, target)
        assert state.outcome != CONSTRAINT_VIOLATED
    sideways, velocity = state.u[: dim - 1], model.space.velocity(state.x)[: dim - 1]
    assert np.linalg.norm(sideways) == pytest.approx(share * FRICTION * MASS * 9.81, rel=1e-6)
    creep = SLIP_SPEED * share / np.sqrt(1.0 - share**2)
    assert np.linalg.norm(velocity) == pytest.approx(creep, rel=1e-6)


def test_finger_presses_on_a_wall_with_the_bounded_force():
    """An independent search of the tension with the same contact force agrees."""
    wall = pl.Contact(obstacle=pl.plane((-1.0, 0.0, 0.0), -0.02), surface="x+")
    line = pl.Cable(points=[(0.012, 0.0, z) for z in (0.0, 0.05, 0.1)], limits=(0.0, 6.0))
    finger = pl.Robot(
        shape=pl.Box(size=(0.015, 0.015, 0.1), origin=(0.0, -0.0075, 0.0)),
        divisions=(2, 2, 8),
        order=1,
        material=pl.Material(E=2e5, nu=0.4, density=1000.0),
        supports=[pl.Support(region="z-")],
        contacts=[wall],
        effectors={"tip": pl.Effector(surface="z+")},
        actuators={"line": line},
    )
    model, upper = pl.Quasistatic(finger), 0.15
    controller = inverse_control(
        model,
        "tip",
        directions=("x",),
        contact_forces=[ContactForceLimit(contact=0, upper=upper)],
    )
    start = controller.begin()
    state = controller.settle(start, start.positions + (0.05, 0.0, 0.0))
    assert normal_force(controller, state) == pytest.approx(upper, rel=5e-3)
    assert normal_force(controller, state) <= upper

    def excess(tension):
        q = pl.equilibrium(model, [tension], x0=state.x).x
        return controller.contact_forces[0].value(q) - upper

    assert state.u[0] == pytest.approx(brentq(excess, 0.8 * state.u[0], 1.2 * state.u[0]), rel=5e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contact": -1, "upper": 1.0}, "give its index"),
        ({"contact": 0}, "has no bound"),
        ({"contact": 0, "lower": 2.0, "upper": 1.0}, "0 <= lower <= upper"),
        ({"contact": 0, "friction_share": 1.0}, "between 0 and 1"),
    ],
)
def test_inconsistent_limits_are_refused(arguments, message):
    with pytest.raises(pl.InputError, match=message):
        ContactForceLimit(**arguments)


@pytest.mark.parametrize(
    ("limit", "obstacles", "message"),
    [
        (ContactForceLimit(contact=3, upper=1.0), True, "has 1 contact"),
        (ContactForceLimit(contact=0, friction_share=0.5), True, "does not act on a Quasistatic"),
        (ContactForceLimit(contact=0, upper=1.0), [0], "cannot avoid it and lean on it"),
        (2.0, True, "give ContactForceLimit"),
    ],
)
def test_limits_that_do_not_fit_the_robot_are_refused(limit, obstacles, message):
    with pytest.raises(pl.InputError, match=message):
        inverse_control(sprung_masses(), "tip", obstacles=obstacles, contact_forces=[limit])


def test_friction_share_needs_friction():
    model = pl.SemiImplicit(sprung_masses().robot, dt=0.01)
    with pytest.raises(pl.InputError, match="the contact has no friction"):
        inverse_control(
            model, "tip", contact_forces=[ContactForceLimit(contact=0, friction_share=0.5)]
        )
