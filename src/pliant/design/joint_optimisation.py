"""Co-design: materials, shape and control of a robot are optimised together."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pliant.core import Dynamics, InputError, is_integer, quoted, require_kind
from pliant.design.design_files import read_checks, write_checks
from pliant.design.design_result import RobotDesign
from pliant.design.gradient_checks import check_result
from pliant.design.stable_design import with_stable_substeps
from pliant.optimisation import OptimisationMethod, ProblemObjective, optimise
from pliant.optimisation.result import OPTIMISATION
from pliant.problem import Problem, Term, Variable
from pliant.progress import Progress


def codesign(
    model: Dynamics,
    terms: Sequence[Term],
    variables: Sequence[str | Variable],
    *,
    steps: int = 0,
    method: str | OptimisationMethod = "adam",
    iterations: int = 100,
    tolerance: float = 1e-8,
    checks: int = 4,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
    workers: int | None = 1,
    **problem: Any,
) -> RobotDesign:
    """Optimise the design and the control of a robot together.

    Parameters
    ----------
    model : a model with design=[...], such as MaterialPoint(robot, ..., design=["cells.E"]); also
        the model of a ParametrisedRobot, or a ClosedLoop of one
    terms : objective terms, as in Problem
    variables : names or pl.problem.Variable objects: "cells.E", "soft.nu", "shape.length",
        "actuators.left.strength", "controls", "controller", ... Fields may have
        `groups=pl.design.field_groups(model, ...)`, for symmetric designs or few values.
    steps : number of time steps; not needed with scenes
    method, iterations, tolerance, seed, folder, resume, progress, workers : as in
        pl.optimisation.optimise
    checks : number of times that the gradient is compared with a difference quotient
    problem : further arguments of Problem: x0, limits, constraints, scenes, params, controls,
        previous_control

    Particles get substeps that are stable for every design within the bounds. Raises InputError for
    arguments that do not fit, and StepError from the report if the design cannot be simulated. The
    notes of the result warn of gradients that do not predict the change of the objective.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
    ...     divisions=(6, 1),
    ...     material=pl.Material(E=1e6, nu=0.3),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     actuators={"force": pl.actuators.Thrust(point=(0.2, 0.01), limits=(-1.0, 1.0))},
    ... )
    >>> design = pl.codesign(
    ...     pl.Quasistatic(beam, design=["body.E"]),
    ...     [pl.Goal(effector="tip", target=(0.19, 0.04)), pl.Effort(weight=1e-6)],
    ...     [pl.problem.Variable("body.E", lower=1e5, upper=2e6), "controls"],
    ...     steps=1,
    ...     method="lbfgsb",
    ... )
    >>> design.value < 1e-4
    True
    """
    count = _checked_count(checks, iterations)
    if resume and folder is None:
        raise InputError("There is no folder to resume from; give folder=...")
    made = with_stable_substeps(_problem(model, terms, variables, steps, problem))
    objective = ProblemObjective(made, workers=workers)
    options = {
        "method": method,
        "tolerance": tolerance,
        "seed": seed,
        "progress": progress,
    }
    with ExitStack() as stack:
        stack.callback(objective.close)
        if folder is not None:
            OPTIMISATION.check_folder(folder, resume)
        place = stack.enter_context(TemporaryDirectory()) if folder is None else folder
        return _optimised(objective, options, iterations, count, Path(place))


def _problem(model: Any, terms: Any, variables: Any, steps: Any, parts: dict[str, Any]) -> Problem:
    require_kind("The model", model, Dynamics, "make one with MaterialPoint(robot, ...)")
    require_kind("The terms", terms, (list, tuple), "give a list such as [Goal(...)]")
    require_kind("The variables", variables, (list, tuple), "give a list such as ['cells.E']")
    known = ("x0", "previous_control", "limits", "constraints", "params", "controls", "scenes")
    unknown = [name for name in parts if name not in known]
    if unknown:
        raise InputError(
            f"codesign has no argument '{unknown[0]}'; beside its own it takes {', '.join(known)}."
        )
    return Problem(
        model=model, terms=tuple(terms), variables=tuple(variables), steps=steps, **parts
    )


def _checked_count(checks: Any, iterations: Any) -> int:
    if not is_integer(checks) or checks < 0:
        raise InputError(f"The number of checks is {quoted(checks)}; give 0 or more.")
    if not is_integer(iterations) or iterations < 1:
        raise InputError(f"The number of iterations is {quoted(iterations)}; give 1 or more.")
    return min(int(checks), int(iterations))


def _optimised(
    objective: ProblemObjective,
    options: dict[str, Any],
    iterations: int,
    count: int,
    folder: Path,
) -> RobotDesign:
    """Optimise in as many parts as there are checks, each of which continues the one before."""
    ends = np.unique(np.linspace(0, iterations, max(count, 1) + 1).round().astype(int))[1:]
    checks = read_checks(folder) if OPTIMISATION.exists(folder) else []
    for end in ends:
        result = optimise(
            objective,
            iterations=int(end),
            folder=folder,
            resume=OPTIMISATION.exists(folder),
            **options,
        )
        if result.interrupted:
            break
        done = result.status.iterations
        if count and done not in [one.iteration for one in checks] and done <= end:
            checks.append(check_result(objective, result))
            write_checks(folder, checks)
        if result.last.finished:
            break
    return RobotDesign(result=result, problem=objective.problem, checks=tuple(checks))
