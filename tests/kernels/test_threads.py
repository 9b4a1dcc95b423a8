"""Threads of compiled loops: small work uses one, and the setting is restored."""

import os
import subprocess
import sys

import numba
import pytest

from pliant.kernels import threads


@pytest.fixture
def all_threads():
    before = numba.get_num_threads()
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    yield numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(before)


def test_small_work_uses_one_thread_and_large_work_uses_all(all_threads):
    count = lambda: numba.get_num_threads()
    assert threads.run_kernel(count, threads.MIN_PARALLEL_WORK - 1) == 1
    assert threads.run_kernel(count, threads.MIN_PARALLEL_WORK) == all_threads
    assert numba.get_num_threads() == all_threads


def test_number_of_threads_is_restored_after_an_error(all_threads):
    with pytest.raises(ZeroDivisionError):
        threads.run_kernel(lambda: 1 / 0, 1)
    assert numba.get_num_threads() == all_threads


@pytest.mark.parametrize(
    ("variables", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "none")],
)
def test_idle_threads_spin_briefly_unless_the_user_sets_their_policy(variables, spins):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    program = "import os, pliant.kernels; print(os.environ.get('GOMP_SPINCOUNT', 'none'))"
    assert (
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment | variables,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        == spins
    )
