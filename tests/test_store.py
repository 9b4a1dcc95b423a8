"""Files that survive a crash: files are complete, a resumed run equals an uninterrupted one, and
damage is reported."""

import dataclasses
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from pliant.core import InputError, PliantError
from pliant.store import (
    Header,
    TrajectoryWriter,
    check_path,
    content_key,
    has_trajectory,
    lock_folder,
    read_json,
    read_trajectory,
    write_atomic,
    write_json,
)
from pliant.store.digest import digest

KEY = content_key({"robot": "pendulum", "dt": 0.01})


def swing(x, u):
    """Return the next state of a chaotic map: one wrong bit changes every later state."""
    return np.array([x[1], 3.9 * x[0] * (1.0 - x[0]) * (0.9 + 0.1 * np.cos(u[0] + x[1]))])


def run(writer, x, steps):
    for k in range(writer.steps, steps):
        u = np.array([0.1 * k])
        x = swing(x, u)
        writer.append(x, u, energy=float(x @ x))


@pytest.mark.parametrize("path", [None, 5, b"folder", "", "a\0b"])
def test_what_is_not_a_path_raises_an_error_that_names_it(path):
    with pytest.raises(InputError, match=r"^The result folder is .*(pathlib.Path|path of a file)"):
        check_path("The result folder", path)


@pytest.mark.parametrize("path", ["plan", Path("plan")])
def test_text_and_paths_are_paths(path):
    assert check_path("The result folder", path) == Path("plan")


HEADER = Header(key=KEY, dt=0.01, n_state=2, n_controls=1, scalars=("energy",), chunk=4)


def start(folder, *, replace=False, **changes):
    return TrajectoryWriter.start(
        folder, np.array([0.3, 0.2]), dataclasses.replace(HEADER, **changes), replace=replace
    )


def recorded(folder, steps):
    with start(folder) as writer:
        run(writer, np.array([0.3, 0.2]), steps)
    return read_trajectory(folder)


