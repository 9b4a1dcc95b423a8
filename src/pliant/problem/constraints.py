"""Constraints: limits on the controls and their rates, which planners keep exactly, and (function,
set) pairs on effectors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, finite_array, quoted, require_positive
from pliant.problem.looks import (
    Look,
    Quadratic,
    bend,
    check_analytic,
    difference,
    jacobian,
)
from pliant.problem.terms import called, effector_rows, steps_at


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """lower <= d^order u / dt^order <= upper at every step: order 0 bounds the control, 1 its rate,
    2 its acceleration."""

    lower: ArrayLike = -np.inf  # one number, or one for each control
    upper: ArrayLike = np.inf
    order: int = 0

    def on(self, model: Dynamics) -> "Band":
        n = model.n_controls
        lower, upper = (_side(side, n) for side in (self.lower, self.upper))
        if (
            np.ndim(self.lower) == np.ndim(self.upper) == 0
            and np.all(lower == -np.inf)
            and np.all(upper == np.inf)
        ):
            raise InputError("A limit has no bound; give lower=..., upper=... or both.")
        bad = np.flatnonzero(~(lower <= upper))
        if bad.size:
            raise InputError(
                f"The limits of control {bad[0]} (order {self.order}) are {lower[bad[0]]:g} to "
                f"{upper[bad[0]]:g}, which nothing can satisfy; the lower must not exceed the "
                "upper."
            )
        if self.order not in (0, 1, 2):
            raise InputError(
                f"The order of a limit is {self.order}; take 0 (the control), 1 (its rate) or 2 "
                "(its acceleration)."
            )
        return Band(
            stencil=difference(self.order, model.dt), lower=lower, upper=upper, order=self.order
        )


def _side(side: ArrayLike, n: int) -> Array:
    """(n,) the lower or upper side of a limit of n controls, or a sentence."""
    try:
        numbers = np.asarray(side)
        if numbers.dtype.kind not in "iufO" or np.isnan(numbers := numbers.astype(float)).any():
            raise ValueError
    except (TypeError, ValueError, OverflowError):  # ragged lists, too
        raise InputError(
            f"A limit is {quoted(side)}; give a number, or one for each control, -inf or inf "
            "where there is none."
        ) from None
    if numbers.shape not in ((), (1,), (n,)):
        raise InputError(
            f"A limit has {numbers.size} numbers; give one, or one for each of the {n} controls."
        )
    return np.array(np.broadcast_to(numbers, (n,)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Band:
    """A Limit on a model: lower <= sum_j stencil_j u_{k-j} <= upper."""

    stencil: Array  # (order + 1,)
    lower: Array  # (n_controls,)
    upper: Array  # (n_controls,)
    order: int


class Region(Protocol):
    """A closed convex set, by its projection."""

    def project(self, c: Array) -> Array: ...  # the nearest point of the set
    def slope(self, c: Array) -> Array: ...  # (m, m) the projection's derivative


@dataclass(frozen=True, kw_only=True, eq=False)
class Interval:
    """lower <= c <= upper, each (m,) or a number; an equality where the two agree."""

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

    def slope(self, c: Array) -> Array:
        return np.diag(((c > self.lower) & (c < self.upper)).astype(float))


@dataclass(frozen=True, kw_only=True, eq=False)
class Ball:
    """|c - center| <= radius."""

    center: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        finite_array("The centre of a ball", self.center, (None,))
        require_positive("The radius of a ball", self.radius, "")

    def project(self, c: Array) -> Array:
        r = c - np.asarray(self.center, float)
        size = float(np.linalg.norm(r))
        return c if size <= self.radius else np.asarray(self.center, float) + self.radius / size * r

    def slope(self, c: Array) -> Array:
        r = c - np.asarray(self.center, float)
        size = float(np.linalg.norm(r))
        if size <= self.radius:
            return np.eye(len(c))
        n = r / size
        return self.radius / size * (np.eye(len(c)) - np.outer(n, n))


@runtime_checkable
class Constrains(Protocol):
    """What a plan must keep, in the user's words; on a model and a horizon it becomes Watches."""

    @property
    def label(self) -> str: ...  # its name in a sentence
    def on(self, model: Dynamics, steps: int) -> Sequence["Watch"]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Constraint:
    """function(y) lies in a set, y an effector's position, velocity or acceleration (dim,), at
    chosen times [s] or all; of several effectors y is (n dim,), one after the other. NaN counts as
    outside the set; the first guess of a planner must give numbers."""

    effector: str | tuple[str, ...]
    inside: Region
    function: Callable[[Array], Array] | None = None  # analytic, (dim,) -> (m,); None: y itself
    time: float | Sequence[float] | None = None
    what: str = "position"

    @property
    def label(self) -> str:
        return f"the constraint on the {self.what} of '{called(self.effector)}'"

    def on(self, model: Dynamics, steps: int) -> list["Watch"]:
        name = f"The constraint on '{called(self.effector)}'"
        rows = effector_rows(model, self.effector, self.what, "xyz", name)
        function = self.function or (lambda y: y)
        self._check_set(name, check_analytic(name, function, rows[0].shape[0]))
        at = steps_at(name, self.time, steps, model.dt)
        blank = Quadratic(target=np.zeros(rows[0].shape[0]), weight=0.0)
        return [
            Watch(
                look=Look(name=called(self.effector), step=k, states=rows, loss=blank),
                function=function,
                inside=self.inside,
            )
            for k in at
        ]

    def _check_set(self, name: str, found: tuple[int, ...]) -> None:
        """A sentence where the set is one of other vectors than the function gives."""
        try:
            projected = np.shape(self.inside.project(np.zeros(found)))
        except ValueError:
            projected = ()
        if projected != found:
            raise InputError(
                f"{name}: its function gives {found[0]} numbers, but its set is not one of such "
                f"vectors; give the set one number, or {found[0]}."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Watch:
    """A constraint at one step."""

    look: Look
    function: Callable[[Array], Array]
    inside: Region

    def violation(self, y: Array) -> float:
        """Return the distance of function(y) from its set; infinite if function(y) has NaN."""
        c = self.function(y)
        if np.isnan(c).any():
            return np.inf
        return float(np.linalg.norm(c - self.inside.project(c)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Penalty:
    """A constraint as a Loss of the augmented Lagrangian: penalty/2 |z - P(z)|^2 with z =
    function(y) + multiplier / penalty."""

    watch: Watch
    multiplier: Array  # (m,)
    penalty: float

    def _shifted(self, y: Array) -> Array:
        return self.watch.function(y) + self.multiplier / self.penalty

    def value(self, y: Array) -> float:
        z = self._shifted(y)
        e = z - self.watch.inside.project(z)
        return 0.5 * self.penalty * float(e @ e)

    def slope(self, y: Array) -> Array:
        force = self.next_multiplier(y)
        return jacobian(self.watch.function, y).T @ force if force.any() else np.zeros_like(y)

    def factor(self, y: Array) -> Array:
        z = self._shifted(y)
        outside = np.sqrt(self.penalty) * (np.eye(len(z)) - self.watch.inside.slope(z))
        return (
            outside @ jacobian(self.watch.function, y) if outside.any() else np.zeros((0, len(y)))
        )

    def hessian(self, y: Array) -> Array:
        z, J = self._shifted(y), jacobian(self.watch.function, y)
        inner = self.penalty * (np.eye(len(z)) - self.watch.inside.slope(z))
        return J.T @ inner @ J + bend(self.watch.function, y, self.next_multiplier(y))

    def next_multiplier(self, y: Array) -> Array:
        """(m,) what the multiplier becomes where y is the inner optimum."""
        z = self._shifted(y)
        return self.penalty * (z - self.watch.inside.project(z))


def check_together(bands: Sequence[Band], order: int) -> None:
    """A sentence where limits of one order leave a control nothing."""
    if bands:
        lower, upper = (
            np.max([band.lower for band in bands], axis=0),
            np.min([band.upper for band in bands], axis=0),
        )
        bad = np.flatnonzero(lower > upper)
        if bad.size:
            raise InputError(
                f"The limits of control {bad[0]} (order {order}) contradict each other: together "
                f"they ask for at least {lower[bad[0]]:g} and at most {upper[bad[0]]:g}, what "
                "its motor can do included; widen one."
            )


def checked_control(name: str, value: ArrayLike, bands: Sequence[Band]) -> Array:
    """A control (n,) that respects the limits of order 0, or a sentence."""
    n = len(bands[0].lower) if bands else np.size(value)
    u = finite_array(name, value, (n,))
    for band in bands:
        if band.order == 0:
            bad = np.flatnonzero(~((u >= band.lower) & (u <= band.upper)))
            if bad.size:
                k = bad[0]
                raise InputError(
                    f"{name} is {u[k]:g} for control {k}, outside its limits {band.lower[k]:g} "
                    f"to {band.upper[k]:g}; start within them."
                )
    return u
