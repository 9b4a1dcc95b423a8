"""The inertia of a liquid follows the current volume, and acceleration acts on its pressure."""

import numpy as np
import pytest
from liquid_bags import RHO, TILTED, bag, every, measured

import pliant as pl
from pliant.actuators import Hydraulic
from pliant.dynamics.equations import Equations

TIGHT = pl.SolverOptions(tolerance=1e-13)


def datum(eq, gravity):
    """Return the point x_ref (dim,) [m]: the highest corner of the cavity at rest."""
    nodes = eq.body.rest.reshape(-1, eq.dim)[np.unique(eq.body.mesh.facets("cavity"))]
    return nodes[np.argmin(nodes @ gravity)]


def centroid_velocity(eq, q, v):
    """Return the velocity (dim,) [m/s] of the centroid of the cavity."""
    at = lambda h: measured(eq, q + h * v)[1]
    return (at(1e-5) - at(-1e-5)) / 2e-5


@every
def test_falling_bag_keeps_its_rest_shape(dim, order):
    """In free fall the pressure of the liquid is uniform. The pump cancels it."""
    robot, g = bag(dim=dim, order=order, supports=()), np.array(TILTED[dim])
    model = pl.ImplicitEuler(robot, dt=0.01, solver_options=TIGHT)
    eq, x = model.equations, model.initial_state()
    _, centroid = measured(eq, eq.body.rest)
    for k in range(3):
        fallen = 0.5 * (k + 1) * (k + 2) * 0.01**2 * g
        pressure = -RHO * g @ (centroid + fallen - datum(eq, g))
        step = model.step(x, np.array([pressure]), None, k)
        assert step.status, step.status.text
        x = step.x
        moved = model.space.position(x) - eq.body.rest
        np.testing.assert_allclose(
            moved.reshape(-1, dim), np.tile(fallen, (len(moved) // dim, 1)), atol=1e-11
        )


@every
def test_accelerated_bag_has_shape_of_tilted_gravity(dim, order):
    """A support with the acceleration a, and gravity g - a, have the same equilibrium. The pressure
    at the centroid is the same in both."""
    a, g, h = np.array([4.0, 1.0, -2.0][:dim]), np.array(TILTED[dim]), 0.01
    still = pl.Quasistatic(bag(dim=dim, order=order, gravity=tuple(g - a)), solver_options=TIGHT)
    p = np.array([900.0])
    q = pl.equilibrium(still, p).x
    _, centroid = measured(still.equations, q)
    at_centroid = p[0] + RHO * (g - a) @ (centroid - datum(still.equations, g - a))
    support = pl.Support(region="x-", motion=lambda t: a * t * h)
    moving = pl.ImplicitEuler(
        bag(dim=dim, order=order, supports=(support,)), dt=h, solver_options=TIGHT
    )
    moved = h * h * a
    u = at_centroid - RHO * g @ (centroid + moved - datum(moving.equations, g))
    step = moving.step(moving.state(q), np.array([u]))
    assert step.status, step.status.text
    shift = moving.space.position(step.x) - q
    np.testing.assert_allclose(
        shift.reshape(-1, dim), np.tile(moved, (len(q) // dim, 1)), atol=1e-10
    )


def test_frequency_follows_current_volume():
    """A bag on soft springs with twice its volume of liquid: omega^2 = k / (m + rho V)."""
    frame = pl.actuators.MovingFrame(origin=(0.15, 0.3))
    hand = pl.Gripper(surface="top", frame=frame, stiffness=2.0)
    robot = bag(2, supports=(), gravity=(0.0, 0.0), actuators={"hand": hand})
    u = robot.neutral_controls()
    u[0] = 4.5e4
    q = pl.equilibrium(pl.Quasistatic(robot), u).x
    eq, h = Equations(robot=robot), 0.05
    volume, _ = measured(eq, q)
    assert volume > 2.0 * measured(eq, eq.body.rest)[0]
    model = pl.ImplicitEuler(robot, dt=h, solver_options=TIGHT)
    lin = model.linearize(model.step(model.state(q), u))
    A = lin.jvp(np.eye(lin.n_state), np.zeros((lin.n_controls, lin.n_state)))
    growth = np.linalg.eigvals(A)
    # backward Euler: growth = 1 / (1 -+ i omega h)
    omegas = np.abs(np.imag(1.0 / growth[np.abs(growth) > 1e-6])) / h
    own = np.sum(
        eq.body.mass(eq.body.fields.density) * np.where(np.diff(eq.body.pairs)[:, 0], 2, 1)
    )
    k = 2.0 * 0.3 * 0.05
    expected = np.sqrt(k / (own + RHO * volume))
    assert np.abs(omegas - expected).min() < 1e-3 * expected


def test_momentum_follows_current_volume():
    """Each step changes the momentum of body and liquid by the weight of the current liquid. The
    mass is that at the start of the step."""
    robot, h = bag(supports=(), E=2e4), 0.01
    model = pl.ImplicitEuler(robot, dt=h, solver_options=TIGHT)
    eq, x, volumes = model.equations, model.initial_state(), []
    body = Equations(robot=bag(supports=(), fluid=pl.actuators.Pressure(cavity="cavity")))
    M = body.coefficients(None).mass
    for k in range(8):
        q, v = np.split(x, 2)
        step = model.step(x, np.array([1.2e4]), None, k)
        assert step.status, step.status.text
        x = step.x
        new, w = np.split(x, 2)
        centroids = [measured(eq, at)[1] for at in (new, q, q - h * v)]
        volumes.append(measured(eq, q)[0])
        change = RHO * volumes[-1] * (centroids[0] - 2.0 * centroids[1] + centroids[2]) / h
        change += (M @ (w - v).reshape(-1, 3)).sum(axis=0)
        weight = (M.sum() + RHO * measured(eq, new)[0]) * np.array(TILTED[3])
        np.testing.assert_allclose(change, h * weight, rtol=1e-7)
    assert volumes[-1] > 1.5 * volumes[0]


def energies(eq, q, v, u):
    """Return the kinetic energy of the liquid for a mass of 1 kg [m^2/s^2], its mass [kg], and the
    total energy [J]."""
    fractions = eq.liquids[0].fractions[:, None]
    nodes = v.reshape(-1, eq.dim)
    mean = (fractions * nodes).sum(axis=0)
    speed = centroid_velocity(eq, q, v)
    specific = 0.5 * (speed @ speed + np.sum(fractions * nodes**2) - mean @ mean)
    coefficients = eq.coefficients(None)
    M = coefficients.mass
    own = 0.5 * np.sum(nodes * (M @ nodes)) - 0.5 * eq.liquids[0].rest_mass * np.sum(
        fractions * nodes**2
    )
    mass = RHO * measured(eq, q)[0]
    stored = eq.body.energy(q, coefficients.fields)[0]
    stored += eq.external_energy_and_gradient(coefficients, q, u)[0]
    return specific, mass, own + mass * specific + stored


@pytest.mark.parametrize("drive", ["pressure", "volume"])
def test_energy_changes_by_that_of_entering_liquid(drive):
    """A thrown, rotating bag: the liquid that enters has the kinetic energy of that in the cavity.
    The error of the balance falls with the square of the time step."""
    fluid = Hydraulic(cavity="cavity", density=RHO, drive=drive, bulk=3e4)
    robot = bag(2, fluid=fluid, supports=(), E=3e4)
    eq, u = Equations(robot=robot), np.array([400.0 if drive == "pressure" else 1.05])
    place = eq.body.rest.reshape(-1, 2)
    v = (
        np.array([1.0, 2.0]) + 3.0 * (place - place.mean(axis=0)) @ [[0.0, 1.0], [-1.0, 0.0]]
    ).ravel()
    errors = []
    for h in (2e-3, 1e-3):
        model = pl.BDF2(robot, dt=h, equations=eq, solver_options=TIGHT)
        x = model.state(eq.body.rest, v, controls=u)
        history = [(eq.body.rest, v)]
        for k in range(round(0.06 / h)):
            x = model.step(x, u, None, k).x
            history.append((model.space.position(x), model.space.velocity(x)))
        found = np.array([energies(eq, q, w, u) for q, w in history])
        entered = np.sum(0.5 * (found[1:, 0] + found[:-1, 0]) * np.diff(found[:, 1]))
        errors.append(found[-1, 2] - found[0, 2] - entered)
        # [J] the kinetic energy of the liquid that enters or leaves is not small
        assert np.abs(np.diff(found[:, 1])).sum() * found[0, 0] > 20.0 * abs(errors[-1])
    assert abs(errors[1]) < 0.35 * abs(errors[0])
