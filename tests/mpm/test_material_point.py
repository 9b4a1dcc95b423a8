"""Free bodies of particles: closed forms of translation and rotation, and conserved quantities."""

import numpy as np
import pytest
from particle_scenes import (
    LAWS,
    angular_momentum,
    block,
    drives,
    energy,
    masses,
    momentum,
    stirred,
    tables,
)

import pliant as pl
from pliant.core import Linearizable, Reversible

GRAVITY = {2: (0.3, -9.81), 3: (0.3, 0.1, -9.81)}
every_dim = pytest.mark.parametrize("dim", [2, 3])
every_law = pytest.mark.parametrize("law", LAWS)


def run(model, steps, x0=None, u=None):
    return pl.simulate(
        model, np.tile(model.neutral_controls() if u is None else u, (steps, 1)), x0=x0
    ).states


# Closed forms


@every_dim
@every_law
@pytest.mark.parametrize("seeding", ["lattice", "jitter"])
def test_free_fall_matches_closed_form_to_round_off(dim, law, seeding):
    """v_n = v_0 + n tau g and x_n = x_0 + n tau v_0 + n (n + 1) / 2 tau^2 g after 300 substeps over
    many cells, without strain."""
    robot = block(dim, gravity=GRAVITY[dim], material=pl.Material(E=1e4, nu=0.3, law=law))
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.05, substeps=20, seeding=seeding)
    v0, g, n, tau = np.array([1.0, 2.0, -3.0][:dim]), np.array(GRAVITY[dim]), 300, 5e-4
    x = run(model, 15, model.state(model.body.rest, np.tile(v0, model.body.n_particles)))[-1]
    at, v, C, F = tables(model, x)
    np.testing.assert_allclose(v, np.tile(v0 + n * tau * g, (len(v), 1)), atol=1e-12)
    np.testing.assert_allclose(
        at - model.body.samples.points,
        np.tile(n * tau * v0 + n * (n + 1) / 2 * tau**2 * g, (len(v), 1)),
        atol=1e-13,
    )
    np.testing.assert_allclose(C, 0.0, atol=1e-11)
    np.testing.assert_allclose(F, np.tile(np.eye(dim), (len(v), 1, 1)), atol=1e-13)


@every_dim
def test_mass_damping_decays_as_geometric_series(dim):
    """Mass damping changes v to v / (1 + tau a) in each substep."""
    model = pl.MaterialPoint(
        block(dim, damping=pl.Damping(mass=3.0)), dt=0.01, cell=0.05, substeps=20
    )
    x = run(model, 10, model.state(model.body.rest, np.ones(model.space.n_dofs)))[-1]
    np.testing.assert_allclose(model.space.velocity(x), (1.0 + 5e-4 * 3.0) ** -200, rtol=1e-11)


@every_dim
def test_stiff_body_rotates_like_a_rigid_body(dim):
    """After half a rotation each point is on the opposite side, up to the strain rho w^2 r^2 / E of
    1e-3 and the drift of the substeps."""
    model = pl.MaterialPoint(
        block(dim, origin=(-0.05,) * dim, material=pl.Material(E=1e5, nu=0.3)),
        dt=np.pi / 500,
        cell=0.025,
    )
    W = np.zeros((dim, dim))
    W[1, 0], W[0, 1] = 5.0, -5.0
    at, n = model.body.samples.points, model.body.n_particles
    x = run(model, 100, model.state(model.body.rest, (at @ W.T).ravel(), np.tile(W, (n, 1, 1))))[-1]
    rotated = at * ([-1.0, -1.0] if dim == 2 else [-1.0, -1.0, 1.0])
    np.testing.assert_allclose(tables(model, x)[0], rotated, atol=2e-3 * 0.05)


# Conserved quantities


def active(dim, law, **parts):
    """Return a body with every internal actuator and viscosity."""
    material = pl.Material(E=1e4, nu=0.3, law=law, power=2)
    robot = block(
        dim, material=material, damping=pl.Damping(stiffness=0.002), actuators=drives(dim), **parts
    )
    return pl.MaterialPoint(robot, dt=0.004, cell=0.04)


U = np.array([0.5, 2e3, 1e3])


@every_dim
@every_law
def test_momentum_and_angular_momentum_are_conserved_to_round_off(rng, dim, law):
    model = active(dim, law)
    x = stirred(model, rng)
    scale, lever = np.sum(masses(model)[:, None] * np.abs(tables(model, x)[1])), 0.1
    for _ in range(10):
        step = model.step(x, U)
        assert step.status, step.status.text
        np.testing.assert_allclose(momentum(model, step.x), momentum(model, x), atol=1e-14 * scale)
        np.testing.assert_allclose(
            angular_momentum(model, step.x), angular_momentum(model, x), atol=1e-14 * scale * lever
        )
        x = step.x


@every_dim
def test_gravity_and_loads_change_momentum_by_their_impulse(rng, dim):
    load, weight = np.array([0.2, -0.1, 0.3][:dim]), np.array(GRAVITY[dim])
    model = active(
        dim, "neo-hookean", gravity=weight, loads=[pl.PointLoad(point=(0.06,) * dim, force=load)]
    )
    x = stirred(model, rng)
    for _ in range(5):
        new = model.step(x, U).x
        gained = momentum(model, new) - momentum(model, x)
        np.testing.assert_allclose(
            gained, model.dt * (masses(model).sum() * weight + load), rtol=1e-11, atol=1e-14
        )
        x = new


