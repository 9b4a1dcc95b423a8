"""What inverse control does where a robot has no balance beyond: it stops short of there, stays,
says so, and comes back."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import can, chambers

import pliant as pl
from pliant.core import PliantError
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.planners import BEYOND, MOVING, THERE, UNKEPT, inverse
from pliant.planners.inverse.fold import Stand
from pliant.problem import Limit, Stroke

UP = np.array([0.0, 0.0, 0.02])  # [m] further than the top of the can goes


@pytest.fixture(scope="module")
def model():
    return Quasistatic(can("pressure", (0.0, np.inf)))


@pytest.fixture(scope="module")
def lead(model):
    return inverse(model, "top")


@pytest.fixture(scope="module")
def largest(model):
    """[Pa] the largest pressure under which the model's own solver finds a balance, to within a
    pascal; the can is blown up slowly."""
    low, high, x = 0.0, 20_000.0, None
    while high - low > 1.0:
        pressure = min(low + 200.0, 0.5 * (low + high))
        try:
            low, x = pressure, equilibrium(model, np.array([pressure, 0.0]), x0=x).x
        except PliantError:
            high = pressure
    return low


def led(controller, pose, target, ticks):
    """All poses on the way."""
    out = []
    for _ in range(ticks):
        pose = controller.follow(pose, target)
        out.append(pose)
    return out


def test_the_robot_comes_to_rest_within_a_hundredth_of_its_largest_pressure_and_says_so(
    lead, largest
):
    first = lead.begin()
    poses = led(lead, first, first.places + UP, 60)
    assert any("no balance was found beyond here" in pose.text for pose in poses)
    assert max(float(np.abs(pose.places - first.places).max()) for pose in poses) < 1.5 * float(
        (poses[-1].places - first.places)[0, 2]
    )
    for pose in poses[-20:]:
        assert pose.state == BEYOND
        assert "limited by" in pose.text
        assert "its balance" in pose.text
        assert pose.moved < 1e-9 * lead.length
        assert 0.99 * largest < pose.u[0] < largest
    np.testing.assert_allclose(
        equilibrium(lead.model, poses[-1].u, x0=poses[-1].x).x, poses[-1].x, atol=1e-7 * lead.length
    )


def test_settling_there_ends_by_itself(lead):
    first = lead.begin()
    end = lead.settle(first, first.places + UP)
    assert (end.state, end.k < 60) == (BEYOND, True)
    back = lead.settle(end, first.places)
    assert back.ok
    assert back.error < 1e-4 * lead.length
    assert back.folds == ()


def test_a_pump_by_hand_is_stopped_short_of_it_and_can_be_let_go(lead, largest):
    first = pose = lead.begin()
    for _ in range(60):
        pose = lead.manual(pose, [1e5, 0.0])
    assert (pose.state, pose.text) == (
        UNKEPT,
        "no balance was found beyond here, the robot would snap or burst",
    )
    assert 0.98 * largest < pose.u[0] < largest
    for _ in range(60):
        pose = lead.manual(pose, [0.0, 0.0])
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9)


def test_a_hand_at_a_fold_may_still_move_what_the_fold_does_not_hold(lead):
    pose = lead.begin()
    for _ in range(60):
        pose = lead.manual(pose, [1e5, 0.0])
    assert pose.state == UNKEPT
    states, pull = [], pose.u[1]
    while pose.u[1] < 0.5:
        pose = lead.manual(pose, [1e5, 0.5])
        assert pose.u[1] > pull
        pull = pose.u[1]
        states.append(pose.state)
    assert set(states) == {MOVING}


def test_a_robot_that_cannot_go_back_and_was_made_soft_is_not_frozen(model):
    """A load has made it a hundred times as soft as where it stood: the cable, which goes both
    ways, must still move."""
    controller = inverse(
        model, "top", limits=[Limit(lower=(0.0, -1.0), upper=(100.0, 1.0), order=1)]
    )
    pose = controller.manual(controller.manual(controller.begin(), [1000.0, 0.2]), [1000.0, 0.2])
    stiff = Stand(x=controller.begin().x, u=controller.begin().u, ways=0.01 * pose.firm.ways)
    after = controller.manual(replace(pose, firm=stiff), [1000.0, 0.0])
    assert after.u[1] < pose.u[1]
    assert after.moved > 0.0


def test_settling_says_that_it_has_not_ended_while_the_robot_lets_go(lead):
    pose = lead.settle(lead.resume(lead.begin().x, [1e5, 0.0], 0), lead.begin().places, ticks=2)
    assert pose.state == UNKEPT
    assert pose.text.startswith("still moving after 2 ticks (")


def test_rates_are_kept_on_the_way_back_too(model, largest):
    controller = inverse(model, "top", limits=[Limit(lower=-300.0, upper=300.0, order=1)])
    first = before = controller.begin()
    for pose in led(controller, first, first.places + UP, 80):
        assert np.abs(pose.u - before.u).max() <= 300.0 * (1.0 + 1e-12)
        before = pose
    assert pose.state == BEYOND
    assert 0.99 * largest < pose.u[0] < largest


@pytest.mark.parametrize("rate", [100.0, 5000.0])
def test_a_pump_that_can_only_pump_in_stops_short_of_what_it_could_not_go_back_from(
    model, largest, rate
):
    controller = inverse(
        model, "top", limits=[Limit(lower=(0.0, -1.0), upper=(rate, 1.0), order=1)]
    )
    first = before = controller.begin()
    for pose in led(controller, first, first.places + UP, 160):
        assert pose.u[0] >= before.u[0]
        assert "no balance" not in pose.text
        before = pose
    assert (pose.state, "its balance" in pose.text) == (BEYOND, True)
    assert pose.moved < 1e-9 * controller.length
    assert 0.99 * largest < pose.u[0] < largest


def test_water_that_only_comes_in_is_kept_short_of_it_too(model, largest):
    whole = model.equations.attached("water")[0].rest_volume
    controller = inverse(
        model,
        "top",
        strokes=[Stroke(actuator="water", lower=0.0, upper=0.02 * whole, increment=True)],
    )
    guard, first = controller.strokes[0], controller.begin()
    before = first
    for pose in led(controller, first, first.places + UP, 250):
        assert guard.value(pose.x) - guard.value(before.x) >= -1e-9 * whole
        before = pose
    assert pose.state == BEYOND
    assert 0.98 * largest < pose.u[0] < largest


def test_a_robot_that_no_rate_lets_go_back_says_so(model):
    """It is gone on with where it has no balance."""
    controller = inverse(model, "top", limits=[Limit(lower=0.0, upper=np.inf, order=1)])
    first = controller.begin()
    pose = controller.follow(controller.resume(first.x, [1e5, 0.0], 0), first.places)
    assert pose.state == UNKEPT
    assert pose.text.endswith("; its limits do not let it go back")
    np.testing.assert_array_equal(pose.u, [1e5, 0.0])


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_growth_of_a_tick_is_kept_on_the_way_back_too(model, share):
    """A bound on what a tick pumps in or out must not keep a robot where it has no balance."""
    whole = model.equations.attached("water")[0].rest_volume
    stroke = Stroke(actuator="water", lower=-share * whole, upper=share * whole, increment=True)
    controller = inverse(model, "top", strokes=[stroke])
    guard, first = controller.strokes[0], controller.begin()
    before = first
    for pose in led(controller, first, first.places + UP, 300):
        assert abs(guard.value(pose.x) - guard.value(before.x)) <= share * whole * (1.0 + 1e-9)
        before = pose
    assert pose.state == BEYOND
    for _ in range(150):
        pose = controller.manual(pose, [0.0, 0.0])
    assert pose.text == "by hand"
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9)


def test_a_soft_range_of_many_strides_is_not_climbed_again_and_again():
    """A chamber that is blown up by hand loses its balance long after it has grown soft: what it
    ran into is remembered all the way."""
    controller = inverse(Quasistatic(chambers("pressure", (0.0, np.inf))))
    pose, asked, falls = controller.begin(), np.zeros(controller.model.n_controls), 0
    asked[0] = 1e6
    for k in range(320):
        pose = controller.manual(pose, asked)
        falls += "goes back" in pose.text
        assert k < 220 or pose.moved < 1e-6 * controller.length
    assert 0 < falls < 6
    assert pose.state == UNKEPT


@pytest.mark.parametrize("limits", [[], [Limit(lower=-500.0, upper=500.0, order=1)]])
def test_settling_goes_on_while_the_robot_lets_go(model, limits):
    controller = inverse(model, "top", limits=limits)
    first = controller.begin()
    pose = controller.settle(
        controller.resume(first.x, [1e5 if not limits else 2e4, 0.0], 0), first.places
    )
    assert pose.state == THERE


@pytest.mark.parametrize("comes", [0, 60])
def test_a_fold_is_forgotten_when_a_load_moves_it_outwards(comes):
    """Whether a weight is there from the start or comes when the can stands at its largest
    pressure: under it the target is reached."""
    weight = pl.PointLoad(
        point=(0.019, 0.0, 0.06), force=lambda t: (0.0, 0.0, -0.7 if t >= comes else 0.0)
    )
    robot = replace(can("pressure", (0.0, np.inf)), loads=[weight])
    controller = inverse(Quasistatic(robot), "top", fixed={"pull": 0.0}, directions="z")
    rest = inverse(Quasistatic(can("pressure", (0.0, np.inf))), "top").begin().places
    pose = led(controller, controller.begin(), rest + (0.0, 0.0, 0.03), 55)[-1]
    assert pose.state == BEYOND
    assert led(controller, pose, rest + (0.0, 0.0, 0.0145), 60)[-1].state == THERE


def test_a_stand_that_a_load_has_held_is_forgotten_with_the_load(largest):
    """Under a weight on its top the can bears more pressure than without."""
    gone = 40
    weight = pl.PointLoad(
        point=(0.019, 0.0, 0.06), force=lambda t: (0.0, 0.0, -1.5 if t < gone else 0.0)
    )
    robot = replace(can("pressure", (0.0, np.inf)), loads=[weight])
    controller = inverse(Quasistatic(robot), "top", fixed={"pull": 0.0}, directions="z")
    first = controller.begin()
    poses = led(controller, first, first.places + 1.5 * UP, 140)
    assert poses[gone - 2].u[0] > 1.01 * largest
    for pose in poses[-20:]:
        assert pose.state == BEYOND
        assert pose.moved < 1e-9 * controller.length
        assert 0.98 * largest < pose.u[0] < largest


def test_controls_far_beyond_a_fold_are_let_go_until_there_is_a_balance(lead, largest):
    first = lead.begin()
    pose = lead.resume(first.x, [3e4, 0.0], 0)
    for _ in range(60):
        pose = lead.manual(pose, [0.0, 0.0])
    assert pose.text == "by hand"
    np.testing.assert_allclose(pose.x, first.x, atol=1e-9)


def test_a_robot_that_swings_bursts_in_a_hand_and_says_so():
    controller = inverse(SemiImplicit(can("pressure", (0.0, np.inf)), dt=1 / 60), "top")
    first = pose = controller.begin()
    for _ in range(30):
        pose = controller.manual(pose, [1e5, 0.0])
        assert np.all(np.isfinite(pose.x))
    assert (pose.state, "has burst" in pose.text, "begin anew" in pose.text) == (UNKEPT, True, True)
    led = controller.follow(controller.begin(), first.places)
    assert led.ok


def test_another_controller_takes_a_pose_over_with_what_is_known_of_its_folds(
    model, lead, one_sentence
):
    first = lead.begin()
    end = lead.settle(first, first.places + UP)
    other = inverse(model, "top", fixed={"pull": 0.0})
    pose = other.take_over(end)
    np.testing.assert_array_equal(pose.x, end.x)
    assert (pose.k, pose.folds) == (end.k, end.folds)
    for _ in range(5):
        pose = other.follow(pose, first.places + UP)
        assert (pose.state, pose.moved < 1e-9 * lead.length) == (BEYOND, True)
    one_sentence(lambda: other.take_over(None), "The pose is 'None'")


def test_what_is_known_of_a_fold_is_forgotten_away_from_it(lead):
    first = lead.begin()
    end = lead.settle(first, first.places + UP)
    away = replace(end, x=first.x, u=first.u, places=first.places)
    assert len(end.folds) == 1
    assert lead.follow(away, first.places).folds == ()


def test_a_robot_between_two_folds_lets_go_and_comes_home():
    """A can that is pumped up against a ceiling has balances that it slips from either way."""
    ceiling = pl.Contact(obstacle=pl.plane((0.0, 0.0, -1.0), -0.064))
    robot = replace(
        can("volume", (0.5, 6.0)),
        contacts=[ceiling],
        actuators={"water": can("volume", (0.5, 6.0)).actuators["water"]},
    )
    controller = inverse(Quasistatic(robot), "top", obstacles=False)
    first = controller.begin()
    poses = led(controller, first, first.places + (0.0, 0.0, 0.008), 80)
    assert poses[-1].state == BEYOND
    assert poses[-1].moved < 1e-6 * controller.length
    assert led(controller, poses[-1], first.places, 40)[-1].state == THERE


def test_a_balance_that_the_least_push_ends_is_found_to_round_off():
    """The can stands straight under the ceiling, pressed too hard to stay so: its energy shows no
    way down."""
    ceiling = pl.Contact(obstacle=pl.plane((0.0, 0.0, -1.0), -0.064))
    model = Quasistatic(replace(can("volume", (0.5, 6.0)), contacts=[ceiling]))
    step = equilibrium(model, np.array([5.0, 0.0]))
    assert step.status.text.startswith("converged to a balance that a small push would end")
    assert step.status.residual < 1e-6 * model.forces(step.tape)[2]
