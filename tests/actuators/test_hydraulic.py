"""Hydraulic: the liquid's weight at its centroid, hydrostatic pressure on every wall, exact
derivatives, and its datum."""

import numpy as np
import pytest
from liquid_bags import (
    RHO,
    TILTED,
    bag,
    every,
    liquid,
    measured,
    moments,
    shaken,
    wall_forces,
    weight,
)

import pliant as pl
from pliant.actuators import ExtrapolatedActuator, Hydraulic, Pressure
from pliant.actuators.pressure import ATMOSPHERE
from pliant.dynamics.equations import Equations
from pliant.geometry import Mesh

# The weight


@every
def test_net_force_is_weight_at_centroid(rng, dim, order):
    eq, q = shaken(rng, dim=dim, order=order)
    f, x, (volume, centroid) = weight(eq, q), q.reshape(-1, dim), measured(eq, q)
    whole = RHO * volume * np.array(TILTED[dim])
    np.testing.assert_allclose(f.sum(axis=0), whole, atol=1e-11 * np.linalg.norm(whole))
    np.testing.assert_allclose(
        moments(x, f),
        moments(centroid[None], whole[None]),
        atol=1e-11 * np.abs(x).max() * np.abs(f).sum(),
    )
    assert (
        np.abs(f).sum() > 1.5 * np.abs(whole).sum()
    )  # the liquid presses on all walls, not only on the lowest


@every
def test_walls_carry_hydrostatic_pressure(rng, dim, order):
    """At x_ref, the highest corner at rest, the pressure is the control."""
    eq, q = shaken(rng, dim=dim, order=order)
    g = np.array(TILTED[dim])
    corners = eq.body.rest.reshape(-1, dim)[eq.body.mesh.nodes("cavity")]
    highest = corners[np.argmin(corners @ g)]
    f = -eq.energy_and_gradient(q, np.array([300.0]))[1].reshape(-1, dim)
    expected = wall_forces(eq, q, lambda x: 300.0 + RHO * (x - highest) @ g)
    np.testing.assert_allclose(f, expected, atol=1e-11 * np.abs(expected).sum())


def test_tank_at_rest_matches_textbook_pressure():
    """The top carries no force, the floor rho g h A, each side rho g h^2 / 2 times its width."""
    eq = Equations(robot=bag(crooked=0.0, gravity=(0.0, 0.0, -9.81)))
    q, h = eq.body.rest, 0.1
    f, x = weight(eq, q), q.reshape(-1, 3)
    lower = np.isclose(x[:, 2], 0.1)
    assert f[lower, 2].sum() == pytest.approx(-RHO * 9.81 * h * h**2, rel=1e-12)
    assert f[~lower, 2] == pytest.approx(0.0, abs=1e-12)
    side = np.isclose(x[:, 0], 0.2)
    assert f[side, 0].sum() == pytest.approx(0.5 * RHO * 9.81 * h**2 * h, rel=1e-12)


@every
def test_energy_of_rotated_tank_is_that_of_its_centroid(dim, order):
    """Under a rigid motion the potential is minus the weight times the centroid displacement.

    The pump adds nothing."""
    eq = Equations(robot=bag(dim=dim, order=order))
    rest, g, term = eq.body.rest.reshape(-1, dim), np.array(TILTED[dim]), liquid(eq)
    volume, centroid = measured(eq, eq.body.rest)
    c, s = np.cos(0.7), np.sin(0.7)
    R = np.eye(dim)
    R[:2, :2] = [[c, -s], [s, c]]
    shift = np.arange(1.0, dim + 1)
    energy = lambda x: term.energy(eq.points(term, x.ravel()), np.zeros(0))
    expected = -RHO * volume * g @ (R @ centroid + shift - centroid)
    assert energy(rest @ R.T + shift) - energy(rest) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("drive", ["pressure", "volume"])
