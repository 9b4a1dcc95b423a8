"""`pliant bench fem`: assembly, factorisation, steps and a vjp of the soft arm beside Drake and scikit-fem, in one run.

Run as a module in a child process, so that every library is held to one thread before it is imported.
"""

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.drake_peer import step_with_drake
from pliant.bench.peer import Case, PeerRun
from pliant.bench.skfem_peer import step_with_skfem
from pliant.core import MissingExtra
from pliant.dynamics import ImplicitEuler, SemiImplicit
from pliant.geometry import Box, Mesh
from pliant.materials import Material
from pliant.robot import Robot, Support

LATTICES = ((4, 4, 20), (8, 8, 20), (10, 10, 45))  # 525, 1,701 and 5,566 vertices
YOUNG, POISSON, DENSITY, DT = 1e5, 0.4, 1000.0, 0.01


def measure(lattice: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """Milliseconds of every part for one lattice, ours and the peers', and how far the results lie apart."""
    mesh = Box(size=(0.04, 0.04, 0.2)).mesh(divisions=lattice)
    numbers: dict[str, Any] = {"vertices": mesh.n_points, "cells": mesh.n_cells}
    numbers["ours"], places = _ours(mesh, steps)
    case = Case(points=mesh.points, cells=mesh.cells, clamped=mesh.points[:, 2] == 0.0, young=YOUNG, poisson=POISSON, density=DENSITY,
                gravity=np.array([-9.81, 0.0, 0.0]), dt=DT)  # fmt: skip
    for key, step, law in (("drake corotated", step_with_drake, "corotated"), ("drake linear", step_with_drake, "linear"),
                           ("scikit-fem corotated", step_with_skfem, "corotated")):  # fmt: skip
        try:
            numbers[key] = _peer(step(case, steps=steps, law=law), places, mesh)
        except MissingExtra as error:
            numbers[key] = {"missing": str(error)}
    return numbers


def _arm(mesh: Mesh, law: str) -> Robot:
    return Robot(shape=mesh, order=1, material=Material(E=YOUNG, nu=POISSON, density=DENSITY, law=law), supports=[Support(region="z-")],
                 gravity=np.array([-9.81, 0.0, 0.0]))  # fmt: skip


def _ours(mesh: Mesh, steps: int) -> tuple[dict[str, Any], np.ndarray]:
    model, linear = ImplicitEuler(_arm(mesh, "fixed-corotated"), dt=DT), SemiImplicit(_arm(mesh, "linear-corotated"), dt=DT)
    eq, u = model.equations, np.zeros(0)
    numbers = eq.numbers(None)
    x = model.step(model.initial_state(), u).x
    q = model.space.position(x).copy()
    assemble = lambda: eq.values(numbers, eq.body.stiffness(q, numbers.fields), 1.0 / DT**2, [])  # noqa: E731
    values = assemble()
    out: dict[str, Any] = {"assembly": _time(assemble), "factor": _time(lambda: eq.analysis.factor(values)), "solver": eq.analysis.name}
    out["forces"] = _time(lambda: eq.body.gradient(q, numbers.fields))
    x, seconds, count = model.initial_state(), [], []
    for k in range(steps):
        start = perf_counter()
        step = model.step(x, u, None, k)
        seconds.append(perf_counter() - start)
        count.append(step.status.iterations)
        x = step.x
    out["implicit step"], out["newton iterations"] = 1e3 * median(seconds), median(count)
    out["vjp"] = _time(lambda: model.pullback(step, np.ones_like(x)))
    y = linear.step(linear.initial_state(), u).x
    out["semi-implicit step"] = _time(lambda: linear.step(y, u))
    return out, model.space.position(x).reshape(-1, 3)


def _time(work: Callable[[], Any], repeats: int = 7) -> float:
    """Median [ms] after one run to warm up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return 1e3 * median(seconds)


def _peer(run: PeerRun, places: np.ndarray, mesh: Mesh) -> dict[str, float | None]:
    moved = float(np.abs(places - mesh.points).max())
    return {"step": 1e3 * median(run.seconds_per_step), "assembly": None if run.assembly is None else 1e3 * run.assembly,
            "factor": None if run.factor is None else 1e3 * run.factor,
            "difference": float(np.abs(run.positions - places).max()) / moved}  # fmt: skip


if __name__ == "__main__":
    quick = sys.argv[1:] == ["quick"]
    print(json.dumps([measure(lattice, 4 if quick else 8) for lattice in LATTICES[: 1 if quick else None]]))
