"""Closed air: Boyle's law, its energy, and its stiffness."""

import numpy as np
import pytest
from liquid_bags import bag, every, measured, shaken

import pliant as pl
from pliant.actuators import Pressure
from pliant.actuators.pressure import ATMOSPHERE


@every
def test_closed_air_obeys_boyle(rng, dim, order):
    eq, q = shaken(rng, dim=dim, order=order, fluid=Pressure(cavity="cavity", drive="gas"))
    air, rest = eq.potentials[0][0], eq.body.rest
    for u in (0.5, 1.0, 3.0):
        for at in (rest, q, 1.3 * q):
            y = eq.points(air, at)
            whole = (air.pressure(y, np.array([u])) + ATMOSPHERE) * air.volume(y)
            assert whole == pytest.approx(u * ATMOSPHERE * air.rest_volume, rel=1e-12)
    assert air.pressure(eq.points(air, rest), np.array([1.0])) == pytest.approx(0.0, abs=1e-8)


@every
def test_closed_air_passes_taylors_test(rng, taylor, dim, order):
    eq, q = shaken(rng, dim=dim, order=order, fluid=Pressure(cavity="cavity", drive="gas"))
    u, d = np.array([1.7]), 0.1 * rng.standard_normal(q.size)
    assert taylor(
        lambda e: eq.energy_and_gradient(q + e * d, u)[0], eq.energy_and_gradient(q, u)[1] @ d
    ) == pytest.approx(2.0, abs=0.1)
    assert taylor(
        lambda e: eq.energy_and_gradient(q + e * d, u)[1], eq.potential_stiffness_times(q, u, d)
    ) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(
        eq.energy_and_gradient(q, u + 0.5)[1] - eq.energy_and_gradient(q, u)[1],
        0.5 * eq.control_jacobian(q, u)[:, 0],
        rtol=1e-9,
        atol=1e-9,
    )
    y, z, e = 0.1 * rng.standard_normal(q.size), 0.1 * rng.standard_normal(q.size), 1e-5
    slope = (
        eq.potential_stiffness_times(q + e * y, u, z)
        - eq.potential_stiffness_times(q - e * y, u, z)
    ) / (2 * e)
    np.testing.assert_allclose(
        eq.potential_stiffness_derivative(q, u, y, z), slope, atol=1e-7 * np.abs(slope).max()
    )


def held_volume(fluid, u, load=0.0):
    """Return the equilibrium volume [m^3] under a load [Pa] on the top."""
    loads = (pl.SurfaceLoad(surface="top", traction=(0.0, 0.0, -load)),)
    model = pl.Quasistatic(bag(fluid=fluid, loads=loads, gravity=(0.0, 0.0, 0.0)))
    assert model.neutral_controls() == (1.0 if fluid.drive == "gas" else 0.0)
    return measured(model.equations, pl.equilibrium(model, np.array([u])).x)[0]


def test_sealed_chamber_has_stiffness_of_air():
    """To first order: dV = dV_open / (1 + c p0 / V0) with the body's compliance c = dV/dp."""
    free, gas = Pressure(cavity="cavity"), Pressure(cavity="cavity", drive="gas")
    rest = held_volume(gas, 1.0)
    compliance = (held_volume(free, 10.0) - rest) / 10.0
    stiffer = 1.0 + compliance * ATMOSPHERE / rest
    assert stiffer > 1.5
    assert held_volume(gas, 1.0, 40.0) - rest == pytest.approx(
        (held_volume(free, 0.0, 40.0) - rest) / stiffer, rel=5e-3
    )


def test_time_step_without_gas_converges():
    """Without gas there is no stiffness, only the atmospheric pressure."""
    model = pl.ImplicitEuler(bag(E=1e6, fluid=Pressure(cavity="cavity", drive="gas")), dt=0.01)
    step = model.step(model.initial_state(), np.zeros(1))
    assert step.status, step.status.text
    assert all(check.ok for check in pl.gradcheck(model, step.x, np.zeros(1)))
