"""Successive halving: several starts on a short horizon, of which the better half continues.

A local optimum depends on the start, and some starts lead to a motion that ends, such as a fall. A
short horizon is cheap, so several starts are optimised there. What counts is the motion over the
longest horizon, so the starts are compared by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pliant.core import Array, InputError, StepError, counted, require_kind
from pliant.optimisation.growing_horizon import GrowingHorizon, horizon_folder
from pliant.optimisation.methods import OptimisationMethod
from pliant.optimisation.periodic_continuation import LISTS
from pliant.optimisation.result import OptimisationResult
from pliant.planners.checkpoints import Checkpoints
from pliant.problem import Problem
from pliant.progress import Progress
from pliant.store.files import check_path


@dataclass(frozen=True, kw_only=True, eq=False)
class HalvingResult:
    """The result of `successive_halving`."""

    steps: tuple[int, ...]  # of each horizon
    trials: tuple[tuple[OptimisationResult, ...], ...]  # of each start, as far as it continued
    # of each horizon but the last one (n_starts,): the value of the best continuation of each start
    # to the longest horizon; infinite for a failed one, NaN for one that had ended
    continued: tuple[Array, ...]
    best: int  # number of the start that was best

    def __repr__(self) -> str:
        return f"<HalvingResult {self.summary()}>"

    def summary(self) -> str:
        """Return the best of the starts and its last result in one line."""
        last, count = self.results[-1], len(self.results)
        return (
            f"start {self.best} of {counted(len(self.trials), 'start')} is the best, with "
            f"{counted(self.steps[count - 1], 'step')}: {last.summary()}"
        )

    @property
    def results(self) -> tuple[OptimisationResult, ...]:
        """The results of the best start, one for each horizon."""
        return self.trials[self.best]

    def save(self, folder: str | Path) -> None:
        """Write all results into a folder, as `successive_halving(..., folder=...)` does."""
        for i, results in enumerate(self.trials):
            for steps, result in zip(self.steps, results, strict=False):
                result.save(horizon_folder(start_folder(folder, i), steps))

    def without_objectives(self) -> "HalvingResult":
        """Return the result without objectives, which another process may not receive."""
        trials = [tuple(replace(one, objective=None) for one in row) for row in self.trials]
        return replace(self, trials=tuple(trials))

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the optimisation."""
        return any(results[-1].interrupted for results in self.trials if results)

    @property
    def seconds(self) -> float:
        """The time [s] of the iterations of all starts, without that of their comparison."""
        return sum(one.history[-1].seconds for results in self.trials for one in results)

    @property
    def iterations(self) -> int:
        """The number of iterations of all starts."""
        return sum(len(one.history) - 1 for results in self.trials for one in results)


def successive_halving(
    problems: Sequence[Problem],
    methods: str | OptimisationMethod | Sequence[str | OptimisationMethod] = "adam",
    *,
    starts: Sequence[Array],
    iterations: Sequence[int],
    periods: Sequence[int] = (1,),
    kept: Sequence[float] = (1.0,),
    target: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
    checkpoints: Checkpoints = "all",
) -> HalvingResult:
    """Optimise with growing horizons from several starts. After each horizon the better half of
    them continues, rounded up, and only the best one to the last horizon.

    The starts are compared by the value of the longest problem: controls are continued to the next
    horizon as in `continue_periodically`, and then by repetition to the longest one. Variables of a
    closed loop are the same in each horizon. A start whose value is at the target continues alone,
    and later starts are not tried. The last horizon begins with the best continuation of its start
    from any horizon.

    Parameters
    ----------
    problems : as in `optimise_growing_horizon`; with a single horizon, all starts are optimised and
        the best one is taken
    starts : the first scaled variables (n,) of the shortest horizon, one or more
    folder : each start has a folder in it, such as "start-0"

    The other parameters are those of `optimise_growing_horizon`. With `resume`, the result is that
    of an uninterrupted run. Raises InputError as that function does, and StepError if no start can
    be continued.
    """
    require_kind("The starts", starts, LISTS, "give a list of arrays, one for each start")
    if len(starts) == 0:
        raise InputError("There are no starts; give one array of first variables or more.")
    horizons = GrowingHorizon.of(
        problems,
        methods,
        iterations=iterations,
        periods=periods,
        kept=kept,
        target=target,
        seed=seed,
        resume=resume,
        progress=progress,
        checkpoints=checkpoints,
    )
    search = Halving(horizons=horizons, starts=starts, folder=folder)
    for i, start in enumerate(starts):
        horizons.check_start(start, search.folder_of(i), f"Start {i}")
    return search.run()


