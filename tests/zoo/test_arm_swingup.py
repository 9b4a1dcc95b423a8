"""arm-swingup: the derivatives over the whole swing, and a task that only a swing solves."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.zoo.experiments.arm_swingup import (
    BLOCKS,
    CONFIGURATIONS,
    EXPERIMENT,
    GOAL,
    RADIUS,
    SOFT,
    arm_model,
    objective,
    static_reach,
)

SETTINGS = EXPERIMENT.resolve_settings(quick=True)
COARSE = float(SETTINGS["coarsening"])
STEPS = int(SETTINGS["steps"])


def test_constraints_and_cost_have_correct_derivatives_over_the_whole_swing(rng):
    """2 s of swinging, by controls and by moduli: central differences of a random direction."""
    task, h = objective(arm_model(SETTINGS, CONFIGURATIONS[1], COARSE), STEPS), 1e-5
    d = rng.standard_normal(len(task.start))
    z = task.start + h * np.abs(d)  # no pressure at its lower limit
    found, plus, minus = task.gradient(z), task.value(z + h * d), task.value(z - h * d)
    for slope, name in ((found.gradient, "value"), (found.constraint_jacobian, "constraints")):
        quotient = (np.asarray(getattr(plus, name)) - getattr(minus, name)) / (2.0 * h)
        np.testing.assert_allclose(slope @ d, quotient, rtol=1e-5)


def test_no_constant_pressure_reaches_the_goal():
    assert static_reach(SETTINGS, COARSE) < 0.5 * (GOAL[0] - RADIUS)


def test_every_block_of_the_co_design_has_a_modulus():
    model = arm_model(SETTINGS, CONFIGURATIONS[1], COARSE)
    assert [block.name for block in model.params.blocks] == [f"{name}.E" for name in BLOCKS]
    assert set(model.params.flat) == {SOFT}


def test_full_size_is_that_of_the_paper():
    model = arm_model(EXPERIMENT.settings, CONFIGURATIONS[1], 1.0)
    assert (model.body.n_particles, model.n_controls) == (17280, 8)


def test_a_method_without_constraints_is_an_error():
    with pytest.raises(InputError, match="choose sqp or interior_point"):
        EXPERIMENT.check_settings({**SETTINGS, "method": "adam"})
