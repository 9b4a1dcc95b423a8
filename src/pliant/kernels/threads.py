"""How compiled loops are called: on one thread for small work, where waking a second costs more than it brings, and in one form."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

SMALL = 3000  # quadrature points; below this a loop takes well under a millisecond on one core


def run(kernel: Callable[..., Any], work: int, *args: Any) -> Any:
    """kernel(*args) on one thread when `work` is small, else on as many as NUMBA_NUM_THREADS allows."""
    before = numba.get_num_threads()
    if work >= SMALL or before == 1:
        return kernel(*args)
    numba.set_num_threads(1)
    try:
        return kernel(*args)
    finally:
        numba.set_num_threads(before)


def for_reading(array: np.ndarray) -> np.ndarray:
    """A contiguous view that cannot be written to: compiled loops then have one form, whatever they are given."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
