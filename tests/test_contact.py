"""Contact: signed distances, smooth penalty, Coulomb friction and their effect on a mass."""

import numpy as np
import pytest

import pliant as pl
from pliant.bodies import complex_step_jacobian, one_sided_spring
from pliant.contact import Friction, terrain
from pliant.core import InputError

G = 9.81
HILLS = 0.3 * np.random.default_rng(3).standard_normal((7, 6))
OBSTACLES = {
    "plane": (pl.plane((1.0, 2.0, 2.0), height=0.1), 3),
    "sphere": (pl.sphere((0.1, 0.2, -0.3), 0.4), 3),
    "capsule": (pl.capsule((0.0, 0.0, 0.0), (0.5, 0.2, 0.0), 0.2), 3),
    "line": (pl.plane((0.0, 1.0)), 2),
    "disc": (pl.sphere((0.1, 0.2), 0.4), 2),
    "slot": (pl.capsule((0.0, 0.0), (0.5, 0.2), 0.2), 2),
    "terrain": (terrain(HILLS, 0.25, (-0.8, -0.6, 0.1)), 3),
    "profile": (terrain(HILLS[0], 0.25, (-0.7, 0.1)), 2),
}
every = pytest.mark.parametrize("name", OBSTACLES)


def attached(name, rng, **options):
    """Return the contact of eight point masses with an obstacle, and their positions.

    About half of the positions are inside the obstacle."""
    obstacle, dim = OBSTACLES[name]
    contact = pl.Contact(
        obstacle=obstacle,
        **{"stiffness": 300.0, "layer": 0.05, "friction": 0.4, "slip_speed": 0.1, **options},
    )
    y = 0.4 * rng.standard_normal((8, dim))
    return contact.attach(pl.PointMass(points=y)), y


# Distances


def test_distances_are_euclidean():
    plane = pl.plane((0.0, 0.0, 2.0), height=0.3)
    np.testing.assert_allclose(plane(np.array([[5.0, 5.0, 1.0]]))[0], 0.7)
    np.testing.assert_allclose(
        pl.sphere((0, 0, 1.0), 0.5)(np.array([[0, 0, 3.0], [0, 0, 1.2]]))[0], [1.5, -0.3]
    )
    capsule = pl.capsule((0, 0, 0), (1.0, 0, 0), 0.1)
    at = np.array(
        [[0.5, 0.3, 0.4], [-3.0, 4.0, 0.0], [1.6, 0.0, 0.8]]
    )  # beside the segment and beyond both of its ends
    np.testing.assert_allclose(capsule(at)[0], [0.4, 4.9, 0.9])


@every
def test_normals_and_hessians_are_derivatives_of_distance(name, rng):
    obstacle, dim = OBSTACLES[name]
    y = 0.4 * rng.standard_normal((20, dim))
    _, n, H = obstacle(y)
    np.testing.assert_allclose(
        complex_step_jacobian(lambda z: obstacle(z)[0][:, None], y)[:, 0], n, atol=1e-13
    )
    np.testing.assert_allclose(complex_step_jacobian(lambda z: obstacle(z)[1], y), H, atol=1e-11)
    if name in ("terrain", "profile"):  # the distance is a lower bound
        assert np.all(np.linalg.norm(n, axis=1) <= 1.0)
    else:
        np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, rtol=1e-14)


def test_centre_of_ball_is_finite():
    assert all(np.all(np.isfinite(part)) for part in pl.sphere((0.0, 0.0), 1.0)(np.zeros((1, 2))))


# Terrain


def surface(x, y=0.0):
    """Return the height of a smooth terrain and its slopes along x and y."""
    return (
        0.1 * np.sin(3 * x) * np.cos(2 * y),
        0.3 * np.cos(3 * x) * np.cos(2 * y),
        -0.2 * np.sin(3 * x) * np.sin(2 * y),
    )


