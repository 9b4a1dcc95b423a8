"""What a robot must keep while it follows a target, as rows low <= slope du <= high over a change
du of its controls.

Strokes, obstacles and slack cables are looked at where the robot is and linearised anew at every
tick. What is near its bound may come nearer by a share of the way only, so that a curved bound is
not passed by its straight row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from pliant.actuators import AttachedCable
from pliant.bodies import TINY, Term
from pliant.contact import AttachedContact
from pliant.core import Array, InputError, is_whole, quoted, require_kind
from pliant.dynamics.equations import Equations
from pliant.planners.inverse.controls import SLACK
from pliant.planners.inverse.ticking import Answer
from pliant.problem import Stroke
from pliant.problem.strokes import Stroked

SHARE = 0.5  # of the way to a bound that one tick may take
HAIR = 1e-9  # of its length, by which a cable that was slack is stretched
INSIDE = 1e-4  # of the rest length or volume, by which a stroke is kept off its bound
ROUND_OFF = 1e-9  # of the rest length or volume: a robot that stands still has not moved


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """low <= slope du <= high; one name of what is kept for all of them."""

    name: str
    slope: Array  # (k, n)
    low: Array  # (k,)
    high: Array  # (k,)


def _ways(weights: sp.csr_matrix, answer: Answer, dim: int) -> Array:
    """(n_points, dim, 1 + k) how some points of the nodes go: freely, and by each control."""
    ways = np.column_stack([answer.free, answer.columns])
    return (weights @ ways.reshape(-1, dim * ways.shape[1])).reshape(
        weights.shape[0], dim, ways.shape[1]
    )


class Guard(Protocol):
    """Something to be kept."""

    @property
    def name(self) -> str: ...
    @property
    def ahead(self) -> bool: ...  # at every time to come, and not at the end of the tick alone?
    def rows(
        self, answer: Answer, u: Array, chosen: Array
    ) -> Rows: ...  # for changes of the chosen controls (indices)
    def kept(
        self, before: Array, q: Array
    ) -> bool: ...  # does a step from positions `before` to q keep it?


@dataclass(frozen=True, kw_only=True, eq=False)
class StrokeGuard:
    """A bound on an actuator's displacement, or on what it moves in a tick."""

    equations: Equations
    stroke: Stroke
    term: Stroked

    @property
    def name(self) -> str:
        return self.stroke.label

    @property
    def ahead(self) -> bool:
        return not self.stroke.increment

    def value(self, q: Array) -> float:
        """[m or m^3]"""
        return float(self.term.displacement(self._points(q)))

    def _points(self, q: Array) -> Array:
        return self.equations.points(self.term, q)  # type: ignore[arg-type]  # an attached actuator is a Term too

    @property
    def one_way(self) -> bool:
        """Whether what a tick has moved, no other may move back."""
        return self.stroke.increment and 0.0 in (self.stroke.lower, self.stroke.upper)

    @cached_property
    def _size(self) -> float:
        """[m or m^3] the length or volume at rest: what it takes to shrink the body to a point."""
        return abs(float(self.term.displacement(0.0 * self._points(self.equations.body.rest))))

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """A little within those of the stroke; a tick that moves nothing is within."""
        lower, upper = float(self.stroke.lower), float(self.stroke.upper)
        inside = min(INSIDE * self._size, 0.05 * (upper - lower))
        within = lower + inside, upper - inside
        return (min(within[0], 0.0), max(within[1], 0.0)) if self.stroke.increment else within

    def rows(self, answer: Answer, u: Array, chosen: Array) -> Rows:
        y, dy = self._points(answer.q), _ways(self.term.weights, answer, self.equations.dim)  # type: ignore[attr-defined]
        slopes = np.array(
            [
                np.imag(self.term.displacement(y + 1j * TINY * dy[:, :, j])) / TINY
                for j in range(dy.shape[2])
            ]
        )
        now = 0.0 if self.stroke.increment else self.value(answer.q)
        share = 1.0 if self.stroke.increment else SHARE
        lower, upper = (share * (bound - now) - slopes[0] for bound in self._bounds)
        return Rows(
            name=self.name, slope=slopes[None, 1:], low=np.array([lower]), high=np.array([upper])
        )

    def kept(self, before: Array, q: Array) -> bool:
        moved = self.value(q) - (self.value(before) if self.stroke.increment else 0.0)
        spare = ROUND_OFF * self._size if self.one_way else 0.0
        return bool(self.stroke.lower - spare <= moved <= self.stroke.upper + spare)


