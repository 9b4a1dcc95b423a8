"""Hydraulic: the liquid's weight at its centroid, hydrostatic pressure on every wall, exact derivatives, mass in motion; closed air."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.linalg

import pliant as pl
from pliant.actuators import AttachedLiquid, Continued, Hydraulic, Pressure, merged
from pliant.actuators.pressure import ATMOSPHERE
from pliant.dynamics.equations import Equations
from pliant.geometry import Box, Mesh, Rectangle, cavities, compacted, with_cavities, with_surface
from pliant.geometry.boundary import facet_shape
from pliant.geometry.columns import column_weights

RHO, WIDE = 1234.0, 0.05  # [kg/m^3], [m]
every = pytest.mark.parametrize(("dim", "order"), [(2, 1), (2, 2), (3, 1), (3, 2)])
HELD = (pl.Support(region="x-"),)
TILTED = {2: (3.0, -9.0), 3: (3.0, -2.0, -9.0)}


def hollow(dim, order=1, crooked=0.0, rooms=1):
    """3 x 3 (x 3) cubes of 0.1 m without the middle one, whose corners may stand askew, or so many of these in a row with a wall between;
    surfaces "x-", "top" and "cavity", or "cavity-1" from the left on."""
    size = (0.1 * (2 * rooms + 1), *((dim - 1) * (0.3,)))
    mesh = (Rectangle if dim == 2 else Box)(size=size).mesh(divisions=(2 * rooms + 1, *((dim - 1) * (3,))))
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1)
    points, cells = compacted(mesh.points, mesh.cells[~(cube % 2 == 1).all(axis=1)])
    inside = ((points > 0.05) & (points < np.array(size) - 0.05)).all(axis=1)
    points[inside] += crooked * np.random.default_rng(3).uniform(-1.0, 1.0, (inside.sum(), dim))
    mesh = Mesh(points=points, cells=cells)
    order_of = np.argsort([points[wall][..., 0].mean() for wall in cavities(mesh)]).argsort() + 1
    mesh = with_cavities(mesh, ["cavity"] if rooms == 1 else [f"cavity-{k}" for k in order_of])
    mesh = with_surface(mesh, "x-", lambda centres: centres[:, 0] == 0.0)
    mesh = with_surface(mesh, "top", lambda centres: centres[:, -1] > 0.2999)
    return mesh.quadratic() if order == 2 else mesh


def bag(dim=3, order=1, gravity=None, crooked=0.02, supports=HELD, E=1e5, fluid=None, rooms=1, **parts):
    fluid = Hydraulic(cavity="cavity", density=RHO) if fluid is None else fluid
    return pl.Robot(shape=hollow(dim, order, crooked, rooms), order=order, material=pl.Material(E=E, nu=0.3), supports=supports,
                    thickness=WIDE, gravity=TILTED[dim] if gravity is None else gravity,
                    actuators={"pump": fluid, **parts.pop("actuators", {})},
                    **parts)  # fmt: skip


def shaken(rng, **options):
    eq = Equations(robot=bag(**options))
    return eq, eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)


def liquid(eq):
    return next(term for term, _ in eq.terms if isinstance(term, AttachedLiquid))


def weight(eq, q):
    """(n_nodes, dim) [N] what the liquid's weight does to the nodes."""
    term = liquid(eq)
    return -(term.weights.T @ term.gradient(eq.points(term, q), np.zeros(0)))


def on_wall(eq, q, cavity="cavity"):
    """At each point of a fine rule: (shape functions (a,), places (k, dim), normals out of the liquid times area and weight (k, dim))."""
    nodes, dim = q.reshape(-1, eq.dim)[eq.body.mesh.facets(cavity)], eq.dim
    at, w = np.polynomial.legendre.leggauss(6)
    line = [(0.5 + 0.5 * a, 0.5 * u) for a, u in zip(at, w, strict=True)]
    rule = [(np.array([a, 1 - a]), u * WIDE) for a, u in line]
    if dim == 3:
        rule = [(np.array([a, (1 - a) * b, (1 - a) * (1 - b)]), u * v * (1 - a)) for a, u in line for b, v in line]
    for bary, weight in rule:
        value, slope = facet_shape(bary, eq.body.mesh.order)
        t = np.einsum("kai,as->kis", nodes, slope)
        n = np.cross(t[:, :, 0], t[:, :, 1]) if dim == 3 else np.stack([t[:, 1, 0], -t[:, 0, 0]], axis=1)
        yield value, np.einsum("kai,a->ki", nodes, value), -weight * n  # the facets point into the cavity


