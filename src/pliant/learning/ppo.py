"""Proximal policy optimisation by stable-baselines3, for every model (Schulman et al. 2017).

The policy network has the layers of the controller, an `MLP`, so its weights can be exchanged with
it. Their rounding is that of torch, float32.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from pliant.core import (
    Array,
    InputError,
    MissingExtra,
    counted,
    is_integer,
    quoted,
    require_number,
    require_positive,
)
from pliant.learning.environment_state import environment_arrays, restore_environment
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.learning.mlp import MLP
from pliant.learning.sb3_environment import RewardScale, sb3_environment
from pliant.learning.tasks import ControlTask
from pliant.learning.trainers import Candidate
from pliant.optimisation.states import OptimiserState
from pliant.problem import Limit


@final
@dataclass(frozen=True, kw_only=True)
class PPO:
    """Training by proximal policy optimisation of stable-baselines3.

    Parameters
    ----------
    steps : environment steps of an iteration
    environments : number of episodes that run at once
    batch : steps of a minibatch
    epochs : passes over the steps of an iteration
    rate : learning rate of Adam
    discount : of rewards, per step
    trace : lambda of the generalised advantage estimate
    clip : largest relative change of the probability of an action that is rewarded
    noise : first standard deviation of the actions, which are between -1 and 1
    noise_schedule : function of the iteration, counted from 0, a factor on `noise` that replaces
        the learned standard deviation when an iteration begins, such as CosineRate(iterations=10).
        On a surrogate, large noise is best in the first iterations, whose cells are coarse.
    value_hidden : hidden layers of the value function; None for those of the controller
    episodes : number of episodes that measure the return, if the task has a spread
    threads : of the environments; None for all

    The results depend on the seed alone, not on the number of threads. Raises InputError for values
    outside their ranges.

    >>> from pliant.learning import PPO
    >>> method = PPO(steps=2048, environments=8)
    """

    steps: int = 16_384
    environments: int = 16
    batch: int = 256
    epochs: int = 10
    rate: float = 3e-4
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    noise: float = 0.5
    noise_schedule: Callable[[int], float] | None = None
    value_hidden: Sequence[int] | None = None
    episodes: int = 8
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "environments", "batch", "epochs"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise InputError(f"PPO has {name}={quoted(value)}; give a whole number, 1 or more.")
        if self.steps % self.environments or self.batch < 2 or self.steps % self.batch:
            raise InputError(
                f"PPO has {self.steps} steps, {counted(self.environments, 'environment')} and a "
                f"batch of {self.batch}; the steps must be a multiple of both, and a batch has 2 "
                "steps or more."
            )
        for name in ("rate", "clip", "noise"):
            require_positive(f"The {name} of PPO", getattr(self, name), "")
        if self.noise_schedule is not None and not callable(self.noise_schedule):
            raise InputError(
                f"The noise schedule of PPO is {quoted(self.noise_schedule)}; give a function of "
                "the iteration, such as CosineRate(iterations=10)."
            )
        for name in ("discount", "trace"):
            if not 0.0 < require_number(f"The {name} of PPO", getattr(self, name), "") <= 1.0:
                raise InputError(
                    f"The {name} of PPO is {getattr(self, name):g}; give a number between 0 and 1."
                )

    @property
    def name(self) -> str:
        return "ppo"

    def trainer(self, episodes: LoopEpisodes, weights: Array, seed: int) -> "PpoTrainer":
        """Return the trainer. Raises InputError if the controller is no MLP or has another range
        than the task, MissingExtra without stable-baselines3."""
        controller = episodes.loop.controller
        if not isinstance(controller, MLP):
            raise InputError(
                f"PPO trains an MLP, not a {type(controller).__name__}; give an MLP, or "
                "method='gradient'."
            )
        return PpoTrainer(
            method=self, episodes=episodes, seed=seed, controller=controller
        ).prepared(weights)


@dataclass(kw_only=True, eq=False)
class PpoTrainer:
    """A running PPO: networks, optimiser, environments and random numbers."""

    method: PPO
    episodes: LoopEpisodes
    seed: int
    controller: MLP

    def prepared(self, weights: Array) -> "PpoTrainer":
        """Build the networks with the weights (controller.params.size,) of the controller."""
        torch, sb3 = _packages()
        self.torch, method, mlp = torch, self.method, self.controller
        self.scale = RewardScale(discount=method.discount, sums=np.zeros(method.environments))
        self.env = vector_environment(self.episodes, mlp, method)
        self._random: dict[str, Any] = _random_state(torch)
        self.iteration = 0
        with self._own_random_numbers():
            self.model = sb3.PPO(
                "MlpPolicy",
                sb3_environment(self.env, self.scale),
                learning_rate=method.rate,
                n_steps=method.steps // method.environments,
                batch_size=method.batch,
                n_epochs=method.epochs,
                gamma=method.discount,
                gae_lambda=method.trace,
                clip_range=method.clip,
                seed=self.seed,
                device="cpu",
                policy_kwargs={
                    "net_arch": {
                        "pi": list(mlp.hidden),
                        "vf": list(method.value_hidden or mlp.hidden),
                    },
                    "activation_fn": torch.nn.Tanh if mlp.activation == "tanh" else torch.nn.ReLU,
                    "log_std_init": float(np.log(method.noise)),
                },
            )
            policy = self.model.policy
            # the mean action ends in tanh as the controller does
            policy.action_net = torch.nn.Sequential(policy.action_net, torch.nn.Tanh())
            set_policy_weights(policy, mlp, weights)
            # resets the environments, and makes the logger and the callback of a run
            self._callback = self.model._setup_learn(method.steps, None)[1]
        return self

    def first(self) -> Candidate:
        """Return the weights before training."""
        return self._candidate()

    def iterate(self) -> Candidate:
        """Collect steps with noise, improve the networks, and measure them without noise."""
        model = self.model
        self._schedule_noise()
        with self._own_random_numbers():
            model.collect_rollouts(model.env, self._callback, model.rollout_buffer, model.n_steps)
            model.train()
        self.iteration += 1
        return self._candidate()

    def _schedule_noise(self) -> None:
        """Set the standard deviation of the actions to that of the schedule."""
        method = self.method
        if method.noise_schedule is not None:
            noise = method.noise * float(method.noise_schedule(self.iteration))
            require_positive("The scheduled noise of PPO", noise, "")
            with self.torch.no_grad():
                self.model.policy.log_std.fill_(float(np.log(noise)))

    def _candidate(self) -> Candidate:
        weights = policy_weights(self.model.policy, self.controller)
        return Candidate(
            weights=weights,
            performance=self.episodes.performance(weights),
            steps=self.iteration * self.method.steps,
        )

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Use the random numbers of this trainer, and one thread of torch, whose sums depend on
        their number. The random numbers of the caller stay as they are."""
        torch = self.torch
        outside, threads = _random_state(torch), torch.get_num_threads()
        torch.set_num_threads(1)
        _set_random_state(torch, self._random)
        try:
            yield
        finally:
            self._random = _random_state(torch)
            _set_random_state(torch, outside)
            torch.set_num_threads(threads)

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all that the next iteration depends on."""
        model, numbers = self.model, self._random["numpy"]
        policy = {
            f"policy.{name}": _numpy(part) for name, part in model.policy.state_dict().items()
        }
        arrays = {
            **policy,
            **self._adam_arrays(),
            **environment_arrays(self.env),
            "reward_sums": self.scale.sums.copy(),
            "starts": np.asarray(model._last_episode_starts, np.uint8).copy(),
            "random_torch": self._random["torch"].numpy().copy(),
            "random_numpy": numbers[1].astype(np.int64),
        }
        values: dict[str, int | float] = {
            "iteration": self.iteration,
            "updates": self._adam_updates(),
            "reward_mean": self.scale.mean,
            "reward_variance": self.scale.variance,
            "reward_count": self.scale.count,
            "random_position": int(numbers[2]),
            "random_has_normal": int(numbers[3]),
            "random_normal": float(numbers[4]),
        }
        return OptimiserState(arrays=arrays, values=values)

    def restore(self, state: OptimiserState) -> None:
        """Continue from a state with arrays of the same shapes. Raises InputError for a state that
        no training has."""
        arrays, values, torch = state.arrays, state.values, self.torch
        policy = {
            name: torch.tensor(arrays[f"policy.{name}"]) for name in self.model.policy.state_dict()
        }
        self.model.policy.load_state_dict(policy)
        self._restore_adam(arrays, int(values["updates"]))
        self.model._last_obs = restore_environment(self.env, arrays)
        self.model._last_episode_starts = arrays["starts"].astype(bool)
        self.scale.sums = arrays["reward_sums"].copy()
        self.scale.mean = float(values["reward_mean"])
        self.scale.variance = float(values["reward_variance"])
        self.scale.count = int(values["reward_count"])
        self.iteration = int(values["iteration"])
        self._restore_random(arrays, values)
        self._check_outputs()

    def _check_outputs(self) -> None:
        """Raise InputError unless the networks return finite numbers for the observations."""
        torch, policy = self.torch, self.model.policy
        with torch.no_grad():
            seen = torch.tensor(np.asarray(self.model._last_obs), dtype=torch.float32)
            hidden = policy.mlp_extractor.forward_actor(seen)
            found = [policy.action_net(hidden), policy.predict_values(seen), policy.log_std.exp()]
        if not all(bool(torch.isfinite(part).all()) for part in found):
            raise InputError(
                "The networks in the checkpoint do not return finite numbers. Restore it from a "
                "copy, or train again."
            )

    def _restore_random(self, arrays: Any, values: Any) -> None:
        torch, numbers = self.torch, arrays["random_numpy"]
        position, state = int(values["random_position"]), torch.tensor(arrays["random_torch"])
        good = numbers.min() >= 0 and numbers.max() < 2**32 and position <= 624
        try:
            torch.Generator().set_state(state)
        except RuntimeError:
            good = False
        if not good:
            raise InputError(
                "The random numbers in the checkpoint are invalid. Restore it from a copy, or "
                "train again."
            )
        self._random["torch"] = state
        self._random["numpy"] = (
            "MT19937",
            numbers.astype(np.uint32),
            position,
            int(values["random_has_normal"]) & 1,
            float(values["random_normal"]),
        )

    def _adam_updates(self) -> int:
        states = list(self.model.policy.optimizer.state.values())
        return int(states[0]["step"].item()) if states else 0

    def _adam_arrays(self) -> dict[str, Array]:
        """Return the moments of Adam by the names of the parameters; zero before the first step."""
        optimiser, out = self.model.policy.optimizer, {}
        for name, parameter in self.model.policy.named_parameters():
            moments = optimiser.state.get(parameter, {})
            for kind in ("exp_avg", "exp_avg_sq"):
                value = _numpy(moments[kind]) if moments else np.zeros(parameter.shape, np.float32)
                out[f"{kind}.{name}"] = value
        return out

    def _restore_adam(self, arrays: Any, updates: int) -> None:
        torch, policy = self.torch, self.model.policy
        if any(np.any(arrays[name] < 0.0) for name in arrays if name.startswith("exp_avg_sq.")):
            raise InputError(
                "The saved squares of the gradient are negative. Restore the checkpoint from a "
                "copy, or train again."
            )
        policy.optimizer.state.clear()
        for name, parameter in policy.named_parameters() if updates else ():
            policy.optimizer.state[parameter] = {
                "step": torch.tensor(float(updates)),
                **{
                    kind: torch.tensor(arrays[f"{kind}.{name}"])
                    for kind in ("exp_avg", "exp_avg_sq")
                },
            }


def _packages() -> tuple[Any, Any]:
    """Return torch and stable_baselines3. Raises MissingExtra if one is missing."""
    try:
        import stable_baselines3
        import torch
    except ImportError as error:
        raise MissingExtra(
            "PPO needs torch and stable-baselines3: pip install 'pliant[learn]'."
        ) from error
    return torch, stable_baselines3


def _numpy(tensor: Any) -> Array:
    return tensor.detach().cpu().numpy().copy()


def _random_state(torch: Any) -> dict[str, Any]:
    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),  # noqa: NPY002  # stable-baselines3 uses it
        "python": random.getstate(),
    }


def _set_random_state(torch: Any, state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    random.setstate(state["python"])


def vector_environment(episodes: LoopEpisodes, controller: MLP, method: PPO) -> Any:
    """Return the VectorEnv of a loop and a task, whose actions fill the range of the controller."""
    from pliant.learning.vector_environment import VectorEnv  # it needs gymnasium

    loop, task = episodes.loop, episodes.task
    inside = Limit(lower=controller.lower, upper=controller.upper)
    observer: Any = loop.observer  # one with memory is refused by the environment
    seen: ControlTask = replace(task, observer=observer, limits=[*task.limits, inside])
    env = VectorEnv(loop.model, seen, method.environments, method.threads)
    lower, upper = env.rules.range
    if not (np.array_equal(lower, controller.lower) and np.array_equal(upper, controller.upper)):
        raise InputError(
            "The controller gives controls beyond the limits of the actuators or of the task. Make "
            "it with MLP.for_model(model, observer, limits=task.limits)."
        )
    return env


def _linear_layers(policy: Any) -> list[Any]:
    """Return the linear layers of the policy network, from the observation to the action."""
    hidden = [part for part in policy.mlp_extractor.policy_net if hasattr(part, "weight")]
    return [*hidden, policy.action_net[0]]


def policy_weights(policy: Any, controller: MLP) -> Array:
    """Return the weights (params.size,) of the policy network in the layout of the controller."""
    weights = np.zeros(controller.params.size)
    for (W, b), layer in zip(controller.layers(weights), _linear_layers(policy), strict=True):
        W[:], b[:] = _numpy(layer.weight).T, _numpy(layer.bias)
    return weights


def set_policy_weights(policy: Any, controller: MLP, weights: Array) -> None:
    """Give the policy network the weights (params.size,) of a controller."""
    import torch

    with torch.no_grad():
        for (W, b), layer in zip(controller.layers(weights), _linear_layers(policy), strict=True):
            layer.weight.copy_(torch.tensor(W.T.copy(), dtype=torch.float32))
            layer.bias.copy_(torch.tensor(b.copy(), dtype=torch.float32))
