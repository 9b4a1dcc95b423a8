"""Workers return the same results as this process, even if workers die or freeze."""

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pliant
from pliant.core import InputError, MissingExtra
from pliant.parallel import Cluster, Pool, SerialWorkers, make_workers
from pliant.parallel import cluster as cluster_module
from pliant.parallel import pool as pool_module
from pliant.parallel.connection import Timeouts, Unreachable


class CallArgument:
    """The function of all tests: calls its first argument. Unpickling it leaves a file."""

    def __init__(self, folder):
        self.folder = folder

    def __setstate__(self, state):
        self.__dict__.update(state)
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()

    def __call__(self, what, *args):
        return what(*args)

    def arrivals(self):
        return len(list(self.folder.iterdir()))


def wave(k):
    """Return a result whose bits are compared."""
    return np.sin(np.linspace(0.0, k, 5)) ** k, {"k": k}


WAVES = [(wave, k) for k in range(12)]


def assert_waves(results):
    results = dict(results)
    assert sorted(results) == list(range(12))
    for k, (value, said) in results.items():
        assert value.tobytes() == wave(k)[0].tobytes()
        assert said == {"k": k}


def process_and_threads(*_):
    return os.getpid(), os.environ.get("NUMBA_NUM_THREADS")


def die_then_square(folder, times, k):
    """Return k^2, but kill the process at the first `times` calls."""
    folder.mkdir(exist_ok=True)
    tries = len(list(folder.iterdir()))
    if tries < times:
        (folder / str(tries)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


def sleep_long(folder):
    (folder / str(os.getpid())).touch()
    time.sleep(600.0)


class UnpicklableError(Exception):
    """An error that can be pickled but not unpickled."""

    def __init__(self, here, there):
        super().__init__(f"{here} {there}")


def fail_or_return(k):
    if k == 2:
        raise InputError(f"Job {k} is wrong; correct it.")
    if k == 3:
        raise UnpicklableError("from", "worker")
    return (
        (lambda: k) if k == 4 else k
    )  # a result that cannot be pickled is computed in this process


def wait_until(done):
    for _ in range(1200):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("the condition was never met")


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module", autouse=True)
def lazy_package(tmp_path_factory):
    """Let new processes find a `pliant` package whose subpackages load on demand, which saves
    seconds."""
    folder = tmp_path_factory.mktemp("lazy_package")
    (folder / "pliant").mkdir()
    (folder / "pliant" / "__init__.py").write_text(f"__path__ = {list(pliant.__path__)!r}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


@pytest.fixture
def start_immediately(monkeypatch):
    """Start workers for any amount of work."""
    monkeypatch.setattr(pool_module, "MIN_WORK_PER_WORKER", 0.0)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """One pool for all tests, because starting a worker takes seconds."""
    with closing(
        make_workers(CallArgument(tmp_path_factory.mktemp("arrivals")), workers=2)
    ) as workers:
        assert isinstance(workers, Pool)
        yield workers


def test_serial_workers_keep_the_order(tmp_path):
    with closing(make_workers(CallArgument(tmp_path), workers=1)) as workers:
        assert isinstance(workers, SerialWorkers)
        results = list(workers.map(WAVES))
    assert [k for k, _ in results] == list(range(12))
    assert_waves(results)


def test_workers_return_identical_bits_receive_f_once_and_use_one_thread(
    start_immediately, pool, monkeypatch
):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for _ in range(3):
        assert_waves(pool.map(WAVES))
    assert list(pool.map([])) == []
    places = [result for _, result in pool.map(12 * [(process_and_threads,)])]
    assert {threads for _, threads in places} == {"1"}
    assert os.getpid() not in {pid for pid, _ in places}
    assert 1 <= pool.f.arrivals() <= 2  # one of two workers may have started too late for any job
    assert "NUMBA_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_errors_are_raised_and_unpicklable_jobs_run_in_this_process(start_immediately, pool):
    with pytest.raises(InputError) as caught:
        list(pool.map([(fail_or_return, 0), (fail_or_return, 1), (fail_or_return, 2)]))
    assert str(caught.value) == "Job 2 is wrong; correct it."
    assert "in fail_or_return" in caught.value.__notes__[0]  # the traceback of the worker
    with pytest.raises(UnpicklableError, match="from worker"):
        list(pool.map([(fail_or_return, 3), (fail_or_return, 3)]))
    results = dict(pool.map([(fail_or_return, 4), (fail_or_return, 1), (fail_or_return, 4)]))
    assert results[0]() == results[2]() == 4
    assert results[1] == 1
    results = dict(
        pool.map(
            [
                (process_and_threads, lambda: 0),
                (process_and_threads,),
                (process_and_threads, lambda: 0),
            ]
        )
    )
    assert results[0][0] == results[2][0] == os.getpid() != results[1][0]


def test_dead_worker_is_replaced_and_no_job_is_lost(start_immediately, pool, tmp_path):
    for worker in pool._processes[:1]:  # an idle worker
        worker.process.kill()
        worker.process.join()
    jobs = [(die_then_square, tmp_path / str(k), int(k == 3), k) for k in range(8)]
    assert sorted(pool.map(jobs)) == [(k, k * k) for k in range(8)]
    assert (tmp_path / "3" / "0").exists()


def test_job_that_kills_three_workers_is_reported(
    start_immediately, pool, tmp_path, raises_clear_error
):
    jobs = [(die_then_square, tmp_path / str(k), 3 * (k == 1), k) for k in range(4)]
    raises_clear_error(
        lambda: list(pool.map(jobs)), r"Job 1 of 4 .*3 times \(SIGKILL.*memory.*Use fewer workers"
    )
    assert len(list((tmp_path / "1").iterdir())) == 3


def test_interrupt_stops_the_jobs(start_immediately, pool, tmp_path):
    def interrupt():
        wait_until(lambda: any(tmp_path.iterdir()))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # left over by an earlier test
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        list(pool.map([(sleep_long, tmp_path), (sleep_long, tmp_path)]))
    signal.signal(signal.SIGINT, before)
    assert not any(is_running(int(path.name)) for path in tmp_path.iterdir())
    assert all(worker.job is None for worker in pool._processes)


@pytest.mark.parametrize(
    ("seconds", "jobs", "here"),
    [(0.5, 40, 40), (2.0, 12, 2), (2.0, 11, 11), (30.0, 3, 1), (60.0, 1, 1)],
)
def test_workers_start_only_for_enough_work(monkeypatch, seconds, jobs, here):
    # 10 s for each of 2 workers: 20 s must be left, by the second job, or by the first where that
    # took more than 10 s.
    clock, remaining = count(0.0, seconds), []
    monkeypatch.setattr(pool_module, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(
        Pool, "_map_in_workers", lambda self, jobs, left: iter(remaining.extend(left) or ())
    )
    assert [k for k, _ in Pool(abs, 2).map([(k,) for k in range(jobs)])] == list(range(here))
    assert remaining == list(range(here, jobs))


def test_workers_start_when_small_calls_repeat(monkeypatch):
    """After the first job of 1 s, 20 more take the 20 s after which two workers pay."""
    clock = count(0.0, 1.0)
    monkeypatch.setattr(pool_module, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(Pool, "_map_in_workers", lambda self, jobs, left: iter(()))
    pool = Pool(abs, 2)
    here = [len(list(pool.map([(k,) for k in range(6)]))) for _ in range(5)]
    assert here == [6, 6, 6, 3, 0]


def test_unpicklable_function_runs_in_this_process(start_immediately, monkeypatch):
    monkeypatch.setattr(pool_module, "_Worker", None)  # no worker can start
    assert_waves(make_workers(lambda what, k: what(k)).map(WAVES))


SCRIPT = """
import operator, sys
from pathlib import Path
from pliant import parallel
from test_parallel import sleep_long
def mine(x): return -x
print("script", flush=True)
parallel.pool.MIN_WORK_PER_WORKER = 0.0
pool = parallel.Pool(operator.call, 2)
print(sorted(pool.map([(abs, -3), (abs, 4)])), flush=True)
list(pool.map(2 * [(sleep_long, Path(__file__).parent / "marks")]))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_script_whose_functions_workers_need_must_have_a_guard(
    start_immediately, script, monkeypatch, capfd, raises_clear_error
):
    main = ModuleType("__main__")
    main.__file__ = str(script)
    exec("def mine(x): return -x", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with closing(Pool(main.mine, 2)) as workers:
        raises_clear_error(
            lambda: list(workers.map([(3,), (4,)])),
            'failed to start .exit code 1.*below `if __name__ == "__main__":`',
        )
    assert "which starts workers itself" in capfd.readouterr().err


def test_workers_do_not_import_an_unneeded_script_and_exit_with_it(script):
    (script.parent / "marks").mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env
    )
    marks = (script.parent / "marks").iterdir
    wait_until(lambda: len(list(marks())) == 2)
    parent.kill()
    assert parent.communicate()[0] == "script\n[(0, 3), (1, 4)]\n"
    wait_until(lambda: not any(is_running(int(path.name)) for path in marks()))


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_invalid_number_of_workers_is_rejected(raises_clear_error, workers):
    raises_clear_error(
        lambda: make_workers(abs, workers=workers), "number of workers is .* at least 1"
    )
    raises_clear_error(
        lambda: make_workers(abs, workers=workers, cluster="127.0.0.1:8786"), "Leave one out"
    )


def test_missing_dask_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[cluster\]'"):
        make_workers(abs, cluster="127.0.0.1:8786")


LOCAL = "--host 127.0.0.1 --no-dashboard --dashboard-address 127.0.0.1:0"  # opens no public port


def test_address_without_a_scheduler_is_reported(raises_clear_error):
    pytest.importorskip("distributed")
    timeouts = Timeouts(answer=0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        raises_clear_error(
            lambda: Cluster(abs, address, timeouts=timeouts),
            f"No scheduler answers at .*`dask scheduler {LOCAL}`.*`dask worker ADDRESS {LOCAL}",
        )
        silent.listen()  # accepts the connection and does not answer
        raises_clear_error(
            lambda: Cluster(abs, address, timeouts=timeouts), "No scheduler answers at"
        )
    raises_clear_error(
        lambda: make_workers(abs, cluster="no address"),
        "No scheduler answers at 'no address'",
    )


def local_cluster(**options):
    dask = pytest.importorskip("distributed")
    return dask.LocalCluster(
        **{
            "threads_per_worker": 1,
            "processes": True,
            "dashboard_address": ":0",
            "host": "127.0.0.1",
            **options,
        }
    )


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 1,
                "distributed.deploy.lost-worker-timeout": "1 hour",  # a new one may start slowly
            }
        ),
        local_cluster(n_workers=2) as local,
    ):
        yield local


def test_cluster_returns_identical_bits_and_receives_f_once(cluster, tmp_path):
    with closing(
        make_workers(CallArgument(tmp_path), cluster=cluster.scheduler_address)
    ) as workers:
        assert isinstance(workers, Cluster)
        for _ in range(3):
            assert_waves(workers.map(WAVES))
        assert list(workers.map([])) == []
        assert (
            1 <= len(list(tmp_path.iterdir())) <= 4
        )  # with two workers; a transfer between them may unpickle it once more
        with pytest.raises(InputError, match="Job 2 is wrong"):
            list(workers.map([(fail_or_return, 0), (fail_or_return, 2)]))


def test_cluster_without_a_module_is_reported(cluster, monkeypatch, raises_clear_error):
    only_here = ModuleType("only_here")
    exec("def f(x): return x", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    with closing(Cluster(only_here.f, cluster.scheduler_address)) as workers:
        raises_clear_error(
            lambda: list(workers.map([(1,)])),
            "worker of the cluster at .* has no module 'only_here'. Install",
        )
    monkeypatch.setattr(cluster_module, "find_spec", {}.get)  # as if pliant were not installed
    raises_clear_error(
        lambda: Cluster(abs, cluster.scheduler_address),
        "The worker tcp.* has no module 'pliant'. Install",
    )


def test_missing_workers_and_lost_scheduler_are_reported(monkeypatch, raises_clear_error):
    timeouts = Timeouts(answer=0.5)
    with local_cluster(n_workers=0) as empty:
        raises_clear_error(
            lambda: Cluster(abs, empty.scheduler_address, timeouts=timeouts),
            f"has no workers. Start one by `dask worker .* {LOCAL} --nthreads 1`. It opens ports "
            "that only this machine can reach",
        )
        monkeypatch.setattr(Cluster, "_check_workers", lambda *_: False)
        with closing(Cluster(abs, empty.scheduler_address, timeouts=timeouts)) as workers:
            threading.Timer(0.2, empty.close).start()
            raises_clear_error(
                lambda: list(workers.map([(-1,)])), "does not answer any more. Check that"
            )
            raises_clear_error(lambda: list(workers.map([(-1,)])), "does not answer any more")
        monkeypatch.undo()
        raises_clear_error(lambda: workers._check_workers(5.0), "does not answer any more")


def test_cluster_map_survives_dead_workers(cluster, tmp_path, raises_clear_error):
    arrivals = tmp_path / "arrivals"
    arrivals.mkdir()
    with closing(Cluster(CallArgument(arrivals), cluster.scheduler_address)) as workers:
        jobs = [(die_then_square, tmp_path / str(k), int(k == 3), k) for k in range(8)]
        assert sorted(workers.map(jobs)) == [(k, k * k) for k in range(8)]
        assert (tmp_path / "3" / "0").exists()
        raises_clear_error(
            lambda: list(workers.map([(die_then_square, tmp_path / "x", 100, 0)])),
            "Job 0 of 1 .*ended every worker",
        )


@pytest.fixture
def workers(cluster, tmp_path):
    cluster.wait_for_workers(2, timeout=120)
    with closing(Cluster(CallArgument(tmp_path), cluster.scheduler_address)) as made:
        made.timeouts = made._connection.timeouts = Timeouts(answer=1.0, silence=2.0)
        yield made


def closed_comm(*_, **__):
    raise import_module("distributed").comm.CommClosedError("in test: the other side is gone")


async def closed_comm_later(*_, **__):
    closed_comm()


@pytest.mark.parametrize("method", ["run", "cancel"])
def test_job_finishes_although_a_call_reaches_a_dead_worker(workers, monkeypatch, method):
    monkeypatch.setattr(workers._connection._client, method, closed_comm_later)
    assert workers._check_workers(5.0) is False
    jobs = workers.map([(abs, -1), (abs, -2)])
    assert next(jobs)[1] in (1, 2)
    jobs.close()  # cancels the remaining jobs
    assert_waves(workers.map(WAVES))


def test_worker_death_during_a_call_does_not_end_the_map(cluster, workers, monkeypatch):
    connection, run = workers._connection, workers._connection._client.run
    victims = [next(iter(cluster.workers.values())).pid]

    async def die_then_run(*args, **options):
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)
        return await run(*args, **options)

    monkeypatch.setattr(connection._client, "run", die_then_run)
    workers._check_workers(5.0)
    assert not victims
    assert_waves(workers.map(WAVES))


@pytest.mark.parametrize("method", ["nthreads", "submit"])
def test_lost_scheduler_is_reported_by_every_call(workers, monkeypatch, raises_clear_error, method):
    fails = closed_comm if method == "submit" else closed_comm_later
    monkeypatch.setattr(workers._connection._client, method, fails)
    raises_clear_error(
        lambda: workers._check_workers(5.0) or list(workers.map([(abs, -1)])),
        "The scheduler at .* does not answer any more",
    )


def test_closing_after_the_scheduler_died_is_silent(workers, monkeypatch):
    close = workers._connection._client.close
    monkeypatch.setattr(workers._connection._client, "close", closed_comm)
    workers.close()
    close()


def missing_file():
    raise FileNotFoundError("mesh.msh")


def test_oserror_of_a_job_is_not_reported_as_a_lost_scheduler(workers):
    with pytest.raises(FileNotFoundError, match="mesh"):
        list(workers.map([(missing_file,)]))


def freeze_then_square(folder, k):
    """Return k^2, but stop the first process that calls this."""
    with suppress(FileExistsError), (folder / "pid").open("x") as file:
        file.write(str(os.getpid()))
        file.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
    return k * k


def test_jobs_of_a_frozen_worker_are_evaluated_by_another(workers, tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    try:
        jobs = [(freeze_then_square, folder, k) for k in range(6)]
        assert sorted(workers.map(jobs)) == [(k, k * k) for k in range(6)]
        assert len(workers._allowed) == 1
        assert_waves(workers.map(WAVES))  # at once, because the frozen worker gets no jobs
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGCONT)


def test_result_held_by_a_frozen_worker_is_recomputed(workers, monkeypatch):
    get_result, tries = workers._connection.get_result, []
    frozen = min(workers._connection.workers(60.0))

    def fail_first(future):
        tries.append(future)
        if len(tries) == 1:
            raise Unreachable
        return get_result(future)

    monkeypatch.setattr(workers._connection, "get_result", fail_first)
    monkeypatch.setattr(
        workers._connection,
        "run_on_workers",
        lambda places, *_: dict.fromkeys(set(places) - {frozen}, "spec"),
    )
    workers.timeouts = Timeouts(
        answer=600.0
    )  # the workers are checked after get_result, not before
    workers._silent = {frozen: -math.inf}
    assert list(workers.map([(abs, -7)])) == [(0, 7)]
    assert workers._allowed == workers._connection.workers(60.0) - {frozen}
    assert tries[0] not in tries[1:]


def test_any_worker_is_allowed_once_all_allowed_workers_are_gone(workers, monkeypatch):
    workers._allowed = {"tcp://127.0.0.1:1"}
    monkeypatch.setattr(
        workers._connection, "run_on_workers", lambda places, *_: dict.fromkeys(places, "spec")
    )
    assert workers._check_workers(5.0) is True
    assert not workers._allowed
    assert_waves(workers.map(WAVES))


def test_recovered_and_new_workers_get_jobs(workers, monkeypatch):
    registered, silent = {"a", "b"}, {"b"}
    monkeypatch.setattr(workers._connection, "workers", lambda _: set(registered))
    monkeypatch.setattr(
        workers._connection,
        "run_on_workers",
        lambda places, *_: dict.fromkeys(set(places) - silent, "spec"),
    )
    workers._silent = {"b": -math.inf}
    assert workers._check_workers(5.0) is True
    assert workers._allowed == {"a"}
    assert workers._check_workers(5.0) is False  # nothing changed: no further copies
    registered.add("c")
    assert workers._check_workers(5.0) is True
    assert workers._allowed == {"a", "c"}
    silent.clear()
    assert workers._check_workers(5.0) is True
    assert not workers._allowed  # any worker


def test_jobs_of_the_next_map_go_to_a_recovered_worker(workers):
    workers._allowed = {
        min(workers._connection.workers(60.0))
    }  # as after a freeze of the other one
    assert_waves(workers.map(WAVES))
    assert not workers._allowed


def test_single_busy_worker_is_waited_for(workers, monkeypatch):
    monkeypatch.setattr(
        workers._connection, "run_on_workers", lambda *_: {}
    )  # all of them are busy
    monkeypatch.setattr(cluster_module, "perf_counter", partial(next, count(0.0, 60.0)))
    for _ in range(3):
        assert workers._check_workers(5.0) is False
    assert not workers._allowed


def future(status):
    return SimpleNamespace(status=status, done=lambda: status != "pending")


@pytest.mark.parametrize(
    ("statuses", "chosen"),
    [
        (["error", "finished"], 1),
        (["error", "pending", "finished"], 2),
        (["finished", "finished"], 0),
        (["pending", "error"], 1),
        (["error", "cancelled"], 0),
    ],
)
def test_copy_with_a_result_is_preferred_to_a_failed_copy(statuses, chosen):
    futures = [future(status) for status in statuses]
    assert cluster_module._done({3: futures, 4: [future("pending")]}) == [(3, futures[chosen])]


def test_killed_copy_fails_the_job_only_if_it_is_the_last(workers, monkeypatch, raises_clear_error):
    get_result, attempts = workers._connection.get_result, []
    killed = import_module("distributed").KilledWorker("job", None, 3)

    def kill(future):
        attempts.append(future)
        if len(attempts) == 1:
            raise killed
        return get_result(future)

    send = workers._send

    def send_twice(*args):
        send(*args)
        send(*args)

    monkeypatch.setattr(workers._connection, "get_result", kill)
    monkeypatch.setattr(workers, "_send", send_twice)
    assert list(workers.map([(abs, -7)])) == [(0, 7)]
    assert len(attempts) == 2
    attempts.clear()
    monkeypatch.setattr(workers, "_send", send)
    raises_clear_error(lambda: list(workers.map([(abs, -7)])), "Job 0 of 1 .*ended every worker")


def test_slow_transfer_is_given_up_after_three_attempts(workers, monkeypatch, raises_clear_error):
    attempts = []

    def slow(future):
        assert len(attempts) < 10  # instead of forever
        attempts.append(future)
        raise Unreachable

    monkeypatch.setattr(workers._connection, "get_result", slow)
    raises_clear_error(
        lambda: list(workers.map([(abs, -7)])),
        "The result of job 0 of 1 .* did not arrive within 2 s, 3 times. Use a faster network",
    )
    assert len(attempts) == 3
