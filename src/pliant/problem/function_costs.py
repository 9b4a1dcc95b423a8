"""Terms that are functions of the state, the control and the parameters of the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, quoted
from pliant.problem.terms import check_weight, steps_at_times

# (x, u, p) -> a number; and -> its derivatives by x, u and p, None for a zero one
CostFunction = Callable[[Array, Array, Array], float]
CostGradient = Callable[[Array, Array, Array], tuple[Array | None, Array | None, Array | None]]

QUOTIENT_STEP = 1e-6  # of the check of a gradient, relative to the size of the argument
QUOTIENT_ERROR = 1e-3  # largest difference from the quotient, relative to the summed magnitudes


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionCost:
    """The cost weight f(x_k, u_{k-1}, p) at one step k."""

    name: str
    step: int  # k, from 1 to the horizon
    function: CostFunction
    derivatives: CostGradient
    weight: float

    def value(self, x: Array, u: Array, p: Array) -> float:
        return self.weight * float(self.function(x, u, p))

    def gradient(self, x: Array, u: Array, p: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives by the state, the control and the parameters."""
        parts = zip(self.derivatives(x, u, p), (x, u, p), strict=True)
        found = [
            np.zeros(len(v)) if g is None else self.weight * np.asarray(g, float) for g, v in parts
        ]
        return found[0], found[1], found[2]


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalCost:
    """The cost weight g(x_N, u_{N-1}, p) of the last state x_N.

    Parameters
    ----------
    function : (x, u, p) -> number, for a state (n_state,), a control (n_controls,) and the
        parameters (n_params,) of the model
    gradient : (x, u, p) -> the derivatives by x, u and p; None for one that is zero
    weight : finite, not negative
    name : name of the term in messages

    Raises InputError if the gradient differs from a difference quotient of the function.

    >>> import pliant as pl
    >>> energy = pl.problem.FinalCost(
    ...     function=lambda x, u, p: 0.5 * x @ x, gradient=lambda x, u, p: (x, None, None)
    ... )
    """

    function: CostFunction
    gradient: CostGradient
    weight: float = 1.0
    name: str = "final cost"

    def attach(self, model: Dynamics, steps: int) -> list[FunctionCost]:
        """Return the cost of the last step."""
        return function_costs(self, model, [steps], 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningCost:
    """The integral of weight h(x, u, p) over the horizon: the sum over all steps k of
    h(x_k, u_{k-1}, p) times dt. With times it is the sum over these times.

    Parameters
    ----------
    function, gradient, weight, name : as in FinalCost
    time : one or several times [s]; None for every step

    Raises InputError if the gradient differs from a difference quotient of the function.

    >>> import pliant as pl
    >>> work = pl.problem.RunningCost(
    ...     function=lambda x, u, p: u @ u, gradient=lambda x, u, p: (None, 2.0 * u, None)
    ... )
    """

    function: CostFunction
    gradient: CostGradient
    weight: float = 1.0
    name: str = "running cost"
    time: float | Sequence[float] | None = None

    def attach(self, model: Dynamics, steps: int) -> list[FunctionCost]:
        """Return one cost for each time."""
        at = steps_at_times(f"The {self.name}", self.time, steps, model.dt)
        return function_costs(self, model, at, model.dt if self.time is None else 1.0)


def function_costs(
    term: FinalCost | RunningCost, model: Dynamics, at: Sequence[int], factor: float
) -> list[FunctionCost]:
    """Return the costs of a term at some steps. Raises InputError for a wrong gradient."""
    name = f"The {term.name}"
    weight = check_weight(name, term.weight) * factor
    if not (callable(term.function) and callable(term.gradient)):
        raise InputError(f"{name} needs a function and its gradient; give two functions (x, u, p).")
    check_gradient(name, term.function, term.gradient, model)
    return [
        FunctionCost(
            name=term.name,
            step=k,
            function=term.function,
            derivatives=term.gradient,
            weight=weight,
        )
        for k in at
    ]


def check_gradient(name: str, f: CostFunction, gradient: CostGradient, model: Dynamics) -> None:
    """Raise InputError unless the gradient of f at the initial state agrees with the difference
    quotients of f along one direction for each argument. Points where f is not finite pass."""
    at = [model.initial_state(), model.neutral_controls(), model.params.flat]
    check_number(name, f(*at))
    slopes = checked_slopes(name, gradient(*at), at)
    rng = np.random.default_rng(0)
    for k, (argument, slope) in enumerate(zip("xup", slopes, strict=True)):
        if not at[k].size:
            continue
        size = np.where(at[k] != 0.0, np.abs(at[k]), 1.0)
        d = QUOTIENT_STEP * size * rng.choice([-1.0, 1.0], len(size)) * rng.uniform(0.5, 1.0)
        ends = [[*at[:k], at[k] + sign * d, *at[k + 1 :]] for sign in (1.0, -1.0)]
        high, low = (float(f(*end)) for end in ends)
        found, expected = float(slope @ d), 0.5 * (high - low)
        noise = 1e-13 * (abs(high) + abs(low))
        error = QUOTIENT_ERROR * (float(np.abs(slope) @ np.abs(d)) + abs(expected))
        if np.isfinite([high, low]).all() and not abs(found - expected) <= error + noise:
            raise InputError(
                f"{name}: its gradient by {argument} gives {found / QUOTIENT_STEP:.6g} along a "
                f"test direction, but differences of the function give "
                f"{expected / QUOTIENT_STEP:.6g}; correct the gradient."
            )


def check_number(name: str, value: Any) -> None:
    """Raise InputError unless a function returned a number."""
    if np.ndim(value) != 0 or np.iscomplexobj(value):
        raise InputError(f"{name}: its function returns {quoted(value)}; it must return a number.")


def checked_slopes(name: str, slopes: Any, at: Sequence[Array]) -> list[Array]:
    """Return the three derivatives with zeros for None. Raises InputError for other shapes."""
    if not isinstance(slopes, tuple | list) or len(slopes) != 3:
        raise InputError(
            f"{name}: its gradient must return three derivatives, by x, u and p; return None for "
            "one that is zero."
        )
    out = []
    for argument, slope, value in zip("xup", slopes, at, strict=True):
        if slope is not None and np.shape(slope) != value.shape:
            raise InputError(
                f"{name}: its gradient by {argument} has shape {np.shape(slope)}; it must be "
                f"{value.shape}."
            )
        out.append(np.zeros(len(value)) if slope is None else np.asarray(slope, float))
    return out
