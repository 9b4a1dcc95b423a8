"""What an optimisation method is: settings that make a running optimiser."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pliant.core import Array
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.states import OptimiserState

FEASIBLE = 1e-6  # violation of constraints of about 1 that counts as none
NO_DECREASE = "no step lowers the value any more"
FAILED_START = "the objective cannot be evaluated at the start"


@dataclass(frozen=True, kw_only=True, eq=False)
class Iterate:
    """Variables, how good they are, and whether the method goes on."""

    z: Array  # (n,)
    value: float
    gradient_norm: float = np.nan  # largest entry of the projected gradient; NaN: unknown
    step: float = 0.0  # largest change of a variable
    violation: float = 0.0  # largest violation of a constraint
    failed: str = ""  # why the simulation failed
    finished: str = ""  # why the method ends here
    converged: bool = False
    notes: dict[str, Any] = field(default_factory=dict)  # further results, JSON types

    def better_than(self, other: "Iterate") -> bool:
        """Return whether these variables are better: violations first, if they are not
        negligible, then the value."""
        mine, theirs = (
            np.inf if one.failed else max(one.violation - FEASIBLE, 0.0) for one in (self, other)
        )
        return mine < theirs or (mine == theirs and self.value < other.value)


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """When a method has converged."""

    tolerance: float  # of the predicted decrease, relative to the value

    def negligible(self, decrease: float, value: float, first: float) -> bool:
        """Return whether a predicted decrease is negligible. Values far below the first one count
        as zero."""
        return decrease <= self.tolerance * max(abs(value), self.tolerance * abs(first), 1e-300)


class Optimiser(Protocol):
    """A running optimisation."""

    def first(self) -> Iterate: ...  # the start
    def iterate(self) -> Iterate: ...
    def state(self) -> OptimiserState: ...
    def restore(self, state: OptimiserState) -> None: ...  # of one with the same arguments


@runtime_checkable
class Closing(Protocol):
    """An optimiser that holds resources."""

    def close(self) -> None: ...


@runtime_checkable
class OptimisationMethod(Protocol):
    """The settings of a method: a frozen dataclass of numbers and names."""

    @property
    def name(self) -> str: ...
    @property
    def handles_constraints(self) -> bool: ...
    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> Optimiser: ...
