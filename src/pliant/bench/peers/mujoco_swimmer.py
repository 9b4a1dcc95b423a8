"""Environment steps of gymnasium's MuJoCo Swimmer: three links in a fluid with drag."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pliant.core import MissingExtra

NAME = "Swimmer-v5"


def mujoco_steps(count: int, steps: int) -> Callable[[], None]:
    """Return a function that makes `steps` steps of `count` environments in this process, with
    random actions. One environment is not wrapped in a vector."""
    gymnasium = _import_gymnasium()
    if count == 1:
        env = gymnasium.make(NAME)
        shape: tuple[int, ...] = env.action_space.shape
    else:
        env = gymnasium.make_vec(NAME, num_envs=count, vectorization_mode="sync")
        shape = env.action_space.shape
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (steps, *shape))
    env.reset(seed=0)

    def run() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if count == 1 and (terminated or truncated):
                env.reset()

    return run


def mujoco_facts() -> dict[str, Any]:
    """Return the simulated time [s] of a step and the number of its substeps."""
    env = _import_gymnasium().make(NAME).unwrapped
    return {"dt": float(env.dt), "substeps": int(env.frame_skip)}


def _import_gymnasium() -> Any:
    try:
        import gymnasium

        for name in ("mujoco", "imageio"):  # gymnasium imports them late
            import_module(name)
    except ImportError as error:
        raise MissingExtra(
            "The comparison with MuJoCo needs gymnasium and mujoco: pip install 'pliant[bench]'."
        ) from error
    return gymnasium
