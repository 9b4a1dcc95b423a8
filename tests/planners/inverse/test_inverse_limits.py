"""What inverse control keeps on its way: limits, rates, strokes, obstacles, and what stays as it
is."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, can

import pliant as pl
from pliant.contact import AttachedContact
from pliant.planners import BEYOND, MOVING, READY, inverse
from pliant.problem import Limit, Stroke

BALL = pl.sphere((0.075, 0.02, 0.15), 0.02)  # 15 mm beside the arm's tip


def stroke(model, name, x):
    """[m or m^3] the displacement of an actuator."""
    term = model.equations.attached(name)[0]
    return float(term.displacement(model.equations.points(term, model.space.position(x))))


def wander(controller, rng, size, targets=4, ticks=15):
    """The poses of ticks towards random targets within some metres of the start."""
    poses = [controller.begin()]
    for _ in range(targets):
        target = poses[0].places + size * rng.uniform(-1.0, 1.0, poses[0].places.shape)
        for _ in range(ticks):
            poses.append(controller.follow(poses[-1], target))
    return poses


@pytest.mark.parametrize("name", ROBOTS)
def test_no_tick_leaves_the_limits_of_the_controls(name, rng):
    robot = ROBOTS[name]()
    lower, upper = robot.control_limits()
    poses = wander(inverse(pl.Quasistatic(robot)), rng, 0.1 * 0.2)
    u = np.array([pose.u for pose in poses])
    assert np.all(u >= lower)
    assert np.all(u <= upper)
    assert np.all(np.isfinite([pose.x for pose in poses]))
    assert [pose.k for pose in poses] == list(range(len(poses)))


def test_limits_beside_those_of_the_motors_and_rates_are_kept(rng):
    limits = [Limit(lower=0.1, upper=[2.0, 1.0, 2.0, 1.0]), Limit(lower=-0.15, upper=0.1, order=1)]
    controller = inverse(pl.Quasistatic(arm()), limits=limits)
    u = np.array([pose.u for pose in wander(controller, rng, 0.02)])
    assert np.all(u >= 0.1)
    assert np.all(u <= [2.0, 1.0, 2.0, 1.0])
    change = np.diff(u, axis=0)  # a tick counts one second
    assert change.min() >= -0.15 - 1e-12
    assert change.max() <= 0.1 + 1e-12
    assert np.mean((change > 0.099) | (change < -0.149)) > 0.1  # they were in the way


@pytest.mark.parametrize("dt", [None, 0.01])
def test_strokes_are_never_passed(rng, dt):
    """The cable taken in, and in each tick."""
    upper, most = 0.004, 3e-4
    wish = [Stroke(actuator=name, upper=upper) for name in "abcd"]
    wish += [Stroke(actuator=name, lower=-most, upper=most, increment=True) for name in "abcd"]
    model = pl.Quasistatic(arm()) if dt is None else pl.SemiImplicit(arm(), dt=dt)
    controller = inverse(model, strokes=wish)
    poses = wander(controller, rng, 0.03, ticks=40)
    taken = np.array([[stroke(model, name, pose.x) for name in "abcd"] for pose in poses])
    assert taken.max() <= upper
    assert taken.max() > 0.99 * upper  # it was in the way
    assert np.abs(np.diff(taken, axis=0)).max() <= most
    assert np.abs(np.diff(taken, axis=0)).max() > 0.8 * most


def test_a_lower_stroke_keeps_a_cable_in(rng):
    model = pl.Quasistatic(arm())
    controller = inverse(model, strokes=[Stroke(actuator="a", lower=0.002)])
    begun = controller.begin(u=np.array([2.0, 1.0, 1.0, 1.0]))
    pose = controller.settle(begun, begun.places + (0.05, 0.0, 0.0))
    assert 0.002 <= stroke(model, "a", pose.x) < 0.00205
    assert "the stroke of 'a'" in pose.text


def test_the_growth_of_a_chamber_is_kept(rng):
    robot = ROBOTS["stiff-flop"]()
    model = pl.Quasistatic(robot)
    free = inverse(model)
    begun = free.begin()
    target = begun.places + (0.0, 0.03, 0.0)
    names = [
        name
        for name, actuator in robot.actuators.items()
        if isinstance(actuator, pl.actuators.Pressure)
    ]
    grown = {name: stroke(model, name, free.settle(begun, target).x) for name in names}
    most = max(grown, key=grown.get)
    upper = 0.4 * grown[most]
    held = inverse(model, strokes=[Stroke(actuator=most, upper=upper)])
    pose, seen = held.begin(), []
    for _ in range(40):
        pose = held.follow(pose, target)
        seen.append(stroke(model, most, pose.x))
    assert max(seen) <= upper
    assert seen[-1] > 0.95 * upper
    np.testing.assert_allclose(pl.equilibrium(model, pose.u, x0=pose.x).x, pose.x, atol=1e-8)


@pytest.mark.parametrize("dt", [None, 0.01, 0.002])
def test_strokes_are_kept_by_hand_too(dt):
    model = pl.Quasistatic(arm()) if dt is None else pl.SemiImplicit(arm(), dt=dt)
    controller = inverse(model, strokes=[Stroke(actuator="a", upper=0.003)])
    poses = [controller.begin()]
    for _ in range(120):
        poses.append(controller.manual(poses[-1], [6.0, 0.0, 0.0, 0.0]))
    seen = [stroke(model, "a", pose.x) for pose in poses]
    assert max(seen) <= 0.003
    assert seen[-1] > 0.0029
    assert poses[-1].u[0] < 6.0
    assert all(pose.state in (READY, MOVING, BEYOND) for pose in poses)
    if dt is None:
        assert (poses[-1].state, poses[-1].text) == (
            BEYOND,
            "as far as limits allow: held by the stroke of 'a'",
        )
    assert np.all(
        np.array([pose.u[1:] for pose in poses]) == 0.0
    )  # no other cable pulls that nobody asked to
    pose = poses[-1]
    for _ in range(120):
        pose = controller.manual(pose, [0.2, 0.3, 0.0, 0.0])
    np.testing.assert_array_equal(pose.u, [0.2, 0.3, 0.0, 0.0])
    assert pose.text == "by hand"


def test_a_stroke_that_a_swing_passes_is_said():
    """The arm is thrown over at 3 m/s at its tip, which weak motors cannot stop soon enough."""
    model = pl.SemiImplicit(arm(), dt=0.01)
    controller = inverse(
        model, strokes=[Stroke(actuator="a", upper=0.003)], limits=[Limit(upper=0.5)]
    )
    begun = controller.begin()
    q = model.space.position(begun.x).reshape(-1, 3)
    thrown = replace(
        begun, x=np.concatenate([q.ravel(), (q[:, 2:] ** 2 / 0.16**2 * (-3.0, 0.0, 0.0)).ravel()])
    )
    for tick in (
        lambda pose: controller.manual(pose, np.zeros(4)),
        lambda pose: controller.follow(pose, begun.places),
    ):
        pose, passed = thrown, 0
        for _ in range(6):
            pose = tick(pose)
            over = stroke(model, "a", pose.x) > 0.003
            passed += over
            assert not over or (pose.ok, pose.text) == (False, "the stroke of 'a' cannot be kept")
        assert passed > 0


@pytest.mark.parametrize("dt", [None, 0.01])
def test_obstacles_are_kept_off(dt):
    """A ball between the arm and its target: every point of the surface stays out, and the text
    says what is in the way."""
    robot = arm(contacts=[pl.Contact(obstacle=BALL)])
    model = pl.Quasistatic(robot) if dt is None else pl.SemiImplicit(robot, dt=dt)
    controller = inverse(model)
    pose, gaps, texts = controller.begin(), [], []
    term = next(term for term, _ in model.equations.terms if isinstance(term, AttachedContact))
    for target in np.repeat(
        pose.places
        + np.array([[[0.03, 0.0, -0.005]], [[0.03, 0.012, -0.005]], [[-0.01, 0.0, 0.0]]]),
        60,
        axis=0,
    ):
        pose = controller.follow(pose, target)
        gaps.append(BALL(model.equations.points(term, model.space.position(pose.x)))[0].min())
        texts.append(pose.text)
    assert min(gaps) > 0.0
    assert min(gaps) < 5e-4  # it was in the way
    assert texts[59].startswith("the target is out of reach")
    assert texts[59].endswith("an obstacle")


def test_an_arm_that_need_not_keep_off_leans_on_the_obstacle():
    robot = arm(contacts=[pl.Contact(obstacle=BALL)])
    model = pl.Quasistatic(robot)
    controller = inverse(model, obstacles=False)
    pose, term = controller.begin(), model.equations.terms[-1][0]
    for _ in range(40):
        pose = controller.follow(pose, controller.begin().places + (0.03, 0.0, -0.005))
    assert BALL(model.equations.points(term, model.space.position(pose.x)))[0].min() < 0.0


@pytest.mark.parametrize(
    ("beside", "asked"),
    [(0.03, [0.0, 4.0, 4.0, 0.0]), (0.02, [0.0, 6.0, 1.0, 0.0]), (0.01, [0.0, 5.0, 3.0, 0.0])],
)
def test_an_arm_that_slips_off_an_obstacle_is_not_said_to_burst(beside, asked):
    """Where it comes to rest takes the model's own solver more iterations than most."""
    robot = arm(contacts=[pl.Contact(obstacle=pl.sphere((0.075, beside, 0.15), 0.02))])
    controller = inverse(pl.Quasistatic(robot), obstacles=False)
    pose, texts = controller.begin(), set()
    for _ in range(80):
        pose = controller.manual(pose, asked)
        texts.add(pose.text)
    assert pose.text == "by hand"
    assert texts == {"moving", "by hand"}