def measured(eq, q, cavity="cavity"):
    """([m^3], (dim,) [m]) volume and centroid of the cavity, by the divergence theorem."""
    volume = sum(float(np.sum(x * n)) / eq.dim for _, x, n in on_wall(eq, q, cavity))
    return volume, sum(0.5 * np.sum(x**2 * n, axis=0) for _, x, n in on_wall(eq, q, cavity)) / volume


def wall_forces(eq, q, pressure, cavity="cavity"):
    """(n_nodes, dim) [N] of a pressure (k, dim) -> (k,) [Pa] on the walls: the integral of N p n, without any potential."""
    out = np.zeros((eq.n_dofs // eq.dim, eq.dim))
    for value, x, n in on_wall(eq, q, cavity):
        np.add.at(out, eq.body.mesh.facets(cavity), np.einsum("a,ki->kai", value, pressure(x)[:, None] * n))
    return out


def moments(x, f):
    return np.array([np.sum(x[:, i] * f[:, j] - x[:, j] * f[:, i]) for i, j in combinations(range(x.shape[1]), 2)])


# The weight


@every
def test_the_net_force_is_the_weight_and_acts_at_the_centroid(rng, dim, order):
    eq, q = shaken(rng, dim=dim, order=order)
    f, x, (volume, centroid) = weight(eq, q), q.reshape(-1, dim), measured(eq, q)
    whole = RHO * volume * np.array(TILTED[dim])
    np.testing.assert_allclose(f.sum(axis=0), whole, atol=1e-11 * np.linalg.norm(whole))
    np.testing.assert_allclose(moments(x, f), moments(centroid[None], whole[None]), atol=1e-11 * np.abs(x).max() * np.abs(f).sum())
    assert np.abs(f).sum() > 1.5 * np.abs(whole).sum()  # it presses on all walls, not only on the lowest


@every
def test_every_wall_feels_the_hydrostatic_pressure(rng, dim, order):
    """At x_ref, the highest corner at rest, it is what the pump says."""
    eq, q = shaken(rng, dim=dim, order=order)
    g = np.array(TILTED[dim])
    corners = eq.body.rest.reshape(-1, dim)[eq.body.mesh.nodes("cavity")]
    highest = corners[np.argmin(corners @ g)]
    f = -eq.pull(q, np.array([300.0]))[1].reshape(-1, dim)
    expected = wall_forces(eq, q, lambda x: 300.0 + RHO * (x - highest) @ g)
    np.testing.assert_allclose(f, expected, atol=1e-11 * np.abs(expected).sum())


def test_a_tank_of_water_at_rest_presses_as_the_book_says():
    """The roof carries nothing, the floor rho g h A, each side rho g h^2 / 2 times its width."""
    eq = Equations(robot=bag(crooked=0.0, gravity=(0.0, 0.0, -9.81)))
    q, h = eq.body.rest, 0.1
    f, x = weight(eq, q), q.reshape(-1, 3)
    lower = np.isclose(x[:, 2], 0.1)
    assert f[lower, 2].sum() == pytest.approx(-RHO * 9.81 * h * h**2, rel=1e-12)
    assert f[~lower, 2] == pytest.approx(0.0, abs=1e-12)
    side = np.isclose(x[:, 0], 0.2)
    assert f[side, 0].sum() == pytest.approx(0.5 * RHO * 9.81 * h**2 * h, rel=1e-12)


@every
def test_a_turned_tank_has_the_energy_of_its_centroid(dim, order):
    """Rigid turns and shifts: the potential is minus the weight times the way of the centroid; the pump's share is none."""
    eq = Equations(robot=bag(dim=dim, order=order))
    rest, g, term = eq.body.rest.reshape(-1, dim), np.array(TILTED[dim]), liquid(eq)
    volume, centroid = measured(eq, eq.body.rest)
    c, s = np.cos(0.7), np.sin(0.7)
    R = np.eye(dim)
    R[:2, :2] = [[c, -s], [s, c]]
    shift = np.arange(1.0, dim + 1)
    energy = lambda x: term.energy(eq.points(term, x.ravel()), np.zeros(0))  # noqa: E731
    expected = -RHO * volume * g @ (R @ centroid + shift - centroid)
    assert energy(rest @ R.T + shift) - energy(rest) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("drive", ["pressure", "volume"])
@every
def test_gradient_hessian_and_control_column_pass_taylors_test(rng, taylor, dim, order, drive):
    eq, q = shaken(rng, dim=dim, order=order, fluid=Hydraulic(cavity="cavity", drive=drive, density=RHO, bulk=3e4))
    u, d = np.array([1.3e3 if drive == "pressure" else 1.2]), 0.1 * rng.standard_normal(q.size)
    assert taylor(lambda e: eq.pull(q + e * d, u)[0], eq.pull(q, u)[1] @ d) == pytest.approx(2.0, abs=0.1)
    assert taylor(lambda e: eq.pull(q + e * d, u)[1], eq.terms_times(q, u, d)) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(eq.pull(q, u + 0.5)[1] - eq.pull(q, u)[1], 0.5 * eq.control_columns(q, u)[:, 0], atol=1e-8)
    blocks = liquid(eq).curvature(eq.points(liquid(eq), q), u)
    np.testing.assert_allclose(blocks, np.swapaxes(blocks, 1, 2), atol=1e-13 * np.abs(blocks).max())


@every
def test_the_hessian_moves_as_the_complex_step_says(rng, dim, order):
    eq, q = shaken(rng, dim=dim, order=order, fluid=Hydraulic(cavity="cavity", drive="volume", density=RHO, bulk=3e4))
    u, y, z, e = np.array([1.2]), *(0.1 * rng.standard_normal((2, q.size))), 1e-5
    slope = (eq.terms_times(q + e * y, u, z) - eq.terms_times(q - e * y, u, z)) / (2 * e)
    np.testing.assert_allclose(eq.terms_third(q, u, y, z), slope, atol=1e-8 * np.abs(slope).max())


def test_the_two_drives_agree_at_one_shape():
    by_volume, by_pressure = (pl.Quasistatic(bag(fluid=Hydraulic(cavity="cavity", drive=drive))) for drive in ("volume", "pressure"))
    u = np.array([1.2])
    q, eq = pl.equilibrium(by_volume, u).x, by_volume.equations
    pump = eq.terms[0][0]
    p = pump.pressure(eq.points(pump, q), u)
    np.testing.assert_allclose(pl.equilibrium(by_pressure, np.array([p])).x, q, atol=1e-8)


def test_gravity_is_the_robots_own():
    """A robot turned as a whole, gravity too, comes to rest in the turned shape."""
    R = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
    plain = bag()
    mesh = plain.shape
    shape = Mesh(points=mesh.points @ R.T, cells=mesh.cells, surfaces=mesh.surfaces)
    turned = pl.Robot(shape=shape, order=1, material=plain.material, supports=plain.supports, actuators=plain.actuators,
                      gravity=R @ TILTED[3])  # fmt: skip
    first, second = (pl.equilibrium(pl.Quasistatic(robot), np.array([800.0])).x.reshape(-1, 3) for robot in (plain, turned))
    np.testing.assert_allclose(second, first @ R.T, atol=1e-9)


def test_a_latent_model_keeps_the_weight():
    """Its controls are continued beyond their limits, and what fills the cavity is still heavy."""
    robot = bag()
    wrapped = bag(fluid=Continued(actuator=robot.actuators["pump"]))
    shapes = [pl.equilibrium(pl.Quasistatic(r), np.array([800.0])).x for r in (robot, wrapped, bag(fluid=Pressure(cavity="cavity")))]
    np.testing.assert_allclose(shapes[1], shapes[0], atol=1e-12)
    assert np.abs(shapes[2] - shapes[0]).max() > 1e-4


def test_it_stands_beside_cables_and_closed_air(rng):
    """Two cavities side by side: each wall feels its own fluid, and what is heavy is the water alone."""
    line = pl.Cable(points=[[0.05, 0.05, 0.28], [0.48, 0.05, 0.28]])
    robot = bag(rooms=2, fluid=Hydraulic(cavity="cavity-1", density=RHO),
                actuators={"line": line, "air": Pressure(cavity="cavity-2", drive="gas")})  # fmt: skip
    model = pl.ImplicitEuler(robot, dt=0.01)
    step = model.step(model.initial_state(), np.array([500.0, 2.0, 1.0]))
    assert step.status, step.status.text
    assert all(check.ok for check in pl.gradcheck(model, step.x, np.array([500.0, 2.0, 1.0])))
    eq, g = model.equations, np.array(TILTED[3])
    q = eq.body.rest + 0.01 * rng.standard_normal(eq.n_dofs)
    corners = eq.body.rest.reshape(-1, 3)[eq.body.mesh.nodes("cavity-1")]
    water = wall_forces(eq, q, lambda x: 500.0 + RHO * (x - corners[np.argmin(corners @ g)]) @ g, "cavity-1")
    (before, _), (now, _) = (measured(eq, at, "cavity-2") for at in (eq.body.rest, q))
    air = wall_forces(eq, q, lambda x: np.full(len(x), ATMOSPHERE * (before / now - 1.0)), "cavity-2")
    np.testing.assert_allclose(-eq.pull(q, np.array([500.0, 0.0, 1.0]))[1].reshape(-1, 3), water + air, atol=1e-9 * np.abs(air).sum())
    dry = eq.body.mass(eq.body.fields.density)
    assert eq.numbers(None).pair_mass.sum() - dry.sum() == pytest.approx(RHO * measured(eq, eq.body.rest, "cavity-1")[0], rel=1e-9)


# The place where the pressure is known


def lifted(h, u, **fluid):
    """(model, places (n_nodes, 3) at rest) of a bag whose support is h [m] higher."""
    model = pl.Quasistatic(bag(gravity=(0.0, 0.0, -9.81), fluid=Hydraulic(cavity="cavity", density=RHO, **fluid),
                               supports=[pl.Support(region="x-", motion=lambda t: (0.0, 0.0, h))]))  # fmt: skip
    start = (model.initial_state().reshape(-1, 3) + (0.0, 0.0, h)).ravel()
    return model, pl.equilibrium(model, np.array([u]), x0=start).x.reshape(-1, 3)


@pytest.mark.parametrize(("drive", "u", "unit"), [("pressure", 9000.0, 1.0), ("volume", 1.02, 1e6)])
def test_a_lift_takes_rho_g_h_off_the_pressure(drive, u, unit):
    """The pump stands still: a robot that is higher by h is what it was below with a control less by rho g h, or by that over bulk."""
    h = 0.4
    _, above = lifted(h, u, drive=drive)
    _, below = lifted(0.0, u - RHO * 9.81 * h / unit, drive=drive)
    np.testing.assert_allclose(above - (0.0, 0.0, h), below, atol=1e-9)


def test_a_lift_changes_a_given_volume_by_rho_g_h_over_bulk():
    """Less what the walls give way: dV / V0 = -(rho g h / bulk) / (1 + V0 / (c bulk)) with their compliance c = dV/dp."""

    def volume(*args, **fluid):
        model, x = lifted(*args, **fluid)
        return measured(model.equations, x.ravel())[0]

    h, rest = 0.4, liquid(Equations(robot=bag())).wall.rest_volume
    low, high = (volume(at, 1.02, drive="volume") for at in (0.0, h))
    p = 1e6 * (1.02 - low / rest)
    compliance = (volume(0.0, p + 50.0) - volume(0.0, p - 50.0)) / 100.0
    whole, share = RHO * 9.81 * h / 1e6, 1.0 / (1.0 + rest / (compliance * 1e6))
    assert (high - low) / rest == pytest.approx(-whole * share, rel=0.01)
    assert share > 0.8  # so that rho g h / bulk is what it is about


# The paper's merged constraint


def without_liquid(model, q, u):
    """The solve with the tangent that has no derivative of the weight, as in the paper."""
    eq = model.equations
    blocks = [None if isinstance(term, AttachedLiquid) else block for (term, _), block in zip(eq.terms, eq.term_blocks(q, u), strict=True)]
    values = eq.tangent.values(eq.body.stiffness(q, eq.body.fields), 0.0 * eq.numbers(None).pair_mass, blocks)
    return eq.tangent.factor(values, *eq.rank_columns(q, u))


def responses(model, u):
    """dq/dp on the free unknowns at an equilibrium: by differences, exact, by the paper's merged J_a with the weights of the walls and of
    columns, by the pressure alone."""
    eq, free = model.equations, model.equations.free
    step = pl.equilibrium(model, u)
    h = 1e-3 * u
    ahead, behind = (pl.equilibrium(model, u + side * h, x0=step.x).x for side in (1.0, -1.0))
    solve, q = without_liquid(model, step.x, u), step.x
    J_p, g = -eq.control_columns(q, u)[free].T, np.array(model.robot.gravity)
    wall = eq.body.mesh.facets("cavity")[:, ::-1]  # out of the liquid
    columns = column_weights(q.reshape(-1, 3), wall, grid=200, density=RHO, gravity=g)
    loads = weight(eq, q), np.outer(columns.weights, g / np.linalg.norm(g))
    J_a = [merged(J_p, load.ravel()[free][None], measured(eq, q)[:1], solve) for load in loads]
    return (ahead - behind)[free] / (2.0 * h[0]), model.linearize(step).dense_controls()[free, 0], *(solve(J)[:, 0] for J in (*J_a, J_p.T))


def test_the_exact_response_is_that_of_the_equilibrium_and_the_papers_is_near():
    """The merged constraint is 3 to 4 % off where the pressure alone is 26 % off; the tangent with the weight's own derivative is exact."""
    model = pl.Quasistatic(bag(E=2e4, gravity=(0.0, 0.0, -9.81)), newton=pl.Newton(tolerance=1e-13))
    found, *guesses = responses(model, np.array([1500.0]))
    exact, walls, columns, plain = (np.linalg.norm(guess - found) / np.linalg.norm(found) for guess in guesses)
    assert exact < 1e-6
    assert walls < columns < 0.05
    assert plain > 0.2


def test_the_merged_constraint_of_two_cavities_knows_both():
    """J_w^T J_p K^-1 J_p^T has a share of each cavity's weight for the pressure in the other."""
    rng = np.random.default_rng(1)
    A, J, w, v = rng.standard_normal((6, 6)), rng.standard_normal((2, 6)), rng.standard_normal((2, 6)), np.array([2.0, 3.0])
    K = A @ A.T + np.eye(6)
    grown = J @ np.linalg.inv(K) @ J.T  # [cavity that grows, cavity under pressure]
    expected = [J[k] + sum(w[i] / v[i] * grown[i, k] for i in range(2)) for k in range(2)]
    np.testing.assert_allclose(merged(J, w, v, lambda b: np.linalg.solve(K, b)).T, expected, rtol=1e-12)


# The mass


def masses(robot):
    """([kg] of the body, [kg] of the liquid, (n_nodes, n_nodes) both)"""
    eq = Equations(robot=robot)
    both = eq.numbers(None).mass
    own = Equations(robot=bag(dim=eq.dim, order=robot.order, fluid=Pressure(cavity="cavity"))).numbers(None).mass.sum()
    return own, both.sum() - own, both


@every
def test_the_liquid_adds_its_mass_about_its_own_centre(dim, order):
    robot = bag(dim=dim, order=order)
    eq = Equations(robot=robot)
    volume, centroid = measured(eq, eq.body.rest)
    _, filled, _ = masses(robot)
    assert filled == pytest.approx(RHO * volume, rel=1e-12)
    share = liquid(eq).mass
    assert share.min() >= 0.0
    np.testing.assert_allclose(share @ eq.body.rest.reshape(-1, dim) / filled, centroid, atol=1e-13)
    np.testing.assert_allclose(eq.numbers(None).outside, Equations(robot=bag(dim=dim, order=order, fluid=Pressure(cavity="cavity")))
                               .numbers(None).outside, atol=1e-15)  # fmt: skip


@every
def test_a_robot_without_supports_falls_with_g_and_does_not_turn(dim, order):
    """The first step is semi-implicit, where the elastic forces have no net one; the liquid fills its rest volume then."""
    robot = bag(dim=dim, order=order, supports=())
    model = pl.SemiImplicit(robot, dt=1e-3)
    x = model.step(model.initial_state(), np.array([700.0])).x
    _, _, M = masses(robot)
    v, place = model.space.velocity(x).reshape(-1, dim), robot.body().rest.reshape(-1, dim)
    momentum = M @ v
    np.testing.assert_allclose(momentum.sum(axis=0) / M.sum(), 1e-3 * np.array(TILTED[dim]), rtol=1e-10)
    centre = (M @ place).sum(axis=0) / M.sum()
    np.testing.assert_allclose(moments(place - centre, momentum), 0.0, atol=1e-10 * np.abs(momentum).sum())


def test_the_fall_goes_on_by_the_weight_of_what_there_is():
    """Later the cavity has another volume: the force is that of its liquid, the mass that of the rest volume."""
    robot = bag(supports=())
    model = pl.ImplicitEuler(robot, dt=0.01, newton=pl.Newton(tolerance=1e-13))
    x = model.initial_state()
    for k in range(3):
        v = model.space.velocity(x)
        step = model.step(x, np.array([700.0]), None, k)
        assert step.status, step.status.text
        x = step.x
    own, _, M = masses(robot)
    volume, _ = measured(model.equations, model.space.position(x))
    gain = (M @ (model.space.velocity(x) - v).reshape(-1, 3)).sum(axis=0) / 0.01
    np.testing.assert_allclose(gain, (own + RHO * volume) * np.array(TILTED[3]), rtol=1e-7)


def swing(fluid, dense):
    """[1/s^2] the squares of the slowest frequencies of a hard box that hangs from soft springs at its top."""
    hand = pl.Gripper(surface="top", frame=pl.actuators.MovingFrame(origin=(0.15, 0.15, 0.3)), stiffness=2e3)
    robot = bag(E=1e9, crooked=0.0, supports=(), gravity=(0.0, 0.0, -9.81), fluid=fluid, actuators={"hand": hand})
    eq = Equations(robot=robot)
    q, u = eq.body.rest, robot.neutral_controls()
    K = dense(eq.body, eq.body.stiffness(q, eq.body.fields)) + eq.terms_times(q, u, np.eye(eq.n_dofs))
    M = np.kron(eq.numbers(None).mass.toarray(), np.eye(3))
    found, modes = scipy.linalg.eigh(K, M, subset_by_index=(0, 5))
    upright = np.argmax(np.abs(modes.reshape(-1, 3, 6)[:, 2].sum(axis=0)))
    return found[upright], M.sum() / 3


def test_a_hanging_box_swings_slower_when_it_is_full(dense):
    """Up and down on a spring k: omega^2 = k / (m + rho V)."""
    (empty, m), (full, both) = swing(Pressure(cavity="cavity"), dense), swing(Hydraulic(cavity="cavity"), dense)
    assert both - m == pytest.approx(1000.0 * 0.1**3, rel=1e-12)
    assert empty == pytest.approx(2e3 * 0.3**2 / m, rel=1e-4)
    assert full == pytest.approx(2e3 * 0.3**2 / both, rel=1e-4)


# Closed air


@every
def test_closed_air_obeys_boyle(rng, dim, order):
    eq, q = shaken(rng, dim=dim, order=order, fluid=Pressure(cavity="cavity", drive="gas"))
    air, rest = eq.terms[0][0], eq.body.rest
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
    assert taylor(lambda e: eq.pull(q + e * d, u)[0], eq.pull(q, u)[1] @ d) == pytest.approx(2.0, abs=0.1)
    assert taylor(lambda e: eq.pull(q + e * d, u)[1], eq.terms_times(q, u, d)) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(eq.pull(q, u + 0.5)[1] - eq.pull(q, u)[1], 0.5 * eq.control_columns(q, u)[:, 0], rtol=1e-9, atol=1e-9)
    y, z, e = 0.1 * rng.standard_normal(q.size), 0.1 * rng.standard_normal(q.size), 1e-5
    slope = (eq.terms_times(q + e * y, u, z) - eq.terms_times(q - e * y, u, z)) / (2 * e)
    np.testing.assert_allclose(eq.terms_third(q, u, y, z), slope, atol=1e-7 * np.abs(slope).max())


def held_volume(fluid, u, load=0.0):
    """[m^3] the volume at rest under a load [Pa] on the top."""
    loads = (pl.SurfaceLoad(surface="top", traction=(0.0, 0.0, -load)),)
    model = pl.Quasistatic(bag(fluid=fluid, loads=loads, gravity=(0.0, 0.0, 0.0)))
    assert model.neutral_controls() == (1.0 if fluid.drive == "gas" else 0.0)
    return measured(model.equations, pl.equilibrium(model, np.array([u])).x)[0]


def test_a_sealed_chamber_resists_by_the_stiffness_of_air():
    """To first order: dV = dV_open / (1 + c p0 / V0) with the body's compliance c = dV/dp."""
    free, gas = Pressure(cavity="cavity"), Pressure(cavity="cavity", drive="gas")
    rest = held_volume(gas, 1.0)
    compliance = (held_volume(free, 10.0) - rest) / 10.0
    stiffer = 1.0 + compliance * ATMOSPHERE / rest
    assert stiffer > 1.5
    assert held_volume(gas, 1.0, 40.0) - rest == pytest.approx((held_volume(free, 0.0, 40.0) - rest) / stiffer, rel=5e-3)


def test_a_little_vacuum_has_a_step_too():
    """Without any gas there is no spring left, only the pressure of the air around."""
    model = pl.ImplicitEuler(bag(E=1e6, fluid=Pressure(cavity="cavity", drive="gas")), dt=0.01)
    step = model.step(model.initial_state(), np.zeros(1))
    assert step.status, step.status.text
    assert all(check.ok for check in pl.gradcheck(model, step.x, np.zeros(1)))


# What is refused


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drive": "gas"}, "'pressure' or 'volume', not by 'gas'"),
        ({"limits": (2.0, 1.0)}, "lower limit 2 .*hydraulic actuator is not below its upper limit 1"),
        ({"density": -1000.0}, "density is -1000 kg/m.3; it must be a positive"),
        ({"density": "water"}, "density is 'water'; it must be a number"),
        ({"bulk": 0.0}, "bulk modulus is 0"),
        ({"cavity": 3}, "cavity of a hydraulic actuator"),
    ],
)
def test_a_bad_hydraulic_actuator_is_refused(one_sentence, change, says):
    one_sentence(lambda: Hydraulic(**{"cavity": "cavity", **change}), says)


