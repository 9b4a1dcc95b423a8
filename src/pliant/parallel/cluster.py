"""The workers of a dask scheduler, which evaluate one function on any number of machines."""

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from time import perf_counter, sleep
from typing import Any

from pliant.core import PliantError
from pliant.parallel.connection import Connection, Timeouts, Unreachable
from pliant.parallel.job import Job

# A slow transfer may succeed when the network is less busy; after three attempts it is unlikely to.
FETCHES = 3


class _CopyFailed(PliantError):
    """A copy of a job has no result, but another copy may have one."""


class Cluster:
    """The workers of a dask scheduler, on any number of machines. Start each with one thread: `dask
    worker ADDRESS --nthreads 1`.

    The scheduler gives the jobs of a dead worker to others. If a worker freezes, this class sends
    copies of the unfinished jobs to the workers that answer, and uses the first result of each.
    """

    def __init__(
        self, f: Callable[..., Any], address: str, *, timeouts: Timeouts | None = None
    ) -> None:
        self.address, self.timeouts = address, timeouts or Timeouts()
        self._connection = Connection(address, self.timeouts)
        self._silent: dict[str, float] = {}  # when each silent worker was first found silent
        self._allowed: set[str] = set()  # workers that get jobs while another is frozen; empty: any
        try:
            self._check_workers(self.timeouts.answer)
            self._blob = self._dumps(_Unpacking(f))
            self._f = self._send_function()
        except BaseException:
            self.close()
            raise

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield (index, f(*job)) in the order in which the jobs end."""
        self._connection.check_scheduler()
        copies: dict[int, list[Any]] = {}  # the futures of each unfinished job
        if self._allowed:  # the frozen worker may answer again, or others may have started
            self._update_workers(jobs, copies)
        try:
            self._send(jobs, range(len(jobs)), copies)
            while copies:
                for index, future in self._finished(jobs, copies):
                    try:
                        result = self._result(future, index, jobs, copies)
                    except _CopyFailed:
                        copies[index].remove(future)
                        if not copies[index]:
                            raise
                        continue
                    futures = copies.pop(index)
                    self._connection.cancel(futures if len(futures) > 1 else [])
                    yield index, result
        finally:
            self._connection.cancel([future for futures in copies.values() for future in futures])

    def close(self) -> None:
        """Leave the cluster, which continues to run."""
        self._connection.close()

    def _finished(self, jobs: Sequence[Job], copies: dict[int, list[Any]]) -> list[tuple[int, Any]]:
        """Wait for jobs to finish. Return (index, future) of each finished job, at least one."""
        looked = perf_counter()
        while not (done := _done(copies)):
            sleep(self.timeouts.poll)
            self._connection.check_scheduler()
            if perf_counter() - looked > self.timeouts.answer:
                self._update_workers(jobs, copies)
                looked = perf_counter()
        return done

    def _dumps(self, thing: Any) -> Any:
        return self._connection.dask.protocol.pickle.dumps(thing)

    def _send_function(self) -> Any:
        # A task rather than scattered data: if the workers that hold f die, the scheduler makes it
        # again. Tasks and their arguments belong to the standard library alone: a worker that
        # cannot read a task ends without an error, one that cannot unpickle bytes reports it.
        return self._connection.submit(pickle.loads, self._blob, workers=self._allowed)

    def _send(
        self, jobs: Sequence[Job], indices: Iterable[int], copies: dict[int, list[Any]]
    ) -> None:
        """Submit jobs, and put the future of each first among its copies."""
        for index in indices:
            future = self._connection.submit(
                operator.call, self._f, self._dumps(jobs[index]), workers=self._allowed
            )
            copies.setdefault(index, []).insert(0, future)

    def _update_workers(self, jobs: Sequence[Job], copies: dict[int, list[Any]]) -> bool:
        """Send copies of all unfinished jobs if the workers that may get jobs have changed: one is
        frozen, answers again, or was started or ended while another is frozen. Return whether they
        have changed.

        The function is sent too, because only a frozen worker may hold it. The first copies remain:
        if the worker was only busy, they end as usual.
        """
        if not self._check_workers(self.timeouts.silence):
            return False
        self._f = self._send_function()
        self._send(jobs, list(copies), copies)
        return True

    def _check_workers(self, patience: float) -> bool:
        """Return whether the workers that may get jobs have changed. Raises `PliantError` if there
        are none for `patience` seconds, or if one lacks Pliant."""
        workers = self._connection.workers(patience)
        answers = self._connection.ask(workers, find_spec, "pliant")
        for place, spec in answers.items():
            if spec is None:  # it would request f from other workers without end
                raise PliantError(self._lacks(f"The worker {place}", "pliant"))
        now = perf_counter()
        self._silent = {place: self._silent.get(place, now) for place in workers - set(answers)}
        frozen = {p for p, t in self._silent.items() if now - t >= self.timeouts.silence}
        allowed = workers - frozen if frozen else set()
        if not answers or allowed == self._allowed:
            return False
        self._allowed = allowed
        return True

    def _result(
        self, future: Any, index: int, jobs: Sequence[Job], copies: dict[int, list[Any]]
    ) -> Any:
        """Return the result of a finished copy of a job, or raise the job's error. Raises
        `_CopyFailed` if only another copy may have a result."""
        job = f"job {index} of {len(jobs)} (counted from 0)"
        try:
            for _ in range(FETCHES):
                try:
                    return self._connection.fetch(future)
                except Unreachable:
                    if self._update_workers(jobs, copies):
                        break
        except self._connection.dask.KilledWorker as error:
            raise _CopyFailed(
                f"{job.capitalize()} ended every worker of the cluster that tried it; give them "
                "more memory, and start them with --nthreads 1."
            ) from error
        except ModuleNotFoundError as error:
            raise PliantError(self._lacks("A worker", error.name)) from error
        raise _CopyFailed(
            f"The result of {job} did not arrive within {self.timeouts.silence:g} s, {FETCHES} "
            "times. Use a faster network, or jobs with smaller results."
        )

    def _lacks(self, who: str, module: str | None) -> str:
        return (
            f"{who} of the cluster at '{self.address}' has no module '{module}'; install the same "
            "packages there as here, and start the worker again."
        )


class _Unpacking:
    """f of a pickled job."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, blob: bytes) -> Any:
        return self.f(*pickle.loads(blob))


def _done(copies: dict[int, list[Any]]) -> list[tuple[int, Any]]:
    """(index, future) of each job that has finished: its newest copy with a result if one has a
    result, otherwise its newest copy that failed."""
    done = [(index, [f for f in futures if f.done()]) for index, futures in copies.items()]
    return [
        (index, next((f for f in finished if f.status == "finished"), finished[0]))
        for index, finished in done
        if finished
    ]