def test_an_obstacle_that_the_robot_stands_in_is_left_as_far_as_can_be_and_said():
    """The foot is clamped within a ball, where no control can lift it out."""
    ball = pl.sphere((0.05, 0.02, 0.02), 0.02)
    model = pl.Quasistatic(arm(contacts=[pl.Contact(obstacle=ball)]))
    controller = inverse(model)
    pose = controller.begin()
    for _ in range(10):
        pose = controller.follow(pose, pose.places + (0.01, 0.0, 0.0))
        assert np.all(np.isfinite(pose.x))
    assert pose.ok is False
    assert pose.text == "an obstacle cannot be kept"


def test_some_of_the_obstacles_can_be_chosen():
    other = pl.sphere((0.02, 0.02, 0.5), 0.02)
    robot = arm(contacts=[pl.Contact(obstacle=other), pl.Contact(obstacle=BALL)])
    met = lambda **chosen: [
        guard.term.contact.obstacle for guard in inverse(pl.Quasistatic(robot), **chosen).obstacles
    ]
    assert met(obstacles=(1,)) == [BALL]
    assert met() == [other, BALL]


def test_a_cable_of_fixed_length_stays_and_holds_back():
    """Three cables lead; the fourth is a tendon of fixed length, and pulls where it is
    stretched."""
    cables = arm().actuators
    robot = arm(
        actuators={
            **cables,
            "a": replace(cables["a"], drive="length", limits=(0.5, 1.5), stiffness=2e3),
        }
    )
    model = pl.Quasistatic(robot)
    controller = inverse(model, fixed={"a": 0.95})
    begun = controller.begin()
    assert begun.u[0] == 0.95
    assert stroke(model, "a", begun.x) > 0.005  # it bends the arm from the start
    target = begun.places + (0.004, 0.0, -0.001)
    pose = controller.settle(begun, target)
    assert pose.u[0] == 0.95
    assert pose.text == "at the target"
    assert controller.manual(pose, np.full(4, 1.2)).u[0] == 0.95
    np.testing.assert_allclose(pl.equilibrium(model, pose.u, x0=pose.x).x, pose.x, atol=1e-8)


