"""Bounds on contact forces in inverse control: the normal force, and a friction cone.

The force of a penalty contact is a function of the positions. So its bound is a row of the
quadratic program over the controls, and needs no unknown of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.bodies import COMPLEX_STEP
from pliant.contact import AttachedContact
from pliant.core import (
    Array,
    AttachedParts,
    InputError,
    counted,
    is_integer,
    quoted,
    require_kind,
    require_number,
)
from pliant.planners.inverse_control.motion_constraints import (
    ConstraintRows,
    attached_contacts,
    point_motions,
)
from pliant.planners.inverse_control.step_rule import Sensitivity
from pliant.planners.inverse_control.tolerances import Tolerances


@dataclass(frozen=True, kw_only=True, eq=False)
class ContactForceLimit:
    """Bounds on the force of a contact that the robot may lean on.

    Parameters
    ----------
    contact : index of the contact in the robot's `contacts`
    lower, upper : bounds on the sum of the normal forces over its points [N]
    friction_share : largest tangential over largest possible friction force of each point, between
        0 and 1, so that the contact sticks; None for no bound. It needs a SemiImplicit model and a
        contact with friction.

    Raises InputError without a bound or if lower > upper.

    >>> import pliant as pl
    >>> gentle = pl.planners.ContactForceLimit(contact=0, upper=2.0)
    """

    contact: int
    lower: float = 0.0
    upper: float = np.inf
    friction_share: float | None = None

    def __post_init__(self) -> None:
        if not is_integer(self.contact) or self.contact < 0:
            raise InputError(
                f"The contact of a force limit is {quoted(self.contact)}; give its index in the "
                "robot's contacts, from 0."
            )
        lower, upper = (
            require_number(f"A bound on the force of contact {self.contact}", value, "N")
            for value in (self.lower, self.upper)
        )
        if not 0.0 <= lower <= upper:
            raise InputError(
                f"The bounds on the force of contact {self.contact} are {lower:g} to {upper:g} N, "
                "but a contact only pushes; give 0 <= lower <= upper."
            )
        if self.friction_share is not None:
            share = require_number(
                f"The friction share of contact {self.contact}", self.friction_share, ""
            )
            if not 0.0 < share < 1.0:
                raise InputError(
                    f"The friction share of contact {self.contact} is {share:g}; give a number "
                    "between 0 and 1, such as 0.5."
                )
        elif lower == 0.0 and np.isinf(upper):
            raise InputError(
                f"The force limit of contact {self.contact} has no bound; give lower=..., "
                "upper=... or friction_share=... ."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalForceConstraint:
    """A bound on the sum of the normal forces of a contact."""

    parts: AttachedParts
    term: AttachedContact
    limit: ContactForceLimit
    tolerances: Tolerances
    over_horizon: bool = True

    @property
    def name(self) -> str:
        return f"the force of contact {self.limit.contact}"

    def value(self, q: Array) -> float:
        """[N] the sum of the normal forces."""
        return float(self.term.normal_force(self.parts.points(self.term, q)).sum())

    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows:
        y = self.parts.points(self.term, sensitivity.q)
        dy = point_motions(self.term.weights, sensitivity, self.parts.dim)
        slopes = np.array(
            [
                self.term.normal_force(y + 1j * COMPLEX_STEP * dy[:, :, j]).sum().imag
                / COMPLEX_STEP
                for j in range(dy.shape[2])
            ]
        )
        now, fraction = self.value(sensitivity.q), self.tolerances.bound_approach
        low, high = (
            np.array([fraction * (side - now) - slopes[0]])
            for side in (self.limit.lower, self.limit.upper)
        )
        return ConstraintRows(name=self.name, slope=slopes[None, 1:], low=low, high=high)

    def is_satisfied(self, before: Array, q: Array) -> bool:
        now, then = self.value(q), self.value(before)
        return min(self.limit.lower, then) <= now <= max(self.limit.upper, then)


@dataclass(frozen=True, kw_only=True, eq=False)
class StickingConstraint:
    """The friction of each touching point stays within a share of its friction cone.

    The regularised friction force at a tangential velocity v is mu f_n v / sqrt(|v|^2 + v_s^2). So
    the share s bounds |v| by v_s s / sqrt(1 - s^2): a pyramid within this cone bounds each
    tangential component.
    """

    parts: AttachedParts
    term: AttachedContact
    limit: ContactForceLimit
    dt: float  # [s] of a control step
    over_horizon: bool = False

    @property
    def name(self) -> str:
        return f"the friction of contact {self.limit.contact}"

    @property
    def slip(self) -> float:
        """[m] largest tangential motion of a touching point along each axis in a control step."""
        share = float(self.limit.friction_share or 0.0)
        speed = self.term.contact.slip_speed * share / np.sqrt(1.0 - share**2)
        return float(self.dt * speed / np.sqrt(self.parts.dim - 1))

    def _tangents(self, q: Array) -> tuple[Array, Array]:
        """Return the touching points (k,), and their tangents (k, dim - 1, dim)."""
        gap, normal, _ = self.term.contact.evaluate(self.parts.points(self.term, q))
        at = np.flatnonzero(gap < 0.0)
        frames = np.linalg.svd(normal[at][:, None, :], full_matrices=True)[2]
        return at, frames[:, 1:]

    def rows(self, sensitivity: Sensitivity, u: Array, free_controls: Array) -> ConstraintRows:
        at, tangents = self._tangents(sensitivity.q)
        dy = point_motions(self.term.weights[at], sensitivity, self.parts.dim)
        motion = np.einsum("ntd,ndj->ntj", tangents, dy).reshape(-1, dy.shape[2])
        low, high = -self.slip - motion[:, 0], self.slip - motion[:, 0]
        return ConstraintRows(name=self.name, slope=motion[:, 1:], low=low, high=high)

    def is_satisfied(self, before: Array, q: Array) -> bool:
        at, tangents = self._tangents(before)
        moved = self.parts.points(self.term, q) - self.parts.points(self.term, before)
        slips = np.abs(np.einsum("ntd,nd->nt", tangents, moved[at]))
        return bool(np.all(slips <= (1.0 + 1e-6) * self.slip))


def contact_force_constraints(
    parts: AttachedParts,
    limits: Sequence[ContactForceLimit],
    dt: float | None,
    tolerances: Tolerances,
) -> tuple[NormalForceConstraint | StickingConstraint, ...]:
    """Return the constraints of contact force limits. `dt` [s] is None for a model without
    velocity. Raises InputError if one does not fit the robot."""
    require_kind("The contact forces of inverse control", limits, (list, tuple), "give a list")
    out: list[NormalForceConstraint | StickingConstraint] = []
    for limit in limits:
        require_kind(
            "One of the contact forces",
            limit,
            ContactForceLimit,
            "give ContactForceLimit(contact=..., upper=...)",
        )
        term = _contact(parts, limit)
        if limit.lower > 0.0 or np.isfinite(limit.upper):
            out.append(
                NormalForceConstraint(parts=parts, term=term, limit=limit, tolerances=tolerances)
            )
        if limit.friction_share is not None:
            out.append(_sticking(parts, term, limit, dt))
    return tuple(out)


def _contact(parts: AttachedParts, limit: ContactForceLimit) -> AttachedContact:
    contacts = attached_contacts(parts)
    if limit.contact >= len(contacts):
        raise InputError(
            f"The force limit names contact {limit.contact}, but the robot has "
            f"{counted(len(contacts), 'contact')}; give an index, from 0."
        )
    return contacts[limit.contact]


def _sticking(
    parts: AttachedParts, term: AttachedContact, limit: ContactForceLimit, dt: float | None
) -> StickingConstraint:
    if dt is None:
        raise InputError(
            f"The force limit of contact {limit.contact} has a friction share, but friction does "
            "not act on a Quasistatic model; use SemiImplicit(robot, dt=...)."
        )
    if term.contact.friction == 0.0:
        raise InputError(
            f"The force limit of contact {limit.contact} has a friction share, but the contact has "
            "no friction; give Contact(friction=...)."
        )
    return StickingConstraint(parts=parts, term=term, limit=limit, dt=dt)
