"""Two bodies of particles that collide through the grid: momentum, and contact force of elastic
bars in closed form."""

import numpy as np
import pytest
from particle_scenes import box, masses, momentum, tables

import pliant as pl
from pliant.geometry import Mesh

LENGTH, HEIGHT, GAP = 0.2, 0.05, 0.03  # [m]
E, DENSITY, SPEED = 1e5, 1000.0, 1.0  # [Pa], [kg/m^3], [m/s]
WAVE = np.sqrt(E / DENSITY)  # [m/s] of a bar with nu = 0


def bars():
    """Return a robot of two equal bars along x, one after the other."""
    first = box((LENGTH, HEIGHT)).mesh(divisions=(8, 2))
    points = np.concatenate([first.points, first.points + [LENGTH + GAP, 0.0]])
    cells = np.concatenate([first.cells, first.cells + len(first.points)])
    return pl.Robot(
        shape=Mesh(points=points, cells=cells),
        order=1,
        material=pl.Material(E=E, nu=0.0, density=DENSITY),
    )


def collision(cell):
    """Return the times [s] and the momentum (steps + 1, 2) [kg m/s] of each bar along x. The first
    bar hits the second, which is at rest."""
    model = pl.MaterialPoint(bars(), dt=0.001, cell=cell)
    is_first = model.body.samples.points[:, 0] < LENGTH + 0.5 * GAP
    velocity = np.zeros((model.body.n_particles, 2))
    velocity[is_first, 0] = SPEED
    x0 = model.state(model.body.rest, velocity.ravel())
    states = pl.simulate(model, np.zeros((90, 0)), x0=x0).states
    for x in states[::10]:
        np.testing.assert_allclose(momentum(model, x), momentum(model, x0), atol=1e-12)
    parts = np.stack([is_first, ~is_first]) * masses(model)
    return model.dt * np.arange(91), np.array([parts @ tables(model, x)[1][:, 0] for x in states])


def test_bars_exchange_momentum_with_the_force_of_a_pressure_wave():
    """Equal bars exchange their velocities. The contact force is density c v / 2 times the area,
    for the time 2 L / c in which a wave returns [Saint-Venant].

    Bodies meet when a node is in the support of both, 1.5 cells apart, and adhere until they are
    that far apart again. So the exchange of momentum is complete only for a fine grid."""
    whole, force = DENSITY * LENGTH * HEIGHT * SPEED, 0.5 * DENSITY * WAVE * SPEED * HEIGHT
    errors, exchanged = [], []
    for cell in (0.0125, 0.00625):
        times, along = collision(cell)
        np.testing.assert_allclose(along[0], [whole, 0.0], rtol=1e-12)
        gained = along[:, 1] / whole
        middle = (gained > 0.25) & (gained < 0.75)
        errors.append(abs(np.polyfit(times[middle], along[middle, 1], 1)[0] / force - 1.0))
        exchanged.append(gained[-1])
    assert errors[0] < 0.1
    assert errors[1] < 0.03
    assert 0.75 < exchanged[0] < exchanged[1] < 1.0


def test_stacked_bodies_carry_their_weight():
    """The upper block rests on the lower one, which rests on the ground. The stress in the middle
    of each is the weight above it."""
    size, gap, density, G = 0.1, 0.012, 1000.0, 2.0
    first = box((size, size)).mesh(divisions=(4, 4))
    points = np.concatenate([first.points, first.points + [0.0, size + gap]]) + [0.0, 0.008]
    cells = np.concatenate([first.cells, first.cells + len(first.points)])
    robot = pl.Robot(
        shape=Mesh(points=points, cells=cells),
        order=1,
        material=pl.Material(E=5e4, nu=0.0, density=density),
        gravity=(0.0, -G),
        damping=pl.Damping(mass=20.0),
        contacts=[pl.Contact(obstacle=pl.plane((0.0, 1.0)), kind="separate")],
    )
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.0125)
    x = pl.simulate(model, np.zeros((80, 0))).states[-1]
    F, rest = tables(model, x)[3], model.body.samples.points[:, 1] - 0.008
    stretch = F[:, 1, 1]
    stress = 0.5 * 5e4 * (stretch - 1.0 / stretch)  # neo-Hookean, nu = 0
    for low, above in ((0.0, 1.5), (size + gap, 0.5)):
        middle = np.abs(rest - low - 0.5 * size) < 0.01
        assert stress[middle].mean() == pytest.approx(-density * G * above * size, rel=0.03)
