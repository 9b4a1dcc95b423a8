"""Beams: closed forms, large rotations compared with integrated rods, objectivity, derivatives,
mass and viscosity."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import eigh
from scipy.optimize import brentq, root
from scipy.spatial.transform import Rotation

import pliant as pl
from pliant.actuators import Servo, Thrust
from pliant.bodies import Beams
from pliant.bodies.body import MaterialFields
from pliant.core import InputError
from pliant.dynamics.equations import Equations
from pliant.dynamics.residual import ImplicitResidual
from pliant.geometry import CircularSection, RectangularSection, Rods

E, NU, DENSITY = 2e6, 0.3, 1200.0
G = E / (2.0 * (1.0 + NU))
MATERIAL = pl.Material(E=E, nu=NU, density=DENSITY)


def line(n, section, length=1.0, along=(1.0, 0.0, 0.0)):
    tip = length * np.array(along) / np.linalg.norm(along)
    ends = {"start": [0], "end": [1]}
    return Rods(points=[np.zeros(3), tip], rods=[[0, 1]], section=section, regions=ends).refine(n)


def frame():
    """Return a branched body with two cross-sections in a general orientation."""
    points = [[0.0, 0, 0], [0.3, 0.1, 0], [0.5, 0.3, 0.2], [0.4, -0.2, 0.1], [0.7, -0.3, 0.3]]
    parts = {"arm": [0, 1], "leg": [2, 3]}
    section = {
        "arm": RectangularSection(width=0.05, height=0.03),
        "leg": CircularSection(radius=0.02, inner=0.01),
    }
    rods = Rods(points=points, rods=[[0, 1], [1, 2], [1, 3], [3, 4]], section=section, parts=parts)
    return Beams(
        rods=rods, materials={"arm": MATERIAL, "leg": pl.Material(E=1e6, nu=0.4, density=900.0)}
    )


def strained(body, rng, size=0.1):
    """Return perturbed positions (relative to the mean rod length) and rotations [rad].

    The whole body is also rotated by about one radian."""
    n, q = len(body.rods.points), body.rest.copy()
    q[: 3 * n] += size * body.cell_size() * rng.standard_normal(3 * n)
    q[3 * n :] = 2.0 * size * rng.standard_normal(3 * n)
    return moved(body, q, Rotation.from_rotvec([0.5, -0.8, 0.4]), (0.1, 0.2, 0.3))


def moved(body, q, rotation, shift=(0.0, 0.0, 0.0)):
    """Return q after a rigid motion."""
    x, theta = np.split(q.reshape(-1, 3), 2)
    return np.concatenate(
        [rotation.apply(x) + shift, (rotation * Rotation.from_rotvec(theta)).as_rotvec()]
    ).ravel()


def bent_by(body, dense, load, held=("start",)):
    """Return the linear response of a supported body to a load (n_nodes, 3) [N, N m]."""
    K = dense(body, body.stiffness(body.rest, body.fields))
    free = np.setdiff1d(
        np.arange(len(K)),
        np.concatenate([(body.region(r)[:, None] * 3 + np.arange(3)).ravel() for r in held]),
    )
    y = np.zeros(len(K))
    y[free] = np.linalg.solve(K[np.ix_(free, free)], load.ravel()[free])
    return y.reshape(-1, 3)


# Small strains


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize(
    "section",
    [RectangularSection(width=0.08, height=0.2), CircularSection(radius=0.05, inner=0.02)],
    ids=["bar", "round"],
)
def test_cantilever_matches_closed_form_in_every_direction(dense, n, section):
    """The end displacement is exact for every number of rods: P L^3 / 3 EI + P L / G A_s, P L / EA
    and T L / GJ."""
    body = Beams(rods=line(n, section), materials={"body": MATERIAL})
    end, rotation = body.region("end")
    for axis, moment, shear in (
        (1, section.moments[1], section.shear_areas[0]),
        (2, section.moments[0], section.shear_areas[1]),
    ):
        load = np.zeros((len(body.is_position), 3))
        load[end, axis] = 1.0
        assert bent_by(body, dense, load)[end, axis] == pytest.approx(
            1.0 / (3.0 * E * moment) + 1.0 / (G * shear), rel=1e-9
        )
    for node, stiffness in ((end, E * section.area), (rotation, G * section.torsion)):
        load = np.zeros((len(body.is_position), 3))
        load[node, 0] = 1.0
        assert bent_by(body, dense, load)[node, 0] == pytest.approx(1.0 / stiffness, rel=1e-9)


def test_slanted_cantilever_bends_like_axis_aligned_one(dense):
    along = np.array([1.0, 2.0, -2.0]) / 3.0
    section = RectangularSection(width=0.05, height=0.1)
    rods = line(2, section, along=along)
    body, (b, c) = Beams(rods=rods, materials={"body": MATERIAL}), rods.axes[0, 1:]
    assert c[2] > 0.7
    for side, moment, shear in (
        (b, section.moments[1], section.shear_areas[0]),
        (c, section.moments[0], section.shear_areas[1]),
    ):
        load = np.zeros((len(body.is_position), 3))
        load[1] = side
        want = 1.0 / (3.0 * E * moment) + 1.0 / (G * shear)
        np.testing.assert_allclose(bent_by(body, dense, load)[1], want * side, atol=1e-9 * want)


def test_first_frequencies_match_cantilever_theory(dense):
    section = RectangularSection(width=0.02, height=0.03)
    body = Beams(rods=line(12, section), materials={"body": MATERIAL})
    K, M = (
        dense(body, body.stiffness(body.rest, body.fields)),
        dense(body, body.mass(body.fields.density)[:, None, None] * np.eye(3)),
    )
    free = np.setdiff1d(
        np.arange(len(K)), (body.region("start")[:, None] * 3 + np.arange(3)).ravel()
    )
    omega = np.sqrt(eigh(K[np.ix_(free, free)], M[np.ix_(free, free)], eigvals_only=True))
    roots = np.array([1.8751040687, 4.6940911330])
    bending = [
        roots**2 * np.sqrt(E * moment / (DENSITY * section.area)) for moment in section.moments
    ]
    for want in np.concatenate(bending):
        assert np.abs(omega / want - 1.0).min() < 0.01
    assert omega[0] == pytest.approx(min(b[0] for b in bending), rel=0.01)
    assert np.abs(omega / (0.5 * np.pi * np.sqrt(E / DENSITY)) - 1.0).min() < 0.01  # along the rod


# Large rotations


def tip_under(rods, material, force, stages):
    robot = pl.Robot(
        shape=rods,
        material=material,
        supports=[pl.Support(region="start")],
        actuators={"pull": Thrust(point=rods.points[rods.region_points("end")[0]])},
    )
    model = pl.Quasistatic(robot)
    x = model.initial_state()
    for k in range(stages):
        step = model.step(x, np.asarray(force, float) * (k + 1) / stages)
        assert step.status, step.status.text
        x = step.x
    return x.reshape(-1, 3)[rods.region_points("end")[0]]


def test_cantilever_under_large_tip_force_matches_elastica():
    """EI t'' + P cos t = 0 with t(0) = 0 and t'(1) = 0 at P L^2 / EI = 6: the tip deflects by 0.74
    of the length."""
    section = CircularSection(radius=0.004)
    EI = E * section.moments[0]
    force = 6.0 * EI

    def shot(slope):
        return solve_ivp(
            lambda s, y: [y[1], -6.0 * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])],
            (0, 1),
            [0, slope, 0, 0],
            rtol=1e-10,
            atol=1e-12,
        )

    slope = brentq(lambda slope: shot(slope).y[1, -1], 0.5, 4.0)
    want = shot(slope).y[2:, -1]
    assert want[1] > 0.7
    tip = tip_under(line(16, section), MATERIAL, (0.0, 0.0, force), 4)
    np.testing.assert_allclose(tip[[0, 2]], want, atol=0.005)
    assert abs(tip[1]) < 1e-9


def test_end_moment_bends_cantilever_to_half_circle():
    """The nodes lie on the circle whose chords are the rods, and the energy is that of constant
    curvature, for every number of rods."""
    n, section = 8, CircularSection(radius=0.01)
    rods = line(n, section)
    motor = Servo(region="end rotations", axis=(0, -1, 0), stiffness=1e6)
    model = pl.Quasistatic(
        pl.Robot(
            shape=rods,
            material=MATERIAL,
            supports=[pl.Support(region="start")],
            actuators={"motor": motor},
        )
    )
    x = model.initial_state()
    for angle in np.linspace(0.0, np.pi, 7)[1:]:
        step = model.step(x, np.array([angle]))
        assert step.status, step.status.text
        x = step.x
    body, radius = model.robot.body(), 0.5 / n / np.sin(0.5 * np.pi / n)
    angle = np.pi * rods.points[:, 0]
    want = radius * np.stack([np.sin(angle), 0.0 * angle, 1.0 - np.cos(angle)], axis=1)
    np.testing.assert_allclose(x.reshape(-1, 3)[body.is_position], want, atol=1e-5)
    assert body.energy(x, body.fields)[0] == pytest.approx(
        0.5 * np.pi**2 * E * section.moments[0], rel=1e-4
    )


BEND = {"radius": 100.0, "E": 1e7, "force": 600.0}


def arc(n):
    angle = np.linspace(0.0, np.pi / 4, n + 1)
    points = BEND["radius"] * np.stack([1.0 - np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    return Rods(
        points=points,
        rods=np.stack([np.arange(n), np.arange(1, n + 1)], axis=1),
        section=RectangularSection(width=1.0, height=1.0),
        regions={"start": [0], "end": [n]},
    )


@pytest.fixture(scope="module")
def integrated_tip():
    """Return the tip of the bend as a Cosserat rod by a shooting method from the clamp to m = 0.

    The equations are r' = R (e + n / stiffness), R' = R [k] and m' = -r' x n."""
    section, length = RectangularSection(width=1.0, height=1.0), BEND["radius"] * np.pi / 4
    modulus, shear = BEND["E"], 0.5 * BEND["E"]
    stretch = np.array([modulus * section.area, *(shear * np.array(section.shear_areas))])
    bend = np.array(
        [shear * section.torsion, modulus * section.moments[0], modulus * section.moments[1]]
    )
    start = np.array(
        [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    )  # columns: tangent y, side -x, up z
    rest = np.array([0.0, 0.0, -1.0 / BEND["radius"]])

    def rod(force):
        def slope(s, y):
            R, m = y[3:12].reshape(3, 3), y[12:]
            along = R @ ([1.0, 0.0, 0.0] + R.T @ force / stretch)
            k = rest + R.T @ m / bend
            rotation = np.array([[0, -k[2], k[1]], [k[2], 0, -k[0]], [-k[1], k[0], 0]])
            return np.concatenate([along, (R @ rotation).ravel(), -np.cross(along, force)])

        return slope

    def shot(m, force):
        y = np.concatenate([np.zeros(3), start.ravel(), m])
        return solve_ivp(rod(force), (0.0, length), y, rtol=1e-9, atol=1e-9).y[:, -1]

    m = np.zeros(3)
    for share in (0.25, 0.5, 0.75, 1.0):
        force = np.array([0.0, 0.0, share * BEND["force"]])
        found = root(lambda m, force=force: shot(m, force)[12:] / (BEND["force"] * length), m)
        assert found.success
        m = found.x
    return shot(m, force)[:3]


@pytest.mark.filterwarnings("ignore:.*millimetres")  # the units of the literature
def test_45_degree_bend_converges_with_square_of_rod_length(integrated_tip, rate):
    material, aside = (
        pl.Material(E=BEND["E"], nu=0.0),
        np.linalg.norm(integrated_tip - arc(1).points[1]),
    )
    counts = (4, 8, 16)
    tips = [tip_under(arc(n), material, (0.0, 0.0, BEND["force"]), 6) for n in counts]
    errors = [np.linalg.norm(tip - integrated_tip) / aside for tip in tips]
    assert errors[-1] < 2e-3
    assert rate(1.0 / np.array(counts), errors) == pytest.approx(2.0, abs=0.2)
    assert (
        np.linalg.norm(tips[-1] - (15.79, 47.23, 53.37)) < 0.01 * aside
    )  # Simo and Vu-Quoc, with 8 elements


# Rigid motions


def test_rigid_motion_has_no_energy_or_force(rng):
    body = frame()
    for size in (1e-8, 0.5, 3.0, 5.9):
        axis = rng.standard_normal(3)
        theta = size * axis / np.linalg.norm(axis)
        x = Rotation.from_rotvec(theta).apply(np.array(body.rods.points)) + 0.3
        q = np.concatenate([x, np.tile(theta, (len(x), 1))]).ravel()
        energy, g = body.energy(q, body.fields)
        scale = body.fields.E.max() * body.rod_stiffness.areas.max()  # [N]
        assert energy < 1e-26 * scale + 1e-25
        assert np.abs(g).max() < 1e-13 * scale


def test_rigid_motion_of_strained_body_rotates_its_forces(rng):
    body = frame()
    q, rotation = strained(body, rng), Rotation.from_rotvec([0.3, 0.9, -0.4])
    (energy, g), (other, h) = (
        body.energy(y, body.fields) for y in (q, moved(body, q, rotation, (1.0, 2.0, 3.0)))
    )
    assert other == pytest.approx(energy, rel=1e-12)
    n = len(body.rods.points)
    np.testing.assert_allclose(
        h.reshape(-1, 3)[:n], rotation.apply(g.reshape(-1, 3)[:n]), atol=1e-11 * np.abs(g).max()
    )
    assert np.abs(g.reshape(-1, 3)[:n].sum(axis=0)).max() < 1e-12 * np.abs(g).max()


# Derivatives


def test_derivatives_by_unknowns_pass_taylor_test(rng, taylor, dense):
    body, rng = frame(), np.random.default_rng(3)
    q, d, y = strained(body, rng), *(0.1 * rng.standard_normal((2, body.rest.size)))
    f = body.fields
    g, K = body.gradient(q, f), dense(body, body.stiffness(q, f))
    np.testing.assert_array_equal(g, body.energy(q, f)[1])
    assert taylor(lambda e: body.energy(q + e * d, f)[0], g @ d) == pytest.approx(2.0, abs=0.05)
    assert taylor(lambda e: body.gradient(q + e * d, f), K @ d) == pytest.approx(2.0, abs=0.05)
    np.testing.assert_allclose(K, K.T, atol=1e-12 * np.abs(K).max())
    np.testing.assert_allclose(body.stiffness_times(q, f, d), K @ d, atol=1e-12 * np.abs(K).max())
    third = body.stiffness_derivative(q, f, d, y)
    assert taylor(lambda e: body.stiffness_times(q + e * d, f, y), third) == pytest.approx(
        2.0, abs=0.05
    )
    np.testing.assert_allclose(
        third, body.stiffness_derivative(q, f, y, d), atol=1e-11 * np.abs(third).max()
    )


def test_projected_stiffness_is_positive_and_unchanged_at_rest(rng, dense):
    body = frame()
    K = dense(body, body.stiffness(strained(body, rng, 0.3), body.fields, project=True))
    assert np.linalg.eigvalsh(K).min() > -1e-9 * np.abs(K).max()
    at_rest = [body.stiffness(body.rest, body.fields, project=project) for project in (True, False)]
    np.testing.assert_allclose(*at_rest, atol=1e-9 * np.abs(at_rest[0]).max())


def test_derivatives_by_material_pass_taylor_test(rng, taylor):
    body = frame()
    q, before, y, z = (
        strained(body, rng),
        strained(body, rng),
        *(0.1 * rng.standard_normal((2, body.rest.size))),
    )
    f, m = body.fields, len(body.volumes())
    change = MaterialFields(
        E=f.E * rng.uniform(0.5, 1.0, m),
        nu=rng.uniform(0.05, 0.1, m),
        density=np.zeros(m),
        power=f.power,
    )
    at = lambda e: MaterialFields(
        E=f.E + e * change.E, nu=f.nu + e * change.nu, density=f.density, power=f.power
    )
    viscous = lambda f: body.viscosity_of_step(f, 0.02, [100.0, -100.0], [before])
    slope = body.material_jvp(q, f, change, viscous(f))
    assert taylor(lambda e: body.energy(q, at(e), viscous(at(e)))[1], slope) == pytest.approx(
        2.0, abs=0.05
    )
    by_E, by_nu = body.material_vjp(q, f, y, viscous(f))
    assert by_E @ change.E + by_nu @ change.nu == pytest.approx(y @ slope, rel=1e-10)
    slope = body.stiffness_material_jvp(q, f, change, y)
    assert taylor(lambda e: body.stiffness_times(q, at(e), y), slope) == pytest.approx(
        2.0, abs=0.05
    )
    by_E, by_nu = body.stiffness_material_vjp(q, f, z, y)
    assert by_E @ change.E + by_nu @ change.nu == pytest.approx(z @ slope, rel=1e-10)


# Viscosity


def test_derivatives_of_viscous_force_pass_taylor_test(rng, taylor, dense):
    body, f, rates = frame(), frame().fields, [150.0, -200.0, 50.0]
    q, one, two = (strained(body, rng) for _ in range(3))
    y, d, d1, d2 = 0.1 * rng.standard_normal((4, body.rest.size))
    made = lambda e=0.0: body.viscosity_of_step(f, 0.02, rates, [one + e * d1, two + e * d2])
    g = body.energy(q, f, made())[1]
    assert taylor(lambda e: body.energy(q + e * d, f, made())[0], g @ d) == pytest.approx(
        2.0, abs=0.05
    )
    K = dense(body, body.stiffness(q, f, made()))
    assert taylor(lambda e: body.energy(q + e * d, f, made())[1], K @ d) == pytest.approx(
        2.0, abs=0.05
    )
    moduli = made().moduli
    pushed = rates[1] * body.viscous_jvp(q, one, d1, moduli) + rates[2] * body.viscous_jvp(
        q, two, d2, moduli
    )
    assert taylor(lambda e: body.energy(q, f, made(e))[1], pushed) == pytest.approx(2.0, abs=0.05)
    cells = body.cell_viscous_matrices(q, one, moduli)
    total = sum(
        y.reshape(-1, 3)[nodes].ravel() @ C @ d1.reshape(-1, 3)[nodes].ravel()
        for nodes, C in zip(body.cell_nodes, cells, strict=True)
    )
    assert total == pytest.approx(y @ body.viscous_jvp(q, one, d1, moduli), rel=1e-10)

    def pulled(e):  # y . (viscous force) by q and by both levels
        at, levels = q + e * d, (one + e * d1, two + e * d2)
        viscous = made(e)
        by_q = dense(body, body.stiffness(at, f, viscous) - body.stiffness(at, f)) @ y
        return np.concatenate(
            [
                by_q,
                *(
                    r * body.viscous_jvp(level, at, y, moduli)
                    for r, level in zip(rates[1:], levels, strict=True)
                ),
            ]
        )

    by_q, shares = body.viscous_second_derivative(q, made(), y, d, rates, [one, two], [d1, d2])
    assert taylor(pulled, np.concatenate([by_q, *shares])) == pytest.approx(2.0, abs=0.05)
    drag = lambda e: body.viscous_jvp(q + e * d, q + e * d, y, moduli)
    forward = body.viscous_derivative_jvp(q, y, d, moduli)
    assert taylor(drag, forward) == pytest.approx(2.0, abs=0.05)
    assert d1 @ forward == pytest.approx(
        d @ body.viscous_derivative_vjp(q, y, d1, moduli), rel=1e-10
    )


def test_viscosity_dissipates_energy_but_not_in_rigid_rotation(rng):
    body = frame()
    q, v = strained(body, rng), rng.standard_normal(body.rest.size)
    power = lambda q, v: (
        v
        @ body.viscous_jvp(q, q, v, body.viscosity_at_velocity(body.fields, 0.02, 1.0, q, v).moduli)
    )
    assert power(q, v) > 0.0
    spin = lambda t: moved(body, q, Rotation.from_rotvec(t * np.array([0.4, -0.7, 1.1])))
    rigid = (spin(1e-4) - spin(-1e-4)) / 2e-4
    assert power(q, rigid) < 1e-12 * power(q, v) * (rigid @ rigid) / (v @ v)
    rotated = body.viscosity_of_step(body.fields, 0.02, [100.0, -100.0], [q])
    assert body.energy(spin(0.5), body.fields, rotated)[0] == pytest.approx(
        body.energy(q, body.fields)[0], rel=1e-9
    )


def test_vibration_decays_at_rate_of_rayleigh_damping(dense):
    """The first mode of K and M decays as exp(-tau w^2 t / 2) under a viscosity of tau seconds."""
    tau = 2e-3
    robot = pl.Robot(
        shape=line(4, RectangularSection(width=0.02, height=0.03)),
        material=MATERIAL,
        supports=[pl.Support(region="start")],
        damping=pl.Damping(stiffness=tau),
    )
    body = robot.body()
    K, M = (
        dense(body, body.stiffness(body.rest, body.fields)),
        dense(body, body.mass(body.fields.density)[:, None, None] * np.eye(3)),
    )
    free = np.setdiff1d(
        np.arange(len(K)), (body.region("start")[:, None] * 3 + np.arange(3)).ravel()
    )
    squares, modes = eigh(K[np.ix_(free, free)], M[np.ix_(free, free)])
    omega, mode = np.sqrt(squares[0]), np.zeros(len(K))
    mode[free] = 1e-4 * modes[:, 0] / np.abs(modes[:, 0]).max()
    periods, steps = 2, 400
    model = pl.BDF2(robot, dt=periods * 2.0 * np.pi / omega / steps)
    decay = 0.5 * tau * omega
    swing = np.sqrt(1.0 - decay**2) * omega
    rate, curve = (
        -decay * omega,
        omega**2 * (2.0 * decay**2 - 1.0),
    )  # of exp(-decay omega t) cos(swing t) at its start
    x = model.state(body.rest + mode, rate * mode, curve * mode)
    for _ in range(steps):
        x = model.step(x, np.zeros(0)).x
    time = steps * model.dt
    left = float((model.space.position(x) - body.rest) @ M @ mode / (mode @ M @ mode))
    assert left == pytest.approx(np.exp(-decay * omega * time) * np.cos(swing * time), rel=0.02)


# Mass, positions and names


def test_mass_and_weight_match_the_rods(rng):
    body = frame()
    want = np.array([DENSITY, DENSITY, 900.0, 900.0]) @ body.volumes()
    push = np.outer(body.is_position, [1.0, 0.0, 0.0]).ravel()
    assert body.mass_vjp(push, push) @ body.fields.density == pytest.approx(want)
    equations = Equations(
        robot=pl.Robot(shape=body.rods, material=dict(body.materials), gravity=(0, 0, -9.81))
    )
    outside = equations.coefficients(None).external_force.reshape(-1, 3)
    np.testing.assert_allclose(
        outside[body.is_position].sum(axis=0), (0, 0, -9.81 * want), atol=1e-12
    )
    assert not outside[~body.is_position].any()
    assert body.node_volumes(np.arange(4)).sum() == pytest.approx(body.volumes().sum())
    spin = np.cross(
        [0.0, 0.0, 1.0], body.rods.points
    )  # about z: the inertia of the positions only, by quadrature
    inertia = (
        body.mass_vjp(*2 * [np.concatenate([spin, np.zeros_like(spin)]).ravel()])
        @ body.fields.density
    )
    t, w = np.polynomial.legendre.leggauss(2)
    ends = body.rods.points[body.rods.rods]
    at = ends[:, :1] + 0.5 * (t[:, None] + 1.0) * (ends[:, 1:] - ends[:, :1])
    masses = body.fields.density * body.volumes()
    assert inertia == pytest.approx(np.einsum("m,g,mgi->", masses, 0.5 * w, at[..., :2] ** 2))


def test_region_names_select_positions_rotations_or_both():
    body = Beams(rods=line(3, CircularSection(radius=0.01)), materials={"body": MATERIAL})
    assert body.region("end").tolist() == [1, 5]
    assert body.region("end positions").tolist() == [1]
    assert body.region("end rotations").tolist() == [5]
    assert len(body.region("body")) == 8
    assert body.is_position.tolist() == 4 * [True] + 4 * [False]
    np.testing.assert_allclose(
        (body.locate([[0.5, 0, 0]]) @ body.rest.reshape(-1, 3))[0], (0.5, 0, 0)
    )


@pytest.mark.parametrize(
    ("supports", "loose"),
    [
        ([], 6),
        ([pl.Support(region="start positions")], 3),
        ([pl.Support(region="start")], 0),
        ([pl.Support(region="start positions"), pl.Support(region="end positions")], 1),
        (
            [
                pl.Support(region="start positions"),
                pl.Support(region="end positions"),
                pl.Support(region="end rotations", axes="x"),
            ],
            0,
        ),
    ],
)
def test_free_rigid_motions_include_rotations(supports, loose):
    robot = pl.Robot(
        shape=line(2, CircularSection(radius=0.01)), material=MATERIAL, supports=supports
    )
    assert len(Equations(robot=robot).free_rigid_motions()) == loose


def test_moving_support_translates_positions_and_keeps_rotations():
    robot = pl.Robot(
        shape=line(2, CircularSection(radius=0.01)),
        material=MATERIAL,
        supports=[pl.Support(region="start", motion=lambda t: np.array([0.0, 0.1 * t, 0.0]))],
    )
    q = Equations(robot=robot).place_supports(robot.body().rest, 2.0).reshape(-1, 3)
    np.testing.assert_allclose(q[0], (0.0, 0.2, 0.0))
    assert not q[~robot.body().is_position].any()


def test_surface_strain_matches_bending_and_stretching():
    """Under a pure moment the surface strain is section radius times curvature; under tension it is
    F / EA."""
    body = Beams(rods=line(4, CircularSection(radius=0.02)), materials={"body": MATERIAL})
    angle = 0.3 * body.rods.points[:, 0]
    q = np.concatenate(
        [
            np.stack([np.sin(angle), 0 * angle, 1 - np.cos(angle)], axis=1) / 0.3,
            np.outer(angle, [0, -1, 0]),
        ]
    )
    np.testing.assert_allclose(
        body.strain(q.ravel())[body.is_position], 0.02 * 0.3, rtol=0.01, atol=1e-3
    )
    pulled = body.rest.reshape(-1, 3) * [1.01, 1, 1]
    np.testing.assert_allclose(body.strain(pulled.ravel())[body.is_position], 0.01, rtol=1e-9)
    assert not body.strain(q.ravel())[~body.is_position].any()


def test_residual_blocks_are_derivatives_of_residual(rng, taylor):
    robot = pl.Robot(
        shape=frame().rods,
        material=MATERIAL,
        damping=pl.Damping(mass=0.5, stiffness=0.02),
        gravity=(0, 0, -9.81),
        actuators={"pull": Thrust(point=(0.7, -0.3, 0.3))},
    )
    residual = ImplicitResidual(model=pl.BDF2(robot, dt=0.01))
    body, u = robot.body(), np.array([0.1, 0.2, 0.3])
    q, x = strained(body, rng), np.concatenate([strained(body, rng) for _ in range(3)])
    new, old, _ = residual.blocks(q, x, u)
    d = 0.1 * rng.standard_normal(q.size)
    slope = np.bincount(residual.new_pattern.rows, new * d[residual.new_pattern.cols], q.size)
    assert taylor(lambda e: residual.force(q + e * d, x, u)[0], slope) == pytest.approx(
        2.0, abs=0.05
    )
    for part in range(3):
        dx = np.zeros_like(x)
        dx[part * q.size : (part + 1) * q.size] = d
        slope = np.bincount(
            residual.old_pattern.rows, old[part] * d[residual.old_pattern.cols], q.size
        )
        move = lambda e, dx=dx: residual.force(q, x + e * dx, u)[0]
        np.testing.assert_allclose(
            move(1e-5) - move(-1e-5), 2e-5 * slope, atol=1e-6 * 2e-5 * np.abs(slope).max() + 1e-9
        )


def test_ground_carries_weight_of_beam():
    floor = pl.Contact(obstacle=pl.plane((0, 0, 1), height=-0.001), friction=0.3)
    robot = pl.Robot(
        shape=line(6, CircularSection(radius=0.01)),
        material=MATERIAL,
        gravity=(0, 0, -9.81),
        contacts=[floor],
        damping=pl.Damping(mass=10.0, stiffness=0.01),
    )
    model = pl.ImplicitEuler(robot, dt=0.02)
    x = model.initial_state()
    for k in range(100):
        step = model.step(x, np.zeros(0), None, k)
        assert step.status, step.status.text
        x = step.x
    contact, body = model.equations.potentials[0][0], robot.body()
    assert set(contact.weights.indices) == set(np.flatnonzero(body.is_position))
    carried = contact.normal_force(model.equations.points(contact, model.space.position(x)))
    assert carried.sum() == pytest.approx(9.81 * DENSITY * body.volumes().sum(), rel=1e-3)


def test_gripper_holds_positions_and_leaves_rotations_free():
    hand = pl.Gripper(surface="start", frame=pl.actuators.MovingFrame(origin=(0, 0, 0)))
    robot = pl.Robot(
        shape=line(2, CircularSection(radius=0.02)),
        material=MATERIAL,
        actuators={"hand": hand},
        supports=[pl.Support(region="end")],
    )
    body, model = robot.body(), pl.Quasistatic(robot)
    assert hand.attach(body).weights.indices.tolist() == body.region("start positions").tolist()
    aside = model.step(model.initial_state(), np.array([0.0, 0.0, 0.01, 0.0, 0.0, 0.0])).x.reshape(
        -1, 3
    )
    assert aside[0, 2] == pytest.approx(0.01, rel=0.01)
    assert aside[body.region("start rotations")[0], 1] == pytest.approx(
        1.5 * 0.01, rel=0.01
    )  # the slope of a cantilever at its loaded end


# Rejected states and input


def test_full_rotation_fails_and_names_the_rod():
    motor = Servo(region="start", axis=(0, 0, 1), limits=(-10.0, 10.0))
    robot = pl.Robot(
        shape=line(2, CircularSection(radius=0.05)), material=MATERIAL, actuators={"motor": motor}
    )
    model = pl.Quasistatic(robot)
    x = model.initial_state()
    for angle in np.arange(0.5, 7.0, 0.5):
        step = model.step(x, np.array([angle]))
        if not step.status:
            break
        x = step.x
    assert angle == pytest.approx(6.0)  # 0.95 of a full rotation is 5.97 rad
    assert "Rod 0 has reached its rotation limit" in step.status.text
    assert "stop before a full turn" in step.status.text
    assert robot.body().inadmissible_cell(x) is None
    over = np.concatenate([robot.body().rods.points, np.tile([0.0, 0.0, 6.1], (3, 1))]).ravel()
    assert robot.body().inadmissible_cell(over) is not None
    assert robot.body().energy(over, robot.body().fields)[0] == np.inf


def test_end_rotated_beyond_right_angle_has_infinite_energy():
    """Beyond a right angle the sines decrease again, and the energy would decrease with them."""
    body = Beams(rods=line(1, CircularSection(radius=0.05)), materials={"body": MATERIAL})
    q = body.rest.copy()
    energies = []
    for angle in (0.5, 1.0, 1.5, 1.6, 2.0):
        q[-1] = angle
        energies.append(body.energy(q, body.fields)[0])
    assert energies[0] < energies[1] < energies[2] < np.inf
    assert energies[3] == energies[4] == np.inf


def robot_of_rods(**options):
    return pl.Robot(
        **{"shape": line(2, CircularSection(radius=0.01)), "material": MATERIAL, **options}
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: robot_of_rods(cell=0.1), "has Rods, which have no cells.*refine"),
        (lambda: robot_of_rods(divisions=(3,)), "has Rods, which have no cells.*refine"),
        (
            lambda: robot_of_rods(supports=[pl.Support(region="strat")]),
            "no region 'strat'; did you mean 'start'",
        ),
        (
            lambda: robot_of_rods(effectors={"tip": pl.Effector(point=(0.5, 0.1, 0))}),
            "0.1 m away from the axis",
        ),
        (lambda: robot_of_rods(material={"leg": MATERIAL}), "no part 'leg'"),
        (lambda: robot_of_rods(material={}), "has no material"),
    ],
)
def test_bad_robot_of_rods_is_rejected(make, says, raises_clear_error):
    raises_clear_error(lambda: pl.ImplicitEuler(make(), dt=0.01), says)


def test_rods_are_rejected_where_a_solid_is_required(raises_clear_error):
    pull = {"pull": Thrust(point=(1, 0, 0), limits=(-1.0, 1.0))}
    raises_clear_error(
        lambda: pl.MaterialPoint(robot_of_rods(), dt=0.01, cell=0.01),
        "made of Rods, which have no mesh to fill with particles",
    )
    held = [pl.Support(region="start")]
    damped = robot_of_rods(actuators=pull, supports=held, damping=pl.Damping(stiffness=0.1))
    raises_clear_error(
        lambda: pl.Latent(damped, dt=0.01, cell=1.0),
        "beams with stiffness damping, which a latent model does not include",
    )
    swell = {"swell": pl.actuators.Fluidic(region="body")}
    with pytest.raises(InputError, match="A Beams has no stress"):
        pl.ImplicitEuler(robot_of_rods(actuators=swell), dt=0.01)


def test_neighbouring_rods_share_a_point():
    points = [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.2, 0.0, 0.0], [0.3, 0.0, 0.0]]
    rods = Rods(points=points, rods=[[0, 1], [1, 2], [2, 3]], section=CircularSection(radius=0.01))
    body = Beams(rods=rods, materials={"body": MATERIAL})
    np.testing.assert_array_equal(body.rest_neighbours, [[0, 1], [1, 2]])
