"""Constraints on effectors: an analytic function and a convex set that must contain its value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.contact import Obstacle
from pliant.core import (
    Array,
    Dynamics,
    InputError,
    counted,
    finite_array,
    require_kind,
    require_number,
    require_positive,
)
from pliant.problem.observations import (
    Observation,
    QuadraticLoss,
    check_analytic,
    check_vjp,
    jacobian,
    weighted_hessian,
)
from pliant.problem.terms import effector_label, effector_rows, state_rows, steps_at_times


class ConvexSet(Protocol):
    """A closed convex set, defined by its projection."""

    def project(self, c: Array) -> Array: ...  # the nearest point of the set
    def projection_jacobian(self, c: Array) -> Array: ...  # (m, m)


@dataclass(frozen=True, kw_only=True, eq=False)
class Interval:
    """The set lower <= c <= upper; equal bounds define an equality constraint.

    `lower` and `upper` are numbers or arrays (m,). Raises InputError if lower > upper.

    >>> import pliant as pl
    >>> float(pl.Interval(lower=0.0).project(-0.5))
    0.0
    """

    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.lower, float) <= np.asarray(self.upper, float)):
            raise InputError(
                f"The interval from {self.lower} to {self.upper} is empty; the lower end must "
                "not exceed the upper."
            )

    def project(self, c: Array) -> Array:
        return np.clip(c, self.lower, self.upper)

    def projection_jacobian(self, c: Array) -> Array:
        return np.diag(((c > self.lower) & (c < self.upper)).astype(float))


@dataclass(frozen=True, kw_only=True, eq=False)
class Ball:
    """The set |c - centre| <= radius.

    `centre` is (m,); `radius` is positive and has the same unit. Raises InputError otherwise.

    >>> import numpy as np, pliant as pl
    >>> pl.Ball(centre=(0.0, 0.0), radius=1.0).project(np.array([2.0, 0.0]))
    array([1., 0.])
    """

    centre: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        finite_array("The centre of a ball", self.centre, (None,))
        require_positive("The radius of a ball", self.radius, "")

    def project(self, c: Array) -> Array:
        r = c - np.asarray(self.centre, float)
        size = float(np.linalg.norm(r))
        return c if size <= self.radius else np.asarray(self.centre, float) + self.radius / size * r

    def projection_jacobian(self, c: Array) -> Array:
        r = c - np.asarray(self.centre, float)
        size = float(np.linalg.norm(r))
        if size <= self.radius:
            return np.eye(len(c))
        n = r / size
        return self.radius / size * (np.eye(len(c)) - np.outer(n, n))


@runtime_checkable
class ConstraintTerm(Protocol):
    """A constraint as the user writes it. `attach` makes one ConstraintRow per step."""

    @property
    def label(self) -> str: ...  # its name in messages
    def attach(self, model: Dynamics, steps: int) -> Sequence["ConstraintRow"]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Constraint:
    """The condition that function(y) lies in a convex set.

    Parameters
    ----------
    effector : name of an effector, or a tuple of names; then y is (n dim,), one after the other
    inside : the set, such as Interval(lower=0.0) or Ball(centre=..., radius=...)
    function : analytic, (dim,) -> (m,); None for y itself
    time : one or several times [s]; None for every step
    quantity : "position" [m], "velocity" [m/s] or "acceleration" [m/s^2]

    NaN counts as outside the set. The initial guess of a planner must give numbers.
    Planners raise InputError if the function is not analytic or the set has another size.

    >>> import pliant as pl
    >>> above_ground = pl.Constraint(
    ...     effector="tip", function=lambda y: y[1:2], inside=pl.Interval(lower=0.0)
    ... )
    """

    effector: str | tuple[str, ...]
    inside: ConvexSet
    function: Callable[[Array], Array] | None = None
    time: float | Sequence[float] | None = None
    quantity: str = "position"

    @property
    def label(self) -> str:
        """Name of the constraint in messages."""
        return f"the constraint on the {self.quantity} of '{effector_label(self.effector)}'"

    def attach(self, model: Dynamics, steps: int) -> list["ConstraintRow"]:
        """Return one ConstraintRow for each time."""
        name = f"The constraint on '{effector_label(self.effector)}'"
        rows = effector_rows(model, self.effector, self.quantity, "xyz", name)
        function = self.function or (lambda y: y)
        check_set(name, self.inside, check_analytic(name, function, rows[0].shape[0]))
        at = steps_at_times(name, self.time, steps, model.dt)
        return constraint_rows(effector_label(self.effector), rows, function, self.inside, at)


@dataclass(frozen=True, kw_only=True, eq=False)
class StateConstraint:
    """The condition that function(y) of a part y of the state lies in a convex set, such as joint
    angles within their limits. It needs no effector.

    Parameters
    ----------
    part : a part of the state, such as "angles"
    inside : the set, such as Interval(lower=..., upper=...)
    function : analytic, (n,) -> (m,); None for y itself
    time : one or several times [s]; None for every step
    vjp : (y (n,), c (m,)) -> (n,), the transposed derivative of the function times c. Give it for
        large parts: without it the derivative takes n evaluations of the function.

    Planners raise InputError if the function is not analytic, the vjp is not its derivative or the
    set has another size.

    >>> import pliant as pl
    >>> within_limits = pl.problem.StateConstraint(
    ...     part="angles", inside=pl.problem.Interval(lower=-0.8, upper=0.8)
    ... )
    """

    part: str
    inside: ConvexSet
    function: Callable[[Array], Array] | None = None
    time: float | Sequence[float] | None = None
    vjp: Callable[[Array, Array], Array] | None = None

    @property
    def label(self) -> str:
        """Name of the constraint in messages."""
        return f"the constraint on the part '{self.part}' of the state"

    def attach(self, model: Dynamics, steps: int) -> list["ConstraintRow"]:
        """Return one ConstraintRow for each time."""
        name = f"The constraint on '{self.part}'"
        rows = state_rows(model, self.part, name)
        function, vjp = self.function or (lambda y: y), self.vjp
        if self.function is None:
            vjp = lambda y, c: c
        shape = (
            check_analytic(name, function, rows.shape[0])
            if vjp is None
            else check_vjp(name, function, vjp, rows @ model.initial_state())
        )
        check_set(name, self.inside, shape)
        at = steps_at_times(name, self.time, steps, model.dt)
        return constraint_rows(self.part, (rows,), function, self.inside, at, vjp)


def check_set(name: str, inside: ConvexSet, shape: tuple[int, ...]) -> None:
    """Raise InputError if a set does not contain vectors of this shape."""
    try:
        projected = np.shape(inside.project(np.zeros(shape)))
    except ValueError:
        projected = ()
    if projected != shape:
        raise InputError(
            f"{name}: its function returns {counted(shape[0], 'number')}, but its set has another "
            f"size; give the set one number, or {shape[0]}."
        )


def constraint_rows(
    name: str,
    rows: tuple[sp.csr_matrix, ...],
    function: Callable[[Array], Array],
    inside: ConvexSet,
    steps: Sequence[int],
    vjp: Callable[[Array, Array], Array] | None = None,
) -> list["ConstraintRow"]:
    """Return one ConstraintRow for each step."""
    zero = QuadraticLoss(target=np.zeros(rows[0].shape[0]), weight=0.0)
    return [
        ConstraintRow(
            observation=Observation(name=name, step=k, states=rows, loss=zero),
            function=function,
            inside=inside,
            vjp=vjp,
        )
        for k in steps
    ]


def keep_out(
    effector: str,
    zone: Obstacle,
    *,
    margin: float = 0.0,
    time: float | Sequence[float] | None = None,
) -> Constraint:
    """Return the constraint that an effector stays outside a zone.

    Parameters
    ----------
    effector : name of the effector
    zone : sphere(...), capsule(...) or plane(...), whose zone is the half space below it
    margin : smallest distance from the zone [m]
    time : one or several times [s]; None for every step

    Raises InputError if the zone is not an obstacle.

    >>> import pliant as pl
    >>> constraint = pl.keep_out("tip", pl.sphere(centre=(0.1, 0.0), radius=0.02), margin=0.005)
    """
    require_kind(
        "The forbidden zone", zone, Obstacle, "give a sphere(...), capsule(...) or plane(...)"
    )
    distance = require_number("The margin of a forbidden zone", margin, "m")
    return Constraint(
        effector=effector,
        function=lambda y: zone(y[None])[0],
        inside=Interval(lower=distance),
        time=time,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstraintRow:
    """A constraint at one step."""

    observation: Observation
    function: Callable[[Array], Array]
    inside: ConvexSet
    vjp: Callable[[Array, Array], Array] | None = None  # (y, c) -> J(y)^T c

    def jacobian(self, y: Array) -> Array:
        """Return the derivative (m, n) of the function."""
        if self.vjp is None:
            return jacobian(self.function, y)
        return np.array([self.vjp(y, c) for c in np.eye(len(self.function(y)))])

    def violation(self, y: Array) -> float:
        """Return the distance of function(y) from its set; infinite if function(y) has NaN."""
        c = self.function(y)
        if np.isnan(c).any():
            return np.inf
        return float(np.linalg.norm(c - self.inside.project(c)))


@dataclass(frozen=True, kw_only=True, eq=False)
class AugmentedLagrangianLoss:
    """The loss penalty/2 |z - P(z)|^2 of a constraint, z = function(y) + multiplier / penalty."""

    constraint_row: ConstraintRow
    multiplier: Array  # (m,)
    penalty: float

    def _shifted(self, y: Array) -> Array:
        return self.constraint_row.function(y) + self.multiplier / self.penalty

    def value(self, y: Array) -> float:
        z = self._shifted(y)
        e = z - self.constraint_row.inside.project(z)
        return 0.5 * self.penalty * float(e @ e)

    def gradient(self, y: Array) -> Array:
        force = self.next_multiplier(y)
        if not force.any():
            return np.zeros_like(y)
        if self.constraint_row.vjp is not None:
            return self.constraint_row.vjp(y, force)
        return jacobian(self.constraint_row.function, y).T @ force

    def gauss_newton_factor(self, y: Array) -> Array:
        z = self._shifted(y)
        projection = self.constraint_row.inside.projection_jacobian(z)
        outside = np.sqrt(self.penalty) * (np.eye(len(z)) - projection)
        if not outside.any():
            return np.zeros((0, len(y)))
        return outside @ self.constraint_row.jacobian(y)

    def hessian(self, y: Array) -> Array:
        function = self.constraint_row.function
        z, J = self._shifted(y), self.constraint_row.jacobian(y)
        projection = self.constraint_row.inside.projection_jacobian(z)
        inner = self.penalty * (np.eye(len(z)) - projection)
        return J.T @ inner @ J + weighted_hessian(function, y, self.next_multiplier(y))

    def next_multiplier(self, y: Array) -> Array:
        """Return the updated multiplier (m,) for the minimiser y of the inner problem."""
        z = self._shifted(y)
        return self.penalty * (z - self.constraint_row.inside.project(z))