@pytest.mark.parametrize(
    ("cavity", "says"),
    [
        ("cavty", "Actuator 'pump'.*no surface or region 'cavty'.*[Dd]id you mean 'cavity'"),
        ("leak", "'leak' leaks: 3 edges .*with_cavities"),
        ("outside", "'outside' goes around 0.027 m\\^3 of the body, not around a void"),
    ],
)
def test_a_surface_that_is_no_cavity_is_refused(one_sentence, cavity, says):
    mesh = hollow(3)
    wall, boundary = cavities(mesh)[0], mesh.boundary()
    outside = boundary[~np.isin(boundary, np.unique(wall)).all(axis=1)]
    shape = Mesh(points=mesh.points, cells=mesh.cells, surfaces={**mesh.surfaces, "leak": wall[1:], "outside": outside})
    robot = pl.Robot(shape=shape, order=1, material=pl.Material(E=1e5, nu=0.3), actuators={"pump": Hydraulic(cavity=cavity)},
                     gravity=(0, 0, -9.81))  # fmt: skip
    one_sentence(lambda: Equations(robot=robot), says)


@pytest.mark.parametrize("other", [Hydraulic(cavity="cavity"), Pressure(cavity="cavity"), Hydraulic(cavity="same"),
                                   Continued(actuator=Pressure(cavity="cavity"))])  # fmt: skip