def landscape(n):
    """Return the terrain over a square of 2 m, with n heights along a side."""
    line = np.linspace(-1.0, 1.0, n)
    return terrain(surface(line[:, None], line[None])[0], 2.0 / (n - 1), (-1.0, -1.0, 0.0))


def height_under(obstacle, x):
    """Return the heights (k,) at which the distance is zero over positions x (k, dim - 1)."""
    below = obstacle(np.column_stack([x, np.zeros(len(x))]))
    return -below[0] / below[1][:, -1]


def test_terrain_interpolates_heights_and_is_constant_outside():
    x, y = (
        grid.ravel()
        for grid in np.meshgrid(
            -0.8 + 0.25 * np.arange(7), -0.6 + 0.25 * np.arange(6), indexing="ij"
        )
    )
    hills = OBSTACLES["terrain"][0]
    np.testing.assert_allclose(
        height_under(hills, np.stack([x, y], axis=1)), HILLS.ravel() + 0.1, atol=1e-12
    )
    far = height_under(hills, np.array([[-50.0, -50.0], [-50.0, -0.35], [50.0, 1e9]]))
    np.testing.assert_allclose(far, HILLS[[0, 0, -1], [0, 1, -1]] + 0.1, atol=1e-11)
    _, n, H = hills(np.array([[-50.0, -50.0, 1.0]]))
    np.testing.assert_allclose(n[0, :2], 0.0, atol=1e-11)
    np.testing.assert_allclose(H, 0.0, atol=1e-11)


def test_terrain_converges_with_order_four_and_its_slope_with_three(rng, rate):
    at = rng.uniform(-0.5, 0.5, (200, 2))
    exact = surface(*at.T)
    sizes, heights, slopes = 2.0 / np.array([40, 80, 160]), [], []
    for n in (41, 81, 161):
        _, normal, _ = landscape(n)(np.column_stack([at, np.zeros(200)]))
        heights.append(np.abs(height_under(landscape(n), at) - exact[0]).max())
        slopes.append(np.abs(-normal[:, :2] / normal[:, 2:] - np.stack(exact[1:], axis=1)).max())
    assert rate(sizes, heights) == pytest.approx(4.0, abs=0.3)
    assert rate(sizes, slopes) == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("name", ["terrain", "profile"])
def test_terrain_distance_is_lower_bound_and_c2(name, rng):
    obstacle, dim = OBSTACLES[name]
    side = np.linspace(-2.0, 2.0, 301 if dim == 3 else 20001)
    ground = np.stack(np.meshgrid(*[side] * (dim - 1), indexing="ij"), axis=-1).reshape(-1, dim - 1)
    ground = np.column_stack([ground, height_under(obstacle, ground)])
    y = rng.uniform(-0.5, 0.5, (40, dim))
    true = np.array([np.linalg.norm(ground - point, axis=1).min() for point in y])
    assert np.all(np.abs(obstacle(y)[0]) <= true + 1e-12)
    # Across a grid line, where one cubic ends and the next begins
    line = np.full((1, dim), 0.05)
    below, above = (obstacle(line + side * 1e-9) for side in (-1, 1))
    for one, other in zip(below, above, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_level_terrain_equals_plane(rng):
    y = rng.standard_normal((20, 3))
    for part, expected in zip(
        terrain(np.zeros((4, 3)), 0.1, (0, 0, 0.2))(y),
        pl.plane((0, 0, 1), height=0.2)(y),
        strict=True,
    ):
        np.testing.assert_allclose(
            part, expected, atol=1e-12
        )  # round-off of the spline over its spacing squared


@pytest.mark.parametrize(("name", "curves"), [("terrain", 13), ("profile", 1)])
def test_terrain_outline_lies_on_terrain(name, curves):
    obstacle, dim = OBSTACLES[name]
    assert len(obstacle.outline) == curves
    for curve in obstacle.outline:
        assert curve.shape[1] == dim
        np.testing.assert_allclose(obstacle(curve)[0], 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: terrain([], 0.1), r"The heights of a terrain are '\[\]'; give a table \(nx, ny\)"),
        (lambda: terrain(0.3, 0.1), r"The heights of a terrain are '0.3'"),
        (
            lambda: terrain([[0, 1], [2]], 0.1),
            r"The heights of a terrain are '\[\[0, 1\], \[2\]\]'",
        ),
        (lambda: terrain(np.zeros((2, 2, 2)), 0.1), r"The heights of a terrain are"),
        (lambda: terrain([0, np.nan], 0.1), r"The array of heights of a terrain is nan at entry 1"),
        (lambda: terrain([0, 1], 0.0), r"The spacing of a terrain is 0 m"),
        (lambda: terrain([0, 1], 0.1, (0, 0, 0)), r"The origin of a terrain has shape \(3,\)"),
        (
            lambda: pl.Contact(obstacle=terrain([0, 1], 0.1)).attach(
                pl.PointMass(points=[[0.0, 0, 0]])
            ),
            "from a table of 2",
        ),
    ],
)
def test_bad_terrain_is_rejected(make, says):
    with pytest.raises(InputError, match=says):
        make()


