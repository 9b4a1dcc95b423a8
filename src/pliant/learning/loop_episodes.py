"""Episodes of a closed loop: their cost, and its gradient by the controller's weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.checkpointing import Schedule, reverse_sweep
from pliant.core import Array, InputError, Step, is_integer, quoted
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.tasks import ControlTask, StepCosts, observed_state_gradients
from pliant.planners.checkpoints import retained_bytes
from pliant.problem import Problem

NO_CONTROLS = np.zeros(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopEpisode:
    """The states, the controls and the cost of one episode."""

    states: Array  # (n + 1, model.space.size)
    controls: Array  # (n, n_controls)
    cost: float  # minus the return
    failed: str = ""  # why a step failed, which ended the episode


@dataclass(frozen=True, kw_only=True, eq=False)
class Performance:
    """The mean cost of several episodes."""

    cost: float
    failed: tuple[str, ...] = ()  # of the episodes that failed

    def better_than(self, other: "Performance") -> bool:
        """Return whether fewer episodes failed, or as many and the cost is lower."""
        return (len(self.failed), self.cost) < (len(other.failed), other.cost)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopEpisodes:
    """A closed loop, a task and fixed initial states: what the training of a controller measures.

    `starts` (b, model.space.size) are the initial states of the model.
    """

    loop: ClosedLoop
    task: ControlTask
    problem: Problem
    starts: Array

    @classmethod
    def draw(cls, loop: ClosedLoop, task: ControlTask, *, count: int, seed: int) -> "LoopEpisodes":
        """Return `count` episodes with random initial states; with one if the task has no spread.

        Raises InputError for a count that is not positive.
        """
        if not is_integer(count) or count < 1:
            raise InputError(
                f"The number of episodes is {quoted(count)}; give a whole number, 1 or more."
            )
        rng = np.random.default_rng(seed) if task.spread else None
        starts = [task.initial_state(loop.model, rng) for _ in range(count if task.spread else 1)]
        return cls(loop=loop, task=task, problem=task.problem(loop.model), starts=np.array(starts))

    @property
    def steps(self) -> int:
        """The number of environment steps of all episodes."""
        return len(self.starts) * self.task.steps

    def _params(self, w: Array) -> Array:
        """Return the parameters of the loop for weights (controller.params.size,)."""
        return np.concatenate([w, self.loop.model.params.flat])

    def run(self, w: Array, start: Array) -> LoopEpisode:
        """Simulate one episode from a state of the model. A failed step ends it."""
        return self._run(self._params(w), start, [])[0]

    def performance(self, w: Array) -> Performance:
        """Return the mean cost of all episodes for weights w."""
        return mean_performance([self.run(w, start) for start in self.starts])

    def _run(
        self, p: Array, start: Array, kept: list[Step], keep: int = 0
    ) -> tuple[LoopEpisode, Array]:
        """Simulate one episode. Return it and the states (n + 1, loop.space.size) of the loop.
        `kept` receives the first `keep` steps with their tapes."""
        x, failed = self.loop.state(start), ""
        states = [x]
        for k in range(self.task.steps):
            step = self.loop.step(x, NO_CONTROLS, p, k)
            if not step.status or not np.all(np.isfinite(step.x)):
                why = step.status.text if not step.status else "the state is not finite"
                failed = f"step {k}: {why}"
                break
            if k < keep:
                kept.append(step)
            x = step.x
            states.append(x)
        path = np.array(states)
        inner, controls = self.loop.split_states(path)
        return self._episode(inner, controls[1:], failed), path

    def _episode(self, states: Array, controls: Array, failed: str) -> LoopEpisode:
        cost = (
            float(StepCosts(problem=self.problem).costs(states, controls).sum())
            + self.task.failure_cost
            if failed
            else self.problem.value(states, controls)
        )
        if not failed and not np.isfinite(cost):
            failed = "the cost is not finite"
        return LoopEpisode(states=states, controls=controls, cost=cost, failed=failed)

    # Gradients

    def tape_limit(self, memory: float) -> int:
        """Return the number of steps whose tapes fit into `memory` [bytes], at least 1."""
        step = self.loop.step(self.loop.state(self.starts[0]), NO_CONTROLS, None, 0)
        size = max(retained_bytes((step.x, step.tape), without=self.loop), 1)
        return int(min(max(memory // size, 1), self.task.steps))

    def gradient(self, w: Array, tapes: int) -> tuple[Performance, Array]:
        """Return the mean cost and its gradient (controller.params.size,).

        At most `tapes` steps are kept with their tapes; the others are simulated twice. The number
        changes no bit of the result. If an episode fails, the gradient is zero.
        """
        found, total = [], np.zeros(len(w))
        for start in self.starts:
            episode, g = self._gradient(self._params(w), start, tapes)
            found.append(episode)
            total = total + g[: len(w)]
        performance = mean_performance(found)
        return performance, np.zeros(len(w)) if performance.failed else total / len(self.starts)

    def _gradient(self, p: Array, start: Array, tapes: int) -> tuple[LoopEpisode, Array]:
        steps, loop, kept = self.task.steps, self.loop, list[Step]()
        episode, path = self._run(p, start, kept, keep=steps if tapes >= steps else 0)
        p_bar = np.zeros(len(p))
        if episode.failed:
            return episode, p_bar
        x_bars, u_bars = observed_state_gradients(self.problem, episode.states, episode.controls)
        bar = np.zeros(loop.space.size)

        def reverse(first: int, end: int, x: Array, _: int) -> None:
            nonlocal bar, p_bar
            taped = kept or self._steps(p, x, first, end)
            for k in range(end, first, -1):
                by_inner, by_control = loop.split_states(bar)
                if k in x_bars:
                    by_inner += x_bars[k]
                by_control += u_bars[k - 1]
                bar, _u, by_p = loop.pullback(taped.pop(), bar)
                p_bar = p_bar + by_p

        reverse_sweep(steps, Schedule(tapes=tapes), path[0], lambda k, goal, x: path[goal], reverse)
        if not np.all(np.isfinite(p_bar)):
            return replace(episode, failed="the gradient is not finite"), p_bar
        return episode, p_bar

    def _steps(self, p: Array, x: Array, first: int, end: int) -> list[Step]:
        steps: list[Step] = []
        for k in range(first, end):
            steps.append(self.loop.step(steps[-1].x if steps else x, NO_CONTROLS, p, k))
        return steps


def mean_performance(episodes: Sequence[LoopEpisode]) -> Performance:
    """Return the mean cost of episodes."""
    return Performance(
        cost=float(np.mean([episode.cost for episode in episodes])),
        failed=tuple(episode.failed for episode in episodes if episode.failed),
    )
