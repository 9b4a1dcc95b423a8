"""Controllers and observers with memory: derivatives, loops, trainings and errors."""

import numpy as np
import pytest
from models import fem, reach
from point import Point, go_there

import pliant as pl
from pliant.core import ControllerWithMemory, ObserverWithMemory
from pliant.learning import (
    PPO,
    ClosedLoop,
    ControlTask,
    EffectorObserver,
    PartObserver,
    PhaseOscillators,
    PolicyGradient,
    RecurrentNetwork,
    ScaledObserver,
    SineGait,
    StackedObserver,
    attach_observer,
    train,
)
from pliant.learning.loop_episodes import LoopEpisodes

RNG = np.random.default_rng(4)
RECURRENT = RecurrentNetwork(n_inputs=3, lower=[-1.0, 0.0], upper=[2.0, 5.0], n_memory=4)
CONTROLLERS = {
    "recurrent": RECURRENT.with_weights(RNG.standard_normal(RECURRENT.params.size)),
    "oscillators": PhaseOscillators(
        n_controls=2,
        dt=0.1,
        amplitude=(0.3, 0.5),
        frequency=(1.0, 1.5),
        phase=(0.1, 2.0),
        offset=0.2,
        coupling=3.0,
        gains=RNG.standard_normal((2, 3)),
    ),
}


class Lowpass:
    """An observer of the first two entries of the state and their low-pass filtered squares."""

    size = 4
    initial_memory = np.zeros(2)

    def observe_and_store(self, x, memory):
        after = 0.8 * memory + 0.2 * x[:2] ** 2
        return np.concatenate([x[:2], after]), after

    def memory_vjp(self, x, memory, y_bar, memory_bar):
        after_bar = y_bar[2:] + memory_bar
        x_bar = np.zeros(len(x))
        x_bar[:2] = y_bar[:2] + 0.4 * x[:2] * after_bar
        return x_bar, 0.8 * after_bar


SEEN = ScaledObserver(
    observer=StackedObserver(observers=[EffectorObserver(effectors="tip"), Lowpass()]), scale=0.1
)


def recurrent_loop(model, observer):
    network = RecurrentNetwork.for_model(model, observer, n_memory=5, seed=2)
    noise = np.random.default_rng(0).standard_normal(network.params.size)
    return ClosedLoop(model, observer, network.with_weights(network.params.flat + 0.3 * noise))


@pytest.mark.parametrize("name", CONTROLLERS)
def test_vjp_is_the_derivative(name, taylor):
    controller = CONTROLLERS[name]
    assert isinstance(controller, ControllerWithMemory)
    rng, w = np.random.default_rng(1), controller.params.flat
    n = len(controller.initial_memory)
    y, memory, u_bar, m_bar = (rng.standard_normal(k) for k in (3, n, 2, n))
    dy, dm, dw = (rng.standard_normal(k) for k in (3, n, len(w)))
    bars = controller.memory_vjp(y, memory, w, 0.3, u_bar, m_bar)

    def value(e):
        u, after = controller.control_and_store(y + e * dy, memory + e * dm, w + e * dw, 0.3)
        return u_bar @ u + m_bar @ after

    slope = sum(bar @ d for bar, d in zip(bars, (dy, dm, dw), strict=True))
    assert (value(1e-6) - value(-1e-6)) / 2e-6 == pytest.approx(slope, rel=1e-6)
    assert taylor(value, slope) == pytest.approx(2.0, abs=0.1)
    again = controller.with_weights(w + 0.1)
    assert np.allclose(again.params.flat, w + 0.1, atol=0.0)


def test_gradient_of_an_episode_through_the_memory_passes_taylors_test(taylor):
    loop, task = recurrent_loop(fem(design=()), SEEN), reach(steps=12)
    assert loop.space.parts[-2:] == ("controls", "memory")
    assert loop.space.sizes[-1] == 7
    episodes = LoopEpisodes.draw(loop, task, count=1, seed=0)
    w = loop.controller.params.flat
    found, slope = episodes.gradient(w, tapes=12)
    assert not found.failed
    assert np.array_equal(slope, episodes.gradient(w, tapes=3)[1])  # steps are simulated twice
    direction = np.random.default_rng(4).standard_normal(len(w))
    cost = lambda e: episodes.performance(w + e * direction).cost
    assert taylor(cost, slope @ direction) == pytest.approx(2.0, abs=0.1)


