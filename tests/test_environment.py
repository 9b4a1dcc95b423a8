"""Wrong values of environment variables are named and ignored before Numba reads them."""

import os
import subprocess
import sys

import pytest

from pliant.environment import THREADS_VARIABLE, check_environment


@pytest.mark.parametrize("value", ["0", "-3", "abc", "", "1.5", "100000"])
def test_invalid_number_of_threads_is_reported_and_ignored(monkeypatch, value):
    monkeypatch.setenv(THREADS_VARIABLE, value)
    with pytest.warns(UserWarning, match=f"NUMBA_NUM_THREADS is '{value}' and is ignored; give a"):
        check_environment()
    assert THREADS_VARIABLE not in os.environ


@pytest.mark.parametrize("value", ["1", "2", " 2 "])
def test_valid_number_of_threads_is_kept(monkeypatch, value, recwarn):
    monkeypatch.setenv(THREADS_VARIABLE, value)
    check_environment()
    assert os.environ[THREADS_VARIABLE] == value
    assert not recwarn.list


def test_command_line_prints_warnings_as_one_line():
    env = {**os.environ, THREADS_VARIABLE: "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-m", "pliant", "--version"],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
    )
    assert out.stderr.startswith("warning: NUMBA_NUM_THREADS is '0' and is ignored; give a whole")
    assert out.stderr.count("\n") == 1


def test_environment_is_checked_before_numba_is_imported():
    """With an invalid number of threads, importing Numba's parallel part would raise an error."""
    code = "import pliant.bodies"
    env = {**os.environ, THREADS_VARIABLE: "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300
    )
    assert out.returncode == 0, out.stderr
    assert out.stderr.count("NUMBA_NUM_THREADS is '0' and is ignored") == 1
