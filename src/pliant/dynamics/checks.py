"""What every stepping rule asks of its input."""

import numpy as np

from pliant.core import Array, InputError, Step, finite_array, require_positive


def check_state(x: Array, size: int) -> Array:
    """A copy of `x` as a finite, contiguous float array, or a sentence."""
    return np.array(finite_array("The state (see model.initial_state())", x, (size,)))


def check_step(step: Step, tape: type) -> None:
    """A sentence where a step has no derivative."""
    if not step.status or not isinstance(step.tape, tape):
        why = "carries no tape" if step.status else "failed: " + step.status.text.rstrip(".")
        raise InputError(f"This step has no derivative, because it {why}. Linearise a step that model.step gave and whose status is ok.")


def check_dt(dt: float) -> float:
    """[s] a time step that mechanics can use, or a sentence."""
    h = require_positive("The time step dt", dt, "s")
    if not 1e-9 <= h <= 1e4:
        raise InputError(f"The time step dt is {h:g} s; a soft robot needs one between 1e-9 and 1e4 s, usually about 0.01 s.")
    return h
