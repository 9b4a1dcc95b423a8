"""What inverse control does with drives that are too quick, at the limits of rates, and with poses
of any kind."""

from dataclasses import replace

import numpy as np
import pytest
from inverse_robots import arm, can

import pliant as pl
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.planners import inverse
from pliant.planners.inverse import BEYOND, THERE
from pliant.problem import Limit, Stroke


def test_a_volume_that_is_asked_for_at_once_is_pumped_in_step_by_step():
    """A linearised step follows a stiff drive by a little only; the other controls and time go on
    meanwhile."""
    controller = inverse(SemiImplicit(can("volume", (0.8, 1.5)), dt=0.01), "top")
    pose = controller.begin()
    ways = []
    for _ in range(60):
        pose = controller.manual(pose, [1.2, 0.5])
        ways.append(pose.u.copy())
    np.testing.assert_allclose(pose.u, [1.2, 0.5])
    assert pose.text == "by hand"
    assert np.all(np.diff(np.array(ways), axis=0) >= -1e-12)
    still = equilibrium(Quasistatic(can("volume", (0.8, 1.5))), pose.u)
    np.testing.assert_allclose(pose.x[: still.x.size], still.x, atol=1e-4 * controller.length)


def test_a_robot_that_swings_follows_a_target_with_a_volume_drive():
    controller = inverse(SemiImplicit(can("volume", (0.8, 1.5)), dt=0.01), "top")
    pose = controller.begin()
    target = pose.places + (0.0, 0.0, 0.002)
    for _ in range(60):
        pose = controller.follow(pose, target)
    assert pose.error < 1e-4 * controller.length


@pytest.mark.parametrize("rate", [0.05, 5.0])
def test_what_only_its_rate_holds_back_is_not_out_of_reach(rate):
    controller = inverse(
        Quasistatic(can("pressure", (0.0, 1e4))),
        "top",
        limits=[Limit(lower=-rate, upper=rate, order=1)],
    )
    first = controller.begin()
    pose = controller.settle(first, first.places + (0.0, 0.0, 0.002), ticks=20)
    assert (pose.k, pose.ok, pose.text) == (20, True, "still moving after 20 ticks")
    assert pose.u[0] == pytest.approx(20 * rate, rel=1e-6)
    assert controller.follow(first, first.places + (0.0, 0.0, 0.002)).text.startswith("moving")


def test_a_pose_that_is_not_finite_is_a_sentence(one_sentence):
    controller = inverse(Quasistatic(can("volume", (0.8, 1.5))), "top")
    pose = controller.begin()
    one_sentence(
        lambda: controller.follow(replace(pose, x=np.nan * pose.x), pose.places),
        "The state of the pose is nan",
    )
    one_sentence(
        lambda: controller.manual(replace(pose, u=np.inf * (1.0 + pose.u)), pose.u),
        "The array of controls of the pose is inf",
    )


@pytest.mark.parametrize(("slowest", "state"), [(0.0, BEYOND), (-300.0, THERE)])
def test_what_a_motor_cannot_do_at_all_is_out_of_reach_and_no_matter_of_time(slowest, state):
    limits = [Limit(lower=slowest, upper=300.0, order=1)]
    controller = inverse(
        Quasistatic(can("pressure", (0.0, 1e4))),
        "top",
        fixed={"pull": 0.0},
        directions="z",
        limits=limits,
    )
    first = controller.begin(u=[2000.0, 0.0])
    pose = controller.settle(first, first.places - (0.0, 0.0, 5e-4), ticks=60)
    assert pose.state == state
    assert pose.u[0] == 2000.0 if state == BEYOND else pose.u[0] < 1500.0


def test_a_pose_is_gone_on_from_as_it_is():
    """Nothing is solved: a state away from balance stays there, at its own tick, and is not shared
    with whoever gave it."""
    controller = inverse(Quasistatic(arm()))
    first = controller.begin()
    given = 1.01 * first.x
    pose = controller.resume(given, first.u, 7)
    assert pose.k == 7
    np.testing.assert_array_equal(pose.x, 1.01 * first.x)
    np.testing.assert_allclose(pose.places, 1.01 * first.places, rtol=1e-12)
    given[:] = 0.0
    np.testing.assert_array_equal(pose.x, 1.01 * first.x)


