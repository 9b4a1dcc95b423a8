"""Closed loops whose gradients pass the state only as a translation."""

from dataclasses import replace

import numpy as np
import pytest
from models import fem, latent, mass
from test_closed_loop import cost_and_gradient, learned_loop, reach

import pliant as pl
from pliant.core import Linearizable
from pliant.learning import ClosedLoop, SineGait

DT, STEPS = 0.1, 12


def pushed(window, gravity=None):
    """Return the loop of a point mass of 1 kg under a constant force."""
    model = pl.ImplicitEuler(replace(mass(), gravity=gravity), dt=DT)
    gait = SineGait(n_controls=2, amplitude=0.0, offset=(0.3, 0.2))
    return ClosedLoop(model, None, gait, gradient_window=window)


def gradient_of_position(loop, axis):
    """Return the gradient of the last position along an axis by the force along it."""
    run = pl.simulate(loop, np.zeros((STEPS, 0)), keep=True, progress=False)
    x_bars = np.zeros_like(run.states)
    x_bars[-1, axis] = 1.0
    return pl.pullback(loop, run, x_bars)[2][6 + axis]  # by the offset of the gait


@pytest.mark.parametrize("window", [1, 3, 4, 12])
def test_windows_add_the_displacements_that_forces_cause_within_them(window):
    # implicit Euler: n steps of a force f move a mass of 1 kg by dt^2 f n (n + 1) / 2
    within = DT**2 * window * (window + 1) / 2
    for axis in (0, 1):
        found = gradient_of_position(pushed(window), axis)
        assert found == pytest.approx(STEPS / window * within, rel=1e-12)


def test_last_window_alone_counts_along_gravity():
    loop = pushed(4, gravity=(0.0, -9.81))
    assert gradient_of_position(loop, 1) == pytest.approx(DT**2 * 10, rel=1e-12)
    assert gradient_of_position(loop, 0) == pytest.approx(3 * DT**2 * 10, rel=1e-12)


def test_window_of_all_steps_gives_exact_gradients():
    exact, task = learned_loop(fem()), reach(steps=20)
    p = exact.params.flat
    windowed = replace(exact, gradient_window=20)
    expected = cost_and_gradient(exact, task, p)[1]
    np.testing.assert_array_equal(cost_and_gradient(windowed, task, p)[1], expected)
    shorter = replace(exact, gradient_window=5)
    assert not np.allclose(cost_and_gradient(shorter, task, p)[1], expected, rtol=1e-3)


def test_inexact_gradients_are_no_linearisation():
    assert isinstance(pushed(None), Linearizable)
    assert not isinstance(pushed(3), Linearizable)


def test_wrong_windows_are_clear_errors(raises_clear_error):
    for window in (0, 2.5, -1, True):
        raises_clear_error(lambda window=window: pushed(window), "The gradient window is")
    gait = SineGait(n_controls=2)
    raises_clear_error(
        lambda: ClosedLoop(latent(), None, gait, gradient_window=3), "needs a robot of particles"
    )
