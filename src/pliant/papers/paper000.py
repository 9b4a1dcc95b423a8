"""[Jia2019]: Table I and Fig. 3 to 5. Each row of the table is a function in ROWS."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pliant.core import MissingExtra
from pliant.papers.experiment_results import MeasuredMetrics, write_paper_result
from pliant.papers.panels import PanelRow, write_panels
from pliant.papers.paper_run import PaperRun
from pliant.papers.table_one import TableRow, joined_metrics
from pliant.papers.table_one_arm import arm_row
from pliant.papers.table_one_ppo import ppo_row
from pliant.papers.table_one_swimmer import swimmer_row
from pliant.progress import Progress

SHOWS = "Table I and Fig. 3 to 5"
ROWS: tuple[Callable[[PaperRun], TableRow], ...] = (arm_row, swimmer_row, ppo_row)
NOTES = (
    "The paper counts one evaluation per simulated step. A step of Pliant may need several values "
    "of the map, such as one shape per Newton iteration. Both counts are given.",
    "Times of the paper were measured on another machine, so only ratios are comparable. Its "
    "speed-ups follow the counts of evaluations; its own seconds give smaller ones.",
)


def reproduce(
    folder: Path, *, quick: bool, progress: Progress, resume: bool = False
) -> dict[str, Any]:
    """Measure every row of Table I and write the result folder."""
    start = time.perf_counter()
    run = PaperRun(paper="000", folder=folder, quick=quick, progress=progress, resume=resume)
    run.begin()
    rows, notes = [], []
    for make_row in ROWS:
        try:
            rows.append(make_row(run))
        except MissingExtra as error:  # the other rows do not need it
            notes.append(f"A row of Table I is missing: {error}")
    notes += [f"{row.robot}: {note}" for row in rows for note in row.notes]
    media = _figure_four(folder, [frames for row in rows for frames in row.frames])
    run.end()
    return write_paper_result(
        folder,
        "000",
        SHOWS,
        MeasuredMetrics(metrics=joined_metrics(rows), notes=[*NOTES, *notes]),
        quick=quick,
        start=start,
        plots=[plot for row in rows for plot in row.plots],
        media=media,
    )


def _figure_four(folder: Path, frames: Sequence[PanelRow]) -> tuple[str, ...]:
    """Write frames of all motions into one picture. Return its name, or nothing without frames."""
    if not frames:
        return ()
    pictures, titles = [row.pictures for row in frames], [row.titles for row in frames]
    return (write_panels(folder / "fig-4.png", pictures, titles).name,)