def assert_same_bits(a, b):
    assert a.header == b.header
    for name in ("initial", "times", "states", "controls"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert {n: v.tobytes() for n, v in a.scalars.items()} == {
        n: v.tobytes() for n, v in b.scalars.items()
    }


def test_trajectory_is_read_as_written(tmp_path):
    done = recorded(tmp_path, 10)
    assert done.states.shape == (10, 2)
    assert done.controls.shape == (10, 1)
    assert done.path.shape == (11, 2)
    np.testing.assert_allclose(done.times, 0.01 * np.arange(1, 11), rtol=1e-15)
    for before, after, u, energy in zip(
        done.path, done.states, done.controls, done.scalars["energy"], strict=False
    ):
        np.testing.assert_array_equal(after, swing(before, u))
        assert energy == after @ after
    names = sorted(p.name for p in (tmp_path / "trajectory").iterdir())
    assert names == [
        "chunk-000000.npz",
        "chunk-000004.npz",
        "chunk-000008.npz",
        "header.json",
        "initial.npz",
    ]


@pytest.mark.parametrize("steps", [0, 1, 4, 9])
def test_resumed_run_equals_uninterrupted_run(tmp_path, steps):
    unbroken = recorded(tmp_path / "whole", 13)
    recorded(tmp_path / "cut", steps)
    writer, done = TrajectoryWriter.resume(tmp_path / "cut", key=KEY)
    assert writer.steps == steps
    with writer:
        run(writer, done.path[-1], 13)
    assert_same_bits(read_trajectory(tmp_path / "cut"), unbroken)


CHILD = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_store import run, start
writer = start(sys.argv[1])
run(writer, np.array([0.3, 0.2]), 23)
print("ready", flush=True)
time.sleep(60)
"""


def test_kill_9_loses_at_most_one_chunk_and_resumed_run_is_bit_identical(tmp_path):
    unbroken = recorded(tmp_path / "whole", 50)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "killed"), str(Path(__file__).parent)]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    writer, done = TrajectoryWriter.resume(tmp_path / "killed", key=KEY)
    assert writer.steps == 20  # 23 steps were made; the last chunk of 4 was incomplete
    with writer:
        run(writer, done.path[-1], 50)
    assert_same_bits(read_trajectory(tmp_path / "killed"), unbroken)


def test_kill_during_write_leaves_only_complete_chunks(tmp_path):
    # An incomplete write would become visible in os.replace. The child dies just before its third
    # chunk is moved.
    child = textwrap.dedent("""
        import os, signal, sys
        import numpy as np
        sys.path.insert(0, sys.argv[2])
        from test_store import run, start
        writer, replace, count = start(sys.argv[1]), os.replace, [0]
        def deadly(a, b):
            count[0] += 1
            if count[0] == 3: os.kill(os.getpid(), signal.SIGKILL)
            replace(a, b)
        os.replace = deadly
        run(writer, np.array([0.3, 0.2]), 50)
    """)
    command = [sys.executable, "-c", child, str(tmp_path), str(Path(__file__).parent)]
    assert (
        subprocess.run(
            command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == -signal.SIGKILL
    )
    assert len(list((tmp_path / "trajectory").glob(".pliant-*.tmp"))) == 1
    assert len(read_trajectory(tmp_path).states) == 8
    start(tmp_path, replace=True)
    assert not list((tmp_path / "trajectory").glob(".pliant-*.tmp"))


def test_error_in_with_block_keeps_the_previous_steps(tmp_path):
    with suppress(KeyboardInterrupt), start(tmp_path) as writer:
        run(writer, np.array([0.3, 0.2]), 6)
        raise KeyboardInterrupt
    assert len(read_trajectory(tmp_path).states) == 6


def test_writer_copies_buffers_of_the_caller(tmp_path):
    x = np.zeros(2)
    with start(tmp_path) as writer:
        for k in range(3):
            x[:] = k
            writer.append(x, [0.0], energy=0.0)
    np.testing.assert_array_equal(read_trajectory(tmp_path).states[:, 0], [0.0, 1.0, 2.0])


def test_trajectory_without_controls_or_scalars_is_read_as_written(tmp_path):
    with start(tmp_path, n_controls=0, scalars=()) as writer:
        writer.append(np.ones(2), np.zeros(0))
    done = read_trajectory(tmp_path)
    assert done.controls.shape == (1, 0)
    assert done.scalars == {}


def test_resume_with_other_settings_is_rejected(tmp_path):
    recorded(tmp_path, 5)
    with pytest.raises(InputError, match=r"other settings.*another folder"):
        TrajectoryWriter.resume(tmp_path, key=content_key({"robot": "pendulum", "dt": 0.02}))


def test_old_trajectory_is_replaced_only_on_request(tmp_path):
    recorded(tmp_path, 9)
    with pytest.raises(InputError, match="already has a trajectory"):
        start(tmp_path)
    start(tmp_path, replace=True)
    assert len(read_trajectory(tmp_path).states) == 0


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda home: (home / "chunk-000004.npz").unlink(),
            r"chunk-000008.npz starts at step 8.*Restore chunk-000004",
        ),
        (lambda home: cut(home / "chunk-000004.npz", 0.5), r"chunk-000004.npz is damaged.*resume"),
        (
            lambda home: cut(home / "chunk-000004.npz", 0.0),
            r"chunk-000004.npz is damaged \(0 bytes",
        ),
        (lambda home: flip(home / "chunk-000004.npz"), r"chunk-000004.npz is damaged"),
        (
            lambda home: np.savez(home / "chunk-000004.npz", states=np.zeros((4, 3))),
            r"chunk-000004.npz is damaged",
        ),
        (
            lambda home: (home / "chunk-000004.npz").write_bytes(b"not a zip"),
            r"chunk-000004.npz is damaged",
        ),
        (lambda home: pickled(home / "chunk-000004.npz"), r"chunk-000004.npz is damaged"),
        (lambda home: (home / "initial.npz").unlink(), r"initial.npz does not exist"),
        (lambda home: (home / "header.json").unlink(), r"has no trajectory"),
        (lambda home: (home / "header.json").write_text("{}"), r"not the header of a trajectory"),
        (lambda home: cut(home / "header.json", 0.5), r"header.json is not valid JSON"),
    ],
)
def test_damaged_trajectory_error_names_file_and_remedy(tmp_path, break_it, message):
    recorded(tmp_path, 12)
    break_it(tmp_path / "trajectory")
    with pytest.raises(InputError, match=message) as caught:
        read_trajectory(tmp_path)
    assert "\n" not in str(caught.value)


def cut(path, share):
    blob = path.read_bytes()
    path.write_bytes(blob[: int(share * len(blob))])


def flip(path):
    blob = bytearray(path.read_bytes())
    blob[blob.index(b"NUMPY") + 140] ^= 1  # inside the numbers of the first array
    path.write_bytes(bytes(blob))


def pickled(path):
    np.savez(
        path,
        states=np.array([{}, {}], dtype=object),
        controls=np.zeros((2, 1)),
        scalars=np.zeros((2, 1)),
    )


@pytest.mark.parametrize(
    ("state", "control", "scalars", "message"),
    [
        (np.zeros(3), [0.0], {"energy": 0.0}, "state of step 0 has 3 numbers.*needs 2"),
        (np.zeros(2), [0.0, 1.0], {"energy": 0.0}, "control of step 0 has 2 numbers.*needs 1"),
        (np.array([0.0, np.nan]), [0.0], {"energy": 0.0}, "state of step 0 is nan at entry 1"),
        (np.zeros(2), [0.0], {}, r"trajectory has \['energy'\]"),
    ],
)
def test_step_of_wrong_size_is_rejected(tmp_path, state, control, scalars, message):
    with pytest.raises(InputError, match=message):
        start(tmp_path).append(state, control, **scalars)


@pytest.mark.parametrize(
    "options", [{"dt": 0.0}, {"dt": np.nan}, {"chunk": 0}, {"n_state": 3}, {"n_controls": -1}]
)
def test_bad_start_is_rejected_and_leaves_no_folder(tmp_path, options):
    with pytest.raises(InputError):
        start(tmp_path, **options)
    assert not has_trajectory(tmp_path)
    assert not list(tmp_path.iterdir())


def test_content_key_depends_on_content_and_not_order():
    assert content_key({"a": 1, "b": [1.5]}) == content_key(
        {"b": np.array([1.5]), "a": np.int64(1)}
    )
    assert content_key({"a": 1, "b": 2}) != content_key({"a": 2, "b": 1})


def test_atomic_write_creates_folders_and_leaves_no_other_files(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_atomic(path, "first")
    write_atomic(path, b"second")
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_atomic_write_through_a_link_changes_the_link_target(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "no permission to write"),
        (errno.EIO, "Input/output"),
    ],
)
def test_failed_write_is_reported_and_keeps_old_file(tmp_path, monkeypatch, code, message):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        PliantError, match=rf"file.txt could not be written \(3 bytes\): .*{message}"
    ):
        write_atomic(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]
    assert path.read_text() == "old"


def test_path_that_is_not_a_file_is_reported(tmp_path):
    with pytest.raises(PliantError, match="it is a folder"):
        write_atomic(tmp_path, "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(PliantError, match="a part of this path is a file"):
        write_atomic(tmp_path / "file" / "inner", "x")


def test_json_keeps_numpy_numbers_exactly(tmp_path):
    obj = {
        "pi": np.float64(np.pi),
        "n": np.int32(3),
        "ok": np.bool_(True),
        "x": np.arange(3.0),
        "none": None,
        "t": (1, "ü"),
    }
    write_json(tmp_path / "a.json", obj)
    assert read_json(tmp_path / "a.json") == {
        "pi": np.pi,
        "n": 3,
        "ok": True,
        "x": [0.0, 1.0, 2.0],
        "none": None,
        "t": [1, "ü"],
    }


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"metrics": {"error": [1.0, float("nan")]}}, r"metrics.error\[1\] is nan"),
        ({"x": np.array([np.inf])}, r"x\[0\] is inf"),
        ({"f": print}, "f is a builtin_function_or_method"),
        ({"a": {1: 2}}, "a has the name 1, but JSON names are strings"),
    ],
)
def test_unsupported_json_values_are_rejected_and_nothing_is_written(tmp_path, obj, message):
    with pytest.raises(InputError, match=message):
        write_json(tmp_path / "a.json", obj)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"a": [1, 2', "not valid JSON.*line 1"),
        (b"[1]", "contains a JSON list.*object is needed"),
        (b'{"a": NaN}', "contains NaN"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_damaged_json_file_is_reported(tmp_path, blob, message):
    (tmp_path / "a.json").write_bytes(blob)
    with pytest.raises(InputError, match=message) as caught:
        read_json(tmp_path / "a.json")
    assert "a.json" in str(caught.value)


def test_missing_json_file_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"b.json does not exist"):
        read_json(tmp_path / "b.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)


def test_json_on_disk_is_plain_json(tmp_path):
    write_json(tmp_path / "a.json", {"name": "arm", "value": 0.1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"name": "arm", "value": 0.1}


def test_folder_can_be_locked_once(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "run"):
        with pytest.raises(InputError, match="another run"), lock_folder(tmp_path / "run"):
            pass
        with lock_folder(tmp_path / "other"):
            pass
    with lock_folder(tmp_path / "run"):
        pass


def test_equal_values_have_equal_digests():
    same = [[(0, 1), (2, -0.0)], ([0.0, 1.0], (2, 0)), np.array([[0, 1], [2, 0]], "f4")]
    assert len({digest(value) for value in same}) == 1
    assert digest(["a", 1]) == digest(("a", 1.0))
    assert digest(np.array(["a", "b"])) == digest(["a", "b"])
    assert digest([True, False]) == digest(np.array([True, False]))
    assert digest({"a": 1}) == digest(MappingProxyType({"a": 1.0}))


def test_different_values_have_different_digests():
    other = [1, True, "1", None, [1], [[1]], [1, 1], 2**53 + 1, 2.0**53, 10**30, 1j, {"a": 1}, []]
    other += [[True, 1.0], [1.0, None], {"a": 1, "b": 2}, {"b": 2, "a": 1}, b"1", ["1"]]
    assert len({digest(value) for value in other}) == len(other)
