"""Thrust: a dead force at a material point."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.dynamics.equations import Equations


def test_thrust_force_is_control_at_its_point(rng):
    at, u = np.array([0.33, 0.04, 0.07]), np.array([1.0, -2.0, 0.5])
    robot = pl.Robot(
        shape=pl.Box(size=(0.4, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=2,
        material=pl.Material(E=1e5, nu=0.3),
        actuators={"hand": pl.actuators.Thrust(point=at)},
    )
    eq = Equations(robot=robot)
    q = eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)
    f, y = (
        -eq.external_energy_and_gradient(eq.coefficients(None), q, u)[1].reshape(-1, 3),
        (eq.body.locate(at[None]) @ q.reshape(-1, 3))[0],
    )
    np.testing.assert_allclose(f.sum(axis=0), u, atol=1e-14)
    np.testing.assert_allclose(
        np.cross(q.reshape(-1, 3), f).sum(axis=0), np.cross(y, u), atol=1e-14
    )
    np.testing.assert_allclose(eq.control_jacobian(q, u) @ u, -f.ravel(), atol=1e-14)


def test_thrust_on_free_mass_follows_newtons_second_law():
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=4.0),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    )
    model = pl.ImplicitEuler(robot, dt=0.1)
    step = model.step(model.initial_state(), np.array([2.0, -1.0]))
    np.testing.assert_allclose(model.space.velocity(step.x), [0.05, -0.025], rtol=1e-12)


def test_bad_thrust_limits_are_rejected():
    with pytest.raises(InputError, match=r"lower limit 1 .*not below its upper limit 0"):
        pl.actuators.Thrust(point=(0.0, 0.0), limits=(1.0, 0.0))
