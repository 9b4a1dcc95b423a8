"""Errors of single steps on a surrogate, from exact steps and from residuals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import (
    Array,
    MapDynamics,
    PliantError,
    Refinable,
    Step,
    StepError,
    StepErrorEstimating,
    counted,
)

# A step that moves the robot by less than this part of its position has no relative error.
SMALLEST_MOTION = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class StepErrors:
    """Relative errors of n steps g~ from the states of a motion. NaN: not available."""

    state: Array  # (n,) |g~ - g| / |g| over positions and velocities [Jia2019, Table I]
    position: Array  # (n,) the same over positions alone
    increment: Array  # (n,) error of the positions, relative to their change in the step

    @classmethod
    def joined(cls, rows: Sequence[tuple[float, float, float]]) -> "StepErrors":
        """Return the errors (state, position, increment) of several steps as one object."""
        table = np.reshape(np.array(rows, dtype=float), (-1, 3))
        return cls(state=table[:, 0], position=table[:, 1], increment=table[:, 2])


def _relative_errors(
    dx: Array, dv: Array, x: Array, v: Array, moved: float
) -> tuple[float, float, float]:
    """Return the errors (state, position, increment) from differences and values of positions and
    velocities after a step, and the distance moved in it."""
    norm = lambda *parts: float(np.linalg.norm(np.concatenate(parts)))
    still = moved <= SMALLEST_MOTION * norm(x)
    return (
        norm(dx, dv) / norm(x, v),
        norm(dx) / norm(x),
        np.nan if still else norm(dx) / moved,
    )


def exact_step_error(
    model: MapDynamics, exact: MapDynamics, start: Array, step: Step, true: Step
) -> tuple[float, float, float]:
    """Return the errors (state, position, increment) of a step from a state against an exact step
    from the same state. Raises StepError if one of them failed."""
    for one in (step, true):
        if not one.status:
            raise StepError(one.status.text)
    x, v = exact.positions(true.x), exact.velocities(true.x)
    moved = float(np.linalg.norm(x - exact.positions(start)))
    return _relative_errors(model.positions(step.x) - x, model.velocities(step.x) - v, x, v, moved)


def residual_step_errors(
    model: Refinable, states: Array, steps: Sequence[Step]
) -> tuple[StepErrors | None, list[str]]:
    """Return the estimated errors of steps from states (n + 1, n_state), and notes about missing
    ones. The errors are None if the model has no estimate."""
    if not isinstance(model, StepErrorEstimating):
        return None, []
    rows, failures = [], []
    try:
        estimate = model.step_error_estimator()
    except PliantError as error:
        return None, [f"steps have no error estimate: {error}"]
    for k, step in enumerate(steps):
        try:
            dx, dv = estimate(step)
        except PliantError as error:
            failures.append(f"step {k}: {error}")
            rows.append((np.nan, np.nan, np.nan))
            continue
        x, v = model.positions(step.x), model.velocities(step.x)
        moved = float(np.linalg.norm(x - model.positions(states[k])))
        rows.append(_relative_errors(dx, dv, x, v, moved))
    notes = (
        [f"{counted(len(failures), 'step')} of {len(steps)} without error estimate; {failures[0]}"]
        if failures
        else []
    )
    return (StepErrors.joined(rows) if len(failures) < len(steps) else None), notes
