"""The terms that a user writes: goals of effectors and states, rewards, and the effort of the
controls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, finite_array, is_whole, quoted, require_number
from pliant.problem.looks import (
    LeastSquares,
    Linear,
    Look,
    Loss,
    Quadratic,
    Smooth,
    check_analytic,
    difference,
)
from pliant.problem.paths import Path

UNIT = {"position": "m", "velocity": "m/s", "acceleration": "m/s^2"}


@runtime_checkable
class Term(Protocol):
    """A part of the objective, in the user's words; on a model and a horizon it becomes Looks or a
    Smooth."""

    def on(self, model: Dynamics, steps: int) -> Sequence[Look | Smooth]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """An effector is to be at a target [m], or move at [m/s], accelerate at [m/s^2], at chosen
    times [s] or at all times.

    Costs 1/2 weight |y - target|^2 at each of the times; without a time the sum over all steps is
    times dt, an integral.
    """

    effector: str
    target: ArrayLike | Path  # (dim,), one row for each time, or a function of time
    time: float | Sequence[float] | None = None  # [s]; None: at every step
    what: str = "position"
    weight: float = 1.0
    axes: str = "xyz"  # which coordinates count

    def __post_init__(self) -> None:
        check_target(f"The target of {quoted(self.effector)}", self.target)
        positive_weight(f"The goal of {quoted(self.effector)}", self.weight)

    def on(self, model: Dynamics, steps: int) -> list[Look]:
        rows, at, weight = _seen(self, f"The goal of '{self.effector}'", model, steps, self.axes)
        dim = model.effector_rows(self.effector).shape[0]
        targets = targets_at(f"The target of '{self.effector}'", self.target, at, model.dt, dim)[
            :, _axes(model, self.effector, self.axes)
        ]
        return [
            Look(
                name=self.effector,
                step=k,
                states=rows,
                unit=UNIT[self.what],
                loss=Quadratic(target=t, weight=weight),
            )
            for k, t in zip(at, targets, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reward:
    """The more an effector moves along a direction, the better: costs -weight direction . y, such
    as the speed of a hit."""

    effector: str
    direction: ArrayLike  # (dim,)
    time: float | Sequence[float] | None = None
    what: str = "velocity"
    weight: float = 1.0

    def __post_init__(self) -> None:
        name = f"The reward of {quoted(self.effector)}"
        check_target(f"{name}: the direction", self.direction)
        positive_weight(name, self.weight)

    def on(self, model: Dynamics, steps: int) -> list[Look]:
        name = f"The reward of '{self.effector}'"
        rows, at, weight = _seen(self, name, model, steps)
        direction = finite_array(f"{name}: the direction", self.direction, (rows[0].shape[0],))
        return [
            Look(name=self.effector, step=k, states=rows, loss=Linear(reward=weight * direction))
            for k in at
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class StateGoal:
    """The state, or one part of it such as 'position', is to be at a target; for models without
    effectors too."""

    target: ArrayLike  # (n,), or one row for each time
    part: str | None = None
    time: float | Sequence[float] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_target("The goal of the state", self.target)
        positive_weight("The goal of the state", self.weight)

    def on(self, model: Dynamics, steps: int) -> list[Look]:
        space, name = model.space, "The goal of the state"
        if self.part is not None and self.part not in space.parts:
            raise InputError(
                f"{name} is about '{self.part}'; this model's state has {', '.join(space.parts)}."
            )
        eye, ends = sp.identity(space.size, format="csr"), space.starts
        rows = (
            eye
            if self.part is None
            else eye[ends[space.parts.index(self.part)] : ends[space.parts.index(self.part) + 1]]
        )
        at = steps_at(name, self.time, steps, model.dt)
        weight = _weight_each(name, self.weight, self.time, model.dt)
        targets = targets_at(name, self.target, at, model.dt, rows.shape[0])
        return [
            Look(name="state", step=k, states=(rows,), loss=Quadratic(target=t, weight=weight))
            for k, t in zip(at, targets, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Residual:
    """1/2 weight |r(y)|^2 of any residual r of an effector's place, velocity or acceleration y
    (dim,), analytic in y; of several effectors y is (n dim,), one after the other. The cost is
    infinite where r is NaN; the first guess of a planner must lie where r is a number."""

    effector: str | tuple[str, ...]
    residual: Callable[[Array], Array]
    time: float | Sequence[float] | None = None
    what: str = "position"
    weight: float = 1.0

    def __post_init__(self) -> None:
        positive_weight(f"The residual of {quoted(self.effector)}", self.weight)

    def on(self, model: Dynamics, steps: int) -> list[Look]:
        name = f"The residual of '{called(self.effector)}'"
        rows, at, weight = _seen(self, name, model, steps)
        check_analytic(name, self.residual, rows[0].shape[0])
        loss: Loss = LeastSquares(residual=self.residual, weight=weight)
        return [Look(name=called(self.effector), step=k, states=rows, loss=loss) for k in at]


@dataclass(frozen=True, kw_only=True, eq=False)
class Effort:
    """The integral of 1/2 weight |d^order u / dt^order - reference|^2: order 0 the control itself,
    1 its rate, 2 its acceleration."""

    weight: ArrayLike = 1.0  # one number, or one for each control
    order: int = 0
    reference: ArrayLike = 0.0  # (n_controls,) or (steps, n_controls)

    def on(self, model: Dynamics, steps: int) -> list[Smooth]:
        if not is_whole(self.order) or self.order not in (0, 1, 2, 3):
            raise InputError(
                f"The order of an effort is {quoted(self.order)}; take 0 (the control), 1 (its "
                "rate), 2 "
                "(acceleration) or 3 (jerk)."
            )
        try:
            weight = np.broadcast_to(np.asarray(self.weight, float), (model.n_controls,))
            reference = np.broadcast_to(
                np.asarray(self.reference, float), (steps, model.n_controls)
            )
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                "The weight and reference of an effort must be a number or one for each of the "
                f"{model.n_controls} controls (the reference also for each of the {steps} steps)."
            ) from None
        if not (
            np.all(np.isfinite(weight)) and np.all(weight >= 0.0) and np.all(np.isfinite(reference))
        ):
            raise InputError(
                f"The weight of an effort is {weight.min():g}; weights must be finite and not "
                "negative, references finite."
            )
        return [
            Smooth(
                stencil=difference(self.order, model.dt),
                weight=model.dt * weight,
                reference=reference,
            )
        ]


def _seen(
    term: "Goal | Reward | Residual", name: str, model: Dynamics, steps: int, axes: str = "xyz"
) -> tuple[tuple[sp.csr_matrix, ...], list[int], float]:
    """(the rows of what a term sees of its effector, the steps at which it does, its weight at
    each)."""
    rows = effector_rows(model, term.effector, term.what, axes, name)
    return (
        rows,
        steps_at(name, term.time, steps, model.dt),
        _weight_each(name, term.weight, term.time, model.dt),
    )


def _weight_each(
    name: str, weight: float, time: float | Sequence[float] | None, dt: float
) -> float:
    """The weight at each of the times; without a time their sum is an integral."""
    return positive_weight(name, weight) * (dt if time is None else 1.0)


def _names(effector: str | tuple[str, ...]) -> tuple[str, ...]:
    each = (effector,) if isinstance(effector, str) else effector
    if (
        not isinstance(each, tuple | list)
        or not each
        or not all(isinstance(one, str) for one in each)
    ):
        raise InputError(
            f"The effector is {quoted(effector)}; give its name, or the names of several in "
            "a tuple."
        )
    return tuple(each)


def called(effector: str | tuple[str, ...]) -> str:
    """What one or several effectors are called in a sentence."""
    return ", ".join(_names(effector))


def effector_rows(
    model: Dynamics, effector: str | tuple[str, ...], what: str, axes: str, name: str
) -> tuple[sp.csr_matrix, ...]:
    """The matrices over x_k, x_{k-1}, ... that give the position, velocity or acceleration of an
    effector, or of several in turn, along some axes."""
    if what not in UNIT:
        raise InputError(
            f"{name} is about its '{what}'; choose position, velocity or acceleration."
        )
    if what != "position" and not any(model.space.rate):
        raise InputError(
            f"{name} is about its {what}, but this model has no velocity; take a rule with "
            "inertia such as ImplicitEuler."
        )
    place = sp.vstack(
        [model.effector_rows(one)[_axes(model, one, axes)] for one in _names(effector)],
        format="csr",
    )
    none = sp.csr_matrix((place.shape[0], model.space.size - place.shape[1]))
    if what == "position":
        return (sp.hstack([place, none], format="csr"),)
    rest = sp.csr_matrix(
        (place.shape[0], model.space.size - len(model.space.rate) * place.shape[1])
    )
    velocity = sp.hstack([*(rate * place for rate in model.space.rate), rest], format="csr")
    return (velocity,) if what == "velocity" else (velocity / model.dt, -velocity / model.dt)


def _axes(model: Dynamics, effector: str, axes: str) -> Array:
    dim = model.effector_rows(effector).shape[0]
    chosen = [a for a in range(dim) if "xyz"[a] in axes]
    if not chosen or set(axes) - set("xyz"):
        raise InputError(
            f"The axes of a goal are '{axes}'; write some of {', '.join('xyz'[:dim])}."
        )
    return np.array(chosen)


def positive_weight(name: str, weight: Any) -> float:
    number = require_number(f"{name}: its weight", weight, "")
    if not 0.0 <= number < np.inf:
        raise InputError(
            f"{name} has weight {number:g}; give a finite weight that is not negative."
        )
    return number


def check_target(name: str, target: ArrayLike | Path) -> None:
    """Raise `InputError` unless a target is a function, or finite numbers in one or two
    dimensions."""
    if callable(target):
        return
    try:
        many = np.ndim(target) == 2
    except (ValueError, OverflowError):  # ragged rows, huge integers
        raise InputError(
            f"{name} is {quoted(target)}; give numbers, or a row of as many for each time."
        ) from None
    finite_array(name, target, (None, None) if many else (None,))


def steps_at(name: str, time: float | Sequence[float] | None, steps: int, dt: float) -> list[int]:
    """The steps nearest to some times [s], or all."""
    if time is None:
        return list(range(1, steps + 1))
    times = finite_array(f"{name}: its time", [time] if np.ndim(time) == 0 else time, (None,), "s")
    if not times.size:
        raise InputError(f"{name} has an empty list of times; give one, or None for all.")
    at = np.rint(times / dt).astype(int)
    for t, k in zip(times, at, strict=True):
        if not 1 <= k <= steps:
            raise InputError(
                f"{name} is at t = {t:g} s, outside the horizon: {steps} steps of {dt:g} s end "
                f"at {steps * dt:g} s; the first time that can be asked for is {dt:g} s."
            )
    return [int(k) for k in at]


def targets_at(
    name: str, target: ArrayLike | Path, at: Sequence[int], dt: float, dim: int
) -> Array:
    """(times, dim) a target, rows of targets or a path, at some steps."""
    if callable(target):
        return np.array(
            [finite_array(f"{name} at t = {k * dt:g} s", target(k * dt), (dim,), "m") for k in at]
        )
    try:
        many = np.ndim(target) == 2
    except (ValueError, OverflowError):  # ragged rows, huge integers
        raise InputError(
            f"{name} is {quoted(target)}; give ({dim},) numbers, or a row of as many for each time."
        ) from None
    rows = finite_array(name, target, (len(at), dim) if many else (dim,))
    return rows if many else np.tile(rows, (len(at), 1))
