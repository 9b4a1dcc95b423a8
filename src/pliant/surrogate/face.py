"""The face of whatever stands in for a costly map."""

from typing import Protocol, Self, runtime_checkable

from pliant.core import Array
from pliant.surrogate.corners import Corners
from pliant.surrogate.sample import Sample


@runtime_checkable
class Surrogate(Protocol):
    """An approximation that is C1, with its exact derivatives, and what is known of how good it
    is."""

    @property
    def corners(self) -> Corners: ...  # the exact values that it stands on
    @property
    def dim(self) -> int: ...  # d
    @property
    def size(self) -> Array: ...  # (d,) of its cells, or what comes nearest to that
    @property
    def evaluations(self) -> int: ...  # exact ones that are known
    @property
    def changes(self) -> int: ...  # how often earlier answers may have changed
    @property
    def doubts(self) -> list[str]: ...  # what was noticed about the map, in sentences
    def __call__(self, x: Array) -> tuple[Array, Array]: ...  # (d,) -> (value (N,), slope (N, d))
    def rows(
        self, x: Array, second: bool = False
    ) -> Array: ...  # the same in coefficients, with second derivatives if wanted
    def refined(self) -> Self: ...  # the next better one on the same corners
    def holds(self, x: Array) -> bool: ...  # can it be asked without another exact evaluation?
    def new_samples(self) -> list[Sample]: ...  # the exact values that the next worse one has not
