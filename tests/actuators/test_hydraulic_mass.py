"""The mass of the liquid: its centre, free fall and oscillation."""

import numpy as np
import pytest
import scipy.linalg
from liquid_bags import RHO, TILTED, bag, every, liquid, measured, moments

import pliant as pl
from pliant.actuators import Hydraulic, Pressure
from pliant.dynamics.equations import Equations
from pliant.dynamics.liquid_steps import SemiImplicitLiquid


def masses(robot):
    """Return the masses of body and liquid [kg] and their mass matrix (n_nodes, n_nodes)."""
    eq = Equations(robot=robot)
    both = eq.coefficients(None).mass
    own = (
        Equations(robot=bag(dim=eq.dim, order=robot.order, fluid=Pressure(cavity="cavity")))
        .coefficients(None)
        .mass.sum()
    )
    return own, both.sum() - own, both


@every
def test_liquid_mass_has_centre_of_liquid(dim, order):
    robot = bag(dim=dim, order=order)
    eq = Equations(robot=robot)
    volume, centroid = measured(eq, eq.body.rest)
    _, filled, _ = masses(robot)
    assert filled == pytest.approx(RHO * volume, rel=1e-12)
    share = liquid(eq).mass
    assert share.min() >= 0.0
    np.testing.assert_allclose(share @ eq.body.rest.reshape(-1, dim) / filled, centroid, atol=1e-13)
    np.testing.assert_allclose(
        eq.coefficients(None).external_force,
        Equations(robot=bag(dim=dim, order=order, fluid=Pressure(cavity="cavity")))
        .coefficients(None)
        .external_force,
        atol=1e-15,
    )


@every
def test_free_robot_falls_with_g_without_rotation(dim, order):
    """In the first semi-implicit step the elastic forces have no resultant and the liquid fills its
    rest volume. Its momentum is that of its centroid."""
    robot = bag(dim=dim, order=order, supports=())
    model, pumped = pl.SemiImplicit(robot, dt=1e-3), np.array([700.0])
    x = model.step(model.initial_state(), pumped).x
    own, filled, M = masses(robot)
    eq, v = model.equations, model.space.velocity(x).reshape(-1, dim)
    cavity = eq.liquids[0].at(eq.body.rest)
    solid = M @ v - eq.liquids[0].rest_mass * eq.liquids[0].fractions[:, None] * v
    momentum = solid.sum(axis=0) + filled * cavity.centroid_gradient.T @ v.ravel()
    g = np.array(TILTED[dim])
    np.testing.assert_allclose(momentum / (own + filled), 1e-3 * g, rtol=1e-10)
    # the angular momentum of the liquid is that of its inertia forces on the wall
    place = eq.body.rest.reshape(-1, dim)
    nodes = M @ v + SemiImplicitLiquid(
        inertia=eq.liquids[0], q=eq.body.rest, v=0.0 * eq.body.rest, dt=1e-3, damping=0.0
    ).mass_times(v.ravel()).reshape(-1, dim)
    np.testing.assert_allclose(nodes.sum(axis=0), momentum, rtol=1e-10)
    centre = (M @ place).sum(axis=0) / M.sum()
    np.testing.assert_allclose(
        moments(place - centre, nodes), 0.0, atol=1e-10 * np.abs(nodes).sum()
    )


def swing(fluid, dense):
    """Return the squared lowest angular frequencies [1/s^2] of a stiff box on soft springs."""
    hand = pl.Gripper(
        surface="top", frame=pl.actuators.MovingFrame(origin=(0.15, 0.15, 0.3)), stiffness=2e3
    )
    robot = bag(
        E=1e9,
        crooked=0.0,
        supports=(),
        gravity=(0.0, 0.0, -9.81),
        fluid=fluid,
        actuators={"hand": hand},
    )
    eq = Equations(robot=robot)
    q, u = eq.body.rest, robot.neutral_controls()
    K = dense(eq.body, eq.body.stiffness(q, eq.body.fields)) + eq.potential_stiffness_times(
        q, u, np.eye(eq.n_dofs)
    )
    M = np.kron(eq.coefficients(None).mass.toarray(), np.eye(3))
    found, modes = scipy.linalg.eigh(K, M, subset_by_index=(0, 5))
    upright = np.argmax(np.abs(modes.reshape(-1, 3, 6)[:, 2].sum(axis=0)))
    return found[upright], M.sum() / 3


def test_full_hanging_box_swings_slower(dense):
    """Vertical oscillation on a spring k: omega^2 = k / (m + rho V)."""
    (empty, m), (full, both) = (
        swing(Pressure(cavity="cavity"), dense),
        swing(Hydraulic(cavity="cavity"), dense),
    )
    assert both - m == pytest.approx(1000.0 * 0.1**3, rel=1e-12)
    assert empty == pytest.approx(2e3 * 0.3**2 / m, rel=1e-4)
    assert full == pytest.approx(2e3 * 0.3**2 / both, rel=1e-4)
