"""Corner stores keep samples bit for bit, share them between processes, survive kill -9 and report
damage."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pliant.core import InputError, PliantError
from pliant.surrogate import store as module
from pliant.surrogate.sample import Sample
from pliant.surrogate.store import CornerStore


def sample_at(x, **fields):
    """Return a sample that depends on the point, with a subnormal number and a negative zero."""
    x = np.asarray(x, float)
    value = np.array([np.sin(3.0 * x.sum()), np.exp(x[0]), 1e-310, -0.0])
    return Sample(point=x, value=value, slope=np.outer(value, np.cos(x)), **fields)


def points(n):
    return [np.array([0.1 * k, 1.0 / (k + 1)]) for k in range(n)]


def bits(sample):
    """Return the content of a sample for a bitwise comparison."""
    return (
        sample.point.tobytes(),
        sample.value.tobytes(),
        sample.slope.tobytes(),
        sample.slope.shape,
        sample.note,
        sample.failed,
    )


@pytest.mark.parametrize("name", [None, "corners.db"])
def test_sample_is_read_back_bit_for_bit(tmp_path, name):
    store = CornerStore(name and tmp_path / name, key="arm")
    failed = Sample(
        point=np.ones(2), value=np.zeros(0), slope=np.zeros((0, 2)), failed="no equilibrium: ü"
    )
    sample = sample_at([0.3, 0.2], note="warm start")
    fortran_order = Sample(
        point=sample.point,
        value=sample.value,
        slope=np.asfortranarray(sample.slope),
        note=sample.note,
    )
    store.put(fortran_order)
    store.put(failed)
    if name:
        store.close()
        store = CornerStore(tmp_path / name, key="arm")
    with store:
        assert [bits(s) for s in store.samples()] == [bits(fortran_order), bits(failed)]
        assert store.get([np.ones(2), np.zeros(2)])[1] is None
        found = store.get([np.ones(2)])[0]
        assert bits(found) == bits(failed)
        found.point[0] = 2.0  # a copy, which can be changed


def test_samples_keep_claim_order_and_first_put(tmp_path):
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert store.claim(points(4)) == [0, 1, 2, 3]
        for k in (2, 0, 3, 1):
            store.put(sample_at(points(4)[k], note=str(k)))
        store.put(sample_at([9.0, 9.0], note="not claimed"))
        store.put(sample_at(points(4)[1], note="second"))
        assert [s.note for s in store.samples()] == ["0", "1", "2", "3", "not claimed"]


def test_point_is_claimed_by_one_open_store(tmp_path):
    first, second = CornerStore(tmp_path / "c", key="arm"), CornerStore(tmp_path / "c", key="arm")
    a, b, c, d = points(4)
    assert first.claim([a, b, a]) == [0, 1]
    assert second.claim([b, c]) == [1]
    assert first.claim([a, c, d]) == [0, 2]  # its own point a again, not point c of the other store
    second.put(sample_at(c))
    assert first.claim([c]) == []
    assert first.pending() == second.pending() == []
    first.put(sample_at(a))
    first.close()
    np.testing.assert_array_equal(second.pending(), [b, d])
    assert second.wait([a, b])[1] is None
    assert second.claim([d, b, a]) == [0, 1]
    assert second.pending() == []
    second.close()
    assert [p.name for p in (tmp_path / "c.alive").iterdir()] == [".opening"]


def test_wait_ends_when_other_store_has_put(tmp_path):
    claimed, x = threading.Event(), points(1)[0]

    def other():
        with CornerStore(tmp_path / "c", key="arm") as other_store:
            other_store.claim([x])
            claimed.set()
            go.wait(30.0)
            other_store.put(sample_at(x))

    go, thread = threading.Event(), threading.Thread(target=other)
    thread.start()
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert claimed.wait(30.0)
        assert store.get([x]) == [None]
        threading.Timer(0.2, go.set).start()
        assert bits(store.wait([x])[0]) == bits(sample_at(x))
    thread.join()


def test_minus_zero_is_zero():
    with CornerStore(None, key="arm") as store:
        assert store.claim([np.array([-0.0, 1.0]), np.array([0.0, 1.0])]) == [0]
        store.put(sample_at([-0.0, 1.0]))
        found = store.get([np.array([0.0, 1.0])])[0]
        assert not np.signbit(found.point[0])


def test_models_in_one_file_are_separate(tmp_path):
    with (
        CornerStore(tmp_path / "c", key="arm") as arm,
        CornerStore(tmp_path / "c", key="leg") as leg,
    ):
        x = points(1)[0]
        arm.put(sample_at(x, note="arm"))
        assert leg.claim([x]) == [0]
        leg.put(sample_at(x, note="leg"))
        assert [s.note for s in arm.samples()] == ["arm"]
        assert [s.note for s in leg.samples()] == ["leg"]
        arm.claim_owners(0, np.array([[1, 2]]), np.array([0, 0]))
        np.testing.assert_array_equal(
            leg.claim_owners(0, np.array([[1, 2]]), np.array([5, 5])), [[5, 5]]
        )


def test_first_cell_owns_corner_of_level(tmp_path):
    corners = np.array([[0, 0], [0, 1], [-(2**40), 1]])
    with CornerStore(tmp_path / "c", key="arm") as store:
        np.testing.assert_array_equal(
            store.claim_owners(3, corners[:2], np.array([7, 8])), [[7, 8], [7, 8]]
        )
        owners = store.claim_owners(3, corners[::-1], np.array([-1, 2]))
        assert owners.dtype == np.int64
        np.testing.assert_array_equal(owners, [[-1, 2], [7, 8], [7, 8]])
        np.testing.assert_array_equal(
            store.claim_owners(4, corners[:1], np.array([-1, 2])), [[-1, 2]]
        )
        assert store.claim_owners(3, corners[:0], np.array([1, 1])).shape == (0, 2)


def start_process(code, *args):
    """Start a Python process that runs the code with the names of this module."""
    imports = (
        "import sys\nimport numpy as np\nsys.path.insert(0, "
        f"{str(Path(__file__).parent)!r})\nfrom test_corner_store import *\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", imports + code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )


TWO_PROCESSES = """
path, me = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
store = CornerStore(path, key="arm")
wanted = points(60) if me == 0 else points(60)[::-1]
cells = [store.claim_owners(1, np.arange(k, k + 8).reshape(4, 2), np.array([me, k])) for k in range(0, 80, 8)]
computed = []
for k in range(0, 60, 6):
    batch = wanted[k : k + 6]
    claimed = store.claim(batch)
    if k == 0:  # wait until the other process has claimed its points
        print("claimed", flush=True)
        sys.stdin.readline()
    for i in claimed:
        computed.append(batch[i].tolist())
        store.put(sample_at(batch[i], note=str(me)))
    assert all(sample is not None for sample in store.wait(batch))
