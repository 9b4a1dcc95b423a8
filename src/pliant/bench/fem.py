"""`pliant bench fem`: times of assembly, factorisation, steps and a vjp of a soft arm, compared
with Drake and scikit-fem in one run.

The module runs in its own process, so that every library is limited to one thread before its
import.
"""

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from pliant import linalg
from pliant.bench.peers.bare_tangent import bare_tangent, pair_places
from pliant.bench.peers.drake import step_with_drake
from pliant.bench.peers.fem_case import Case, PeerRun
from pliant.bench.peers.skfem import step_with_skfem
from pliant.bodies import MaterialFields
from pliant.core import Array, MissingExtra, Step
from pliant.dynamics import ImplicitEuler, SemiImplicit
from pliant.geometry import Box, Mesh
from pliant.materials import Material
from pliant.robot import Robot, Support
from pliant.zoo.timing import timed

LATTICES = ((4, 4, 20), (8, 8, 20), (10, 10, 45))  # 525, 1,701 and 5,566 vertices
YOUNG, POISSON, DENSITY, DT = 1e5, 0.4, 1000.0, 0.01


def measure(lattice: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """Return the times [ms] of all parts for one lattice, for Pliant and the other libraries, and
    the differences of the results."""
    mesh = Box(size=(0.04, 0.04, 0.2)).mesh(divisions=lattice)
    numbers: dict[str, Any] = {"vertices": mesh.n_points, "cells": mesh.n_cells}
    numbers["ours"], positions, linear_positions = _pliant_times(mesh, steps)
    numbers["bare loop"] = numbers["ours"].pop("bare loop")
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
            expected = linear_positions if law == "linear" else positions
            numbers[key] = _peer_times(step(case, steps=steps, law=law), expected, mesh)
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


def _pliant_times(mesh: Mesh, steps: int) -> tuple[dict[str, Any], Array, Array]:
    """Return the times [ms] of our parts, and the node positions (n, 3) [m] after the implicit and
    the semi-implicit run."""
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
    out["bare loop"] = _bare_loop(eq.body, q, coefficients.fields)
    out["factors"] = {
        solver: _factor_times(linalg.analyse(eq.tangent.analysis.pattern, solver), values)
        for solver in linalg.available_solvers()
    }
    out["forces"] = timed(lambda: eq.body.energy(q, coefficients.fields))
    out["assembly"] = out["tangent"] + out["forces"]
    out["implicit step"], end, out["newton iterations"] = _time_steps(model, steps)
    out["factorisations"], out["evaluations"] = _count_assemblies(model, steps)
    out["vjp"] = timed(lambda: model.pullback(end, np.ones_like(end.x)))
    out["semi-implicit step"], linear_end, _ = _time_steps(linear, steps)
    return (
        out,
        model.space.position(end.x).reshape(-1, 3),
        linear.space.position(linear_end.x).reshape(-1, 3),
    )


def _bare_loop(body: Any, q: Array, fields: MaterialFields) -> dict[str, float]:
    """Return the time [ms] of the tangent in a plain loop, and the relative difference of its
    blocks."""
    places, ours = pair_places(body), body.stiffness(q, fields)
    loop = lambda: bare_tangent(body, places, q, fields.moduli)
    return {
        "tangent": timed(loop),
        "difference": float(np.abs(loop() - ours).max() / np.abs(ours).max()),
    }


def _factor_times(analysis: linalg.Analysis, values: Array) -> dict[str, float]:
    """Return the times [ms] of a factorisation, and of solves for one and for five right-hand
    sides."""
    solve, sides = analysis.factor(values), np.ones((analysis.pattern.n, 5))
    assert solve is not None
    return {
        "factor": timed(lambda: analysis.factor(values)),
        "one right-hand side": timed(lambda: solve(sides[:, 0])),
        "five right-hand sides": timed(lambda: solve(sides)),
    }


def _time_steps(model: Any, steps: int) -> tuple[float, Step, float]:
    """Return the median time [ms] of a step, the last step and the median number of Newton
    iterations, from rest after one step to warm up."""
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


def _count_assemblies(model: Any, steps: int) -> tuple[float, float]:
    """Return the mean numbers of assembled tangents and forces per step, counted in a separate
    run."""
    calls = {"stiffness": 0, "energy": 0}
    body = model.equations.body

    def counting(name: str) -> Callable[..., Any]:
        inner = getattr(body, name)

        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return inner(*args, **options)

        return call

    for name in calls:
        object.__setattr__(body, name, counting(name))
    x = model.initial_state()
    for k in range(steps):
        x = model.step(x, np.zeros(0), None, k).x
    for name in calls:
        object.__delattr__(body, name)
    return calls["stiffness"] / steps, calls["energy"] / steps


def _peer_times(run: PeerRun, expected: np.ndarray, mesh: Mesh) -> dict[str, float | None]:
    largest_displacement = float(np.abs(expected - mesh.points).max())
    return {
        "step": 1e3 * median(run.seconds_per_step),
        "assembly": None if run.assembly is None else 1e3 * run.assembly,
        "factor": None if run.factor is None else 1e3 * run.factor,
        "difference": float(np.abs(run.positions - expected).max()) / largest_displacement,
    }


if __name__ == "__main__":
    quick = sys.argv[1:] == ["quick"]
    print(
        json.dumps(
            [measure(lattice, 4 if quick else 8) for lattice in LATTICES[: 1 if quick else None]]
        )
    )
