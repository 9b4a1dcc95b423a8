"""Workers give what this process gives: wherever a job runs, and whoever dies in between."""

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
from pliant.parallel import Cluster, Here, Pool, crew
from pliant.parallel import cluster as cluster_module
from pliant.parallel import pool as pool_module
from pliant.parallel.connection import Timeouts, Unreachable


class Calling:
    """f of all tests: calls what it is given, and leaves a mark when it is unpickled, which is when
    it arrives somewhere."""

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
    """A result in which every bit counts."""
    return np.sin(np.linspace(0.0, k, 5)) ** k, {"k": k}


WAVES = [(wave, k) for k in range(12)]


def same(results):
    results = dict(results)
    assert sorted(results) == list(range(12))
    for k, (value, said) in results.items():
        assert value.tobytes() == wave(k)[0].tobytes()
        assert said == {"k": k}


def home(*_):
    return os.getpid(), os.environ.get("NUMBA_NUM_THREADS")


def deadly(folder, times, k):
    """k^2, but the first `times` times its process ends."""
    folder.mkdir(exist_ok=True)
    tries = len(list(folder.iterdir()))
    if tries < times:
        (folder / str(tries)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


def sleepy(folder):
    (folder / str(os.getpid())).touch()
    time.sleep(600.0)


class Stubborn(Exception):
    """An error that can be pickled but not read back."""

    def __init__(self, here, there):
        super().__init__(f"{here} {there}")


def picky(k):
    if k == 2:
        raise InputError(f"Job {k} is wrong; mend it.")
    if k == 3:
        raise Stubborn("from", "far")
    return (lambda: k) if k == 4 else k  # what cannot come back is made here


def until(done):
    for _ in range(1200):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to it")


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module", autouse=True)
def light(tmp_path_factory):
    """Processes started from here find a pliant that loads only what is asked of it; all of it
    takes seconds, each time."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "pliant").mkdir()
    (folder / "pliant" / "__init__.py").write_text(f"__path__ = {list(pliant.__path__)!r}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


@pytest.fixture
def at_once(monkeypatch):
    """Workers start whatever the work."""
    monkeypatch.setattr(pool_module, "START", 0.0)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """One for all tests, because each start of a worker takes seconds."""
    with closing(crew(Calling(tmp_path_factory.mktemp("arrivals")), workers=2)) as hands:
        assert isinstance(hands, Pool)
        yield hands


def test_here_is_in_order(tmp_path):
    with closing(crew(Calling(tmp_path), workers=1)) as hands:
        assert isinstance(hands, Here)
        results = list(hands.map(WAVES))
    assert [k for k, _ in results] == list(range(12))
    same(results)


def test_workers_give_the_same_bits_get_f_once_and_have_one_thread_each(at_once, pool, monkeypatch):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for _ in range(3):
        same(pool.map(WAVES))
    assert list(pool.map([])) == []
    homes = [result for _, result in pool.map(12 * [(home,)])]
    assert {threads for _, threads in homes} == {"1"}
    assert os.getpid() not in {pid for pid, _ in homes}
    assert 1 <= pool.f.arrivals() <= 2  # of two workers, one may have come too late for any job
    assert "NUMBA_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_errors_of_f_come_back_and_what_cannot_travel_is_done_here(at_once, pool):
    with pytest.raises(InputError) as caught:
        list(pool.map([(picky, 0), (picky, 1), (picky, 2)]))
    assert str(caught.value) == "Job 2 is wrong; mend it."
    assert "in picky" in caught.value.__notes__[0]  # where in the worker it was raised
    with pytest.raises(Stubborn, match="from far"):
        list(pool.map([(picky, 3), (picky, 3)]))
    results = dict(pool.map([(picky, 4), (picky, 1), (picky, 4)]))
    assert results[0]() == results[2]() == 4
    assert results[1] == 1
    results = dict(pool.map([(home, lambda: 0), (home,), (home, lambda: 0)]))
    assert results[0][0] == results[2][0] == os.getpid() != results[1][0]


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(at_once, pool, tmp_path):
    for worker in pool._crew[:1]:  # an idle one: no job is to blame
        worker.process.kill()
        worker.process.join()
    jobs = [(deadly, tmp_path / str(k), int(k == 3), k) for k in range(8)]
    assert sorted(pool.map(jobs)) == [(k, k * k) for k in range(8)]
    assert (tmp_path / "3" / "0").exists()


def test_a_job_that_ends_three_workers_is_named(at_once, pool, tmp_path, one_sentence):
    jobs = [(deadly, tmp_path / str(k), 3 * (k == 1), k) for k in range(4)]
    one_sentence(
        lambda: list(pool.map(jobs)), r"Job 1 of 4 .*3 times \(SIGKILL.*memory.*use fewer workers"
    )
    assert len(list((tmp_path / "1").iterdir())) == 3


def test_an_interrupt_ends_the_jobs(at_once, pool, tmp_path):
    def interrupt():
        until(lambda: any(tmp_path.iterdir()))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # whatever a test before has left
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        list(pool.map([(sleepy, tmp_path), (sleepy, tmp_path)]))
    signal.signal(signal.SIGINT, before)
    assert not any(lives(int(path.name)) for path in tmp_path.iterdir())
    assert all(worker.job is None for worker in pool._crew)


@pytest.mark.parametrize(
    ("seconds", "jobs", "here"),
    [(0.5, 40, 40), (2.0, 12, 2), (2.0, 11, 11), (30.0, 3, 1), (60.0, 1, 1)],
)
def test_workers_start_only_where_the_work_is_worth_it(monkeypatch, seconds, jobs, here):
    # 10 s for each of 2 workers: 20 s must be left, by the second job, or by the first where that
    # took more than 10 s.
    clock, given = count(0.0, seconds), []
    monkeypatch.setattr(pool_module, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(Pool, "_share", lambda self, jobs, left: iter(given.extend(left) or ()))
    assert [k for k, _ in Pool(abs, 2).map([(k,) for k in range(jobs)])] == list(range(here))
    assert given == list(range(here, jobs))


def test_a_function_that_cannot_be_sent_stays_here(at_once, monkeypatch):
    monkeypatch.setattr(pool_module, "_Worker", None)  # none can start
    same(crew(lambda what, k: what(k)).map(WAVES))


SCRIPT = """
import operator, sys
from pathlib import Path
from pliant import parallel
from test_parallel import sleepy
def mine(x): return -x
print("script", flush=True)
parallel.pool.START = 0.0
pool = parallel.Pool(operator.call, 2)
print(sorted(pool.map([(abs, -3), (abs, 4)])), flush=True)
list(pool.map(2 * [(sleepy, Path(__file__).parent / "marks")]))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_whose_functions_the_workers_need_must_have_a_guard(
    at_once, script, monkeypatch, capfd, one_sentence
):
    main = ModuleType("__main__")
    main.__file__ = str(script)
    exec("def mine(x): return -x", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with closing(Pool(main.mine, 2)) as hands:
        one_sentence(
            lambda: list(hands.map([(3,), (4,)])),
            'stopped while it started .exit code 1.*below `if __name__ == "__main__":`',
        )
    assert "meets a call that starts workers" in capfd.readouterr().err


def test_workers_do_not_run_a_script_that_they_do_not_need_and_end_when_it_is_killed(script):
    (script.parent / "marks").mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env
    )
    marks = (script.parent / "marks").iterdir
    until(lambda: len(list(marks())) == 2)
    parent.kill()
    assert parent.communicate()[0] == "script\n[(0, 3), (1, 4)]\n"
    until(lambda: not any(lives(int(path.name)) for path in marks()))


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_workers_are_counted(one_sentence, workers):
    one_sentence(lambda: crew(abs, workers=workers), "number of workers is .* from 1 up")
    one_sentence(lambda: crew(abs, workers=workers, cluster="127.0.0.1:8786"), "leave one out")


def test_a_cluster_without_dask_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install -e '\.\[cluster\]'"):
        crew(abs, cluster="127.0.0.1:8786")


LOCAL = "--host 127.0.0.1 --no-dashboard --dashboard-address 127.0.0.1:0"  # opens no port to others


def test_an_address_at_which_no_scheduler_answers(one_sentence):
    pytest.importorskip("distributed")
    timeouts = Timeouts(answer=0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        one_sentence(
            lambda: Cluster(abs, address, timeouts=timeouts),
            f"No scheduler answers at .*`dask scheduler {LOCAL}`.*`dask worker ADDRESS {LOCAL}",
        )
        silent.listen()  # takes the call, and says nothing
        one_sentence(lambda: Cluster(abs, address, timeouts=timeouts), "No scheduler answers at")
    one_sentence(
        lambda: crew(abs, cluster="the one downstairs"),
        "No scheduler answers at 'the one downstairs'",
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


def test_a_cluster_gives_the_same_bits_and_gets_f_once(cluster, tmp_path):
    with closing(crew(Calling(tmp_path), cluster=cluster.scheduler_address)) as hands:
        assert isinstance(hands, Cluster)
        for _ in range(3):
            same(hands.map(WAVES))
        assert list(hands.map([])) == []
        assert (
            1 <= len(list(tmp_path.iterdir())) <= 4
        )  # with two workers; it may be read once more on its way between them
        with pytest.raises(InputError, match="Job 2 is wrong"):
            list(hands.map([(picky, 0), (picky, 2)]))


def test_a_cluster_that_lacks_a_module_says_so(cluster, monkeypatch, one_sentence):
    only_here = ModuleType("only_here")
    exec("def f(x): return x", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    with closing(Cluster(only_here.f, cluster.scheduler_address)) as hands:
        one_sentence(
            lambda: list(hands.map([(1,)])),
            "worker of the cluster at .* has no module 'only_here'; install",
        )
    monkeypatch.setattr(cluster_module, "find_spec", {}.get)  # as where pliant is not installed
    one_sentence(
        lambda: Cluster(abs, cluster.scheduler_address),
        "The worker tcp.* has no module 'pliant'; install",
    )


def test_a_cluster_without_workers_says_so_and_one_whose_scheduler_goes_away(
    monkeypatch, one_sentence
):
    timeouts = Timeouts(answer=0.5)
    with local_cluster(n_workers=0) as empty:
        one_sentence(
            lambda: Cluster(abs, empty.scheduler_address, timeouts=timeouts),
            f"has no workers; start one by `dask worker .* {LOCAL} --nthreads 1`. It opens ports "
            "that only this machine can reach",
        )
        monkeypatch.setattr(Cluster, "_check_workers", lambda *_: False)
        with closing(Cluster(abs, empty.scheduler_address, timeouts=timeouts)) as hands:
            threading.Timer(0.2, empty.close).start()
            one_sentence(lambda: list(hands.map([(-1,)])), "does not answer any more. See that")
            one_sentence(lambda: list(hands.map([(-1,)])), "does not answer any more")
        monkeypatch.undo()
        one_sentence(lambda: hands._check_workers(5.0), "does not answer any more")


def test_a_cluster_outlives_the_deaths_of_its_workers(cluster, tmp_path, one_sentence):
    arrivals = tmp_path / "arrivals"
    arrivals.mkdir()
    with closing(Cluster(Calling(arrivals), cluster.scheduler_address)) as hands:
        jobs = [(deadly, tmp_path / str(k), int(k == 3), k) for k in range(8)]
        assert sorted(hands.map(jobs)) == [(k, k * k) for k in range(8)]
        assert (tmp_path / "3" / "0").exists()
        one_sentence(
            lambda: list(hands.map([(deadly, tmp_path / "x", 100, 0)])),
            "Job 0 of 1 .*ended every worker",
        )


@pytest.fixture
def hands(cluster, tmp_path):
    cluster.wait_for_workers(2, timeout=120)
    with closing(Cluster(Calling(tmp_path), cluster.scheduler_address)) as made:
        made.timeouts = made._connection.timeouts = Timeouts(answer=1.0, silence=2.0)
        yield made


def closed_comm(*_, **__):
    raise import_module("distributed").comm.CommClosedError("in test: the other side is gone")


async def closed_comm_later(*_, **__):
    closed_comm()


@pytest.mark.parametrize("method", ["run", "cancel"])
def test_a_job_is_done_although_a_call_meets_a_dead_worker(hands, monkeypatch, method):
    monkeypatch.setattr(hands._connection._client, method, closed_comm_later)
    assert hands._check_workers(5.0) is False
    jobs = hands.map([(abs, -1), (abs, -2)])
    assert next(jobs)[1] in (1, 2)
    jobs.close()  # cancels what is left
    same(hands.map(WAVES))


def test_a_worker_that_dies_while_it_is_asked_does_not_end_the_run(cluster, hands, monkeypatch):
    connection, run = hands._connection, hands._connection._client.run
    victims = [next(iter(cluster.workers.values())).pid]

    async def die_then_run(*args, **options):
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)
        return await run(*args, **options)

    monkeypatch.setattr(connection._client, "run", die_then_run)
    hands._check_workers(5.0)
    assert not victims
    same(hands.map(WAVES))


@pytest.mark.parametrize("method", ["nthreads", "submit"])
def test_a_call_that_meets_a_dead_scheduler_says_so(hands, monkeypatch, one_sentence, method):
    fails = closed_comm if method == "submit" else closed_comm_later
    monkeypatch.setattr(hands._connection._client, method, fails)
    one_sentence(
        lambda: hands._check_workers(5.0) or list(hands.map([(abs, -1)])),
        "The scheduler at .* does not answer any more",
    )


def test_closing_after_the_scheduler_died_is_silent(hands, monkeypatch):
    close = hands._connection._client.close
    monkeypatch.setattr(hands._connection._client, "close", closed_comm)
    hands.close()
    close()


def missing_file():
    raise FileNotFoundError("mesh.msh")


def test_an_oserror_of_a_job_is_not_taken_for_a_lost_scheduler(hands):
    with pytest.raises(FileNotFoundError, match="mesh"):
        list(hands.map([(missing_file,)]))


def freezing(folder, k):
    """k^2, but the first process that comes here stops."""
    with suppress(FileExistsError), (folder / "pid").open("x") as file:
        file.write(str(os.getpid()))
        file.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
    return k * k


def test_the_jobs_of_a_frozen_worker_are_done_by_another(hands, tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    try:
        jobs = [(freezing, folder, k) for k in range(6)]
        assert sorted(hands.map(jobs)) == [(k, k * k) for k in range(6)]
        assert len(hands._allowed) == 1
        same(hands.map(WAVES))  # at once, because the frozen worker gets no jobs
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGCONT)


def test_a_result_that_a_frozen_worker_holds_is_computed_by_another(hands, monkeypatch):
    fetch, tries = hands._connection.fetch, []
    frozen = min(hands._connection.workers(60.0))

    def held_back(future):
        tries.append(future)
        if len(tries) == 1:
            raise Unreachable
        return fetch(future)

    monkeypatch.setattr(hands._connection, "fetch", held_back)
    monkeypatch.setattr(
        hands._connection, "ask", lambda places, *_: dict.fromkeys(set(places) - {frozen}, "spec")
    )
    hands.timeouts = Timeouts(answer=600.0)  # the workers are looked at after the fetch, not before
    hands._silent = {frozen: -math.inf}
    assert list(hands.map([(abs, -7)])) == [(0, 7)]
    assert hands._allowed == hands._connection.workers(60.0) - {frozen}
    assert tries[0] not in tries[1:]


def test_jobs_go_to_any_worker_again_when_all_allowed_ones_are_gone(hands, monkeypatch):
    hands._allowed = {"tcp://127.0.0.1:1"}
    monkeypatch.setattr(hands._connection, "ask", lambda places, *_: dict.fromkeys(places, "spec"))
    assert hands._check_workers(5.0) is True
    assert not hands._allowed
    same(hands.map(WAVES))


def test_recovered_and_new_workers_get_jobs(hands, monkeypatch):
    registered, silent = {"a", "b"}, {"b"}
    monkeypatch.setattr(hands._connection, "workers", lambda _: set(registered))
    monkeypatch.setattr(
        hands._connection, "ask", lambda places, *_: dict.fromkeys(set(places) - silent, "spec")
    )
    hands._silent = {"b": -math.inf}
    assert hands._check_workers(5.0) is True
    assert hands._allowed == {"a"}
    assert hands._check_workers(5.0) is False  # nothing changed: no further copies
    registered.add("c")
    assert hands._check_workers(5.0) is True
    assert hands._allowed == {"a", "c"}
    silent.clear()
    assert hands._check_workers(5.0) is True
    assert not hands._allowed  # any worker


def test_jobs_of_the_next_map_go_to_a_recovered_worker(hands):
    hands._allowed = {min(hands._connection.workers(60.0))}  # as after a freeze of the other one
    same(hands.map(WAVES))
    assert not hands._allowed


def test_a_busy_worker_alone_is_waited_for(hands, monkeypatch):
    monkeypatch.setattr(hands._connection, "ask", lambda *_: {})  # all of them are busy
    monkeypatch.setattr(cluster_module, "perf_counter", partial(next, count(0.0, 60.0)))
    for _ in range(3):
        assert hands._check_workers(5.0) is False
    assert not hands._allowed


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
def test_a_copy_with_a_result_is_preferred_to_one_that_failed(statuses, chosen):
    futures = [future(status) for status in statuses]
    assert cluster_module._done({3: futures, 4: [future("pending")]}) == [(3, futures[chosen])]


def test_a_copy_that_ended_its_workers_fails_the_job_only_if_it_is_the_last(
    hands, monkeypatch, one_sentence
):
    fetch, fetched = hands._connection.fetch, []
    killed = import_module("distributed").KilledWorker("job", None, 3)

    def kill(future):
        fetched.append(future)
        if len(fetched) == 1:
            raise killed
        return fetch(future)

    send = hands._send

    def send_twice(*args):
        send(*args)
        send(*args)

    monkeypatch.setattr(hands._connection, "fetch", kill)
    monkeypatch.setattr(hands, "_send", send_twice)
    assert list(hands.map([(abs, -7)])) == [(0, 7)]
    assert len(fetched) == 2
    fetched.clear()
    monkeypatch.setattr(hands, "_send", send)
    one_sentence(lambda: list(hands.map([(abs, -7)])), "Job 0 of 1 .*ended every worker")


def test_a_result_whose_transfer_takes_too_long_is_given_up(hands, monkeypatch, one_sentence):
    fetched = []

    def slow(future):
        assert len(fetched) < 10  # rather than without end
        fetched.append(future)
        raise Unreachable

    monkeypatch.setattr(hands._connection, "fetch", slow)
    one_sentence(
        lambda: list(hands.map([(abs, -7)])),
        "The result of job 0 of 1 .* did not arrive within 2 s, 3 times. Use a faster network",
    )
    assert len(fetched) == 3