store.close()
print([computed, np.concatenate(cells).tolist()], flush=True)
"""  # noqa: E501


def test_two_processes_compute_each_point_once_and_agree_on_owners(tmp_path):
    children = [start_process(TWO_PROCESSES, tmp_path / "c", me) for me in (0, 1)]
    for word in ("ready\n", "claimed\n"):  # after "ready", both create the file at the same time
        assert [c.stdout.readline() for c in children] == [word, word]
        for c in children:
            c.stdin.write("go\n")
            c.stdin.flush()
    (computed_0, cells_0), (computed_1, cells_1) = (eval(c.communicate()[0]) for c in children)
    assert [c.returncode for c in children] == [0, 0]
    assert sorted(computed_0 + computed_1) == sorted(x.tolist() for x in points(60))
    assert computed_0[:6] == [x.tolist() for x in points(60)[:6]]
    assert computed_1[:6] == [x.tolist() for x in points(60)[:-7:-1]]
    assert cells_0 == cells_1
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert {tuple(s.point): s.note for s in store.samples()} == {
            tuple(x): n for n, m in (("0", computed_0), ("1", computed_1)) for x in m
        }
        assert [s.value.tobytes() for s in store.get(points(60))] == [
            sample_at(x).value.tobytes() for x in points(60)
        ]


KILLED_PROCESS = """
store = CornerStore(sys.argv[1], key="arm")
store.claim(points(2000))
print("claimed", flush=True)
sys.stdin.readline()
for k, x in enumerate(points(2000)):
    store.put(sample_at(x))
    print(k, flush=True)
