"""What a paper's reproduction writes: its numbers beside the paper's, as result.json and as a
page."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.report import Plot, write_report
from pliant.store import write_json
from pliant.zoo.experiment import Metric, versions


@dataclass(frozen=True, kw_only=True)
class Found:
    """Numbers and what is to be said about them; a metric whose name ends in 'reached' must be
    True."""

    metrics: Mapping[str, Metric]
    notes: Sequence[str] = ()


def written(
    folder: Path,
    paper: str,
    shows: str,
    found: Found,
    *,
    quick: bool,
    began: float,
    plots: Sequence[Plot],
    missed: str = "an experiment missed its goal",
    media: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the result folder; gives the content of result.json. `media` are names of pictures in
    the folder."""
    reached = all(m.value is True for key, m in found.metrics.items() if key.endswith("reached"))
    result = {
        "name": f"paper-{paper}",
        "paper": paper,
        "shows": shows,
        "seed": 0,
        "status": "done" if reached else f"not reached: {missed}",
        "settings": {"quick": quick},
        "versions": versions(),
        "seconds": round(time.perf_counter() - began, 1),
        "metrics": {
            key: {"value": m.value, "unit": m.unit, "paper": m.paper}
            for key, m in found.metrics.items()
        },
        "notes": list(found.notes),
    }
    write_report(
        folder, {**result, "paper": f"paper {paper}"}, plots, media=media, notes=found.notes
    )
    write_json(folder / "result.json", result)
    return result
