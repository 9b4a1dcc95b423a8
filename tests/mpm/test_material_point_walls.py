"""Particles at boundaries: rebounds, contact kinds, Coulomb's law on a slope, obstacles and
supports."""

import numpy as np
import pytest
from particle_scenes import block, box, energy, masses, momentum, tables

import pliant as pl
from pliant.contact import terrain
from pliant.geometry import Polygon
from pliant.mpm.grid_box import extent, grid_box

every_dim = pytest.mark.parametrize("dim", [2, 3])
G = 9.81


def up(dim):
    return np.eye(dim)[-1]


def raised(dim, height):
    return (0.0,) * (dim - 1) + (height,)


def floor(dim, **options):
    return [pl.Contact(obstacle=pl.plane(up(dim)), **options)]


def speed(model, x):
    """Return the velocity (dim,) [m/s] of the centre of mass."""
    return momentum(model, x) / masses(model).sum()


def run(model, steps, velocity=None):
    x0 = model.state(
        model.body.rest, None if velocity is None else np.tile(velocity, model.body.n_particles)
    )
    return pl.simulate(model, np.zeros((steps, 0)), x0=x0).states


# Rebounds


def bounce(dim, cell):
    """Return (rebound / impact speed, states, model) of a stiff block that hits a floor without
    gravity."""
    robot = block(
        dim, origin=raised(dim, 0.055), material=pl.Material(E=1e5, nu=0.3), contacts=floor(dim)
    )
    model = pl.MaterialPoint(robot, dt=0.004, cell=cell)
    states = run(model, 65, [0.2, *(dim - 2) * [0.1], -0.5])
    return speed(model, states[-1])[-1] / 0.5, states, model


@every_dim
def test_stiff_block_bounces_without_energy_gain(dim):
    rebound, states, model = bounce(dim, 0.0125 if dim == 2 else 0.02)
    assert 0.85 < rebound < 1.0  # the rest becomes vibration and is dissipated by the transfers
    energies = np.array([energy(model, x) for x in states])
    assert energies.max() <= energies[0] * (1.0 + 1e-12)
    np.testing.assert_allclose(
        speed(model, states[-1])[:-1], speed(model, states[0])[:-1], rtol=1e-12
    )  # no friction
    assert min(tables(model, x)[0][:, -1].min() for x in states) > 0.0


def test_energy_loss_of_bounce_decreases_with_cell_size(rate):
    """The transfers damp motions with the wavelength of a cell. Energy of longer vibrations is not
    lost."""
    cells, losses = np.array([0.04, 0.02, 0.01]), []
    for cell in cells:
        _, states, model = bounce(2, float(cell))
        losses.append(1.0 - energy(model, states[-1]) / energy(model, states[0]))
    assert rate(cells, losses) > 0.8
    assert losses[-1] < 0.15


def test_dropped_block_rises_to_height_of_its_rebound_speed():
    """The block is free if its lowest particle is 1.5 cells above the floor. From there it rises by
    v^2 / 2g."""
    robot = block(
        2,
        origin=(0.0, 0.07),
        material=pl.Material(E=1e5, nu=0.3),
        gravity=(0.0, -G),
        contacts=floor(2),
    )
    model = pl.MaterialPoint(robot, dt=0.004, cell=0.01)
    states = run(model, 68)
    height = np.array([tables(model, x)[0][:, 1].mean() for x in states])
    free = [tables(model, x)[0][:, 1].min() > 0.015 for x in states]
    down = free.index(False)
    off = down + free[down:].index(True)
    fall, rise = speed(model, states[down - 1])[1], speed(model, states[off])[1]
    assert 0.85 < -rise / fall < 1.0
    assert fall**2 / (2 * G) == pytest.approx(height[0] - height[down - 1], rel=0.01)
    top = off + int(np.argmax(height[off:]))
    assert top < len(states) - 1  # the block is falling again
    assert height[top] - height[off] == pytest.approx(rise**2 / (2 * G), rel=0.01)
    assert 0.7 < (height[top] - height[off]) / (height[0] - height[down - 1]) < 1.0


# Kinds of contact


