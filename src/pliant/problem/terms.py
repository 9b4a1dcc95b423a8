"""Objective terms that a user writes: goals, rewards, residuals and control effort."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    counted,
    finite_array,
    is_integer,
    quoted,
    require_number,
)
from pliant.problem.observations import (
    ControlCost,
    LeastSquaresLoss,
    LinearLoss,
    Loss,
    Observation,
    QuadraticLoss,
    backward_difference,
    check_analytic,
)
from pliant.problem.paths import Path

QUANTITY_UNITS = {"position": "m", "velocity": "m/s", "acceleration": "m/s^2"}


@runtime_checkable
class Term(Protocol):
    """A part of the objective as the user writes it.

    `attach` makes observations or control costs for a model and a number of steps.
    """

    def attach(self, model: Dynamics, steps: int) -> Sequence[Observation | ControlCost]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """A target for the position, velocity or acceleration y of an effector.

    The cost is 1/2 weight |y - target|^2 at each time. Without a time it is the integral over
    the horizon: the sum over all steps times dt.

    Parameters
    ----------
    effector : name of the effector
    target : (dim,), (times, dim) or a function of time [s] that returns (dim,)
    time : one or several times [s]; None for every step
    quantity : "position" [m], "velocity" [m/s] or "acceleration" [m/s^2]
    weight : finite, not negative
    axes : the coordinates that count, such as "xy"

    Raises InputError for a target or weight that is not finite.

    >>> import pliant as pl
    >>> reach = pl.Goal(effector="tip", target=(0.05, 0.10), time=0.5, weight=10.0)
    """

    effector: str
    target: ArrayLike | Path
    time: float | Sequence[float] | None = None
    quantity: str = "position"
    weight: float = 1.0
    axes: str = "xyz"

    def __post_init__(self) -> None:
        check_target(f"The target of {quoted(self.effector)}", self.target)
        check_weight(f"The goal of {quoted(self.effector)}", self.weight)

    def attach(self, model: Dynamics, steps: int) -> list[Observation]:
        """Return one Observation for each time."""
        rows, at, weight = _effector_observation(
            self, f"The goal of '{self.effector}'", model, steps, self.axes
        )
        dim = model.effector_rows(self.effector).shape[0]
        targets = targets_at_steps(
            f"The target of '{self.effector}'", self.target, at, model.dt, dim
        )[:, _axis_indices(model, self.effector, self.axes)]
        return [
            Observation(
                name=self.effector,
                step=k,
                states=rows,
                unit=QUANTITY_UNITS[self.quantity],
                loss=QuadraticLoss(target=t, weight=weight),
            )
            for k, t in zip(at, targets, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reward:
    """The linear cost -weight direction . y for the motion y of an effector along a direction.

    Parameters
    ----------
    effector : name of the effector
    direction : (dim,)
    time : one or several times [s]; None for every step
    quantity : "position" [m], "velocity" [m/s] or "acceleration" [m/s^2]
    weight : finite, not negative

    Raises InputError for a direction or weight that is not finite.

    >>> import pliant as pl
    >>> fast = pl.Reward(effector="tip", direction=(1.0, 0.0), time=0.5)  # speed along x
    """

    effector: str
    direction: ArrayLike
    time: float | Sequence[float] | None = None
    quantity: str = "velocity"
    weight: float = 1.0

    def __post_init__(self) -> None:
        name = f"The reward of {quoted(self.effector)}"
        check_target(f"{name}: the direction", self.direction)
        check_weight(name, self.weight)

    def attach(self, model: Dynamics, steps: int) -> list[Observation]:
        """Return one Observation for each time."""
        name = f"The reward of '{self.effector}'"
        rows, at, weight = _effector_observation(self, name, model, steps)
        direction = finite_array(f"{name}: the direction", self.direction, (rows[0].shape[0],))
        return [
            Observation(
                name=self.effector, step=k, states=rows, loss=LinearLoss(reward=weight * direction)
            )
            for k in at
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class StateGoal:
    """A target for the state or one part of it. It needs no effector.

    Parameters
    ----------
    target : (n,) or (times, n)
    part : a part of the state, such as "position"; None for the whole state
    time : one or several times [s]; None for every step
    weight : finite, not negative

    Raises InputError for a target or weight that is not finite.

    >>> import pliant as pl
    >>> at_rest = pl.StateGoal(part="velocity", target=(0.0, 0.0), time=1.0)
    """

    target: ArrayLike
    part: str | None = None
    time: float | Sequence[float] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_target("The goal of the state", self.target)
        check_weight("The goal of the state", self.weight)

    def attach(self, model: Dynamics, steps: int) -> list[Observation]:
        """Return one Observation for each time."""
        name = "The goal of the state"
        rows = state_rows(model, self.part, name)
        at = steps_at_times(name, self.time, steps, model.dt)
        weight = _weight_each(name, self.weight, self.time, model.dt)
        targets = targets_at_steps(name, self.target, at, model.dt, rows.shape[0])
        return [
            Observation(
                name="state", step=k, states=(rows,), loss=QuadraticLoss(target=t, weight=weight)
            )
            for k, t in zip(at, targets, strict=True)
        ]


def state_rows(model: Dynamics, part: str | None, name: str) -> sp.csr_matrix:
    """Return the matrix that selects a part of the state, or all of it. Raises InputError if the
    model's state has no such part."""
    space = model.space
    if part is not None and part not in space.parts:
        raise InputError(
            f"{name} is about '{part}'; this model's state has {', '.join(space.parts)}."
        )
    eye, ends = sp.identity(space.size, format="csr"), space.starts
    if part is None:
        return eye
    at = space.parts.index(part)
    return eye[ends[at] : ends[at + 1]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Residual:
    """The cost 1/2 weight |r(y)|^2 of an analytic residual r of an effector's motion y.

    y is (dim,); of several effectors it is (n dim,), one after the other. The cost is infinite
    if r is NaN. The initial guess of a planner must give numbers.
    """

    effector: str | tuple[str, ...]
    residual: Callable[[Array], Array]
    time: float | Sequence[float] | None = None
    quantity: str = "position"
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(f"The residual of {quoted(self.effector)}", self.weight)

    def attach(self, model: Dynamics, steps: int) -> list[Observation]:
        """Return one Observation for each time."""
        label = effector_label(self.effector)
        name = f"The residual of '{label}'"
        rows, at, weight = _effector_observation(self, name, model, steps)
        check_analytic(name, self.residual, rows[0].shape[0])
        loss: Loss = LeastSquaresLoss(residual=self.residual, weight=weight)
        return [Observation(name=label, step=k, states=rows, loss=loss) for k in at]


@dataclass(frozen=True, kw_only=True, eq=False)
class Effort:
    """The integral of 1/2 weight |d^order u / dt^order - reference|^2 over the horizon.

    Parameters
    ----------
    weight : float or (n_controls,), finite and not negative
    order : 0 for the control, 1 for its rate, 2 for its acceleration, 3 for its jerk
    reference : float, (n_controls,) or (steps, n_controls)

    Planners raise InputError if these do not fit the model.

    >>> import pliant as pl
    >>> smooth = pl.Effort(weight=1e-3, order=2)
    """

    weight: ArrayLike = 1.0
    order: int = 0
    reference: ArrayLike = 0.0

    def attach(self, model: Dynamics, steps: int) -> list[ControlCost]:
        """Return the control cost for a model."""
        if not is_integer(self.order) or self.order not in (0, 1, 2, 3):
            raise InputError(
                f"The order of an effort is {quoted(self.order)}; take 0 (the control), 1 (its "
                "rate), 2 (acceleration) or 3 (jerk)."
            )
        try:
            weight = np.broadcast_to(np.asarray(self.weight, float), (model.n_controls,))
            reference = np.broadcast_to(
                np.asarray(self.reference, float), (steps, model.n_controls)
            )
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                "The weight and reference of an effort must be a number or one for each control "
                f"({model.n_controls}). The reference may have a row for each step ({steps})."
            ) from None
        if not (
            np.all(np.isfinite(weight)) and np.all(weight >= 0.0) and np.all(np.isfinite(reference))
        ):
            raise InputError(
                f"The weight of an effort is {weight.min():g}; weights must be finite and not "
                "negative, references finite."
            )
        return [
            ControlCost(
                stencil=backward_difference(self.order, model.dt),
                weight=model.dt * weight,
                reference=reference,
            )
        ]


