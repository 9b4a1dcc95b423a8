"""Every registered environment follows the interfaces of gymnasium and stable-baselines3."""

import subprocess
import sys

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium.utils import env_checker
from stable_baselines3.common import env_checker as sb3_checker

from pliant.gymnasium import NAMES
from pliant.learning import control_range
from pliant.zoo.environments import TASKS, model_and_task

# few surface points, so that exact evaluations take milliseconds
SETTINGS = {"pliant/Swimmer-v0": {"points": 60, "cell": 0.8, "steps": 60}}
every = pytest.mark.parametrize("name", NAMES)


def test_every_name_has_a_task():
    assert sorted(TASKS) == sorted(NAMES)


@every
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_environment_passes_both_checkers(name):
    env = gymnasium.make(name, render_mode="rgb_array", **SETTINGS.get(name, {}))
    env_checker.check_env(env.unwrapped)
    sb3_checker.check_env(env.unwrapped)


@every
def test_episode_of_random_actions_has_the_return_of_planning(name):
    env = gymnasium.make(name, **SETTINGS.get(name, {}))
    assert env.spec.id == name
    seen, _ = env.reset(seed=0)
    task = env.unwrapped.task
    states, controls, total = [env.unwrapped.episode.x], [], 0.0
    env.action_space.seed(0)
    for _ in range(task.steps):
        seen, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert not terminated, info["status"]
        assert np.isfinite(seen).all()
        assert np.abs(seen).max() < 30.0  # the observation is scaled
        states.append(env.unwrapped.episode.x)
        controls.append(info["controls"])
        total += reward
    assert truncated
    cost = task.problem(env.unwrapped.model).value(np.array(states), np.array(controls))
    assert total == pytest.approx(-cost, rel=1e-9)


@every
def test_plan_is_better_than_random_controls(name):
    """The task is worth learning."""
    model, task = model_and_task(name, **{**SETTINGS.get(name, {}), "steps": 20})
    lower, upper = control_range(model)
    share = np.random.default_rng(0).uniform(0.3, 0.7, (20, len(lower)))
    plan = pl.plan(
        task.problem(model),
        method="gradient",
        guess=lower + share * (upper - lower),
        options=pl.Options(iterations=4),
        progress=False,
    )
    costs = [row.cost for row in plan.history]
    assert costs[-1] < costs[0] - 0.05 * abs(costs[0])


@every
def test_vector_environment_equals_single_environments(name):
    """Two steps; the tests of VectorEnv run whole episodes. The single environments have the same
    model, because an adaptive grid depends on the order in which its cells were first used."""
    many = gymnasium.make_vec(name, num_envs=2, threads=2, **SETTINGS.get(name, {}))
    first, _ = many.reset(seed=5)
    actions = np.full((2, *many.single_action_space.shape), 0.3)
    second, rewards, *_ = many.step(actions)
    for i in range(2):
        env = pl.learning.Env(many.unwrapped.model, many.unwrapped.task)
        assert np.array_equal(env.reset(seed=5 + i)[0], first[i])
        seen, reward, *_ = env.step(actions[i])
        assert np.array_equal(seen, second[i])
        assert reward == rewards[i]
    many.close()


@pytest.mark.parametrize(
    "code",
    [
        "env = gymnasium.make('pliant.gymnasium:pliant/Finger-v0')",
        "import pliant; env = gymnasium.make('pliant/Finger-v0')",
        "import pliant.gymnasium; env = gymnasium.make('pliant/Finger-v0')",
    ],
)
def test_gymnasium_makes_an_environment_in_a_new_process(code):
    """The registration itself loads no robots and no compiled loops."""
    light = "import sys, gymnasium, pliant; assert 'numba' not in sys.modules; "
    lines = f"import gymnasium; {code}; print(env.reset(seed=0)[0].shape)"
    for script in (light + "assert 'pliant/Arm-v0' in gymnasium.registry", lines):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
    assert "(6,)" in done.stdout


def test_unknown_environment_is_named():
    with pytest.raises(InputError, match="did you mean 'pliant/Finger-v0'"):
        model_and_task("pliant/Fingr-v0")
