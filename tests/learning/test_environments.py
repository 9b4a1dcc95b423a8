"""Environments of any model: rewards, actions, seeds, failures, saved states, pictures."""

import numpy as np
import pytest
from models import MODELS, fem, mass, reach

import pliant as pl
from pliant.core import Step
from pliant.learning import ControlTask, EffectorObserver, PartObserver

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium.utils import env_checker
from stable_baselines3.common import env_checker as sb3_checker

from pliant.learning import Env, VectorEnv

NOISY = {"spread": {"velocity": 1e-3}}


def run_episode(env, actions, seed=0):
    """Return the observations, rewards and infos of an episode."""
    seen, rewards, infos = [env.reset(seed=seed)[0]], [], []
    for action in actions:
        y, reward, terminated, truncated, info = env.step(action)
        seen.append(y)
        rewards.append(reward)
        infos.append(info)
        if terminated or truncated:
            break
    return np.array(seen), np.array(rewards), infos


@pytest.fixture(scope="module")
def model():
    return fem()


@pytest.mark.parametrize("name", MODELS)
def test_rewards_add_up_to_minus_the_objective(name):
    model, steps = MODELS[name](), 8
    task = reach(steps)
    env = Env(model, task)
    actions = np.random.default_rng(4).uniform(-1.0, 1.0, (steps, 2))
    seen, rewards, infos = run_episode(env, actions)
    controls = np.array([info["controls"] for info in infos])
    assert np.allclose(controls, 0.5 * (actions + 1.0), atol=1e-15)
    run = pl.simulate(model, controls, progress=False)
    assert np.array_equal(env.episode.x, run.states[-1])
    cost = task.problem(model).value(run.states, run.controls)
    assert rewards.sum() == pytest.approx(-cost, rel=1e-12)
    tip = [model.effector_rows("tip") @ model.space.position(x) for x in run.states]
    assert np.allclose(seen[:, :2], tip, atol=1e-14)


def test_episode_is_truncated_at_the_horizon(model, raises_clear_error):
    env = Env(model, reach(3))
    env.reset(seed=0)
    ends = [env.step(np.zeros(2))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    raises_clear_error(lambda: env.step(np.zeros(2)), "episode has ended")
    env.reset()
    assert env.step(np.zeros(2))[4]["time"] == model.dt


class FailingModel:
    """A model whose third step fails, or returns a state that is not finite."""

    def __init__(self, model, value):
        self.__dict__.update(inner=model, value=value)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    space = property(lambda self: self.inner.space)
    n_controls = property(lambda self: self.inner.n_controls)
    params = property(lambda self: self.inner.params)
    dt = property(lambda self: self.inner.dt)
    control_limits = lambda self: self.inner.control_limits()
    neutral_controls = lambda self: self.inner.neutral_controls()
    effector_rows = lambda self, name: self.inner.effector_rows(name)
    initial_state = lambda self: self.inner.initial_state()

    def step(self, x, u, p=None, k=0):
        if k < 2:
            return self.inner.step(x, u, p, k)
        status = pl.core.Status(ok=self.value is not None, text="the element is inverted")
        return Step(x if self.value is None else np.full_like(x, self.value), status)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "the element is inverted"), (np.nan, "not finite")]
)
def test_failed_step_terminates_with_its_status_and_cost(model, value, text):
    env = Env(FailingModel(model, value), reach(10, failure_cost=7.0))
    seen, rewards, infos = run_episode(env, np.zeros((10, 2)))
    assert len(rewards) == 3
    assert rewards[-1] == -7.0
    assert text in infos[-1]["status"]
    assert np.array_equal(seen[-1], seen[-2])
    assert env.reset()[0].shape == (4,)


def test_seed_determines_the_initial_state(model):
    env = Env(model, reach(3, **NOISY))
    first, again, other = (env.reset(seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(env.reset()[0], other)  # the random numbers continue
    x0 = model.initial_state()
    env.reset(options={"x0": x0})
    assert np.array_equal(env.episode.x, x0)


def test_spread_can_be_a_function_or_named_parts(model, raises_clear_error):
    lifted = lambda one, rng: one.initial_state() + 1e-3 * rng.uniform()
    env = Env(model, reach(3, spread=lifted))
    assert env.reset(seed=0)[0][1] > 0.01
    wrong = Env(model, reach(3, spread={"speed": 1.0}))
    raises_clear_error(lambda: wrong.reset(seed=0), "'speed', which is no part of the state")


def test_saved_state_continues_bit_for_bit(model):
    env, task = Env(model, reach(12, **NOISY)), reach(12, **NOISY)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2))
    env.reset(seed=5)
    for action in actions[:7]:
        env.step(action)
    saved = env.state()

    def rest(one):
        out = [one.step(action)[:2] for action in actions[7:12]]
        out.append((one.reset()[0], 0.0))  # the random numbers continue as well
        return [(y.tolist(), reward) for y, reward in out]

    expected = rest(env)
    other = Env(model, task)
    other.reset(seed=99)
    seen = other.set_state(saved)
    assert np.array_equal(seen, other.rules.observer.observe(saved.episode.x))
    assert rest(other) == expected