def test_a_cavity_holds_one_fluid(one_sentence, other):
    """By whatever name its wall goes; its weight would count twice."""
    robot = bag(actuators={"second": other})
    mesh = robot.shape
    twice = Mesh(points=mesh.points, cells=mesh.cells, surfaces={**mesh.surfaces, "same": mesh.surfaces["cavity"][::-1]})
    says = "'pump' and 'second' both fill the cavity .*one fluid; remove one"
    one_sentence(lambda: pl.Quasistatic(replace(robot, shape=twice)), says)
    two = {"pump": Pressure(cavity="cavity"), "second": Pressure(cavity="cavity", drive="gas")}
    one_sentence(lambda: pl.Quasistatic(replace(robot, actuators=two)), says)


def pierced(height, order):
    """A box with a void of 0.1 to 0.4 m, where a point of its floor stands at a height [m]."""
    mesh = Box(size=(0.5, 0.5, 0.5)).mesh(divisions=(5, 5, 5))
    cube = np.floor(mesh.points[mesh.cells].mean(axis=1) / 0.1)
    points, cells = compacted(mesh.points, mesh.cells[~((cube >= 1) & (cube <= 3)).all(axis=1)])
    points[np.isclose(points, (0.2, 0.2, 0.1)).all(axis=1)] = (0.2, 0.2, height)
    mesh = with_cavities(Mesh(points=points, cells=cells), ["cavity"])
    return mesh.quadratic() if order == 2 else mesh


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [Hydraulic, Pressure])
def test_a_cavity_that_crosses_itself_is_refused(one_sentence, kind, order):
    """A spike from the floor is well below the ceiling, and no wall of a fluid once it is through it."""
    robots = [pl.Robot(shape=pierced(height, order), order=order, material=pl.Material(E=1e5, nu=0.3),
                       actuators={"pump": kind(cavity="cavity")}, gravity=(0, 0, -9.81)) for height in (0.38, 0.43)]  # fmt: skip
    assert Equations(robot=robots[0]).terms[0][0].rest_volume > 0.02
    one_sentence(lambda: Equations(robot=robots[1]), "Actuator 'pump'.*'cavity' crosses or touches itself: facets .* meet .near .*Move")