# The penalty


def test_one_sided_spring_is_c2_and_linear_beyond_onset():
    layer = 0.1
    below, above = (
        np.array(one_sided_spring(np.array([layer * (1 + side * 1e-9)]), layer)).ravel()
        for side in (-1, 1)
    )
    # Values on both sides of the joint differ only by their slope times 2e-9 layer.
    np.testing.assert_allclose(below, above, atol=1e-8)
    np.testing.assert_array_equal(np.array(one_sided_spring(np.array([-1.0, 0.0]), layer)), 0.0)
    deep = np.array([0.3, 0.4])
    np.testing.assert_allclose(np.diff(one_sided_spring(deep, layer)[1]), 0.1)
    np.testing.assert_array_equal(one_sided_spring(deep, layer)[2], 1.0)


@pytest.mark.parametrize("depth", [0.03, 0.07])
def test_one_sided_spring_derivatives_match(depth):
    at = np.array([depth + 1e-30j])
    value, slope, curvature = one_sided_spring(at, 0.05)
    assert value.imag / 1e-30 == pytest.approx(slope.real, rel=1e-13)
    assert slope.imag / 1e-30 == pytest.approx(curvature.real, rel=1e-13)


@every
def test_gradient_and_hessian_are_derivatives_of_energy(name, rng, taylor):
    term, y = attached(name, rng)
    d, u = rng.standard_normal(y.shape), np.zeros(0)
    assert (term.normal_force(y) > 0.0).any()
    slope = np.sum(term.gradient(y, u) * d)
    # Steps of a hundredth of the layer: the ramp has three continuous pieces, and no point may
    # change its piece.
    assert taylor(lambda e: term.energy(y + 0.01 * e * d, u), 0.01 * slope) == pytest.approx(
        2.0, abs=0.1
    )
    exact = complex_step_jacobian(lambda z: term.gradient(z, u), y)
    np.testing.assert_allclose(term.hessian(y, u), exact, atol=1e-10 * np.abs(exact).max())


# Friction as a potential over one step


@every
def test_friction_derivatives_match(name, rng):
    term, old = attached(name, rng)
    drag, dt = Friction(contact=term), 0.1
    y = old + 0.02 * rng.standard_normal(old.shape)
    energy = lambda z: drag_energies(drag, z, old, dt)[:, None]
    np.testing.assert_allclose(
        complex_step_jacobian(energy, y)[:, 0], drag.gradient(y, old, dt), atol=1e-10
    )
    np.testing.assert_allclose(
        complex_step_jacobian(lambda z: drag.gradient(z, old, dt), y),
        drag.hessian(y, old, dt),
        atol=1e-8,
    )


