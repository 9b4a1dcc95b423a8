"""`pliant bench fem`: assembly, factorisation, steps and a vjp of the soft arm beside Drake and
scikit-fem, in one run.

Run as a module in a child process, so that every library is held to one thread before it is
imported.
"""

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from pliant import linalg
from pliant.bench.peers.drake import step_with_drake
from pliant.bench.peers.fem_case import Case, PeerRun
from pliant.bench.peers.skfem import step_with_skfem
from pliant.core import Array, MissingExtra, Step
from pliant.dynamics import ImplicitEuler, SemiImplicit
from pliant.geometry import Box, Mesh
from pliant.materials import Material
from pliant.robot import Robot, Support
from pliant.zoo.timing import timed

LATTICES = ((4, 4, 20), (8, 8, 20), (10, 10, 45))  # 525, 1,701 and 5,566 vertices
YOUNG, POISSON, DENSITY, DT = 1e5, 0.4, 1000.0, 0.01


def measure(lattice: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """Milliseconds of every part for one lattice, ours and the peers', and how far the results lie
    apart."""
    mesh = Box(size=(0.04, 0.04, 0.2)).mesh(divisions=lattice)
    numbers: dict[str, Any] = {"vertices": mesh.n_points, "cells": mesh.n_cells}
    numbers["ours"], places, linear_places = _ours(mesh, steps)
    case = Case(
        points=mesh.points,
        cells=mesh.cells,
        clamped=mesh.points[:, 2] == 0.0,
        young=YOUNG,
        poisson=POISSON,
        density=DENSITY,
        gravity=np.array([-9.81, 0.0, 0.0]),
        dt=DT,
    )
    for key, step, law in (
        ("drake corotated", step_with_drake, "corotated"),
        ("drake linear", step_with_drake, "linear"),
        ("scikit-fem corotated", step_with_skfem, "corotated"),
    ):
        try:
            numbers[key] = _peer(
                step(case, steps=steps, law=law), linear_places if law == "linear" else places, mesh
            )
        except MissingExtra as error:
            numbers[key] = {"missing": str(error)}
    return numbers


def _arm(mesh: Mesh, law: str) -> Robot:
    return Robot(
        shape=mesh,
        order=1,
        material=Material(E=YOUNG, nu=POISSON, density=DENSITY, law=law),
        supports=[Support(region="z-")],
        gravity=np.array([-9.81, 0.0, 0.0]),
    )


def _ours(mesh: Mesh, steps: int) -> tuple[dict[str, Any], Array, Array]:
    """Milliseconds of our parts, and the places of the nodes after the implicit and the
    semi-implicit run."""
    model, linear = (
        ImplicitEuler(_arm(mesh, "fixed-corotated"), dt=DT),
        SemiImplicit(_arm(mesh, "linear-corotated"), dt=DT),
    )
    eq, u = model.equations, np.zeros(0)
    coefficients = eq.coefficients(None)
    q = model.space.position(model.step(model.initial_state(), u).x).copy()
    tangent = lambda: eq.tangent.values(
        eq.body.stiffness(q, coefficients.fields), coefficients.pair_mass / DT**2, []
    )
    values = tangent()
    out: dict[str, Any] = {
        "solver": eq.tangent.analysis.name,
        "tangent": timed(tangent),
        "factor": timed(lambda: eq.tangent.analysis.factor(values)),
    }
    out["factors"] = {
        solver: _factor(linalg.analyse(eq.tangent.analysis.pattern, solver), values)
        for solver in linalg.available_solvers()
    }
    out["forces"] = timed(lambda: eq.body.energy(q, coefficients.fields))
    out["assembly"] = out["tangent"] + out["forces"]
    out["implicit step"], end, out["newton iterations"] = _march(model, steps)
    out["factorisations"], out["evaluations"] = _counts(model, steps)
    out["vjp"] = timed(lambda: model.pullback(end, np.ones_like(end.x)))
    out["semi-implicit step"], linear_end, _ = _march(linear, steps)
    return (
        out,
        model.space.position(end.x).reshape(-1, 3),
        linear.space.position(linear_end.x).reshape(-1, 3),
    )


def _factor(analysis: linalg.Analysis, values: Array) -> dict[str, float]:
    """Milliseconds of a factor, and of its solve for one right side and for five."""
    solve, sides = analysis.factor(values), np.ones((analysis.pattern.n, 5))
    assert solve is not None
    return {
        "factor": timed(lambda: analysis.factor(values)),
        "one side": timed(lambda: solve(sides[:, 0])),
        "five sides": timed(lambda: solve(sides)),
    }


def _march(model: Any, steps: int) -> tuple[float, Step, float]:
    """(median ms a step, the last step, median Newton iterations) from rest, after one step to warm
    up."""
    u = np.zeros(0)
    model.step(model.initial_state(), u)
    x, seconds, count = model.initial_state(), [], []
    for k in range(steps):
        start = perf_counter()
        step = model.step(x, u, None, k)
        seconds.append(perf_counter() - start)
        count.append(step.status.iterations)
        x = step.x
    return 1e3 * median(seconds), step, median(count)


def _counts(model: Any, steps: int) -> tuple[float, float]:
    """(tangents, forces) assembled a step, counted in a run of their own."""
    calls = {"stiffness": 0, "energy": 0}
    body = model.equations.body

    def counted(name: str) -> Callable[..., Any]:
        inner = getattr(body, name)

        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return inner(*args, **options)

        return call

    for name in calls:
        object.__setattr__(body, name, counted(name))
    x = model.initial_state()
    for k in range(steps):
        x = model.step(x, np.zeros(0), None, k).x
    for name in calls:
        object.__delattr__(body, name)
    return calls["stiffness"] / steps, calls["energy"] / steps


def _peer(run: PeerRun, places: np.ndarray, mesh: Mesh) -> dict[str, float | None]:
    moved = float(np.abs(places - mesh.points).max())
    return {
        "step": 1e3 * median(run.seconds_per_step),
        "assembly": None if run.assembly is None else 1e3 * run.assembly,
        "factor": None if run.factor is None else 1e3 * run.factor,
        "difference": float(np.abs(run.positions - places).max()) / moved,
    }


if __name__ == "__main__":
    quick = sys.argv[1:] == ["quick"]
    print(
        json.dumps(
            [measure(lattice, 4 if quick else 8) for lattice in LATTICES[: 1 if quick else None]]
        )
    )
