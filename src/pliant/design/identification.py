"""Identification: the parameters of a model from recordings and static tests."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pliant.core import (
    Dynamics,
    InputError,
    StepError,
    counted,
    is_integer,
    nearest,
    quoted,
    require_kind,
    require_positive,
)
from pliant.design.fit import Fit
from pliant.design.fit_files import FIT
from pliant.design.fit_objective import FitObjective
from pliant.design.fit_results import fit_of
from pliant.design.measured_scene import MeasuredScene, Measurement, measured_scene
from pliant.design.measurement_checks import check_different
from pliant.design.recording import MarkerRecording
from pliant.design.staged_fit import optimise_fit
from pliant.design.static_test import StaticTest
from pliant.optimisation import OptimisationMethod
from pliant.problem import Problem, Scene, Term, Variable
from pliant.problem.problem import ObservationTerm
from pliant.problem.smoothness import ParameterTerm
from pliant.problem.variables import CONTROLS, INITIAL
from pliant.progress import Progress


def identify(
    model: Dynamics,
    measurements: Measurement | Sequence[Measurement],
    variables: Sequence[str | Variable],
    *,
    method: str | OptimisationMethod = "gauss_newton",
    noise: float | None = None,
    offsets: float | bool = False,
    held_out: Measurement | Sequence[Measurement] = (),
    terms: Sequence[Term] = (),
    fit_first: int | None = None,
    intervals: bool = True,
    iterations: int = 50,
    tolerance: float = 1e-8,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> Fit:
    """Fit parameters of a model to measurements, by least squares.

    Parameters
    ----------
    model : a model with design=[...], such as ImplicitEuler(robot, dt=0.01, design=["body.E"])
    measurements : recordings of markers and static tests, one or many
    variables : names of parameters, such as "soft.E", or pl.problem.Variable objects with bounds
        and a start; also "initial" or "initial.PART" for the initial states
    method : "gauss_newton", "lbfgsb", "adam", "sgd" or "cmaes", or one with settings
    noise : standard deviation [m] of a measured coordinate, for recordings without their own; None:
        it is estimated from the residuals
    offsets : largest time offset [s] of a recording if its offset is unknown; False: it is known
    held_out : measurements that are predicted with the fitted parameters, but not fitted
    terms : FieldSmoothness of fields such as "cells.E"
    fit_first : number of measurements of a first fit, by the same method. The fit to all starts
        from its values, which takes fewer simulations if one measurement determines all variables
        roughly. None: one fit to all
    intervals : whether to compute intervals and correlations. They take one derivative for each
        number, which is long for fields of particles
    iterations, tolerance, seed, folder, resume, progress : as in pl.optimisation.optimise
    workers : number of processes for the simulations of several measurements and for derivatives by
        differences; None for one per core

    Controls are those of the measurements. Raises InputError for measurements or variables that do
    not fit the model, and StepError if the start values cannot be simulated.

    >>> import numpy as np, pliant as pl
    >>> def beam(E):
    ...     return pl.Robot(
    ...         shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
    ...         divisions=(5, 1),
    ...         material=pl.Material(E=E, nu=0.4, density=1000.0),
    ...         supports=[pl.Support(region="x-")],
    ...         effectors={"tip": pl.Effector(point=(0.1, 0.01))},
    ...         gravity=(0.0, -9.81),
    ...     )
    >>> true = pl.ImplicitEuler(beam(E=2e5), dt=0.01)
    >>> states = pl.simulate(true, np.zeros((30, 0))).states
    >>> tip = np.array([true.effector("tip", x) for x in states])
    >>> recording = pl.design.MarkerRecording(
    ...     times=0.01 * np.arange(31), positions=tip, markers=["tip"], noise=1e-4
    ... )
    >>> model = pl.ImplicitEuler(beam(E=1e5), dt=0.01, design=["body.E"])
    >>> fit = pl.identify(model, recording, ["body.E"])
    >>> round(fit.values["body.E"])
    200000
    """
    if not resume:
        FIT.check_folder(folder, resume=False)
    objective, others = check_fit(
        model,
        measurements,
        variables,
        noise=noise,
        offsets=offsets,
        held_out=held_out,
        terms=terms,
        fit_first=fit_first,
        workers=workers,
    )
    with closing(objective):
        found = optimise_fit(
            objective,
            fit_first,
            method,
            folder=folder,
            resume=resume,
            iterations=iterations,
            tolerance=tolerance,
            seed=seed,
            progress=progress,
        )
        if found.best.failed:
            raise StepError(
                "The fit cannot start, because the start values fail: "
                f"{found.best.failed.rstrip('.')}. Give other start values, or a smaller time step."
            )
        fit = fit_of(objective, found, others, intervals=intervals)
    if folder is not None:
        fit.save(folder)
    return fit


def check_fit(
    model: Dynamics,
    measurements: Any,
    variables: Any,
    *,
    noise: Any = None,
    offsets: Any = False,
    held_out: Any = (),
    terms: Any = (),
    fit_first: Any = None,
    workers: int | None = 1,
) -> tuple[FitObjective, tuple[MeasuredScene, ...]]:
    """Return the objective of a fit, and the measurements that are held out. The arguments are
    those of `identify`, which this function checks."""
    _check_variables(model, variables)
    _check_terms(model, terms)
    limit = _checked_offset(offsets)
    level = None if noise is None else require_positive("The noise", noise, "m")
    given, others = _listed(measurements), _listed(() if held_out is None else held_out)
    check_different(given, others)
    fitted = _scenes(model, given, level, limit)
    if not fitted:
        what = "All measurements are held out" if others else "There are no measurements"
        raise InputError(f"{what}; give recordings or static tests to fit.")
    objective = FitObjective(
        problem=_problem(model, fitted, variables, terms),
        measured=fitted,
        largest_offset=limit,
        workers=workers,
    )
    _check_count(objective, bool(terms))
    _check_first(objective, fit_first)
    return objective, _scenes(model, others, level, 0.0)


# Checks


def _check_variables(model: Any, variables: Any) -> None:
    """Raise InputError for variables that are no parameters of the model."""
    require_kind("The model", model, Dynamics, "make one with ImplicitEuler(robot, dt=..., ...)")
    require_kind("The variables", variables, (list, tuple), "give a list such as ['body.E']")
    for variable in variables:
        require_kind("A variable", variable, (str, Variable), "give a name or pl.problem.Variable")
    names = [v.name if isinstance(v, Variable) else v for v in variables]
    if CONTROLS in names:
        raise InputError(
            "The controls are no variable of a fit; they are known from the measurements. Give "
            "them to the recordings."
        )
    known = [block.name for block in model.params.blocks]
    absent = [name for name in names if not _is_variable(name, known)]
    wanted = ", ".join(f"'{name}'" for name in dict.fromkeys([*known, *absent]))
    if absent and not known:
        raise InputError(
            f"The model has no parameters to fit. Make it with design=[{wanted}], as in "
            f"ImplicitEuler(robot, dt=0.01, design=[{wanted}])."
        )
    if absent:
        raise InputError(
            f"There is no parameter '{absent[0]}' in the model; {nearest(absent[0], known)} For a "
            f"further parameter of the robot, make the model with design=[{wanted}]."
        )


def _is_variable(name: str, known: Sequence[str]) -> bool:
    if name == INITIAL or name.startswith(f"{INITIAL}."):
        return True
    return any(one == name or one.startswith(f"{name}.") for one in known)


def _check_terms(model: Dynamics, terms: Any) -> None:
    require_kind("The terms", terms, (list, tuple), "give a list such as [FieldSmoothness(...)]")
    for term in terms:
        if not isinstance(term, ParameterTerm):
            raise InputError(
                f"One of the terms is a {type(term).__name__}, but a fit takes terms of the "
                "parameters alone, such as pl.problem.FieldSmoothness(variable='cells.E')."
            )
        term.attach_parameters(model)


def _checked_offset(offsets: Any) -> float:
    """Return the largest time offset [s]; 0 if offsets are no variables."""
    if offsets is False or offsets is None:
        return 0.0
    if offsets is True:
        raise InputError(
            "The largest time offset is not known; give it in seconds, such as offsets=0.1."
        )
    return require_positive("The largest time offset", offsets, "s")


def _check_first(objective: FitObjective, first: Any) -> None:
    """Raise InputError for an impossible number of measurements of a first fit."""
    if first is None:
        return
    n = objective.n_samples
    if not is_integer(first) or not 1 <= first < n:
        raise InputError(
            f"fit_first is {quoted(first)}, but there {'is' if n == 1 else 'are'} "
            f"{counted(n, 'measurement')}. Give a whole number from 1 to one less, or None to fit "
            "all at once."
        )


def _check_count(objective: FitObjective, has_terms: bool) -> None:
    """Raise InputError for fewer data than unknowns."""
    count, n = sum(objective.counts), len(objective.start)
    if count <= n and not has_terms:
        raise InputError(
            f"Too few data: {counted(count, 'measured coordinate')} for {counted(n, 'unknown')}. "
            "Give more recordings or markers, or fit fewer parameters."
        )


# Scenes


def _listed(measurements: Any) -> list[Measurement]:
    """Return one or several measurements as a list."""
    kinds = (MarkerRecording, StaticTest)
    given = [measurements] if isinstance(measurements, kinds) else measurements
    require_kind("The measurements", given, (list, tuple), "give a list of recordings")
    for one in given:
        require_kind(
            "A measurement",
            one,
            kinds,
            "take load_recordings(...), or make a pl.design.MarkerRecording or StaticTest",
        )
    return list(given)


def _scenes(
    model: Dynamics, given: Sequence[Measurement], noise: float | None, largest_offset: float
) -> tuple[MeasuredScene, ...]:
    """Return measurements on a model, with different names."""
    names = [one.name for one in given]
    return tuple(
        measured_scene(
            one,
            model,
            name=one.name if names.count(one.name) == 1 else f"{one.name} {k + 1}",
            noise=noise,
            largest_offset=largest_offset,
        )
        for k, one in enumerate(given)
    )


def _problem(
    model: Dynamics,
    measured: Sequence[MeasuredScene],
    variables: Sequence[str | Variable],
    terms: Sequence[Term],
) -> Problem:
    _check_noise(measured)
    scenes = [
        Scene(
            one.steps,
            terms=[ObservationTerm(observations=one.observations(0.0))],
            controls=one.controls,
            x0=one.x0,
            model=one.model,
            name=one.name,
        )
        for one in measured
    ]
    return Problem(model=model, scenes=scenes, variables=tuple(variables), terms=tuple(terms))


def _check_noise(measured: Sequence[MeasuredScene]) -> None:
    """Raise InputError if only some measurements have a known noise, because weights are the
    inverse of the noise."""
    known = [one.name for one in measured if one.known_noise]
    unknown = [one.name for one in measured if not one.known_noise]
    if known and unknown:
        raise InputError(
            f"The noise of {quoted(known[0])} is known, but that of {quoted(unknown[0])} is not, "
            "so they cannot be weighted. Give noise= to all measurements, or to none."
        )
