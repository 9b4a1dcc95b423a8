"""Compiled code is saved under the name of its sources, in files that are checked before use."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest

import pliant
from pliant.kernels import cache, cache_folder
from pliant.kernels.cache import digest

# One small function, compiled as Pliant's are; `import pliant` as a whole would take seconds.
PROGRAM = """
import sys, types
package = types.ModuleType("pliant")
package.__path__ = [{path!r}]
sys.modules["pliant"] = package
from pliant.kernels import det
print(det((2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)), det.stats.cache_hits != {{}})
"""


def kernel(x):
    return x + 1


kernel.__module__ = "pliant.test_kernel"


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Redirect the cache to an empty home and temporary folder, and return their parent."""
    monkeypatch.setattr(cache_folder.settings, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache_folder.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.fixture
def run(home, monkeypatch):
    """Return run(): load `kernel` as a new process does and return (cache hit, warnings)."""

    def start():
        monkeypatch.setattr(cache.dispatcher, "FunctionCache", None)
        cache._warn_once.cache_clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cache.use_kernel_cache(Path(cache.__file__).parent)
            compiled = numba.njit(cache=True)(kernel)
            assert compiled(2) == 3
        return bool(compiled.stats.cache_hits), [str(warning.message) for warning in caught]

    return start


def start_process(code, **variables):
    return subprocess.run(
        [sys.executable, *code],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "NUMBA_CACHE_DIR": "", **variables},
        timeout=300,
    )


def test_digest_depends_on_every_compiled_source_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "laws.py").write_text("@njit\ndef f(x):\n    return x\n")
    (tmp_path / "loops.py").write_text("@njit\ndef g(x):\n    return f(x)\n")
    (tmp_path / "plain.py").write_text("x = 1\n")
    before = digest(tmp_path)
    (tmp_path / "plain.py").write_text("x = 2\n")
    assert digest(tmp_path) == before
    (tmp_path / "laws.py").write_text("@njit\ndef f(x):\n    return 2 * x\n")
    changed = digest(tmp_path)
    assert changed != before
    (tmp_path / "simd.py").write_text("@intrinsic\ndef load(typing, a):\n    ...\n")
    assert digest(tmp_path) != changed


def test_cache_folder_is_private_and_damaged_files_are_replaced(run, home):
    assert run() == (False, [])
    assert run() == (True, [])
    (folder,) = (home / "home" / "pliant").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    for suffix, damage in (("nbi", b""), ("nbc", b""), ("nbc", None)):
        (file,) = folder.rglob(f"*.{suffix}")
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if damage is None else damage)
        hit, (message,) = run()
        assert not hit
        assert message.endswith("was damaged and is compiled again.")
    assert run() == (True, [])


def test_full_disk_is_reported_once_and_nothing_is_saved(run, home, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache._CheckedFiles, "_write", full)
    hit, (message,) = run()
    assert not hit
    assert "cannot be saved in" in message
    assert "(No space left on device); the next run" in message
    assert not list((home / "home").rglob("*.nb?"))


def test_folder_writable_by_others_is_not_used(run, home):
    run()
    (folder,) = (home / "home" / "pliant").iterdir()
    folder.chmod(0o770)
    hit, (message,) = run()
    assert not hit
    assert f"because other users can write {folder}" in message
    assert f"kept in {home}/tmp/pliant-{os.geteuid()}/kernels-" in message


def test_new_process_loads_compiled_code_from_the_temporary_folder(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "tmp").mkdir()
    places = {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")}
    code = ["-c", PROGRAM.format(path=str(Path(pliant.__file__).parent))]
    first, second = (start_process(code, **places) for _ in range(2))
    assert first.stdout == "2.0 False\n", first.stderr
    kept = f"Compiled code is kept in {tmp_path}/tmp/pliant-{os.geteuid()}/kernels-"
    assert first.stderr.count(kept) == 1
    assert (second.stdout, second.stderr) == ("2.0 True\n", "")


def test_missing_cache_folder_is_reported_once_per_run(run, home):
    (home / "home").write_text("not a folder")
    (home / "tmp" / f"pliant-{os.geteuid()}").write_text("not a folder")
    for _ in range(2):
        hit, (message,) = run()
        assert not hit
        assert "not kept, because the cache folder cannot be written" in message
        assert "Every run compiles it again" in message


def test_functions_of_other_packages_keep_their_own_cache():
    def other() -> None: ...

    other.__module__ = "elsewhere"
    assert type(cache.dispatcher.FunctionCache(other)) is cache.caching.FunctionCache


def test_file_of_another_signature_is_not_used(tmp_path):
    files = cache._CheckedFiles(str(tmp_path), "f", "stamp")
    files.save("float64", b"code of float64")
    files._save_index({"float64": "f.1.nbc", "int64": "f.1.nbc"})  # two processes chose one name
    assert files.load("float64") == b"code of float64"
    assert files.load("int64") is None


def test_version_is_printed_if_no_folder_is_writable(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / f"pliant-{os.geteuid()}").write_text("not a folder")
    places = {"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    path = os.pathsep.join(sys.path)
    out = start_process(["-m", "pliant", "--version"], PYTHONPATH=path, **places)
    assert (out.stdout, out.stderr) == (f"{pliant.__version__}\n", "")
