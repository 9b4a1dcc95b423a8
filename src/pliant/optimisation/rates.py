"""Learning rates: schedules, and limits for gradients."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import Any, final

import numpy as np

from pliant.core import Array, InputError, is_integer, quoted, require_number

RECENT = 20  # gradients whose median norm limits the next one
RateSchedule = Callable[[int], float]  # iteration, counted from 0 -> factor on the rate


def check_schedule(schedule: Any) -> None:
    """Raise InputError unless a schedule is None or a function."""
    if schedule is not None and not callable(schedule):
        raise InputError(
            f"The schedule is {quoted(schedule)}; give a function of the iteration, such as "
            "CosineRate(iterations=100)."
        )


def clipped_gradient(gradient: Array, norms: deque[float], clip: float) -> Array:
    """Return the gradient, shortened to `clip` times the median of the last norms if it is longer.
    Without norms it stays as it is."""
    norm = float(np.linalg.norm(gradient))
    limit = clip * float(np.median(norms)) if norms else norm
    return gradient * (limit / norm if norm > limit > 0.0 else 1.0)


@final
@dataclass(frozen=True, kw_only=True)
class CosineRate:
    """A learning-rate schedule: half a cosine from 1 to `last` over `iterations`, then constant."""

    iterations: int
    last: float = 0.01

    def __post_init__(self) -> None:
        if not is_integer(self.iterations) or self.iterations < 1:
            raise InputError(
                f"A cosine schedule has {quoted(self.iterations)} iterations; give a whole number, "
                "1 or more."
            )
        if not 0.0 < require_number("The last factor of a schedule", self.last, "") <= 1.0:
            raise InputError(f"The last factor is {self.last:g}; give one between 0 and 1.")

    def __call__(self, iteration: int) -> float:
        """Return the factor on the rate in an iteration, counted from 0."""
        share = min(iteration / self.iterations, 1.0)
        return self.last + (1.0 - self.last) * 0.5 * (1.0 + cos(pi * share))
