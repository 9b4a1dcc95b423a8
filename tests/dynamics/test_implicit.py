"""Implicit stepping: free fall, momentum, energy, damping, prescribed motion and both solvers."""

import numpy as np
import pytest
import scipy.linalg

import pliant as pl
from pliant import linalg
from pliant.contact import Friction
from pliant.core import InputError

G = 9.81
RULES = [pl.ImplicitEuler, pl.BDF2, pl.SemiImplicit]
every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])


def beam(**parts):
    options = {
        "divisions": (6, 1),
        "order": 2,
        "thickness": 0.05,
        "supports": (pl.Support(region="x-"),),
        **parts,
    }
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.3, 0.05)),
        material=pl.Material(E=1e5, nu=0.3, law=options.pop("law", "neo-hookean")),
        **options,
    )


def lowest_mode(model, dense):
    """Return the lowest angular frequency [1/s] and its mode shape (n_dofs,) about the rest shape.

    The largest entry of the mode is 1."""
    eq = model.equations
    numbers, body = eq.coefficients(None), eq.body
    K = dense(body, body.stiffness(body.rest, numbers.fields))[np.ix_(eq.free, eq.free)]
    M = dense(body, body.mass(numbers.fields.density)[:, None, None] * np.eye(body.dim))[
        np.ix_(eq.free, eq.free)
    ]
    values, vectors = scipy.linalg.eigh(K, M, subset_by_index=[0, 0])
    shape = np.zeros(eq.n_dofs)
    shape[eq.free] = vectors[:, 0] / np.abs(vectors).max()
    return np.sqrt(values[0]), shape


# Free fall


@every_rule
def test_free_fall_matches_closed_form(rule):
    """Backward Euler ends at g h^2 n (n + 1) / 2; BDF2 is exact for a parabola from its default
    start."""
    v0, h, n = np.array([1.0, 2.0]), 0.05, 12
    model = rule(
        pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=3.0), gravity=(0.0, -G)), dt=h
    )
    end = pl.simulate(model, np.zeros((n, 0)), x0=model.state(np.zeros(2), v0)).states[-1]
    t = n * h
    drop = G * t**2 / 2 if rule is pl.BDF2 else G * h**2 * n * (n + 1) / 2
    np.testing.assert_allclose(model.space.position(end), v0 * t - [0.0, drop], atol=1e-12)
    np.testing.assert_allclose(model.space.velocity(end), v0 - [0.0, G * t], atol=1e-11)


def jet(**kwargs):
    return pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]]),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        **kwargs,
    )


def test_bdf2_is_exact_under_constant_thrust_if_started_with_first_control():
    """The default start, under neutral controls, leaves an error of first order."""
    h, n, u0 = 0.05, 12, np.array([1.0, 0.0])
    model = pl.BDF2(jet(), dt=h)
    u = np.tile(u0, (n, 1))
    run = pl.simulate(model, u, x0=model.initial_state(controls=u0))
    exact = 0.5 * (n * h) ** 2
    assert run.states[-1][0] == pytest.approx(exact, rel=1e-10)
    assert abs(pl.simulate(model, u).states[-1][0] - exact) > 0.01 * exact


def test_bdf2_warns_if_it_starts_without_acceleration():
    """One iteration of Newton's method does not suffice for a soft beam under gravity."""
    soft = beam(gravity=(0.0, -1e4))
    model = pl.BDF2(soft, dt=0.1, solver_options=pl.SolverOptions(iterations=1))
    with pytest.warns(UserWarning, match=r"BDF2 starts .* without acceleration"):
        x = model.initial_state()
    np.testing.assert_array_equal(x, np.tile(model.equations.body.rest, 3))


@every_rule
def test_soft_body_in_free_fall_stays_undeformed(rule):
    model = rule(beam(supports=(), gravity=(0.0, -G)), dt=0.02)
    rest = model.equations.body.rest
    end = pl.simulate(model, np.zeros((5, 0))).states[-1]
    moved = (model.space.position(end) - rest).reshape(-1, 2)
    drop = G * 0.1**2 / 2 if rule is pl.BDF2 else G * 0.02**2 * 15
    np.testing.assert_allclose(moved, np.tile([0.0, -drop], (len(moved), 1)), atol=1e-9 * drop)


# Momentum


