"""The experiment stiffening-arm: its law, and the plans of the three derivatives."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from pliant.planners import Options
from pliant.zoo.condensed_tasks import DERIVATIVES, equilibrium_positions, plan_reach
from pliant.zoo.experiments.stiffening_arm import (
    LENGTH,
    MATERIALS,
    YOUNG,
    StiffeningLaw,
    bar,
    make_task,
    relative_stiffness,
)

LAW = StiffeningLaw(k=3e4)


def deformed(rng, n=5):
    return np.eye(2) + 0.3 * rng.standard_normal((n, 2, 2))


def test_stress_is_derivative_of_energy(rng):
    F, change = deformed(rng), rng.standard_normal((5, 2, 2))
    found = LAW.energy(F + 1e-20j * change).imag / 1e-20
    np.testing.assert_allclose(np.einsum("nij,nij->n", LAW.stress(F), change), found, rtol=1e-12)


def test_tangent_is_derivative_of_stress(rng):
    F, change = deformed(rng), rng.standard_normal((5, 2, 2))
    found = LAW.stress(F + 1e-20j * change).imag / 1e-20
    product = np.einsum("nimjk,njk->nim", LAW.tangent(F), change)
    np.testing.assert_allclose(product, found, rtol=1e-10)


def test_term_has_no_stiffness_at_rest():
    rest = np.eye(2)[None]
    assert LAW.energy(rest) == 0.0
    np.testing.assert_array_equal(LAW.tangent(rest), 0.0)


def uniaxial_stress(k, stretch, E=YOUNG, nu=0.4):
    """Return the nominal stress [Pa] of a stretch in plane strain, with free sides."""
    mu, lam = E / (2.0 * (1.0 + nu)), E * nu / ((1.0 + nu) * (1.0 - 2.0 * nu))
    strain = lambda side: stretch**2 + side**2 - 2.0 - 2.0 * np.log(stretch * side)
    energy = lambda side: (
        0.5 * mu * strain(side)
        + 0.5 * lam * np.log(stretch * side) ** 2
        + 0.5 * k * strain(side) ** 2
    )
    side = minimize_scalar(energy, bounds=(0.3, 1.1), method="bounded").x
    slope = 2.0 * (stretch - 1.0 / stretch)
    by_volume = lam * np.log(stretch * side) / stretch
    return (0.5 * mu + k * strain(side)) * slope + by_volume


@pytest.mark.parametrize("name", ["neo-hookean", "stiffening", "strongly stiffening"])
def test_stiffness_at_the_goal_is_that_of_uniaxial_tension(name):
    """The stretch is uniform except at the ends, which are a third of the length of the bar."""
    material = MATERIALS[name]
    tensions, robot = np.array(material.tensions), bar(material, 10)
    goal = robot.effector_position("tip", equilibrium_positions(robot, tensions))[0] / LENGTH
    stress = lambda stretch: uniaxial_stress(material.stiffening * YOUNG, stretch)
    expected = (stress(1.001 * goal) - stress(0.999 * goal)) / (0.002 * goal * YOUNG)
    assert relative_stiffness(robot, tensions) == pytest.approx(expected, rel=0.3)


def test_linear_derivative_misses_the_goal_of_a_strongly_stiffening_bar():
    settings = {"cells": 6, "dt": 0.01, "steps": 30}
    task = make_task(MATERIALS["strongly stiffening"], settings)
    options = Options(iterations=60, progress=False)
    errors = {
        derivative: plan_reach(task, derivative, options=options).largest_goal_error
        for derivative in DERIVATIVES
    }
    assert errors["linear"] > 1e-3
    assert errors["nonlinear"] < 1e-4
    assert errors["exact"] < 1e-6
