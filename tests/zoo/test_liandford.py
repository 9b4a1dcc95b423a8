"""The Liandford robot: symmetry and motor motions."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.planners import Options
from pliant.zoo.condensed_tasks import equilibrium_positions, plan_reach
from pliant.zoo.experiments.liandford import orient


@pytest.fixture(scope="module")
def robot():
    return pl.robots.liandford(cells=4)


@pytest.fixture(scope="module")
def still(robot):
    return pl.Quasistatic(robot)


def place(robot, still, angles, effector="centre"):
    return robot.effector_position(effector, pl.equilibrium(still, np.asarray(angles, float)).x)


def test_equal_motor_angles_lift_the_bar_vertically(robot, still):
    rest, lifted = (place(robot, still, np.full(6, angle)) for angle in (0.0, 0.4))
    np.testing.assert_allclose(rest[:2], 0.0, atol=1e-9)
    np.testing.assert_allclose(lifted[:2], 0.0, atol=1e-9)
    assert lifted[2] - rest[2] > 1e-3


def test_motion_has_threefold_rotational_symmetry(robot, still):
    """The legs at 0, 120 and 240 degrees are identical."""
    angles = np.array([0.5, 0.1, 0.0, -0.2, 0.0, 0.3])
    c, s = np.cos(2.0 * np.pi / 3.0), np.sin(2.0 * np.pi / 3.0)
    rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    first, second = (
        place(robot, still, angles, "top"),
        place(robot, still, np.roll(angles, 2), "top"),
    )
    np.testing.assert_allclose(second, rotation @ first, atol=1e-8)


def test_bar_keeps_its_length(robot, still):
    x = pl.equilibrium(still, np.array([0.8, 0.7, 0.1, -0.6, -0.5, 0.1])).x
    assert np.linalg.norm(
        robot.effector_position("top", x) - robot.effector_position("bottom", x)
    ) == pytest.approx(0.06, rel=1e-4)


def test_too_few_cells_are_rejected():
    with pytest.raises(InputError, match=r"'1' cells\. Use an integer of at least 2"):
        pl.robots.liandford(cells=1)


def test_torques_that_hold_the_motors_at_angles_give_their_equilibrium():
    angles, by_angle = np.array([0.8, 0.5, -0.5, -0.6, -0.2, 0.4]), pl.robots.liandford(cells=2)
    by_torque = pl.robots.liandford(cells=2, drive="torque")
    body, q = by_angle.body(), equilibrium_positions(by_angle, angles)
    torques = []
    for motor, angle in zip(by_angle.actuators.values(), angles, strict=True):
        springs = motor.attach(body)
        y = springs.weights @ q.reshape(-1, 3) + springs.offset
        energy = [springs.energy(y, np.array([angle + e])) for e in (-1e-4, 1e-4)]
        torques.append((energy[1] - energy[0]) / 2e-4)
    np.testing.assert_allclose(equilibrium_positions(by_torque, np.array(torques)), q, atol=1e-7)


def test_linear_derivative_plans_short_motions_with_torques_and_not_with_angles():
    """[Menager2024] plans this robot with the linear derivative, which is made for forces."""
    found = {}
    for drive in ("torque", "rotation"):
        task = orient({"cells": 2, "dt": 0.01, "steps": 16, "drive": drive})
        options = Options(iterations=15, progress=False)
        found[drive] = plan_reach(task, "linear", options=options).largest_goal_error
    assert found["torque"] < 0.5 * found["rotation"]
