"""Semi-implicit stepping: the first iteration of backward Euler, and reported failures."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError


def arm(**parts):
    return pl.Robot(
        shape=pl.Box(size=(0.2, 0.05, 0.05)),
        divisions=(4, 1, 1),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        supports=(pl.Support(region="x-"),),
        damping=pl.Damping(mass=1.0, stiffness=0.02),
        **parts,
    )


def test_semi_implicit_equals_backward_euler_for_small_motions(rate):
    """The difference is the error of one Newton iteration: second order in the load."""
    sizes, gaps = 2.0 ** -np.arange(4), []
    for size in sizes:
        robot = arm(actuators={"hand": pl.actuators.Thrust(point=(0.2, 0.025, 0.025))})
        controls = np.tile(0.05 * size * np.array([0.3, 1.0, -0.5]), (10, 1))
        ends = [
            pl.simulate(rule(robot, dt=0.02), controls).states[-1]
            for rule in (pl.ImplicitEuler, pl.SemiImplicit)
        ]
        gaps.append(np.abs(ends[1] - ends[0]).max())
    moved = np.abs(ends[0] - pl.ImplicitEuler(robot, dt=0.02).initial_state()).max()
    assert gaps[-1] < 0.01 * moved
    assert rate(sizes, gaps) == pytest.approx(2.0, abs=0.15)


def test_dynamic_rules_converge_to_static_equilibrium():
    robot = arm(gravity=(0.0, 0.0, -9.81))
    q = pl.equilibrium(pl.Quasistatic(robot), np.zeros(0)).x
    sag = np.abs(q - robot.body().rest).max()
    for rule in (pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit):
        model = rule(robot, dt=0.05)
        end = model.space.position(pl.simulate(model, np.zeros((150, 0))).states[-1])
        np.testing.assert_allclose(end, q, atol=1e-6 * sag)


def test_step_that_inverts_a_cell_fails_with_a_remedy():
    model = pl.SemiImplicit(arm(gravity=(-3e4, 0.0, 0.0)), dt=0.02)
    step = model.step(model.initial_state(), np.zeros(0))
    assert not step.status
    assert "smaller time step" in step.status.text
    assert np.all(np.isfinite(step.x))


def test_derivative_of_failed_step_raises(rng):
    model = pl.SemiImplicit(arm(), dt=0.02)
    step = model.step(model.state(rng.permutation(model.equations.body.rest)), np.zeros(0))
    assert not step.status
    with pytest.raises(InputError, match="no derivative"):
        model.linearize(step)
