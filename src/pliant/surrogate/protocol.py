"""The interface of a surrogate."""

from typing import Protocol, Self, runtime_checkable

from pliant.core import Array
from pliant.surrogate.corners import Corners
from pliant.surrogate.sample import Sample


@runtime_checkable
class Surrogate(Protocol):
    """A C1 approximation of a map with its exact derivatives and information on its accuracy."""

    @property
    def corners(self) -> Corners: ...  # the exact values that it interpolates
    @property
    def dim(self) -> int: ...  # d
    @property
    def size(self) -> Array: ...  # (d,) of its cells, or a comparable length
    @property
    def evaluations(self) -> int: ...  # the number of known exact evaluations
    @property
    def changes(self) -> int: ...  # increases when earlier results may have changed
    @property
    def warnings(self) -> list[str]: ...  # suspicious properties of the map
    def __call__(self, x: Array) -> tuple[Array, Array]: ...  # (d,) -> (value (N,), slope (N, d))
    # value and slopes as coefficients, with `second` also second derivatives
    def rows(self, x: Array, second: bool = False) -> Array: ...
    def refined(self) -> Self: ...  # the next finer one on the same corners
    def covers(self, x: Array) -> bool: ...  # whether x needs no new evaluation
    def new_samples(self) -> list[Sample]: ...  # those that the next coarser one lacks