def _effector_observation(
    term: "Goal | Reward | Residual", name: str, model: Dynamics, steps: int, axes: str = "xyz"
) -> tuple[tuple[sp.csr_matrix, ...], list[int], float]:
    """Return the effector's matrices, the steps of the term and its weight at each step."""
    rows = effector_rows(model, term.effector, term.quantity, axes, name)
    return (
        rows,
        steps_at_times(name, term.time, steps, model.dt),
        _weight_each(name, term.weight, term.time, model.dt),
    )


def _weight_each(
    name: str, weight: float, time: float | Sequence[float] | None, dt: float
) -> float:
    """Return the weight at each time; without a time the sum over all steps is an integral."""
    return check_weight(name, weight) * (dt if time is None else 1.0)


def _effector_names(effector: str | tuple[str, ...]) -> tuple[str, ...]:
    names = (effector,) if isinstance(effector, str) else effector
    if (
        not isinstance(names, tuple | list)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise InputError(
            f"The effector is {quoted(effector)}; give its name, or the names of several in "
            "a tuple."
        )
    return tuple(names)


def effector_label(effector: str | tuple[str, ...]) -> str:
    """Return the name of one or several effectors for messages."""
    return ", ".join(_effector_names(effector))


def effector_rows(
    model: Dynamics, effector: str | tuple[str, ...], quantity: str, axes: str, name: str
) -> tuple[sp.csr_matrix, ...]:
    """Return matrices over x_k, x_{k-1}, ... whose sum gives a quantity of effectors.

    The quantity is a position, velocity or acceleration along some axes. Several effectors
    follow one another. Raises InputError if the model has no such quantity.
    """
    if quantity not in QUANTITY_UNITS:
        raise InputError(
            f"{name} is about its '{quantity}'; choose position, velocity or acceleration."
        )
    if quantity != "position" and not any(model.space.rate):
        raise InputError(
            f"{name} is about its {quantity}, but this model has no velocity; take a rule with "
            "inertia such as ImplicitEuler."
        )
    position = sp.vstack(
        [
            model.effector_rows(one)[_axis_indices(model, one, axes)]
            for one in _effector_names(effector)
        ],
        format="csr",
    )
    none = sp.csr_matrix((position.shape[0], model.space.size - position.shape[1]))
    if quantity == "position":
        return (sp.hstack([position, none], format="csr"),)
    rest = sp.csr_matrix(
        (position.shape[0], model.space.size - len(model.space.rate) * position.shape[1])
    )
    velocity = sp.hstack([*(rate * position for rate in model.space.rate), rest], format="csr")
    return (velocity,) if quantity == "velocity" else (velocity / model.dt, -velocity / model.dt)


def _axis_indices(model: Dynamics, effector: str, axes: str) -> Array:
    """Return the indices of the chosen coordinates. Raises InputError for unknown axes."""
    dim = model.effector_rows(effector).shape[0]
    chosen = [a for a in range(dim) if "xyz"[a] in axes]
    if not chosen or set(axes) - set("xyz"):
        raise InputError(
            f"The axes of a goal are '{axes}'; write some of {', '.join('xyz'[:dim])}."
        )
    return np.array(chosen)


def check_weight(name: str, weight: Any) -> float:
    """Return a weight as a float. Raises InputError unless it is finite and not negative."""
    number = require_number(f"{name}: its weight", weight, "")
    if not 0.0 <= number < np.inf:
        raise InputError(
            f"{name} has weight {number:g}; give a finite weight that is not negative."
        )
    return number


def check_target(name: str, target: ArrayLike | Path) -> None:
    """Raise InputError unless a target is a function, (dim,) or (times, dim) finite numbers."""
    if callable(target):
        return
    try:
        many = np.ndim(target) == 2
    except (ValueError, OverflowError):  # ragged rows, huge integers
        raise InputError(
            f"{name} is {quoted(target)}; give numbers, or a row of as many for each time."
        ) from None
    finite_array(name, target, (None, None) if many else (None,))


def steps_at_times(
    name: str, time: float | Sequence[float] | None, steps: int, dt: float
) -> list[int]:
    """Return the steps nearest to some times [s]; all steps for None."""
    if time is None:
        return list(range(1, steps + 1))
    times = finite_array(f"{name}: its time", [time] if np.ndim(time) == 0 else time, (None,), "s")
    if not times.size:
        raise InputError(f"{name} has an empty list of times; give one, or None for all.")
    at = np.rint(times / dt).astype(int)
    for t, k in zip(times, at, strict=True):
        if not 1 <= k <= steps:
            raise InputError(
                f"{name} is at t = {t:g} s, outside the horizon, which ends at {steps * dt:g} s "
                f"after {counted(steps, 'step')} of {dt:g} s; the earliest possible time is {dt:g} "
                "s."
            )
    return [int(k) for k in at]


def targets_at_steps(
    name: str, target: ArrayLike | Path, at: Sequence[int], dt: float, dim: int
) -> Array:
    """Return the targets (times, dim) at some steps, from one target, rows or a path."""
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
