"""Contact: signed distances, the smooth penalty, Coulomb friction, and what they do to a mass."""

import numpy as np
import pytest

import pliant as pl
from pliant.bodies import complex_slopes, one_sided
from pliant.contact import Friction
from pliant.core import InputError

G = 9.81
OBSTACLES = {
    "plane": (pl.plane((1.0, 2.0, 2.0), height=0.1), 3),
    "sphere": (pl.sphere((0.1, 0.2, -0.3), 0.4), 3),
    "capsule": (pl.capsule((0.0, 0.0, 0.0), (0.5, 0.2, 0.0), 0.2), 3),
    "line": (pl.plane((0.0, 1.0)), 2),
    "disc": (pl.sphere((0.1, 0.2), 0.4), 2),
    "slot": (pl.capsule((0.0, 0.0), (0.5, 0.2), 0.2), 2),
}
every = pytest.mark.parametrize("name", OBSTACLES)


def attached(name, rng, **options):
    """The contact of eight point masses with an obstacle, and places of theirs about half of which are in it."""
    obstacle, dim = OBSTACLES[name]
    contact = pl.Contact(obstacle=obstacle, **{"stiffness": 300.0, "layer": 0.05, "friction": 0.4, "slip_speed": 0.1, **options})
    y = 0.4 * rng.standard_normal((8, dim))
    return contact.on(pl.PointMass(points=y)), y


# Distances


def test_distances_are_euclids():
    plane = pl.plane((0.0, 0.0, 2.0), height=0.3)
    np.testing.assert_allclose(plane(np.array([[5.0, 5.0, 1.0]]))[0], 0.7)
    np.testing.assert_allclose(pl.sphere((0, 0, 1.0), 0.5)(np.array([[0, 0, 3.0], [0, 0, 1.2]]))[0], [1.5, -0.3])
    capsule = pl.capsule((0, 0, 0), (1.0, 0, 0), 0.1)
    at = np.array([[0.5, 0.3, 0.4], [-3.0, 4.0, 0.0], [1.6, 0.0, 0.8]])  # beside, before and behind the segment
    np.testing.assert_allclose(capsule(at)[0], [0.4, 4.9, 0.9])


@every
def test_normals_and_hessians_are_the_slopes_of_the_distance(name, rng):
    obstacle, dim = OBSTACLES[name]
    y = 0.4 * rng.standard_normal((20, dim))
    _, n, H = obstacle(y)
    np.testing.assert_allclose(complex_slopes(lambda z: obstacle(z)[0][:, None], y)[:, 0], n, atol=1e-13)
    np.testing.assert_allclose(complex_slopes(lambda z: obstacle(z)[1], y), H, atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, rtol=1e-14)


def test_the_centre_of_a_ball_gives_no_nan():
    assert all(np.all(np.isfinite(part)) for part in pl.sphere((0.0, 0.0), 1.0)(np.zeros((1, 2))))


# The penalty


def test_the_ramp_is_twice_continuous_and_ends_in_a_spring():
    layer = 0.1
    below, above = (np.array(one_sided(np.array([layer * (1 + side * 1e-9)]), layer)).ravel() for side in (-1, 1))
    # Values across the joint differ by their slope times 2e-9 layer, and by nothing else.
    np.testing.assert_allclose(below, above, atol=1e-8)
    np.testing.assert_array_equal(np.array(one_sided(np.array([-1.0, 0.0]), layer)), 0.0)
    deep = np.array([0.3, 0.4])
    np.testing.assert_allclose(np.diff(one_sided(deep, layer)[1]), 0.1)
    np.testing.assert_array_equal(one_sided(deep, layer)[2], 1.0)


@pytest.mark.parametrize("depth", [0.03, 0.07])
def test_the_ramp_slopes_match(depth):
    at = np.array([depth + 1e-30j])
    value, slope, bend = one_sided(at, 0.05)
    assert value.imag / 1e-30 == pytest.approx(slope.real, rel=1e-13)
    assert slope.imag / 1e-30 == pytest.approx(bend.real, rel=1e-13)


