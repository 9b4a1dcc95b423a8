"""`pliant bench learning`: time and memory of one gradient of a closed loop, the walker of
walker_scene.py with its network, beside the same walker, network and loss in Taichi.

Each library runs in its own process on one thread. A gradient is that of the loss of all control
steps by the weights of the network, forward and backward.
"""

import json
import os
import subprocess
import sys
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.walker_run import WalkerRun, peak_gigabytes
from pliant.bench.peers.walker_taichi import run_walker_with_taichi
from pliant.bench.report import ONE_THREAD, Report
from pliant.bench.walker_scene import WalkerScene
from pliant.core import MissingExtra, StepError
from pliant.learning.loop_episodes import LoopEpisodes

REPEATS = 3
REQUIRED_RATIO = 3.0  # of Taichi's time over ours
PRECISIONS = ("float64", "float32")
# the loss and gradient of libraries are compared over few steps, before rounding errors grow
COMPARED_STEPS = 10
TOLERANCES = {"float64": 1e-8, "float32": 1e-4}  # relative, of these differences
LIBRARIES = ("pliant", "taichi", "taichi in segments")


def make_scene(quick: bool, steps: int | None = None) -> WalkerScene:
    """Return the walker with 12,800 particles and 200 control steps, or a small one."""
    if quick:
        return WalkerScene(count=8, steps=steps or COMPARED_STEPS, tau=1e-3)
    return WalkerScene(steps=steps or 200)


def run_pliant(scene: WalkerScene, *, precision: str, repeats: int) -> WalkerRun:
    """Return the gradient of the walker by `ClosedLoop` on `MaterialPoint`, as in `train`."""
    loop = scene.loop(precision)
    episodes = LoopEpisodes.draw(loop, scene.task(), count=1, seed=0)
    weights = loop.controller.params.flat
    seconds = []
    for _ in range(repeats + 1):  # the first compiles
        start = perf_counter()
        performance, gradient = episodes.gradient(weights, tapes=scene.steps)
        seconds.append(perf_counter() - start)
    if performance.failed:
        raise StepError(f"The walker failed: {performance.failed[0]}")
    return WalkerRun(
        name="Pliant",
        loss=performance.cost,
        gradient=gradient.tolist(),
        seconds=seconds[1:],
        gigabytes=peak_gigabytes(),
    )


def run_library(library: str, scene: WalkerScene, *, precision: str, repeats: int) -> WalkerRun:
    """Return the gradient of one of LIBRARIES, in this process."""
    if library == "pliant":
        return run_pliant(scene, precision=precision, repeats=repeats)
    segment = scene.steps if library == "taichi" else 1
    return run_walker_with_taichi(scene, precision=precision, repeats=repeats, segment=segment)


def measure(quick: bool) -> dict[str, Any]:
    """Return the runs of all libraries in both precisions, and their differences over few steps."""
    scene = make_scene(quick)
    cases = []
    for precision in PRECISIONS:
        runs = {
            library: run_in_process(library, precision, quick, scene.steps, 1 if quick else REPEATS)
            for library in LIBRARIES
        }
        few = runs
        if scene.steps > COMPARED_STEPS:
            few = {
                lib: run_in_process(lib, precision, quick, COMPARED_STEPS, 0) for lib in LIBRARIES
            }
        for library, run in runs.items():
            different = differences(few[library], few["pliant"]) if library != "pliant" else {}
            cases.append({"library": library, "precision": precision, **run, **different})
    return {
        "particles": len(scene.positions),
        "steps": scene.steps,
        "substeps": scene.substeps,
        "weights": scene.network.params.size,
        "compared steps": COMPARED_STEPS,
        "cases": [{key: case[key] for key in case if key != "gradient"} for case in cases],
    }


def differences(run: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return the relative differences of loss and gradient of two runs."""
    if "missing" in run or "missing" in other:
        return {}
    gradient, reference = np.array(run["gradient"]), np.array(other["gradient"])
    return {
        "loss difference": abs(run["loss"] - other["loss"]) / abs(other["loss"]),
        "gradient difference": float(np.abs(gradient - reference).max() / np.abs(reference).max()),
    }


def run_in_process(
    library: str, precision: str, quick: bool, steps: int, repeats: int
) -> dict[str, Any]:
    """Return the numbers of a run of one of LIBRARIES in its own process, or why it is missing."""
    case = {
        "library": library,
        "precision": precision,
        "quick": quick,
        "steps": steps,
        "repeats": repeats,
    }
    child = subprocess.run(
        [sys.executable, "-m", "pliant.bench.learning", json.dumps(case)],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
    )
    lines = child.stdout.strip().splitlines()
    if not child.returncode and lines:
        return json.loads(lines[-1])
    last = (child.stderr.strip().splitlines() or ["no error message"])[-1]
    return {"missing": last.removeprefix(f"{MissingExtra.__module__}.MissingExtra: ")}


def report(numbers: dict[str, Any]) -> Report:
    found = [case for case in numbers["cases"] if "missing" not in case]
    rows = []
    for case in found:
        mine = [c for c in found if (c["library"], c["precision"]) == ("pliant", case["precision"])]
        seconds = float(np.median(case["seconds"]))
        ratio = f"{seconds / np.median(mine[0]['seconds']):.2f}x" if mine else ""
        shown = [
            f"{case[key]:.0e}" if key in case else ""
            for key in ("loss difference", "gradient difference")
        ]
        rows.append(
            [case["precision"], case["name"], f"{seconds:.2f}", ratio]
            + [f"{case['gigabytes']:.2f}", *shown]
        )
    columns = [
        "precision",
        "library",
        "gradient [s]",
        "time / Pliant",
        "peak memory [GB]",
        "loss difference",
        "gradient difference",
    ]
    notes = sorted({case["missing"] for case in numbers["cases"] if "missing" in case})
    notes += [
        f"{numbers['particles']:,} particles, {numbers['steps']} control steps of "
        f"{numbers['substeps']} substeps, {numbers['weights']:,} weights. Medians of one run, one "
        f"thread. Target: Taichi takes at least {REQUIRED_RATIO:g} times as long as Pliant.",
        "A gradient is forward and backward. The peak memory is that of the process, with "
        "libraries and compiler. Pliant stores the states of all substeps.",
        "Differences from Pliant are relative to its loss and its largest entry of the gradient, "
        f"over {numbers['compared steps']} control steps; at most "
        + " and ".join(f"{TOLERANCES[name]:g} in {name}" for name in PRECISIONS)
        + " is expected.",
    ]
    return Report(
        tables=[("Closed loop with a network", columns, rows)], notes=notes, numbers=numbers
    )


def _main(argument: str) -> dict[str, Any]:
    if not argument.startswith("{"):
        return measure(argument == "quick")
    case = json.loads(argument)
    scene = make_scene(case["quick"], case["steps"])
    run = run_library(case["library"], scene, precision=case["precision"], repeats=case["repeats"])
    return run.numbers()


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1] if len(sys.argv) > 1 else "")))
