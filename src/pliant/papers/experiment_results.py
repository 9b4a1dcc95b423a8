"""The result folder of a reproduced paper: metrics beside those of the paper, as result.json and
report.html."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.report import Plot, write_report
from pliant.store import write_json
from pliant.zoo.experiment import Metric, versions


@dataclass(frozen=True, kw_only=True)
class MeasuredMetrics:
    """Metrics and notes about them. A metric whose name ends in 'reached' must be True."""

    metrics: Mapping[str, Metric]
    notes: Sequence[str] = ()


def write_paper_result(
    folder: Path,
    paper: str,
    shows: str,
    measured: MeasuredMetrics,
    *,
    quick: bool,
    start: float,
    plots: Sequence[Plot],
    failure: str = "an experiment did not reach its goal",
    media: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the result folder and return the content of result.json.

    `start` is the value of `time.perf_counter` at the start, `failure` the status if a metric that
    ends in 'reached' is not True. `media` are names of pictures in the folder.
    """
    reached = all(m.value is True for key, m in measured.metrics.items() if key.endswith("reached"))
    result = {
        "name": f"paper-{paper}",
        "paper": paper,
        "shows": shows,
        "seed": 0,
        "status": "done" if reached else f"not reached: {failure}",
        "settings": {"quick": quick},
        "versions": versions(),
        "seconds": round(time.perf_counter() - start, 1),
        "metrics": {
            key: {"value": m.value, "unit": m.unit, "paper": m.paper}
            for key, m in measured.metrics.items()
        },
        "notes": list(measured.notes),
    }
    write_report(
        folder, {**result, "paper": f"paper {paper}"}, plots, media=media, notes=measured.notes
    )
    write_json(folder / "result.json", result)
    return result