@every_dim
def test_sticky_holds_all_directions_slip_the_normal_and_separate_none(dim):
    """Gravity pulls the block along the plane and away from it. Directions that the plane leaves
    free receive the full momentum."""
    pull, shares = np.array([0.5, 0.2, 1.0])[[0, 2] if dim == 2 else [0, 1, 2]], {}
    for kind in ("sticky", "slip", "separate"):
        robot = block(
            dim, gravity=pull, contacts=floor(dim, kind=kind), damping=pl.Damping(stiffness=0.005)
        )
        model = pl.MaterialPoint(robot, dt=0.01, cell=0.025)
        x = run(model, 100)[-1]
        shares[kind] = speed(model, x) / pull  # [s] of one second
        moved = tables(model, x)[0] - model.body.samples.points
        if kind != "separate":
            assert np.abs(moved[:, -1]).max() < 0.05 * model.cell
        if kind == "sticky":
            assert np.abs(moved).max() < 0.15 * model.cell
    np.testing.assert_allclose(shares["separate"], 1.0, rtol=1e-11)
    np.testing.assert_allclose(shares["slip"][:-1], 1.0, rtol=1e-11)
    assert abs(shares["slip"][-1]) < 1e-3
    assert np.abs(shares["sticky"]).max() < 0.02


@every_dim
def test_sideways_landing_block_sticks_on_sticky_ground_and_slides_on_slip_ground(dim):
    way = {}
    for kind in ("sticky", "slip", "separate"):
        robot = block(
            dim,
            origin=raised(dim, 0.025),
            gravity=-5.0 * up(dim),
            contacts=floor(dim, kind=kind),
            damping=pl.Damping(stiffness=0.005),
        )
        model = pl.MaterialPoint(robot, dt=0.01, cell=0.025)
        states = run(model, 150, [0.1] + [0.0] * (dim - 1))
        way[kind] = [
            (tables(model, x)[0] - model.body.samples.points)[:, 0].mean()
            for x in (states[75], states[150])
        ]
    assert abs(way["sticky"][1] - way["sticky"][0]) < 0.006
    assert way["sticky"][1] < 0.03
    for kind in ("slip", "separate"):
        np.testing.assert_allclose(way[kind], [0.075, 0.15], rtol=1e-11)


# Coulomb


def slope(dim, angle, friction, tilt):
    """Return the mean speeds (steps,) down a slope and g (sin a - mu cos a).

    `tilt` selects whether gravity or the plane is inclined."""
    a, n, t = np.deg2rad(angle), np.zeros(dim), np.zeros(dim)
    if tilt == "gravity":
        n[-1], t[0], shape = 1.0, 1.0, box((0.16, 0.08) if dim == 2 else (0.1, 0.1, 0.1))
        pull = G * (np.sin(a) * t - np.cos(a) * n)
    else:
        n[0], n[-1], t[0], t[-1] = np.sin(a), np.cos(a), np.cos(a), -np.sin(a)
        pull, shape = (
            -G * up(dim),
            Polygon(
                points=np.array([[0.0, 0.0], [0.16, 0.0], [0.16, 0.08], [0.0, 0.08]])
                @ np.array([t, n])
            ),
        )
    robot = pl.Robot(
        shape=shape,
        order=1,
        cell=0.04,
        material=pl.Material(E=1e5, nu=0.3),
        gravity=pull,
        damping=pl.Damping(stiffness=0.002),
        contacts=[pl.Contact(obstacle=pl.plane(n), friction=friction)],
    )
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.02 if dim == 2 else 0.025)
    return np.array([speed(model, x) @ t for x in run(model, 40)]), G * (
        np.sin(a) - friction * np.cos(a)
    )


TILTS = [(2, "gravity"), (2, "plane"), (3, "gravity")]


@pytest.mark.parametrize(("dim", "tilt"), TILTS)
@pytest.mark.parametrize(("angle", "friction"), [(15.0, 0.4), (30.0, 0.65)])  # tan = 0.27, 0.58
def test_block_sticks_on_slope_below_friction_angle(dim, tilt, angle, friction):
    speeds, excess = slope(dim, angle, friction, tilt)
    assert excess < 0.0
    assert np.abs(speeds[30:]).max() < 0.01  # free sliding would exceed 1 m/s in this time
    assert abs(np.mean(speeds[20:])) < 1e-3


@pytest.mark.parametrize(("dim", "tilt"), TILTS)
@pytest.mark.parametrize(("angle", "friction"), [(15.0, 0.2), (30.0, 0.3), (30.0, 0.0)])
def test_block_above_friction_angle_slides_with_coulomb_acceleration(dim, tilt, angle, friction):
    speeds, expected = slope(dim, angle, friction, tilt)
    assert expected > 0.0
    measured = np.polyfit(0.01 * np.arange(20, 41), speeds[20:], 1)[0]
    assert measured == pytest.approx(expected, rel=0.02)


