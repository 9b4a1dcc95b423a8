"""The workers of a dask scheduler, on any number of machines."""

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from time import perf_counter, sleep
from typing import Any

from pliant.core import PliantError
from pliant.parallel.connection import Connection, Timeouts, Unreachable
from pliant.parallel.workers import Job

# A slow transfer may succeed when the network is less busy; after three attempts it is unlikely to.
MAX_TRANSFERS = 3


class _CopyFailed(PliantError):
    """A copy of a job has no result, but another copy may have one."""


class Cluster:
    """Workers of a dask scheduler, on any number of machines.

    Start each worker with one thread: `dask worker ADDRESS --nthreads 1`. The scheduler gives the
    jobs of a dead worker to others. If a worker freezes, copies of the unfinished jobs are sent to
    the workers that answer, and the first result of each job is used.
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
            self._pickled_f = self._dumps(_UnpickleJob(f))
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
        checked = perf_counter()
        while not (done := _done(copies)):
            sleep(self.timeouts.poll)
            self._connection.check_scheduler()
            if perf_counter() - checked > self.timeouts.answer:
                self._update_workers(jobs, copies)
                checked = perf_counter()
        return done

    def _dumps(self, value: Any) -> Any:
        return self._connection.dask.protocol.pickle.dumps(value)

    def _send_function(self) -> Any:
        # A task rather than scattered data: if the workers that hold f die, the scheduler makes it
        # again. Tasks and their arguments belong to the standard library alone: a worker that
        # cannot read a task ends without an error, one that cannot unpickle bytes reports it.
        return self._connection.submit(pickle.loads, self._pickled_f, workers=self._allowed)

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
        """Send copies of all unfinished jobs if the allowed workers have changed; return whether
        they have.

        They change if a worker freezes or answers again, or starts or ends while another is frozen.
        The function is sent again, because only a frozen worker may hold it. The first copies
        remain: if the worker was only busy, they end as usual.
        """
        if not self._check_workers(self.timeouts.silence):
            return False
        self._f = self._send_function()
        self._send(jobs, list(copies), copies)
        return True

    def _check_workers(self, timeout: float) -> bool:
        """Update the allowed workers and return whether they have changed.

        Raises `PliantError` if there are no workers for `timeout` seconds, or if one lacks Pliant.
        """
        workers = self._connection.workers(timeout)
        answers = self._connection.run_on_workers(workers, find_spec, "pliant")
        for address, spec in answers.items():
            if spec is None:  # it would request f from other workers without end
                raise PliantError(self._missing_module_message(f"The worker {address}", "pliant"))
        now = perf_counter()
        self._silent = {
            address: self._silent.get(address, now) for address in workers - set(answers)
        }
        frozen = {p for p, t in self._silent.items() if now - t >= self.timeouts.silence}
        allowed = workers - frozen if frozen else set()
        if not answers or allowed == self._allowed:
            return False
        self._allowed = allowed
        return True

    def _result(
        self, future: Any, index: int, jobs: Sequence[Job], copies: dict[int, list[Any]]
    ) -> Any:
        """Return the result of a finished copy of a job, or raise the job's error.

        Raises `_CopyFailed` if only another copy may have a result.
        """
        job = f"job {index} of {len(jobs)} (counted from 0)"
        try:
            for _ in range(MAX_TRANSFERS):
                try:
                    return self._connection.get_result(future)
                except Unreachable:
                    if self._update_workers(jobs, copies):
                        break
        except self._connection.dask.KilledWorker as error:
            raise _CopyFailed(
                f"{job.capitalize()} ended every worker of the cluster that tried it. Give them "
                "more memory, and start them with --nthreads 1."
            ) from error
        except ModuleNotFoundError as error:
            raise PliantError(self._missing_module_message("A worker", error.name)) from error
        raise _CopyFailed(
            f"The result of {job} did not arrive within {self.timeouts.silence:g} s, "
            f"{MAX_TRANSFERS} times. Use a faster network, or jobs with smaller results."
        )

    def _missing_module_message(self, subject: str, module: str | None) -> str:
        return (
            f"{subject} of the cluster at '{self.address}' has no module '{module}'. Install the "
            "same packages there as here, and start the worker again."
        )


class _UnpickleJob:
    """A function f of a pickled job."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, data: bytes) -> Any:
        return self.f(*pickle.loads(data))


def _done(copies: dict[int, list[Any]]) -> list[tuple[int, Any]]:
    """Return (index, future) of each finished job.

    The future is the newest copy with a result, or the newest failed copy if there is no result.
    """
    done = [(index, [f for f in futures if f.done()]) for index, futures in copies.items()]
    return [
        (index, next((f for f in finished if f.status == "finished"), finished[0]))
        for index, finished in done
        if finished
    ]