@every_dim
@every_law
def test_free_body_never_gains_energy(rng, dim, law):
    """The initial energy becomes vibration and is dissipated by the transfers. Symplectic substeps
    well below the stability limit add no energy."""
    robot = block(dim, material=pl.Material(E=1e4, nu=0.3, law=law))
    model = pl.MaterialPoint(robot, dt=0.004, cell=0.04)
    x = stirred(model, rng, velocity=0.3, affine=0.0, strain=0.05)
    energies = [energy(model, y) for y in run(model, 20, x)]
    assert max(energies[1:]) < energies[0]
    assert energies[-1] > 0.0


def test_cable_forces_rotate_with_the_body(rng):
    """A body and its cable that are rotated by 90 degrees have the motion rotated by 90 degrees on
    the same grid."""
    rotation, at = (
        np.array([[0.0, -1.0], [1.0, 0.0]]),
        np.array([[0.02, 0.03], [0.05, 0.08], [0.09, 0.08]]),
    )
    models = [
        pl.MaterialPoint(
            block(2, origin=origin, actuators={"line": pl.Cable(points=points)}),
            dt=0.01,
            cell=0.025,
        )
        for origin, points in (((0.0, 0.0), at), ((-0.1, 0.0), at @ rotation.T))
    ]
    first, second = (run(model, 5, u=np.array([20.0]))[-1] for model in models)
    a, b = (tables(model, x)[0] for model, x in zip(models, (first, second), strict=True))
    order = [
        np.lexsort(np.round(p, 9).T)
        for p in (models[0].body.samples.points @ rotation.T, models[1].body.samples.points)
    ]
    np.testing.assert_allclose((a @ rotation.T)[order[0]], b[order[1]], atol=1e-13)
    assert np.abs(a - models[0].body.samples.points).max() > 1e-3


# The grid follows the body


@every_dim
def test_motion_does_not_depend_on_position_in_space(rng, dim):
    model = active(dim, "neo-hookean")
    far = np.zeros(model.space.size)
    far[: model.space.n_dofs] = (
        2500 * model.cell
    )  # a multiple of the cell, so that the position on the grid is the same
    x = stirred(model, rng)
    near, away = run(model, 10, x, U)[-1], run(model, 10, x + far, U)[-1]
    np.testing.assert_allclose(away - far, near, atol=1e-9 * np.abs(near).max())
    a, b = (model.step(y, U).tape.region for y in (near, away))
    assert a[3:] == b[3:]


def test_grid_does_not_grow_during_long_flight():
    model = pl.MaterialPoint(block(2), dt=0.05, cell=0.025, substeps=80)
    x = model.state(model.body.rest, np.tile([30.0, 20.0], model.body.n_particles))
    sizes = []
    for _ in range(80):
        step = model.step(x, [])
        assert step.status, step.status.text
        x = step.x
        sizes.append(step.tape.region.nx * step.tape.region.ny)
    np.testing.assert_allclose(
        model.space.position(x) - model.body.rest,
        np.tile([120.0, 80.0], model.body.n_particles),
        atol=1e-9,
    )
    assert (
        max(sizes) <= 1.1 * sizes[0]
    )  # its corners lie on every fourth node, so that it may differ by a few


# Precision and the core interface


@every_dim
def test_single_precision_gives_the_same_motion(dim):
    robot = block(
        dim,
        gravity=GRAVITY[dim],
        actuators=drives(dim),
        origin=(0.01,) * dim,
        contacts=[pl.Contact(obstacle=pl.plane(np.eye(dim)[-1]), friction=0.3)],
    )
    full, half = (
        run(pl.MaterialPoint(robot, dt=0.01, cell=0.025, precision=name), 20, u=U)[-1]
        for name in ("float64", "float32")
    )
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.025)
    for name in ("position", "velocity", "deformation"):
        a, b = (getattr(model.space.split(x), name) for x in (full, half))
        assert np.abs(a - b).max() < 1e-4 * np.abs(a).max()
    assert np.abs(full - half).max() > 0.0


def test_model_is_reversible_and_reports_substeps():
    model = pl.MaterialPoint(block(2), dt=0.01, cell=0.025)
    assert isinstance(model, Reversible)
    assert not isinstance(model, Linearizable)
    speed = np.sqrt(
        1e4 * 0.7 / (1.3 * 0.4) / 1000.0
    )  # of a pressure wave, sqrt((lam + 2 mu) / rho)
    assert model.substeps == np.ceil(0.01 * speed / (0.5 * 0.025))
    assert model.step(model.initial_state(), []).status.iterations == model.substeps
    finer = pl.MaterialPoint(block(2), dt=0.01, cell=0.025, substeps=3 * model.substeps)
    assert finer.substep_parameters.tau == pytest.approx(0.01 / (3 * model.substeps))


def test_steps_with_alternating_parameters_equal_those_of_new_models():
    """The model keeps the coefficients of its last parameters."""
    block = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.04)),
        thickness=0.04,
        material=pl.Material(E=1e4, nu=0.3, density=1000.0),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
    )

    def make():
        return pl.MaterialPoint(block, dt=0.004, cell=0.02, substeps=8, design=["body.E"])

    kept, x, u = make(), make().initial_state(), np.zeros(0)
    for E in (2e4, 1e4, 2e4):
        values = np.array([E])
        for _ in range(2):
            new = make().step(x, u, values).x
            np.testing.assert_array_equal(kept.step(x, u, values).x, new)
            x = new
        values[0] = 1.0  # changed in place, which must not change the next simulation
