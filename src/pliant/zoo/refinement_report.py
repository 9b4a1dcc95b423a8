"""Metrics and plots of a refined plan, for any model on a surrogate."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.planners import RefinedPlan
from pliant.report import Plot
from pliant.surrogate import Grid
from pliant.zoo.experiment import Metric

STATE, POSITIONS = "of positions and velocities", "of the positions"
PaperValues = Mapping[str, float | str]  # see `refinement_metrics`


def optional_metric(
    name: str, value: float | None, unit: str = "-", paper: float | str | None = None
) -> dict[str, Metric]:
    """Return a metric by its name, or nothing if its value is None."""
    return {} if value is None else {name: Metric(value=value, unit=unit, paper=paper)}


def count_metrics(
    refined: RefinedPlan, paper: PaperValues, queries: str = "map queries"
) -> dict[str, Metric]:
    """Return the number of exact evaluations and how many a surrogate saves, by two counts.

    [Jia2019] counts one evaluation per simulated step. A step may need several values of the map;
    `queries` names them. `paper` has the values of "evaluations", "steps" and "reduction".
    """
    evaluations = refined.evaluations
    return {
        "exact evaluations": Metric(value=evaluations, paper=paper.get("evaluations")),
        "simulated steps": Metric(value=refined.simulated_steps, paper=paper.get("steps")),
        "reduction factor of simulated steps": Metric(
            value=refined.simulated_steps / evaluations, paper=paper.get("reduction")
        ),
        queries: Metric(value=refined.queries),
        f"reduction factor of {queries}": Metric(value=refined.queries / evaluations),
    }


def error_metrics(refined: RefinedPlan, paper: PaperValues) -> dict[str, Metric]:
    """Return the errors of the certificate. `paper` has the value of "error"."""
    c = refined.certificate
    return {
        **optional_metric("step error", c.step_error, STATE, paper.get("error")),
        **optional_metric("estimated step error", c.estimated_step_error, STATE),
        **optional_metric("position error of a step", c.position_error, POSITIONS),
        **optional_metric(
            "step error relative to its increment", c.increment_error, "of the increment"
        ),
    }


def refinement_metrics(
    refined: RefinedPlan, paper: PaperValues, queries: str = "map queries"
) -> dict[str, Metric]:
    """Return counts, errors, costs and times of a refined plan. `paper` also has the value of
    "levels"."""
    c = refined.certificate
    return {
        **count_metrics(refined, paper, queries),
        **error_metrics(refined, paper),
        **optional_metric("holdout error", c.holdout_error, "of the exact map"),
        **optional_metric("observed convergence order", c.observed_order),
        **optional_metric("Richardson error estimate", c.richardson_error, "of the exact map"),
        "objective": Metric(value=c.cost),
        **optional_metric("replay cost of the full model", c.replay_cost),
        "refinement levels": Metric(value=len(refined.levels), paper=paper.get("levels")),
        "iterations": Metric(value=refined.iterations),
        "planning time": Metric(value=refined.seconds, unit="s"),
    }


def evaluation_plot(refined: RefinedPlan, title: str) -> Plot:
    """Return a plot of the evaluations over the iterations, with and without a surrogate
    [Jia2019, Fig. 5]."""
    rows = [row for level in refined.levels for row in level.result.notes["queries"]]
    queries, steps, before = [], [], 0
    for level in refined.levels:
        queries += [before + count for _, count in level.result.notes["queries"]]
        before = queries[-1]
        steps += [len(level.result.controls)] * len(level.result.notes["queries"])
    count = np.arange(len(rows))
    return Plot(
        title=title,
        x="iteration",
        y="cumulative evaluations",
        log_y=True,
        kind="both",
        series={
            "with the grid": (count, np.array([evaluations for evaluations, _ in rows])),
            "without, one per step": (count, np.cumsum(steps)),
            "without, all queries": (count, np.array(queries)),
        },
    )


def convergence_plot(refined: RefinedPlan, unit: str) -> Plot:
    """Return a plot of the objective of each level. `unit` is that of the cells."""
    costs = {
        f"cell {level.cell:g} {unit}": (
            np.arange(len(level.result.history)),
            np.array([row.cost for row in level.result.history]),
        )
        for level in refined.levels
    }
    return Plot(
        title="Convergence",
        x="iteration",
        y="objective",
        kind="both",
        series=costs,
        log_y=all(y.min() > 0.0 for _, y in costs.values()),
    )


def grid_plot(
    refined: RefinedPlan, title: str, labels: Sequence[str], axes: tuple[int, int] = (0, 1)
) -> Plot | None:
    """Return a plot of the grid cells that the levels used, the new corners of each level and the
    path of the plan [Jia2019, Fig. 3]. None if a surrogate is not a grid of two or more axes.

    `labels` name the inputs of the exact map with their units. Of more than two inputs, the plot is
    a projection on `axes`.
    """
    grids = [level.model.surrogate for level in refined.levels]
    if not all(isinstance(grid, Grid) and grid.dim >= 2 for grid in grids):
        return None
    model, plane = refined.levels[-1].model, list(axes)
    path = np.array([model.query_point(x)[plane] for x in refined.plan.states])
    series = {"cells": _cell_edges(grids, plane), "planned path": (path[:, 0], path[:, 1])}
    points: dict[str, tuple[Array, Array]] = {}
    shown: set[tuple[float, ...]] = set()
    for level, grid in zip(refined.levels, grids, strict=True):
        # a projected corner is shown at its coarsest level
        new = {tuple(np.round(s.point[plane], 9)) for s in grid.new_samples()} - shown
        shown |= new
        if new:
            xy = np.array(sorted(new))
            points[f"corners, cell {level.cell:g}"] = (xy[:, 0], xy[:, 1])
    return Plot(
        title=title,
        x=labels[axes[0]],
        y=labels[axes[1]],
        equal=True,
        series=series | points,
        markers=tuple(points),
        thin=("cells",),
    )


def _cell_edges(grids: Sequence[Any], plane: list[int]) -> tuple[Array, Array]:
    """Return the outlines of all used cells, projected on two axes, as one line with gaps."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [np.nan] * 2])
    boxes = [
        box
        for grid in grids
        for box in np.unique(grid.visited_cells()[:, plane], axis=0)[:, None]
        + square * grid.size[plane]
    ]
    edges = np.concatenate(boxes)
    return edges[:, 0], edges[:, 1]
