"""Many evaluations of one costly function: in this process, in workers of this machine, or on a cluster."""

import asyncio
import multiprocessing
import operator
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from statistics import mean
from time import perf_counter
from types import ModuleType
from typing import Any, Protocol

from pliant.core import InputError, MissingExtra, PliantError

START = 10.0  # [s] of work for each worker, below which starting it (imports, compiled code) costs more than it brings
DEATHS = 3  # of its worker, after which a job is not tried again
PATIENCE = 5.0  # [s] for a cluster to answer
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Job = tuple[Any, ...]
"""The arguments of one evaluation."""


class Crew(Protocol):
    """Whoever evaluates f."""

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]: ...  # (index of the job, f(*job)) as they end, each job once
    def close(self) -> None: ...


def crew(f: Callable[..., Any], *, workers: int | None = None, cluster: str | None = None) -> Crew:
    """Workers for f: a process for each core, or `workers` of them, or those of the dask scheduler at the address `cluster`."""
    if cluster is not None and workers is not None:
        raise InputError(
            f"Both workers={workers} and the cluster '{cluster}' are given; leave one out, for a cluster brings its own workers."
        )
    if cluster is not None:
        return Cluster(f, cluster)
    return Here(f) if workers == 1 else Pool(f, workers)


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


class Pool:
    """Processes of this machine, started only when the work is worth it; what cannot be sent to them is done here."""

    def __init__(self, f: Callable[..., Any], workers: int | None = None) -> None:
        workers = (os.cpu_count() or 1) if workers is None else workers
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise InputError(f"The number of workers is {workers!r}; give a whole number from 1 up.")
        me = multiprocessing.current_process()
        if workers > 1 and getattr(me, "_inheriting", False):  # true while a worker reads the script that started it
            raise PliantError(f"A worker reads this script and meets a call that starts workers; {_GUARD}.")
        self.f, self.workers = f, workers
        self._blob = None if workers == 1 or me.daemon else _pickled(f)  # None: all in this process; a daemon may have no children
        self._times: list[float] = []  # [s] of each job done here
        self._crew: list[_Worker] = []

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """(index, f(*job)) as they end: here while little is left to do, else by the workers."""
        left = deque(range(len(jobs)))
        while left and not self._pays(len(left)):
            index = left.popleft()
            start = perf_counter()
            result = self.f(*jobs[index])
            self._times.append(perf_counter() - start)
            yield index, result
        try:
            yield from self._share(jobs, left)
        finally:  # an error, an interrupt or a caller that stops early leaves workers at jobs that nobody waits for
            self._dismiss([worker for worker in self._crew if worker.job is not None])

    def close(self) -> None:
        """End the workers."""
        self._dismiss(list(self._crew))

    def _pays(self, left: int) -> bool:
        if self._blob is None or left < 2:
            return False
        # The first job loads compiled code too, so on its own it is believed only where it is long beyond doubt.
        first, later = self._times[:1] or [0.0], self._times[1:]
        seconds = mean(later) if later else first[0] * (first[0] >= START)
        return bool(self._crew) or left * seconds >= self.workers * START

    def _share(self, jobs: Sequence[Job], left: deque[int]) -> Iterator[tuple[int, Any]]:
        deaths: Counter[int | None] = Counter()
        while left or any(worker.job is not None for worker in self._crew):
            self._give_out(jobs, left)
            answers = list(self._answers(len(jobs), left, deaths))
            self._give_out(jobs, left)  # so that nobody idles while the caller looks at the results
            for index, (verdict, result) in answers:
                if verdict == "raised":
                    raise result
                yield index, result if verdict == "done" else self.f(*jobs[index])

    def _give_out(self, jobs: Sequence[Job], left: deque[int]) -> None:
        """Start as many workers as have use, and give each idle one a job."""
        busy = sum(worker.job is not None for worker in self._crew)
        for _ in range(min(self.workers, busy + len(left)) - len(self._crew)):
            self._crew.append(_Worker(needs_script=b"__main__" in (self._blob or b"") + (_pickled(jobs[left[0]]) or b"")))
        for worker in self._crew:
            if left and worker.ready and worker.job is None:
                worker.job = left.popleft()
                with suppress(OSError):  # it died: the end of its pipe says so too
                    worker.pipe.send_bytes(_pickled(jobs[worker.job]) or b"")

    def _answers(self, n_jobs: int, left: deque[int], deaths: Counter[int | None]) -> Iterator[tuple[int, tuple[str, Any]]]:
        """What the workers have to say, at least one of them: answers to give to the caller; the job of a dead one is left again."""
        said = wait([worker.pipe for worker in self._crew])
        for worker in [worker for worker in self._crew if worker.pipe in said]:
            try:
                message = worker.pipe.recv_bytes()
                if not worker.ready:
                    worker.pipe.send_bytes(self._blob or b"")
            except (EOFError, OSError):
                worker.process.join(1.0)  # its own end, of which the exit code tells
                self._dismiss([worker])
                left.extend(
                    [] if worker.job is None else [worker.job]
                )  # last, so that a deadly one does not keep the others from their end
                deaths[worker.job] += worker.job is not None or not worker.ready  # one that died idle was nobody's fault
                if deaths[worker.job] == DEATHS or worker.failed_to_start:
                    raise PliantError(_obituary(worker, n_jobs)) from None
                continue
            index, worker.job = worker.job, None
            if index is not None:
                yield index, pickle.loads(message)
            worker.ready = True

    def _dismiss(self, workers: "list[_Worker]") -> None:
        for worker in workers:
            self._crew.remove(worker)
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()


