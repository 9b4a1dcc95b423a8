"""The interface of workers, and workers that run in this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

Job = tuple[Any, ...]
"""The arguments of one evaluation."""


class Workers(Protocol):
    """Workers that evaluate one function f."""

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield (index, f(*job)) once per job, in the order in which the jobs end."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


class SerialWorkers:
    """Workers that evaluate every job in this process, in order."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield (index, f(*job)) for each job."""
        for index, job in enumerate(jobs):
            yield index, self.f(*job)

    def close(self) -> None:
        """Do nothing: there are no resources."""
