"""[Menager2024]: Fig. 4 to 7 redrawn with our runs of its three robots, and a table of iterations,
time, error and active bounds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.papers.experiment_results import Found, written
from pliant.progress import Progress
from pliant.report import Plot
from pliant.zoo.condensed_experiments import (
    Maker,
    bounded_controls,
    place_plot,
    plans,
    speed_plot,
    way_metrics,
)
from pliant.zoo.condensed_tasks import CLOSE, Reached, ReachTask
from pliant.zoo.experiment import ExperimentRun, Metric
from pliant.zoo.experiments import diamond_two_goals, liandford, stiff_flop
from pliant.zoo.registry import find

SHOWS = "Fig. 4 to 7: Diamond, Stiff-Flop and Liandford"
FIGURES: Mapping[str, tuple[str, Maker]] = {
    "diamond-two-goals": ("Fig. 4", diamond_two_goals.task),
    "stiff-flop-middle": ("Fig. 5, first row", stiff_flop.maker("middle")),
    "stiff-flop-tip": ("Fig. 5, second row", stiff_flop.maker("tip")),
    "liandford-spiral": ("Fig. 6", liandford.spiral),
    "liandford-pick-place": ("Fig. 7, first row", liandford.pick_place),
    "liandford-orient": ("Fig. 7, second row", liandford.orient),
}
NOTES = (
    "The paper reports iterations for the Diamond alone: 208 with the linear part of the "
    "derivative, and the 1,000 that were allowed with the non-linear part; it gives no errors, "
    "times, sizes, materials or goals, so that all but the iterations is ours.",
    "A plan by a condensed derivative has settled when eight iterations lowered its objective by "
    "less than a thousandth.",
    "The Liandford's motors are driven by their angle, for which the linear part alone forgets "
    "that the legs push back; here it is planned with the non-linear part, with which it reaches "
    "its goals. The paper did the opposite: it planned this robot with the linear part, and says "
    "that the non-linear one did not give the same results within the same iterations.",
)


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Every experiment of the paper, one after the other; a saved plan is resumed."""
    began = time.perf_counter()
    metrics: dict[str, Metric] = {}
    plots: list[Plot] = []
    for name, (figure, make) in FIGURES.items():
        here = ExperimentRun(
            settings=find(name).chosen(quick=quick),
            folder=folder / name,
            identity=f"paper-001 {name}",
            progress=lambda what, done, total, name=name: progress(  # type: ignore[misc]
                f"{name}: {what}", done, total
            ),
        )
        task = make(here.settings)
        found = plans(here, task)
        for way, one in found.items():
            metrics |= {
                f"{name}, {key}": metric for key, metric in way_metrics(task, way, one).items()
            }
        worst = max(one.worst for one in found.values())
        kept = all(one.plan.limit_violation <= 1e-9 for one in found.values())
        metrics[f"{name} reached"] = Metric(value=bool(worst <= CLOSE and kept))
        plots += [
            replace(plot, title=f"{figure}: {plot.title}") for plot in drawn(name, task, found)
        ]
    return written(
        folder,
        "001",
        SHOWS,
        Found(metrics=metrics, notes=NOTES),
        quick=quick,
        began=began,
        plots=plots,
    )


def drawn(name: str, task: ReachTask, found: Mapping[str, Reached]) -> Sequence[Plot]:
    """What the paper's figure shows: all axes of the Diamond, the plane of the spiral, else
    controls, place and speed along one axis."""
    last = list(found.values())[-1]
    first = next(iter(task.paths))
    if name == "diamond-two-goals":
        return [
            plot(task, found, first, axis) for plot in (place_plot, speed_plot) for axis in "xyz"
        ]
    if name == "liandford-spiral":
        wanted = np.array([task.paths[first](task.dt * k) for k in range(task.steps + 1)])
        curves = {"wanted": wanted, **{way: one.places[first] for way, one in found.items()}}
        return [
            Plot(
                title="the spiral",
                x="x [m]",
                y="z [m]",
                series={way: (p[:, 0], p[:, 2]) for way, p in curves.items()},
            )
        ]
    one_axis = [
        plot(task, found, effector, "x")
        for effector in task.paths
        for plot in (place_plot, speed_plot)
    ]
    return [*bounded_controls(task, last), *one_axis]
