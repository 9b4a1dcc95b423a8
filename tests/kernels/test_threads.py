"""Small work runs on one thread and leaves the number of threads as it was."""

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


def test_small_work_gets_one_thread_and_large_work_all(all_threads):
    count = lambda: numba.get_num_threads()
    assert threads.run(count, threads.SMALL - 1) == 1
    assert threads.run(count, threads.SMALL) == all_threads
    assert numba.get_num_threads() == all_threads


def test_the_number_of_threads_survives_an_error(all_threads):
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda: 1 / 0, 1)
    assert numba.get_num_threads() == all_threads


@pytest.mark.parametrize(
    ("said", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "none")],
)
def test_threads_that_wait_sleep_soon_unless_the_user_says_how_they_wait(said, spins):
    free = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    asks = "import os, pliant.kernels; print(os.environ.get('GOMP_SPINCOUNT', 'none'))"
    assert (
        subprocess.run(
            [sys.executable, "-c", asks],
            env=free | said,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        == spins
    )
