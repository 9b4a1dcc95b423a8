"""Planning on surrogates that are refined between plans [Jia2019, Algorithm 1]."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from typing import Any, Generic, TypeVar

from pliant.core import (
    Array,
    InputError,
    Refinable,
    StepError,
    counted,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)
from pliant.planners.certificate import Certificate, certify
from pliant.planners.choose import plan
from pliant.planners.options import Options, checked_options, with_progress
from pliant.planners.plan_result import Plan
from pliant.problem import Problem
from pliant.surrogate import SampleError

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, eq=False)
class Level(Generic[Result]):
    """The result of one refinement level."""

    model: Refinable
    cell: float  # largest side of a grid cell, in the units of the exact map's inputs
    result: Result
    evaluations: int  # number of exact evaluations so far
    seconds: float
    stop_reason: str = ""  # why a finer level is missing


def show_levels(levels: Sequence[Level[Any]], lines: Sequence[str]) -> None:
    """Print the result of each level and the lines of the certificate."""
    for level in levels:
        print(
            f"cell {level.cell:g}: {level.result.summary()}, "
            f"{counted(level.evaluations, 'exact evaluation')}"
        )
    print("\n".join(lines))


def level_count(cell: float, eta: float) -> int:
    """Return the number of levels from cell to eta: ceil(log2(cell / eta)) + 1.

    Raises InputError if eta is not positive or is larger than the cell.
    """
    require_positive("The final cell size eta", eta, "units of the exact map's inputs")
    if eta > cell:
        raise InputError(
            f"The final cell size eta = {eta:g} is larger than the first cell {cell:g}; take a "
            "smaller eta, or a larger first cell."
        )
    return ceil(log2(cell / eta)) + 1


def refine(
    solve: Callable[[Any, Any], Result],
    model: Refinable,
    *,
    eta: float,
    guess: Any = None,
    next_guess: Callable[[Result], Any] = lambda result: result,
) -> list[Level[Result]]:
    """Solve a problem on increasingly fine surrogates [Jia2019, Algorithm 1].

    Parameters
    ----------
    solve : function (model, guess) -> result, such as a planner or the training of a controller
    model : the model with the first grid; any Refinable, such as Latent or a closed loop of it
    eta : final cell size, in the units of the exact map's inputs (for Latent, those of the
        controls)
    guess : guess for the first level
    next_guess : function result -> guess for the next level

    Each level halves the cell. If a finer level cannot be simulated, the coarser levels are
    returned, and the last has a `stop_reason`. Raises InputError if the model has no surrogate.
    """
    model = _refinable(model)
    levels: list[Level[Result]] = []
    count = level_count(float(model.surrogate.size.max()), eta)
    for k in range(count):
        start_time = time.perf_counter()
        try:
            result = solve(model, guess)
        except (StepError, SampleError) as error:
            if not levels:
                raise
            levels[-1] = replace(
                levels[-1],
                stop_reason="the refinement stopped before cell "
                f"{float(model.surrogate.size.max()):g}: {error}",
            )
            break
        levels.append(
            Level(
                model=model,
                cell=float(model.surrogate.size.max()),
                result=result,
                evaluations=model.surrogate.evaluations,
                seconds=time.perf_counter() - start_time,
            )
        )
        guess = next_guess(result)
        model = model.refined() if k + 1 < count else model
    return levels


def _refinable(model: Any) -> Refinable:
    """Return the model. Raises InputError if it has no surrogate."""
    if not isinstance(model, Refinable):
        raise InputError(
            f"Refinement needs a model on a surrogate, not {type(model).__name__}; make one with "
            "Latent(robot, dt=..., cell=...)."
        )
    return model


@dataclass(frozen=True, kw_only=True, eq=False)
class RefinedPlan:
    """The plans of all refinement levels and the certificate of the last one."""

    levels: list[Level[Plan]]
    certificate: Certificate

    @property
    def plan(self) -> Plan:
        """The plan of the finest level."""
        return self.levels[-1].result

    @property
    def evaluations(self) -> int:
        """Number of exact evaluations of all levels."""
        return self.levels[-1].evaluations

    @property
    def queries(self) -> int:
        """Number of values that all levels took from surrogates; each is an exact evaluation
        without them."""
        return sum(level.result.notes["queries"][-1][1] for level in self.levels)

    @property
    def simulated_steps(self) -> int:
        """Number of simulated steps of all levels: those of the initial guess and of each
        iteration. [Jia2019] counts one evaluation per step. Rejected trial steps of a line search
        are not counted."""
        return sum(len(level.result.history) * len(level.result.controls) for level in self.levels)

    @property
    def iterations(self) -> int:
        """Number of planner iterations of all levels."""
        return sum(len(level.result.history) - 1 for level in self.levels)

    @property
    def seconds(self) -> float:
        """Time of all plans, without the certificate."""
        return sum(level.seconds for level in self.levels)

    def show(self) -> None:
        """Print the plan of each level and the certificate."""
        show_levels(self.levels, self.certificate.lines())


@with_progress
def plan_refined(
    problem: Problem,
    *,
    eta: float,
    method: str | None = None,
    guess: Array | None = None,
    options: Options | None = None,
    points: int = 6,
    seed: int = 0,
    **kwargs: Any,
) -> RefinedPlan:
    """Plan a problem on increasingly fine surrogates [Jia2019, Algorithm 1].

    Each level halves the grid cell and starts from the plan before. The last plan gets error
    estimates.

    Parameters
    ----------
    problem : a Problem whose model has a surrogate: Latent(...) or any other Refinable
    eta : final cell size, in the units of the exact map's inputs
    method, guess, options, kwargs : as in `plan`; options.folder gets one folder for each level
    points : number of random steps that the certificate checks exactly
    seed : of the random steps

    An interrupted run continues if it is called again with a model on the same store. It repeats
    no exact evaluation and returns the same plan bit for bit. Raises InputError for another model
    or a bad eta.
    """
    require_kind(
        "The problem",
        problem,
        Problem,
        "make one with pl.Problem(model=..., steps=..., terms=[...])",
    )
    problem.check_plannable()
    model = _refinable(problem.model)
    options = checked_options(options)
    if not is_integer(points) or points < 1:
        raise InputError(
            f"The certificate was asked for {quoted(points)} points; give a whole number, 1 or "
            "more."
        )
    level_count(float(model.surrogate.size.max()), eta)  # raises for a bad eta
    if options.resume:
        raise InputError(
            "A refined plan is resumed by its store of exact evaluations, not by its controls; "
            "plan again with the same store and without resume."
        )
    count = 0

    def solve(model: Refinable, start: Array | None) -> Plan:
        nonlocal count
        queries: list[tuple[int, int]] = []

        def progress(what: str, done: int, total: int) -> None:
            queries.append((model.surrogate.evaluations, model.queries))
            options.report(what, done, total)

        folder = None if options.folder is None else Path(options.folder) / f"level-{count}"
        count += 1
        found = plan(
            replace(problem, model=model),
            method=method,
            guess=start,
            options=replace(options, folder=folder, progress=progress),
            **kwargs,
        )
        if found.interrupted:
            raise KeyboardInterrupt
        found.notes["queries"] = queries  # (exact evaluations, queries) at each iteration
        return found

    levels = refine(solve, model, eta=eta, guess=guess, next_guess=lambda found: found.controls)
    certificate = certify(
        problem, [level.model for level in levels], levels[-1].result, points=points, seed=seed
    )
    if levels[-1].stop_reason:
        certificate = replace(certificate, notes=(*certificate.notes, levels[-1].stop_reason))
    return RefinedPlan(levels=levels, certificate=certificate)