def test_without_gravity_nothing_can_be_weighed(one_sentence):
    robot = pl.Robot(shape=hollow(3), order=1, material=pl.Material(E=1e5, nu=0.3), actuators={"pump": Hydraulic(cavity="cavity")},
                     supports=[pl.Support(region="x-")])  # fmt: skip
    one_sentence(lambda: pl.Quasistatic(robot), "Actuator 'pump'.*no gravity to weigh by; give the robot gravity")
    one_sentence(lambda: pl.Quasistatic(bag(gravity=(0.0, -9.81))), "Gravity has shape")
    floating = pl.Quasistatic(bag(gravity=(0.0, 0.0, 0.0)))  # said to be zero, it is: in space
    np.testing.assert_allclose(pl.equilibrium(floating, np.zeros(1)).x, floating.initial_state(), atol=1e-12)


def test_its_weight_holds_nothing_in_place(one_sentence):
    """A spring of volume is no support, and neither is the weight, though its force changes with the height."""
    for drive in ("pressure", "volume"):
        robot = bag(supports=(), fluid=Hydraulic(cavity="cavity", drive=drive))
        one_sentence(
            lambda robot=robot: pl.Quasistatic(robot), "nothing stops its translation along x, translation along y.*rotation about z"
        )


def test_particles_hold_no_liquid(one_sentence):
    one_sentence(lambda: pl.MaterialPoint(bag(), dt=0.01, cell=0.05), "Actuator 'pump'.*Particles has no cavities")


FILE = """
gravity = [0, 0, -9.81]
[geometry]
shape = "vessel"
radius = 0.016
wall = 0.004
length = 0.12
cap = 0.006
divisions = [6, 2, 1]
order = 1
[material]
E = 2e5
nu = 0.45
[[supports]]
region = "bottom"
[actuators.pump]
type = "hydraulic"
cavity = "cavity"
density = 1200
drive = "volume"
limits = [0.8, 1.4]
"""


def test_a_robot_file_holds_one(tmp_path, one_sentence):
    path = tmp_path / "can.toml"
    path.write_text(FILE)
    pump = pl.load_robot(path).actuators["pump"]
    assert isinstance(pump, Hydraulic)
    assert (pump.cavity, pump.drive, pump.density, pump.limits) == ("cavity", "volume", 1200.0, (0.8, 1.4))
    for old, new, says in (("gravity = [0, 0, -9.81]", "", "can.toml, actuators.pump: .*no gravity"),
                           ("1200", "-1", "can.toml, actuators.pump: .*density is -1"),
                           ('"volume"', '"gas"', "'pressure' or 'volume', not by 'gas'")):  # fmt: skip
        path.write_text(FILE.replace(old, new))
        one_sentence(lambda: pl.load_robot(path), says)
