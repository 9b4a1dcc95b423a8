"""Compiled code is kept under the name of its sources, in files that are checked before they are
used, in a folder that only its owner can write."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import pliant
from pliant.kernels import cache
from pliant.kernels.cache import digest

# One small function, compiled as Pliant's are; `import pliant` as a whole would take seconds.
PROGRAM = """
import sys, types
package = types.ModuleType("pliant")
package.__path__ = [{path!r}]
sys.modules["pliant"] = package
from pliant.kernels import det
{before}
print(det((2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)), det.stats.cache_hits != {{}})
"""


@pytest.fixture
def run(tmp_path):
    """run(): (determinant, whether it came from the cache, stderr) of a new process."""

    def start(before="", **variables):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}
        code = PROGRAM.format(path=str(Path(pliant.__file__).parent), before=before)
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**env, **variables},
            timeout=300,
        )
        assert out.returncode == 0, out.stderr
        value, hit = out.stdout.split()
        assert float(value) == 2.0
        return hit == "True", out.stderr

    return start


@pytest.fixture
def files(tmp_path):
    """files(suffix): the files of the cache."""
    return lambda suffix: sorted((tmp_path / ".cache" / "pliant").rglob(f"*det-*.{suffix}"))


def test_the_name_follows_every_compiled_source_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "laws.py").write_text("@njit\ndef f(x):\n    return x\n")
    (tmp_path / "loops.py").write_text("@njit\ndef g(x):\n    return f(x)\n")
    (tmp_path / "plain.py").write_text("x = 1\n")
    before = digest(tmp_path)
    (tmp_path / "plain.py").write_text("x = 2\n")
    assert digest(tmp_path) == before
    (tmp_path / "laws.py").write_text("@njit\ndef f(x):\n    return 2 * x\n")
    changed = digest(tmp_path)
    assert changed != before
    (tmp_path / "lanes.py").write_text("@intrinsic\ndef load(typing, a):\n    ...\n")
    assert digest(tmp_path) != changed


def test_compiled_code_is_kept_in_a_private_folder_and_damaged_files_are_replaced(run, files):
    assert run() == (False, "")
    assert run() == (True, "")
    for suffix, damage in (("nbi", b""), ("nbc", b""), ("nbc", None)):
        (file,) = files(suffix)
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if damage is None else damage)
        hit, said = run()
        assert not hit
        assert said.count("was damaged and is compiled again.") == 1
        assert "Traceback" not in said
    assert run() == (True, "")
    assert files("nbi")[0].parents[1].stat().st_mode & 0o777 == 0o700


def test_a_full_disk_is_reported_once_and_nothing_is_kept(run, files):
    full = (
        "import errno, os; from pliant.kernels import cache\n"
        "def full(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "cache._CheckedFiles._write = full"
    )
    hit, said = run(full)
    assert not hit
    assert said.count("cannot be saved in") == 1
    assert "(No space left on device); the next run" in said
    assert "Traceback" not in said
    assert not files("nb?")


def test_a_folder_that_others_can_write_is_not_used(run, files, tmp_path):
    run()
    (folder,) = (tmp_path / ".cache" / "pliant").iterdir()
    folder.chmod(0o770)
    (tmp_path / "tmp").mkdir()
    hit, said = run(TMPDIR=str(tmp_path / "tmp"))
    assert not hit
    assert f"because other users can write {folder}" in said


def test_a_folder_that_others_can_replace_is_not_used(tmp_path):
    assert cache._obstacle(lambda: tmp_path / "base", "kernels") is None
    (tmp_path / "base").chmod(0o777)
    assert (
        cache._obstacle(lambda: tmp_path / "base", "kernels")
        == f"every user can replace the folders in {tmp_path / 'base'}"
    )
    (tmp_path / "base").chmod(0o1777)  # as /tmp, where users can replace only what is theirs
    assert cache._obstacle(lambda: tmp_path / "base", "kernels") is None


def test_the_temporary_folder_replaces_a_home_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "tmp").mkdir()
    places = {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")}
    hit, said = run(**places)
    assert not hit
    kept = f"Compiled code is kept in {tmp_path}/tmp/pliant-{os.geteuid()}/kernels-"
    assert said.count(kept) == 1
    assert run(**places) == (True, "")


def test_without_a_usable_folder_every_run_compiles_and_says_so(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(cache, "_user_folder", lambda: tmp_path / "file" / "home")
    monkeypatch.setattr(cache, "_temporary_folder", lambda: tmp_path / "file" / "tmp")
    monkeypatch.setattr(cache.dispatcher, "FunctionCache", None)
    cache.keep_compiled_code(Path(cache.__file__).parent)
    made = cache.dispatcher.FunctionCache(digest)
    assert made.load_overload(None, None) is None
    cache._warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            made.save_overload(None, None)
    (sentence,) = said
    assert "not kept, because the cache folder cannot be written" in str(sentence.message)
    assert "Every run compiles it again" in str(sentence.message)


def test_a_folder_of_another_user_is_not_used(monkeypatch, tmp_path):
    assert cache._obstacle(lambda: tmp_path / "base", "kernels") is None
    monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    said = cache._obstacle(lambda: tmp_path / "base", "kernels")
    assert said is not None
    assert said.endswith("belongs to another user")


def test_functions_of_other_packages_keep_their_own_cache():
    def other() -> None: ...

    other.__module__ = "elsewhere"
    assert type(cache.dispatcher.FunctionCache(other)) is cache.caching.FunctionCache


def test_a_file_of_another_signature_is_not_used(tmp_path):
    files = cache._CheckedFiles(str(tmp_path), "f", "stamp")
    files.save("float64", b"code of float64")
    files._save_index({"float64": "f.1.nbc", "int64": "f.1.nbc"})  # two processes chose one name
    assert files.load("float64") == b"code of float64"
    assert files.load("int64") is None


def test_where_nothing_can_be_written_the_version_is_printed_and_code_is_compiled(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / f"pliant-{os.geteuid()}").write_text("not a folder")
    places = {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    for _ in range(2):
        hit, said = run(**places)
        assert not hit
        assert said.count("Compiled code is not kept, because") == 1
        assert "Traceback" not in said
    out = subprocess.run(
        [sys.executable, "-m", "pliant", "--version"],
        capture_output=True,
        text=True,
        env={**places, "PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
    )
    assert (out.stdout, out.stderr) == (f"{pliant.__version__}\n", "")