@pytest.mark.parametrize("away", [0.0, 10.0])
@pytest.mark.parametrize(("share", "stands"), [(0.005, True), (0.02, False)])
def test_where_a_robot_stands_firmly_does_not_depend_on_where_the_world_begins(away, share, stands):
    """A bar that is stretched evenly is away from balance by the way of its end: firm is less than
    a hundredth of its length."""
    across = pl.Cable(points=[(away + x, 0.02, 0.08) for x in (0.0, 0.04)], limits=(0.0, 1.0))
    robot = arm(
        shape=pl.Box(size=(0.04, 0.04, 0.16), origin=(away, 0.0, 0.0)),
        actuators={"across": across},
        effectors={"tip": pl.Effector(surface="z+")},
        material=pl.Material(E=1e5, nu=0.0),
        gravity=None,
    )
    controller = inverse(Quasistatic(robot))
    first = controller.begin()
    stretched = first.x * np.tile([1.0, 1.0, 1.0 + share], len(first.x) // 3)
    after = controller.manual(controller.resume(stretched, first.u, 0), first.u)
    assert (after.firm is not None) == stands


def test_a_slack_cable_is_taken_up_by_hand():
    """A motor that winds up slack moves nothing at first, which is no loss of balance."""
    controller = inverse(Quasistatic(arm("length")))
    pose = controller.begin(u=[1.0, 1.02, 1.0, 1.02])
    for _ in range(60):
        pose = controller.manual(pose, [0.95, 1.02, 1.0, 1.02])
        assert "balance" not in pose.text
    assert (pose.text, pose.folds) == ("by hand", ())
    np.testing.assert_allclose(pose.u, [0.95, 1.02, 1.0, 1.02])


@pytest.mark.parametrize("k", [-1, 2.5, None, True, np.nan])
def test_a_tick_to_go_on_from_is_a_whole_number(k, one_sentence):
    controller = inverse(Quasistatic(arm()))
    first = controller.begin()
    one_sentence(lambda: controller.resume(first.x, first.u, k), "The tick to go on from")


def test_a_state_with_a_cell_inside_out_is_refused(one_sentence):
    controller = inverse(Quasistatic(arm(material=pl.Material(E=1e5, nu=0.3, law="neo-hookean"))))
    first = controller.begin()
    one_sentence(lambda: controller.resume(-first.x, first.u, 0), "turned inside out")


def test_a_bound_that_is_in_the_way_is_named_and_nothing_is_passed():
    """A load that grows pulls a cable out further than its stroke: there is a balance, but it may
    not be taken."""
    pull = pl.PointLoad(point=(0.02, 0.02, 0.16), force=lambda t: (-0.2 * t, 0.0, 0.0))
    controller = inverse(
        Quasistatic(arm(loads=[pull])),
        strokes=[Stroke(actuator="a", upper=0.003)],
        limits=[Limit(upper=0.05)],
    )
    pose, said = controller.begin(), []
    for _ in range(20):
        pose = controller.follow(pose, [[0.02, 0.02, 0.16]])
        assert controller.strokes[0].value(pose.x) <= 0.003
        said.append(pose.text)
    assert "the stroke of 'a' cannot be kept" in said
    assert said[-1] == "no step was found that keeps everything"


def test_a_robot_that_swings_begins_with_the_solver_of_its_model_and_a_state_of_its_own():
    controller = inverse(SemiImplicit(arm(), dt=0.02, solver="fronts"))
    first = controller.begin()
    given = first.x.copy()
    assert controller.rule._still.equations.solver == "fronts"
    pose = controller.begin(given)
    given[:] = 0.0
    np.testing.assert_array_equal(pose.x, first.x)
