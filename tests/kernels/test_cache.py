"""Compiled code is kept under the name of its sources, so that a changed law is never met by an old
loop."""

import subprocess
import sys
from pathlib import Path

from pliant.kernels.cache import digest


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


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    code = (
        "import numba; numba.config.CACHE_DIR = ''; import pliant.kernels as k; "
        "print(k.det((1.0, 0, 0, 0, 1.0, 0, 0, 0, 1.0)))"
    )
    env = {"XDG_CACHE_HOME": str(tmp_path / "file"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300
    )
    assert out.returncode == 0, out.stderr
    assert float(out.stdout) == 1.0