@every
def test_gradient_hessian_and_control_column_pass_taylors_test(rng, taylor, dim, order, drive):
    eq, q = shaken(
        rng,
        dim=dim,
        order=order,
        fluid=Hydraulic(cavity="cavity", drive=drive, density=RHO, bulk=3e4),
    )
    u, d = np.array([1.3e3 if drive == "pressure" else 1.2]), 0.1 * rng.standard_normal(q.size)
    assert taylor(
        lambda e: eq.energy_and_gradient(q + e * d, u)[0], eq.energy_and_gradient(q, u)[1] @ d
    ) == pytest.approx(2.0, abs=0.1)
    assert taylor(
        lambda e: eq.energy_and_gradient(q + e * d, u)[1], eq.potential_stiffness_times(q, u, d)
    ) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(
        eq.energy_and_gradient(q, u + 0.5)[1] - eq.energy_and_gradient(q, u)[1],
        0.5 * eq.control_jacobian(q, u)[:, 0],
        atol=1e-8,
    )
    blocks = liquid(eq).hessian(eq.points(liquid(eq), q), u)
    np.testing.assert_allclose(blocks, np.swapaxes(blocks, 1, 2), atol=1e-13 * np.abs(blocks).max())


@every
def test_hessian_derivative_matches_complex_step(rng, dim, order):
    eq, q = shaken(
        rng,
        dim=dim,
        order=order,
        fluid=Hydraulic(cavity="cavity", drive="volume", density=RHO, bulk=3e4),
    )
    u, y, z, e = np.array([1.2]), *(0.1 * rng.standard_normal((2, q.size))), 1e-5
    slope = (
        eq.potential_stiffness_times(q + e * y, u, z)
        - eq.potential_stiffness_times(q - e * y, u, z)
    ) / (2 * e)
    np.testing.assert_allclose(
        eq.potential_stiffness_derivative(q, u, y, z), slope, atol=1e-8 * np.abs(slope).max()
    )


def test_pressure_and_volume_drives_agree_at_same_shape():
    by_volume, by_pressure = (
        pl.Quasistatic(bag(fluid=Hydraulic(cavity="cavity", drive=drive)))
        for drive in ("volume", "pressure")
    )
    u = np.array([1.2])
    q, eq = pl.equilibrium(by_volume, u).x, by_volume.equations
    pump = eq.potentials[0][0]
    p = pump.pressure(eq.points(pump, q), u)
    np.testing.assert_allclose(pl.equilibrium(by_pressure, np.array([p])).x, q, atol=1e-8)


def test_liquid_uses_gravity_of_robot():
    """If robot and gravity are rotated together, the equilibrium is the rotated shape."""
    R = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
    plain = bag()
    mesh = plain.shape
    shape = Mesh(points=mesh.points @ R.T, cells=mesh.cells, surfaces=mesh.surfaces)
    rotated = pl.Robot(
        shape=shape,
        order=1,
        material=plain.material,
        supports=plain.supports,
        actuators=plain.actuators,
        gravity=R @ TILTED[3],
    )
    first, second = (
        pl.equilibrium(pl.Quasistatic(robot), np.array([800.0])).x.reshape(-1, 3)
        for robot in (plain, rotated)
    )
    np.testing.assert_allclose(second, first @ R.T, atol=1e-9)


def test_latent_model_includes_liquid_weight():
    """The controls are extrapolated beyond their limits; the liquid keeps its weight."""
    robot = bag()
    wrapped = bag(fluid=ExtrapolatedActuator(actuator=robot.actuators["pump"]))
    shapes = [
        pl.equilibrium(pl.Quasistatic(r), np.array([800.0])).x
        for r in (robot, wrapped, bag(fluid=Pressure(cavity="cavity")))
    ]
    np.testing.assert_allclose(shapes[1], shapes[0], atol=1e-12)
    assert np.abs(shapes[2] - shapes[0]).max() > 1e-4


