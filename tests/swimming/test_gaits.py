"""Prescribed gaits: the geometry of swimming at zero momentum."""

import numpy as np
import pytest
from swimming_robots import POINTS, eel, single

from pliant.core import InputError
from pliant.swimming import SineAngles, SwimmerModel, prescribed_motion


@pytest.fixture(scope="module")
def model():
    return SwimmerModel(eel(), dt=0.01, cell=0.4, points=POINTS)


def gait(amplitude=0.4, frequency=1.0, phase=(0.0, np.pi / 2.0), **parts):
    return SineAngles(amplitude=(amplitude, amplitude), frequency=frequency, phase=phase, **parts)


def displacement(model, path, periods=1.0):
    """Return the motion of the root over some periods, seen from its first pose: (3,) and the
    quaternion (4,)."""
    steps = round(periods / abs(path.frequency) / model.dt)
    end = model.space.split(prescribed_motion(model, path, steps=steps).states[-1])
    return end.root.copy(), end.orientation.copy()


def test_undulation_swims_and_a_reciprocal_gait_does_not(model):
    moved, _ = displacement(model, gait())
    still, q = displacement(model, gait(phase=(0.0, 0.0)))
    assert np.linalg.norm(moved) > 1e-3
    assert np.linalg.norm(still) < 1e-9
    np.testing.assert_allclose(np.abs(q), (1.0, 0.0, 0.0, 0.0), atol=1e-9)


def test_displacement_does_not_depend_on_speed(model):
    slow, fast = (displacement(model, gait(frequency=f)) for f in (0.5, 1.0))
    np.testing.assert_allclose(slow[0], fast[0], atol=1e-7)
    np.testing.assert_allclose(slow[1], fast[1], atol=1e-7)


def test_reversed_loop_is_the_inverse_motion(model):
    """The loop is reversed in time from the same shape, so the poses are inverse."""
    forward, q = displacement(model, gait())
    backward, r = displacement(model, gait(frequency=-1.0))
    angle = 2.0 * np.arctan2(q[3], q[0])
    c, s = np.cos(angle), np.sin(angle)
    inverse = -np.array([[c, s], [-s, c]]) @ forward[:2]
    np.testing.assert_allclose(backward[:2], inverse, atol=1e-9)
    np.testing.assert_allclose(r, (q[0], -q[1], -q[2], -q[3]), atol=1e-9)


def test_displacement_grows_with_the_square_of_the_amplitude(model):
    small, large = (np.linalg.norm(displacement(model, gait(a))[0]) for a in (0.02, 0.04))
    assert large / small == pytest.approx(4.0, rel=0.02)


def test_centre_of_mass_stays_without_fluid():
    model = SwimmerModel(eel("spatial", fluid_density=0.0), dt=0.01)
    states = prescribed_motion(model, gait(), steps=100).states
    centres = np.array([model.effector("centre of mass", x)[0] for x in states])
    assert np.abs(centres - centres[0]).max() < 1e-8


def test_torques_of_a_gait_reproduce_it(model):
    """Open-loop torques, constant over each step, follow the angles to second order."""
    errors = []
    for dt in (0.02, 0.01):
        fine = SwimmerModel(eel(), dt=dt, cell=0.4, points=POINTS)
        path = gait(0.2, ramp=0.5)
        motion = prescribed_motion(fine, path, steps=round(0.5 / dt))
        x = motion.states[0]
        for u in motion.torques:
            x = fine.step(x, u).x
        errors.append(np.abs(fine.space.split(x).angles - path.angles(0.5)).max())
    assert errors[1] < 1e-3
    assert np.log2(errors[0] / errors[1]) > 1.5


def test_rates_are_the_derivative_of_the_angles():
    path = gait(ramp=0.7, offset=(0.1, -0.1))
    for time in (0.1, 0.35, 0.69, 0.9):
        change = (path.angles(time + 1e-6) - path.angles(time - 1e-6)) / 2e-6
        np.testing.assert_allclose(path.rates(time), change, rtol=1e-6, atol=1e-8)


def test_heavy_robot_under_gravity_is_refused():
    model = SwimmerModel(eel(density=1200.0, fluid_density=0.0, gravity=(0.0, 0.0, -9.81)), dt=0.01)
    with pytest.raises(InputError, match="weight"):
        prescribed_motion(model, gait(), steps=2)


def test_small_heavy_robot_under_gravity_is_refused():
    """A robot of 4 ug is not neutrally buoyant because its weight is small."""
    robot = single((1e-4, 1e-4, 1e-4), density=1200.0, gravity=(0.0, 0.0, -9.81))
    path = SineAngles(amplitude=(), frequency=1.0, phase=())
    with pytest.raises(InputError, match="weight"):
        prescribed_motion(SwimmerModel(robot, dt=0.01), path, steps=2)


@pytest.mark.parametrize(
    ("parts", "text"),
    [({"phase": (0.0,)}, "phase"), ({"frequency": np.inf}, "frequency"), ({"ramp": -1.0}, "ramp")],
)
def test_bad_gaits_raise_input_errors(parts, text):
    with pytest.raises(InputError, match=text):
        gait(**parts)
