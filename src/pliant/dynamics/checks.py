"""What every stepping rule asks of its input."""

from typing import Any

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Step,
    finite_array,
    is_whole,
    quoted,
    require_kind,
    require_positive,
)

BEFORE = -1  # the index of the step that ends at time zero
MOST_STEPS = 10**7  # of a run, whose states are all kept
LAST = 10**15  # the largest index of a step: beyond, (k + 1) dt is not exact


def check_state(x: Array, size: int) -> Array:
    """A copy of `x` as a finite, contiguous float array, or a sentence."""
    return np.array(finite_array("The state (see model.initial_state())", x, (size,)))


def check_index(k: int) -> int:
    """Return the index of a step in time, BEFORE or 0 and up. Raises `InputError` otherwise."""
    if not is_whole(k) or not BEFORE <= k <= LAST:
        raise InputError(f"The index k of a step is {quoted(k)}; give a whole number, 0 or more.")
    return int(k)


def check_steps(steps: Any) -> int:
    """Return a number of steps. Raises `InputError` unless it is whole and can be simulated."""
    if not is_whole(steps) or not 1 <= steps <= MOST_STEPS:
        raise InputError(
            f"The number of steps is {quoted(steps)}; give a whole number, 1 or more "
            f"and at most {MOST_STEPS:g}."
        )
    return int(steps)


def check_model(model: Any) -> None:
    """Raise `InputError` unless `model` is a Dynamics."""
    require_kind("The model", model, Dynamics, "make one such as ImplicitEuler(robot, dt=...)")


def check_step(step: Step, model: Dynamics) -> None:
    """A sentence where a step has no derivative in a model."""
    if not step.status or step.tape is None or step.tape.owner is not model:
        why = (
            "is not one of this model's"
            if step.status
            else "failed: " + step.status.text.rstrip(".")
        )
        raise InputError(
            f"This step has no derivative, because it {why}. Linearise a step that this very "
            "model's step gave, with a status that is ok."
        )


def check_dt(dt: float) -> float:
    """[s] a time step that mechanics can use, or a sentence."""
    h = require_positive("The time step dt", dt, "s")
    if not 1e-9 <= h <= 1e4:
        raise InputError(
            f"The time step dt is {h:g} s; a soft robot needs one between 1e-9 and 1e4 s, "
            "usually about 0.01 s."
        )
    return h
