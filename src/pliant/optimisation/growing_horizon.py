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

from pliant.core import (
    Array,
    InputError,
    StepError,
    finite_array,
    is_integer,
    quoted,
    require_number,
)
from pliant.optimisation.driver import optimise
from pliant.optimisation.methods import OptimisationMethod
from pliant.optimisation.problem_objective import ProblemObjective
from pliant.optimisation.result import OPTIMISATION, OptimisationResult
from pliant.planners.checkpoints import Checkpoints
from pliant.problem import Problem, SceneInputs
from pliant.problem.variables import CONTROLS
from pliant.progress import Progress


def continue_periodically(
    problem: Problem,
    controls: Array,
    *,
    periods: Sequence[int],
    kept: Sequence[float] = (1.0,),
    inputs: SceneInputs | None = None,
) -> Array:
    """Return the controls (steps, n_controls) of a problem that begin with those of a shorter
    horizon and then repeat their last steps.

    Parameters
    ----------
    problem : the problem with the longer horizon and one scene
    controls : (n, n_controls) of the shorter horizon
    periods : numbers of steps to repeat. Each that is short enough is simulated, and the one with
        the lowest objective is taken.
    kept : shares of the controls to begin with, above 0 and at most 1, which are all simulated. The
        optimum of a short horizon may end with a fall forward that no gait can follow; a share
        below 1 leaves that end out.
    inputs : parameters and change of the initial state; None for those of the problem

    Raises InputError for arguments that do not fit, StepError if no continuation can be simulated.
    """
    given = np.array(finite_array("The controls", controls, (None, problem.model.n_controls)))
    choices = _choices(problem, periods, kept, len(given))
    inputs = problem.layout.inputs(problem.layout.start, 0) if inputs is None else inputs
    p = inputs.params
    before = _states(problem, given, problem.layout.initial_state(0, inputs), p, 0)
    best, found = np.inf, None
    for n, period in choices if before is not None else ():
        assert before is not None
        times = np.arange(problem.steps - n) % period
        both = np.concatenate([given[:n], given[n - period + times]])
        after = _states(problem, both[n:], before[n], p, n)
        if after is None:
            continue
        value = problem.value(np.array(before[:n] + after), both)
        if found is None or value < best:
            best, found = value, both
    if found is None:
        raise StepError(
            "No periodic continuation of the controls can be simulated. Give other periods, or "
            "optimise the shorter horizon with a smaller rate."
        )
    return found


def _choices(
    problem: Problem, periods: Sequence[int], kept: Sequence[float], n: int
) -> list[tuple[int, int]]:
    """Return the numbers of steps to keep of n, each with every period that is not longer."""
    if len(problem.scene_problems) != 1 or problem.scenes:
        raise InputError(
            "Controls are continued in problems with one scene; give a problem without scenes."
        )
    if not 1 <= n <= problem.steps:
        raise InputError(
            f"The controls have {n} steps and the problem {problem.steps}; continue controls of a "
            "shorter horizon."
        )
    for period in periods:
        if not is_integer(period) or period < 1:
            raise InputError(f"A period is {quoted(period)}; give a number of steps, 1 or more.")
    for share in kept:
        if not 0.0 < require_number("A share of the controls to keep", share, "") <= 1.0:
            raise InputError(f"A share of the controls to keep is {share:g}; give 1 or less.")
    firsts = dict.fromkeys(max(round(share * n), 1) for share in kept)
    choices = [(first, int(period)) for first in firsts for period in periods if period <= first]
    if not choices:
        raise InputError(f"No period is at most {n} steps, the length of the controls; give one.")
    return choices


def _states(
    problem: Problem, controls: Array, x: Array, p: Array | None, first: int
) -> list[Array] | None:
    """Return the states from x on, None if a step fails. `first` is the number of the first
    step."""
    states = [x]
    for k, u in enumerate(controls, start=first):
        step = problem.model.step(states[-1], u, p, k)
        if not step.status:
            return None
        states.append(step.x)
    return states


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
        each = _method_of_each(methods, len(problems))
        _check_horizons(problems, each, iterations)
        made = cls(problems=problems, methods=each, iterations=iterations, **others)
        for shorter, longer in pairwise(problems):
            if has_controls(longer):
                _choices(longer, made.periods, made.kept, shorter.steps)
        return made

    @cached_property
    def objectives(self) -> list[ProblemObjective]:
        """The objective of each horizon."""
        return [ProblemObjective(one, checkpoints=self.checkpoints) for one in self.problems]

    def optimise(
        self, k: int, start: Array | None, folder: str | Path | None
    ) -> OptimisationResult:
        """Optimise horizon k from scaled variables (n,), with checkpoints in a folder of its
        own."""
        steps = self.problems[k].steps
        place = None if folder is None else Path(folder) / f"{steps}-steps"
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
