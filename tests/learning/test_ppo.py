"""PPO improves a policy, is deterministic for a seed, and its policy is that of the controller."""

from dataclasses import replace

import numpy as np
import pytest
from point import OBSERVER, Point, go_there, loop, policy
from refinable_point import SurrogatePoint

from pliant.core import InputError
from pliant.learning import (
    MLP,
    PPO,
    ClosedLoop,
    ControlTask,
    CosineRate,
    PolicyGradient,
    SineGait,
    train,
)
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.optimisation.states import OptimiserState, check_state
from pliant.problem import Limit

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

SMALL = PPO(steps=128, environments=4, batch=32, epochs=2, threads=1)
NORMAL = PPO(steps=2048, environments=16, batch=64, rate=1e-3, noise=1.0, threads=1)


def trainer_of(closed, method=SMALL, task=None, seed=0):
    task = go_there(spread={"position": 0.3}) if task is None else task
    found = LoopEpisodes.draw(closed, task, count=method.episodes, seed=seed)
    return method.trainer(found, closed.controller.params.flat, seed)


def same(a, b):
    """Assert that two trainings have the same weights and returns, bit for bit."""
    np.testing.assert_array_equal(a.weights, b.weights)
    assert [(row.steps, row.mean_return) for row in a.history] == [
        (row.steps, row.mean_return) for row in b.history
    ]
    assert set(a.state.arrays) == set(b.state.arrays)
    for name, array in a.state.arrays.items():
        np.testing.assert_array_equal(array, b.state.arrays[name], err_msg=name)
    assert a.state.values == b.state.values


def test_ppo_improves_fivefold_and_policy_gradient_needs_a_tenth_of_its_steps():
    """Same task, same policy, same reward."""
    ppo = train(loop(), go_there(), NORMAL, iterations=15)
    assert ppo.steps == 15 * 2048
    assert -ppo.mean_return < -ppo.history[0].mean_return / 5.0
    gradient = train(loop(), go_there(), PolicyGradient(rate=0.02), iterations=60)
    assert gradient.history[0].mean_return == pytest.approx(ppo.history[0].mean_return, rel=1e-6)
    reached = [row.steps for row in gradient.history if row.mean_return >= ppo.mean_return]
    assert reached
    assert reached[0] <= ppo.steps / 10


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_exported_controller_is_the_deterministic_policy(activation):
    closed = loop(activation=activation, hidden=(12, 7), seed=5)
    trainer = trainer_of(closed)
    weights = trainer.iterate().weights
    controller = closed.with_weights(weights).controller
    y = np.random.default_rng(0).normal(0.0, 3.0, (50, 2))
    action = trainer.model.policy.predict(y, deterministic=True)[0]
    lower, upper = controller.lower, controller.upper
    expected = lower + 0.5 * (upper - lower) * (action.astype(float) + 1.0)
    found = controller.control_many(y, controller.params.flat)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found - found[0]).max() > 1e-3
    assert not np.array_equal(weights, closed.controller.params.flat)


def test_first_policy_is_the_controller():
    closed = loop(seed=3)
    first = trainer_of(closed).first()
    np.testing.assert_allclose(first.weights, closed.controller.params.flat, atol=1e-7)
    assert first.steps == 0


def test_mean_return_is_that_of_the_controller_without_noise():
    result = train(loop(), go_there(spread={"position": 0.3}), SMALL, iterations=2)
    replayed = result.replay()
    assert len(replayed) == SMALL.episodes
    assert result.mean_return == -np.mean([episode.cost for episode in replayed])


def test_noise_follows_its_schedule():
    falling = CosineRate(iterations=4, last=0.1)
    method = replace(SMALL, noise=0.5, noise_schedule=falling, rate=1e-12)  # PPO changes nothing
    trainer = trainer_of(loop(), method)
    for k in range(6):
        trainer.iterate()
        noise = trainer.model.policy.log_std.exp().detach().numpy()
        np.testing.assert_allclose(noise, 0.5 * falling(k), rtol=1e-5)


def test_two_runs_with_a_seed_are_bit_identical():
    task = go_there(spread={"position": 0.3})
    first, second = (train(loop(), task, SMALL, iterations=3, seed=7) for _ in range(2))
    same(first, second)
    other = train(loop(), task, SMALL, iterations=3, seed=8)
    assert not np.array_equal(first.weights, other.weights)


