"""Optimisation of long trajectories: first a short horizon, then longer ones.

The gradient through many contacts becomes irregular with the horizon, and a longer simulation costs
more. So the controls of a short horizon are optimised first. Each longer horizon starts from their
periodic continuation: a gait that works for one second usually works for the next one. The weights
of a closed loop are the same in each horizon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError, require_kind
from pliant.optimisation.driver import (
    checked_iterations,
    checked_method,
    checked_start,
    checked_target,
    optimise,
)
from pliant.optimisation.methods import OptimisationMethod
from pliant.optimisation.periodic_continuation import (
    LISTS,
    continuation_choices,
    continue_periodically,
)
from pliant.optimisation.problem_objective import ProblemObjective
from pliant.optimisation.result import OPTIMISATION, OptimisationResult
from pliant.planners.checkpoints import Checkpoints
from pliant.problem import Problem
from pliant.problem.variables import CONTROLS
from pliant.progress import Progress
from pliant.store.files import check_path


def optimise_growing_horizon(
    problems: Sequence[Problem],
    methods: str | OptimisationMethod | Sequence[str | OptimisationMethod] = "adam",
    *,
    iterations: Sequence[int],
    periods: Sequence[int] = (1,),
    kept: Sequence[float] = (1.0,),
    start: Array | None = None,
    target: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
    checkpoints: Checkpoints = "all",
) -> tuple[OptimisationResult, ...]:
    """Optimise the same problem with longer and longer horizons. Return the result of each.

    Parameters
    ----------
    problems : the problem with each horizon, in ascending order of their steps. The controls of one
        scene are variables in each step, or a closed loop has none. Other variables keep their
        values from one horizon to the next.
    methods : one method for all horizons, or one for each, as in `optimise`
    iterations : number of iterations of each horizon
    periods, kept : numbers of steps and shares of controls, as in `continue_periodically`
    start : first scaled variables (n,) of the shortest horizon
    target : value of the last problem at which the optimisation ends
    seed, progress : as in `optimise`
    folder : each horizon has a folder in it, such as "50-steps"
    resume : continue from the checkpoints in `folder`; horizons without one are optimised
    checkpoints : what a gradient stores, as in `ProblemObjective`

    After Ctrl-C the last result is the interrupted one. Raises InputError as `optimise` does,
    StepError if no continuation can be simulated.
    """
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
    horizons.check_start(start, folder)
    results: list[OptimisationResult] = []
    for k in range(len(problems)):
        first = horizons.continued(k - 1, results[-1].z, k) if results else start
        results.append(horizons.optimise(k, first, folder))
        if results[-1].interrupted or not np.isfinite(results[-1].best.value):
            break
    return tuple(results)


@dataclass(frozen=True, kw_only=True, eq=False)
class GrowingHorizon:
    """The same problem with longer and longer horizons, and how each is optimised."""

    problems: Sequence[Problem]
    methods: Sequence[str | OptimisationMethod]
    iterations: Sequence[int]
    periods: Sequence[int]
    kept: Sequence[float]
    target: float | None
    seed: int
    resume: bool
    progress: Progress | bool | None
    checkpoints: Checkpoints

    @classmethod
    def of(
        cls, problems: Sequence[Problem], methods: Any, *, iterations: Sequence[int], **others: Any
    ) -> "GrowingHorizon":
        """Return the horizons. Raises InputError for arguments that do not fit."""
        require_kind("The problems", problems, (list, tuple), "give a list, one for each horizon")
        require_kind("The numbers of iterations", iterations, LISTS, "give one for each horizon")
        each = _method_of_each(methods, len(problems))
        _check_horizons(problems, each, iterations)
        made = cls(
            problems=problems,
            methods=[checked_method(method) for method in each],
            iterations=[checked_iterations(count) for count in iterations],
            **others,
        )
        checked_target(made.target)
        for shorter, longer in pairwise(problems):
            _check_same_variables(shorter, longer)
            if has_controls(longer):
                continuation_choices(longer, made.periods, made.kept, shorter.steps)
        _ = made.objectives  # raises InputError now, not after a horizon
        return made

    def check_start(
        self, start: Array | None, folder: str | Path | None, name: str = "The start"
    ) -> None:
        """Raise InputError for a start that does not fit the shortest horizon, and for a folder
        without `resume` that has the optimisation of any horizon."""
        checked_start(self.objectives[0], start, name)
        if folder is None:
            OPTIMISATION.check_folder(None, self.resume)
        elif not self.resume:
            for k in range(len(self.problems)):
                OPTIMISATION.check_folder(self.folder_of(k, folder), resume=False)

    def folder_of(self, k: int, folder: str | Path) -> Path:
        """Return the folder of horizon k."""
        return horizon_folder(folder, self.problems[k].steps)

    @cached_property
    def objectives(self) -> list[ProblemObjective]:
        """The objective of each horizon."""
        return [ProblemObjective(one, checkpoints=self.checkpoints) for one in self.problems]

    def optimise(
        self, k: int, start: Array | None, folder: str | Path | None
    ) -> OptimisationResult:
        """Optimise horizon k from scaled variables (n,), with checkpoints in a folder of its
        own."""
        place = None if folder is None else self.folder_of(k, folder)
        return optimise(
            self.objectives[k],
            self.methods[k],
            iterations=self.iterations[k],
            start=start,
            seed=self.seed,
            target=self.target if k + 1 == len(self.problems) else None,
            folder=place,
            resume=self.resume and place is not None and OPTIMISATION.exists(place),
            progress=self.progress,
        )

    def continued(self, k: int, z: Array, to: int, kept: Sequence[float] | None = None) -> Array:
        """Return the scaled variables of horizon `to` that continue those of horizon k. Raises
        StepError if no continuation of controls can be simulated."""
        shorter, longer = self.problems[k], self.problems[to]
        inputs = shorter.layout.inputs(z, 0)
        out = np.array(longer.layout.start)
        for before, after in zip(shorter.layout.blocks, longer.layout.blocks, strict=True):
            if after.kind == CONTROLS:
                v = continue_periodically(
                    longer,
                    inputs.controls,
                    periods=self.periods,
                    kept=self.kept if kept is None else kept,
                    inputs=inputs,
                ).ravel()
            else:
                v = before.physical(z)
            out[after.at] = after.scaled(v)
        lower, upper = longer.layout.bounds
        return np.clip(out, lower, upper)  # round-off


def horizon_folder(folder: str | Path, steps: int) -> Path:
    """Return the folder of a horizon with a number of steps."""
    return check_path("The folder", folder) / f"{steps}-steps"


def has_controls(problem: Problem) -> bool:
    """Return whether the controls of a problem are variables; a closed loop has none."""
    return any(block.kind == CONTROLS for block in problem.layout.blocks)


def _method_of_each(methods: Any, count: int) -> list[str | OptimisationMethod]:
    """Return the methods of all horizons, the same one for each if a single one is given."""
    single = isinstance(methods, str) or not isinstance(methods, Sequence)
    return [methods] * count if single else list(methods)


def _check_horizons(
    problems: Sequence[Problem], methods: Sequence[Any], iterations: Sequence[int]
) -> None:
    """Raise InputError unless there is a method and a number of iterations for each horizon, and
    the horizons grow."""
    for problem in problems:
        require_kind("A problem", problem, Problem, "make one with pl.Problem(...)")
    steps = [problem.steps for problem in problems]
    if not steps or len(methods) != len(steps) or len(iterations) != len(steps):
        raise InputError(
            f"There are {len(steps)} problems, {len(methods)} methods and {len(iterations)} "
            "numbers of iterations; give one of each for every horizon."
        )
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise InputError(f"The horizons have {steps} steps; give them in ascending order.")
    for problem in problems:
        free = [block for block in problem.layout.blocks if block.kind == CONTROLS]
        given = problem.model.n_controls > 0 and not free
        if problem.scenes or given or any(block.shares is not None for block in free):
            raise InputError(
                "A growing horizon needs one scene whose controls are variables in each step, or a "
                "closed loop without controls; give problems without scenes and knots."
            )


def _check_same_variables(shorter: Problem, longer: Problem) -> None:
    """Raise InputError unless two horizons have the same variables, besides the length of their
    controls."""
    sizes = [
        [
            (block.name, 0 if block.kind == CONTROLS else block.at.stop - block.at.start)
            for block in problem.layout.blocks
        ]
        for problem in (shorter, longer)
    ]
    if sizes[0] != sizes[1]:
        names = [", ".join(block.name for block in one.layout.blocks) for one in (shorter, longer)]
        raise InputError(
            f"The problem with {shorter.steps} steps has the variables {names[0]}, and that with "
            f"{longer.steps} steps {names[1]}, or other numbers of them. Give the same model and "
            "variables to each."
        )
