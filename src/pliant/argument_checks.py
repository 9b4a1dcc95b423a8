"""Argument checks that all models share."""

from typing import Any

import numpy as np

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Step,
    finite_array,
    is_integer,
    quoted,
    require_kind,
    require_positive,
)

INITIAL_STEP = -1  # the index of the step that ends at time zero
MAX_STEPS = 10**7  # of a simulation, which keeps all states
MAX_STEP_INDEX = 10**15  # beyond, the time (k + 1) dt is not exact


def check_state(x: Array, size: int) -> Array:
    """Return a copy of the state `x` (size,). Raises `InputError` if it is not finite."""
    return np.array(finite_array("The state (see model.initial_state())", x, (size,)))


def check_index(k: int) -> int:
    """Return the index of a step. Raises `InputError` unless it is INITIAL_STEP, 0 or larger."""
    if not is_integer(k) or not INITIAL_STEP <= k <= MAX_STEP_INDEX:
        raise InputError(f"The index k of a step is {quoted(k)}; give a whole number, 0 or more.")
    return int(k)


def check_steps(steps: Any) -> int:
    """Return a number of steps. Raises `InputError` unless it is whole and can be simulated."""
    if not is_integer(steps) or not 1 <= steps <= MAX_STEPS:
        raise InputError(
            f"The number of steps is {quoted(steps)}; give a whole number, 1 or more "
            f"and at most {MAX_STEPS:g}."
        )
    return int(steps)


def check_model(model: Any) -> None:
    """Raise `InputError` unless `model` is a Dynamics."""
    require_kind("The model", model, Dynamics, "make one such as ImplicitEuler(robot, dt=...)")


def check_step(step: Step, model: Dynamics) -> None:
    """Raise `InputError` if a step failed or belongs to another model: it has no derivative."""
    if not step.status or step.tape is None or step.tape.owner is not model:
        why = (
            "was made by another model"
            if step.status
            else "failed: " + step.status.text.rstrip(".")
        )
        raise InputError(
            f"This step has no derivative, because it {why}. Linearise a successful step that "
            "this model returned."
        )


def check_dt(dt: float) -> float:
    """Return the time step [s]. Raises `InputError` unless it is between 1e-9 and 1e4 s."""
    h = require_positive("The time step dt", dt, "s")
    if not 1e-9 <= h <= 1e4:
        raise InputError(
            f"The time step dt is {h:g} s; a soft robot needs one between 1e-9 and 1e4 s, "
            "usually about 0.01 s."
        )
    return h
