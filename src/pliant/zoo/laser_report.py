"""The outcome of a laser task: metrics, plots and the scene of the animation."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pliant.report import DrawnScene, Line, Plot, palette
from pliant.report.robot_scene import robot_scene
from pliant.zoo.clearance import rings
from pliant.zoo.experiment import Metric, Outcome
from pliant.zoo.laser import LaserPlan
from pliant.zoo.refinement_report import (
    PaperValues,
    convergence_plot,
    evaluation_plot,
    grid_plot,
    refinement_metrics,
)

QUERIES = "shape queries"


def outcome(
    planned: LaserPlan,
    *,
    title: str,
    metrics: Mapping[str, Metric],
    reached: bool,
    message: str,
    paper: PaperValues | None = None,
) -> Outcome:
    """Return the outcome of a laser experiment: the given metrics, then those of the surrogate
    beside the metrics of the paper."""
    paper = paper or {}
    unknowns = Metric(value=planned.positions.shape[1], paper=paper.get("unknowns"))
    return Outcome(
        metrics={
            **metrics,
            **refinement_metrics(planned.refined, paper, QUERIES),
            "unknowns of the full model": unknowns,
        },
        plots=plots(planned),
        scene=scene(planned, title),
        reached=reached,
        message=message,
        notes=tuple(planned.refined.certificate.lines()),
    )


def plots(planned: LaserPlan) -> list[Plot]:
    """Return plots of evaluations, convergence, the grid, tensions and beam spot."""
    names = list(planned.task.robot.actuators)
    grid = grid_plot(
        planned.refined,
        "Fig. 3: the grid" if len(names) == 2 else f"Fig. 3: the grid, 2 of {len(names)} axes",
        [f"latent tension, {name} [N]" for name in names],
    )
    return [
        evaluation_plot(planned.refined, "Fig. 5 (a): exact evaluations"),
        convergence_plot(planned.refined, "N"),
        *([] if grid is None else [grid]),
        _tension_plot(planned),
        _spot_plot(planned),
    ]


def _tension_plot(planned: LaserPlan) -> Plot:
    names, controls = planned.task.robot.actuators, planned.refined.plan.controls
    times = planned.task.dt * np.arange(1, planned.task.steps + 1)
    return Plot(
        title="Cable tensions",
        x="time [s]",
        y="tension [N]",
        kind="steps",
        series={name: (times, u) for name, u in zip(names, controls.T, strict=True)},
    )


def _spot_plot(planned: LaserPlan) -> Plot:
    """Return the path of the beam spot on the plate, in 2D over time."""
    task, title = planned.task, "Beam spot on the plate"
    curves = {"planned": planned.spots, "replayed": planned.replayed_spots}
    if planned.spots.shape[1] == 1:
        times = task.dt * np.arange(task.steps + 1)
        series = {name: (times, spots[:, 0]) for name, spots in curves.items()}
        return Plot(title=title, x="time [s]", y="x [m]", series=series)
    curves |= {"target": task.target_curve[:, :2]} if len(task.target_curve) > 1 else {}
    on_plate = task.spheres[task.spheres[:, 2] == task.plate_height]
    circles = rings(on_plate)[::3]  # the horizontal great circles
    curves |= {f"obstacle {k + 1}": circle[:, :2] for k, circle in enumerate(circles)}
    return Plot(
        title=title,
        x="x [m]",
        y="y [m]",
        equal=True,
        series={name: (xy[:, 0], xy[:, 1]) for name, xy in curves.items()},
    )


def scene(planned: LaserPlan, title: str) -> DrawnScene:
    """Return the scene of the arm, its beam, and the trace of the spot."""
    task, dim = planned.task, planned.spots.shape[1] + 1
    arm = robot_scene(task.robot, planned.positions, dt=task.dt, title=title, ground=0.0, marked=())
    beams = planned.beams(replayed=True)
    beam = Line(points=beams, colour=palette.MARKER)
    curves = [Line(points=curve, colour=palette.SECONDARY) for curve in rings(task.spheres)]
    curves += (
        [Line(points=task.target_curve, colour=palette.TARGET, dashed=True)]
        if len(task.target_curve) > 1
        else []
    )
    return replace(
        arm,
        lines=(*arm.lines, beam, *curves),
        markers=beams[:, 1:],
        targets=task.target_curve[:: max(1, len(task.target_curve) - 1)][:, :dim],
    )
