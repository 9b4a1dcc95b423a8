"""`pliant bench fluid`: times of the weight of a liquid, by columns and exactly, on one and two
threads, compared with ray casting by embree in one run.

The module runs in its own process, so that the threads are set before any library is imported.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numba
import numpy as np

from pliant.bench.peers.embree import weigh_with_embree
from pliant.bench.report import Report
from pliant.core import MissingExtra
from pliant.geometry import Surface, hare_surface, icosphere
from pliant.hydrostatics import column_weights, hydrostatic_load
from pliant.zoo.timing import timed

DENSITY, G = 1000.0, 9.81
GRIDS = (30, 50, 100, 200, 500, 1000, 1500)
REFERENCE_GRID = 200  # columns along each side at which the required speed-up is checked
REQUIRED_SPEEDUP = 20.0


def measure(quick: bool) -> list[dict[str, Any]]:
    """Return the times [ms] for each wall and grid."""
    walls = {"sphere": icosphere(0.01), "hare": hare_surface(0.02, divisions=20 if quick else 67)}
    return [
        {
            "wall": name,
            "triangles": len(wall.triangles),
            **_measure_wall(wall, GRIDS[:4] if quick else GRIDS),
        }
        for name, wall in walls.items()
    ]


def _measure_wall(wall: Surface, grids: tuple[int, ...]) -> dict[str, Any]:
    gravity = np.array([0.0, 0.0, -G])
    exact = partial(hydrostatic_load, wall.points, wall.triangles, density=DENSITY, gravity=gravity)
    columns = partial(
        column_weights, wall.points, wall.triangles, density=DENSITY, gravity=gravity, check=False
    )
    out: dict[str, Any] = {"volume": exact().volume, "exact": _times_by_threads(exact), "grids": []}
    for grid in grids:
        found = columns(grid=grid)
        row = {
            "grid": grid,
            "error": found.volume / out["volume"] - 1.0,
            "columns": _times_by_threads(partial(columns, grid=grid)),
        }
        try:
            row["embree"] = _embree_times(wall, grid, found.weights)
        except MissingExtra as error:
            row["missing"] = str(error)
        out["grids"].append(row)
    return out


def _embree_times(wall: Surface, grid: int, weights: np.ndarray) -> dict[str, float]:
    """Return the times [ms] of the parts of a ray cast, and the difference of its weights."""
    runs = [
        weigh_with_embree(wall, grid, density=DENSITY, g=G)
        for _ in range(4 if grid <= REFERENCE_GRID else 2)
    ][1:]
    difference = float(np.abs(runs[0].weights - weights).max() / weights.max())
    parts = {
        part: 1e3 * median(getattr(one, part) for one in runs)
        for part in ("build", "cast", "distribute")
    }
    return {
        **parts,
        "total": sum(parts.values()),
        "difference": difference,
        "unmatched": runs[0].unmatched,
    }


def _times_by_threads(work: Callable[[], Any]) -> dict[str, float]:
    """Return the time [ms] with one and with two threads."""
    out = {}
    for threads in (1, 2):
        numba.set_num_threads(threads)
        work()
        out[str(threads)] = timed(work, 5, 0.2)
    return out


def report(walls: list[dict[str, Any]]) -> Report:
    ours = [
        [
            w["wall"],
            f"{row['grid']}^2",
            f"{row['columns']['1']:.2f}",
            f"{row['columns']['2']:.2f}",
            f"{100 * row['error']:.4f}",
            f"{row['columns']['1'] / w['exact']['1']:.1f}x",
        ]
        for w in walls
        for row in w["grids"]
    ]
    ours += [
        [w["wall"], "exact", f"{w['exact']['1']:.3f}", f"{w['exact']['2']:.3f}", "0", "1x"]
        for w in walls
    ]
    peers = [
        [
            w["wall"],
            f"{row['grid']}^2",
            *(f"{row['embree'][part]:.1f}" for part in ("build", "cast", "distribute")),
            f"{row['embree']['total'] / row['columns']['1']:.1f}x",
            f"{_speedup_without_build(row):.1f}x",
            f"{row['embree']['unmatched']}",
            f"{row['embree']['difference']:.0e}",
        ]
        for w in walls
        for row in w["grids"]
        if "embree" in row
    ]
    notes = sorted({row["missing"] for w in walls for row in w["grids"] if "missing" in row})
    notes += [speedup_note(w) for w in walls]
    notes.append(
        "Medians of one run. Both speed-ups compare single threads. A moved wall needs a new "
        "embree scene; `speed-up, same scene` excludes it. Difference: largest difference of a "
        "nodal weight, divided by the largest weight. A ray that enters but does not leave is "
        "unmatched and ignored."
    )
    tables = [
        (
            f"Column weights and exact weights ({', '.join(_size(w) for w in walls)})",
            ["wall", "grid", "1 thread [ms]", "2 threads [ms]", "volume error [%]", "time / exact"],
            ours,
        ),
        (
            "Comparison with ray casting by embree",
            [
                "wall",
                "grid",
                "scene [ms]",
                "rays [ms]",
                "sorting [ms]",
                "speed-up",
                "speed-up, same scene",
                "unmatched",
                "difference",
            ],
            peers,
        ),
    ]
    return Report(tables=tables, notes=notes, numbers=walls)


def _speedup_without_build(row: dict[str, Any]) -> float:
    return (row["embree"]["cast"] + row["embree"]["distribute"]) / row["columns"]["1"]


def _size(wall: dict[str, Any]) -> str:
    return f"{wall['wall']}: {wall['triangles']:,} triangles"


def speedup_note(wall: dict[str, Any]) -> str:
    """Return the measured and the required speed-ups at the reference grid as text."""
    row = next(row for row in wall["grids"] if row["grid"] == REFERENCE_GRID)
    exact = row["columns"]["1"] / wall["exact"]["1"]
    text = (
        f"{wall['wall']} at {REFERENCE_GRID}^2: the exact weight is {exact:.0f}x faster than the "
        f"columns (required: {REQUIRED_SPEEDUP:.0f}x)"
    )
    if "embree" not in row:
        return text + "."
    return (
        text + f", the columns are {row['embree']['total'] / row['columns']['1']:.0f}x faster than "
        f"embree (required: {REQUIRED_SPEEDUP:.0f}x)."
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:] == ["quick"])))
