"""The outcome of a control step, and a message about it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.core import Array
from pliant.planners.inverse_control.control_ranges import ControlRanges
from pliant.planners.inverse_control.control_state import (
    CONSTRAINT_VIOLATED,
    MANUAL,
    REACHED,
    UNREACHABLE,
    ControlState,
)
from pliant.planners.inverse_control.limit_points import LimitPoint
from pliant.planners.inverse_control.step_rule import StepFailure
from pliant.planners.inverse_control.task_qp import TaskQP

AT_REST = 0.01  # of the distance that counts as reached: a robot that moves less is at rest


def with_outcome(
    before: ControlState,
    after: ControlState,
    error: float,
    near: float,
    controls: ControlRanges,
    qp: TaskQP,
    z: Array,
    violated: Sequence[str],
) -> ControlState:
    """Return `after` with the outcome of a step to a target by the solution z of a QP; errors below
    `near` [m] count as reached."""
    if violated:
        return _violated(after, violated)
    if error <= near:
        return replace(after, outcome=REACHED, message="at the target")
    wanted = float(np.abs(qp.J @ z).max())  # a step that was shortened to nothing is no rest
    moved = max(wanted, float(np.abs(after.positions - before.positions).max()))
    bisects = after.limit_points != before.limit_points or any(
        point.unresolved for point in _active_limit_points(after)
    )
    if bisects or moved > AT_REST * near:
        return after
    at_limit, names = qp.active_constraints(z)
    indices = [int(controls.free_controls[j]) for j in at_limit]
    if controls.limited_by_rate(before.u, after.u)[indices].any():
        return replace(after, message="moving, limited by a rate")
    found = dict.fromkeys([*(controls.describe(j, after.u) for j in indices), *names])
    distance = f"{error:.3g} m" if error >= 1.0 else f"{1e3 * error:.3g} mm"
    limits = f", limited by {', '.join(found)}" if found else ""
    message = f"the target is out of reach: closest {distance} away{limits}"
    return replace(after, outcome=UNREACHABLE, message=message)


def with_manual_outcome(
    before: ControlState,
    after: ControlState,
    given: Array,
    near: float,
    controls: ControlRanges,
    violated: Sequence[str],
    active: Sequence[str],
) -> ControlState:
    """Return `after` with the outcome of a step with given controls; `active` names the
    constraints that limited it."""
    if violated:
        return _violated(after, violated)
    same = controls.tolerances.round_off
    if np.allclose(after.u, given, rtol=same, atol=0.0):
        return replace(after, outcome=MANUAL, message=MANUAL)
    unchanged = np.allclose(after.u, before.u, rtol=same, atol=0.0)
    if not unchanged or after.displacement > AT_REST * near:
        return after
    points = _active_limit_points(after)
    if points and not any(point.unresolved for point in points):
        message = StepFailure.NO_EQUILIBRIUM.value
        return replace(after, outcome=CONSTRAINT_VIOLATED, message=message)
    lower, upper = controls.step_bounds(after.u)
    at_limit = (given != after.u) & (np.where(given > after.u, upper, lower) == 0.0)
    limits = (controls.describe(j, after.u) for j in np.flatnonzero(at_limit).tolist())
    names = dict.fromkeys([*limits, *active])
    if not names:
        return after
    message = f"as close as the limits allow: limited by {', '.join(names)}"
    return replace(after, outcome=UNREACHABLE, message=message)


def _active_limit_points(state: ControlState) -> list[LimitPoint]:
    return [point for point in state.limit_points if point.is_active(state.u)]


def _violated(after: ControlState, names: Sequence[str]) -> ControlState:
    message = f"constraint violated: {', '.join(names)}"
    return replace(after, outcome=CONSTRAINT_VIOLATED, message=message)