@every_rule
@pytest.mark.parametrize("order", [1, 2])
def test_momentum_changes_by_gravity_and_contact_only(rule, order):
    """A block hits the ground: momentum balances in each step to 1e-6 of M g h.

    The contact gives the force of the ground."""
    contact = pl.Contact(
        obstacle=pl.plane((0.1, 0.0, 1.0)), stiffness=1e6, layer=1e-3, friction=0.4, slip_speed=0.01
    )
    robot = pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1), origin=(0.0, 0.0, 0.005)),
        divisions=(2, 2, 2),
        order=order,
        gravity=(0, 0, -G),
        material=pl.Material(E=2e5, nu=0.3),
        contacts=(contact,),
        damping=pl.Damping(stiffness=0.002),
    )
    h, mass = 0.005, 1.0
    model = rule(robot, dt=h)
    eq, touched = model.equations, 0
    numbers, (term, _) = eq.coefficients(None), eq.potentials[0]
    drag, total = (
        Friction(contact=term),
        lambda y: eq.mass_times(numbers, y).reshape(-1, 3).sum(axis=0),
    )
    at = lambda y: term.weights @ y.reshape(-1, 3)
    x = model.state(eq.body.rest, np.tile([0.5, 0.2, -1.0], eq.n_dofs // 3))
    for _ in range(12):
        new = model.step(x, np.zeros(0))
        assert new.status, new.status.text
        q, q_new, w = (
            model.space.position(x),
            model.space.position(new.x),
            model.space.velocity(new.x),
        )
        if rule is pl.SemiImplicit:  # its forces are linear about the step's start
            bent = np.einsum("nij,nj->ni", term.hessian(at(q), None), at(h * w))
            rub = np.einsum("nij,nj->ni", drag.viscosity(at(q), at(model.space.velocity(x))), at(w))
            ground = -(term.gradient(at(q), None) + bent + rub).sum(axis=0)
        else:
            ground = -(term.gradient(at(q_new), None) + drag.gradient(at(q_new), at(q), h)).sum(
                axis=0
            )
        if rule is pl.BDF2:
            previous, before = model.space.split(x).previous, model.space.split(x).before
            change = total(2 * q_new - 5 * q + 4 * previous - before) / h
        else:
            change = total(w) - total(model.space.velocity(x))
        np.testing.assert_allclose(
            change, h * (mass * np.array([0, 0, -G]) + ground), atol=1e-6 * mass * G * h
        )
        touched += np.linalg.norm(ground) > mass * G
        x = new.x
    assert touched >= 3


# Energy and damping


@pytest.mark.parametrize("law", ["neo-hookean", "fixed-corotated"])
def test_backward_euler_never_gains_energy(law):
    model = pl.ImplicitEuler(beam(law=law, supports=()), dt=0.01)
    eq = model.equations
    numbers, body = eq.coefficients(None), eq.body
    bent = body.rest.reshape(-1, 2).copy()
    bent[:, 1] += 1.5 * (bent[:, 0] - 0.15) ** 2
    run = pl.simulate(model, np.zeros((60, 0)), x0=model.state(bent.ravel()))
    energy = [
        body.energy(model.space.position(x), numbers.fields)[0]
        + 0.5 * model.space.velocity(x) @ eq.mass_times(numbers, model.space.velocity(x))
        for x in run.states
    ]
    assert np.all(np.diff(energy) <= 1e-9 * energy[0])
    assert 0.0 <= energy[-1] < 0.9 * energy[0]


@pytest.mark.parametrize(("mass", "stiffness"), [(0.0, 0.0), (4.0, 0.0), (0.0, 0.01), (2.0, 0.005)])
def test_mode_decays_with_rayleigh_damping(dense, rate, mass, stiffness):
    """z'' + (alpha + beta w^2) z' + w^2 z = 0: BDF2 converges to the closed form with second
    order."""
    damping = pl.Damping(mass=mass, stiffness=stiffness)
    model = pl.BDF2(beam(divisions=(4, 1), damping=damping), dt=1.0)
    omega, shape = lowest_mode(model, dense)
    eq, rest, size = model.equations, model.equations.body.rest, 1e-4
    weight = eq.mass_times(eq.coefficients(None), shape)
    c, period = 0.5 * (mass + stiffness * omega**2), 2 * np.pi / omega
    frequency = np.sqrt(omega**2 - c**2)
    errors, counts = [], np.array([50, 100, 200])
    for n in counts:
        t = np.arange(n + 1) * period / n
        exact = np.exp(-c * t) * (np.cos(frequency * t) + c / frequency * np.sin(frequency * t))
        model = pl.BDF2(beam(divisions=(4, 1), damping=damping), dt=period / n)
        run = pl.simulate(
            model,
            np.zeros((n, 0)),
            x0=model.state(rest + size * shape, None, -(omega**2) * size * shape),
        )
        amplitude = (run.states[:, : eq.n_dofs] - rest) @ weight / (size * shape @ weight)
        errors.append(np.abs(amplitude - exact).max())
    # (w h)^2 = 0.001 per radian, over one period of 2 pi.
    assert errors[-1] < 0.01
    assert rate(period / counts, errors) == pytest.approx(2.0, abs=0.25)


def spun(rule, stiffness, dt=0.01):
    """Return positions and relative angular momentum of a free body after one second of rotation.

    The initial angular velocity is 0.5 rad/s."""
    model = rule(
        beam(supports=(), divisions=(3, 1), damping=pl.Damping(stiffness=stiffness)), dt=dt
    )
    x = model.equations.body.rest.reshape(-1, 2) - [0.15, 0.025]
    history = (-0.25 * x.ravel(),) if rule is pl.BDF2 else ()
    start = model.state(
        model.equations.body.rest, 0.5 * np.column_stack([-x[:, 1], x[:, 0]]).ravel(), *history
    )
    end = pl.simulate(model, np.zeros((round(1.0 / dt), 0)), x0=start).states[-1]

    def momentum(state):
        p = model.equations.mass_times(
            model.equations.coefficients(None), model.space.velocity(state)
        ).reshape(-1, 2)
        at = model.space.position(state).reshape(-1, 2) - [0.15, 0.025]
        return np.sum(at[:, 0] * p[:, 1] - at[:, 1] * p[:, 0])

    return model.space.position(end), momentum(end) / momentum(start)


@pytest.mark.parametrize("rule", [pl.ImplicitEuler, pl.BDF2])
def test_stiffness_damping_does_not_slow_a_spinning_body(rule):
    free, damped = spun(rule, 0.0), spun(rule, 0.1)
    # The spin stretches the body by rho w^2 L^2 / E = 2e-5; only changes of this strain are damped.
    np.testing.assert_allclose(damped[0], free[0], atol=1e-5)
    assert damped[1] == pytest.approx(free[1], abs=1e-5)
    assert free[1] == pytest.approx(1.0, abs=0.005)  # w h / 2 per radian for backward Euler


def test_spin_loss_by_linearised_damping_is_second_order_in_the_step(rate):
    steps = np.array([0.02, 0.01, 0.005])
    assert rate(steps, [1.0 - spun(pl.SemiImplicit, 0.1, dt)[1] for dt in steps]) == pytest.approx(
        2.0, abs=0.25
    )


# Supports


@every_rule
def test_moving_support_follows_its_motion(rule):
    motion = lambda t: np.array([0.02 * np.sin(9 * t), 0.05 * t])
    model = rule(
        beam(supports=(pl.Support(region="x-", motion=motion), pl.Support(region="x+", axes="y"))),
        dt=0.01,
    )
    body, x = model.equations.body, model.initial_state()
    left, right, rest = body.region("x-"), body.region("x+"), body.rest.reshape(-1, 2)
    for k in range(5):
        step = model.step(x, np.zeros(0), None, k)
        assert step.status
        q = model.space.position(step.x).reshape(-1, 2)
        np.testing.assert_allclose(
            q[left] - rest[left], np.tile(motion(0.01 * (k + 1)), (len(left), 1)), atol=1e-16
        )
        np.testing.assert_allclose(q[right, 1], rest[right, 1], atol=1e-16)
        x = step.x
    later = model.step(x, np.zeros(0), None, 9)
    place = model.space.position(later.x).reshape(-1, 2)[left] - rest[left]
    np.testing.assert_allclose(
        place, np.tile(motion(0.1), (len(left), 1)), atol=1e-16
    )  # k is the clock


def test_quasistatic_body_follows_its_support_rigidly():
    model = pl.Quasistatic(
        beam(
            supports=(pl.Support(region="x-", motion=lambda t: np.array([0.002 * t, -0.004 * t])),)
        )
    )
    step = model.step(model.initial_state(), np.zeros(0), None, 2)  # at three steps of one second
    moved = (step.x - model.initial_state()).reshape(-1, 2)
    np.testing.assert_allclose(moved, np.tile([0.006, -0.012], (len(moved), 1)), atol=1e-10)


# Solvers


@pytest.mark.skipif("cholmod" not in linalg.available_solvers(), reason="cvxopt is not installed")
@every_rule
def test_both_solvers_give_the_same_trajectory(rule):
    robot = beam(
        gravity=(0.0, -G),
        actuators={
            "line": pl.Cable(points=[[0.01, 0.04], [0.29, 0.04]], drive="length", stiffness=50.0)
        },
    )
    runs = [
        pl.simulate(rule(robot, dt=0.01, solver=solver), np.full((10, 1), 0.9)).states
        for solver in ("multifrontal", "cholmod")
    ]
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-9 * np.abs(runs[0]).max())


# Rejected input


@pytest.mark.parametrize(
    ("x", "u", "says"),
    [
        (lambda m: m.initial_state(), [1.0], r"control.* shape \(1,\)"),
        (lambda m: m.initial_state()[:-1], [], "state.* shape"),
        (lambda m: m.initial_state() * np.nan, [], "state.* nan.* 0"),
    ],
)
@every_rule
def test_invalid_state_or_control_is_rejected(rule, x, u, says):
    model = rule(beam(), dt=0.01)
    with pytest.raises(InputError, match=says):
        model.step(x(model), np.array(u))


@every_rule
@pytest.mark.parametrize("dt", [0.0, -1.0, np.nan])
def test_bad_time_step_is_rejected(rule, dt):
    with pytest.raises(InputError, match="time step dt"):
        rule(beam(), dt=dt)


def test_nan_control_is_rejected():
    model = pl.ImplicitEuler(
        beam(actuators={"hand": pl.actuators.Thrust(point=(0.3, 0.025))}), dt=0.01
    )
    with pytest.raises(InputError, match=r"control.* nan.* 1"):
        model.step(model.initial_state(), np.array([0.0, np.nan]))
