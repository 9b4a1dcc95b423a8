"""diamond-nonlinear-mpc: its path meets the forbidden ball, and the controlled robot has a delay
and measurement noise."""

import numpy as np
import pytest

import pliant as pl
from pliant.zoo.experiments import diamond_nonlinear_mpc as experiment

SETTINGS = experiment.EXPERIMENT.resolve_settings()


def test_spiral_starts_at_the_tip_and_meets_the_forbidden_ball():
    start = np.array([0.0, 0.0, 0.12])
    task = experiment.SpiralTask.around(start, SETTINGS)
    targets = task.targets(float(SETTINGS["dt"]))
    np.testing.assert_allclose(targets[0], start)
    gaps = task.zone(targets)[0]
    assert gaps.min() < -0.4 * float(SETTINGS["zone_radius"])
    assert min(gaps[0], gaps[-1]) > float(SETTINGS["margin"])


@pytest.mark.parametrize("delay", [1, 2])
def test_controlled_robot_moves_after_the_delay(delay):
    plant = pl.BDF2(pl.robots.diamond(along=4), dt=0.01)
    measured = []

    def policy(k, tip):
        measured.append(tip)
        return np.array([2.0, 0.0, 0.0, 0.0])

    s = {**SETTINGS, "delay": delay, "noise": 1e-4}
    motion = experiment.simulate_plant(plant, policy, 4, s, seed=0)
    moved = np.linalg.norm(motion.tips - motion.tips[0], axis=1)
    assert moved[delay] < 1e-9 < 1e-6 < moved[delay + 1]
    noise = np.array(measured) - motion.tips[:-1]
    assert 3e-5 < noise.std() < 3e-4


def test_controlled_robot_is_softer_and_finer_than_the_model():
    model, plant = experiment.model_robot(SETTINGS), experiment.true_robot(SETTINGS)
    ratio = plant.material.E / model.material.E
    assert ratio == pytest.approx(0.8)
    assert plant.body().rest.size > model.body().rest.size