@every
def test_gradient_and_curvature_are_the_slopes_of_the_energy(name, rng, taylor):
    term, y = attached(name, rng)
    d, u = rng.standard_normal(y.shape), np.zeros(0)
    assert (term.normal_force(y) > 0.0).any()
    slope = np.sum(term.gradient(y, u) * d)
    # Steps of a hundredth of the layer: the ramp has three continuous pieces, and no point may change its piece.
    assert taylor(lambda e: term.energy(y + 0.01 * e * d, u), 0.01 * slope) == pytest.approx(2.0, abs=0.1)
    exact = complex_slopes(lambda z: term.gradient(z, u), y)
    np.testing.assert_allclose(term.curvature(y, u), exact, atol=1e-10 * np.abs(exact).max())


# Friction as a potential over one step


@every
def test_friction_derivatives_match(name, rng):
    term, old = attached(name, rng)
    drag, dt = Friction(contact=term), 0.1
    y = old + 0.02 * rng.standard_normal(old.shape)
    energy = lambda z: drag_energies(drag, z, old, dt)[:, None]  # noqa: E731
    np.testing.assert_allclose(complex_slopes(energy, y)[:, 0], drag.gradient(y, old, dt), atol=1e-10)
    np.testing.assert_allclose(complex_slopes(lambda z: drag.gradient(z, old, dt), y), drag.curvature(y, old, dt), atol=1e-8)


def drag_energies(drag, y, old, dt):
    """The energy point by point, by the formula mu N (sqrt(s^2 + (h v)^2) - h v)."""
    contact = drag.contact.contact
    n = contact.obstacle(old)[1]
    s = (y - old) - np.sum((y - old) * n, axis=1)[:, None] * n
    floor = dt * contact.slip_speed
    return contact.friction * drag.contact.normal_force(old) * (np.sqrt(np.sum(s * s, axis=1) + floor**2) - floor)


@every
def test_friction_coupling_is_the_slope_in_the_old_positions(name, rng, taylor):
    term, old = attached(name, rng)
    drag, dt = Friction(contact=term), 0.1
    y, d = old + 0.02 * rng.standard_normal(old.shape), rng.standard_normal(old.shape)
    slope = np.einsum("nij,nj->ni", drag.coupling(y, old, dt), d)
    assert taylor(lambda e: drag.gradient(y, old + 0.01 * e * d, dt), 0.01 * slope) == pytest.approx(2.0, abs=0.1)


@every
def test_friction_is_tangential_and_coulomb_bound(name, rng):
    term, old = attached(name, rng)
    drag = Friction(contact=term)
    y = old + 10.0 * rng.standard_normal(old.shape)  # far and fast: nearly the whole of Coulomb's force
    force, normal = drag.gradient(y, old, 0.1), term.contact.obstacle(old)[1]
    limit = 0.4 * term.normal_force(old)
    np.testing.assert_allclose(np.sum(force * normal, axis=1), 0.0, atol=1e-12 * limit.max())
    assert np.all(np.linalg.norm(force, axis=1) <= limit * (1 + 1e-12))
    np.testing.assert_allclose(np.linalg.norm(force, axis=1), limit, rtol=1e-3)
    assert np.all(np.sum(force * (y - old), axis=1) >= 0.0)  # its force, minus this, takes energy


def test_viscosity_is_friction_over_a_vanishing_step(rng):
    term, old = attached("plane", rng)
    drag, v = Friction(contact=term), rng.standard_normal(old.shape)
    force = np.einsum("nij,nj->ni", drag.viscosity(old, v), v)
    np.testing.assert_allclose(force, drag.gradient(old + 1e-3 * v, old, 1e-3), atol=1e-9 * np.abs(force).max())


# A mass on a slope


def on_slope(angle, friction, mass=2.0, stiffness=1e5):
    """A point mass that already presses into a plane of that angle as hard as gravity makes it."""
    normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    layer = 1e-4
    depth = mass * G * np.cos(angle) / stiffness + 0.5 * layer
    contact = pl.Contact(obstacle=pl.plane(normal), stiffness=stiffness, layer=layer, friction=friction, slip_speed=1e-3)
    return pl.Robot(shape=pl.PointMass(points=[-depth * normal], mass_each=mass), contacts=(contact,), gravity=(0, 0, -G))


def downhill(angle):
    return -np.array([np.cos(angle), 0.0, np.sin(angle)])


RULES = pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit])


@RULES
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_below_the_friction_angle_a_mass_creeps_at_the_regularised_speed(rule, share):
    mu = 0.5
    angle = np.arctan(share * mu)
    model = rule(on_slope(angle, mu), dt=1e-2)
    run = pl.simulate(model, np.zeros((100, 0)))
    speed = model.space.velocity(run.states[-1]) @ downhill(angle)
    # m g sin = mu N s / sqrt(s^2 + v^2) solved for s: the steady state, whatever the rule.
    assert speed == pytest.approx(1e-3 * share / np.sqrt(1 - share**2), rel=1e-6)


