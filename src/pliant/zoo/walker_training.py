"""Training of soft walkers: control alone from several random networks for each seed, and then
every combination of material fields from the best of them, with checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.design import RobotDesign
from pliant.learning.closed_loop import PREFIX
from pliant.optimisation import (
    Adam,
    HalvingResult,
    OptimisationResult,
    ProblemObjective,
    successive_halving,
)
from pliant.optimisation.result import OPTIMISATION
from pliant.parallel import Workers, make_workers
from pliant.problem import Problem
from pliant.progress import silent
from pliant.store import remove_files
from pliant.zoo.experiment import ExperimentRun, Setting
from pliant.zoo.walkers import (
    COMBINATIONS,
    NONE,
    MakeWalker,
    chosen_combinations,
    forward_position,
    horizons,
    walker_loop,
    walker_model,
    walker_problem,
)

# [bytes] for the stored steps of a gradient; the others are simulated again. All steps of the
# planar biped with their substeps take 5e9 at full size.
MEMORY = 6e9


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkerTraining:
    """The training of one combination with one seed."""

    combination: str
    seed: int
    search: HalvingResult
    start: float  # [m] mean position along x at rest
    length: float  # [m] of the body
    earlier: tuple[OptimisationResult, ...] = ()  # of control alone, from which this one continues

    @property
    def result(self) -> OptimisationResult:
        """The result of the longest horizon."""
        return self.search.results[-1]

    @property
    def before(self) -> tuple[OptimisationResult, ...]:
        """The results of the horizons before the longest one."""
        return (*self.earlier, *self.search.results[:-1])

    @property
    def distances(self) -> Array:
        """The longest distance so far [body lengths] at each iteration of the longest horizon
        (last iterations + 1,). The effort in the objective is below 2 mm."""
        values = [row.value for row in self.result.history]
        return -(np.minimum.accumulate(values) + self.start) / self.length

    @property
    def iterations(self) -> Array:
        """The number of iterations from the first weights to each iteration of the longest
        horizon."""
        before = sum(len(one.history) - 1 for one in self.before)
        return before + np.arange(len(self.result.history))

    @property
    def seconds(self) -> Array:
        """The time [s] from the first weights to each iteration of the longest horizon, without
        that of other starts."""
        before = sum(one.history[-1].seconds for one in self.before)
        return before + np.array([row.seconds for row in self.result.history])

    @property
    def failures(self) -> int:
        """The number of iterations whose simulation failed; they are taken back."""
        trials = [result for results in self.search.trials for result in results]
        return sum(bool(row.failed) for result in trials for row in result.history)


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkerTask:
    """The problems of one combination with one seed, one for each horizon."""

    problems: Sequence[Problem]
    start: float  # [m] mean position along x at rest
    length: float  # [m] of the body

    @classmethod
    def of(
        cls, make: MakeWalker, settings: Mapping[str, Setting], combination: str, seed: int
    ) -> "WalkerTask":
        walker, fields = make(settings), COMBINATIONS[combination]
        model = walker_model(walker, settings, fields)
        loop = walker_loop(walker, model, settings, seed)
        return cls(
            problems=[walker_problem(loop, settings, n, fields) for n in horizons(settings)],
            start=forward_position(model, model.initial_state()),
            length=walker.length,
        )

    def first_variables(self, weights: Array) -> Array:
        """Return the scaled variables (n,) with other weights (n_weights,) of the network."""
        z, at = np.array(self.problems[0].layout.start), 0
        for block in self.problems[0].layout.blocks:
            if block.name.startswith(PREFIX):
                n = block.at.stop - block.at.start
                z[block.at] = block.scaled(weights[at : at + n])
                at += n
        return z

    def random_starts(
        self, make: MakeWalker, settings: Mapping[str, Setting], seed: int
    ) -> list[Array]:
        """Return the first variables of each random network of a seed."""
        others = np.random.default_rng(seed).integers(2**31, size=int(settings["starts"]) - 1)
        loop: Any = self.problems[0].model
        walker = make(settings)
        return [
            self.first_variables(
                walker_loop(walker, loop.model, settings, int(one)).controller.params.flat
            )
            for one in [seed, *others]
        ]


def optimise_walker(
    run: ExperimentRun, name: str, task: WalkerTask, starts: Sequence[Array], first: int
) -> HalvingResult:
    """Optimise the horizons of a task from number `first` on, with checkpoints in a folder of the
    run. Raises KeyboardInterrupt if it is interrupted."""
    s, folder = run.settings, run.folder / name
    if not run.resume:
        remove_files(folder, f"**/{OPTIMISATION.noun}*")
    n = len(task.problems) - 1
    later = Adam(rate=float(s["later_rate"]), patience=int(s["patience"]))
    search = successive_halving(
        task.problems[first:],
        [Adam(rate=float(s["rate"])), *[later] * n][first:],
        starts=starts,
        iterations=[*[int(s["iterations"])] * n, int(s["last_iterations"])][first:],
        folder=folder,
        resume=run.resume,
        progress=run.progress,
        checkpoints=MEMORY,
    )
    if search.interrupted:
        raise KeyboardInterrupt
    return search


def train_walker(
    make: MakeWalker,
    run: ExperimentRun,
    combination: str,
    seed: int,
    control: WalkerTraining | None = None,
) -> WalkerTraining:
    """Train one combination with one seed: the network alone from several random ones, or network
    and material from the network that `control`, control alone, has after its shortest horizon."""
    task = WalkerTask.of(make, run.settings, combination, seed)
    if control is None:
        starts, first = task.random_starts(make, run.settings, seed), 0
    else:
        starts, first = [task.first_variables(network_weights(control.search.results[0]))], 1
    search = optimise_walker(run, folder_name(combination, seed), task, starts, first)
    return WalkerTraining(
        combination=combination,
        seed=seed,
        search=search.without_objectives(),
        start=task.start,
        length=task.length,
        earlier=() if control is None else control.search.results[:1],
    )


def network_weights(result: OptimisationResult) -> Array:
    """Return the weights (n_weights,) of the network in a result."""
    parts = [value for name, value in result.values.items() if name.startswith(PREFIX)]
    return np.concatenate([part.ravel() for part in parts])


def folder_name(combination: str, seed: int) -> str:
    """Return the name of the folder of a training."""
    return f"{combination}-seed-{seed}"


def train_walkers(run: ExperimentRun, make: MakeWalker) -> list[WalkerTraining]:
    """Train all combinations with all seeds, in the workers of the settings or of the cluster.
    Control alone is always trained, before the others."""
    s = run.settings
    seeds = [run.seed + k for k in range(int(s["seeds"]))]
    names = [name for name in chosen_combinations(s) if name != NONE]
    workers = None if run.cluster else int(s["workers"])
    # the progress of single iterations cannot be sent from another process
    own = run if workers == 1 else replace(run, progress=silent, cluster=None)
    pool = make_workers(partial(train_walker, make, own), workers=workers, cluster=run.cluster)
    total = len(seeds) * (len(names) + 1)
    try:
        alone = _trained(run, pool, [(NONE, seed, None) for seed in seeds], 0, total)
        jobs = [(name, one.seed, one) for one in alone for name in names]
        return alone + _trained(run, pool, jobs, len(seeds), total)
    finally:
        pool.close()


def _trained(
    run: ExperimentRun, pool: Workers, jobs: Sequence[tuple], done: int, total: int
) -> list[WalkerTraining]:
    """Return the training of each job, of which the files are in the folder of the run."""
    found: dict[int, WalkerTraining] = {}
    for index, one in pool.map(jobs):
        found[index] = one
        folder = run.folder / folder_name(one.combination, one.seed)
        if not folder.exists():  # another machine has made it
            one.search.save(folder)
        run.progress("training walkers", done + len(found), total)
    return [found[k] for k in range(len(jobs))]


def walker_design(
    make: MakeWalker, settings: Mapping[str, Setting], training: WalkerTraining
) -> RobotDesign:
    """Return the design of a training, which can be simulated and exported."""
    task = WalkerTask.of(make, settings, training.combination, training.seed)
    problem = task.problems[-1]
    objective = ProblemObjective(problem, checkpoints=MEMORY)
    return RobotDesign(result=replace(training.result, objective=objective), problem=problem)
