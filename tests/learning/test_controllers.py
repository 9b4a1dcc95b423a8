"""Controllers: derivatives, shapes, and errors."""

import numpy as np
import pytest
from models import fem, mass

import pliant as pl
from pliant.core import Controller, InputError
from pliant.learning import (
    MLP,
    ClockedController,
    ClosedLoop,
    EffectorObserver,
    LinearFeedback,
    OpenLoop,
    SineGait,
    UserController,
)

RNG = np.random.default_rng(11)
STEPS = {"gains": RNG.standard_normal((5, 2, 3)), "controls": RNG.standard_normal((5, 2))}
CONTROLLERS = {
    "tanh network": MLP(
        n_inputs=3, lower=[-1.0, 0.0], upper=[2.0, 5.0], hidden=(5, 4), output_gain=1.0
    ),
    "network without hidden layers": MLP(
        n_inputs=3, lower=[-1.0, 0.0], upper=[2.0, 5.0], hidden=(), output_gain=1.0
    ),
    "relu network": MLP(
        n_inputs=3, lower=[-1.0, 0.0], upper=[2.0, 5.0], activation="relu", output_gain=1.0
    ),
    "network with a clock": ClockedController(
        controller=MLP(n_inputs=7, lower=[-1.0, 0.0], upper=[2.0, 5.0], hidden=(5,)),
        frequency=1.3,
        harmonics=2,
    ),
    "gait": SineGait(
        n_controls=2, amplitude=(0.2, 0.3), frequency=1.3, phase=(0.1, 0.7), n_inputs=3
    ),
    "feedback": LinearFeedback(gains=STEPS["gains"][0], reference=np.ones(3), controls=np.ones(2)),
    "feedback about a trajectory": LinearFeedback(reference=np.ones(3), dt=0.1, **STEPS),
    "table of controls": OpenLoop(controls=STEPS["controls"], dt=0.1, n_inputs=3),
    "user": UserController(
        n_inputs=3,
        n_controls=2,
        weights={"gain": np.array([0.3, -0.8])},
        function=lambda y, w, time: w * np.sin(y[:2] + time),
        vjp_function=lambda y, w, time, u_bar: (
            np.append(u_bar * w * np.cos(y[:2] + time), 0.0),
            u_bar * np.sin(y[:2] + time),
        ),
    ),
}
every = pytest.mark.parametrize("name", CONTROLLERS)


@every
def test_vjp_is_the_derivative(name, taylor):
    controller = CONTROLLERS[name]
    rng = np.random.default_rng(1)
    y, w, time, u_bar = rng.standard_normal(3), controller.params.flat, 0.31, np.array([0.7, -1.1])
    assert isinstance(controller, Controller)
    assert controller.control(y, w, time).shape == (2,)
    y_bar, w_bar = controller.vjp(y, w, time, u_bar)
    dy, dw = rng.standard_normal(3), rng.standard_normal(w.size)
    value = lambda e: u_bar @ controller.control(y + e * dy, w + e * dw, time)
    slope = y_bar @ dy + w_bar @ dw
    central = (value(1e-6) - value(-1e-6)) / 2e-6
    assert central == pytest.approx(slope, rel=1e-6, abs=1e-8)
    if name not in ("relu network", "table of controls"):  # a kink may be near; linear
        assert taylor(value, slope) == pytest.approx(2.0, abs=0.1)


@every
def test_weights_are_named_blocks_that_can_be_replaced(name):
    controller = CONTROLLERS[name]
    w = controller.params.flat + 0.1
    again = controller.with_weights(w)
    assert np.array_equal(again.params.flat, w)
    assert [b.name for b in again.params.blocks] == [b.name for b in controller.params.blocks]
    y = np.array([0.1, 0.2, 0.3])
    assert np.array_equal(again.control(y, w, 0.2), controller.control(y, w, 0.2))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_rows_of_a_network_do_not_depend_on_the_batch(activation):
    network = MLP(n_inputs=7, lower=-np.ones(3), upper=np.ones(3), activation=activation)
    w = network.params.flat * 3.0
    y = np.random.default_rng(0).standard_normal((33, 7))
    many = network.control_many(y, w)
    for count in (1, 2, 5, 33):
        assert np.array_equal(network.control_many(y[:count], w), many[:count])
    assert np.array_equal(network.control(y[4], w), many[4])


