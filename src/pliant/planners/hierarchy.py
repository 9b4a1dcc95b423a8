"""Planning on surrogates that are refined between plans (paper 000 Algorithm 1), and the
certificate that goes with the plan."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from typing import Any, Generic, TypeVar

from pliant.core import (
    Array,
    InputError,
    StepError,
    is_whole,
    quoted,
    require_kind,
    require_positive,
)
from pliant.dynamics.latent import Embedded
from pliant.planners.certificate import Certificate, certify
from pliant.planners.choose import plan
from pliant.planners.options import Options, checked_options, reported
from pliant.planners.plan import Plan
from pliant.problem import Problem
from pliant.surrogate import SampleError

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, eq=False)
class Level(Generic[Result]):
    """One execution of the planner: on which cell, what it found, and what it took."""

    model: Embedded
    cell: float  # the largest of a cell's lengths, in units of the controls
    result: Result
    evaluations: int  # exact ones known after it
    seconds: float
    stopped: str = ""  # why there is no finer one, where one was wanted


def executions(cell: float, eta: float) -> int:
    """How often Algorithm 1 plans: R + 1 with R = ceil(log2(cell / eta))."""
    require_positive("The accuracy eta", eta, "units of the controls")
    if eta > cell:
        raise InputError(
            f"The accuracy eta = {eta:g} is larger than the cell {cell:g}; take a smaller eta, "
            "or a larger cell to start from."
        )
    return ceil(log2(cell / eta)) + 1


def refine(
    solve: Callable[[Embedded, Any], Result],
    model: Embedded,
    *,
    eta: float,
    guess: Any = None,
    following: Callable[[Result], Any] = lambda result: result,
) -> list[Level[Result]]:
    """Algorithm 1 for anything that is solved on a model from a guess: a motion plan, or the
    parameters of a feedback controller.

    solve(model, guess) is called on cells dx, dx / 2, ... down to eta; `following` makes the next
    guess of a result. Where a finer level cannot be simulated, the levels before stay, and the last
    says why.
    """
    levels: list[Level[Result]] = []
    count = executions(float(model.surrogate.size.max()), eta)
    for k in range(count):
        began = time.perf_counter()
        try:
            result = solve(model, guess)
        except (StepError, SampleError) as error:
            if not levels:
                raise
            levels[-1] = replace(
                levels[-1],
                stopped="the refinement stopped before cell "
                f"{float(model.surrogate.size.max()):g}: {error}",
            )
            break
        levels.append(
            Level(
                model=model,
                cell=float(model.surrogate.size.max()),
                result=result,
                evaluations=model.surrogate.evaluations,
                seconds=time.perf_counter() - began,
            )
        )
        guess = following(result)
        model = model.refined() if k + 1 < count else model
    return levels


@dataclass(frozen=True, kw_only=True, eq=False)
class Refined:
    """A motion plan by Algorithm 1: the plan of every level, and what the last is worth."""

    levels: list[Level[Plan]]
    certificate: Certificate

    @property
    def plan(self) -> Plan:
        """The last and finest."""
        return self.levels[-1].result

    @property
    def evaluations(self) -> int:
        """Exact ones that all levels stand on."""
        return self.levels[-1].evaluations

    @property
    def asked(self) -> int:
        """Shapes that all plans asked for, each of which would be an exact evaluation without the
        surrogate."""
        return sum(level.result.notes["asked"][-1][1] for level in self.levels)

    @property
    def iterations(self) -> int:
        return sum(len(level.result.history) - 1 for level in self.levels)

    @property
    def seconds(self) -> float:
        """For all plans, without the certificate."""
        return sum(level.seconds for level in self.levels)

    def show(self) -> None:
        """Print the plan and its certificate."""
        for level in self.levels:
            print(
                f"cell {level.cell:g}: {level.result.summary()}, {level.evaluations} exact "
                "evaluations"
            )
        print("\n".join(self.certificate.lines()))


@reported
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
) -> Refined:
    """A motion plan by Algorithm 1: a problem on a Latent model is planned on ever finer
    surrogates, each from the last plan, and the last plan is certified at some random `points` of
    it. The options' folder keeps one plan for each level. To go on with an interrupted run, plan
    again on a model with the same store: it evaluates nothing twice, and comes to the same plan bit
    for bit."""
    require_kind(
        "The problem",
        problem,
        Problem,
        "make one with pl.Problem(model=..., steps=..., terms=[...])",
    )
    if not isinstance(problem.model, Embedded):
        raise InputError(
            f"Refinement needs a latent model, not {type(problem.model).__name__}; make one with "
            "Latent(robot, dt=..., cell=...)."
        )
    options = checked_options(options)
    if not is_whole(points) or points < 1:
        raise InputError(
            f"The plan is to be certified at {quoted(points)} points; give a whole number, 1 or "
            "more."
        )
    executions(
        float(problem.model.surrogate.size.max()), eta
    )  # what is wrong with eta is a sentence now
    if options.resume:
        raise InputError(
            "A refined plan is resumed by its store of exact evaluations, not by its controls; "
            "plan again without resume."
        )
    count = 0

    def solve(model: Embedded, start: Array | None) -> Plan:
        nonlocal count
        asked: list[tuple[int, int]] = []

        def progress(what: str, done: int, total: int) -> None:
            asked.append((model.surrogate.evaluations, model.family.queries))  # type: ignore[attr-defined]
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
        found.notes["asked"] = asked  # (exact evaluations, shapes asked for) after each iteration
        return found

    levels = refine(
        solve, problem.model, eta=eta, guess=guess, following=lambda found: found.controls
    )
    certificate = certify(
        problem, [level.model for level in levels], levels[-1].result, points=points, seed=seed
    )
    if levels[-1].stopped:
        certificate = replace(certificate, notes=(*certificate.notes, levels[-1].stopped))
    return Refined(levels=levels, certificate=certificate)