def test_every_derivative_of_a_step_passes_taylors_test():
    loop = recurrent_loop(fem(), SEEN)
    x = pl.simulate(loop, np.zeros((3, 0)), progress=False).states[-1]
    checks = pl.gradcheck(loop, x, np.zeros(0), k=3)
    assert {"memory", "controller.memory.weights"} <= {check.name for check in checks}
    for check in checks:
        assert check.ok, check


def test_oscillators_without_coupling_are_a_gait():
    options = {"amplitude": (0.2, 0.3), "frequency": (1.0, 1.3), "phase": (0.4, 1.5), "offset": 0.5}
    model = fem(design=())
    runs = [
        pl.simulate(ClosedLoop(model, None, controller), np.zeros((9, 0)), progress=False).states
        for controller in (
            SineGait(n_controls=2, **options),
            PhaseOscillators(n_controls=2, dt=model.dt, **options),
        )
    ]
    assert np.allclose(runs[0], runs[1][:, : runs[0].shape[1]], atol=1e-12)


def test_coupled_oscillators_reach_a_common_phase():
    wave = PhaseOscillators(n_controls=2, dt=0.01, frequency=1.0, coupling=4.0)
    memory = np.array([0.0, 1.0])
    for _ in range(1000):
        _, memory = wave.control_and_store(np.zeros(0), memory, wave.params.flat, 0.0)
    assert memory[1] - memory[0] == pytest.approx(0.0, abs=1e-6)


def test_batch_of_loops_equals_single_loops_bit_for_bit():
    loop = recurrent_loop(Point(), StackedObserver(observers=[PartObserver(), Lowpass()]))
    x = np.random.default_rng(2).standard_normal((5, loop.space.size))
    batch = loop.step_many(x, np.zeros((5, 0)), None, 2)
    for row, found in zip(x, batch.x, strict=True):
        assert np.array_equal(loop.step(row, np.zeros(0), None, 2).x, found)


def test_training_improves_and_resumes_a_network_with_memory(tmp_path):
    loop, task, method = recurrent_loop(Point(), PartObserver()), go_there(20), PolicyGradient()
    whole = train(loop, task, method, iterations=6)
    assert whole.mean_return > whole.history[0].mean_return
    train(loop, task, method, iterations=3, folder=tmp_path)
    resumed = train(loop, task, method, iterations=6, folder=tmp_path, resume=True)
    assert np.array_equal(resumed.weights, whole.weights)


def test_memory_is_refused_where_it_cannot_be_kept(raises_clear_error):
    model = fem(design=())
    assert isinstance(Lowpass(), ObserverWithMemory)
    for observer in (Lowpass(), SEEN):
        raises_clear_error(lambda o=observer: attach_observer(o, model), "has a memory")
    task = ControlTask(steps=5, terms=[pl.Effort()], observer=Lowpass())
    raises_clear_error(lambda: task.observer_of(model), "has a memory")
    loop = recurrent_loop(Point(), PartObserver())
    pytest.importorskip("stable_baselines3")
    raises_clear_error(lambda: train(loop, go_there(5), PPO(), iterations=1), "MLP")


def test_bad_controllers_are_refused(raises_clear_error):
    ends = {"lower": [0.0], "upper": [1.0]}
    bad = [
        (lambda: RecurrentNetwork(n_inputs=-1, **ends), "number of inputs"),
        (lambda: RecurrentNetwork(n_inputs=1, n_memory=0, **ends), "number of stored numbers"),
        (lambda: RecurrentNetwork(n_inputs=1, lower=[1.0], upper=[1.0]), "range of the controls"),
        (lambda: RecurrentNetwork(n_inputs=1, weights=np.ones(2), **ends), "shape"),
        (lambda: PhaseOscillators(n_controls=0, dt=0.1), "number of controls"),
        (lambda: PhaseOscillators(n_controls=1, dt=-0.1), "time step of the oscillators"),
        (lambda: PhaseOscillators(n_controls=2, dt=0.1, gains=np.ones(3)), "gains of the osc"),
        (lambda: PhaseOscillators(n_controls=1, dt=0.1, coupling=np.inf), "coupling of the osc"),
        (lambda: PhaseOscillators(n_controls=2, dt=0.1, phase=(1.0,)), "phase of the osc"),
    ]
    for make, pattern in bad:
        raises_clear_error(make, pattern)
    network = RECURRENT
    raises_clear_error(
        lambda: network.control_and_store(np.zeros(2), np.zeros(4), network.params.flat, 0.0),
        "observation has shape",
    )
