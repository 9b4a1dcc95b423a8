"""[Spielberg2021]: the experiments of Fig. 5 to 14 with what the paper reports, and frames of their
motions."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pliant.papers.experiment_results import MeasuredMetrics, write_paper_result
from pliant.papers.panels import PanelRow, frame_row, write_panels
from pliant.papers.paper_run import PaperRun
from pliant.progress import Progress
from pliant.report import Outcome, Plot
from pliant.zoo.experiment import ExperimentRun, Metric, Setting
from pliant.zoo.registry import find

SHOWS = "Fig. 5 to 14: identification, walkers and co-design"
PLOTS = 2  # of each experiment, those of the paper's figure
FEW = "none,E,nu,density,E+nu+density"  # combinations of material fields


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure of the paper, what the paper states about it, and settings that make its experiment
    small enough for hours in place of days."""

    label: str
    states: str
    reduced: Mapping[str, Setting] = field(default_factory=dict)


_SPACE: Mapping[str, Setting] = {
    "coarsening": 3.0,
    "seeds": 2,
    "combinations": "none,E+nu+density",
}
_IN_SPACE = "co-design of E, nu and density gains roughly 33 %; six repetitions"
FIGURES: Mapping[str, PaperFigure] = {
    "finger-identify": PaperFigure(
        label="Fig. 5", states="E, nu and mass converge within around 100 epochs of SGD"
    ),
    "biped-cable": PaperFigure(label="Fig. 6", states="two body lengths within 5 min"),
    "rhino": PaperFigure(
        label="Fig. 7",
        states="a curve of progress; the text gives no distance",
        reduced={"coarsening": 1.6, "seeds": 2},
    ),
    "biped-terrain": PaperFigure(
        label="Fig. 8",
        states="a curve of progress; the text gives no distance",
        reduced={"coarsening": 1.6, "seeds": 2},
    ),
    "creature-stl": PaperFigure(
        label="Fig. 9",
        states="a curve of progress; the text gives no distance",
        reduced={"coarsening": 2.0, "seeds": 2},
    ),
    "arm-swingup": PaperFigure(
        label="Fig. 10", states="co-design needs less than 75 % of the actuation cost"
    ),
    "arm-lengthen": PaperFigure(
        label="section 5.3.1", states="a distance error below 0.001 within 100 steps"
    ),
    "biped-codesign": PaperFigure(
        label="Fig. 11",
        states="several body lengths within 5 min; co-design gains nearly 50 %; E matters most, "
        "then density, then nu; ten repetitions",
        reduced={"coarsening": 1.6, "seeds": 3, "combinations": FEW},
    ),
    "quadruped": PaperFigure(label="Fig. 12", states=_IN_SPACE, reduced=_SPACE),
    "hexapod": PaperFigure(label="Fig. 13", states=_IN_SPACE, reduced=_SPACE),
    "octoped": PaperFigure(label="Fig. 14", states=_IN_SPACE, reduced=_SPACE),
}
NOTES = (
    "The paper's curves are pictures, so only numbers of its text are beside those of Pliant. It "
    "states neither gravity nor units.",
    "The networks of Pliant see a clock beside the centroids of the paper.",
)


def reproduce(
    folder: Path, *, quick: bool, progress: Progress, resume: bool = False
) -> dict[str, Any]:
    """Run every experiment of the paper and write the result folder."""
    start = time.perf_counter()
    run = PaperRun(paper="004", folder=folder, quick=quick, progress=progress, resume=resume)
    run.begin()
    metrics: dict[str, Metric] = {}
    plots: list[Plot] = []
    rows: list[PanelRow] = []
    for name, figure in FIGURES.items():
        outcome = find(name).perform(reduced_run(run, name))
        metrics |= {f"{name}, {key}": metric for key, metric in outcome.metrics.items()}
        metrics[f"{name}, goal reached"] = Metric(value=outcome.reached)
        plots += _titled(outcome, name, figure.label)
        if outcome.scene is not None:
            rows.append(frame_row(outcome.scene, name))
    media = write_panels(
        folder / "motions.png", [row.pictures for row in rows], [row.titles for row in rows]
    )
    run.end()
    return write_paper_result(
        folder,
        "004",
        SHOWS,
        MeasuredMetrics(metrics=metrics, notes=notes(quick)),
        quick=quick,
        start=start,
        plots=plots,
        media=[media.name],
    )


def reduced_run(run: PaperRun, name: str) -> ExperimentRun:
    """Return the run of an experiment at its quick or its reduced size."""
    made = run.experiment(name)
    if run.quick:
        return made
    return replace(made, settings={**made.settings, **FIGURES[name].reduced})


def notes(quick: bool) -> list[str]:
    """Return what the paper states about each figure, and the sizes of the experiments."""
    out = list(NOTES)
    if quick:
        out.append("All experiments have their quick sizes, which show no gain.")
    for name, figure in FIGURES.items():
        text = f"{figure.label}, {name}: the paper states {figure.states}."
        if figure.reduced and not quick:
            size = ", ".join(f"{key}={value}" for key, value in figure.reduced.items())
            text += f" The size is reduced ({size}); `pliant run {name}` has the full one."
        out.append(text)
    return out


def _titled(outcome: Outcome, name: str, label: str) -> list[Plot]:
    return [
        replace(plot, title=f"{label}, {name}: {plot.title.removeprefix(f'{label}: ')}")
        for plot in outcome.plots[:PLOTS]
    ]
