"""Processes of this machine that evaluate one function, each at the end of a pipe."""

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

from pliant.core import InputError, PliantError, is_whole, quoted
from pliant.parallel.job import Job

# [s] of work for each worker, below which starting it (imports, compiled code) costs more than it
# brings
START = 10.0
DEATHS = 3  # of its worker, after which a job is not tried again
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Pool:
    """Processes of this machine, started only when the work is worth it; what cannot be sent to
    them is done here."""

    def __init__(self, f: Callable[..., Any], workers: int | None = None) -> None:
        workers = (os.cpu_count() or 1) if workers is None else workers
        if not is_whole(workers) or workers < 1:
            raise InputError(
                f"The number of workers is {quoted(workers)}; give a whole number from 1 up."
            )
        me = multiprocessing.current_process()
        if workers > 1 and getattr(
            me, "_inheriting", False
        ):  # true while a worker reads the script that started it
            raise PliantError(
                f"A worker reads this script and meets a call that starts workers; {_GUARD}."
            )
        self.f, self.workers = f, workers
        self._blob = (
            None if workers == 1 or me.daemon else _pickled(f)
        )  # None: all in this process; a daemon may have no children
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
        finally:
            # an error, an interrupt or a caller that stops early leaves workers at jobs that nobody
            # waits for
            self._dismiss([worker for worker in self._crew if worker.job is not None])

    def close(self) -> None:
        """End the workers."""
        self._dismiss(list(self._crew))

    def _pays(self, left: int) -> bool:
        if self._blob is None or left < 2:
            return False
        # The first job loads compiled code too, so on its own it is believed only where it is long
        # beyond doubt.
        first, later = self._times[:1] or [0.0], self._times[1:]
        seconds = mean(later) if later else first[0] * (first[0] >= START)
        return bool(self._crew) or left * seconds >= self.workers * START

    def _share(self, jobs: Sequence[Job], left: deque[int]) -> Iterator[tuple[int, Any]]:
        deaths: Counter[int | None] = Counter()
        while left or any(worker.job is not None for worker in self._crew):
            self._give_out(jobs, left)
            answers = sorted(
                self._answers(len(jobs), left, deaths), key=lambda answer: answer[1][0] == "raised"
            )  # errors last
            self._give_out(jobs, left)  # so that nobody idles while the caller looks at the results
            for index, (verdict, result) in answers:
                if verdict == "raised":
                    raise result
                yield index, result if verdict == "done" else self.f(*jobs[index])

    def _give_out(self, jobs: Sequence[Job], left: deque[int]) -> None:
        """Start as many workers as have use, and give each idle one a job."""
        busy = sum(worker.job is not None for worker in self._crew)
        for _ in range(min(self.workers, busy + len(left)) - len(self._crew)):
            self._crew.append(
                _Worker(
                    needs_script=b"__main__"
                    in (self._blob or b"") + (_pickled(jobs[left[0]]) or b"")
                )
            )
        for worker in self._crew:
            if left and worker.ready and worker.job is None:
                worker.job = left.popleft()
                with suppress(OSError):  # it died: the end of its pipe says so too
                    worker.pipe.send_bytes(_pickled(jobs[worker.job]) or b"")

    def _answers(
        self, n_jobs: int, left: deque[int], deaths: Counter[int | None]
    ) -> Iterator[tuple[int, tuple[str, Any]]]:
        """What the workers have to say, at least one of them: answers to give to the caller; the
        job of a dead one is left again."""
        said = wait([worker.pipe for worker in self._crew])
        for worker in [worker for worker in self._crew if worker.pipe in said]:
            try:
                message = worker.pipe.recv_bytes()
                if not worker.ready:
                    worker.pipe.send_bytes(self._blob or b"")
            except (EOFError, OSError):
                worker.process.join(1.0)  # its own end, of which the exit code tells
                self._dismiss([worker])
                if worker.job is not None:
                    left.append(
                        worker.job
                    )  # last, so that a deadly one does not keep the others from their end
                deaths[worker.job] += (
                    worker.job is not None or not worker.ready
                )  # one that died idle was nobody's fault
                if deaths[worker.job] == DEATHS or worker.failed_to_start:
                    yield -1, ("raised", PliantError(_obituary(worker, n_jobs)))
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
    """One process at the end of a pipe: its death is the end of the pipe, so exactly its own job is
    lost.

    concurrent.futures would end all workers with the one that dies, cannot tell whose job it was,
    and leaves orphans."""

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
        return (
            not self.ready and self.process.exitcode == 1
        )  # an exception; a signal may be the system's, and then another may live


@contextmanager
def _as_workers_start(needs_script: bool) -> Iterator[None]:
    """One thread each, set before Numba is loaded; and a script whose functions they do not need is
    not run again by each of them."""
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
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to all; whoever started the workers ends them
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.filterwarnings("ignore", "Compiled code")  # the parent has warned already
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
    """f of the job as ("done", result) or ("raised", error), pickled; ("here", None) where the job,
    or the answer, cannot travel."""
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


_GUARD = (
    'put the lines that do the work below `if __name__ == "__main__":`, because each worker '
    "reads the script that f is defined in"
)


def _obituary(worker: _Worker, n_jobs: int) -> str:
    code = worker.process.exitcode
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    if worker.failed_to_start:
        return (
            f"A worker stopped while it started ({how}; it wrote why above); {_GUARD}, or use "
            "workers=1."
        )
    if worker.job is None:
        return (
            f"{DEATHS} workers were ended while they started ({how}); free some memory, or use "
            "fewer workers."
        )
    memory = ", which is what the system does when memory runs out" if how == "SIGKILL" else ""
    return (
        f"Job {worker.job} of {n_jobs} (counted from 0) ended its worker {DEATHS} times "
        f"({how}{memory}); use fewer workers, or workers=1 to see where it stops."
    )


def _pickled(thing: Any) -> bytes | None:
    try:
        return pickle.dumps(thing)
    except Exception:  # a lambda, an open file, a class of its own mind: it stays in this process
        return None
