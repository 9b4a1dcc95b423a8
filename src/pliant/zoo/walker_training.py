"""Training of soft walkers: every combination of material fields with every seed, as independent
jobs with checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pliant.core import Array
from pliant.design import RobotDesign
from pliant.optimisation import Adam, OptimisationResult, ProblemObjective
from pliant.optimisation.result import OPTIMISATION
from pliant.parallel import make_workers
from pliant.progress import silent
from pliant.zoo.experiment import ExperimentRun, Setting
from pliant.zoo.optimised_tasks import optimise_in
from pliant.zoo.walkers import (
    COMBINATIONS,
    MakeWalker,
    chosen_combinations,
    forward_position,
    walker_loop,
    walker_model,
    walker_problem,
)

MEMORY = 1e9  # [bytes] for the stored steps of a gradient; the others are simulated again


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkerTraining:
    """The training of one combination with one seed."""

    combination: str
    seed: int
    result: OptimisationResult
    start: float  # [m] mean position along x at rest
    length: float  # [m] of the body

    @property
    def distances(self) -> Array:
        """The longest distance so far [body lengths] at each iteration (iterations + 1,). The
        effort in the objective is below 2 mm."""
        values = [row.value for row in self.result.history]
        return -(np.minimum.accumulate(values) + self.start) / self.length

    @property
    def seconds(self) -> Array:
        """The time [s] since the start at each iteration (iterations + 1,)."""
        return np.array([row.seconds for row in self.result.history])

    @property
    def failures(self) -> int:
        """The number of iterations whose simulation failed; they are taken back."""
        return sum(bool(row.failed) for row in self.result.history)


def walker_objective(
    make: MakeWalker, settings: Mapping[str, Setting], combination: str, seed: int
) -> tuple[ProblemObjective, float, float]:
    """Return the objective of a combination, the first position [m] and the body's length [m]."""
    walker, fields = make(settings), COMBINATIONS[combination]
    model = walker_model(walker, settings, fields)
    loop = walker_loop(walker, model, settings, seed)
    objective = ProblemObjective(walker_problem(loop, settings, fields), checkpoints=MEMORY)
    return objective, forward_position(model, model.initial_state()), walker.length


def train_walker(
    make: MakeWalker, run: ExperimentRun, combination: str, seed: int
) -> WalkerTraining:
    """Train one combination with one seed, with checkpoints in a folder of the run."""
    objective, start, length = walker_objective(make, run.settings, combination, seed)
    result = optimise_in(
        run,
        folder_name(combination, seed),
        objective,
        Adam(rate=float(run.settings["rate"])),
        iterations=int(run.settings["iterations"]),
        seed=seed,
    )
    return WalkerTraining(
        combination=combination,
        seed=seed,
        result=replace(result, objective=None),  # another process may not receive it
        start=start,
        length=length,
    )


def folder_name(combination: str, seed: int) -> str:
    """Return the name of the folder of a training."""
    return f"{combination}-seed-{seed}"


def train_walkers(run: ExperimentRun, make: MakeWalker) -> list[WalkerTraining]:
    """Train all combinations with all seeds, in the workers of the settings or of the cluster."""
    s = run.settings
    jobs = [
        (combination, run.seed + k)
        for k in range(int(s["seeds"]))
        for combination in chosen_combinations(s)
    ]
    workers = None if run.cluster else int(s["workers"])
    # the progress of single iterations cannot be sent from another process
    own = run if workers == 1 else replace(run, progress=silent, cluster=None)
    pool = make_workers(partial(train_walker, make, own), workers=workers, cluster=run.cluster)
    found: dict[int, WalkerTraining] = {}
    try:
        for index, one in pool.map(jobs):
            found[index] = one
            _keep(run, one)
            run.progress("training walkers", len(found), len(jobs))
    finally:
        pool.close()
    return [found[k] for k in range(len(jobs))]


def _keep(run: ExperimentRun, training: WalkerTraining) -> None:
    """Write a training that another machine has made into the folder of the run."""
    folder = run.folder / folder_name(training.combination, training.seed)
    if not OPTIMISATION.exists(folder):
        training.result.save(folder)


def walker_design(
    make: MakeWalker, settings: Mapping[str, Setting], training: WalkerTraining
) -> RobotDesign:
    """Return the design of a training, which can be simulated and exported."""
    objective, _, _ = walker_objective(make, settings, training.combination, training.seed)
    return RobotDesign(
        result=replace(training.result, objective=objective), problem=objective.problem
    )
