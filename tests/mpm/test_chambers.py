"""Fluids in cavities of particles: Lame's ring, finite elements, no resultant force, liquids,
stable substeps and bad input."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Hydraulic, Pressure
from pliant.core import InputError
from pliant.geometry import Annulus, Mesh, Rectangle, name_cavities, remove_unused_points

E, NU, INNER, OUTER = 1e5, 0.3, 0.05, 0.1
every_transfer = pytest.mark.parametrize("transfer", ["total", "updated"])


def ring(**pressure):
    """Return a free, damped ring with a fluid."""
    return pl.Robot(
        shape=name_cavities(Annulus(outer=OUTER, inner=INNER).mesh(divisions=(24, 3), order=2)),
        order=2,
        material=pl.Material(E=E, nu=NU, density=1000.0),
        actuators={"air": Pressure(cavity="cavity-1", **pressure)},
        damping=pl.Damping(mass=60.0),
    )


def hollow(dim, fine=1, **parts):
    """Return a body of 3 x 3 (x 3) cubes of 0.1 m with a fluid in the place of the middle one.
    The mesh has `fine` cubes along each of them."""
    shape = Rectangle(size=(0.3, 0.3)) if dim == 2 else pl.Box(size=(0.3, 0.3, 0.3))
    mesh = shape.mesh(divisions=dim * (3 * fine,))
    middle = (np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1) == 1).all(axis=1)
    points, cells = remove_unused_points(mesh.points, mesh.cells[~middle])
    mesh = name_cavities(Mesh(points=points, cells=cells))
    common = {
        "shape": pl.geometry.add_surface(mesh, "x-", lambda centres: centres[:, 0] == 0.0),
        "material": pl.Material(E=E, nu=NU, density=1000.0),
        "actuators": {"air": Pressure(cavity="cavity-1")},
        "damping": pl.Damping(mass=40.0),
    }
    return pl.Robot(**(common | parts))


def settled(robot, u, steps=40, **options):
    """Return (model, x) after the motion has come to rest."""
    model = pl.MaterialPoint(robot, **({"dt": 0.01, "cell": 0.0125} | options))
    return model, pl.simulate(model, np.full((steps, 1), u)).states[-1]


def chamber(model, x):
    """Return the attached fluid and its points in a state."""
    force, dim = model.particle_potentials[0], model.dim
    q = model.space.position(x).reshape(-1, dim)
    return force.potential, force.weights @ q[force.particles] + force.potential.offset


@every_transfer
@pytest.mark.parametrize("cells", [2, 4])
def test_ring_under_pressure_expands_as_lame_says(transfer, cells):
    """Plane strain: u(a) = p a (1 + nu) / E ((1 - 2 nu) a^2 + b^2) / (b^2 - a^2). The wall is
    `cells` cells thick."""
    a, b, p = INNER, OUTER, 1e-3 * E
    cell = (b - a) / cells
    model, x = settled(ring(limits=(0.0, p)), p, cell=cell, transfer=transfer)
    wall = model.body.mesh.points[model.body.mesh.nodes("cavity-1")]
    moved = model.body.locate(wall) @ model.space.position(x).reshape(-1, 2)
    grown = np.linalg.norm(moved, axis=1) - np.linalg.norm(wall, axis=1)
    exact = p * a * (1 + NU) / E * ((1 - 2 * NU) * a**2 + b**2) / (b**2 - a**2)
    assert grown.mean() == pytest.approx(exact, rel=0.05 if cells == 2 else 0.025)
    assert grown.std() < 0.06 * exact


@pytest.mark.parametrize(("drive", "u"), [("pressure", 0.1 * E), ("volume", 1.4), ("gas", 1.5)])
def test_chamber_with_large_expansion_has_the_volume_of_finite_elements(drive, u):
    robot = ring(drive=drive, bulk=2.0 * E)
    static = pl.ImplicitEuler(robot, dt=1e3)
    still = static.step(static.initial_state(), np.array([u])).x
    fluid = static.potentials[0][0]
    grown = fluid.displacement(static.points(fluid, static.space.position(still)))
    assert grown > 0.1 * fluid.rest_volume
    model, x = settled(robot, u, transfer="total")
    potential, y = chamber(model, x)
    assert potential.rest_volume == pytest.approx(fluid.rest_volume, rel=1e-12)
    assert potential.displacement(y) == pytest.approx(grown, rel=0.05)


@every_transfer
def test_chamber_in_space_has_the_volume_of_finite_elements(transfer):
    robot, p = hollow(3, order=2), 0.2 * E
    static = pl.ImplicitEuler(robot, dt=1e3)
    still = static.step(static.initial_state(), np.array([p])).x
    fluid = static.potentials[0][0]
    grown = fluid.displacement(static.points(fluid, static.space.position(still)))
    model, x = settled(robot, p, cell=0.1 / 3.0, transfer=transfer)
    potential, y = chamber(model, x)
    assert potential.displacement(y) == pytest.approx(grown, rel=0.1)


@every_transfer
@pytest.mark.parametrize("dim", [2, 3])
def test_closed_chamber_has_no_resultant_force_and_moment(rng, transfer, dim):
    model = pl.MaterialPoint(hollow(dim, order=1), dt=0.01, cell=0.1 / 3.0, transfer=transfer)
    force, n = model.particle_potentials[0], model.space.n_dofs // dim
    q = model.body.rest.reshape(n, dim) + 0.002 * rng.standard_normal((n, dim))
    f = np.zeros((n, dim))
    force.add_force(q, np.array([2e4]), f)
    size = np.abs(f).sum()
    assert size > 10.0
    np.testing.assert_allclose(f.sum(axis=0), 0.0, atol=1e-12 * size)
    full = [np.pad(a, [(0, 0), (0, 3 - dim)]) for a in (q, f)]
    np.testing.assert_allclose(np.cross(*full).sum(axis=0), 0.0, atol=1e-12 * size)


@every_transfer
def test_power_of_a_chamber_is_pressure_times_volume_rate(rng, transfer):
    """The force is the pressure times the gradient of the volume by the unknowns."""
    model = pl.MaterialPoint(hollow(3, order=1), dt=0.01, cell=0.1 / 3.0, transfer=transfer)
    x, v = model.initial_state(), 0.01 * rng.standard_normal(model.space.n_dofs)
    f = np.zeros((v.size // 3, 3))
    model.particle_potentials[0].add_force(model.body.rest.reshape(-1, 3), np.array([3e3]), f)
    volumes = []
    for sign in (1.0, -1.0):
        moved = x.copy()
        moved[: v.size] += sign * 1e-4 * v
        fluid, y = chamber(model, moved)
        volumes.append(fluid.volume(y))
    rate = (volumes[0] - volumes[1]) / 2e-4
    assert f.ravel() @ v == pytest.approx(3e3 * rate, rel=1e-8)


def liquid(dim, fine=1, **parts):
    """Return the hollow body filled with water, under gravity."""
    pump = {"pump": Hydraulic(cavity="cavity-1")}
    gravity = (0.0,) * (dim - 1) + (-9.81,)
    return hollow(dim, fine, actuators=pump, gravity=gravity, **parts)


@every_transfer
@pytest.mark.parametrize("dim", [2, 3])
def test_body_with_a_liquid_falls_with_the_mass_of_both(transfer, dim):
    """Walls carry the weight of the liquid, and move its mass."""
    robot = liquid(dim, order=1, damping=pl.Damping())
    model = pl.MaterialPoint(robot, dt=0.002, cell=0.033, transfer=transfer)
    step = model.step(model.initial_state(), np.zeros(1))
    made = model.coefficients(None)
    mass = made.node_mass if transfer == "total" else made.particle_data.mass
    assert mass.sum() == pytest.approx(1000.0 * 0.3**dim, rel=1e-9)
    gained = mass @ model.space.velocity(step.x).reshape(-1, dim)
    np.testing.assert_allclose(gained[-1], -9.81 * model.dt * mass.sum(), rtol=1e-3)
    np.testing.assert_allclose(gained[:-1], 0.0, atol=1e-9)


@every_transfer
def test_body_with_a_liquid_sags_like_finite_elements(transfer):
    supports, effectors = [pl.Support(region="x-")], {"end": pl.Effector(point=(0.3, 0.15))}
    robot = liquid(2, 3, order=2, supports=supports, effectors=effectors)
    static = pl.Quasistatic(robot)
    still = pl.equilibrium(static, np.zeros(1)).x
    empty = pl.Quasistatic(replace(robot, actuators={}))
    sag = lambda model, x: 0.15 - model.effector("end", x)[0, 1]
    exact = sag(static, still)
    assert exact > 1.08 * sag(empty, pl.equilibrium(empty, np.zeros(0)).x)
    model, x = settled(robot, 0.0, 60, cell=0.1 / 6.0, transfer=transfer)
    assert sag(model, x) == pytest.approx(exact, rel=0.04)


@every_transfer
@pytest.mark.parametrize("drive", ["volume", "gas"])
def test_default_substeps_are_stable_for_stiff_fluids(transfer, drive):
    """A stiff fluid oscillates faster than waves cross a cell."""
    stiff = {"volume": {"bulk": 1e9}, "gas": {"limits": (0.0, 1.0)}}[drive]
    robot = replace(ring(drive=drive, **stiff), damping=pl.Damping())
    soft = pl.MaterialPoint(replace(robot, actuators={}), dt=0.01, cell=0.025, transfer=transfer)
    model = pl.MaterialPoint(robot, dt=0.01, cell=0.025, transfer=transfer)
    if drive == "volume":
        assert model.substeps > 5 * soft.substeps
        with pytest.raises(InputError, match="actuators oscillate"):
            replace(model, substeps=soft.substeps)
    kick = model.body.rest * 1.0
    x = pl.simulate(model, np.ones((20, 1)), x0=model.state(model.body.rest, kick)).states
    speeds = [np.abs(model.space.velocity(y)).max() for y in x]
    assert max(speeds) < 5.0 * speeds[0]
    potential, y = chamber(model, x[-1])
    if drive == "volume":
        assert abs(potential.displacement(y)) < 1e-3 * potential.rest_volume


def test_narrow_cavities_warn():
    """The grid joins walls that share nodes."""
    with pytest.warns(UserWarning, match=r"'air': the cavity 'cavity-1' is about 0.1 m wide"):
        pl.MaterialPoint(hollow(2), dt=0.01, cell=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pl.MaterialPoint(hollow(2), dt=0.01, cell=0.033)


@every_transfer
def test_wrong_cavities_are_refused(raises_clear_error, transfer):
    make = lambda **fluids: pl.MaterialPoint(
        hollow(2, actuators=fluids), dt=0.01, cell=0.033, transfer=transfer
    )
    raises_clear_error(lambda: make(air=Pressure(cavity="cavity-2")), "no .*'cavity-2'")
    both = {name: Pressure(cavity="cavity-1") for name in ("one", "two")}
    raises_clear_error(lambda: make(**both), "'one' and 'two' both fill the cavity")
