"""The number of threads of compiled loops, and the form of their arguments."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

MIN_PARALLEL_WORK = 3000  # quadrature points; smaller loops take well under 1 ms on one core

SPIN_COUNT = "1000"  # spins before a thread sleeps: a few microseconds


def limit_spinning() -> None:
    """Let idle OpenMP threads sleep soon, unless the user has set how they wait.

    By default they spin for milliseconds and take the core from a browser or another process: next
    to one, control steps on two threads took four times as long. OpenMP reads the setting when it
    is loaded, so call this first.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)


def run_kernel(kernel: Callable[..., Any], work: int, *args: Any) -> Any:
    """Return kernel(*args), on one thread if `work` is small.

    `work` is the number of quadrature points, or of items that cost as much. Large work uses
    NUMBA_NUM_THREADS threads.
    """
    before = numba.get_num_threads()
    if work >= MIN_PARALLEL_WORK or before == 1:
        return kernel(*args)
    numba.set_num_threads(1)
    try:
        return kernel(*args)
    finally:
        numba.set_num_threads(before)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a contiguous, read-only view, so that a compiled loop needs one specialisation
    only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
