"""Jobs and whoever does them; the simplest does them here, in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

Job = tuple[Any, ...]
"""The arguments of one evaluation."""


class Crew(Protocol):
    """Whoever evaluates f."""

    def map(
        self, jobs: Sequence[Job]
    ) -> Iterator[tuple[int, Any]]: ...  # (index of the job, f(*job)) as they end, each job once
    def close(self) -> None: ...


class Here:
    """Every job in this process, in order."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """(index, f(*job)) for each job."""
        for index, job in enumerate(jobs):
            yield index, self.f(*job)

    def close(self) -> None:
        """Nothing is held."""
