"""How compiled loops are called: on one thread for small work, where waking a second costs more
than it brings, and in one form."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

SMALL = 3000  # quadrature points; below this a loop takes well under a millisecond on one core

SPINS = "1000"  # looks, some microseconds


def wait_quietly() -> None:
    """Threads that wait for work are to sleep soon, unless the user has said how they wait. OpenMP
    lets them spin for milliseconds, which takes the core from a browser or another process: beside
    one, ticks on two threads took four times as long. It asks when it is loaded, so this comes
    before."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def run(kernel: Callable[..., Any], work: int, *args: Any) -> Any:
    """kernel(*args) on one thread when `work` is small, else on as many as NUMBA_NUM_THREADS
    allows."""
    before = numba.get_num_threads()
    if work >= SMALL or before == 1:
        return kernel(*args)
    numba.set_num_threads(1)
    try:
        return kernel(*args)
    finally:
        numba.set_num_threads(before)


def for_reading(array: np.ndarray) -> np.ndarray:
    """A contiguous view that cannot be written to: compiled loops then have one form, whatever they
    are given."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
