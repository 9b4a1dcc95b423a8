"""Observers: differentiable functions of a model's state that a policy sees.

An observer is described without a model, such as EffectorObserver(effectors="tip"), and attached
to any model that has these effectors. An attached observer implements `core.Observer`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import (
    Array,
    Dynamics,
    InputError,
    Observer,
    ObserverWithMemory,
    finite_array,
    is_integer,
    nearest,
    quoted,
    require_kind,
)
from pliant.learning.memory import AnyObserver, ScaledWithMemory, StackWithMemory
from pliant.problem.terms import effector_rows


@runtime_checkable
class ObserverDescription(Protocol):
    """A description of an observer that does not depend on a model."""

    def attach(self, model: Dynamics) -> AnyObserver: ...


@runtime_checkable
class BatchedObserver(Observer, Protocol):
    """An observer of many states at once. Row i is bit-identical to `observe(x[i])`."""

    def observe_many(self, x: Array) -> Array: ...  # (b, n_state) -> (b, size)


def attach_any(observer: AnyObserver | ObserverDescription, model: Dynamics) -> AnyObserver:
    """Return the observer of a model's states, with or without memory. Raises InputError if it is
    neither an observer nor a description of one, or does not fit the model."""
    if isinstance(observer, ObserverDescription):
        return observer.attach(model)
    advice = "give one such as EffectorObserver(...)"
    require_kind("The observer", observer, (Observer, ObserverWithMemory), advice)
    return observer


def attach_observer(observer: Observer | ObserverDescription, model: Dynamics) -> Observer:
    """Return the observer of a model's states, which must have no memory. Raises InputError if it
    is neither an observer nor a description of one, or does not fit the model."""
    found = attach_any(observer, model)
    if isinstance(found, ObserverWithMemory):
        raise InputError(
            "This observer has a memory, such as the velocity before for an acceleration. Only "
            "ClosedLoop(model, observer, controller) keeps it; observe positions and velocities "
            "here."
        )
    return found


def observe_rows(observer: Observer, x: Array) -> Array:
    """Return the observations (b, size) of states (b, n_state)."""
    if isinstance(observer, BatchedObserver):
        return observer.observe_many(x)
    return np.array([observer.observe(row) for row in x]).reshape(len(x), observer.size)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LinearObserver:
    """The observation y = matrix x + offset."""

    matrix: sp.csr_matrix  # (size, n_state)
    offset: Array | None = None  # (size,)

    @property
    def size(self) -> int:
        return self.matrix.shape[0]

    @cached_property
    def _dense(self) -> tuple[Array, Array]:
        """The indices (c,) of the entries of the state that count, and their matrix (c, size)."""
        columns = np.unique(self.matrix.indices)
        return columns, np.ascontiguousarray(self.matrix[:, columns].toarray().T)

    def observe(self, x: Array) -> Array:
        """Return the observation (size,) of a state (n_state,)."""
        return self.observe_many(np.asarray(x)[None])[0]

    def observe_many(self, x: Array) -> Array:
        """Return the observations (b, size) of states (b, n_state)."""
        columns, matrix = self._dense
        # one product for each row, so that the bits do not depend on the number of rows
        y = np.matmul(x[:, None, columns], matrix)[:, 0]
        return y if self.offset is None else y + self.offset

    def vjp(self, x: Array, y_bar: Array) -> Array:
        """Return the gradient (n_state,) of y_bar . y."""
        return self.matrix.T @ y_bar


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class EffectorObserver:
    """The positions [m] and velocities [m/s] of effectors, one effector after the other.

    `effectors` is a name or several; None for all of the robot. `quantities` are "position" and
    "velocity"; None for both, or positions only if the model has no velocity.

    >>> from pliant.learning import EffectorObserver
    >>> tip = EffectorObserver(effectors="tip", quantities="velocity")
    """

    effectors: str | Sequence[str] | None = None
    quantities: str | Sequence[str] | None = None

    def attach(self, model: Dynamics) -> LinearObserver:
        """Return the observer for a model. Raises InputError if the model lacks an effector."""
        names = _names(self.effectors, _effectors_of(model))
        if not names:
            raise InputError(
                "The model has no effectors to observe. Give the robot an effector, or observe "
                "parts of the state with PartObserver(...)."
            )
        have = ("position", "velocity") if any(model.space.rate) else ("position",)
        quantities = _names(self.quantities, have)
        if bad := [quantity for quantity in quantities if quantity not in have]:
            raise InputError(
                f"An observer of effectors is about their '{bad[0]}'; "
                f"choose {' or '.join(have)} for this model."
            )
        rows = [
            effector_rows(model, name, quantity, "xyz", f"The observer of '{name}'")[0]
            for name in names
            for quantity in quantities
        ]
        return LinearObserver(matrix=sp.csr_matrix(sp.vstack(rows)))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PartObserver:
    """Named parts of the state, such as "angles"; None for the whole state.

    >>> from pliant.learning import PartObserver
    >>> joints = PartObserver(parts=("angles", "orientation"))
    """

    parts: str | Sequence[str] | None = None

    def attach(self, model: Dynamics) -> LinearObserver:
        """Return the observer for a model. Raises InputError if the state lacks a part."""
        space = model.space
        rows = sp.identity(space.size, format="csr")
        pieces = []
        for name in _names(self.parts, space.parts):
            if name not in space.parts:
                raise InputError(
                    f"The state of this model has no part '{name}'; {nearest(name, space.parts)}"
                )
            j = space.parts.index(name)
            pieces.append(rows[space.starts[j] : space.starts[j + 1]])
        return LinearObserver(matrix=sp.csr_matrix(sp.vstack(pieces)))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UserObserver:
    """A function of the state, with its vector-Jacobian product if gradients are needed.

    Parameters
    ----------
    size : number of entries of the observation
    function : (n_state,) -> (size,)
    vjp_function : (x, y_bar) -> the gradient (n_state,) of y_bar . function(x)
    """

    size: int
    function: Callable[[Array], ArrayLike]
    vjp_function: Callable[[Array, Array], ArrayLike] | None = None

    def __post_init__(self) -> None:
        if not is_integer(self.size) or self.size < 1:
            raise InputError(
                f"The size of an observation is {quoted(self.size)}; give a whole number, 1 or "
                "more."
            )

    def observe(self, x: Array) -> Array:
        """Return the observation (size,) of a state (n_state,)."""
        return finite_array(
            "The observation of the user's function", self.function(x), (self.size,)
        )

    def vjp(self, x: Array, y_bar: Array) -> Array:
        """Return the gradient (n_state,). Raises InputError if there is no `vjp_function`."""
        if self.vjp_function is None:
            raise InputError("This observer has no derivative; give it a vjp_function.")
        return finite_array("The vjp of the user's observer", self.vjp_function(x, y_bar), x.shape)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StackedObserver:
    """Several observers, one after the other. Each is an observer or its description."""

    observers: Sequence[AnyObserver | ObserverDescription]

    def attach(self, model: Dynamics) -> AnyObserver:
        """Return the observer for a model."""
        parts = [attach_any(one, model) for one in self.observers]
        if not parts:
            raise InputError("A stacked observer has no observers; give at least one.")
        if all(isinstance(one, LinearObserver) for one in parts):
            return _stacked_linear(parts)  # type: ignore[arg-type]
        if any(isinstance(one, ObserverWithMemory) for one in parts):
            return StackWithMemory(observers=tuple(parts))
        return AttachedStack(observers=tuple(parts))  # type: ignore[arg-type]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttachedStack:
    """Attached observers, one after the other."""

    observers: tuple[Observer, ...]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.observers)

    def observe(self, x: Array) -> Array:
        """Return the observation (size,) of a state (n_state,)."""
        return np.concatenate([one.observe(x) for one in self.observers])

    def vjp(self, x: Array, y_bar: Array) -> Array:
        """Return the gradient (n_state,) of y_bar . y."""
        ends = np.cumsum([one.size for one in self.observers])[:-1]
        out = np.zeros(np.shape(x))
        for one, bar in zip(self.observers, np.split(y_bar, ends), strict=True):
            out = out + one.vjp(x, bar)
        return out


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledObserver:
    """The observation (y - offset) / scale of another observer. Policies learn best if all entries
    have a size of about 1.

    `scale` and `offset` are numbers or (size,); `scale` is positive.
    """

    observer: AnyObserver | ObserverDescription
    scale: ArrayLike = 1.0
    offset: ArrayLike = 0.0

    def attach(self, model: Dynamics) -> AnyObserver:
        """Return the observer for a model."""
        inner = attach_any(self.observer, model)
        scale, offset = (
            np.array(
                np.broadcast_to(finite_array(name, value, (None,) * np.ndim(value)), inner.size)
            )
            if np.shape(value) in ((), (1,), (inner.size,))
            else finite_array(name, value, (inner.size,))
            for name, value in (
                ("The scale of an observation", self.scale),
                ("The offset of an observation", self.offset),
            )
        )
        if not np.all(scale > 0.0):
            raise InputError(
                f"The scale of an observation is {scale.min():g}; it must be positive."
            )
        if isinstance(inner, LinearObserver):
            before = np.zeros(inner.size) if inner.offset is None else inner.offset
            matrix = sp.csr_matrix(sp.diags(1.0 / scale) @ inner.matrix)
            return LinearObserver(matrix=matrix, offset=(before - offset) / scale)
        if isinstance(inner, ObserverWithMemory):
            return ScaledWithMemory(observer=inner, scale=scale, offset=offset)
        return UserObserver(
            size=inner.size,
            function=lambda x: (inner.observe(x) - offset) / scale,
            vjp_function=lambda x, y_bar: inner.vjp(x, y_bar / scale),
        )


def _stacked_linear(parts: Sequence[LinearObserver]) -> LinearObserver:
    offsets = [np.zeros(one.size) if one.offset is None else one.offset for one in parts]
    return LinearObserver(
        matrix=sp.csr_matrix(sp.vstack([one.matrix for one in parts])),
        offset=None if all(one.offset is None for one in parts) else np.concatenate(offsets),
    )


def _effectors_of(model: Dynamics) -> tuple[str, ...]:
    """Return the names of the effectors of a model, or of its robot."""
    names = getattr(model, "effector_names", None)
    return tuple(
        getattr(getattr(model, "robot", None), "effectors", ()) if names is None else names
    )


def _names(chosen: str | Sequence[str] | None, every: Sequence[str]) -> tuple[str, ...]:
    if chosen is None:
        return tuple(every)
    names = (chosen,) if isinstance(chosen, str) else chosen
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"The names to observe are {quoted(chosen)}; give names as text.")
    return tuple(names)
