"""Limits on controls, their rates and accelerations. Planners satisfy them exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, counted, finite_array, quoted
from pliant.problem.observations import backward_difference


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """The bounds lower <= d^order u / dt^order <= upper at every step.

    Parameters
    ----------
    lower, upper : float or (n_controls,), in units of the control / s^order
    order : 0 bounds the control, 1 its rate, 2 its acceleration.

    Planners raise InputError if the bounds contradict each other.

    >>> import pliant as pl
    >>> rate = pl.Limit(lower=-2.0, upper=2.0, order=1)  # at most 2 units per second
    """

    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf
    order: int = 0

    def attach(self, model: Dynamics) -> "ControlBound":
        """Return the bound for the controls of a model. Raises InputError if it is empty."""
        n = model.n_controls
        lower, upper = (_bound_array(side, n) for side in (self.lower, self.upper))
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
        return ControlBound(
            stencil=backward_difference(self.order, model.dt),
            lower=lower,
            upper=upper,
            order=self.order,
        )


def _bound_array(side: ArrayLike, n: int) -> Array:
    """Return one side of a limit as an array (n,). Raises InputError for anything else."""
    try:
        numbers = np.asarray(side)
        if numbers.dtype.kind not in "iufO" or np.isnan(numbers := numbers.astype(float)).any():
            raise ValueError
    except (TypeError, ValueError, OverflowError):  # includes ragged lists
        raise InputError(
            f"A limit is {quoted(side)}; give a number, or one for each control, with -inf or inf "
            "for no limit."
        ) from None
    if numbers.shape not in ((), (1,), (n,)):
        raise InputError(
            f"A limit has {counted(numbers.size, 'number')}; give one, or one for each control "
            f"({n})."
        )
    return np.array(np.broadcast_to(numbers, (n,)))


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlBound:
    """A Limit attached to a model: lower <= sum_j stencil_j u_{k-j} <= upper."""

    stencil: Array  # (order + 1,)
    lower: Array  # (n_controls,)
    upper: Array  # (n_controls,)
    order: int


def check_compatible_bounds(bounds: Sequence[ControlBound], order: int) -> None:
    """Raise InputError if the bounds of one order have an empty intersection."""
    if bounds:
        lower, upper = (
            np.max([bound.lower for bound in bounds], axis=0),
            np.min([bound.upper for bound in bounds], axis=0),
        )
        bad = np.flatnonzero(lower > upper)
        if bad.size:
            raise InputError(
                f"The limits of control {bad[0]} (order {order}) contradict each other: together "
                f"with its motor they need at least {lower[bad[0]]:g} and at most "
                f"{upper[bad[0]]:g}; widen one."
            )


def check_control_in_bounds(name: str, value: ArrayLike, bounds: Sequence[ControlBound]) -> Array:
    """Return a control as an array (n,). Raises InputError if it violates a bound of order 0."""
    n = len(bounds[0].lower) if bounds else np.size(value)
    u = finite_array(name, value, (n,))
    for bound in bounds:
        if bound.order == 0:
            bad = np.flatnonzero(~((u >= bound.lower) & (u <= bound.upper)))
            if bad.size:
                k = bad[0]
                raise InputError(
                    f"{name} is {u[k]:g} for control {k}, outside its limits {bound.lower[k]:g} "
                    f"to {bound.upper[k]:g}; start within them."
                )
    return u
