"""Quasistatic inverse control: targets are reached in equilibrium, others are reported."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import ROBOTS, arm, reachable, strip
from scipy.optimize import least_squares

import pliant as pl
from pliant.planners.inverse_control import inverse_control
from pliant.planners.inverse_control.equilibrium_rule import EquilibriumRule
from pliant.problem import Limit, StrokeLimit

BEND = np.array(
    [[0.02, 0.01, -0.004]]
)  # [m] from the tip of the arm, out of reach by half a millimetre


@pytest.fixture(scope="module")
def bar():
    return pl.Quasistatic(arm())


@pytest.fixture(scope="module")
def controller(bar):
    return inverse_control(bar)


def places(model, u, names=("tip",)):
    x = pl.equilibrium(model, u).x
    return np.array(
        [model.robot.effector_position(name, model.space.position(x)) for name in names]
    )


@pytest.mark.parametrize("name", ROBOTS)
def test_reachable_target_is_reached_in_equilibrium(name, rng):
    robot = ROBOTS[name]()
    model = pl.Quasistatic(robot)
    controller = inverse_control(model)
    for _ in range(2):
        _, target = reachable(name, robot, rng)
        state = controller.settle(controller.begin(), target)
        assert state.error < 1e-4 * controller.length
        assert (state.ok, state.message) == (True, "at the target")
        np.testing.assert_allclose(pl.equilibrium(model, state.u, x0=state.x).x, state.x, atol=1e-8)
        np.testing.assert_allclose(
            state.positions[0],
            robot.effector_position("tip", model.space.position(state.x)),
            atol=1e-15,
        )


def test_sensitivity_matches_perturbed_equilibria(bar, taylor):
    """Compare the columns with equilibria under changed controls."""
    u, du = np.array([1.0, 0.5, 2.0, 0.2]), np.array([0.3, -0.4, 0.5, 0.2])
    start = pl.equilibrium(bar, u).x
    sensitivity = EquilibriumRule(model=bar).sensitivity(start, u, np.arange(4), 0)
    assert np.abs(sensitivity.free_motion).max() < 1e-10
    np.testing.assert_allclose(
        sensitivity.columns,
        bar.linearize(bar.step(start, u)).dense_controls(),
        rtol=1e-6,
        atol=1e-12,
    )
    assert (
        taylor(lambda e: pl.equilibrium(bar, u + e * du, x0=start).x, sensitivity.columns @ du)
        > 1.9
    )


def test_free_motion_is_a_newton_step(bar, rng):
    """One Newton step from a state near equilibrium leaves an error of second order."""
    u = np.array([1.0, 0.5, 2.0, 0.2])
    start, away = (
        pl.equilibrium(bar, u).x,
        rng.standard_normal(bar.space.n_dofs) * ~bar.equations.held,
    )
    rule, left = EquilibriumRule(model=bar), []
    sizes = 1e-5 * 0.5 ** np.arange(4)
    for size in sizes:
        sensitivity = rule.sensitivity(start + size * away, u, np.arange(4), 0)
        left.append(np.abs(sensitivity.q + sensitivity.free_motion - start).max())
    assert np.polyfit(np.log(sizes), np.log(left), 1)[0] > 1.9


def test_error_after_one_step_is_quadratic_in_the_distance(controller, bar, rate):
    """The error after one step decreases with the square of the distance."""
    begun = controller.begin(u=np.array([2.0, 1.5, 2.4, 2.9]))
    motions = 2e-3 * 0.5 ** np.arange(4)
    offset = np.array([[0.6, -0.3, -0.2]])
    assert (
        rate(
            motions,
            [controller.follow(begun, begun.positions + way * offset).error for way in motions],
        )
        > 1.8
    )


def test_last_steps_converge_superlinearly(controller):
    state, target, errors = (
        controller.begin(u=np.array([2.0, 1.5, 2.4, 2.9])),
        controller.begin(u=np.array([1.0, 1.5, 2.4, 2.0])).positions,
        [],
    )
    for _ in range(12):
        state = controller.follow(state, target)
        errors.append(state.error)
    near = [e for e in errors if 1e-11 < e < 1e-4]
    assert min(errors) < 1e-12
    assert len(near) <= 4


def test_unreachable_target_gives_the_least_squares_optimum(bar, controller):
    target = controller.begin().positions + BEND
    state = controller.settle(controller.begin(), target)
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
    assert state.error == pytest.approx(np.sqrt(2.0 * found.cost), rel=1e-6)
    assert state.ok is False
    assert state.message == (
        f"the target is out of reach: closest {1e3 * state.error:.3g} mm away, limited by "
        "a (slack: a cable can only pull), "
        "d (slack: a cable can only pull)"
    )
    np.testing.assert_allclose(pl.equilibrium(bar, state.u, x0=state.x).x, state.x, atol=1e-8)


def test_distant_target_is_approached_in_bounded_steps(controller):
    state, texts, moved = controller.begin(), [], []
    for _ in range(60):
        state = controller.follow(state, [[10.0, 0.0, 0.0]])
        texts.append(state.message)
        moved.append(state.displacement)
    assert texts[0] == "moving"
    assert texts[-1].startswith("the target is out of reach: closest 9.9")
    slack, taut = "(slack: a cable can only pull)", "(at its upper limit 6)"
    assert texts[-1].endswith(f"m away, limited by a {slack}, b {taut}, c {taut}, d {slack}")
    assert max(moved) < 2.0 * controller.max_step
    np.testing.assert_array_equal(state.u, [0.0, 6.0, 6.0, 0.0])


def test_length_and_tension_drives_reach_the_same_points(controller):
    """Both drives can only pull, so they reach the same points."""
    lengths = inverse_control(pl.Quasistatic(arm("length")))
    for target in (
        controller.begin().positions + BEND,
        controller.begin().positions + (-0.01, 0.02, -0.01),
        controller.begin().positions + (0.01, 0.0, 0.01),
    ):
        by_force, by_length = (c.settle(c.begin(), target) for c in (controller, lengths))
        np.testing.assert_allclose(by_length.positions, by_force.positions, atol=1e-6)
        assert by_length.message == by_force.message


@pytest.mark.parametrize("away", [0.0, 1.0])
def test_effector_with_zero_weight_is_ignored(away):
    """Its distance from its target has no effect."""
    controller = inverse_control(pl.Quasistatic(arm()), ("tip", "side"), weights=(1.0, 0.0))
    begun = controller.begin()
    state = controller.settle(
        begun, begun.positions + [[0.01, 0.0, -0.003], [away, 0.0, 0.0]], max_steps=20
    )
    assert state.message == "at the target"
    assert state.error < 1e-4 * controller.length


def test_weighted_error_of_two_effectors_is_stationary():
    """The weighted sum of squares is stationary by exact sensitivities of the equilibrium."""
    model, names = pl.Quasistatic(arm()), ("tip", "side")
    rows = np.vstack([model.effector_rows(name).toarray() for name in names])
    misses = []
    for weights in ((1.0, 1.0), (1.0, 100.0), (100.0, 1.0)):
        controller = inverse_control(model, names, weights=weights)
        begun = controller.begin(u=np.full(4, 2.0))
        target = begun.positions + [[0.006, 0.0, 0.0], [-0.003, 0.002, 0.0]]
        state = controller.settle(begun, target)
        step = pl.equilibrium(model, state.u, x0=state.x)
        slope = (rows @ model.linearize(step).dense_controls()).T @ (
            np.repeat(weights, 3) * (state.positions - target).ravel()
        )
        free = state.u > 0.0
        scale = (
            np.abs(rows @ model.linearize(step).dense_controls()).max()
            * np.abs(target - begun.positions).max()
            * max(weights)
        )
        assert free.sum() >= 2
        np.testing.assert_allclose(slope[free], 0.0, atol=1e-4 * scale)
        assert np.all(slope[~free] > -1e-4 * scale)
        misses.append(np.linalg.norm(state.positions - target, axis=1))
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
def test_only_selected_directions_are_controlled(bar, directions, counted):
    controller = inverse_control(bar, directions=directions)
    goal = places(bar, np.array([2.5, 1.0, 1.5, 2.0]))
    off = goal + (
        np.array([0.004, -0.003, 0.005]) @ (np.eye(3) - np.linalg.pinv(counted) @ counted)
    )  # no error along the selected directions
    state = controller.settle(controller.begin(), off)
    assert state.message == "at the target"
    np.testing.assert_allclose(np.asarray(counted) @ (state.positions - off)[0], 0.0, atol=1e-9)
    assert state.error < 1e-9


def test_antagonistic_cables_relax(bar):
    """Controls without effect on the effector return towards zero."""
    controller = inverse_control(bar, directions="xy")
    begun = controller.begin(u=np.array([3.0, 3.5, 3.0, 3.5]))
    state = controller.settle(begun, begun.positions)
    assert state.error < 1e-9
    assert state.u.min() == 0.0
    assert state.u.sum() < 0.2 * begun.u.sum()


def test_planar_robot_reaches_its_target():
    controller = inverse_control(pl.Quasistatic(strip()), directions="y")
    begun = controller.begin()
    assert begun.positions.shape == (1, 2)
    state = controller.settle(begun, begun.positions + (0.0, 0.03))
    assert state.positions[0, 1] - begun.positions[0, 1] == pytest.approx(0.03, abs=1e-9)


def test_runs_are_deterministic_and_do_not_modify_states(controller):
    def run():
        state, seen = controller.begin(), []
        kept = state.x.copy(), state.u.copy()
        start = state
        for k in range(10):
            state = controller.follow(state, start.positions + 1e-3 * k)
            seen.append(np.concatenate([state.x, state.u]))
        np.testing.assert_array_equal(start.x, kept[0])
        np.testing.assert_array_equal(start.u, kept[1])
        return np.array(seen)

    np.testing.assert_array_equal(run(), run())


def test_manual_mode_converges_to_the_equilibrium(bar, controller):
    state = controller.begin()
    for _ in range(20):
        state = controller.manual(state, [9.0, 0.0, 1.0, -2.0])  # beyond the limits
    np.testing.assert_array_equal(state.u, [6.0, 0.0, 1.0, 0.0])
    assert state.message == "manual"
    np.testing.assert_allclose(state.x, pl.equilibrium(bar, state.u).x, atol=1e-8)
    state = controller.settle(state, controller.begin(u=np.array([2.0, 1.0, 1.5, 2.0])).positions)
    assert state.message == "at the target"


def test_begin_from_an_equilibrium_reproduces_it(controller):
    state = controller.settle(
        controller.begin(), controller.begin().positions + (0.004, 0.0, -0.002)
    )
    again = controller.begin(state.x, state.u)
    np.testing.assert_allclose(again.positions, state.positions, atol=1e-10)
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
def test_invalid_target_raises(controller, targets, raises_clear_error):
    raises_clear_error(lambda: controller.follow(controller.begin(), targets), "target")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effectors": ("tip", "tip")}, "twice"),
        ({"horizon": 0.1}, "no horizon"),
        ({"effectors": ("tap",)}, "did you mean 'tip'"),
        ({"effectors": ()}, "no effector"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"weights": [-1.0]}, "below zero"),
        ({"weights": [0.0]}, "at least one above"),
        ({"directions": "xw"}, "some of x, y, z"),
        ({"directions": [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]}, "depend on each other"),
        ({"directions": [[1.0, 0.0]]}, "directions"),
        ({"directions": ["x", "y"]}, "directions for 2 effectors"),
        ({"max_step": 0.0}, "max_step"),
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
        ({"strokes": [StrokeLimit(actuator="e", upper=1.0)]}, "no actuator 'e'"),
        ({"strokes": [StrokeLimit(actuator="a", upper=1.0, time=0.3)]}, "remove the time"),
        (
            {"strokes": [StrokeLimit(actuator="a", lower=0.1, upper=1.0, increment=True)]},
            "stand still",
        ),
    ],
)
def test_invalid_option_raises(bar, options, words, raises_clear_error):
    raises_clear_error(lambda: inverse_control(bar, **options), words)


def test_other_models_and_states_are_rejected(bar, controller, raises_clear_error):
    raises_clear_error(lambda: inverse_control(pl.ImplicitEuler(arm(), dt=0.01)), "SemiImplicit")
    raises_clear_error(lambda: inverse_control("bar"), "Quasistatic")
    raises_clear_error(lambda: controller.follow("here", [[0.0, 0.0, 0.0]]), "control state")
    other = inverse_control(pl.Quasistatic(strip()))
    raises_clear_error(lambda: controller.follow(other.begin(), [[0.0, 0.0, 0.0]]), "another robot")
    raises_clear_error(
        lambda: controller.manual(controller.begin(), [np.nan, 0.0, 0.0, 0.0]), "control"
    )
    raises_clear_error(lambda: controller.manual(controller.begin(), "pull"), "control")
    raises_clear_error(lambda: controller.begin(u=[1.0, 2.0]), "control")
    raises_clear_error(
        lambda: controller.settle(controller.begin(), [[0.0, 0.0, 0.0]], max_steps=0), "max_steps"
    )
    raises_clear_error(
        lambda: controller.settle(controller.begin(), [[0.0, 0.0, 0.0]], tolerance=np.nan),
        "tolerance",
    )
    raises_clear_error(lambda: controller.begin(x=np.zeros(3)), "first state")
    raises_clear_error(
        lambda: inverse_control(
            bar, "tip", strokes=[StrokeLimit(actuator="a", lower=0.01, upper=0.02)]
        ).begin(),
        "begins with a displacement",
    )


@pytest.mark.parametrize("u", [(2.0, 1.0, 2.0, 1.0), (0.0, 0.0, 0.0, 0.0)])
def test_inverted_mesh_stays_and_releases_its_controls(bar, controller, u):
    """An inverted mesh gives a message, not NaN."""
    begun = controller.begin(u=u)
    torn = replace(begun, x=begun.x + 0.05 * np.random.default_rng(0).standard_normal(begun.x.size))
    state = controller.follow(torn, begun.positions)
    assert not state.ok
    assert state.message.endswith("begin again")  # no limit is active
    np.testing.assert_array_equal(state.x, torn.x)
    np.testing.assert_allclose(state.u, 0.9 * torn.u)
