"""The result of a library in `pliant bench learning`."""

import resource
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class WalkerRun:
    """The gradient of one closed loop and what it took."""

    name: str  # of the library, with its version
    loss: float
    gradient: list[float]  # by the weights of the network
    seconds: list[float]  # of each gradient, forward and backward, after a warm-up
    gigabytes: float  # largest memory of the process

    def numbers(self) -> dict[str, Any]:
        return asdict(self)


def peak_gigabytes() -> float:
    """Return the largest memory [GB] of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