@dataclass(frozen=True, kw_only=True, eq=False)
class ObstacleGuard:
    """No point of a contact's surface goes into its obstacle, by the contact's own gap and
    normal."""

    equations: Equations
    term: AttachedContact
    near: float  # [m] what is further away cannot be reached in a tick
    name: str = "an obstacle"
    ahead: bool = True

    def gaps(self, q: Array) -> Array:
        """(n_points,) [m]"""
        return self.term.gaps(self.equations.points(self.term, q))

    def rows(self, answer: Answer, u: Array, chosen: Array) -> Rows:
        y = self.equations.points(self.term, answer.q)
        gap, normal, _ = self.term.contact.at(y)
        at = np.flatnonzero(gap < self.near)
        slope = np.einsum(
            "ni,nij->nj", normal[at], _ways(self.term.weights[at], answer, self.equations.dim)
        )
        low = SHARE * (self.term.layer - gap[at]) - slope[:, 0]
        return Rows(name=self.name, slope=slope[:, 1:], low=low, high=np.full(len(at), np.inf))

    def kept(self, before: Array, q: Array) -> bool:
        return bool(np.all(self.gaps(q) >= np.minimum(0.0, self.gaps(before))))


@dataclass(frozen=True, kw_only=True, eq=False)
class TautGuard:
    """A cable that is driven by its length pulls and does not push: its free length is at most the
    way through its points."""

    equations: Equations
    term: AttachedCable
    control: int
    name: str
    ahead: bool = False

    def edge(self, q: Array) -> float:
        """[-] the control at which it is just taut, by a hair."""
        return (
            float(self.term.length(self.equations.points(self.term, q)))
            / self.term.rest_length
            * (1.0 - HAIR)
        )

    def rows(self, answer: Answer, u: Array, chosen: Array) -> Rows:
        y, rest = self.equations.points(self.term, answer.q), self.term.rest_length
        along = y / np.linalg.norm(y, axis=1)[:, None]
        slopes = np.einsum("si,sij->j", along, _ways(self.term.weights, answer, self.equations.dim))
        left = float(self.term.length(y)) - rest * float(u[self.control])
        slope = slopes[None, 1:] - rest * (chosen == self.control)
        taut = left >= 0.0  # what the motor could not take up yet has no row
        return Rows(
            name=self.name,
            slope=slope[: int(taut)],
            low=np.array([-left - slopes[0]])[: int(taut)],
            high=np.full(int(taut), np.inf),
        )

    def kept(self, before: Array, q: Array) -> bool:
        return True


def stroke_guards(equations: Equations, strokes: Sequence[Stroke]) -> list[StrokeGuard]:
    """Those of some strokes, or a sentence."""
    require_kind("The strokes of inverse control", strokes, (list, tuple), "give a list")
    out = []
    for stroke in strokes:
        require_kind("One of the strokes", stroke, Stroke, "give Stroke(actuator=..., upper=...)")
        term: Term = equations.attached(stroke.actuator)[0]
        if not isinstance(term, Stroked):
            raise InputError(
                f"The actuator '{stroke.actuator}' has no displacement of its own; bound its "
                "control with Limit(lower=..., upper=...), or with order=1 its rate."
            )
        if stroke.time is not None:
            raise InputError(
                f"The stroke of '{stroke.actuator}' has a time, but inverse control keeps it at "
                "every tick; remove the time."
            )
        if stroke.increment and not stroke.lower <= 0.0 <= stroke.upper:
            raise InputError(
                f"The bounds on {stroke.label} are {stroke.lower:g} to {stroke.upper:g}, so that "
                "it can never stand still; let them include zero."
            )
        out.append(StrokeGuard(equations=equations, stroke=stroke, term=term))
    return out


def taut_guards(equations: Equations, chosen: Array) -> list[TautGuard]:
    """Those of all cables that are driven by their length and not held."""
    parts = zip(equations.robot.actuators, equations.terms, strict=False)
    cables = [
        (name, term, part.start)
        for name, (term, part) in parts
        if isinstance(term, AttachedCable) and term.stiff
    ]
    return [
        TautGuard(
            equations=equations,
            term=term,
            control=j,
            name=f"{name} {SLACK}",
        )
        for name, term, j in cables
        if j in chosen
    ]


def obstacle_guards(
    equations: Equations, chosen: bool | Sequence[int], near: float
) -> list[ObstacleGuard]:
    """Those of all contacts, or of some of them by their place in the robot's list, or of none."""
    require_kind(
        "The obstacles of inverse control",
        chosen,
        (bool, list, tuple),
        "give True, False, or places in the robot's list",
    )
    contacts = [term for term, _ in equations.terms if isinstance(term, AttachedContact)]
    numbers = range(len(contacts)) if chosen is True else () if chosen is False else tuple(chosen)
    for j in numbers:
        if not is_whole(j) or not 0 <= j < len(contacts):
            raise InputError(
                f"The obstacle {quoted(j)} is none of the robot's {len(contacts)} contacts; "
                "give True, False, or their places in its list, from 0."
            )
    return [ObstacleGuard(equations=equations, term=contacts[j], near=near) for j in numbers]
