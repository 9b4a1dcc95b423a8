"""What experiments share that optimise a Problem: resumed runs, and counts of simulations."""

from collections.abc import Sequence

import numpy as np

from pliant.core import Array
from pliant.optimisation import OptimisationMethod, OptimisationResult, ProblemObjective, optimise
from pliant.optimisation.result import OPTIMISATION
from pliant.store import remove_files
from pliant.zoo.experiment import ExperimentRun


def optimise_in(
    run: ExperimentRun,
    name: str,
    objective: ProblemObjective,
    method: str | OptimisationMethod,
    *,
    iterations: int,
    seed: int = 0,
    start: Array | None = None,
) -> OptimisationResult:
    """Optimise in a folder of the run. With its `resume`, an optimisation there is continued, else
    it is replaced. `start` (n,) are the first scaled variables, by default those of the objective.

    Raises KeyboardInterrupt if it is interrupted."""
    folder = run.folder / name
    if not run.resume:
        remove_files(folder, f"{OPTIMISATION.noun}*")
    result = optimise(
        objective,
        method,
        iterations=iterations,
        seed=seed,
        start=start,
        folder=folder,
        resume=run.resume and OPTIMISATION.exists(folder),
        progress=run.progress,
    )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def goal_distances(result: OptimisationResult) -> Array:
    """Return the distance [m] to the goal at each iteration (k,), if the value is half of its
    square."""
    return np.sqrt([2.0 * row.value for row in result.history])


def simulations_to(result: OptimisationResult, distance: float) -> float:
    """Return the number of simulations to the first distance [m] below a bound, infinite for
    none. A gradient counts as two."""
    below = np.flatnonzero(goal_distances(result) < distance)
    return result.history[below[0]].simulations if below.size else np.inf


def convergence(results: Sequence[OptimisationResult]) -> tuple[Array, Array]:
    """Return simulations and the median over the results of the smallest distance [m] so far."""
    at = np.unique([row.simulations for result in results for row in result.history])
    curves = []
    for result in results:
        counts = np.array([row.simulations for row in result.history])
        best = np.minimum.accumulate(goal_distances(result))
        index = np.searchsorted(counts, at, side="right") - 1
        curves.append(np.where(index >= 0, best[np.maximum(index, 0)], np.nan))
    return at, np.nanmedian(curves, axis=0)