def test_hydraulic_combines_with_cables_and_closed_air(rng):
    """Two adjacent cavities: each wall carries the pressure of its fluid; only water has weight."""
    line = pl.Cable(points=[[0.05, 0.05, 0.28], [0.48, 0.05, 0.28]])
    robot = bag(
        rooms=2,
        fluid=Hydraulic(cavity="cavity-1", density=RHO),
        actuators={"line": line, "air": Pressure(cavity="cavity-2", drive="gas")},
    )
    model = pl.ImplicitEuler(robot, dt=0.01)
    step = model.step(model.initial_state(), np.array([500.0, 2.0, 1.0]))
    assert step.status, step.status.text
    assert all(check.ok for check in pl.gradcheck(model, step.x, np.array([500.0, 2.0, 1.0])))
    eq, g = model.equations, np.array(TILTED[3])
    q = eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)
    corners = eq.body.rest.reshape(-1, 3)[eq.body.mesh.nodes("cavity-1")]
    water = wall_forces(
        eq, q, lambda x: 500.0 + RHO * (x - corners[np.argmin(corners @ g)]) @ g, "cavity-1"
    )
    (before, _), (now, _) = (measured(eq, at, "cavity-2") for at in (eq.body.rest, q))
    air = wall_forces(
        eq, q, lambda x: np.full(len(x), ATMOSPHERE * (before / now - 1.0)), "cavity-2"
    )
    np.testing.assert_allclose(
        -eq.energy_and_gradient(q, np.array([500.0, 0.0, 1.0]))[1].reshape(-1, 3),
        water + air,
        atol=1e-9 * np.abs(air).sum(),
    )
    dry = eq.body.mass(eq.body.fields.density)
    assert eq.coefficients(None).pair_mass.sum() - dry.sum() == pytest.approx(
        RHO * measured(eq, eq.body.rest, "cavity-1")[0], rel=1e-9
    )


# The reference point of the pressure


def lifted(h, u, **fluid):
    """Return (model, equilibrium positions (n_nodes, 3)) of a bag whose support is h [m] higher."""
    model = pl.Quasistatic(
        bag(
            gravity=(0.0, 0.0, -9.81),
            fluid=Hydraulic(cavity="cavity", density=RHO, **fluid),
            supports=[pl.Support(region="x-", motion=lambda t: (0.0, 0.0, h))],
        )
    )
    start = (model.initial_state().reshape(-1, 3) + (0.0, 0.0, h)).ravel()
    return model, pl.equilibrium(model, np.array([u]), x0=start).x.reshape(-1, 3)


@pytest.mark.parametrize(("drive", "u", "unit"), [("pressure", 9000.0, 1.0), ("volume", 1.02, 1e6)])
def test_lift_reduces_pressure_by_rho_g_h(drive, u, unit):
    """The pump is fixed: raising the robot by h has the effect of a control reduced by rho g h, or
    by rho g h / bulk."""
    h = 0.4
    _, above = lifted(h, u, drive=drive)
    _, below = lifted(0.0, u - RHO * 9.81 * h / unit, drive=drive)
    np.testing.assert_allclose(above - (0.0, 0.0, h), below, atol=1e-9)


def test_lift_changes_volume_by_rho_g_h_over_bulk():
    """With the wall compliance c = dV/dp: dV / V0 = -(rho g h / bulk) / (1 + V0 / (c bulk))."""

    def volume(*args, **fluid):
        model, x = lifted(*args, **fluid)
        return measured(model.equations, x.ravel())[0]

    h, rest = 0.4, liquid(Equations(robot=bag())).wall.rest_volume
    low, high = (volume(at, 1.02, drive="volume") for at in (0.0, h))
    p = 1e6 * (1.02 - low / rest)
    compliance = (volume(0.0, p + 50.0) - volume(0.0, p - 50.0)) / 100.0
    whole, share = RHO * 9.81 * h / 1e6, 1.0 / (1.0 + rest / (compliance * 1e6))
    assert (high - low) / rest == pytest.approx(-whole * share, rel=0.01)
    assert share > 0.8  # so that rho g h / bulk dominates
