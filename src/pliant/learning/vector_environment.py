"""VectorEnv: many episodes of one task, stepped together in threads."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    Batched,
    Dynamics,
    InputError,
    MapDynamics,
    Step,
    counted,
    is_integer,
    quoted,
    require_kind,
)
from pliant.learning.environment import EnvState
from pliant.learning.episodes import Episode, EpisodeRules, Transition
from pliant.learning.gymnasium_spaces import box, import_gymnasium
from pliant.learning.observers import observe_rows
from pliant.learning.tasks import ControlTask

gymnasium: Any = import_gymnasium()
GymnasiumVectorEnv: Any = gymnasium.vector.VectorEnv


class VectorEnv(GymnasiumVectorEnv):
    """Many episodes of one task, stepped together in threads.

    Parameters
    ----------
    model, task, scale : as in `Env`
    count : number of episodes
    threads : number of threads; None for all that compiled loops may use

    The results do not depend on the number of threads, bit for bit. A `core.Batched` model steps
    all episodes at once. Other models are stepped by a pool of threads. Of these, a model with a
    surrogate is stepped in one thread, because its evaluations depend on the order of the steps.

    An episode that ends starts again in the same step: `info["final_obs"]` then has its last
    observation, and `info["final_info"]` its last info. Seed i of `reset(seed=s)` is s + i, so row
    i equals `Env` of the same model with this seed.
    """

    def __init__(
        self,
        model: Dynamics,
        task: ControlTask,
        count: int,
        threads: int | None = None,
        *,
        scale: ArrayLike | None = None,
    ) -> None:
        self.rules = EpisodeRules(model=model, task=task, scale=scale)
        self.num_envs = _positive("episodes", count)
        most = numba.get_num_threads()
        self.threads = min(_positive("threads", most if threads is None else threads), count)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        n_seen, n_controls = self.rules.observer.size, model.n_controls
        self.single_observation_space = box(-np.inf, np.inf, n_seen, np.float64)
        self.single_action_space = box(-1.0, 1.0, n_controls, np.float32)
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, count)
        self.action_space = batch(self.single_action_space, count)
        self._random: list[np.random.Generator] = []
        self._episodes: list[Episode] = []
        self._pool: ThreadPoolExecutor | None = None
        self._batched = isinstance(model, Batched)
        # new evaluations of a surrogate depend on the order of the steps
        self._ordered = isinstance(model, MapDynamics)

    @property
    def model(self) -> Dynamics:
        return self.rules.model

    @property
    def task(self) -> ControlTask:
        return self.rules.task

    # Episodes

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Start all episodes. Return their observations (count, size) and an empty info."""
        self.rules.check_reset(seed, options)
        self._seed(seed)
        x0 = (options or {}).get("x0")
        self._episodes = [self.rules.start(rng, x0) for rng in self._random]
        return self._observe(), {}

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        count = self.num_envs
        seeds = seed if isinstance(seed, list | tuple) else None
        if seeds is None:
            seeds = [None if seed is None else int(seed) + i for i in range(count)]  # type: ignore[arg-type]
        if len(seeds) != count:
            raise InputError(
                f"The environment got {counted(len(seeds), 'seed')} for "
                f"{counted(count, 'episode')}; give one number, or one for each episode."
            )
        make = gymnasium.utils.seeding.np_random
        old = self._random or count * [None]
        self._random = [
            rng if one is None and rng is not None else make(one)[0]
            for one, rng in zip(seeds, old, strict=True)
        ]

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Apply actions (count, n_controls). Return observations (count, size), rewards,
        terminations and truncations (count,), and the info."""
        if not self._episodes:
            raise InputError("The environment has no episodes yet; call reset() first.")
        if np.shape(actions)[:1] != (self.num_envs,):
            raise InputError(
                f"There are actions of shape {np.shape(actions)} for "
                f"{counted(self.num_envs, 'episode')}; give one row for each."
            )
        u = np.array([self.rules.controls(action) for action in actions])
        steps = self._step_all(u)
        rows = zip(self._episodes, u, steps, strict=True)
        found = [self.rules.finish(episode, row, step) for episode, row, step in rows]
        self._episodes = [one.episode for one in found]
        seen = self._observe()
        info = self._info(found, u)
        ended = [i for i, one in enumerate(found) if one.episode.ended]
        if ended:
            self._restart(ended, seen, info)
        return (
            seen,
            np.array([one.reward for one in found]),
            np.array([one.terminated for one in found]),
            np.array([one.truncated for one in found]),
            info,
        )

    def _info(self, found: list[Transition], u: Array) -> dict[str, Any]:
        times = np.array([one.episode.step * self.model.dt for one in found])
        every = np.ones(self.num_envs, bool)
        status = np.array([one.status for one in found], dtype=object)
        return {
            "status": status,
            "controls": u,
            "time": times,
            "_status": every,
            "_controls": every,
            "_time": every,
        }

    def _restart(self, ended: list[int], seen: Array, info: dict[str, Any]) -> None:
        """Start ended episodes again, and add their last observations to the info."""
        mask = np.zeros(self.num_envs, bool)
        mask[ended] = True
        last = np.full(self.num_envs, None, dtype=object)
        for i in ended:
            last[i] = seen[i].copy()
            self._episodes[i] = self.rules.start(self._random[i])
            seen[i] = self.rules.observer.observe(self._episodes[i].x)
        final = {key: info[key].copy() for key in ("status", "controls", "time")}
        final |= {"_status": mask, "_controls": mask, "_time": mask}
        info |= {"final_obs": last, "_final_obs": mask, "final_info": final, "_final_info": mask}

    def _observe(self) -> Array:
        return observe_rows(self.rules.observer, np.array([one.x for one in self._episodes]))

    # Threads

    def _step_all(self, u: Array) -> list[Step]:
        """Return the step of each episode under controls (count, n_controls)."""
        if self._batched:
            return self._step_batches(u)
        if self.threads == 1 or self._ordered or not _is_thread_safe():
            return [self._step_one(i, u[i]) for i in range(self.num_envs)]
        if self._pool is None:
            # a compiled loop holds Python's lock, so one at a time uses all the threads
            most = min(self.threads, numba.get_num_threads())
            self._pool = ThreadPoolExecutor(self.threads, "env", numba.set_num_threads, (most,))
        return list(self._pool.map(self._step_one, range(self.num_envs), u))

    def _step_batches(self, u: Array) -> list[Step]:
        """Step the episodes of a Batched model, those of one step index at once."""
        model: Any = self.model
        index = np.array([one.step for one in self._episodes])
        x = np.array([one.x for one in self._episodes])
        out: dict[int, Step] = {}
        before = numba.get_num_threads()
        numba.set_num_threads(min(self.threads, before))
        try:
            for k in np.unique(index):
                rows = np.flatnonzero(index == k)
                batch = model.step_many(x[rows], u[rows], None, int(k))
                for i, new, status in zip(rows, batch.x, batch.statuses, strict=True):
                    out[int(i)] = Step(new, status)
        finally:
            numba.set_num_threads(before)
        return [out[i] for i in range(self.num_envs)]

    def _step_one(self, i: int, u: Array) -> Step:
        episode = self._episodes[i]
        return self.model.step(episode.x, u, None, episode.step)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # State

    def state(self) -> list[EnvState]:
        """Return the state of every episode, from which `set_state` continues bit for bit."""
        if not self._episodes:
            raise InputError("The environment has no episodes yet; call reset() first.")
        pairs = zip(self._episodes, self._random, strict=True)
        return [EnvState(episode=one, random=dict(rng.bit_generator.state)) for one, rng in pairs]

    def set_state(self, states: Sequence[EnvState]) -> Array:
        """Continue from states that `state` returned. Return the observations (count, size)."""
        require_kind("The states", states, (list, tuple), "give what state() returned")
        if len(states) != self.num_envs:
            raise InputError(
                f"The environment got {counted(len(states), 'state')} for "
                f"{counted(self.num_envs, 'episode')}; give one for each."
            )
        self._seed([0] * self.num_envs)
        for rng, state in zip(self._random, states, strict=True):
            rng.bit_generator.state = state.random
        self._episodes = [state.episode for state in states]
        return self._observe()


def _is_thread_safe() -> bool:
    """Return whether several threads may call compiled loops. One threading layer of numba ends
    the process if they do. The layer is known after the first compiled loop."""
    try:
        return numba.threading_layer() != "workqueue"
    except ValueError:
        return False


def _positive(name: str, value: Any) -> int:
    if not is_integer(value) or value < 1:
        raise InputError(f"The number of {name} is {quoted(value)}; give a whole number above 0.")
    return int(value)
