"""What every stepping rule asks of its input."""

import numpy as np

from pliant.core import Array, Dynamics, InputError, Step, finite_array, require_positive


def check_state(x: Array, size: int) -> Array:
    """A copy of `x` as a finite, contiguous float array, or a sentence."""
    return np.array(finite_array("The state (see model.initial_state())", x, (size,)))


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
