"""The report of a design: its variables, checks of the gradient, and its motion in the colours of a
field."""

from dataclasses import replace
from typing import Any

import numpy as np

from pliant.bodies import Solid
from pliant.core import Array, counted
from pliant.design import RobotDesign
from pliant.design.design_body import body_model, body_of
from pliant.mpm.particles import Particles
from pliant.report.model_plots import Motion, model_motion, motion_plots, motion_scene
from pliant.report.outcome import Metric, Outcome
from pliant.report.page import PageTable
from pliant.report.scene import DrawnScene

UNITS = {"E": "Pa", "nu": "-", "density": "kg/m^3"}


def design_outcome(design: RobotDesign, title: str) -> tuple[Outcome, Motion | None]:
    """Return the metrics, tables, plots and scene of a design, and the motion of its first scene;
    no motion if it cannot be simulated."""
    motion = None if design.result.best.failed else design_motion(design)
    scene = None if motion is None else motion_scene(motion, title=title)
    outcome = Outcome(
        metrics=_metrics(design),
        tables=(_variable_table(design), *_check_tables(design)),
        plots=[] if motion is None else motion_plots(motion),
        scene=None if scene is None else coloured_by_field(scene, design),
        reached=design.status.ok,
        message="done" if design.status.ok else design.status.text,
        notes=(design.result.summary(), *design.notes),
    )
    return outcome, motion


def design_motion(design: RobotDesign) -> Motion:
    """Return the motion of the first scene, without the state of a controller."""
    run = design.simulate()
    model = body_model(design.problem.scene_problems[0].model, design.params)
    outer: Any = run.model
    controls = run.controls
    if model.n_controls and not controls.size:  # a closed loop keeps them in its state
        controls = np.array([outer.space.split(x).controls for x in run.states[1:]])
    return model_motion(model, run.states[:, : model.space.size], controls)


def coloured_by_field(scene: DrawnScene, design: RobotDesign) -> DrawnScene:
    """Return a scene in the colours of the first field of a design, unchanged without fields."""
    if not design.fields:
        return scene
    name, values = next(iter(design.fields.items()))
    key = name.rpartition(".")[2]
    limits = (float(values.min()), float(values.max()))
    return replace(
        scene,
        values=np.tile(_at_vertices(body_of(design.problem.model), values), (len(scene.frames), 1)),
        value_label=f"{key} [{UNITS[key]}]",
        value_limits=limits if limits[0] < limits[1] else None,
    )


def _at_vertices(body: Solid | Particles, values: Array) -> Array:
    """Return the values of cells (n,) at the nodes of a mesh, as means weighted by volume;
    particles keep theirs."""
    if isinstance(body, Particles):
        return values
    nodes = body.cell_nodes
    weights = np.repeat(body.volumes(), nodes.shape[1])
    size = int(body.is_position.size)
    total = np.bincount(nodes.ravel(), weights * np.repeat(values, nodes.shape[1]), size)
    return np.asarray(total / np.bincount(nodes.ravel(), weights, size))


def _metrics(design: RobotDesign) -> dict[str, Metric]:
    result = design.result
    first = result.history[0].value
    budget = {} if design.budget is None else {"materials": Metric(value=len(design.budget.names))}
    return {
        "objective": Metric(value=design.value),
        **({"objective at the start": Metric(value=first)} if np.isfinite(first) else {}),
        "constraint violation": Metric(value=result.best.violation),
        "variables": Metric(value=len(result.z)),
        "iterations": Metric(value=result.status.iterations),
        "simulations": Metric(value=result.simulations),
        **budget,
    }


def _variable_table(design: RobotDesign) -> PageTable:
    rows = []
    z = design.result.z
    for block in design.problem.layout.blocks:
        values, start = block.physical(z), block.first
        rows.append((block.name, counted(values.size, "number"), _range(start), _range(values)))
    return PageTable(
        title="Variables", columns=("variable", "size", "start", "design"), rows=tuple(rows)
    )


def _range(values: Array) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _check_tables(design: RobotDesign) -> tuple[PageTable, ...]:
    if not design.checks:
        return ()
    columns = ("iteration", "norm", "step", "predicted", "simulated", "agreement", "in contact")
    rows = tuple(
        (
            one.iteration,
            one.norm,
            one.step,
            one.predicted,
            one.measured,
            round(one.agreement, 3),
            "-" if np.isnan(one.contact_share) else f"{100.0 * one.contact_share:.0f} %",
        )
        for one in design.checks
    )
    return (PageTable(title="Gradient checks", columns=columns, rows=rows),)
