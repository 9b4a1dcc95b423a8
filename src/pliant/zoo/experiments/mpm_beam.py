"""mpm-beam: static sag and oscillation of a clamped beam, material points compared with finite
elements."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.dynamics import BDF2, Quasistatic, equilibrium, simulate
from pliant.geometry import Rectangle
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

LENGTH, HEIGHT = 0.2, 0.04  # [m]


def beam(damping: float) -> Robot:
    """Return a planar beam clamped at its left end, in weak gravity."""
    return Robot(
        name="beam",
        shape=Rectangle(size=(LENGTH, HEIGHT)),
        divisions=(20, 4),
        material=Material(E=1e5, nu=0.3),
        gravity=(0.0, -1.0),
        supports=[Support(region="x-")],
        effectors={"tip": Effector(surface="x+")},
        damping=Damping(mass=damping),
    )


def sag(model: Any, states: Array) -> Array:
    """Return the displacement (k,) [m] of the tip along y."""
    row = model.effector_rows("tip")[1]
    return np.array(
        [(row @ (model.space.position(x) - model.space.position(states[0])))[0] for x in states]
    )


def period(times: Array, heights: Array) -> float:
    """Return the period [s] of an oscillation about its mean, from its upward crossings."""
    y = heights - heights.mean()
    up = np.flatnonzero((y[:-1] < 0.0) & (y[1:] >= 0.0))
    crossings = times[up] - y[up] * (times[up + 1] - times[up]) / (y[up + 1] - y[up])
    return float(np.diff(crossings).mean()) if len(crossings) > 1 else np.nan


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    cells, dt, steps = (
        [float(s["cell"]) * 2.0**k for k in reversed(range(int(s["levels"])))],
        0.01,
        int(s["steps"]),
    )
    robot, times = beam(float(s["damping"])), dt * np.arange(steps + 1)
    static = Quasistatic(robot)
    exact = sag(static, np.stack([static.initial_state(), equilibrium(static, np.zeros(0)).x]))[-1]
    errors, damped, undamped, scene = [], {}, {}, None
    for k, cell in enumerate(cells):
        run.progress("material points", k, len(cells) + 1)
        model = MaterialPoint(robot, dt=dt, cell=cell)
        path = (
            run.simulate(model, np.zeros((steps, 0)), count=steps, dt=dt).path
            if k == len(cells) - 1
            else _states(model, steps)
        )
        damped[f"cell {1e3 * cell:g} mm"] = (times, sag(model, path))
        errors.append(float(sag(model, path)[-1] / exact - 1.0))
        free = MaterialPoint(replace(robot, damping=Damping()), dt=dt, cell=cell)
        undamped[f"cell {1e3 * cell:g} mm"] = (times, sag(free, _states(free, steps)))
        scene = particle_scene(
            model, path, title=f"mpm-beam, cell {1e3 * cell:g} mm", colour="strain"
        )
    if s["vtk"]:
        write_vtk(run.folder / "vtk", model, path)
    finite_elements = BDF2(replace(robot, damping=Damping()), dt=dt / 4)
    run.progress("finite elements", len(cells), len(cells) + 1)
    undamped["finite elements"] = (
        times,
        sag(finite_elements, _states(finite_elements, 4 * steps))[::4],
    )
    periods = {name: period(*series) for name, series in undamped.items()}
    period_error = abs(periods[f"cell {1e3 * cells[-1]:g} mm"] / periods["finite elements"] - 1.0)
    reached = (
        abs(errors[-1]) <= 0.05
        and period_error <= 0.05
        and all(abs(b) < abs(a) for a, b in pairwise(errors))
    )
    return Outcome(
        metrics={
            "sag error": Metric(value=100.0 * errors[-1], unit="%"),
            "sag error, coarsest cell": Metric(value=100.0 * errors[0], unit="%"),
            "oscillation period": Metric(value=periods[f"cell {1e3 * cells[-1]:g} mm"], unit="s"),
            "oscillation period, finite elements": Metric(
                value=periods["finite elements"], unit="s"
            ),
            "sag, finite elements": Metric(value=float(exact), unit="m"),
        },
        plots=[
            Plot(
                title="Tip with damping",
                x="time [s]",
                y="tip displacement [m]",
                series={**damped, "finite elements, at rest": (times, np.full(len(times), exact))},
            ),
            Plot(
                title="Tip without damping", x="time [s]", y="tip displacement [m]", series=undamped
            ),
        ],
        scene=scene,
        reached=reached,
        message="done"
        if reached
        else f"the sag differs by {100 * errors[-1]:.1f} % and the period by "
        f"{100 * period_error:.1f} % from finite elements. Use smaller cells.",
    )


def _states(model: Any, steps: int) -> Array:
    return simulate(model, np.zeros((steps, 0))).states


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse beam while it sags."""
    model = MaterialPoint(
        beam(float(settings["damping"])), dt=0.01, cell=0.02, design=("body.E", "cells.nu")
    )
    return model, _states(model, 5)[-1], np.zeros(0)


EXPERIMENT = Experiment(
    name="mpm-beam",
    paper="004",
    shows="sag and oscillation of a clamped beam of material points, compared with finite "
    "elements at several cell sizes",
    size="80 to 1,280 particles",
    takes="20 s",
    perform=perform,
    probe=probe,
    settings={
        "cell": 0.005,
        "levels": 3,
        "steps": 120,
        "damping": 20.0,
        "vtk": False,
        "small_animation": False,
    },
    quick={"levels": 2, "small_animation": True},
)
