"""cantilever: large deflection of a slender beam, compared with the elastica."""

from collections.abc import Mapping

import numpy as np
from scipy.integrate import solve_bvp

from pliant.core import Array
from pliant.dynamics import Quasistatic, equilibrium
from pliant.geometry import Box
from pliant.materials import Material
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.robot import Effector, Robot, Support, SurfaceLoad
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

LENGTH, SIDE, YOUNG = 0.2, 0.01, 1e6  # [m], [m], [Pa]


def elastica(load: float) -> Array:
    """Return the tip position (along, down) over the length of an inextensible rod.

    The dead tip load is P L^2 / (E I) = load.
    """
    s = np.linspace(0.0, 1.0, 101)
    solution = solve_bvp(
        lambda s, y: np.stack([y[1], -load * np.cos(y[0])]),
        lambda a, b: np.array([a[0], b[1]]),
        s,
        np.stack([0.5 * load * s, np.full_like(s, 0.5 * load)]),
        tol=1e-8,
    )
    angle = solution.sol(s)[0]
    return np.trapezoid(np.stack([np.cos(angle), np.sin(angle)]), s, axis=1)


def beam(load: float, cells: int, order: int) -> Robot:
    """Return a square cantilever along x with the downward end load P L^2 / (E I) = load."""
    force = load * YOUNG * SIDE**4 / 12.0 / LENGTH**2
    return Robot(
        name="cantilever",
        shape=Box(size=(LENGTH, SIDE, SIDE)),
        divisions=(cells, 1, 1),
        order=order,
        material=Material(E=YOUNG, nu=0.0),
        supports=[Support(region="x-")],
        loads=[SurfaceLoad(surface="x+", traction=np.array([0.0, 0.0, -force / SIDE**2]))],
        effectors={"tip": Effector(surface="x+")},
    )


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    cells, stages = int(s["cells"]), int(s["stages"])
    loads = float(s["load"]) * np.arange(1, stages + 1) / stages
    exact = np.array([elastica(load) for load in loads])
    curves, frames = {}, []
    for order in (1, 2):
        tips, x = [], None
        for k, load in enumerate(loads):
            robot = beam(load, cells, order)
            x = equilibrium(Quasistatic(robot), np.zeros(0), x0=x).x
            tips.append(robot.effector_position("tip", x))
            frames += [x] if order == 2 else []
            run.progress("bending", (order - 1) * stages + k + 1, 2 * stages)
        curves[order] = -(np.array(tips)[:, 2] - 0.5 * SIDE) / LENGTH
    error = {order: float(abs(curves[order][-1] / exact[-1, 1] - 1.0)) for order in (1, 2)}
    reached = error[2] <= 0.02
    return Outcome(
        metrics={
            "deflection error, 10-node": Metric(value=100.0 * error[2], unit="%"),
            "deflection error, 4-node": Metric(value=100.0 * error[1], unit="%"),
            "tip deflection": Metric(value=float(curves[2][-1]), unit="of the length"),
            "tip deflection, elastica": Metric(value=float(exact[-1, 1]), unit="of the length"),
        },
        plots=[
            Plot(
                title="Tip deflection",
                x="P L² / (E I)",
                y="deflection / length",
                kind="both",
                series={
                    "elastica": (loads, exact[:, 1]),
                    "10-node": (loads, curves[2]),
                    "4-node": (loads, curves[1]),
                },
            )
        ],
        scene=robot_scene(
            beam(loads[-1], cells, 2), np.array(frames), dt=None, title="cantilever, load in stages"
        ),
        reached=reached,
        message="done"
        if reached
        else f"the 10-node beam differs by {100 * error[2]:.1f} % from the elastica. "
        "Use more cells.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the 10-node beam at a third of the load."""
    model = Quasistatic(
        beam(float(settings["load"]) / 3.0, int(settings["cells"]), 2),
        design=("body.E", "cells.nu"),
    )
    return model, equilibrium(model, np.zeros(0)).x, np.zeros(0)


EXPERIMENT = Experiment(
    name="cantilever",
    shows="large deflection of a slender beam, 10-node and 4-node tetrahedra compared with the "
    "elastica",
    size="20 cubes, 2 element kinds",
    takes="20 s",
    perform=perform,
    probe=probe,
    settings={"load": 4.0, "stages": 12, "cells": 20, "small_animation": False},
    quick={"stages": 6, "cells": 10, "small_animation": True},
)
