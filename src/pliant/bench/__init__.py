"""Benchmarks. Each runs in its own process and compares Pliant with other libraries on the same
problem in the same run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from pliant.bench.report import ONE_THREAD, Report
from pliant.core import InputError, PliantError, nearest


def bench(name: str, *, quick: bool = False) -> Report:
    """Run a benchmark by name. Raises `InputError` for an unknown name, `PliantError` for a failed
    run."""
    if name not in REPORTS:
        raise InputError(f"There is no benchmark '{name}'; {nearest(name, REPORTS)}")
    child = subprocess.run(
        [sys.executable, "-m", f"pliant.bench.{name}", *(["quick"] if quick else [])],
        env={**os.environ, **ONE_THREAD, **THREADS.get(name, {})},
        capture_output=True,
        text=True,
    )
    if child.returncode:
        lines = child.stderr.strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
        raise PliantError(
            f"The benchmark failed ({lines[0]}). Run python -m pliant.bench.{name} to see "
            "its whole output."
        )
    return REPORTS[name](json.loads(child.stdout.strip().splitlines()[-1]))


def _planning_report(numbers: list[dict[str, Any]]) -> Report:
    from pliant.bench.planning import report

    return report(numbers)


def _condensed_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.condensed import report

    return report(numbers)


def _drive_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.drive import report

    return report(numbers)


def _surrogate_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.surrogate import report

    return report(numbers)


def _fluid_report(walls: list[dict[str, Any]]) -> Report:
    from pliant.bench.fluid import report

    return report(walls)


def _learning_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.learning import report

    return report(numbers)


def _mpm_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.mpm import report

    return report(numbers)


def _swimmer_report(numbers: dict[str, Any]) -> Report:
    from pliant.bench.swimmer import report

    return report(numbers)


def _scale_report(rows: list[dict[str, Any]]) -> Report:
    from pliant.bench.scale import report

    return report(rows)


def _fem_report(sizes: list[dict[str, Any]]) -> Report:
    ours = [
        [
            f"{n['vertices']:,}",
            *(f"{n['ours'][key]:.2f}" for key in PARTS),
            f"{n['ours']['newton iterations']:.0f}",
            f"{assembly_share(n):.0%}",
        ]
        for n in sizes
    ]
    columns = [
        "vertices",
        *(f"{key} [ms]" for key in PARTS),
        "Newton iterations",
        "assembly share of a step",
    ]
    peers, notes = [], []
    for n in sizes:
        for peer, part, our_part in PAIRS:
            theirs = n[peer]
            if "missing" in theirs:
                notes.append(theirs["missing"])
            elif theirs[part] is not None:
                ratio = theirs[part] / n["ours"][our_part]
                difference = f"{theirs['difference']:.1e}" if part in ("step", "tangent") else ""
                peers.append(
                    [
                        f"{n['vertices']:,}",
                        peer,
                        part,
                        f"{theirs[part]:.1f}",
                        f"{n['ours'][our_part]:.2f}",
                        f"{ratio:.1f}x",
                        difference,
                    ]
                )
    notes.append(
        "Medians, one thread each, one run. Difference: largest node distance over largest "
        "displacement. scikit-fem uses the same backward Euler steps. Drake uses Newmark (1/2, 1), "
        "a one-point mass and a Newton tolerance of 1e-2, so its result differs by O(dt). The bare "
        "loop computes the blocks of the corotated law only; ours also puts them into the factor's "
        "pattern and adds the mass."
    )
    factors = [
        [
            f"{n['vertices']:,}",
            solver,
            *(f"{ms:.2f}" for ms in parts.values()),
            "chosen" if solver == n["ours"]["solver"] else "",
        ]
        for n in sizes
        for solver, parts in n["ours"]["factors"].items()
    ]
    tables = [
        ("Pliant", columns, ours),
        (
            "Comparison with other libraries",
            [
                "vertices",
                "library",
                "work",
                "library [ms]",
                "Pliant [ms]",
                "speed-up",
                "difference",
            ],
            peers,
        ),
        (
            "Sparse factorisation",
            ["vertices", "solver", "factor [ms]", "1 solve [ms]", "5 solves at once [ms]", ""],
            factors,
        ),
    ]
    return Report(tables=tables, notes=list(dict.fromkeys(notes)), numbers=sizes)


PARTS = ("tangent", "forces", "factor", "implicit step", "semi-implicit step", "vjp")
PAIRS = (
    ("drake corotated", "step", "implicit step"),
    ("drake linear", "step", "semi-implicit step"),
    ("scikit-fem corotated", "step", "implicit step"),
    ("scikit-fem corotated", "assembly", "assembly"),
    ("scikit-fem corotated", "factor", "factor"),
    ("bare loop", "tangent", "tangent"),
)


def assembly_share(n: dict[str, Any]) -> float:
    """Return the fraction of an implicit step that the assembly of tangents and forces takes."""
    ours = n["ours"]
    assembly = ours["factorisations"] * ours["tangent"] + ours["evaluations"] * ours["forces"]
    return assembly / ours["implicit step"]


# the benchmarks that measure with one and with two threads
THREADS = {name: {"NUMBA_NUM_THREADS": "2"} for name in ("fluid", "mpm", "swimmer")}
REPORTS: dict[str, Callable[[Any], Report]] = {
    "condensed": _condensed_report,
    "drive": _drive_report,
    "fem": _fem_report,
    "fluid": _fluid_report,
    "learning": _learning_report,
    "mpm": _mpm_report,
    "planning": _planning_report,
    "scale": _scale_report,
    "surrogate": _surrogate_report,
    "swimmer": _swimmer_report,
}
