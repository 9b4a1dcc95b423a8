"""Constraints on the motion of the robot, as rows low <= slope du <= high over a change du of its
controls.

Strokes, obstacles and slack cables are linearised anew in every control step. A step may cover
only a fraction of the distance to a curved bound, since the row is only its tangent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pliant.actuators import AttachedCable
from pliant.bodies import COMPLEX_STEP
from pliant.contact import AttachedContact
from pliant.core import Array, AttachedParts, InputError, counted, is_integer, quoted, require_kind
from pliant.planners.inverse_control.control_ranges import SLACK
from pliant.planners.inverse_control.step_rule import Sensitivity
from pliant.planners.inverse_control.tolerances import Tolerances
from pliant.problem import StrokeLimit
from pliant.problem.stroke_limits import DisplacementActuator


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstraintRows:
    """Rows low <= slope du <= high with one name for messages."""

    name: str
    slope: Array  # (k, n)
    low: Array  # (k,)
    high: Array  # (k,)


class MotionConstraint(Protocol):
    """A constraint on the positions of the robot."""

    @property
    def name(self) -> str: ...
    @property
    def over_horizon(self) -> bool: ...  # or only at the end of the control step
    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows: ...
    def is_satisfied(self, before: Array, q: Array) -> bool: ...  # by a step from `before` to q


@dataclass(frozen=True, kw_only=True, eq=False)
class StrokeConstraint:
    """A bound on an actuator's displacement, or on its change in a control step."""

    parts: AttachedParts
    stroke: StrokeLimit
    term: DisplacementActuator
    tolerances: Tolerances

    @property
    def name(self) -> str:
        return self.stroke.label

    @property
    def over_horizon(self) -> bool:
        return not self.stroke.increment

    @property
    def irreversible(self) -> bool:
        """Whether the displacement may change in one direction only."""
        return self.stroke.increment and 0.0 in (self.stroke.lower, self.stroke.upper)

    def value(self, q: Array) -> float:
        """[m or m^3] the displacement of the actuator."""
        return float(self.term.displacement(self.parts.points(self.term, q)))

    @cached_property
    def _size(self) -> float:
        """[m or m^3] the length or volume at rest: the displacement that shrinks it to a point."""
        points = self.parts.points(self.term, self.parts.body.rest)
        return abs(float(self.term.displacement(0.0 * points)))

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """A little inside those of the stroke; a step without motion is always inside."""
        lower, upper = float(self.stroke.lower), float(self.stroke.upper)
        margin = min(self.tolerances.stroke_margin * self._size, 0.05 * (upper - lower))
        lower, upper = lower + margin, upper - margin
        return (min(lower, 0.0), max(upper, 0.0)) if self.stroke.increment else (lower, upper)

    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows:
        y = self.parts.points(self.term, sensitivity.q)
        dy = point_motions(self.term.weights, sensitivity, self.parts.dim)  # type: ignore[attr-defined]  # of an attached actuator
        slopes = np.array(
            [
                np.imag(self.term.displacement(y + 1j * COMPLEX_STEP * dy[:, :, j])) / COMPLEX_STEP
                for j in range(dy.shape[2])
            ]
        )
        now = 0.0 if self.stroke.increment else self.value(sensitivity.q)
        fraction = 1.0 if self.stroke.increment else self.tolerances.bound_approach
        low, high = (np.array([fraction * (side - now) - slopes[0]]) for side in self._bounds)
        return ConstraintRows(name=self.name, slope=slopes[None, 1:], low=low, high=high)

    def is_satisfied(self, before: Array, q: Array) -> bool:
        value = self.value(q) - (self.value(before) if self.stroke.increment else 0.0)
        spare = self.tolerances.round_off * self._size if self.irreversible else 0.0
        return bool(self.stroke.lower - spare <= value <= self.stroke.upper + spare)


@dataclass(frozen=True, kw_only=True, eq=False)
class ObstacleConstraint:
    """A contact's surface points stay outside its obstacle, by the contact's gap and normal."""

    parts: AttachedParts
    term: AttachedContact
    near: float  # [m] points further away cannot touch in a control step
    tolerances: Tolerances
    name: str = "an obstacle"
    over_horizon: bool = True

    def gaps(self, q: Array) -> Array:
        """(n_points,) [m]"""
        return self.term.gaps(self.parts.points(self.term, q))

    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows:
        gap, normal, _ = self.term.contact.evaluate(self.parts.points(self.term, sensitivity.q))
        at = np.flatnonzero(gap < self.near)
        dy = point_motions(self.term.weights[at], sensitivity, self.parts.dim)
        slope = np.einsum("ni,nij->nj", normal[at], dy)
        low = self.tolerances.bound_approach * (self.term.layer - gap[at]) - slope[:, 0]
        high = np.full(len(at), np.inf)
        return ConstraintRows(name=self.name, slope=slope[:, 1:], low=low, high=high)

    def is_satisfied(self, before: Array, q: Array) -> bool:
        return bool(np.all(self.gaps(q) >= np.minimum(0.0, self.gaps(before))))


