"""A connection to a dask scheduler whose calls have time limits.

If a worker fails, a call reports it as missing. If the scheduler fails, a call raises
`PliantError`.
"""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter, sleep
from typing import Any

from pliant.core import MissingExtra, PliantError

# Without a dashboard dask still opens a port for HTTP requests, by default on all interfaces.
LOCAL = "--host 127.0.0.1 --no-dashboard --dashboard-address 127.0.0.1:0"


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Time limits for calls to a cluster [s]."""

    answer: float = 5.0
    """Time for a scheduler to accept a connection, and for a worker to answer a short call."""
    silence: float = 30.0
    """Time without an answer after which a worker or scheduler is considered frozen, and time for a
    new worker to replace the last one. Much longer than the longest pause of a healthy worker,
    whose compiled code may hold the interpreter lock."""
    poll: float = 0.01
    """Interval between two checks for finished jobs."""


class Unreachable(Exception):
    """A result is ready, but the worker that holds it does not send it."""


class Connection:
    """A dask client whose calls have a time limit and raise `PliantError`."""

    def __init__(self, address: str, timeouts: Timeouts) -> None:
        try:
            self.dask: Any = import_module("distributed")
        except ImportError as error:
            raise MissingExtra(
                "A cluster needs dask.distributed. Run: pip install 'pliant[cluster]'."
            ) from error
        self.address, self.timeouts = address, timeouts
        try:
            # The client itself waits without limit for a program that is not a scheduler.
            _run_in_thread(self._check_port())
            self._client = self.dask.Client(address, timeout=timeouts.answer, set_as_default=False)
        except Exception as error:  # another program may answer anything
            raise PliantError(
                f"No scheduler answers at '{address}'. Start one by `dask scheduler {LOCAL}` and "
                f"workers by `dask worker ADDRESS {LOCAL} --nthreads 1`, then give the address "
                "that the scheduler prints."
            ) from error

    def check_scheduler(self) -> None:
        """Raise `PliantError` if the scheduler has closed the connection."""
        if self._client.status != "running":
            raise PliantError(self._lost_message())

    def workers(self, timeout: float) -> set[str]:
        """Return the addresses of all workers. Raises `PliantError` if there are none for `timeout`
        seconds."""
        deadline = perf_counter() + timeout
        while not (found := self._call(self._client.nthreads)):
            if perf_counter() > deadline:
                raise PliantError(
                    f"The scheduler at '{self.address}' has no workers. Start one by `dask worker "
                    f"{self.address} {LOCAL} --nthreads 1`. It opens ports that only this "
                    "machine can reach. For a worker on another machine, replace 127.0.0.1 by its "
                    "address in a trusted network."
                )
            sleep(self.timeouts.poll)
        return set(found)

    def run_on_workers(
        self, workers: Iterable[str], function: Callable[..., Any], *args: Any
    ) -> dict[str, Any]:
        """Return {worker: function(*args)}, evaluated on each worker, for the workers that
        answer."""

        async def one(worker: str) -> Any:
            answers = await asyncio.wait_for(
                self._client.run(function, *args, workers=[worker], on_error="return"),
                self.timeouts.answer,
            )
            return answers[worker]

        async def every() -> list[Any]:
            return await asyncio.gather(*map(one, addresses), return_exceptions=True)

        addresses = list(workers)
        all_answers = zip(addresses, self._call(every), strict=True)
        return {
            address: answer
            for address, answer in all_answers
            if not isinstance(answer, BaseException)
        }

    def submit(self, *work: Any, workers: Collection[str] = ()) -> Any:
        """Return the future of function(*args), evaluated by any worker or one of `workers`."""
        options = {"workers": list(workers)} if workers else {}
        with self._report_lost_scheduler(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # f is sent once
            return self._client.submit(*work, pure=False, retries=3, **options)

    def get_result(self, future: Any) -> Any:
        """Return the result of a finished future or raise its error.

        Raises `Unreachable` if the worker that holds the result does not send it.
        """
        try:
            return future.result(timeout=self.timeouts.silence)
        except (OSError, self.dask.CancelledError) as error:
            if future.status == "error":  # the job itself raised it
                raise
            self.check_scheduler()
            if future.status == "cancelled":
                raise PliantError(self._lost_message()) from error
            raise Unreachable from error

    def cancel(self, futures: list[Any]) -> None:
        """Cancel futures, if the scheduler still listens."""
        if futures:
            with suppress(PliantError):
                self._call(self._client.cancel, futures)

    def close(self) -> None:
        """Leave the cluster, which continues to run."""
        with suppress(PliantError), self._report_lost_scheduler():
            self._client.close(timeout=self.timeouts.answer)

    def _call(self, method: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        async def call() -> Any:
            return await method(*args)  # within the client's event loop its methods are coroutines

        with self._report_lost_scheduler():
            return self._client.sync(call, callback_timeout=self.timeouts.silence)

    @contextmanager
    def _report_lost_scheduler(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, self.dask.CancelledError) as error:
            raise PliantError(self._lost_message()) from error
        except Exception as error:
            if self._client.status == "running":
                raise
            raise PliantError(self._lost_message()) from error

    def _lost_message(self) -> str:
        return (
            f"The scheduler at '{self.address}' does not answer any more. Check that it runs, and "
            "resume the run, or run it again with the same store."
        )

    async def _check_port(self) -> None:
        security = self.dask.Security().get_connection_args("client")
        timeout = self.timeouts.answer
        comm = await asyncio.wait_for(
            self.dask.comm.connect(self.address, timeout=timeout, **security), timeout
        )
        comm.abort()


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread, because a notebook's main thread already has an event loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