@pytest.mark.parametrize(("name", "swells"), [("volumes", 0.02), ("gas", 0.2)])
def test_a_closed_chamber_stays_closed(name, swells):
    """What is neither put in nor let out: liquid keeps its volume while the others lead, air
    follows Boyle's law."""
    robot = ROBOTS[name]()
    model, names = pl.Quasistatic(robot), list(robot.actuators)
    controller, at = inverse(model, fixed={"lower-1": 1.0}), names.index("lower-1")
    goal, most = robot.neutral_controls(), robot.control_limits()[1]
    for other, share in (("upper-2", 0.6), ("lower-3", 0.5)):
        goal[names.index(other)] = 1.0 + share * (most[names.index(other)] - 1.0)
    pose = controller.settle(
        controller.begin(), robot.place("tip", pl.equilibrium(model, goal).x)[None]
    )
    assert pose.u[at] == 1.0
    assert pose.text == "at the target"
    assert np.delete(pose.u, at).max() > 1.001
    term = model.equations.attached("lower-1")[0]
    y = model.equations.points(term, pose.x)
    assert 1e-6 < abs(term.displacement(y)) / term.rest_volume < swells
    if name == "gas":
        assert (term.pressure(y, np.ones(1)) + 101325.0) * term.volume(y) == pytest.approx(
            101325.0 * term.rest_volume, rel=1e-12
        )


