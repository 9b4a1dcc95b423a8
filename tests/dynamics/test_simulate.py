"""Simulation of a model over time, and equilibria."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError, StepError


def jet():
    return pl.ImplicitEuler(
        pl.Robot(
            shape=pl.PointMass(points=[[0.0, 0.0]]),
            actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        ),
        dt=0.1,
    )


def soft_arm():
    return pl.Robot(
        shape=pl.Box(size=(0.4, 0.05, 0.05)),
        divisions=(8, 1, 1),
        order=2,
        material=pl.Material(E=1e5, nu=0.4),
        supports=(pl.Support(region="x-"),),
        actuators={"hand": pl.actuators.Thrust(point=(0.4, 0.025, 0.025))},
    )


def test_simulation_equals_single_steps():
    model, controls = jet(), np.random.default_rng(0).standard_normal((5, 2))
    run = pl.simulate(model, controls, keep=True)
    x = model.initial_state()
    for k, u in enumerate(controls):
        np.testing.assert_array_equal(run.states[k], x)
        x = model.step(x, u, None, k).x
    np.testing.assert_array_equal(run.states[-1], x)
    np.testing.assert_array_equal(run.controls, controls)
    assert len(run.steps) == 5
    assert not pl.simulate(model, controls).steps


def test_policy_receives_the_state():
    model = jet()
    run = pl.simulate(
        model,
        lambda k, x: -2.0 * x[:2] - 2.0 * x[2:],
        steps=80,
        x0=model.state(np.array([1.0, -1.0])),
    )
    assert np.abs(run.states[-1]).max() < 0.01
    np.testing.assert_allclose(run.controls[3], -2.0 * run.states[3, :2] - 2.0 * run.states[3, 2:])


@pytest.mark.parametrize(
    ("controls", "options", "says"),
    [
        (np.zeros((3, 1)), {}, r"controls.* shape \(3, 1\).*2\)"),
        (np.zeros((3, 2)), {"steps": 5}, "controls for 3 steps, but steps=5"),
        (lambda k, x: np.zeros(2), {}, "number of steps is 'None'"),
        (np.zeros((0, 2)), {}, "number of steps is '0'"),
    ],
)
def test_invalid_controls_are_rejected(controls, options, says):
    with pytest.raises(InputError, match=says):
        pl.simulate(jet(), controls, **options)


def test_equilibrium_has_zero_net_force():
    model = pl.Quasistatic(soft_arm())
    u = np.array([0.0, 0.0, -0.5])
    step = pl.equilibrium(model, u)
    eq = model.equations
    g = (
        eq.body.gradient(step.x, eq.body.fields)
        + eq.external_energy_and_gradient(eq.coefficients(None), step.x, u)[1]
    )
    assert np.abs(g[eq.free]).max() < 1e-8 * 0.5
    # the reaction of the clamp is minus the load
    np.testing.assert_allclose(-g.reshape(-1, 3).sum(axis=0), u, atol=1e-8)


def test_missing_equilibrium_raises_step_error():
    model = pl.Quasistatic(soft_arm(), solver_options=pl.SolverOptions(iterations=1))
    with pytest.raises(
        StepError, match="No equilibrium was found: Newton did not converge in 1 iteration"
    ):
        pl.equilibrium(model, np.array([0.0, 0.0, -5.0]))


def test_length_driven_cable_is_shortened_in_stages_from_rest_length():
    """Stages that start at zero length would first pull four times as hard as required."""
    arm = pl.Robot(
        shape=pl.Box(size=(0.04, 0.04, 0.2)),
        divisions=(1, 1, 5),
        material=pl.Material(E=1e5, nu=0.4),
        supports=[pl.Support(region="z-")],
        actuators={
            "line": pl.Cable(
                points=[(0.0, 0.02, z) for z in (0.0, 0.1, 0.2)], drive="length", stiffness=5e4
            )
        },
    )
    model = pl.Quasistatic(
        arm, solver_options=pl.SolverOptions(iterations=14)
    )  # too few iterations for a single stage
    assert not model.step(model.initial_state(), np.array([0.8])).status
    step = pl.equilibrium(model, np.array([0.8]))
    cable = arm.actuators["line"].attach(arm.body())
    length = cable.length(cable.weights @ model.space.position(step.x).reshape(-1, 3))
    assert length == pytest.approx(0.8 * 0.2, rel=0.02)  # the cable is far stiffer than the arm


def test_pullback_equals_gradient_of_simulation():
    arm = pl.Robot(
        shape=pl.Box(size=(0.04, 0.04, 0.2)),
        divisions=(1, 1, 3),
        material=pl.Material(E=1e5, nu=0.4),
        supports=[pl.Support(region="z-")],
        actuators={"line": pl.Cable(points=[(0.0, 0.02, z) for z in (0.0, 0.1, 0.2)])},
        effectors={"tip": pl.Effector(surface="z+")},
    )
    model = pl.BDF2(arm, dt=0.02, design=["body.E"])
    u = 0.5 + 0.3 * np.sin(np.arange(6.0))[:, None]
    tip = lambda u, p=None: arm.effector_position(
        "tip", model.space.position(pl.simulate(model, u, p=p).states[-1])
    )[0]
    x_bar = np.zeros(model.space.size)
    x_bar[: model.space.n_dofs : 3] = arm.effector_weights("tip").toarray()[0]
    _, u_bar, p_bar = pl.pullback(model, pl.simulate(model, u, keep=True), x_bar)
    du = np.cos(np.arange(6.0))[:, None]
    assert np.sum(u_bar * du) == pytest.approx(
        (tip(u + 1e-4 * du) - tip(u - 1e-4 * du)) / 2e-4, rel=1e-5
    )
    assert p_bar[0] == pytest.approx(
        (tip(u, np.array([1.0001e5])) - tip(u, np.array([0.9999e5]))) / 20.0, rel=1e-5
    )


def test_pullback_accepts_gradients_by_every_state(rng):
    mass = pl.Robot(
        shape=pl.PointMass(points=[[0.3, 0.0]], mass_each=0.5),
        gravity=(0.0, -9.81),
        actuators={
            "spring": pl.Cable(points=[(0.3, 0.0)], guide=(0.0, 0.5), drive="length", stiffness=40)
        },
    )
    model = pl.BDF2(mass, dt=0.02)
    u, x0 = 0.5 + 0.1 * np.sin(np.arange(6.0))[:, None], model.initial_state()
    weights = rng.standard_normal((7, model.space.size))

    def cost(x0, u):
        return np.sum(weights * pl.simulate(model, u, x0=x0).states ** 2)

    run = pl.simulate(model, u, x0=x0, keep=True)
    x_bar, u_bar, _ = pl.pullback(model, run, 2.0 * weights * run.states)
    dx, du, e = rng.standard_normal(x0.shape), rng.standard_normal(u.shape), 1e-6
    slope = (cost(x0 + e * dx, u + e * du) - cost(x0 - e * dx, u - e * du)) / (2.0 * e)
    assert x_bar @ dx + np.sum(u_bar * du) == pytest.approx(slope, rel=1e-6)
    for wrong in (np.zeros((6, model.space.size)), np.zeros(7), "abc", None):
        with pytest.raises(InputError, match=r"x_bar.* gradient by"):
            pl.pullback(model, run, wrong)
