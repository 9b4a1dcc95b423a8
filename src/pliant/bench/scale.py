"""`pliant bench scale`: growth of time and memory for a cube with 4,000 to 150,000 unknowns.

Each method and size runs in its own process, so that its peak memory can be measured.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from pliant import linalg
from pliant.bench.report import ONE_THREAD, Report
from pliant.core import Array
from pliant.dynamics import ImplicitEuler, Quasistatic, SemiImplicit
from pliant.geometry import Box
from pliant.materials import Material
from pliant.robot import Robot, Support

DIVISIONS = (10, 16, 24, 36)  # 3,993, 14,739, 46,875 and 151,959 unknowns
DT = 0.01  # [s]
TIME_LIMIT = 1200  # [s] of one process
MODELS: dict[str, Callable[[Robot], Any]] = {
    "implicit": lambda robot: ImplicitEuler(robot, dt=DT),
    "quasistatic": Quasistatic,
    "semi-implicit": lambda robot: SemiImplicit(robot, dt=DT),
}
CASES = (*MODELS, "factors")


def cube(divisions: int) -> Robot:
    """Return a cube of linear tetrahedra, clamped at its bottom and loaded sideways by gravity."""
    return Robot(
        shape=Box(size=(0.1, 0.1, 0.1)).mesh(divisions=(divisions,) * 3),
        order=1,
        material=Material(E=1e5, nu=0.4, density=1000.0),
        supports=[Support(region="z-")],
        gravity=np.array([-9.81, 0.0, 0.0]),
    )


def case(name: str, divisions: int) -> dict[str, Any]:
    """Return the times [s] and peak memory [MB] of one method, or of the sparse factors, at one
    size."""
    return _factors(divisions) if name == "factors" else _method(name, divisions)


def _method(name: str, divisions: int) -> dict[str, Any]:
    """Return {"seconds", "megabytes"} of each part; megabytes are the peak since the start."""
    _run(MODELS[name], 2, {}, 0.0)  # compiles
    parts: dict[str, dict[str, float]] = {}
    n, iterations = _run(MODELS[name], divisions, parts, _peak_megabytes())
    return {"unknowns": n, "iterations": iterations, "parts": parts}


def _run(
    make: Callable[[Robot], Any], divisions: int, parts: dict[str, Any], before: float
) -> tuple[int, int]:
    """Run set-up, step and vjp, and store the time and memory of each in `parts`. Return the
    numbers of unknowns and iterations."""

    def measure_part(part: str, work: Callable[[], Any]) -> Any:
        start = perf_counter()
        out = work()
        seconds = perf_counter() - start
        parts[part] = {"seconds": seconds, "megabytes": _peak_megabytes() - before}
        return out

    model = measure_part("set-up", lambda: _set_up(make, divisions))
    step = measure_part("step", lambda: model.step(model.initial_state(), np.zeros(0)))
    measure_part("vjp", lambda: model.pullback(step, np.ones_like(step.x)))
    return model.equations.n_dofs, step.status.iterations


def _set_up(make: Callable[[Robot], Any], divisions: int) -> Any:
    model = make(cube(divisions))
    _ = model.equations.tangent.analysis
    return model


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def _factors(divisions: int) -> dict[str, Any]:
    """Return the stored numbers and operations of the factor in both orderings, and the times [s]
    of the solvers."""
    eq = ImplicitEuler(cube(divisions), dt=DT).equations
    tangent, coefficients = eq.tangent, eq.coefficients(None)
    pattern, points = tangent.analysis.pattern, tangent.points
    assert points is not None  # a solid has no rotations
    blocks = eq.body.stiffness(eq.body.rest, coefficients.fields)
    values = tangent.values(blocks, coefficients.pair_mass / DT**2, [])
    fill = {
        name: {"numbers": float(height.sum()), "operations": float(np.sum(height**2.0))}
        for name, height in linalg.factor_column_counts(pattern, points).items()
    }
    seconds = {
        solver: _factor_seconds(linalg.analyse(pattern, solver, points), values)
        for solver in linalg.available_solvers()
    }
    return {"unknowns": eq.n_dofs, "fill": fill, "seconds": seconds}


def _factor_seconds(analysis: linalg.Analysis, values: Array) -> dict[str, float]:
    start = perf_counter()
    solve = analysis.factor(values)
    factorised = perf_counter()
    assert solve is not None
    solve(np.ones(analysis.pattern.n))
    return {"factor": factorised - start, "solve": perf_counter() - factorised}


def measure(quick: bool) -> list[dict[str, Any]]:
    """Measure every case in its own process, on one thread."""
    sizes = DIVISIONS[:2] if quick else DIVISIONS
    return [
        {"case": name, **_run_in_process(name, divisions)} for divisions in sizes for name in CASES
    ]


def _run_in_process(name: str, divisions: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "pliant.bench.scale", "case", name, str(divisions)]
    env = {**os.environ, **ONE_THREAD}
    try:
        child = subprocess.run(command, capture_output=True, text=True, env=env, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return {"divisions": divisions, "error": f"it exceeded the time limit of {TIME_LIMIT} s"}
    if child.returncode:
        lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
        return {"divisions": divisions, "error": lines[-1]}
    return {"divisions": divisions, **json.loads(child.stdout.strip().splitlines()[-1])}


def exponent(unknowns: list[int], amounts: list[float]) -> float:
    """Return the exponent with which an amount grows with the unknowns, by a logarithmic fit."""
    return float(np.polyfit(np.log(unknowns), np.log(amounts), 1)[0])


def report(rows: list[dict[str, Any]]) -> Report:
    notes = [
        f"{row['case']} at {row['divisions']}^3 cells failed: {row['error']}"
        for row in rows
        if "error" in row
    ]
    notes.append(
        "One step from rest, one thread, one run, one process per method and size. Memory: the "
        "peak since the start of the set-up, without the interpreter and the libraries. The vjp "
        "factorises the tangent at the end of the step."
    )
    found = [row for row in rows if "error" not in row]
    methods = [row for row in found if row["case"] in MODELS]
    tables = [
        _growth_table("Seconds", methods, "seconds", ".2f"),
        _growth_table("Peak memory [MB]", methods, "megabytes", ".0f"),
        _factor_table([row for row in found if row["case"] == "factors"]),
    ]
    return Report(tables=tables, notes=notes, numbers=rows)


def _growth_table(
    title: str, rows: list[dict[str, Any]], key: str, style: str
) -> tuple[str, list[str], list[list[str]]]:
    """Return a table with a row for each part of each method, a column for each size, and the
    growth exponent."""
    sizes, lines = sorted({row["unknowns"] for row in rows}), []
    for name in MODELS:
        method_rows = sorted(
            (row for row in rows if row["case"] == name), key=lambda r: r["unknowns"]
        )
        for part in method_rows[0]["parts"] if method_rows else ():
            at = {row["unknowns"]: row["parts"][part][key] for row in method_rows}
            cells = [format(at[n], style) if n in at else "-" for n in sizes]
            growth = f"{exponent(list(at), list(at.values())):.2f}" if len(at) > 1 else "-"
            lines.append([f"{name}, {part}", *cells, growth])
    return title, ["", *(f"{n:,} unknowns" for n in sizes), "exponent"], lines


def _factor_table(rows: list[dict[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    lines = []
    for row in rows:
        for order, fill in row["fill"].items():
            cells = [f"{fill['numbers'] / 1e6:.2f}", f"{fill['operations'] / 1e9:.2f}"]
            lines.append([f"{row['unknowns']:,}", order, *cells, "", ""])
        for solver, seconds in row["seconds"].items():
            cells = [f"{seconds['factor']:.2f}", f"{seconds['solve']:.3f}"]
            lines.append([f"{row['unknowns']:,}", solver, "", "", *cells])
    columns = [
        "ordering or solver",
        "numbers [10^6]",
        "operations [10^9]",
        "factor [s]",
        "solve [s]",
    ]
    return "Sparse factors", ["unknowns", *columns], lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(sys.argv[2], int(sys.argv[3]))))
    else:
        print(json.dumps(measure(sys.argv[1:] == ["quick"])))
