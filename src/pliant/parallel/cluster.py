"""The workers of a dask scheduler, which evaluate one function on any number of machines."""

import asyncio
import operator
import pickle
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter, sleep
from typing import Any

from pliant.core import MissingExtra, PliantError
from pliant.parallel.job import Job

PATIENCE = 5.0  # [s] for a cluster to answer
PAUSE = 0.01  # [s] between two looks at what has ended


class Cluster:
    """The workers of a dask scheduler, on any number of machines; start each with one thread, `dask
    worker ADDRESS --nthreads 1`."""

    def __init__(self, f: Callable[..., Any], address: str) -> None:
        try:
            self._dask: Any = import_module("distributed")
        except ImportError as error:
            raise MissingExtra(
                "A cluster needs dask.distributed: pip install -e '.[cluster]'."
            ) from error
        self.address = address
        try:
            _in_a_thread(
                self._knock()
                # the client itself would wait for ever for a program that listens there but is no
                # scheduler
            )
            self._client = self._dask.Client(address, timeout=PATIENCE, set_as_default=False)
        except Exception as error:  # what another program answers can be anything
            raise PliantError(
                f"No scheduler answers at '{address}'; start one by `dask scheduler --host "
                "127.0.0.1`, workers by `dask worker ADDRESS --host 127.0.0.1 --nthreads 1`, "
                "and give the address that the scheduler prints."
            ) from error
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise
        # A task rather than scattered data: where the workers that hold f die, the scheduler makes
        # it anew. Tasks and their arguments are of the standard library alone: a worker that cannot
        # read a task ends without a word, one that cannot unpickle bytes says so.
        self._f = self._submit(pickle.loads, self._dask.protocol.pickle.dumps(_Unpacking(f)))

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """(index, f(*job)) as they end; the jobs of a worker that dies are given to others."""
        if self._client.status != "running":
            raise PliantError(self._lost())
        dumps = self._dask.protocol.pickle.dumps
        futures = {
            self._submit(operator.call, self._f, dumps(job)): index
            for index, job in enumerate(jobs)
        }
        try:
            while futures:
                for future in self._finished(list(futures)):
                    yield futures[future], self._result(future, futures.pop(future), len(jobs))
        finally:
            if futures:
                self._client.cancel(list(futures))

    def _finished(self, futures: list[Any]) -> list[Any]:
        """Those that have ended, at least one; a sentence where no worker is left to end any."""
        looked = perf_counter()
        while not (done := [future for future in futures if future.done()]):
            sleep(PAUSE)
            if self._client.status != "running":
                raise PliantError(self._lost())
            if perf_counter() - looked > PATIENCE:
                looked = perf_counter()
                self._check_workers()  # one that went away may come back meanwhile
        return done

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except self._dask.TimeoutError as error:
            raise PliantError(
                f"The scheduler at '{self.address}' has no workers; start some by `dask worker "
                f"{self.address} --nthreads 1`."
            ) from error
        for place, spec in self._client.run(find_spec, "pliant").items():
            if (
                spec is None
            ):  # it would ask its peers for f again and again, and never be able to read it
                raise PliantError(self._lacks(f"The worker {place}", "pliant"))

    def _lacks(self, who: str, module: str | None) -> str:
        return (
            f"{who} of the cluster at '{self.address}' has no module '{module}'; install there "
            "what is installed here, and start the worker again."
        )

    def _lost(self) -> str:
        return (
            f"The scheduler at '{self.address}' answers no more; see that it runs, and go on "
            "with --resume or the same store."
        )

    async def _knock(self) -> None:
        security = self._dask.Security().get_connection_args("client")
        comm = await asyncio.wait_for(
            self._dask.comm.connect(self.address, timeout=PATIENCE, **security), PATIENCE
        )
        comm.abort()

    def _submit(self, *work: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # f is sent once
            return self._client.submit(*work, pure=False, retries=3)

    def _result(self, future: Any, index: int, n_jobs: int) -> Any:
        try:
            return future.result()
        except self._dask.CancelledError as error:
            raise PliantError(self._lost()) from error
        except self._dask.KilledWorker as error:
            raise PliantError(
                f"Job {index} of {n_jobs} (counted from 0) ended every worker of the cluster "
                "that tried it; give them more memory, and start them with --nthreads 1."
            ) from error
        except ModuleNotFoundError as error:
            raise PliantError(self._lacks("A worker", error.name)) from error


class _Unpacking:
    """f of a pickled job."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, blob: bytes) -> Any:
        return self.f(*pickle.loads(blob))


def _in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; a notebook has a loop of its own in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
