"""Timing of a function."""

from collections.abc import Callable
from statistics import median
from time import perf_counter


def timed(work: Callable[[], object], repeats: int = 7, at_least: float = 0.0) -> float:
    """Return the median time [ms] of a call, after one call that may compile.

    Calls are repeated until they took `at_least` [s] in total, at most 10,000 times.
    """
    work()
    seconds: list[float] = []
    while len(seconds) < repeats or (sum(seconds) < at_least and len(seconds) < 10_000):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)
