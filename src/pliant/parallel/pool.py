"""Worker processes on this machine that evaluate one function, each connected by a pipe."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from statistics import mean
from time import perf_counter
from types import ModuleType
from typing import Any

from pliant.core import InputError, PliantError, is_integer, quoted
from pliant.parallel.workers import Job

# [s] of remaining work per worker; with less, starting it (imports, compiled code) does not pay.
# Calls of `map` that repeat, as in an optimisation, are expected to take as long again.
MIN_WORK_PER_WORKER = 10.0
MAX_ATTEMPTS = 3  # of a job whose worker dies
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)

# The three kinds of answer of a worker.
DONE, RAISED, NOT_PICKLABLE = "done", "raised", "not picklable"


class Pool:
    """Worker processes on this machine, which start only if there is enough work.

    Functions, jobs and results that cannot be pickled are evaluated in this process.
    """

    def __init__(self, f: Callable[..., Any], workers: int | None = None) -> None:
        workers = (os.cpu_count() or 1) if workers is None else workers
        if not is_integer(workers) or workers < 1:
            raise InputError(
                f"The number of workers is {quoted(workers)}. Give a whole number of at least 1."
            )
        current = multiprocessing.current_process()
        # `_inheriting` is true while a worker imports the script that started it.
        if workers > 1 and getattr(current, "_inheriting", False):
            raise PliantError(
                f"A worker imports this script, which starts workers itself. {_GUARD}."
            )
        self.f, self.workers = f, workers
        # None: evaluate all jobs in this process. A daemon process cannot have children.
        self._pickled_f = None if workers == 1 or current.daemon else _pickled(f)
        self._durations: list[float] = []  # [s] of each job evaluated in this process
        self._calls = 0  # of `map`
        self._processes: list[_Worker] = []

    def map(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield (index, f(*job)) in the order in which the jobs end.

        Jobs run in this process while little work remains, otherwise in the workers.
        """
        remaining = deque(range(len(jobs)))
        self._calls += 1
        while remaining and not self._should_start_workers(len(remaining)):
            index = remaining.popleft()
            start = perf_counter()
            result = self.f(*jobs[index])
            self._durations.append(perf_counter() - start)
            yield index, result
        try:
            yield from self._map_in_workers(jobs, remaining)
        finally:
            # After an error, an interrupt or an early stop, no one needs the running jobs.
            self._stop([worker for worker in self._processes if worker.job is not None])

    def close(self) -> None:
        """Stop the workers."""
        self._stop(list(self._processes))

    def _should_start_workers(self, n_remaining: int) -> bool:
        if self._pickled_f is None or n_remaining < 2:
            return False
        # The first job also loads compiled code, so its time alone counts only if it is long.
        first, later = self._durations[:1] or [0.0], self._durations[1:]
        seconds = mean(later) if later else first[0] * (first[0] >= MIN_WORK_PER_WORKER)
        before = sum(later) if self._calls > 1 else 0.0
        enough = max(n_remaining * seconds, before) >= self.workers * MIN_WORK_PER_WORKER
        return bool(self._processes) or enough

    def _map_in_workers(
        self, jobs: Sequence[Job], remaining: deque[int]
    ) -> Iterator[tuple[int, Any]]:
        deaths: Counter[int | None] = Counter()
        while remaining or any(worker.job is not None for worker in self._processes):
            self._assign_jobs(jobs, remaining)
            answers = sorted(
                self._receive(len(jobs), remaining, deaths),
                key=lambda answer: answer[1][0] == RAISED,  # errors last
            )
            self._assign_jobs(jobs, remaining)  # workers continue while the caller uses the results
            for index, (status, result) in answers:
                if status == RAISED:
                    raise result
                yield index, result if status == DONE else self.f(*jobs[index])

    def _assign_jobs(self, jobs: Sequence[Job], remaining: deque[int]) -> None:
        """Start as many workers as needed and send a job to each idle worker."""
        busy = sum(worker.job is not None for worker in self._processes)
        for _ in range(min(self.workers, busy + len(remaining)) - len(self._processes)):
            pickles = (self._pickled_f or b"") + (_pickled(jobs[remaining[0]]) or b"")
            self._processes.append(_Worker(needs_script=b"__main__" in pickles))
        for worker in self._processes:
            if remaining and worker.ready and worker.job is None:
                worker.job = remaining.popleft()
                with suppress(OSError):  # the worker died; `_receive` finds its pipe closed
                    worker.pipe.send_bytes(_pickled(jobs[worker.job]) or b"")

    def _receive(
        self, n_jobs: int, remaining: deque[int], deaths: Counter[int | None]
    ) -> Iterator[tuple[int, tuple[str, Any]]]:
        """Wait for at least one worker, and yield (index of the job, (status, result)).

        The job of a dead worker is appended to `remaining`.
        """
        pipes = wait([worker.pipe for worker in self._processes])
        for worker in [worker for worker in self._processes if worker.pipe in pipes]:
            try:
                message = worker.pipe.recv_bytes()
                if not worker.ready:
                    worker.pipe.send_bytes(self._pickled_f or b"")
            except (EOFError, OSError):
                worker.process.join(1.0)  # sets the exit code
                self._stop([worker])
                if worker.job is not None:
                    remaining.append(worker.job)  # last, so that it does not delay the other jobs
                # The death of an idle worker is not the fault of a job.
                deaths[worker.job] += worker.job is not None or not worker.ready
                if deaths[worker.job] == MAX_ATTEMPTS or worker.failed_to_start:
                    yield -1, (RAISED, PliantError(_failure_report(worker, n_jobs)))
                continue
            index, worker.job = worker.job, None
            if index is not None:
                yield index, pickle.loads(message)
            worker.ready = True

    def _stop(self, workers: "list[_Worker]") -> None:
        for worker in workers:
            self._processes.remove(worker)
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()