def test_state_of_another_model_is_refused(model, raises_clear_error):
    env = Env(model, reach(3))
    raises_clear_error(env.state, "call reset")
    env.reset(seed=0)
    point = Env(pl.ImplicitEuler(mass(), dt=0.1), reach(3), scale=1.0)
    raises_clear_error(lambda: point.set_state(env.state()), "Give a state of the same model")
    raises_clear_error(lambda: point.set_state({"x": 1}), "give what state")


def test_bad_actions_are_refused(model, raises_clear_error):
    env = Env(model, reach(3))
    raises_clear_error(lambda: env.step(np.zeros(2)), "call reset")
    env.reset(seed=0)
    raises_clear_error(lambda: env.step([0.0, np.nan]), "action is nan at entry 1")
    raises_clear_error(lambda: env.step([0.0, 1.01]), "Entry 1 of the action is 1.01.*ClipAction")
    raises_clear_error(lambda: env.step([0.0]), "shape")
    assert env.episode.step == 0  # the episode is unchanged


def test_rounded_action_is_clipped(model, raises_clear_error):
    env = Env(model, reach(3))
    env.reset(seed=0)
    info = env.step([1.0 + 2e-7, 0.0])[4]
    assert info["controls"][0] == model.control_limits()[1][0]
    raises_clear_error(lambda: env.step([1.00001, 0.0]), "is 1.00001; actions")


def test_bad_arguments_of_reset_are_refused(model, raises_clear_error):
    for env in (Env(model, reach(3)), VectorEnv(model, reach(3), count=2)):
        raises_clear_error(lambda env=env: env.reset(seed=-1), "seed is '-1'")
        raises_clear_error(lambda env=env: env.reset(seed="a"), "seed is 'a'")
        raises_clear_error(lambda env=env: env.reset(options={"zz": 1}), "no option 'zz'")
        raises_clear_error(lambda env=env: env.reset(options=3), "options of a reset")
        env.reset(seed=np.int64(3), options={})


def test_controls_without_limits_need_a_scale(raises_clear_error):
    model, task = pl.ImplicitEuler(mass(), dt=0.1), reach(3)
    raises_clear_error(lambda: Env(model, task), "Give scale=")
    env = Env(model, task, scale=3.0)
    env.reset(seed=0)
    assert env.step([1.0, -0.5])[4]["controls"].tolist() == [3.0, -1.5]
    assert np.allclose(env.rules.action([3.0, -1.5]), [1.0, -0.5])


def test_limits_of_the_task_narrow_the_actions(model):
    env = Env(model, reach(3, limits=[pl.Limit(lower=0.2, upper=0.6)]))
    env.reset(seed=0)
    assert env.step([1.0, -1.0])[4]["controls"].tolist() == [0.6, 0.2]


def test_observer_of_the_task_is_used(model):
    task = ControlTask(steps=2, terms=[pl.Effort()], observer=PartObserver(parts="velocity"))
    assert Env(model, task).reset(seed=0)[0].shape == (model.space.n_dofs,)
    tip = ControlTask(
        steps=2, terms=[pl.Effort()], observer=EffectorObserver(quantities="position")
    )
    assert Env(model, tip).observation_space.shape == (2,)


def test_picture_shows_the_motion(model, raises_clear_error):
    env = Env(model, reach(20), render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first.dtype == np.uint8
    assert first.ndim == 3
    assert first.shape[2] == 3
    for _ in range(5):
        env.step([1.0, -1.0])
    assert (env.render() != first).any()
    own = Env(model, reach(3), render_mode="rgb_array", draw=lambda m, x, u: np.full((2, 2, 3), 7))
    own.reset(seed=0)
    assert own.render().tolist() == np.full((2, 2, 3), 7).tolist()
    raises_clear_error(lambda: Env(model, reach(3), render_mode="human"), "no render mode")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_environment_of_every_model_passes_the_checkers(name):
    env = Env(MODELS[name](), reach(5), render_mode="rgb_array")
    env_checker.check_env(env)
    sb3_checker.check_env(env)


def test_model_without_controls_is_refused(raises_clear_error):
    beam = pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]]))
    raises_clear_error(
        lambda: Env(pl.ImplicitEuler(beam, dt=0.1), ControlTask(steps=2, terms=[pl.Effort()])),
        "no controls",
    )
    raises_clear_error(lambda: Env("model", reach(2)), "The model is 'model'")
    raises_clear_error(lambda: Env(fem(), "reach"), "The task is 'reach'")


def test_missing_gymnasium_is_explained():
    """Importing pliant.learning must not need gymnasium; Env says how to install it."""
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import pliant as pl\n"
        "pl.learning.ClosedLoop\n"
        "try:\n    pl.learning.Env\n"
        "except pl.core.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "pip install 'pliant[learn]'" in done.stdout, done.stderr
