"""The periodic continuation of controls: a gait that works for one second usually works for the
next one."""

from collections.abc import Sequence

import numpy as np

from pliant.core import (
    Array,
    InputError,
    StepError,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_number,
)
from pliant.problem import Problem, SceneInputs

LISTS = (list, tuple, range, np.ndarray)  # what several numbers may be given as


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
    require_kind("The problem", problem, Problem, "make one with pl.Problem(...)")
    given = np.array(finite_array("The controls", controls, (None, problem.model.n_controls)))
    choices = continuation_choices(problem, periods, kept, len(given))
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


def continuation_choices(
    problem: Problem, periods: Sequence[int], kept: Sequence[float], n: int
) -> list[tuple[int, int]]:
    """Return the numbers of steps to keep of n, each with every period that is not longer. Raises
    InputError for arguments that do not fit."""
    if len(problem.scene_problems) != 1 or problem.scenes:
        raise InputError(
            "Controls are continued in problems with one scene; give a problem without scenes."
        )
    if not 1 <= n <= problem.steps:
        raise InputError(
            f"The controls have {n} steps and the problem {problem.steps}; continue controls of a "
            "shorter horizon."
        )
    require_kind("The periods", periods, LISTS, "give a list of numbers of steps")
    require_kind("The shares of controls", kept, LISTS, "give a list of numbers up to 1")
    for period in periods:
        if not is_integer(period) or period < 1:
            raise InputError(f"A period is {quoted(period)}; give a number of steps, 1 or more.")
    for share in kept:
        if not 0.0 < require_number("A share of the controls to keep", share, "") <= 1.0:
            raise InputError(
                f"A share of the controls to keep is {share:g}; give one above 0 and at most 1."
            )
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