@RULES
def test_above_the_friction_angle_a_mass_accelerates_as_coulomb_says(rule):
    mu, angle, dt = 0.5, np.arctan(0.75), 1e-2
    model = rule(on_slope(angle, mu), dt=dt)
    run = pl.simulate(model, np.zeros((60, 0)))
    speed = [model.space.velocity(x) @ downhill(angle) for x in run.states[[40, 60]]]
    # By then the speed is a thousand times slip_speed, so that the regularisation costs a millionth. SemiImplicit divides the new
    # speed by the old one, so that its friction is too strong by the share that the speed gains in a step.
    lag = mu * G * np.cos(angle) * dt / speed[0] if rule is pl.SemiImplicit else 0.0
    assert (speed[1] - speed[0]) / (20 * dt) == pytest.approx(G * (np.sin(angle) - mu * np.cos(angle)), rel=1e-4 + lag)


def test_at_rest_the_ground_carries_the_weight():
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)), divisions=(2, 1, 1), order=2, material=pl.Material(E=1e5, nu=0.3, density=1200.0),
        contacts=(pl.Contact(obstacle=pl.plane((0, 0, 1)), surface="z-", stiffness=1e6, friction=0.5),), gravity=(0, 0, -G),
        damping=pl.Damping(mass=20.0, stiffness=0.01),
    )  # fmt: skip
    model = pl.ImplicitEuler(robot, dt=0.05)
    q = model.space.position(pl.simulate(model, np.zeros((80, 0))).states[-1])
    term, _ = model.equations.terms[0]
    pressure = term.normal_force(model.equations.points(term, q))
    weight = 1200.0 * 0.2 * 0.1 * 0.1 * G
    assert pressure.sum() == pytest.approx(weight, rel=1e-6)
    # In the frictionless sense its resultant acts under the centre of mass.
    x = (term.weights @ q.reshape(-1, 3))[:, 0]
    assert pressure @ x / weight == pytest.approx(0.1, abs=1e-4)


@pytest.mark.parametrize("change", [{"stiffness": 0.0}, {"layer": -1.0}, {"slip_speed": 0.0}, {"friction": -0.1}, {"friction": np.nan}])
def test_a_bad_contact_is_refused(change):
    with pytest.raises(InputError, match=next(iter(change)).replace("_", ".")):
        pl.Contact(obstacle=pl.plane((0, 0, 1)), **change)


@pytest.mark.parametrize("make", [lambda: pl.plane((0, 0, 0)), lambda: pl.sphere((0, 0), 0.0), lambda: pl.capsule((0, 0), (1, 0), -1.0)])
def test_a_bad_obstacle_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_the_default_stiffness_follows_the_body():
    """A block of E on the ground sinks in by less than a hundredth of its cells under a pressure of E / 100."""
    block = pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1)), divisions=(2, 2, 2), order=1, material=pl.Material(E=3e5, nu=0.3, law="fixed-corotated"),
        contacts=[pl.Contact(obstacle=pl.plane((0.0, 0.0, 1.0)))], loads=[pl.SurfaceLoad(surface="z+", traction=(0.0, 0.0, -3e3))],
        supports=[pl.Support(region="z+", axes="xy")],
    )  # fmt: skip
    model = pl.ImplicitEuler(block, dt=10.0)
    x = model.initial_state()
    for k in range(5):
        x = model.step(x, np.zeros(0), None, k).x
    assert -0.01 * 0.05 < model.space.position(x)[2::3].min() < 0.0


@pytest.mark.parametrize("obstacle", [pl.sphere((0.1, 0.2, 0.3), 0.05), pl.sphere((0.1, 0.2), 0.05)])
def test_the_outline_of_a_ball_lies_on_it(obstacle):
    for curve in obstacle.outline:
        np.testing.assert_allclose(obstacle(curve)[0], 0.0, atol=1e-15)


def test_a_level_plane_is_a_ground_and_a_tilted_one_is_none():
    assert pl.plane((0.0, 0.0, 2.0), height=0.1).ground == 0.1
    assert pl.plane((0.1, 0.0, 1.0)).ground is None