def drag_energies(drag, y, old, dt):
    """Return the energy of each point, mu N (sqrt(s^2 + (h v)^2) - h v)."""
    contact = drag.contact.contact
    n = contact.obstacle(old)[1]
    n = n / np.linalg.norm(n, axis=1)[:, None]
    s = (y - old) - np.sum((y - old) * n, axis=1)[:, None] * n
    floor = dt * contact.slip_speed
    return (
        contact.friction
        * drag.contact.normal_force(old)
        * (np.sqrt(np.sum(s * s, axis=1) + floor**2) - floor)
    )


@every
def test_friction_mixed_hessian_is_derivative_by_old_positions(name, rng, taylor):
    term, old = attached(name, rng)
    drag, dt = Friction(contact=term), 0.1
    y, d = old + 0.02 * rng.standard_normal(old.shape), rng.standard_normal(old.shape)
    slope = np.einsum("nij,nj->ni", drag.mixed_hessian(y, old, dt), d)
    assert taylor(
        lambda e: drag.gradient(y, old + 0.01 * e * d, dt), 0.01 * slope
    ) == pytest.approx(2.0, abs=0.1)


@every
def test_friction_is_tangential_and_coulomb_bound(name, rng):
    term, old = attached(name, rng)
    drag = Friction(contact=term)
    y = old + 10.0 * rng.standard_normal(old.shape)  # fast slip: nearly the full Coulomb force
    force, normal = drag.gradient(y, old, 0.1), term.contact.obstacle(old)[1]
    limit = 0.4 * term.normal_force(old)
    np.testing.assert_allclose(np.sum(force * normal, axis=1), 0.0, atol=1e-12 * limit.max())
    assert np.all(np.linalg.norm(force, axis=1) <= limit * (1 + 1e-12))
    np.testing.assert_allclose(np.linalg.norm(force, axis=1), limit, rtol=1e-3)
    assert np.all(
        np.sum(force * (y - old), axis=1) >= 0.0
    )  # the force is minus this gradient and dissipates energy


def test_viscosity_is_limit_of_friction_for_small_steps(rng):
    term, old = attached("plane", rng)
    drag, v = Friction(contact=term), rng.standard_normal(old.shape)
    force = np.einsum("nij,nj->ni", drag.viscosity(old, v), v)
    np.testing.assert_allclose(
        force, drag.gradient(old + 1e-3 * v, old, 1e-3), atol=1e-9 * np.abs(force).max()
    )


# A mass on a slope


def on_slope(angle, friction, mass=2.0, stiffness=1e5):
    """Return a point mass on a plane of that angle, pressed into it by the force of gravity."""
    normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    layer = 1e-4
    depth = mass * G * np.cos(angle) / stiffness + 0.5 * layer
    contact = pl.Contact(
        obstacle=pl.plane(normal),
        stiffness=stiffness,
        layer=layer,
        friction=friction,
        slip_speed=1e-3,
    )
    return pl.Robot(
        shape=pl.PointMass(points=[-depth * normal], mass_each=mass),
        contacts=(contact,),
        gravity=(0, 0, -G),
    )


def downhill(angle):
    return -np.array([np.cos(angle), 0.0, np.sin(angle)])


RULES = pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit])


@RULES
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_below_friction_angle_mass_creeps_at_regularised_speed(rule, share):
    mu = 0.5
    angle = np.arctan(share * mu)
    model = rule(on_slope(angle, mu), dt=1e-2)
    run = pl.simulate(model, np.zeros((100, 0)))
    speed = model.space.velocity(run.states[-1]) @ downhill(angle)
    # m g sin = mu N s / sqrt(s^2 + v^2) solved for s: the steady state of every rule.
    assert speed == pytest.approx(1e-3 * share / np.sqrt(1 - share**2), rel=1e-6)