def test_controls_that_are_out_of_their_limits_already_stay_and_it_is_said():
    """A pose from elsewhere, from which a slow motor cannot come back within its limits in one
    tick."""
    controller = inverse(
        pl.Quasistatic(arm()), limits=[Limit(lower=-0.1, upper=0.1, order=1), Limit(upper=2.0)]
    )
    begun = controller.begin()
    pose = controller.follow(replace(begun, u=np.full(4, 3.0)), begun.places)
    assert pose.ok is False
    assert "no controls keep all limits together" in pose.text
    np.testing.assert_array_equal(pose.x, begun.x)


def test_a_robot_that_may_only_grow_can_stand_still():
    model = pl.Quasistatic(can("pressure", (0.0, np.inf)))
    whole = model.equations.attached("water")[0].rest_volume
    controller = inverse(
        model,
        "top",
        strokes=[Stroke(actuator="water", lower=0.0, upper=0.02 * whole, increment=True)],
    )
    first = pose = controller.begin()
    for _ in range(5):
        pose = controller.follow(pose, first.places)
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9 * controller.length)


def test_a_rest_shape_deep_in_an_obstacle_is_refused_unless_it_may_be_there(one_sentence):
    robot = replace(
        can("pressure", (0.0, np.inf)),
        contacts=[pl.Contact(obstacle=pl.sphere((0.02, 0.0, 0.06), 0.008))],
    )
    one_sentence(
        inverse(pl.Quasistatic(robot), "top").begin, "rest shape is 0.008 m deep in an obstacle"
    )
    inverse(pl.Quasistatic(robot), "top", obstacles=False).begin()
    aside = pl.Quasistatic(
        replace(
            can("pressure", (0.0, np.inf)),
            contacts=[pl.Contact(obstacle=pl.sphere((0.04, 0.0, 0.06), 0.008))],
        )
    )
    controller = inverse(aside, "top")
    one_sentence(
        lambda: controller.begin(x=controller.begin().x + np.tile((0.02, 0.0, 0.0), 116)),
        "first state is 0.00769 m deep",
    )


@pytest.mark.parametrize("center", [(0.031, 0.0, 0.05), (0.005, 0.002, 0.071)])
def test_a_robot_is_pressed_on_an_obstacle_by_hand_and_let_go_in_a_few_ticks(center):
    """A contact sets in over a layer that is far thinner than a tick's way."""
    robot = replace(
        can("pressure", (0.0, np.inf)), contacts=[pl.Contact(obstacle=pl.sphere(center, 0.01))]
    )
    controller = inverse(pl.Quasistatic(robot), "top")
    first = pose = controller.begin()
    for _ in range(20):
        pose = controller.manual(pose, [7000.0, 0.2])
    assert pose.text == "by hand"
    assert controller.obstacles[0].gaps(pose.x).min() < 0.0
    for _ in range(20):
        pose = controller.manual(pose, [0.0, 0.0])
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9 * controller.length)


def test_what_a_rate_never_lets_a_hand_do_is_said():
    controller = inverse(pl.Quasistatic(arm()), limits=[Limit(lower=0.0, upper=1.0, order=1)])
    pose = controller.begin(u=[2.0, 0.0, 2.0, 0.0])
    for _ in range(3):
        pose = controller.manual(pose, np.zeros(4))
    assert (pose.state, pose.text) == (BEYOND, "as far as limits allow: held by a, c")


def test_an_obstacle_that_is_far_away_changes_nothing():
    """No tick asks the model's own solver about a contact that it cannot meet."""
    away = pl.Contact(obstacle=pl.sphere((5.0, 0.0, 0.0), 0.1))
    free, beside = (
        inverse(pl.Quasistatic(arm(contacts=contacts)), stride=0.5) for contacts in ([], [away])
    )
    a, b = free.begin(), beside.begin()
    for _ in range(10):
        a, b = (
            free.follow(a, a.places + (0.15, 0.1, -0.1)),
            beside.follow(b, b.places + (0.15, 0.1, -0.1)),
        )
        np.testing.assert_allclose(b.x, a.x, atol=1e-12)
