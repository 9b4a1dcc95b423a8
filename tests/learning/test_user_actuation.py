"""Actuators with controls that depend on the state: steps, derivatives, loops and errors."""

import math

import numpy as np
import pytest
from models import fem, mass

import pliant as pl
from pliant.core import Batched, Linearizable, Reversible
from pliant.learning import (
    CentroidObserver,
    ClosedLoop,
    LinearFeedback,
    PartObserver,
    StrainObserver,
    UserActuation,
    UserActuator,
)

STRENGTH = 2e4  # [Pa]
FIBRES = StrainObserver(kind="axial", axis=(1.0, 0.0), rate=True)


def force_of_muscle(u, y):
    """Return the stress [Pa] of a muscle, weaker when it is not at its best length or shortens."""
    stretch = np.sqrt(1.0 + 2.0 * y[:1])
    return STRENGTH * u * np.exp(-(((stretch - 1.0) / 0.2) ** 2)) * (1.0 + np.tanh(y[1:]))


def vjp_of_muscle(u, y, bar):
    stretch, rate = np.sqrt(1.0 + 2.0 * y[0]), np.tanh(y[1])
    shape = STRENGTH * np.exp(-(((stretch - 1.0) / 0.2) ** 2))
    by_stretch = -2.0 * (stretch - 1.0) / 0.04 / stretch
    value = bar[0] * shape * u[0]
    return (
        [bar[0] * shape * (1.0 + rate)],
        [value * by_stretch * (1.0 + rate), value * (1.0 - rate**2)],
    )


MUSCLE = UserActuator(observer=FIBRES, function=force_of_muscle, limits=(0.0, 1.0))


def strip():
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
        divisions=(4, 1),
        thickness=0.02,
        order=1,
        material=pl.Material(E=1e5, nu=0.35, density=1000.0),
        supports=(pl.Support(region="x-"),),
        effectors={"tip": pl.Effector(point=(0.2, 0.01))},
        actuators={
            "cable": pl.Cable(points=[(0.0, 0.002), (0.2, 0.002)], limits=(0.0, 1.0)),
            "muscle": pl.actuators.Muscle(region="body", axis=(1.0, 0.0)),
        },
        damping=pl.Damping(mass=2.0),
    )


MODELS = {
    "FEM": lambda: pl.ImplicitEuler(strip(), dt=0.01, design=("body.E",)),
    "particles": lambda: pl.MaterialPoint(strip(), dt=0.005, cell=0.01, design=("body.E",)),
}
every = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(scope="module")
def models():
    return {kind: make() for kind, make in MODELS.items()}


@every
def test_step_uses_the_function_of_the_state(kind, models):
    inner = models[kind]
    model = UserActuation(inner, {"muscle": MUSCLE})
    u = np.array([0.3, 0.8])
    x = pl.simulate(model, np.tile(u, (3, 1)), progress=False).states[-1]
    strain, rate = FIBRES.attach(inner).observe(x)
    assert strain < -1e-3
    assert rate < -1e-2
    stress = STRENGTH * 0.8 * np.exp(-(((np.sqrt(1 + 2 * strain) - 1) / 0.2) ** 2))
    expected = np.array([0.3, stress * (1.0 + np.tanh(rate))])
    assert model.actuator_controls(x, u) == pytest.approx(expected, rel=1e-12)
    assert np.array_equal(model.step(x, u).x, inner.step(x, model.actuator_controls(x, u)).x)
    assert model.control_limits()[1].tolist() == [1.0, 1.0]


@every
def test_every_derivative_of_a_step_passes_taylors_test(kind, models):
    model = UserActuation(models[kind], {"muscle": MUSCLE})
    for ability in (Reversible, Linearizable, Batched):
        assert isinstance(model, ability) == isinstance(models[kind], ability)
    u = np.array([0.5, 0.6])
    x = pl.simulate(model, np.tile(u, (3, 1)), progress=False).states[-1]
    for check in pl.gradcheck(model, x, u):
        assert check.ok, check


@every
def test_derivative_of_the_user_equals_the_complex_step(kind, models):
    own = UserActuator(
        observer=FIBRES, function=force_of_muscle, vjp_function=vjp_of_muscle, limits=(0.0, 1.0)
    )
    u, y, bar = np.array([0.7]), np.array([-0.05, -0.4]), np.array([1.3])
    for a, b in zip(own.vjp(u, y, bar), MUSCLE.vjp(u, y, bar), strict=True):
        assert a == pytest.approx(b, rel=1e-12)
    UserActuation(models[kind], {"muscle": own})  # checks it against differences