@dataclass(frozen=True, kw_only=True, eq=False)
class Continuation:
    """The continuation of a start to longer horizons."""

    following: Array  # (n,) scaled variables of the next horizon
    whole: Array  # (n,) of the longest one
    value: float  # of the longest problem, infinite if it cannot be simulated

    def better(self, other: "Continuation | None") -> "Continuation":
        """Return this continuation with the better variables of the longest horizon."""
        if other is None or self.value <= other.value:
            return self
        return replace(self, whole=other.whole, value=other.value)


@dataclass(kw_only=True, eq=False)
class Halving:
    """A search over several starts."""

    horizons: GrowingHorizon
    starts: Sequence[Array]
    folder: str | Path | None
    trials: list[list[OptimisationResult]] = field(default_factory=list)
    best: dict[int, Continuation] = field(default_factory=dict)  # of each start
    continued: list[Array] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The number of the longest horizon."""
        return len(self.horizons.problems) - 1

    def folder_of(self, i: int) -> Path | None:
        """Return the folder of a start."""
        return None if self.folder is None else start_folder(self.folder, i)

    def run(self) -> HalvingResult:
        """Optimise all starts as far as they are among the best."""
        self.trials.extend([] for _ in self.starts)
        alive = list(range(len(self.starts)))
        for k in range(self.last):
            values = np.full(len(self.starts), np.nan)
            self.continued.append(values)
            for i in alive:
                if self.optimise(k, i).interrupted:
                    return self.result(alive)
                self.best[i] = self.continuation(k, i).better(self.best.get(i))
                values[i] = self.best[i].value
                if self.horizons.target is not None and values[i] <= self.horizons.target:
                    break
            alive = self.ranked(alive, 1 if k + 1 == self.last else (len(alive) + 1) // 2)
        for i in alive:
            if self.optimise(self.last, i).interrupted:
                break
        return self.result(alive)

    def optimise(self, k: int, i: int) -> OptimisationResult:
        """Optimise horizon k of a start."""
        first = self.starts[i]
        if k > 0:
            first = self.best[i].whole if k == self.last else self.best[i].following
        self.trials[i].append(self.horizons.optimise(k, first, self.folder_of(i)))
        return self.trials[i][-1]

    def continuation(self, k: int, i: int) -> Continuation:
        """Return the continuation of a start from horizon k."""
        horizons, z = self.horizons, self.trials[i][-1].z
        failed = Continuation(following=z, whole=z, value=np.inf)
        if not np.isfinite(self.trials[i][-1].value):
            return failed
        try:
            z = horizons.continued(k, z, k + 1)
            whole = z if k + 1 == self.last else horizons.continued(k + 1, z, self.last, (1.0,))
        except StepError:
            return failed
        value = float(horizons.objectives[self.last].value(whole).value)
        return Continuation(following=z, whole=whole, value=value)

    def ranked(self, alive: Sequence[int], count: int) -> list[int]:
        """Return the numbers of the starts with the lowest values, the best one alone if it is at
        the target."""
        values = {i: self.best[i].value for i in alive if i in self.best}
        good = [i for i in sorted(values, key=values.__getitem__) if np.isfinite(values[i])]
        if not good:
            raise StepError(
                f"{counted(len(values), 'start')} cannot be continued to the longest horizon. Give "
                "other starts or periods, or optimise with a smaller rate."
            )
        target = self.horizons.target
        at_target = target is not None and values[good[0]] <= target
        return good[:1] if at_target else good[:count]

    def result(self, alive: Sequence[int]) -> HalvingResult:
        """Return the result. The best start is that of the last horizon; after an interruption
        before it, the one with the best continuation to the longest horizon."""
        ended = [i for i in alive if len(self.trials[i]) > self.last]
        begun = [i for i in alive if self.trials[i]]
        best = min(
            ended or begun,
            key=lambda i: self.trials[i][-1].value if ended else self._continued_value(i),
        )
        return HalvingResult(
            steps=tuple(problem.steps for problem in self.horizons.problems),
            trials=tuple(map(tuple, self.trials)),
            continued=tuple(self.continued),
            best=best,
        )

    def _continued_value(self, i: int) -> float:
        """Return the value of the best continuation of a start; infinite without one."""
        return self.best[i].value if i in self.best else np.inf


def start_folder(folder: str | Path, i: int) -> Path:
    """Return the folder of a start in that of a search."""
    return check_path("The folder", folder) / f"start-{i}"