class _Worker:
    """One process at the end of a pipe: its death is the end of the pipe, so exactly its own job is lost.

    concurrent.futures would end all workers with the one that dies, cannot tell whose job it was, and leaves orphans."""

    def __init__(self, *, needs_script: bool) -> None:
        context = multiprocessing.get_context("spawn")  # the threads of Numba do not survive a fork
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=_serve, args=(far,), daemon=True)
        with far, _as_workers_start(needs_script):
            self.process.start()
        self.ready = False  # it has said that it is there
        self.job: int | None = None

    @property
    def failed_to_start(self) -> bool:
        return not self.ready and self.process.exitcode == 1  # an exception; a signal may be the system's, and then another may live


@contextmanager
def _as_workers_start(needs_script: bool) -> Iterator[None]:
    """One thread each, set before Numba is loaded; and a script whose functions they do not need is not run again by each of them."""
    before, main = {name: os.environ.get(name) for name in ONE_THREAD}, sys.modules["__main__"]
    os.environ.update(ONE_THREAD)
    sys.modules["__main__"] = main if needs_script else ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection) -> None:
    """The life of a worker: say that it is there, take f, then answer jobs until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; whoever started the workers ends them
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send_bytes(b"")
        blob = pipe.recv_bytes()
        try:
            f = pickle.loads(blob)
        except Exception:  # whatever the reason, f cannot live here
            f = None
        while True:
            pipe.send_bytes(_answer(f, pipe.recv_bytes()))


def _answer(f: Callable[..., Any] | None, blob: bytes) -> bytes:
    """f of the job as ("done", result) or ("raised", error), pickled; ("here", None) where the job, or the answer, cannot travel."""
    try:
        job = pickle.loads(blob)
        if f is None:
            raise TypeError
    except Exception:
        return pickle.dumps(("here", None))
    try:
        answer: tuple[str, Any] = "done", f(*job)
    except BaseException as error:
        error.add_note(f"In a worker: {traceback.format_exc()}")
        answer = "raised", error
    try:
        message = pickle.dumps(answer)
        pickle.loads(message)  # some errors can be written but not read
    except Exception:
        return pickle.dumps(("here", None))
    return message


def _end_with_parent() -> None:
    """A worker whose parent was killed in the middle of a job would go on with it for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