def test_gradient_of_a_batch_is_the_sum_of_its_rows():
    network = CONTROLLERS["tanh network"]
    rng, w = np.random.default_rng(0), network.params.flat
    y, u_bar = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    y_bar, w_bar = network.vjp_many(y, w, 0.0, u_bar)
    rows = [network.vjp(a, w, 0.0, b) for a, b in zip(y, u_bar, strict=True)]
    assert np.allclose(y_bar, [row[0] for row in rows], atol=1e-14)
    assert np.allclose(w_bar, sum(row[1] for row in rows), atol=1e-13)


def test_network_fills_the_actuator_limits_and_starts_in_their_middle():
    network = MLP.for_model(fem(), EffectorObserver(), seed=3)
    w = network.params.flat
    assert np.allclose(network.control(np.ones(4), w), 0.5, atol=0.05)
    ends = network.control_many(1e3 * np.random.default_rng(0).standard_normal((50, 4)), 200.0 * w)
    assert ends.min() >= 0.0
    assert ends.max() <= 1.0
    assert ends.min() < 1e-3
    assert ends.max() > 1.0 - 1e-3


def test_weights_depend_on_the_seed_alone():
    make = lambda seed: MLP(n_inputs=3, lower=[-1.0], upper=[1.0], seed=seed).params.flat
    assert np.array_equal(make(4), make(4))
    assert not np.array_equal(make(4), make(5))


def test_controls_without_limits_need_a_scale(raises_clear_error):
    model = pl.ImplicitEuler(mass(), dt=0.1)
    raises_clear_error(lambda: MLP.for_model(model, EffectorObserver()), "Give scale=")
    network = MLP.for_model(model, EffectorObserver(), scale=(2.0, 3.0))
    assert np.asarray(network.upper).tolist() == [2.0, 3.0]
    raises_clear_error(
        lambda: MLP.for_model(model, EffectorObserver(), scale=0.0), "give positive numbers"
    )
    raises_clear_error(
        lambda: MLP.for_model(
            model, EffectorObserver(), limits=[pl.Limit(lower=-1.0, upper=1.0, order=1)]
        ),
        "policy cannot promise",
    )


def test_bad_controllers_are_refused(raises_clear_error):
    bad = [
        (lambda: MLP(n_inputs=0, lower=[0.0], upper=[1.0]), "number of inputs"),
        (lambda: MLP(n_inputs=1, lower=[0.0], upper=[0.0]), "range of the controls"),
        (lambda: MLP(n_inputs=1, lower=[0.0], upper=[1.0], activation="gelu"), "no activation"),
        (lambda: MLP(n_inputs=1, lower=[0.0], upper=[1.0], hidden=(0,)), "neurons"),
        (lambda: MLP(n_inputs=1, lower=[0.0], upper=[1.0], weights=np.ones(3)), "shape"),
        (lambda: SineGait(n_controls=2, amplitude=(1.0, 2.0, 3.0)), "amplitude of a gait"),
        (lambda: SineGait(n_controls=2, phase=np.nan), "phase of a gait"),
        (lambda: LinearFeedback(gains=np.ones(2), reference=[0.0], controls=[0.0]), "gains"),
        (
            lambda: LinearFeedback(gains=np.ones((1, 2)), reference=[0.0], controls=[0.0]),
            "reference of a feedback have shape",
        ),
        (
            lambda: LinearFeedback(gains=np.ones((3, 1, 1)), reference=[0.0], controls=[0.0]),
            "needs its time step",
        ),
        (lambda: OpenLoop(controls=[1.0, 2.0], dt=0.1), "table of controls"),
        (lambda: OpenLoop(controls=np.zeros((0, 2)), dt=0.1), "table of controls is empty"),
        (lambda: OpenLoop(controls=[[1.0]], dt=0.0), "time step of a table"),
    ]
    for make, pattern in bad:
        raises_clear_error(make, pattern)


