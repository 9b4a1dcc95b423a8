"""A row of Table I of [Jia2019]: measured values beside those of the paper, for any robot."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.papers.panels import PanelRow
from pliant.progress import Progress
from pliant.report import Plot
from pliant.zoo.experiment import Metric


@dataclass(frozen=True, kw_only=True)
class RowTimes:
    """Measured times [s] of a row."""

    f: float  # one value of the exact map with its derivative
    g: float  # one step with exact values
    g_surrogate: float  # one step on the surrogate, g~
    iteration: float  # of the planner on the surrogate
    iteration_exact: float  # the same with exact values


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """The values of Table I and of the text for one robot. Times are in seconds."""

    f: float
    g: float
    g_surrogate: float | str
    iteration: float
    iteration_exact: float
    speedup: float | str


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRow:
    """One row: its robot, metrics, notes, plots and rows of Fig. 4. A metric whose name ends in
    'reached' must be True."""

    robot: str
    metrics: Mapping[str, Metric]
    notes: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    frames: Sequence[PanelRow] = ()


def time_metrics(times: RowTimes, paper: PaperRow) -> dict[str, Metric]:
    """Return the times of a row and the speed-up of an iteration beside those of the paper."""
    rows = {
        "time of f, exact map with derivative": (times.f, paper.f),
        "time of g, step with the exact map": (times.g, paper.g),
        "time of g~, step on the grid": (times.g_surrogate, paper.g_surrogate),
        "time per iteration with the grid": (times.iteration, paper.iteration),
        "time per iteration with the exact map": (times.iteration_exact, paper.iteration_exact),
    }
    metrics = {
        name: Metric(value=value, unit="s", paper=reported)
        for name, (value, reported) in rows.items()
    }
    speedup = Metric(value=times.iteration_exact / times.iteration, paper=paper.speedup)
    return metrics | {"speed-up of an iteration over the exact map": speedup}


def median_times(
    calls: Mapping[str, tuple[Sequence[Any], Callable[[Any], Any]]], progress: Progress
) -> dict[str, float]:
    """Return the median time [s] of each function over its arguments, by name. The functions run
    once more before, so that nothing is compiled or read in a timed call."""
    out = {}
    for i, (name, (arguments, call)) in enumerate(calls.items()):
        progress("Table I: timing", i, len(calls))
        call(arguments[0])
        seconds = []
        for argument in arguments:
            start = time.perf_counter()
            call(argument)
            seconds.append(time.perf_counter() - start)
        out[name] = float(np.median(seconds))
    progress("Table I: timing", len(calls), len(calls))
    return out


def joined_metrics(rows: Sequence[TableRow]) -> dict[str, Metric]:
    """Return the metrics of all rows; each name starts with the row's robot."""
    return {f"{row.robot}: {name}": metric for row in rows for name, metric in row.metrics.items()}
