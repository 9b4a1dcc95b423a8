"""Vector environments: equal to single environments bit for bit, for any number of threads."""

import numpy as np
import pytest
from models import fem, latent, mass, particles, reach, strip

import pliant as pl
from pliant.core import StepBatch

pytest.importorskip("gymnasium")

from pliant.learning import Env, VectorEnv

COUNT, STEPS = 6, 7


def cholmod():
    pytest.importorskip("cvxopt")
    return pl.ImplicitEuler(strip(), dt=0.02, solver="cholmod")


class BatchedMass:
    """A point mass that steps a batch. The control of row i acts with the step index k."""

    def __init__(self):
        self.inner = pl.ImplicitEuler(mass(), dt=0.1)
        self.batches = []

    space = property(lambda self: self.inner.space)
    n_controls = property(lambda self: 2)
    params = property(lambda self: self.inner.params)
    dt = property(lambda self: self.inner.dt)
    robot = property(lambda self: self.inner.robot)
    control_limits = lambda self: (-np.ones(2), np.ones(2))
    neutral_controls = lambda self: np.zeros(2)
    effector_rows = lambda self, name: self.inner.effector_rows(name)
    initial_state = lambda self: self.inner.initial_state()

    def step(self, x, u, p=None, k=0):
        return self.inner.step(x, u * (1 + k), p, k)

    def step_many(self, x, u, p=None, k=0):
        self.batches.append((k, len(x)))
        steps = [self.step(row, control, p, k) for row, control in zip(x, u, strict=True)]
        return StepBatch(x=np.array([s.x for s in steps]), statuses=tuple(s.status for s in steps))


MODELS = {
    "FEM": fem,
    "FEM with CHOLMOD": cholmod,
    "quasistatic": lambda: pl.Quasistatic(strip()),
    "semi-implicit": lambda: pl.SemiImplicit(strip(), dt=0.02),
    "particles": particles,
    "latent": latent,
    "batched": BatchedMass,
}


def task_for(model, steps=STEPS):
    if "velocity" in model.space.parts:
        return reach(steps, spread={"velocity": 1e-3})
    if any(model.space.rate):
        return reach(steps)
    from pliant.learning import ControlTask

    return ControlTask(steps=steps, terms=[pl.Goal(effector="tip", target=(0.19, 0.02))])


def rollout(env, actions):
    """Return all observations, rewards and ends of some steps, as nested lists."""
    out = [env.reset(seed=3)[0].tolist()]
    for action in actions:
        *found, info = env.step(action)
        out += [part.tolist() for part in found] + [list(info["status"])]
    return out


@pytest.mark.parametrize("name", MODELS)
def test_threads_give_the_bits_of_single_environments(name):
    """More steps than an episode has, so episodes start again."""
    actions = np.random.default_rng(1).uniform(-1.0, 1.0, (STEPS + 3, COUNT, 2))
    found = []
    for threads in (1, 2, 5):
        model = MODELS[name]()
        env = VectorEnv(model, task_for(model), COUNT, threads)
        found.append(rollout(env, actions))
        env.close()
    assert found[0] == found[1] == found[2]
    # the basis of a surrogate depends on the order of the first visits, to its tolerance
    for i in (0, COUNT - 1) if name != "latent" else ():
        model = MODELS[name]()
        env = Env(model, task_for(model))
        assert env.reset(seed=3 + i)[0].tolist() == found[0][0][i]
        for k in range(STEPS + 3):
            y, reward, terminated, truncated, _ = env.step(actions[k, i])
            ended = terminated or truncated
            y = env.reset()[0] if ended else y
            row = found[0][1 + 5 * k : 6 + 5 * k]
            assert [row[0][i], row[1][i], row[3][i]] == [y.tolist(), reward, truncated]