# Obstacles of other shapes

ROUGH = 0.01 * np.cos(np.arange(8.0))
OBSTACLES = {
    "sphere": {
        2: pl.sphere((0.06, -0.1), 0.12),
        3: pl.sphere((0.05, 0.05, -0.1), 0.12),
    },  # its centre is a grid node
    "capsule": {
        2: pl.capsule((0.0, -0.08), (0.2, -0.08), 0.1),
        3: pl.capsule((0.0, 0.05, -0.08), (0.2, 0.05, -0.08), 0.1),
    },
    "terrain": {
        2: terrain(ROUGH, 0.05, (-0.1, 0.0)),
        3: terrain(np.add.outer(ROUGH, ROUGH) / 2, 0.05, (-0.1, -0.1, 0.0)),
    },
}


@every_dim
@pytest.mark.parametrize("friction", [0.0, 0.5])
@pytest.mark.parametrize("what", OBSTACLES)
def test_particles_penetrate_obstacles_by_less_than_a_cell(dim, what, friction):
    """The grid resolves an obstacle to one cell. The block falls on it; on the ball it slides
    off."""
    obstacle, pull = OBSTACLES[what][dim], np.array([0.5, *(dim - 2) * [0.0], -G])
    robot = block(
        dim,
        origin=raised(dim, 0.06),
        gravity=pull,
        contacts=[pl.Contact(obstacle=obstacle, friction=friction)],
    )
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.02 if dim == 2 else 0.025)
    states = run(model, 40)
    assert min(obstacle(tables(model, x)[0])[0].min() for x in states) > -model.cell
    at = tables(model, states[-1])[0].mean(axis=0)
    assert (
        at[-1] > 0.11 + 0.5 * pull[-1] * 0.4**2 + 0.3
    )  # without the obstacle the block would be far below


@every_dim
def test_corner_of_two_walls_stops_block_at_both(dim):
    walls = [
        pl.Contact(obstacle=pl.plane(-np.eye(dim)[0], height=-0.13), kind="slip"),
        *floor(dim, friction=0.2),
    ]
    robot = block(
        dim,
        origin=raised(dim, 0.03),
        gravity=np.array([4.0, *(dim - 2) * [0.0], -4.0]),
        contacts=walls,
        damping=pl.Damping(stiffness=0.01, mass=2.0),
    )
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.025)
    x = run(model, 150)[-1]
    at = tables(model, x)[0]
    assert at[:, 0].max() < 0.13
    assert at[:, -1].min() > 0.0
    assert np.abs(speed(model, x)).max() < 0.02


# Supports


def nodes_of(model, at):
    """Return the lattice indices (k, dim) of all nodes within reach of a particle at `at`."""
    first = np.floor(at / model.cell - 0.5).astype(int)
    return first + np.stack(
        np.meshgrid(*[np.arange(3)] * model.dim, indexing="ij"), axis=-1
    ).reshape(-1, model.dim)


@every_dim
@pytest.mark.parametrize("cell", [0.05, 0.1 / 3, 0.025, 0.023, 0.017])
def test_support_holds_exactly_the_reached_grid_nodes_behind_it(dim, cell):
    model = pl.MaterialPoint(block(dim, supports=[pl.Support(region="x-")]), dt=0.01, cell=cell)
    grid = grid_box(extent(model.body.rest, model.dim), 2, model.cell)
    walls = model.boundaries.on(grid, np.zeros(0))
    held = (
        np.stack(np.unravel_index(walls.node, (grid.nx, grid.ny, grid.nz)), axis=1)[:, :dim]
        + np.array(grid[:3])[:dim]
    )
    assert held[:, 0].max() <= 0
    np.testing.assert_array_equal(np.diff(walls.first), dim)  # along every axis
    reached = {tuple(i) for at in model.body.samples.points for i in nodes_of(model, at)}
    assert {i for i in reached if i[0] <= 0} <= {tuple(i) for i in held}


@every_dim
def test_roller_leaves_other_axes_free(dim):
    """The body must not move past the support, because a support is fixed on the grid."""
    model = pl.MaterialPoint(
        block(dim, gravity=[-0.1] * dim, supports=[pl.Support(region="x-", axes="x")]),
        dt=0.01,
        cell=0.025,
    )
    x = run(model, 50)[-1]
    np.testing.assert_allclose(speed(model, x)[1:], -0.05, rtol=1e-11)
    assert np.abs(tables(model, x)[0] - model.body.samples.points)[:, 0].max() < 0.1 * model.cell
