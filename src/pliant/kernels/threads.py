"""How many threads a compiled loop gets: one for small work, where waking a second costs more than it brings."""

from collections.abc import Callable
from typing import Any

import numba

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
