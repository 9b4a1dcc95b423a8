"""How long a piece of work takes."""

from collections.abc import Callable
from statistics import median
from time import perf_counter


def timed(work: Callable[[], object], repeats: int = 7) -> float:
    """[ms] the median, after a run that may compile."""
    work()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)
