"""Inverse control of a robot in balance: targets are reached, what is out of reach is said, and the
robot is where its controls hold it."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, reachable, strip
from scipy.optimize import least_squares

import pliant as pl
from pliant.planners import inverse
from pliant.planners.inverse.one_newton import OneNewton
from pliant.problem import Limit, Stroke

BEND = np.array(
    [[0.02, 0.01, -0.004]]
)  # [m] from the tip of the arm, out of reach by half a millimetre


@pytest.fixture(scope="module")
def bar():
    return pl.Quasistatic(arm())


@pytest.fixture(scope="module")
def lead(bar):
    return inverse(bar)


def places(model, u, names=("tip",)):
    x = pl.equilibrium(model, u).x
    return np.array([model.robot.place(name, model.space.position(x)) for name in names])


@pytest.mark.parametrize("name", ROBOTS)
def test_a_target_within_reach_is_reached_and_held_in_balance(name, rng):
    robot = ROBOTS[name]()
    model = pl.Quasistatic(robot)
    controller = inverse(model)
    for _ in range(2):
        _, target = reachable(name, robot, rng)
        pose = controller.settle(controller.begin(), target)
        assert pose.error < 1e-4 * controller.length
        assert (pose.ok, pose.text) == (True, "at the target")
        np.testing.assert_allclose(pl.equilibrium(model, pose.u, x0=pose.x).x, pose.x, atol=1e-8)
        np.testing.assert_allclose(
            pose.places[0], robot.place("tip", model.space.position(pose.x)), atol=1e-15
        )


def test_a_tick_knows_how_the_balance_answers(bar, taylor):
    """The columns of a tick beside equilibria under changed controls."""
    u, du = np.array([1.0, 0.5, 2.0, 0.2]), np.array([0.3, -0.4, 0.5, 0.2])
    start = pl.equilibrium(bar, u).x
    answer = OneNewton(model=bar).answer(start, u, np.arange(4), 0)
    assert np.abs(answer.free).max() < 1e-10
    np.testing.assert_allclose(
        answer.columns, bar.linearize(bar.step(start, u)).dense_controls(), rtol=1e-6, atol=1e-12
    )
    assert taylor(lambda e: pl.equilibrium(bar, u + e * du, x0=start).x, answer.columns @ du) > 1.9


def test_away_from_balance_the_first_column_leads_back(bar, rng):
    """One Newton step from a state near the balance leaves the square of the distance."""
    u = np.array([1.0, 0.5, 2.0, 0.2])
    start, away = (
        pl.equilibrium(bar, u).x,
        rng.standard_normal(bar.space.n_dofs) * ~bar.equations.held,
    )
    rule, left = OneNewton(model=bar), []
    sizes = 1e-5 * 0.5 ** np.arange(4)
    for size in sizes:
        answer = rule.answer(start + size * away, u, np.arange(4), 0)
        left.append(np.abs(answer.q + answer.free - start).max())
    assert np.polyfit(np.log(sizes), np.log(left), 1)[0] > 1.9


def test_one_tick_leaves_the_square_of_the_way(lead, bar, rate):
    """The nearer the target, the better a tick hits it: the miss falls as the square of the
    distance."""
    begun = lead.begin(u=np.array([2.0, 1.5, 2.4, 2.9]))
    ways = 2e-3 * 0.5 ** np.arange(4)
    aim = np.array([[0.6, -0.3, -0.2]])
    assert rate(ways, [lead.follow(begun, begun.places + way * aim).error for way in ways]) > 1.8


def test_the_last_ticks_converge_faster_than_linearly(lead):
    pose, target, errors = (
        lead.begin(u=np.array([2.0, 1.5, 2.4, 2.9])),
        lead.begin(u=np.array([1.0, 1.5, 2.4, 2.0])).places,
        [],
    )
    for _ in range(12):
        pose = lead.follow(pose, target)
        errors.append(pose.error)
    near = [e for e in errors if 1e-11 < e < 1e-4]
    assert min(errors) < 1e-12
    assert len(near) <= 4


def test_what_is_out_of_reach_is_approached_as_near_as_a_second_solver_gets(bar, lead):
    target = lead.begin().places + BEND
    pose = lead.settle(lead.begin(), target)
    found = least_squares(
        lambda u: (places(bar, u) - target).ravel(),
        [0.5, 1.0, 2.0, 0.5],
        bounds=(0.0, 6.0),
        method="dogbox",
        gtol=1e-14,
        jac=lambda u: (
            bar.effector_rows("tip") @ bar.linearize(pl.equilibrium(bar, u)).dense_controls()
        ),
    )
    assert pose.error == pytest.approx(np.sqrt(2.0 * found.cost), rel=1e-6)
    assert pose.ok is False
    assert pose.text == (
        f"the target is out of reach: closest {1e3 * pose.error:.3g} mm away, limited by "
        "a (slack: a cable can only pull), "
        "d (slack: a cable can only pull)"
    )
    np.testing.assert_allclose(pl.equilibrium(bar, pose.u, x0=pose.x).x, pose.x, atol=1e-8)


def test_a_target_far_away_is_walked_to_in_steps_and_said_to_be_out_of_reach(lead):
    pose, texts, moved = lead.begin(), [], []
    for _ in range(60):
        pose = lead.follow(pose, [[10.0, 0.0, 0.0]])
        texts.append(pose.text)
        moved.append(pose.moved)
    assert texts[0] == "moving"
    assert texts[-1].startswith("the target is out of reach: closest 9.9")
    slack, taut = "(slack: a cable can only pull)", "(at its upper limit 6)"
    assert texts[-1].endswith(f"m away, limited by a {slack}, b {taut}, c {taut}, d {slack}")
    assert max(moved) < 2.0 * lead.stride
    np.testing.assert_array_equal(pose.u, [0.0, 6.0, 6.0, 0.0])


def test_cables_by_length_and_by_tension_come_as_near(lead):
    """The same robot moved by other motors: what it can reach is the same, since both only pull."""
    lengths = inverse(pl.Quasistatic(arm("length")))
    for target in (
        lead.begin().places + BEND,
        lead.begin().places + (-0.01, 0.02, -0.01),
        lead.begin().places + (0.01, 0.0, 0.01),
    ):
        by_force, by_length = (c.settle(c.begin(), target) for c in (lead, lengths))
        np.testing.assert_allclose(by_length.places, by_force.places, atol=1e-6)
        assert by_length.text == by_force.text


@pytest.mark.parametrize("away", [0.0, 1.0])
def test_an_effector_without_weight_does_not_count(away):
    """Neither where it is nor how far it is from what nobody wants of it."""
    controller = inverse(pl.Quasistatic(arm()), ("tip", "side"), weights=(1.0, 0.0))
    begun = controller.begin()
    pose = controller.settle(
        begun, begun.places + [[0.01, 0.0, -0.003], [away, 0.0, 0.0]], ticks=20
    )
    assert pose.text == "at the target"
    assert pose.error < 1e-4 * controller.length


def test_two_effectors_share_by_their_weights():
    """Where not all can be had, the weighted sum of squares is stationary; exact sensitivities of
    the balance say so."""
    model, names = pl.Quasistatic(arm()), ("tip", "side")
    rows = np.vstack([model.effector_rows(name).toarray() for name in names])
    misses = []
    for weights in ((1.0, 1.0), (1.0, 100.0), (100.0, 1.0)):
        controller = inverse(model, names, weights=weights)
        begun = controller.begin(u=np.full(4, 2.0))
        target = begun.places + [[0.006, 0.0, 0.0], [-0.003, 0.002, 0.0]]
        pose = controller.settle(begun, target)
        step = pl.equilibrium(model, pose.u, x0=pose.x)
        slope = (rows @ model.linearize(step).dense_controls()).T @ (
            np.repeat(weights, 3) * (pose.places - target).ravel()
        )
        free = pose.u > 0.0
        scale = (
            np.abs(rows @ model.linearize(step).dense_controls()).max()
            * np.abs(target - begun.places).max()
            * max(weights)
        )
        assert free.sum() >= 2
        np.testing.assert_allclose(slope[free], 0.0, atol=1e-4 * scale)
        assert np.all(slope[~free] > -1e-4 * scale)
        misses.append(np.linalg.norm(pose.places - target, axis=1))
    even, side, tip = misses
    assert side[1] < 0.5 * even[1]
    assert tip[0] < 0.5 * even[0]


@pytest.mark.parametrize(
    ("directions", "counted"),
    [
        ("x", [[1.0, 0.0, 0.0]]),
        ("zx", [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
        (None, np.eye(3)),
        ([[3.0, 4.0, 0.0]], [[0.6, 0.8, 0.0]]),
        ([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], [[0.5**0.5, 0.5**0.5, 0.0], [0.0, 0.0, 1.0]]),
    ],
)
def test_only_the_directions_that_count_are_led(bar, directions, counted):
    controller = inverse(bar, directions=directions)
    goal = places(bar, np.array([2.5, 1.0, 1.5, 2.0]))
    off = goal + (
        np.array([0.004, -0.003, 0.005]) @ (np.eye(3) - np.linalg.pinv(counted) @ counted)
    )  # nothing along what counts
    pose = controller.settle(controller.begin(), off)
    assert pose.text == "at the target"
    np.testing.assert_allclose(np.asarray(counted) @ (pose.places - off)[0], 0.0, atol=1e-9)
    assert pose.error < 1e-9


def test_cables_that_pull_against_each_other_let_go(bar):
    """Three directions leave one of four cables open; it goes back as far as none pushes."""
    controller = inverse(bar, directions="xy")
    begun = controller.begin(u=np.array([3.0, 3.5, 3.0, 3.5]))
    pose = controller.settle(begun, begun.places)
    assert pose.error < 1e-9
    assert pose.u.min() == 0.0
    assert pose.u.sum() < 0.2 * begun.u.sum()


def test_a_plane_robot_is_led_in_the_plane():
    controller = inverse(pl.Quasistatic(strip()), directions="y")
    begun = controller.begin()
    assert begun.places.shape == (1, 2)
    pose = controller.settle(begun, begun.places + (0.0, 0.03))
    assert pose.places[0, 1] - begun.places[0, 1] == pytest.approx(0.03, abs=1e-9)


def test_every_run_is_the_same_and_poses_are_left_alone(lead):
    def run():
        pose, seen = lead.begin(), []
        kept = pose.x.copy(), pose.u.copy()
        start = pose
        for k in range(10):
            pose = lead.follow(pose, start.places + 1e-3 * k)
            seen.append(np.concatenate([pose.x, pose.u]))
        np.testing.assert_array_equal(start.x, kept[0])
        np.testing.assert_array_equal(start.u, kept[1])
        return np.array(seen)

    np.testing.assert_array_equal(run(), run())


def test_by_hand_the_robot_goes_where_its_controls_hold_it(bar, lead):
    pose = lead.begin()
    for _ in range(20):
        pose = lead.manual(pose, [9.0, 0.0, 1.0, -2.0])  # beyond the limits
    np.testing.assert_array_equal(pose.u, [6.0, 0.0, 1.0, 0.0])
    assert pose.text == "by hand"
    np.testing.assert_allclose(pose.x, pl.equilibrium(bar, pose.u).x, atol=1e-8)
    pose = lead.settle(pose, lead.begin(u=np.array([2.0, 1.0, 1.5, 2.0])).places)
    assert pose.text == "at the target"


def test_a_pose_can_be_gone_on_from(lead):
    pose = lead.settle(lead.begin(), lead.begin().places + (0.004, 0.0, -0.002))
    again = lead.begin(pose.x, pose.u)
    np.testing.assert_allclose(again.places, pose.places, atol=1e-10)
    assert again.k == 0


@pytest.mark.parametrize(
    "targets",
    [
        [[0.0, np.nan, 0.1]],
        [[True, False, True]],
        [[0.0, 1e300, 0.1]],
        [[np.inf, 0.0, 0.1]],
        [0.0, 0.0, 0.1],
        [[0.0, 0.1]],
        np.zeros((2, 3)),
        "there",
        [["a", 0.0, 0.0]],
        None,
    ],
)
def test_a_wrong_target_is_a_sentence(lead, targets, one_sentence):
    one_sentence(lambda: lead.follow(lead.begin(), targets), "target")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effectors": ("tip", "tip")}, "twice"),
        ({"horizon": 0.1}, "does not swing"),
        ({"effectors": ("tap",)}, "did you mean 'tip'"),
        ({"effectors": ()}, "no effector"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"weights": [-1.0]}, "below zero"),
        ({"weights": [0.0]}, "at least one above"),
        ({"directions": "xw"}, "some of x, y, z"),
        ({"directions": [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]}, "depend on each other"),
        ({"directions": [[1.0, 0.0]]}, "directions"),
        ({"directions": ["x", "y"]}, "directions for 2 effectors"),
        ({"stride": 0.0}, "stride"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"fixed": {"e": 1.0}}, "no actuator 'e'"),
        ({"fixed": {"a": 9.0}}, "outside its limits"),
        ({"fixed": {"a": np.nan}}, "fixed control"),
        ({"fixed": dict.fromkeys("abcd", 0.0)}, "no actuator that may move"),
        ({"obstacles": (3,)}, "contacts"),
        ({"limits": [Limit(upper=1.0, order=2)]}, "acceleration"),
        ({"limits": [Limit(lower=0.1, upper=1.0, order=1)]}, "stand still"),
        ({"effectors": 3}, "effectors"),
        ({"directions": 3.0}, "directions"),
        ({"directions": ["x", [[1.0, 0.0, 0.0]]]}, "directions for 2"),
        ({"obstacles": 1}, "obstacles"),
        ({"fixed": "a"}, "fixed"),
        ({"weights": "heavy"}, "weights"),
        ({"strokes": None}, "strokes"),
        ({"limits": [3.0]}, "limits"),
        ({"strokes": [3.0]}, "strokes"),
        ({"strokes": [Stroke(actuator="e", upper=1.0)]}, "no actuator 'e'"),
        ({"strokes": [Stroke(actuator="a", upper=1.0, time=0.3)]}, "remove the time"),
        ({"strokes": [Stroke(actuator="a", lower=0.1, upper=1.0, increment=True)]}, "stand still"),
    ],
)
def test_a_wrong_option_is_a_sentence(bar, options, words, one_sentence):
    one_sentence(lambda: inverse(bar, **options), words)


def test_other_models_and_poses_are_refused(bar, lead, one_sentence):
    one_sentence(lambda: inverse(pl.ImplicitEuler(arm(), dt=0.01)), "SemiImplicit")
    one_sentence(lambda: inverse("bar"), "Quasistatic")
    one_sentence(lambda: lead.follow("here", [[0.0, 0.0, 0.0]]), "pose")
    other = inverse(pl.Quasistatic(strip()))
    one_sentence(lambda: lead.follow(other.begin(), [[0.0, 0.0, 0.0]]), "another robot")
    one_sentence(lambda: lead.manual(lead.begin(), [np.nan, 0.0, 0.0, 0.0]), "control")
    one_sentence(lambda: lead.manual(lead.begin(), "pull"), "control")
    one_sentence(lambda: lead.begin(u=[1.0, 2.0]), "control")
    one_sentence(lambda: lead.settle(lead.begin(), [[0.0, 0.0, 0.0]], ticks=0), "ticks")
    one_sentence(
        lambda: lead.settle(lead.begin(), [[0.0, 0.0, 0.0]], tolerance=np.nan), "tolerance"
    )
    one_sentence(lambda: lead.begin(x=np.zeros(3)), "first state")
    one_sentence(
        lambda: inverse(bar, "tip", strokes=[Stroke(actuator="a", lower=0.01, upper=0.02)]).begin(),
        "begins with a displacement",
    )


@pytest.mark.parametrize("u", [(2.0, 1.0, 2.0, 1.0), (0.0, 0.0, 0.0, 0.0)])
def test_a_moved_mesh_that_is_torn_stays_lets_go_and_says_so(bar, lead, u):
    """A state that nothing can go on from is no NaN."""
    begun = lead.begin(u=u)
    torn = replace(begun, x=begun.x + 0.05 * np.random.default_rng(0).standard_normal(begun.x.size))
    pose = lead.follow(torn, begun.places)
    assert not pose.ok
    assert pose.text.endswith("begin anew")  # no limit holds it
    np.testing.assert_array_equal(pose.x, torn.x)
    np.testing.assert_allclose(pose.u, 0.9 * torn.u)
