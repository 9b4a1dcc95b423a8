"""A fit to some measurements first, from which the fit to all of them starts.

Far from the solution, one measurement says as much about the direction of a step as all of them,
and takes fewer simulations. Close to it, all of them together average the noise.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pliant.core import counted
from pliant.design.fit_objective import FitObjective
from pliant.optimisation import OptimisationMethod, OptimisationResult, optimise
from pliant.optimisation.result import OPTIMISATION
from pliant.progress import Progress

FIRST_FIT = "first"  # folder of the first fit, in that of the whole one


def fit_folders(folder: str | Path) -> tuple[Path, Path]:
    """Return the folders of the optimisations of a fit: that of all measurements, and that of the
    first ones."""
    return Path(folder), Path(folder) / FIRST_FIT


def can_be_resumed(folder: str | Path) -> bool:
    """Return whether a folder has an optimisation of a fit, whether or not it can be read."""
    return any(OPTIMISATION.exists(part) for part in fit_folders(folder))


def optimise_fit(
    objective: FitObjective,
    first: int | None,
    method: str | OptimisationMethod,
    *,
    folder: str | Path | None,
    resume: bool,
    iterations: int,
    tolerance: float,
    seed: int,
    progress: Progress | bool | None,
) -> OptimisationResult:
    """Return the optimisation of a fit, after one of its `first` measurements if that is a number.

    The simulations of both are counted. The first one ends when the predicted decrease is below the
    noise. If it is interrupted or fails, it is returned.
    """
    where, inner = (None, None) if folder is None else fit_folders(folder)
    limits: dict[str, Any] = {"iterations": iterations, "seed": seed, "progress": progress}
    if first is None:
        return optimise(
            objective, method, folder=where, resume=resume, tolerance=tolerance, **limits
        )
    if resume and not (inner is not None and OPTIMISATION.exists(inner)):
        OPTIMISATION.check_folder(where, resume)
    if resume and inner is not None and where is not None and OPTIMISATION.exists(where):
        # the fit to all has begun, so that to the first ones is not continued
        limits["iterations"] = max(OptimisationResult.load(inner).status.iterations, 1)
    before = optimise(
        replace(objective, first=first),
        method,
        folder=inner,
        resume=resume,
        # half the sum of m squares of noise is about m / 2, and changes by 1/2 with each variable
        tolerance=max(tolerance, 1.0 / (1.0 + sum(objective.counts[:first]))),
        **limits,
    )
    if before.interrupted or before.best.failed:
        return before
    limits["iterations"] = iterations
    found = optimise(
        objective,
        method,
        start=before.z,
        folder=where,
        resume=resume and where is not None and OPTIMISATION.exists(where),
        tolerance=tolerance,
        **limits,
    )
    return _after(found, before, f"{first} of {counted(objective.n_samples, 'measurement')}")


def _after(found: OptimisationResult, before: OptimisationResult, what: str) -> OptimisationResult:
    """Return an optimisation with the simulations of the one before it."""
    spent = before.history[-1].simulations
    text = f"{found.status.text}; before, {counted(before.status.iterations, 'iteration')}"
    return replace(
        found,
        history=tuple(replace(row, simulations=row.simulations + spent) for row in found.history),
        status=replace(found.status, text=f"{text} with {what}"),
    )