def test_number_of_threads_changes_no_bit():
    threads = torch.get_num_threads()
    task = go_there(spread={"position": 0.3})
    first = train(loop(), task, SMALL, iterations=2)
    torch.set_num_threads(2)
    try:
        second = train(loop(), task, replace(SMALL, threads=3), iterations=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    same(first, second)


def test_random_numbers_of_the_caller_are_left_alone():
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    train(loop(), go_there(), SMALL, iterations=1)
    after = np.random.get_state()[1], torch.get_rng_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_seeds_that_share_exact_evaluations_do_not_change_each_other(tmp_path):
    """Both orders of two seeds on one store give the results of each seed alone."""
    task = go_there(spread={"position": 0.3, "velocity": 0.3})

    def run(name, seed):
        with SurrogatePoint.on_store(tmp_path / name, namespace=f"seed-{seed}") as model:
            result = train(loop(model), task, SMALL, iterations=2, seed=seed)
            return result, model.computed

    alone = {seed: run(f"alone-{seed}", seed) for seed in (0, 1)}
    for order in ((0, 1), (1, 0)):
        together = {seed: run(f"shared-{order}", seed) for seed in order}
        for seed in order:
            same(together[seed][0], alone[seed][0])
        assert together[order[1]][1] < alone[order[1]][1]  # evaluations are shared


def test_resumed_training_is_bit_identical(tmp_path):
    task = go_there(spread={"position": 0.3})
    whole = train(loop(), task, SMALL, iterations=4)
    train(loop(), task, SMALL, iterations=2, folder=tmp_path)
    resumed = train(loop(), task, SMALL, iterations=4, folder=tmp_path, resume=True)
    same(whole, resumed)
    assert resumed.history[2].seconds <= resumed.history[3].seconds


def test_episodes_in_progress_are_resumed(tmp_path):
    """An iteration of 32 steps for each environment ends inside episodes of 50 steps."""
    assert SMALL.steps // SMALL.environments == 32
    train(loop(), go_there(), SMALL, iterations=1, folder=tmp_path)
    counts = train(
        loop(), go_there(), SMALL, iterations=1, folder=tmp_path, resume=True
    ).state.arrays["episode_counts"]
    np.testing.assert_array_equal(counts[:, 0], 32)


CRAFTED = {
    "log_std": ({"policy.log_std": np.full(1, 3e38, np.float32)}, {}, "finite"),
    "huge value function": ({"policy.value_net.weight": 3e38}, {}, "finite"),
    "random numbers of torch": ({"random_torch": 255}, {}, "random numbers"),
    "random numbers of NumPy": ({"random_numpy": -1}, {}, "random numbers"),
    "position of NumPy": ({}, {"random_position": 10**6}, "random numbers"),
    "negative squares": ({"exp_avg_sq.value_net.bias": -1.0}, {}, "negative"),
    "episode beyond its end": ({"episode_counts": 51}, {}, "invalid lengths"),
    "states of an episode": ({"episode_states": np.zeros((4, 9, 2))}, {}, "episode_states"),
    "updates": ({}, {"updates": 1.5}, "updates"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_state_is_refused(name, raises_clear_error):
    arrays, values, pattern = CRAFTED[name]
    trainer = trainer_of(loop())
    trainer.iterate()
    state = trainer.state()
    changed = {
        key: value if isinstance(value, np.ndarray) else np.full_like(state.arrays[key], value)
        for key, value in arrays.items()
    }
    bad = OptimiserState(arrays={**state.arrays, **changed}, values={**state.values, **values})

    def restore():
        check_state(bad, trainer.state(), "The checkpoint", "train again")
        trainer.restore(bad)

    raises_clear_error(restore, pattern)


def test_failed_steps_end_episodes_and_are_counted():
    near = loop(Point(wall=0.4))
    result = train(near, go_there(failure_cost=10.0), replace(SMALL, noise=2.0), iterations=2)
    assert np.all(np.isfinite(result.weights))


def test_narrower_limits_of_the_task_bound_the_actions():
    tight = [Limit(lower=-0.5, upper=0.25)]
    task = ControlTask(steps=20, terms=go_there().terms, limits=tight)
    closed = ClosedLoop(Point(), OBSERVER, policy(limits=tight))
    result = train(closed, task, SMALL, iterations=1)
    run = result.replay()[0]
    assert -0.5 <= run.controls.min() <= run.controls.max() <= 0.25


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (lambda: PPO(steps=0), "steps"),
        (lambda: PPO(steps=100, environments=3), "multiple"),
        (lambda: PPO(steps=64, environments=4, batch=48), "multiple"),
        (lambda: PPO(batch=1), "2 steps"),
        (lambda: PPO(rate=-1.0), "rate"),
        (lambda: PPO(noise=0.0), "noise"),
        (lambda: PPO(noise_schedule=0.5), "noise schedule"),
        (lambda: PPO(discount=1.5), "discount"),
        (lambda: PPO(trace=np.nan), "trace"),
        (
            lambda: train(
                ClosedLoop(Point(), None, SineGait(n_controls=1)), go_there(), SMALL, iterations=1
            ),
            "PPO trains an MLP",
        ),
        (
            lambda: train(
                ClosedLoop(Point(), OBSERVER, MLP(n_inputs=2, lower=[-3.0], upper=[3.0])),
                go_there(),
                SMALL,
                iterations=1,
            ),
            "beyond the limits",
        ),
    ],
)
def test_invalid_argument_is_named(make, pattern, raises_clear_error):
    raises_clear_error(make, pattern)


def test_interrupt_keeps_the_best_weights():
    def stop(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    result = train(loop(), go_there(), SMALL, iterations=9, progress=stop)
    assert result.interrupted
    assert len(result.history) == 3
    assert isinstance(result.controller, MLP)


def test_unknown_method_argument_is_refused():
    with pytest.raises(InputError, match="no training method"):
        train(loop(), go_there(), "pqo")


def test_bad_counts_are_refused(raises_clear_error):
    for name in ("steps", "environments", "batch", "epochs"):
        raises_clear_error(lambda name=name: PPO(**{name: 0}), f"PPO has {name}='0'; give a whole")
