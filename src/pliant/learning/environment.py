"""Env: any model with a task as an environment of gymnasium."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, require_kind
from pliant.learning.episodes import Episode, EpisodeRules
from pliant.learning.gymnasium_spaces import box, import_gymnasium
from pliant.learning.tasks import ControlTask
from pliant.result_reports import draw_states

GymnasiumEnv: Any = import_gymnasium().Env
RENDER_MODES = ["rgb_array"]

# (model, states (frames, n_state), controls (frames - 1, n_controls)) -> picture (h, w, 3) uint8
Draw = Callable[[Dynamics, Array, Array], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class EnvState:
    """The state of an environment: its episode and its random numbers."""

    episode: Episode
    random: dict[str, Any]  # the state of the bit generator, plain numbers and names


class Env(GymnasiumEnv):
    """Any model with a task as an environment of gymnasium.

    Parameters
    ----------
    model : any Dynamics with controls
    task : terms, number of steps, observer and initial states
    scale : largest distance of the controls from the neutral control, a number or (n_controls,);
        needed for controls without limits
    render_mode : "rgb_array" or None
    draw : function (model, states, controls) -> picture (h, w, 3) uint8 of the last state; None
        for the picture of the report

    An action (n_controls,) is between -1 and 1, the ends of the actuator limits. Other actions
    raise InputError: clip them before. The reward is minus the cost of the step, so the rewards of
    an episode add up to minus the objective of `task.problem(model)`. A failed step terminates the
    episode. After `task.steps` steps it is truncated. `info` has the "status" of the step as text,
    the applied "controls" and the "time" [s].

    `reset(seed=...)` seeds the random initial states of the task, and
    `reset(options={"x0": state})` starts from a given state.
    """

    def __init__(
        self,
        model: Dynamics,
        task: ControlTask,
        *,
        scale: ArrayLike | None = None,
        render_mode: str | None = None,
        draw: Draw | None = None,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise InputError(
                f"There is no render mode '{render_mode}'; choose 'rgb_array' or None."
            )
        self.rules = EpisodeRules(model=model, task=task, scale=scale)
        self.render_mode = render_mode
        self.metadata = {"render_modes": RENDER_MODES, "render_fps": max(round(1.0 / model.dt), 1)}
        self.observation_space = box(-np.inf, np.inf, self.rules.observer.size, np.float64)
        self.action_space = box(-1.0, 1.0, model.n_controls, np.float32)
        self._draw = draw or draw_states
        self._episode: Episode | None = None

    @property
    def model(self) -> Dynamics:
        return self.rules.model

    @property
    def task(self) -> ControlTask:
        return self.rules.task

    @property
    def episode(self) -> Episode:
        """The running episode. Raises InputError before the first reset."""
        if self._episode is None:
            raise InputError("The environment has no episode yet; call reset() first.")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode. Return its first observation and an empty info."""
        self.rules.check_reset(seed, options)
        super().reset(seed=None if seed is None else int(seed))
        self._episode = self.rules.start(self.np_random, (options or {}).get("x0"))
        return self.rules.observer.observe(self._episode.x), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Apply an action. Return (observation, reward, terminated, truncated, info)."""
        rules, episode = self.rules, self.episode
        rules.check_running(episode)
        u = rules.controls(action)
        found = rules.finish(episode, u, self.model.step(episode.x, u, None, episode.step))
        self._episode = found.episode
        info = {"status": found.status, "controls": u, "time": found.episode.step * self.model.dt}
        seen = rules.observer.observe(found.episode.x)
        return seen, found.reward, found.terminated, found.truncated, info

    def state(self) -> EnvState:
        """Return the state of the environment, from which `set_state` continues bit for bit."""
        return EnvState(episode=self.episode, random=dict(self.np_random.bit_generator.state))

    def set_state(self, state: EnvState) -> Array:
        """Continue from a state that `state` returned. Return the observation."""
        require_kind("The state of an environment", state, EnvState, "give what state() returned")
        x = state.episode.states
        if x.shape[1] != self.model.space.size:
            raise InputError(
                f"The state is of a model with {x.shape[1]} numbers, but this one has "
                f"{self.model.space.size}. Give a state of the same model."
            )
        self.np_random.bit_generator.state = state.random
        self._episode = state.episode
        return self.rules.observer.observe(state.episode.x)

    def render(self) -> Array | None:
        """Return a picture (h, w, 3) uint8 of the newest state; None without a render mode."""
        if self.render_mode is None:
            return None
        episode = self.episode
        states = np.stack([self.task.initial_state(self.model), episode.x])
        neutral = self.model.neutral_controls()[None]
        return self._draw(self.model, states, episode.controls[-1:] if episode.step else neutral)
