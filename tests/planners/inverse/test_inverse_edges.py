"""What inverse control does where there is no way on: beyond a largest pressure, with drives that are too quick, at the limits of rates."""

from dataclasses import replace

import numpy as np
import pytest

from pliant.actuators import Cable, Hydraulic
from pliant.dynamics import Quasistatic, SemiImplicit, equilibrium
from pliant.geometry import Vessel
from pliant.materials import Material
from pliant.planners import inverse
from pliant.problem import Limit
from pliant.robot import Damping, Effector, Robot, Support


def can(drive, limits):
    """A soft can of water on its bottom, with a cable along its side."""
    side = Cable(points=[(0.018, 0.0, z) for z in np.linspace(0.0, 0.06, 6)], limits=(0.0, 5.0))
    return Robot(
        shape=Vessel(radius=0.02, wall=0.004, length=0.06, cap=0.006),
        divisions=(8, 4, 1),
        order=1,
        material=Material(E=1e5, nu=0.3),
        supports=(Support(region="bottom"),),
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(stiffness=0.01),
        effectors={"top": Effector(surface="top")},
        actuators={"water": Hydraulic(cavity="cavity", drive=drive, limits=limits), "pull": side},
    )


def test_beyond_the_largest_pressure_the_robot_holds_where_it_stood_and_says_so():
    """A can that is blown up has a largest pressure, beyond which no balance is near; what is asked for lies there."""
    controller = inverse(Quasistatic(can("pressure", (0.0, np.inf))), "top")
    first = controller.begin()
    pose, worst, said = first, 0.0, []
    for _ in range(40):
        pose = controller.follow(pose, first.places + (0.0, 0.0, 0.02))
        worst, said = max(worst, float(np.abs(pose.places - first.places).max())), [*said, pose.text]
    assert worst < 0.02  # it never burst
    assert pose.u[0] == pytest.approx(8500.0, rel=0.02)  # the largest pressure of this mesh
    assert any("no balance beyond here" in text for text in said)
    end = controller.settle(first, first.places + (0.0, 0.0, 0.02))
    assert not end.ok
    assert end.error < 0.003


def test_a_pump_by_hand_beyond_its_largest_pressure_does_not_burst_the_robot():
    controller = inverse(Quasistatic(can("pressure", (0.0, np.inf))), "top")
    first = pose = controller.begin()
    for _ in range(30):
        pose = controller.manual(pose, [1e5, 0.0])
        assert np.abs(pose.places - first.places).max() < 0.03
    back = controller.settle(pose, first.places)
    assert back.ok
    assert back.error < 1e-4 * controller.length


def test_rates_are_kept_on_the_way_back_too():
    controller = inverse(Quasistatic(can("pressure", (0.0, np.inf))), "top", limits=[Limit(lower=-300.0, upper=300.0, order=1)])
    pose = controller.begin()
    target, said = pose.places + (0.0, 0.0, 0.02), []
    for _ in range(60):
        before, pose = pose, controller.follow(pose, target)
        assert np.abs(pose.u - before.u).max() <= 300.0 * (1.0 + 1e-12)
        said.append(pose.text)
    assert any("no balance beyond here" in text for text in said)
    assert np.abs(pose.places - target).max() < 0.03


def test_a_volume_that_is_asked_for_at_once_is_pumped_in_step_by_step():
    """A linearised step follows a stiff drive by a little only; the other controls and time go on meanwhile."""
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
    controller = inverse(Quasistatic(can("pressure", (0.0, 1e4))), "top", limits=[Limit(lower=-rate, upper=rate, order=1)])
    first = controller.begin()
    pose = controller.settle(first, first.places + (0.0, 0.0, 0.002), ticks=20)
    assert (pose.k, pose.ok, pose.text) == (20, True, "still moving after 20 ticks")
    assert pose.u[0] == pytest.approx(20 * rate, rel=1e-6)
    assert controller.follow(first, first.places + (0.0, 0.0, 0.002)).text.startswith("moving")


def test_a_pose_that_is_not_finite_is_a_sentence(one_sentence):
    controller = inverse(Quasistatic(can("volume", (0.8, 1.5))), "top")
    pose = controller.begin()
    one_sentence(lambda: controller.follow(replace(pose, x=np.nan * pose.x), pose.places), "The state of the pose is nan")
    one_sentence(lambda: controller.manual(replace(pose, u=np.inf * (1.0 + pose.u)), pose.u), "The controls of the pose is inf")