@RULES
def test_above_friction_angle_mass_accelerates_by_coulombs_law(rule):
    mu, angle, dt = 0.5, np.arctan(0.75), 1e-2
    model = rule(on_slope(angle, mu), dt=dt)
    run = pl.simulate(model, np.zeros((60, 0)))
    speed = [model.space.velocity(x) @ downhill(angle) for x in run.states[[40, 60]]]
    # By then the speed is a thousand times slip_speed, so that the regularisation costs a
    # millionth. SemiImplicit divides the new speed by the old one, so that its friction is too
    # strong by the share that the speed gains in a step.
    lag = mu * G * np.cos(angle) * dt / speed[0] if rule is pl.SemiImplicit else 0.0
    assert (speed[1] - speed[0]) / (20 * dt) == pytest.approx(
        G * (np.sin(angle) - mu * np.cos(angle)), rel=1e-4 + lag
    )


def test_ground_reaction_is_weight_at_rest():
    robot = pl.Robot(
        shape=pl.Box(size=(0.2, 0.1, 0.1)),
        divisions=(2, 1, 1),
        order=2,
        material=pl.Material(E=1e5, nu=0.3, density=1200.0),
        contacts=(
            pl.Contact(obstacle=pl.plane((0, 0, 1)), surface="z-", stiffness=1e6, friction=0.5),
        ),
        gravity=(0, 0, -G),
        damping=pl.Damping(mass=20.0, stiffness=0.01),
    )
    model = pl.ImplicitEuler(robot, dt=0.05)
    q = model.space.position(pl.simulate(model, np.zeros((80, 0))).states[-1])
    term, _ = model.equations.potentials[0]
    pressure = term.normal_force(model.equations.points(term, q))
    weight = 1200.0 * 0.2 * 0.1 * 0.1 * G
    assert pressure.sum() == pytest.approx(weight, rel=1e-6)
    # Without friction the resultant acts under the centre of mass.
    x = (term.weights @ q.reshape(-1, 3))[:, 0]
    assert pressure @ x / weight == pytest.approx(0.1, abs=1e-4)


def test_block_settles_in_valley_of_terrain():
    """The ground carries the weight, and the valley sides push the block to the middle."""
    valley = terrain(2.0 * np.linspace(-0.5, 0.5, 21) ** 2, 0.05, (-0.5, 0.0))
    robot = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.1), origin=(0.05, 0.1)),
        divisions=(4, 2),
        order=1,
        thickness=0.1,
        material=pl.Material(E=1e5, nu=0.3, density=1200.0),
        contacts=(pl.Contact(obstacle=valley, stiffness=1e7),),
        gravity=(0, -G),
        damping=pl.Damping(mass=10.0, stiffness=0.01),
    )
    model = pl.ImplicitEuler(robot, dt=0.05)
    q = model.space.position(pl.simulate(model, np.zeros((400, 0))).states[-1])
    term, _ = model.equations.potentials[0]
    y = model.equations.points(term, q)
    push = -term.gradient(y, np.zeros(0)).sum(axis=0)
    np.testing.assert_allclose(push, [0.0, 1200.0 * 0.2 * 0.1 * 0.1 * G], atol=1e-5)
    assert term.normal_force(y).sum() > push[1]  # the valley sides press on it
    assert q.reshape(-1, 2)[:, 0].mean() == pytest.approx(0.0, abs=1e-4)
    assert -1e-3 < valley(y)[0].min() < 0.0


def test_friction_on_terrain_holds_mass_below_friction_angle():
    """As on a plane, a mass below the friction angle creeps at the regularised speed.

    The slope of the terrain elsewhere has no effect."""
    mu, share = 0.5, 0.8
    angle = np.arctan(share * mu)
    ramp = np.append(np.linspace(-2.0, 2.0, 41) * np.tan(angle), 5.0)  # ends in a cliff
    contact = pl.Contact(
        obstacle=terrain(ramp, 0.1, (-2.0, 0.0)),
        stiffness=1e9,
        layer=1e-4,
        friction=mu,
        slip_speed=1e-3,
    )
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=2.0), contacts=(contact,), gravity=(0, -G)
    )
    model = pl.ImplicitEuler(robot, dt=1e-2)
    x = pl.simulate(model, np.zeros((200, 0))).states[-1]
    speed = -model.space.velocity(x) @ [np.cos(angle), np.sin(angle)]
    assert speed == pytest.approx(1e-3 * share / np.sqrt(1 - share**2), rel=1e-4)