def test_gains_about_past_controls_are_refused(raises_clear_error):
    model = pl.ImplicitEuler(mass(), dt=0.1)
    goal = pl.Goal(effector="tip", target=(0.5, 0.2))
    smooth = [goal, pl.Effort(weight=1e-3, order=1)]
    plan = pl.plan(model, smooth, steps=5, method="ddp", progress=False)
    raises_clear_error(lambda: LinearFeedback.from_plan(plan), "gains of the plan refer to")
    plan = pl.plan(model, smooth, steps=5, method="gauss_newton", progress=False)
    raises_clear_error(lambda: LinearFeedback.from_plan(plan), "no feedback gains")


@pytest.mark.parametrize("hidden", [8, "ab", None, (10**6, 10**6), (10**15, 10**15)])
def test_bad_hidden_layers_are_refused(hidden, raises_clear_error):
    raises_clear_error(
        lambda: MLP(n_inputs=2, lower=[-1.0], upper=[1.0], hidden=hidden), "hidden layers"
    )


@pytest.mark.parametrize(
    "controller",
    [
        MLP(n_inputs=2, lower=[-1.0], upper=[1.0], hidden=(3,)),
        SineGait(n_controls=2, n_inputs=2),
        LinearFeedback(gains=[[1.0, 2.0]], reference=[0.0, 0.0], controls=[0.0]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_weights_and_observations_of_wrong_size_are_refused(controller, raises_clear_error):
    w, y = controller.params.flat, np.zeros(2)
    for bad in (w[:-1], np.append(w, 0.0), w[None]):
        raises_clear_error(lambda bad=bad: controller.control(y, bad, 0.0), "array of weights")
    if not isinstance(controller, SineGait):  # it ignores observations
        raises_clear_error(lambda: controller.control(np.zeros(3), w, 0.0), "The observation has")


def test_table_of_controls_replays_a_plan():
    model = pl.ImplicitEuler(mass(), dt=0.1)
    goal = pl.Goal(effector="tip", target=(0.5, 0.2))
    plan = pl.plan(model, [goal, pl.Effort(weight=1e-3)], steps=5, progress=False)
    table = OpenLoop.from_plan(plan)
    loop = ClosedLoop(model, None, table)
    run = pl.simulate(loop, np.zeros((5, 0)), progress=False)
    assert np.array_equal(loop.split_states(run.states)[0], plan.states)
    late = table.control(np.zeros(0), table.params.flat, 9.0)
    assert np.array_equal(late, plan.controls[-1])
    assert OpenLoop.for_model(model, 3).params.flat.tolist() == 6 * [0.0]


def test_clocked_network_is_periodic_without_feedback():
    network = MLP(n_inputs=5, lower=[0.0], upper=[1.0], output_gain=1.0)
    gait = ClockedController(controller=network, frequency=2.0, harmonics=2)
    y, w = np.zeros(1), gait.params.flat
    over = np.array([gait.control(y, w, t)[0] for t in np.linspace(0.0, 1.0, 41)])
    np.testing.assert_allclose(over[:21], over[20:], atol=1e-12)
    assert np.ptp(over) > 1e-3


def test_clock_needs_inputs_of_its_own():
    network = MLP(n_inputs=1, lower=[0.0], upper=[1.0])
    with pytest.raises(InputError, match="1 inputs, but the clock alone gives 2"):
        ClockedController(controller=network, frequency=1.0)
