"""How long a piece of work takes."""

from collections.abc import Callable
from statistics import median
from time import perf_counter


def timed(work: Callable[[], object], repeats: int = 7, at_least: float = 0.0) -> float:
    """[ms] the median, after a run that may compile; short work is repeated until `at_least` [s]
    have passed, 10,000 times at most."""
    work()
    seconds: list[float] = []
    while len(seconds) < repeats or (sum(seconds) < at_least and len(seconds) < 10_000):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)
