"""Episodes of a task as pure functions, shared by the single and the vector environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_model
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Observer,
    Step,
    finite_array,
    is_integer,
    quoted,
    require_kind,
)
from pliant.learning.control_ranges import control_range
from pliant.learning.tasks import ControlTask, StepCosts
from pliant.problem import Problem

ACTION_ROUNDING = 1e-6  # beyond -1 and 1: a few roundings of float32, in which policies compute
NOT_FINITE = "the state after the step is not finite; reduce the controls or the time step"
NO_COST = "the cost of the step is not a finite number"


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """The state of a running episode: all that its future depends on."""

    step: int  # number of finished steps
    states: Array  # (m, n_state) the last states, the newest last
    controls: Array  # (m', n_controls) the last controls, the newest last
    ended: bool = False

    @property
    def x(self) -> Array:
        """The newest state (n_state,)."""
        return self.states[-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Transition:
    """The result of one step of an episode."""

    episode: Episode
    reward: float
    terminated: bool
    truncated: bool
    status: str


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeRules:
    """A model with a task: observations, actions from -1 to 1, and rewards.

    `scale` is needed for controls without limits: their largest distance from the neutral control.
    """

    model: Dynamics
    task: ControlTask
    scale: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_model(self.model)
        require_kind("The task", self.task, ControlTask, "give ControlTask(steps=..., terms=[...])")
        self.problem, self.observer, self.range  # noqa: B018  # raise InputError now

    @cached_property
    def problem(self) -> Problem:
        return self.task.problem(self.model)

    @cached_property
    def observer(self) -> Observer:
        return self.task.observer_of(self.model)

    @cached_property
    def costs(self) -> StepCosts:
        return StepCosts(problem=self.problem)

    @cached_property
    def range(self) -> tuple[Array, Array]:
        """The controls (n_controls,) of the actions -1 and 1."""
        return control_range(self.model, limits=self.task.limits, scale=self.scale)

    def controls(self, action: Any) -> Array:
        """Return the controls (n_controls,) of an action. Raises InputError if it is not finite
        or not between -1 and 1, up to rounding."""
        a = finite_array("The action", action, (self.model.n_controls,))
        bad = np.flatnonzero(np.abs(a) > 1.0 + ACTION_ROUNDING)
        if bad.size:
            raise InputError(
                f"Entry {bad[0]} of the action is {a[bad[0]]:.9g}; actions are between -1 and 1. "
                "Clip them, for example with gymnasium.wrappers.ClipAction."
            )
        lower, upper = self.range
        return np.clip(lower + 0.5 * (upper - lower) * (a + 1.0), lower, upper)

    def action(self, u: Array) -> Array:
        """Return the action (n_controls,) of controls inside their range, for example of a plan."""
        lower, upper = self.range
        return np.clip(2.0 * (np.asarray(u) - lower) / (upper - lower) - 1.0, -1.0, 1.0)

    def check_reset(self, seed: Any, options: Any) -> None:
        """Raise InputError unless the arguments of a reset are valid."""
        seeds = seed if isinstance(seed, list | tuple) else [seed]
        for one in seeds:
            if one is not None and (not is_integer(one) or one < 0):
                raise InputError(
                    f"The seed is {quoted(one)}; give a whole number, 0 or more, or None."
                )
        if options is None:
            return
        require_kind("The options of a reset", options, Mapping, "give {'x0': state} or None")
        for name in options:
            if name != "x0":
                raise InputError(
                    f"There is no option {quoted(name)} of a reset; give {{'x0': state}} or None."
                )

    def start(self, rng: np.random.Generator, x0: ArrayLike | None = None) -> Episode:
        """Return a new episode from a random initial state, or from x0 (n_state,)."""
        x = (
            self.task.initial_state(self.model, rng)
            if x0 is None
            else finite_array("The first state", x0, (self.model.space.size,))
        )
        none = np.zeros((0, self.model.n_controls))
        return Episode(step=0, states=np.array(x)[None], controls=none)

    def check_running(self, episode: Episode) -> None:
        """Raise InputError if the episode has ended."""
        if episode.ended:
            raise InputError("The episode has ended; call reset() before the next step.")

    def finish(self, episode: Episode, u: Array, step: Step) -> Transition:
        """Return the transition by a step of the model under the controls u."""
        ok = step.status.ok and bool(np.all(np.isfinite(step.x)))
        if not ok:
            return self._failed(episode, step.status.text if not step.status else NOT_FINITE)
        k, n = episode.step, self.costs.n_past + 1
        states = np.concatenate([episode.states, step.x[None]])[-n:]
        controls = np.concatenate([episode.controls, u[None]])[-n:]
        cost = self.costs.cost(
            k,
            {k + 1 - j: x for j, x in enumerate(states[::-1])},
            {k - j: row for j, row in enumerate(controls[::-1])},
        )
        if not np.isfinite(cost):
            return self._failed(episode, NO_COST)
        truncated = k + 1 >= self.task.steps
        return Transition(
            episode=Episode(step=k + 1, states=states, controls=controls, ended=truncated),
            reward=-cost,
            terminated=False,
            truncated=truncated,
            status=step.status.text,
        )

    def _failed(self, episode: Episode, text: str) -> Transition:
        """Return the transition of a failed step, which keeps the last state."""
        ended = Episode(
            step=episode.step, states=episode.states, controls=episode.controls, ended=True
        )
        return Transition(
            episode=ended,
            reward=-float(self.task.failure_cost),
            terminated=True,
            truncated=False,
            status=text,
        )
