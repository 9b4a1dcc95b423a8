"""stiffening-arm: two cables stretch a bar of four materials to a goal, planned with the three
derivatives of [Menager2024], whose authors leave highly non-linear materials for future work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pliant.actuators import AddedElasticity, Cable
from pliant.core import Array
from pliant.dynamics import SemiImplicit
from pliant.dynamics.equations import Equations
from pliant.geometry import Rectangle
from pliant.materials import Material
from pliant.planners import Options
from pliant.problem import paths
from pliant.report import Plot
from pliant.report.robot_scene import robot_scene
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.condensed_experiments import check_derivatives, plan_metrics
from pliant.zoo.condensed_tasks import (
    GOAL_TOLERANCE,
    ReachResult,
    ReachTask,
    Weights,
    equilibrium_positions,
    plan_reach,
)
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

LENGTH, SIDE, YOUNG = 0.1, 0.03, 5e4  # [m], [m], [Pa]
PULLEYS = np.array([[0.25, 0.115], [0.25, -0.085]])  # [m]


class BarMaterial(NamedTuple):
    """A material, and the tensions [N] whose equilibrium is the goal."""

    law: str
    stiffening: float  # [-] modulus of the stiffening term over Young's modulus
    tensions: tuple[float, float]


# The tensions stretch the bar by a third to two thirds
MATERIALS = {
    "linear-corotated": BarMaterial("linear-corotated", 0.0, (20.0, 15.0)),
    "neo-hookean": BarMaterial("neo-hookean", 0.0, (15.0, 11.0)),
    "stiffening": BarMaterial("neo-hookean", 1.0, (60.0, 45.0)),
    "strongly stiffening": BarMaterial("neo-hookean", 10.0, (120.0, 90.0)),
}


@dataclass(frozen=True, kw_only=True)
class StiffeningLaw:
    """The energy k i^2 / 2 with i = tr(F^T F) - dim - 2 log det F. i grows with the square of the
    strain, so the term has no stiffness at rest."""

    k: float  # [Pa]

    def _strain(self, F: Array) -> tuple[Array, Array, Array]:
        """Return i (n,), F^-T and di/dF (n, dim, dim)."""
        C = np.swapaxes(np.linalg.inv(F), 1, 2)
        i = np.einsum("nij,nij->n", F, F) - F.shape[1] - 2.0 * np.log(np.linalg.det(F))
        return i, C, 2.0 * (F - C)

    def energy(self, F: Array) -> Array:
        return 0.5 * self.k * self._strain(F)[0] ** 2

    def stress(self, F: Array) -> Array:
        i, _, slope = self._strain(F)
        return self.k * i[:, None, None] * slope

    def tangent(self, F: Array) -> Array:
        i, C, slope = self._strain(F)
        unit = np.eye(F.shape[1])
        curvature = np.einsum("ij,mk->imjk", unit, unit) + np.einsum("nik,njm->nimjk", C, C)
        products = np.einsum("nim,njk->nimjk", slope, slope)
        return self.k * (products + 2.0 * i[:, None, None, None, None] * curvature)


def bar(material: BarMaterial, cells: int) -> Robot:
    """Return a bar of a material with `cells` cells along it, and a cable at each end corner."""
    limits = (0.0, 3.0 * material.tensions[0])
    ends = zip(("upper", "lower"), (SIDE, 0.0), PULLEYS, strict=True)
    cables = {
        name: Cable(points=[(LENGTH, height)], guide=tuple(pulley), limits=limits)
        for name, height, pulley in ends
    }
    law = StiffeningLaw(k=material.stiffening * YOUNG)
    added = {"stiffening": AddedElasticity(law=law)} if material.stiffening > 0.0 else {}
    return Robot(
        name="stiffening_arm",
        shape=Rectangle(size=(LENGTH, SIDE)),
        divisions=(cells, max(2, cells // 3)),
        order=1,
        thickness=SIDE,
        material=Material(E=YOUNG, nu=0.4, law=material.law),
        supports=[Support(region="x-")],
        effectors={"tip": Effector(point=(LENGTH, 0.5 * SIDE))},
        actuators={**cables, **added},
        damping=Damping(mass=5.0, stiffness=0.01),
        gravity=(0.0, -9.81),
    )


def make_task(material: BarMaterial, s: Mapping[str, Setting]) -> ReachTask:
    """Return the task: stretch the bar to the equilibrium of the material's tensions."""
    robot, dt, steps = bar(material, int(s["cells"])), float(s["dt"]), int(s["steps"])
    start, goal = (
        robot.effector_position("tip", equilibrium_positions(robot, np.array(u)))
        for u in ((0.0, 0.0), material.tensions)
    )
    end = dt * steps
    path = paths.minimum_jerk([0.0, end], np.array([start, goal]), pause=0.3 * end)
    return ReachTask(
        robot=robot,
        dt=dt,
        steps=steps,
        paths={"tip": path},
        times=[end],
        weights=Weights(goal=100.0, effort=1e-5),
    )