class _Worker:
    """One worker process with a pipe. If it dies, its pipe closes and only its own job is lost.

    concurrent.futures would stop all workers when one dies, cannot tell which job failed, and
    leaves orphans.
    """

    def __init__(self, *, needs_script: bool) -> None:
        context = multiprocessing.get_context("spawn")  # Numba's threads do not survive a fork
        self.pipe, worker_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(worker_end,), daemon=True)
        with worker_end, _worker_environment(needs_script):
            self.process.start()
        self.ready = False  # whether it has sent its first message
        self.job: int | None = None

    @property
    def failed_to_start(self) -> bool:
        # Exit code 1 is an exception. The system may send a signal, and then another worker may
        # start.
        return not self.ready and self.process.exitcode == 1


@contextmanager
def _worker_environment(needs_script: bool) -> Iterator[None]:
    """Let new processes use one thread, and import the main script only if they need it.

    The number of threads must be set before Numba is imported.
    """
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
    """Run a worker: report that it is ready, receive f, then answer jobs until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent stops the workers
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    warnings.filterwarnings("ignore", "Compiled code")  # the parent has warned already
    with suppress(EOFError, OSError):
        pipe.send_bytes(b"")
        pickled_f = pipe.recv_bytes()
        try:
            f = pickle.loads(pickled_f)
        except Exception:  # f cannot be unpickled in this process
            f = None
        while True:
            pipe.send_bytes(_answer(f, pipe.recv_bytes()))


def _answer(f: Callable[..., Any] | None, pickled_job: bytes) -> bytes:
    """Return the pickled (status, result): f of the job, the error that it raised, or None.

    None means that f, the job or the answer cannot be pickled or unpickled.
    """
    try:
        job = pickle.loads(pickled_job)
        if f is None:
            raise TypeError
    except Exception:
        return pickle.dumps((NOT_PICKLABLE, None))
    try:
        answer: tuple[str, Any] = DONE, f(*job)
    except BaseException as error:
        error.add_note(f"In a worker: {traceback.format_exc()}")
        answer = RAISED, error
    try:
        message = pickle.dumps(answer)
        pickle.loads(message)  # some errors can be pickled but not unpickled
    except Exception:
        return pickle.dumps((NOT_PICKLABLE, None))
    return message


def _exit_with_parent() -> None:
    """Exit as soon as the parent process has ended, also in the middle of a job."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


_GUARD = (
    'Put the statements that start workers below `if __name__ == "__main__":`, because each '
    "worker imports the script that defines f"
)


def _failure_report(worker: _Worker, n_jobs: int) -> str:
    code = worker.process.exitcode
    reason = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    if worker.failed_to_start:
        return (
            f"A worker failed to start ({reason}; see its error above). {_GUARD}. Or use workers=1."
        )
    if worker.job is None:
        return (
            f"{MAX_ATTEMPTS} workers were killed while they started ({reason}). Free some memory, "
            "or use fewer workers."
        )
    memory = ", as the system does if memory runs out" if reason == "SIGKILL" else ""
    return (
        f"Job {worker.job} of {n_jobs} (counted from 0) ended its worker {MAX_ATTEMPTS} times "
        f"({reason}{memory}). Use fewer workers, or workers=1 to see where it fails."
    )


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # for example a lambda or an open file, which stays in this process
        return None