def test_many_threads_on_one_fem_model_give_the_serial_bits():
    """A stress test of shared factors, caches and compiled loops, also while steps are derived."""
    from concurrent.futures import ThreadPoolExecutor

    model = cholmod() if pl.linalg.available_solvers()[-1] == "cholmod" else fem()
    rng = np.random.default_rng(0)
    inputs = [
        (x, u)
        for x, u in zip(
            model.initial_state() + 1e-4 * rng.standard_normal((60, model.space.size)),
            rng.uniform(0.0, 1.0, (60, 2)),
            strict=True,
        )
    ]

    def work(pair):
        step = model.step(*pair)
        return step.x, *model.pullback(step, np.ones(model.space.size))

    serial = [work(pair) for pair in inputs]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(work, inputs))
    for one, other in zip(serial, threaded, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_batched_model_steps_all_episodes_at_once():
    model = BatchedMass()
    env = VectorEnv(model, task_for(model, steps=3), 4)
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros((4, 2)))
    assert model.batches == [(0, 4), (1, 4), (2, 4), (0, 4)]


def test_ended_episode_starts_again_and_keeps_its_last_observation():
    model = fem()
    env = VectorEnv(model, task_for(model, steps=2), 3, 1)
    first = env.reset(seed=0)[0]
    env.step(np.zeros((3, 2)))
    seen, _, terminated, truncated, info = env.step(np.zeros((3, 2)))
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    assert not np.array_equal(info["final_obs"][0], seen[0])
    assert seen.shape == first.shape
    assert not np.array_equal(seen, first)  # new random initial states
    assert info["final_info"]["time"].tolist() == 3 * [2 * model.dt]
    assert "final_obs" not in env.step(np.zeros((3, 2)))[4]


def test_failed_episode_alone_starts_again():
    model = BatchedMass()
    step = model.step

    def failing(x, u, p=None, k=0):
        found = step(x, u, p, k)
        bad = pl.core.Status(ok=False, text="too strong")
        return pl.core.Step(found.x, bad) if u[0] > 0.9 else found

    model.step = failing
    env = VectorEnv(model, reach(5, failure_cost=2.0), 3, 1)
    env.reset(seed=0)
    actions = np.zeros((3, 2))
    actions[1, 0] = 1.0
    _, rewards, terminated, _, info = env.step(actions)
    assert terminated.tolist() == [False, True, False]
    assert rewards[1] == -2.0
    assert info["status"][1] == info["final_info"]["status"][1] == "too strong"
    assert info["_final_obs"].tolist() == [False, True, False]
    assert [one.episode.step for one in env.state()] == [1, 0, 1]
    env.step(np.zeros((3, 2)))
    assert sorted(model.batches[1:]) == [(0, 1), (1, 2)]


def test_saved_state_continues_bit_for_bit():
    model = fem()
    task = task_for(model, steps=4)
    actions = np.random.default_rng(2).uniform(-1.0, 1.0, (9, 3, 2))
    env = VectorEnv(model, task, 3, 2)
    env.reset(seed=0)
    for action in actions[:3]:
        env.step(action)
    saved = env.state()
    expected = [env.step(action)[0].tolist() for action in actions[3:]]
    other = VectorEnv(model, task, 3, 1)
    other.set_state(saved)
    assert [other.step(action)[0].tolist() for action in actions[3:]] == expected


def test_bad_arguments_are_refused(raises_clear_error):
    model = fem()
    raises_clear_error(lambda: VectorEnv(model, reach(2), 0), "number of episodes")
    raises_clear_error(lambda: VectorEnv(model, reach(2), 2, 0), "number of threads")
    env = VectorEnv(model, reach(2), 2)
    raises_clear_error(lambda: env.step(np.zeros((2, 2))), "call reset")
    raises_clear_error(lambda: env.reset(seed=[1, 2, 3]), "3 seeds for 2")
    env.reset(seed=0)
    raises_clear_error(lambda: env.step(np.zeros((3, 2))), "give one row for each")
    raises_clear_error(lambda: env.step(np.full((2, 2), np.nan)), "action is nan")
    raises_clear_error(lambda: env.set_state(env.state()[:1]), "1 state for 2")
