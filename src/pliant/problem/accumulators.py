"""Accumulators: how the costs of the steps of a term are combined to one number."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, nearest, quoted, require_positive
from pliant.problem.function_costs import FunctionCost
from pliant.problem.observations import ControlCost, Observation
from pliant.problem.smoothness import ParameterTerm
from pliant.problem.terms import Effort, Term

ACCUMULATORS = ("sum", "max", "smooth_max", "min", "product")


@dataclass(frozen=True, eq=False)
class Accumulated:
    """A combination of the costs of a term at its times, instead of their sum.

    Parameters
    ----------
    term : a term, such as Goal(...) or RunningCost(...)
    by : "sum", "max", "smooth_max", "min" or "product". The derivative of "max" and "min" is that
        of the first largest or smallest cost. "smooth_max" is s log(sum of exp(c / s)), which
        exceeds the maximum of n costs c by at most s log(n).
    smoothing : s of "smooth_max", in units of the cost
    weight : factor on the result

    Effort, and a term with time=None, is an integral over the horizon; "sum" keeps it. The others
    combine the integrand at each step, without the factor dt.

    Raises InputError for another name, if "smooth_max" has no smoothing, and for a term of the
    parameters alone.

    >>> import pliant as pl
    >>> goal = pl.Goal(effector="tip", target=(0.1, 0.0))
    >>> closest_approach = pl.problem.Accumulated(goal, by="min")
    """

    term: Term
    _: KW_ONLY
    by: str = "sum"
    smoothing: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.term, Term) or isinstance(self.term, Accumulated):
            raise InputError(
                f"Accumulated combines one term, not {quoted(self.term)}; give a term such as "
                "Goal(...)."
            )
        if isinstance(self.term, ParameterTerm):
            raise InputError(
                f"Accumulated combines the costs of steps, but {type(self.term).__name__} has one "
                "cost, of the parameters. Give it to the problem as a term."
            )
        if self.by not in ACCUMULATORS:
            raise InputError(
                f"There is no accumulator {quoted(self.by)}; {nearest(self.by, ACCUMULATORS)}"
            )
        if (self.smoothing is not None) != (self.by == "smooth_max"):
            raise InputError(
                "The accumulator 'smooth_max' needs smoothing=..., in units of the cost; the "
                "others take none."
            )
        if self.smoothing is not None:
            require_positive("The smoothing of Accumulated", self.smoothing, "")
        require_positive("The weight of Accumulated", self.weight, "")

    def attach(self, model: Dynamics, steps: int) -> list["AccumulatedCost"]:
        """Return the combined cost."""
        parts = self.term.attach(model, steps)
        timeless = getattr(self.term, "time", 0.0) is None or isinstance(self.term, Effort)
        integral = timeless and self.by != "sum"
        return [
            AccumulatedCost(
                observations=tuple(part for part in parts if isinstance(part, Observation)),
                functions=tuple(part for part in parts if isinstance(part, FunctionCost)),
                control_costs=tuple(part for part in parts if isinstance(part, ControlCost)),
                by=self.by,
                smoothing=self.smoothing,
                unit=1.0 / model.dt if integral else 1.0,
                weight=self.weight,
            )
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class AccumulatedCost:
    """A function of the costs of observations, of functions and of the steps of control costs, in
    this order. The costs are multiplied by `unit` first, and the result by `weight`."""

    observations: tuple[Observation, ...] = ()
    functions: tuple[FunctionCost, ...] = ()
    control_costs: tuple[ControlCost, ...] = ()
    by: str = "sum"
    smoothing: float | None = None
    unit: float = 1.0
    weight: float = 1.0

    def value(self, costs: Array) -> float:
        """Return the combined cost of the costs (n,)."""
        return self.weight * accumulate(self.by, self.unit * costs, self.smoothing)

    def slopes(self, costs: Array) -> Array:
        """Return the derivatives (n,) of the combined cost by the costs."""
        slopes = accumulator_slopes(self.by, self.unit * costs, self.smoothing)
        return self.weight * self.unit * slopes

    @property
    def n_before_controls(self) -> int:
        """The number of costs of observations and functions."""
        return len(self.observations) + len(self.functions)


def accumulate(by: str, v: Array, smoothing: float | None) -> float:
    """Return the combination of numbers (n,)."""
    if by == "smooth_max":
        assert smoothing is not None
        top = v.max()
        return float(top + smoothing * np.log(np.exp((v - top) / smoothing).sum()))
    combine: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min, "product": np.prod}
    return float(combine[by](v))


def accumulator_slopes(by: str, v: Array, smoothing: float | None) -> Array:
    """Return the derivatives (n,) of `accumulate`."""
    if by == "sum":
        return np.ones(len(v))
    if by == "smooth_max":
        assert smoothing is not None
        w = np.exp((v - v.max()) / smoothing)
        return w / w.sum()
    if by == "product":  # of all others, also where some are zero
        left = np.concatenate([[1.0], np.cumprod(v[:-1])])
        right = np.concatenate([np.cumprod(v[:0:-1])[::-1], [1.0]])
        return left * right
    return np.eye(len(v))[int(np.argmax(v) if by == "max" else np.argmin(v))]


def control_step_costs(cost: ControlCost, controls: Array, previous_control: Array) -> Array:
    """Return the cost of each step (steps,); their sum is the value of the control cost."""
    r = cost.residual(controls, previous_control)
    return 0.5 * np.sum(cost.weight * r * r, axis=1)


def total_cost(extra: Sequence[AccumulatedCost], costs: Sequence[Array]) -> float:
    """Return the sum of combined costs."""
    return float(sum(one.value(v) for one, v in zip(extra, costs, strict=True)))
