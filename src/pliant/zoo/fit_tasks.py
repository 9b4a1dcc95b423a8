"""What experiments share that identify parameters: resumed fits, errors, counts of simulations."""

from collections.abc import Mapping, Sequence

import numpy as np

from pliant.core import Array, Dynamics
from pliant.design import Fit, MarkerRecording, identify
from pliant.design.fit_files import FIT
from pliant.design.staged_fit import can_be_resumed, fit_folders
from pliant.optimisation import OptimisationMethod
from pliant.optimisation.result import OPTIMISATION
from pliant.problem import Variable
from pliant.store import remove_files
from pliant.zoo.experiment import ExperimentRun


def fit_in(
    run: ExperimentRun,
    name: str,
    model: Dynamics,
    recordings: Sequence[MarkerRecording],
    variables: Sequence[str | Variable],
    method: str | OptimisationMethod = "gauss_newton",
    *,
    iterations: int = 50,
    held_out: Sequence[MarkerRecording] = (),
    fit_first: int | None = None,
    intervals: bool = True,
    seed: int = 0,
) -> Fit:
    """Identify in a folder of the run. With its `resume`, a fit there is continued, else it is
    replaced.

    Raises KeyboardInterrupt if it is interrupted."""
    folder = run.folder / name
    if not run.resume:
        for part in fit_folders(folder):
            remove_files(part, f"{OPTIMISATION.noun}*", f"{FIT.noun}*")
    fit = identify(
        model,
        list(recordings),
        variables,
        method=method,
        iterations=iterations,
        held_out=list(held_out),
        fit_first=fit_first,
        intervals=intervals,
        seed=seed,
        folder=folder,
        resume=run.resume and can_be_resumed(folder),
        progress=run.progress,
    )
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit


def largest_errors(fit: Fit, truth: Mapping[str, float]) -> Array:
    """Return the largest relative error (k + 1,) of a value in each iteration."""
    rows = [np.abs(fit.iterates[name][:, 0] / value - 1.0) for name, value in truth.items()]
    return np.asarray(np.max(rows, axis=0))


def best_errors(fit: Fit, truth: Mapping[str, float]) -> Array:
    """Return the largest relative error (k + 1,) of the iterate with the smallest loss so far."""
    errors, values = largest_errors(fit, truth), [row.value for row in fit.history]
    best = [int(np.argmin(values[: k + 1])) for k in range(len(values))]
    return errors[best]


def simulation_counts(fit: Fit) -> Array:
    """Return the number of simulations (k + 1,) up to each iteration; an adjoint counts as one
    more."""
    return np.array([row.simulations for row in fit.history])


def simulations_within(fit: Fit, truth: Mapping[str, float], error: float) -> float:
    """Return the number of simulations until the best iterate stays within a relative error,
    infinite if it does not."""
    outside = np.flatnonzero(best_errors(fit, truth) >= error)
    first = int(outside[-1]) + 1 if outside.size else 0
    return float(simulation_counts(fit)[first]) if first < len(fit.history) else np.inf


def simulations_to_minimum(fit: Fit, least: float) -> float:
    """Return the number of simulations until the value is within 1 of the least one, which is
    the distance that the noise moves it; infinite for none."""
    near = np.flatnonzero([row.value < least + 1.0 for row in fit.history])
    return float(simulation_counts(fit)[near[0]]) if near.size else np.inf