_GUARD = 'put the lines that do the work below `if __name__ == "__main__":`, because each worker reads the script that f is defined in'


def _obituary(worker: _Worker, n_jobs: int) -> str:
    code = worker.process.exitcode
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    if worker.failed_to_start:
        return f"A worker stopped while it started ({how}; it wrote why above); {_GUARD}, or use workers=1."
    if worker.job is None:
        return f"{DEATHS} workers were ended while they started ({how}); free some memory, or use fewer workers."
    memory = ", which is what the system does when memory runs out" if how == "SIGKILL" else ""
    return (f"Job {worker.job} of {n_jobs} (counted from 0) ended its worker {DEATHS} times ({how}{memory}); use fewer workers, or "
            "workers=1 to see where it stops.")  # fmt: skip


def _pickled(thing: Any) -> bytes | None:
    try:
        return pickle.dumps(thing)
    except Exception:  # a lambda, an open file, a class of its own mind: it stays in this process
        return None


class Cluster:
    """The workers of a dask scheduler, on any number of machines; start each with one thread, `dask worker ADDRESS --nthreads 1`."""

    def __init__(self, f: Callable[..., Any], address: str) -> None:
        try:
            self._dask: Any = import_module("distributed")
        except ImportError as error:
            raise MissingExtra("A cluster needs dask.distributed: pip install -e '.[cluster]'.") from error
        self.address = address
        try:
            _in_a_thread(self._knock())  # the client itself would wait for ever for a program that listens there but is no scheduler
            self._client = self._dask.Client(address, timeout=PATIENCE, set_as_default=False)
        except Exception as error:  # what another program answers can be anything
            raise PliantError(f"No scheduler answers at '{address}'; start one by `dask scheduler`, workers by `dask worker ADDRESS "
                              "--nthreads 1`, and give the address that the scheduler prints.") from error  # fmt: skip
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise
        # A task rather than scattered data: where the workers that hold f die, the scheduler makes it anew. Tasks and their arguments are
        # of the standard library alone: a worker that cannot read a task ends without a word, one that cannot unpickle bytes says so.
        self._f = self._submit(pickle.loads, self._dask.protocol.pickle.dumps(_Unpacking(f)))

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """(index, f(*job)) as they end; the jobs of a worker that dies are given to others."""
        if self._client.status != "running":
            raise PliantError(self._lost())
        dumps = self._dask.protocol.pickle.dumps
        futures = {self._submit(operator.call, self._f, dumps(job)): index for index, job in enumerate(jobs)}
        try:
            for future in self._dask.as_completed(list(futures), loop=self._client.loop):
                yield futures[future], self._result(future, futures.pop(future), len(jobs))
        finally:
            if futures:
                self._client.cancel(list(futures))

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except self._dask.TimeoutError as error:
            raise PliantError(
                f"The scheduler at '{self.address}' has no workers; start some by `dask worker {self.address} --nthreads 1`."
            ) from error
        for place, spec in self._client.run(find_spec, "pliant").items():
            if spec is None:  # it would ask its peers for f again and again, and never be able to read it
                raise PliantError(self._lacks(f"The worker {place}", "pliant"))

    def _lacks(self, who: str, module: str | None) -> str:
        return (f"{who} of the cluster at '{self.address}' has no module '{module}'; install there what is installed here, and start the "
                "worker again.")  # fmt: skip

    def _lost(self) -> str:
        return f"The scheduler at '{self.address}' answers no more; see that it runs, and start this run again."

    async def _knock(self) -> None:
        security = self._dask.Security().get_connection_args("client")
        comm = await asyncio.wait_for(self._dask.comm.connect(self.address, timeout=PATIENCE, **security), PATIENCE)
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
            raise PliantError(f"Job {index} of {n_jobs} (counted from 0) ended every worker of the cluster that tried it; give them more "
                              "memory, and start them with --nthreads 1.") from error  # fmt: skip
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