def relative_stiffness(robot: Robot, tensions: Array) -> float:
    """Return the axial stiffness in equilibrium with some tensions, over E A / L."""
    equations, axial = Equations(robot=robot), []
    for u in (0.98 * tensions, 1.02 * tensions):
        q = equilibrium_positions(robot, u)
        force = -(equations.control_jacobian(q, u) @ u).reshape(-1, 2)[:, 0].sum()
        axial.append((force, robot.effector_position("tip", q)[0]))
    (low, start), (high, end) = axial
    return float((high - low) / (end - start) * LENGTH / (YOUNG * SIDE**2))


def perform(run: ExperimentRun) -> Outcome:
    """Plan for each material with each derivative."""
    metrics: dict[str, Metric] = {}
    plots, notes, missed = [], [], []
    for name, material in MATERIALS.items():
        task = make_task(material, run.settings)
        goal = task.paths["tip"](task.duration)
        stiffness = relative_stiffness(task.robot, np.array(material.tensions))
        metrics[f"{name}: stretch at the goal"] = Metric(value=float(goal[0] / LENGTH))
        metrics[f"{name}: stiffness at the goal"] = Metric(value=stiffness, unit="of that at rest")
        results: dict[str, ReachResult] = {}
        for derivative in str(run.settings["derivatives"]).split():
            options = Options(
                iterations=int(run.settings["iterations"]),
                progress=run.progress,
                folder=run.folder / f"plan-{name.replace(' ', '-')}-{derivative}",
                resume=run.resume,
            )
            result = results[derivative] = plan_reach(task, derivative, options=options)
            found = plan_metrics(task, derivative, result)
            found[f"{derivative}: objective"] = Metric(value=result.plan.history[-1].cost)
            metrics |= {f"{name}, {key}": metric for key, metric in found.items()}
            notes.append(f"{name}, {derivative}: {result.plan.status.text}")
            if result.largest_goal_error > GOAL_TOLERANCE:
                missed.append((name, derivative))
        plots.append(_convergence(name, results))
    last = list(results.values())[-1]
    path = run.save_trajectory(last.plan.states, last.plan.controls, dt=task.dt)
    metrics["plans that reach the goal"] = Metric(value=len(notes) - len(missed))
    # that the linear derivative misses goals is what the experiment shows
    failed = [f"{name}, {derivative}" for name, derivative in missed if derivative != "linear"]
    n = task.robot.body().rest.size
    return Outcome(
        metrics=metrics,
        plots=plots,
        notes=notes,
        reached=not failed,
        message="done" if not failed else f"no goal: {'; '.join(failed)}. Allow more iterations.",
        scene=robot_scene(
            task.robot,
            path.path[:, :n],
            dt=task.dt,
            title=f"{run.identity}: {name}, {derivative} derivative",
            targets=goal[None],
            marked=("tip",),
        ),
    )


def _convergence(name: str, results: Mapping[str, ReachResult]) -> Plot:
    costs = {key: [row.cost for row in result.plan.history] for key, result in results.items()}
    return Plot(
        title=f"Convergence, {name}",
        x="iteration",
        y="objective",
        log_y=True,
        series={key: (np.arange(len(cost)), np.array(cost)) for key, cost in costs.items()},
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the strongly stiffening bar after three steps with a tenth of the goal's tensions."""
    material = MATERIALS["strongly stiffening"]
    model = SemiImplicit(bar(material, int(settings["cells"])), dt=float(settings["dt"]))
    x, u = model.initial_state(), 0.1 * np.array(material.tensions)
    for k in range(3):
        x = model.step(x, u, None, k).x
    return model, x, u


EXPERIMENT = Experiment(
    name="stiffening-arm",
    paper="001",
    shows="plans for materials that stiffen up to 27 times: the linear derivative misses their "
    "goals, the others do not",
    size="44 nodes, 2 cables, 40 steps, 4 materials, 3 derivatives",
    takes="1 min",
    perform=perform,
    probe=probe,
    check_settings=check_derivatives,
    settings={
        "derivatives": "linear nonlinear exact",
        "iterations": 300,
        "dt": 0.01,
        "steps": 40,
        "cells": 10,
        "small_animation": False,
    },
    quick={"iterations": 25, "steps": 20, "cells": 6, "small_animation": True},
)
