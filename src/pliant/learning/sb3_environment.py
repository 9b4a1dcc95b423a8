"""VectorEnv as an environment of stable-baselines3, with scaled rewards."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pliant.core import Array


@dataclass(kw_only=True, eq=False)
class RewardScale:
    """Divides rewards by the standard deviation of their discounted sums so far.

    The value function of PPO learns badly if returns are far from 1 in size.
    """

    discount: float
    sums: Array  # (b,) the discounted sums of the running episodes
    mean: float = 0.0
    variance: float = 0.0
    count: int = 0

    def scaled(self, rewards: Array, ended: Array) -> Array:
        """Return the scaled rewards (b,) of a step and add them to the statistics."""
        self.sums = self.discount * self.sums + rewards
        self._add(self.sums)
        self.sums = np.where(ended, 0.0, self.sums)
        return rewards / (np.sqrt(self.variance) or 1.0)

    def _add(self, values: Array) -> None:
        """Update mean and variance (Chan, Golub and LeVeque 1983)."""
        n, total = len(values), self.count + len(values)
        shift = float(values.mean()) - self.mean
        self.variance = (
            self.variance * self.count + float(values.var()) * n + shift**2 * self.count * n / total
        ) / total
        self.mean += shift * n / total
        self.count = total


@cache
def _adapter_class() -> type[Any]:
    from stable_baselines3.common.vec_env import VecEnv

    class Sb3VectorEnv(VecEnv):
        """A VectorEnv with the interface of stable-baselines3."""

        def __init__(self, env: Any, scale: RewardScale) -> None:
            self.env, self.scale, self._actions = env, scale, np.zeros(0)
            super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

        def reset(self) -> Array:
            seeds = None if self._seeds[0] is None else list(self._seeds)
            self._reset_seeds()
            return self.env.reset(seed=seeds)[0]

        def step_async(self, actions: Array) -> None:
            self._actions = actions

        def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
            seen, rewards, terminated, truncated, info = self.env.step(self._actions)
            ended = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            for i in np.flatnonzero(ended):
                infos[i] = {
                    "terminal_observation": info["final_obs"][i],
                    "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                }
            # float32 as in the buffer of stable-baselines3, which adds to them
            return seen, self.scale.scaled(rewards, ended).astype(np.float32), ended, infos

        def close(self) -> None:
            self.env.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            # stable-baselines3 asks for the render mode, which a vector environment need not have
            value = getattr(self.env, attr_name, *([None] if attr_name == "render_mode" else []))
            return [value] * len(list(self._get_indices(indices)))

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise AttributeError(f"{attr_name} of the environment cannot be changed")

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kw: Any) -> Any:
            raise AttributeError(f"the environment has no method {method_name}")

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * len(list(self._get_indices(indices)))

    return Sb3VectorEnv


def sb3_environment(env: Any, scale: RewardScale) -> Any:
    """Return a VectorEnv as a VecEnv of stable-baselines3, which must be installed."""
    return _adapter_class()(env, scale)
