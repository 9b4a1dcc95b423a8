"""A connection to a dask scheduler. Every call can meet a worker or a scheduler that dies or stops.

Each call has a time limit. If a worker fails, the call reports it as missing; if the scheduler
fails, the call raises `PliantError`.
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
    """Time limits of the conversation with a cluster [s]."""

    answer: float = 5.0
    """For a scheduler to accept a connection, and for a worker to answer a short question."""
    silence: float = 30.0
    """For a worker or scheduler that answers nothing, before it is considered frozen, and for a
    new worker to replace the last one. Much longer than the longest pause of a healthy worker,
    whose compiled code may hold Python's lock."""
    poll: float = 0.01
    """Between two looks at the finished jobs."""


class Unreachable(Exception):
    """A result is ready, but the worker that holds it does not send it."""


class Connection:
    """A dask client whose calls all have a time limit and fail with one sentence."""

    def __init__(self, address: str, timeouts: Timeouts) -> None:
        try:
            self.dask: Any = import_module("distributed")
        except ImportError as error:
            raise MissingExtra(
                "A cluster needs dask.distributed: pip install -e '.[cluster]'."
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
        """Raises `PliantError` if the scheduler has closed the connection."""
        if self._client.status != "running":
            raise PliantError(self._lost())

    def workers(self, patience: float) -> set[str]:
        """Return the addresses of all workers. Raises `PliantError` if there are none for
        `patience` seconds."""
        deadline = perf_counter() + patience
        while not (found := self._call(self._client.nthreads)):
            if perf_counter() > deadline:
                raise PliantError(
                    f"The scheduler at '{self.address}' has no workers; start one by `dask worker "
                    f"{self.address} {LOCAL} --nthreads 1`. It opens ports that only this "
                    "machine can reach; for a worker on another machine, replace 127.0.0.1 by its "
                    "address in a trusted network."
                )
            sleep(self.timeouts.poll)
        return set(found)

    def ask(
        self, workers: Iterable[str], function: Callable[..., Any], *args: Any
    ) -> dict[str, Any]:
        """Return {worker: function(*args)}, evaluated at each worker, for those that answer."""

        async def one(worker: str) -> Any:
            answers = await asyncio.wait_for(
                self._client.run(function, *args, workers=[worker], on_error="return"),
                self.timeouts.answer,
            )
            return answers[worker]

        async def every() -> list[Any]:
            return await asyncio.gather(*map(one, places), return_exceptions=True)

        places = list(workers)
        answers = zip(places, self._call(every), strict=True)
        return {place: said for place, said in answers if not isinstance(said, BaseException)}

    def submit(self, *work: Any, workers: Collection[str] = ()) -> Any:
        """Return the future of function(*args), evaluated by any worker or one of `workers`."""
        options = {"workers": list(workers)} if workers else {}
        with self._reporting_loss(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # f is sent once
            return self._client.submit(*work, pure=False, retries=3, **options)

    def fetch(self, future: Any) -> Any:
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
                raise PliantError(self._lost()) from error
            raise Unreachable from error

    def cancel(self, futures: list[Any]) -> None:
        """Cancel futures, if the scheduler still listens."""
        if futures:
            with suppress(PliantError):
                self._call(self._client.cancel, futures)

    def close(self) -> None:
        """Leave the cluster, which continues to run."""
        with suppress(PliantError), self._reporting_loss():
            self._client.close(timeout=self.timeouts.answer)

    def _call(self, method: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        async def call() -> Any:
            return await method(*args)  # within the client's event loop its methods are coroutines

        with self._reporting_loss():
            return self._client.sync(call, callback_timeout=self.timeouts.silence)

    @contextmanager
    def _reporting_loss(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, self.dask.CancelledError) as error:
            raise PliantError(self._lost()) from error
        except Exception as error:
            if self._client.status == "running":
                raise
            raise PliantError(self._lost()) from error

    def _lost(self) -> str:
        return (
            f"The scheduler at '{self.address}' does not answer any more. See that it runs, and "
            "continue with --resume or the same store."
        )

    async def _check_port(self) -> None:
        security = self.dask.Security().get_connection_args("client")
        patience = self.timeouts.answer
        comm = await asyncio.wait_for(
            self.dask.comm.connect(self.address, timeout=patience, **security), patience
        )
        comm.abort()


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread, because a notebook's main thread already has an event loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