@pytest.mark.parametrize("kind", ["slip", "sticky"])
def test_finite_elements_reject_particle_contact_kinds(kind):
    contact = pl.Contact(obstacle=pl.plane((0, 0, 1)), kind=kind)
    block = pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1)),
        divisions=(1, 1, 1),
        material=pl.Material(E=1e5, nu=0.3),
        contacts=[contact],
    )
    contact.check(block.body())
    with pytest.raises(
        InputError,
        match=f"A contact of kind '{kind}' is for MaterialPoint; with finite elements use",
    ):
        pl.ImplicitEuler(block, dt=0.01)
    with pytest.raises(InputError, match=f"kind '{kind}' has a friction of 0.3; remove it"):
        pl.Contact(obstacle=pl.plane((0, 0, 1)), kind=kind, friction=0.3)


@pytest.mark.parametrize("kind", ["stick", None, 3])
def test_unknown_contact_kind_is_rejected(kind):
    with pytest.raises(
        InputError,
        match=f"There is no kind of contact '{kind}'; (did you mean 'sticky'|choose one of "
        "separate, slip, st)",
    ):
        pl.Contact(obstacle=pl.plane((0, 0, 1)), kind=kind)


@pytest.mark.parametrize(
    "change",
    [
        {"stiffness": 0.0},
        {"layer": -1.0},
        {"slip_speed": 0.0},
        {"friction": -0.1},
        {"friction": np.nan},
    ],
)
def test_bad_contact_is_rejected(change):
    with pytest.raises(InputError, match=next(iter(change)).replace("_", ".")):
        pl.Contact(obstacle=pl.plane((0, 0, 1)), **change)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.plane((0, 0, 0)),
        lambda: pl.sphere((0, 0), 0.0),
        lambda: pl.capsule((0, 0), (1, 0), -1.0),
    ],
)
def test_bad_obstacle_is_rejected(make):
    with pytest.raises(InputError):
        make()


def test_default_contact_stiffness_scales_with_body():
    """A block of E on the ground sinks in by less than a hundredth of its cells under a pressure of
    E / 100."""
    block = pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1)),
        divisions=(2, 2, 2),
        order=1,
        material=pl.Material(E=3e5, nu=0.3, law="fixed-corotated"),
        contacts=[pl.Contact(obstacle=pl.plane((0.0, 0.0, 1.0)))],
        loads=[pl.SurfaceLoad(surface="z+", traction=(0.0, 0.0, -3e3))],
        supports=[pl.Support(region="z+", axes="xy")],
    )
    model = pl.ImplicitEuler(block, dt=10.0)
    x = model.initial_state()
    for k in range(5):
        x = model.step(x, np.zeros(0), None, k).x
    assert -0.01 * 0.05 < model.space.position(x)[2::3].min() < 0.0


@pytest.mark.parametrize(
    "obstacle", [pl.sphere((0.1, 0.2, 0.3), 0.05), pl.sphere((0.1, 0.2), 0.05)]
)
def test_ball_outline_lies_on_ball(obstacle):
    for curve in obstacle.outline:
        np.testing.assert_allclose(obstacle(curve)[0], 0.0, atol=1e-15)


def test_only_level_plane_is_ground():
    assert pl.plane((0.0, 0.0, 2.0), height=0.1).ground == 0.1
    assert pl.plane((0.1, 0.0, 1.0)).ground is None