@every
def test_gradient_of_a_closed_loop_passes_taylors_test(kind, models, taylor):
    model = UserActuation(models[kind], {"muscle": MUSCLE})
    gains = 0.2 * np.random.default_rng(0).standard_normal((2, 4))
    law = LinearFeedback(gains=gains, reference=np.zeros(4), controls=[0.5, 0.5])
    loop = ClosedLoop(model, CentroidObserver(), law)
    p = loop.params.flat
    run = pl.simulate(loop, np.zeros((8, 0)), p=p, keep=True, progress=False)
    controls = loop.split_states(run.states)[1][1:]
    assert np.all((controls > 0.0) & (controls < 1.0))
    x_bar = np.zeros(loop.space.size)
    x_bar[: loop.space.n_dofs] = np.random.default_rng(1).standard_normal(loop.space.n_dofs)
    slope = pl.pullback(loop, run, x_bar)[2]
    direction = np.random.default_rng(2).standard_normal(len(p)) * np.where(p > 1e3, 0.1 * p, 0.1)
    value = lambda e: (
        x_bar
        @ (pl.simulate(loop, np.zeros((8, 0)), p=p + e * direction, progress=False).states[-1])
    )
    assert taylor(value, slope @ direction) == pytest.approx(2.0, abs=0.1)


def test_user_actuation_works_in_batches_and_plans(models):
    """A force that depends on the velocity, u - c v, makes a point mass move as if in a fluid."""
    drag, dt = 3.0, 0.1
    inner = pl.ImplicitEuler(mass(), dt=dt)
    jet = UserActuator(
        observer=PartObserver(parts="velocity"),
        function=lambda u, v: u - drag * v,
        limits=(-9.0, 9.0),
    )
    model = UserActuation(inner, {"jet": jet})
    run = pl.simulate(model, np.tile((1.0, 0.0), (5, 1)), progress=False)
    v = 0.0
    for _ in range(5):
        v += dt * (1.0 - drag * v)
    assert run.states[-1][2:] == pytest.approx([v, 0.0])
    goal = pl.Goal(effector="tip", target=(0.5, 0.2), weight=1e3)
    plan = pl.plan(model, [goal, pl.Effort(weight=1e-4)], steps=10, progress=False)
    assert plan.states[-1][:2] == pytest.approx([0.5, 0.2], abs=1e-2)


def test_control_beyond_the_limits_of_the_actuator_is_clipped_and_loses_its_gradient():
    double = UserActuator(function=lambda u, y: 2.0 * u, limits=(0.0, 1.0))
    model = UserActuation(fem(design=()), {"upper": double})
    step = model.step(model.initial_state(), np.array([0.8, 0.2]))
    assert step.tape.free.tolist() == [False, True]
    exact = model.model.step(model.initial_state(), np.array([1.0, 0.2]))
    assert np.array_equal(step.x, exact.x)
    x_bar = np.ones(model.space.size)
    assert model.pullback(step, x_bar)[1][0] == 0.0
    inside = model.step(model.initial_state(), np.array([0.3, 0.2]))
    by_inner = model.model.pullback(inside.tape.step, x_bar)[1]
    assert model.pullback(inside, x_bar)[1] == pytest.approx(by_inner * (2.0, 1.0))


def test_bad_user_actuators_are_refused(raises_clear_error):
    model, plain = fem(design=()), UserActuator(function=lambda u, y: u)
    see = {"observer": FIBRES, "limits": (0.0, 1.0)}
    bad = [
        (lambda: UserActuator(function=3), "function of a user actuator is a int"),
        (lambda: UserActuator(function=np.sin, vjp_function="x"), "vjp_function of a user"),
        (lambda: UserActuator(function=np.sin, limits=(1.0, 0.0)), "lower limit"),
        (lambda: UserActuator(function=np.sin, limits=(0.5, 1.0)), "neutral control 0 "),
        (lambda: UserActuation(model, {}), "no user actuators"),
        (lambda: UserActuation(model, [plain]), "The mapping of actuators is"),
        (lambda: UserActuation(model, {"nose": plain}), "no actuator 'nose'"),
        (lambda: UserActuation(model, {"upper": np.sin}), "The actuator 'upper' is"),
        (lambda: UserActuation("model", {"upper": plain}), "The model is"),
        (
            lambda: UserActuation(
                model, {"upper": UserActuator(function=lambda u, y: u * np.abs(y[:1] + 0.2), **see)}
            ),
            "derivative of actuator 'upper' by complex numbers is",
        ),
        (
            lambda: UserActuation(
                model, {"upper": UserActuator(function=lambda u, y: u * math.exp(y[0]), **see)}
            ),
            "by complex numbers fails",
        ),
        (
            lambda: UserActuation(
                model,
                {
                    "upper": UserActuator(
                        function=lambda u, y: u * y[:1],
                        vjp_function=lambda u, y, bar: (bar, np.zeros(2)),
                        **see,
                    )
                },
            ),
            "correct its vjp_function",
        ),
        (
            lambda: UserActuation(
                model, {"upper": UserActuator(function=lambda u, y: np.ones(3), **see)}
            ),
            "control of a user actuator has shape",
        ),
    ]
    for make, pattern in bad:
        raises_clear_error(make, pattern)
    broken = UserActuation(
        model,
        {
            "upper": UserActuator(
                function=lambda u, y: np.sqrt(u), limits=(0.0, 1.0), vjp_function=root_vjp
            )
        },
    )
    with np.errstate(invalid="ignore"):
        raises_clear_error(
            lambda: broken.step(broken.initial_state(), np.array([-1.0, 0.0])), "must be finite"
        )


def root_vjp(u, y, bar):
    return 0.5 * bar / np.sqrt(u), np.zeros(0)