"""


def test_kill_9_keeps_finished_samples_and_reports_pending_points(tmp_path):
    wanted = points(2000)
    victim = start_process(KILLED_PROCESS, tmp_path / "c")
    assert victim.stdout.readline() == "claimed\n"
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert store.claim(wanted) == []  # the other process still runs
        assert store.pending() == []
        victim.stdin.write("go\n")
        victim.stdin.flush()
        for _ in range(20):
            victim.stdout.readline()
        victim.send_signal(signal.SIGKILL)
        last = 19 + len(victim.stdout.read().split("\n")) - 1
        assert victim.wait() == -signal.SIGKILL
        victim.stdin.close()
        victim.stdout.close()
        done = store.samples()
        assert last < len(done) < 2000  # the last put may be complete or not
        assert [bits(s) for s in done] == [bits(sample_at(x)) for x in wanted[: len(done)]]
        np.testing.assert_array_equal(store.pending(), wanted[len(done) :])
        assert store.wait(wanted[len(done) :]) == [None] * (2000 - len(done))
        assert (
            len(list((tmp_path / "c.alive").iterdir())) == 3
        )  # .opening, the killed process and this one
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert len(list((tmp_path / "c.alive").iterdir())) == 2
        assert len(store.claim(wanted)) == 2000 - len(done)


def write_filled_store(path):
    """Write a store of 200 samples and one unfinished claim."""
    with CornerStore(path, key="arm") as store:
        for x in points(200):
            store.put(sample_at(x))
        store.claim([np.full(2, 7.0)])
    return path


def truncate(path, share):
    blob = path.read_bytes()
    path.write_bytes(blob[: int(share * len(blob))])


def flip_bit(path, target):
    blob = bytearray(path.read_bytes())
    blob[blob.index(target) + 5] ^= 1
    path.write_bytes(bytes(blob))


def execute_sql(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def replace_with_other_database(path):
    path.unlink()
    execute_sql(path, "CREATE TABLE birds (name TEXT)")


def test_store_in_a_missing_folder_is_refused(tmp_path, raises_clear_error):
    """A mistyped path makes no new folders."""
    raises_clear_error(
        lambda: CornerStore(tmp_path / "resutls" / "corners.db", key="a"),
        "folder of the store .*resutls.* does not exist. Create it",
    )
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda p: p.write_bytes(b"not a database" * 100),
            r"is not a file of corners. Delete it",
        ),
        (lambda p: p.write_bytes(b"a note"), r"is not a file of corners. Delete it"),
        (lambda p: truncate(p, 0.5), r"is damaged. Delete it"),
        (lambda p: truncate(p, 0.01), r"(is damaged|not a file of corners). Delete it"),
        (
            lambda p: flip_bit(p, sample_at(points(200)[7]).value.tobytes()),
            r"damaged \(corner 8 has a wrong checksum\). Delete it",
        ),
        (
            lambda p: flip_bit(p, sample_at(points(200)[7]).slope.tobytes()),
            r"damaged \(corner 8 has a wrong checksum\). Delete it",
        ),
        (
            lambda p: execute_sql(p, "UPDATE corners SET failed = x'78' WHERE number = 3"),
            r"damaged \(corner 3 has a wrong checksum\)",
        ),
        (
            lambda p: execute_sql(p, "UPDATE corners SET slope = 1.5 WHERE number = 3"),
            r"damaged \(corner 3 has a wrong checksum\)",
        ),
        (lambda p: execute_sql(p, "DROP TABLE corners"), r"no such table.*is damaged. Delete it"),
        (replace_with_other_database, r"is a database of another program. Give another name"),
        (
            lambda p: execute_sql(p, "PRAGMA application_id = 1"),
            r"is a database of another program. Give another name",
        ),
        (
            lambda p: execute_sql(p, "PRAGMA user_version = 2"),
            r"newer Pliant \(version 2 of such files, here 1\). Update",
        ),
        (lambda p: (p.unlink(), p.mkdir()), r"is a folder. Give the name of a file"),
    ],
)
def test_invalid_store_file_error_names_remedy(tmp_path, raises_clear_error, damage, message):
    path = write_filled_store(tmp_path / "corners.db")
    damage(path)
    before = None if path.is_dir() else path.read_bytes()

    def use():
        with CornerStore(path, key="arm") as store:
            store.samples()

    raises_clear_error(use, rf"corners\.db.*{message}")
    with pytest.raises(InputError):
        use()
    assert path.is_dir() or path.read_bytes() == before  # the file is unchanged


def test_unwritable_path_raises(tmp_path, raises_clear_error):
    (tmp_path / "file").write_text("x")
    raises_clear_error(
        lambda: CornerStore(tmp_path / "file" / "c", key="arm"),
        r"a part of this path is a file.*choose another path",
    )
    raises_clear_error(
        lambda: CornerStore(tmp_path / (300 * "x"), key="arm"),
        r"could not be written.*choose another path",
    )


def test_empty_file_is_a_new_store(tmp_path):
    (tmp_path / "c").touch()
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert store.samples() == []


def test_full_disk_raises_and_keeps_samples(tmp_path, raises_clear_error):
    # SQLite reports a full disk when the file would exceed max_page_count.
    with CornerStore(write_filled_store(tmp_path / "c"), key="arm") as store:
        store._db.execute("PRAGMA max_page_count = 1")  # SQLite raises this to the current size
        large = Sample(point=np.full(2, 5.0), value=np.zeros(10**4), slope=np.zeros((10**4, 2)))
        raises_clear_error(
            lambda: store.put(large),
            r"c cannot be used \(database or disk is full\): .*Free some space",
        )
        raises_clear_error(
            lambda: store.claim([np.full(2, float(k)) for k in range(10**4)]), r"Free some space"
        )
        assert len(store.samples()) == 200
        store._db.execute("PRAGMA max_page_count = 100000")
        store.put(large)
        assert len(store.samples()) == 201


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("query_only = 1", "you may not write there"),
        ("busy_timeout = 10", "another program keeps it locked"),
    ],
)
def test_read_only_or_locked_file_raises(tmp_path, raises_clear_error, pragma, message):
    with CornerStore(write_filled_store(tmp_path / "c"), key="arm") as store:
        other = sqlite3.connect(tmp_path / "c", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store._db.execute(f"PRAGMA {pragma}")
        if "query" in pragma:
            other.execute("ROLLBACK")
        for use in (
            lambda: store.put(sample_at([5.0, 5.0])),
            lambda: store.claim_owners(0, np.zeros((1, 2), int), np.zeros(2, int)),
        ):
            raises_clear_error(use, message)
        assert len(store.samples()) == 200  # reading still works
        other.close()


def test_opening_a_locked_store_raises_after_timeout(tmp_path, monkeypatch, raises_clear_error):
    write_filled_store(tmp_path / "c")
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.05)
    other = sqlite3.connect(tmp_path / "c", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    raises_clear_error(
        lambda: CornerStore(tmp_path / "c", key="arm"),
        r"c cannot be used \(database is locked\): .*End that program",
    )
    other.close()
    with CornerStore(tmp_path / "c", key="arm") as store:
        assert len(store.samples()) == 200


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda s: s.claim([np.array([1.0, np.nan])]), "point of a sample is nan at entry 1"),
        (lambda s: s.get([np.zeros((2, 2))]), r"point of a sample has shape \(2, 2\)"),
        (
            lambda s: s.put(Sample(point=np.zeros(2), value=np.zeros(3), slope=np.zeros((2, 3)))),
            r"slope of shape \(2, 3\).*\(N, 2\)",
        ),
        (lambda s: s.claim_owners(0, np.zeros((3, 2)), np.zeros(2, int)), "integers of shape"),
        (lambda s: s.claim_owners(0, np.zeros((3, 2), int), np.zeros(3, int)), r"shape \(n, d\)"),
        (lambda s: CornerStore(None, key=3), "content hash"),
    ],
)
def test_invalid_input_raises_and_keeps_store_unchanged(raises_clear_error, use, message):
    with CornerStore(None, key="arm") as store:
        raises_clear_error(lambda: use(store), message)
        assert store.claim([np.zeros(2)]) == [0]
        with pytest.raises(PliantError):
            use(store)


def test_damaged_owner_raises(tmp_path):
    path = tmp_path / "corners.sqlite"
    corners, cell = np.zeros((1, 2), np.int64), np.ones(2, np.int64)
    with CornerStore(path, key="k") as store:
        store.claim_owners(0, corners, cell)
    with closing(sqlite3.connect(path)) as db, db:
        blob = bytearray(db.execute("SELECT cell FROM owners").fetchone()[0])
        blob[3] ^= 4
        db.execute("UPDATE owners SET cell = ?", (bytes(blob),))
    with CornerStore(path, key="k") as store, pytest.raises(InputError, match="damaged"):
        store.claim_owners(0, corners, cell)