@dataclass(frozen=True, kw_only=True, eq=False)
class TautCableConstraint:
    """A length-driven cable cannot push: its free length is at most that of its path."""

    parts: AttachedParts
    term: AttachedCable
    control: int
    name: str
    tolerances: Tolerances
    over_horizon: bool = False

    def taut_control(self, q: Array) -> float:
        """[-] the control at which the cable is just taut."""
        length = float(self.term.length(self.parts.points(self.term, q)))
        return length / self.term.rest_length * (1.0 - self.tolerances.round_off)

    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows:
        y, rest = self.parts.points(self.term, sensitivity.q), self.term.rest_length
        along = y / np.linalg.norm(y, axis=1)[:, None]
        dy = point_motions(self.term.weights, sensitivity, self.parts.dim)
        slopes = np.einsum("si,sij->j", along, dy)
        left = float(self.term.length(y)) - rest * float(u[self.control])
        n = int(left >= 0.0)  # no row while its motor still takes up slack
        slope = slopes[None, 1:] - rest * (free_controls == self.control)
        low, high = np.array([-left - slopes[0]]), np.array([np.inf])
        return ConstraintRows(name=self.name, slope=slope[:n], low=low[:n], high=high[:n])

    def is_satisfied(self, before: Array, q: Array) -> bool:
        return True


def point_motions(weights: sp.csr_matrix, sensitivity: Sensitivity, dim: int) -> Array:
    """(n_points, dim, 1 + n) the free motion of interpolated points, and that by each control."""
    motions = np.column_stack([sensitivity.free_motion, sensitivity.columns])
    return (weights @ motions.reshape(-1, dim * motions.shape[1])).reshape(
        weights.shape[0], dim, motions.shape[1]
    )


def stroke_constraints(
    parts: AttachedParts, strokes: Sequence[StrokeLimit], tolerances: Tolerances
) -> tuple[StrokeConstraint, ...]:
    """Return the constraints of stroke limits. Raises InputError if one does not fit."""
    require_kind("The strokes of inverse control", strokes, (list, tuple), "give a list")
    return tuple(_stroke_constraint(parts, stroke, tolerances) for stroke in strokes)


def _stroke_constraint(
    parts: AttachedParts, stroke: StrokeLimit, tolerances: Tolerances
) -> StrokeConstraint:
    require_kind(
        "One of the strokes", stroke, StrokeLimit, "give StrokeLimit(actuator=..., upper=...)"
    )
    term = parts.attached(stroke.actuator)[0]
    if not isinstance(term, DisplacementActuator):
        raise InputError(
            f"The actuator '{stroke.actuator}' has no displacement; bound its control with "
            "Limit(lower=..., upper=...), or its rate with order=1."
        )
    if stroke.time is not None:
        raise InputError(
            f"The stroke of '{stroke.actuator}' has a time, but inverse control applies it in "
            "every control step; remove the time."
        )
    if stroke.increment and not stroke.lower <= 0.0 <= stroke.upper:
        raise InputError(
            f"The bounds on {stroke.label} are {stroke.lower:g} to {stroke.upper:g}, so that it "
            "can never stand still; let them include zero."
        )
    return StrokeConstraint(parts=parts, stroke=stroke, term=term, tolerances=tolerances)


def taut_cable_constraints(
    parts: AttachedParts, free_controls: Array, tolerances: Tolerances
) -> tuple[TautCableConstraint, ...]:
    """Return the constraints of all length-driven cables that are not fixed."""
    named = zip(parts.robot.actuators, parts.potentials, strict=False)
    return tuple(
        TautCableConstraint(
            parts=parts,
            term=term,
            control=part.start,
            name=f"{name} {SLACK}",
            tolerances=tolerances,
        )
        for name, (term, part) in named
        if isinstance(term, AttachedCable) and term.stiff and part.start in free_controls
    )


def attached_contacts(parts: AttachedParts) -> list[AttachedContact]:
    """Return the contacts of a model in the order of the robot's."""
    return [term for term, _ in parts.potentials if isinstance(term, AttachedContact)]


def obstacle_constraints(
    parts: AttachedParts,
    obstacles: bool | Sequence[int],
    near: float,
    tolerances: Tolerances,
    leaned_on: Sequence[int] = (),
) -> tuple[ObstacleConstraint, ...]:
    """Return the constraints of all contacts but those that are `leaned_on` (True), none (False),
    or those of some indices."""
    require_kind(
        "The obstacles of inverse control",
        obstacles,
        (bool, list, tuple),
        "give True, False, or indices into the robot's contacts",
    )
    contacts = attached_contacts(parts)
    every = [j for j in range(len(contacts)) if j not in leaned_on] if obstacles else []
    chosen: Sequence[int] = every if isinstance(obstacles, bool) else obstacles
    for j in chosen:
        if not is_integer(j) or not 0 <= j < len(contacts):
            raise InputError(
                f"The obstacle is {quoted(j)}, but the robot has "
                f"{counted(len(contacts), 'contact')}; give True, False, or their indices, from 0."
            )
        if j in leaned_on:
            raise InputError(
                f"Contact {j} is an obstacle and has a force limit, but the robot cannot avoid it "
                "and lean on it; remove one of them."
            )
    return tuple(
        ObstacleConstraint(parts=parts, term=contacts[j], near=near, tolerances=tolerances)
        for j in chosen
    )
