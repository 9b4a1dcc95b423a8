"""`pliant bench mpm`: time [ns] per particle and substep of the material point method, forward and
backward, compared with a C++ loop, Taichi and Warp on the same scenes; and time and memory of a
whole gradient of a walker.

Pliant runs MaterialPoint.step of a Robot and the adjoint of its substeps, in both precisions and
with both transfers. The forward time stores only the last state. The backward time goes from the
stored substeps to the gradient, without the run that stores them.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np

from pliant.bench.learning import make_scene as make_walker
from pliant.bench.learning import run_in_process
from pliant.bench.mpm_scene import DENSITY, POISSON, YOUNG, MpmScene, make_scene
from pliant.bench.peers.mpm_cpp import run_with_cpp
from pliant.bench.peers.mpm_run import MpmRun
from pliant.bench.peers.mpm_taichi import run_with_taichi
from pliant.bench.peers.mpm_warp import run_with_warp
from pliant.bench.report import Report
from pliant.contact import Contact, plane
from pliant.core import Array, PliantError
from pliant.geometry import Box, Rectangle
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.robot import Robot

REPEATS = 5
# along each axis, 138,375 in total, like the octoped of [Spielberg2021]
MEMORY_CASE_PARTICLES = (75, 45, 41)
PEERS: dict[str, Callable[..., MpmRun]] = {
    "C++": run_with_cpp,
    "Taichi": run_with_taichi,
    "Warp": run_with_warp,
}


# The variants of Pliant, by name in the table. The total Lagrangian transfer has another grid, so
# its motion is compared with no other
OWN: dict[str, dict[str, str]] = {
    "Pliant": {},
    "Pliant, float32": {"precision": "float32"},
    "Pliant, total": {"transfer": "total"},
}


def model_of(scene: MpmScene, **options: str) -> MaterialPoint:
    """Return a model whose particles are those of the scene, with options of MaterialPoint."""
    spacing, lower = scene.cell / 2, scene.x.min(axis=0) - scene.cell / 4
    size = tuple(np.round((np.ptp(scene.x, axis=0) + spacing) / spacing) * spacing)
    shape = (
        Box(size=size, origin=tuple(lower))
        if scene.dim == 3
        else Rectangle(size=size, origin=tuple(lower))
    )
    up = np.eye(scene.dim)[-1]
    robot = Robot(
        name="block",
        shape=shape,
        divisions=(2,) * scene.dim,
        order=1,
        gravity=scene.gravity,
        contacts=[Contact(obstacle=plane(up))],
        material=Material(E=YOUNG, nu=POISSON, density=DENSITY),
    )
    dt, substeps = scene.tau * scene.substeps, scene.substeps
    return MaterialPoint(robot, dt=dt, cell=scene.cell, substeps=substeps, **options)  # type: ignore[arg-type]


def initial_state(model: MaterialPoint, scene: MpmScene) -> Array:
    """Return the state of the scene."""
    if not model.is_total:
        return model.state(scene.x.ravel(), scene.v.ravel(), scene.C, scene.F)
    # the velocities of the particles are affine in their positions, and so are those of the nodes
    nodes, particles = model.body.rest.reshape(-1, scene.dim), np.c_[scene.x, np.ones(len(scene.x))]
    affine = np.linalg.lstsq(particles, scene.v, rcond=None)[0]
    return model.state(model.body.rest, (np.c_[nodes, np.ones(len(nodes))] @ affine).ravel())


def run_ours(scene: MpmScene, *, name: str = "Pliant", threads: int = 1, repeats: int) -> MpmRun:
    """Run the scene with MaterialPoint, with the options of a name of OWN."""
    numba.set_num_threads(threads)
    model = model_of(scene, **OWN[name])
    start, u = initial_state(model, scene), np.zeros(0)
    # of the loss by the particles, or by the nodes that interpolate their positions
    body = model.body
    bar = body.weights.T @ scene.weights if isinstance(body, ReferenceGrid) else scene.weights
    x_bar = np.concatenate([bar.ravel(), np.zeros(model.space.size - bar.size)])
    step = model.step(start, u)
    seconds, positions = [], model.particles(step.x).position
    for _ in range(repeats + 1):  # the first warms up
        start_time = time.perf_counter()
        model.step(start, u)
        in_place = time.perf_counter() - start_time
        seconds.append((in_place, *_gradient_times(model, step, x_bar)))
    by_velocity = model.pullback(step, x_bar)[0][model.space.n_dofs :][: model.space.n_dofs]
    in_place, forward, backward = np.array(seconds[1:]).T
    return MpmRun(
        name=name,
        threads=threads,
        positions=positions,
        loss=float(np.sum(scene.weights * positions)),
        gradient=by_velocity.reshape(-1, scene.dim),
        in_place=in_place,
        forward=forward,
        backward=backward,
    )


def _gradient_times(model: MaterialPoint, step: Any, x_bar: Array) -> tuple[float, float]:
    """Return the times [s] of a run that stores every substep, and of its adjoint."""
    sweep: Any = model.taped_substeps(step)
    start_time = time.perf_counter()
    substeps = sweep.tape_substeps(sweep.arrays(step.tape.x), model.substeps)
    stored = time.perf_counter()
    sweep.adjoint(substeps, sweep.gradient(x_bar))
    return stored - start_time, time.perf_counter() - stored


def measure(quick: bool) -> dict[str, Any]:
    """Measure all libraries on both scenes with one and two threads, the cold start, and the memory
    of a long gradient."""
    cases = []
    for name in ("2d", "3d"):
        scene = make_scene(name, small=quick)
        for threads in (1, 2):
            own = [run_ours(scene, name=name, threads=threads, repeats=REPEATS) for name in OWN]
            mine = own[0]
            cases += [_case(scene, run, mine) for run in own]
            for peer, run in PEERS.items():
                if peer == "Warp" and threads > 1:  # its CPU kernels run on one thread
                    continue
                try:
                    cases.append(_case(scene, run(scene, threads=threads, repeats=REPEATS), mine))
                except PliantError as error:
                    cases.append(
                        {
                            "scene": scene.name,
                            "peer": peer,
                            "threads": threads,
                            "missing": str(error),
                        }
                    )
    return {
        "cases": cases,
        "cold": _run_in_process("cold"),
        "memory": {} if quick else _run_in_process("memory"),
        "walker": run_in_process("pliant", "float64", quick, make_walker(quick).steps, 1),
    }


def _case(scene: MpmScene, run: MpmRun, mine: MpmRun) -> dict[str, Any]:
    scale = 1e9 / (len(scene.x) * scene.substeps)  # [s] -> [ns] per particle and substep
    differences = {}
    if run.gradient.shape == mine.gradient.shape:
        position = np.abs(run.positions - mine.positions).max()
        gradient = np.abs(run.gradient - mine.gradient).max()
        differences = {
            "position difference": float(position / np.abs(mine.positions - scene.x).max()),
            "gradient difference": float(gradient / np.abs(mine.gradient).max()),
        }
    return {
        "scene": scene.name,
        "particles": len(scene.x),
        "peer": run.name,
        "threads": run.threads,
        **{
            key: scale * float(np.median(getattr(run, key)))
            for key in ("in_place", "forward", "backward")
        },
        **differences,
    }


def _run_in_process(what: str) -> dict[str, Any]:
    """Run a case in its own process. The cold start has an empty cache of compiled code."""
    with TemporaryDirectory() as empty:
        env = {
            **os.environ,
            "NUMBA_NUM_THREADS": "2",
            **({"NUMBA_CACHE_DIR": empty} if what == "cold" else {}),
        }
        child = subprocess.run(
            [sys.executable, "-m", "pliant.bench.mpm", what],
            env=env,
            capture_output=True,
            text=True,
        )
    lines = child.stdout.strip().splitlines()
    return (
        json.loads(lines[-1])
        if not child.returncode and lines
        else {"error": (child.stderr.strip().splitlines() or ["no error message"])[-1]}
    )


def cold_start_times() -> dict[str, Any]:
    """Return the times [s] until the first step and gradient of a small 3D block, with
    compilation."""
    start_time = time.perf_counter()
    model = model_of(make_scene("3d", small=True))
    step = model.step(model.initial_state(), np.zeros(0))
    first_step = time.perf_counter() - start_time
    model.pullback(step, np.ones(model.space.size))
    return {"step": first_step, "gradient": time.perf_counter() - start_time}


def gradient_memory() -> dict[str, Any]:
    """Return the peak memory [GB] of the gradient over 600 substeps of 138,375 particles."""
    h = 1 / 40
    robot = Robot(
        name="block",
        shape=Box(size=tuple(h / 2 * np.array(MEMORY_CASE_PARTICLES))),
        divisions=(2, 2, 2),
        order=1,
        gravity=(0.0, 0.0, -9.81),
        material=Material(E=YOUNG, nu=POISSON),
    )
    tau = 0.2 * h * np.sqrt(DENSITY / YOUNG)
    model = MaterialPoint(robot, dt=600 * tau, cell=h, substeps=600)
    start_time = time.perf_counter()
    step = model.step(model.initial_state(), np.zeros(0))
    model.pullback(step, np.ones(model.space.size))
    return {
        "particles": model.body.n_particles,
        "substeps": 600,
        "seconds": time.perf_counter() - start_time,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
    }


def report(numbers: dict[str, Any]) -> Report:
    cases = numbers["cases"]
    found = [case for case in cases if "missing" not in case]
    rows = []
    for case in found:
        mine = next(
            c
            for c in found
            if (c["scene"], c["threads"], c["peer"]) == (case["scene"], case["threads"], "Pliant")
        )
        rows.append(
            [
                case["scene"],
                case["peer"],
                str(case["threads"]),
                f"{case['in_place']:.0f}",
                f"{case['backward']:.0f}",
                f"{case['in_place'] / mine['in_place']:.2f}x",
                f"{case['backward'] / mine['backward']:.2f}x",
                *(
                    f"{case[key]:.0e}" if key in case else ""
                    for key in ("position difference", "gradient difference")
                ),
            ]
        )
    columns = [
        "scene",
        "library",
        "threads",
        "forward [ns]",
        "backward [ns]",
        "forward / Pliant",
        "backward / Pliant",
        "position difference",
        "gradient difference",
    ]
    notes = sorted({case["missing"] for case in cases if "missing" in case})
    if "gradient" in numbers["cold"]:
        notes.append(
            f"Cold start, with compilation: first step after {numbers['cold']['step']:.0f} s, "
            f"first gradient after {numbers['cold']['gradient']:.0f} s."
        )
    notes += [
        f"The case '{key}' failed: {numbers[key]['error']}"
        for key in ("cold", "memory")
        if "error" in numbers[key]
    ]
    if "seconds" in numbers["walker"]:
        m = numbers["walker"]
        notes.append(
            "Gradient of the walker of `pliant bench learning`, with stored substeps: "
            f"{m['seconds'][0]:.2f} s, peak memory {m['gigabytes']:.2f} GB."
        )
    if "gigabytes" in numbers["memory"]:
        m = numbers["memory"]
        notes.append(
            f"{m['particles']:,} particles, {m['substeps']} substeps with the gradient: "
            f"peak memory {m['gigabytes']:.2f} GB, {m['seconds']:.0f} s."
        )
    notes.append(
        "Medians of one run, per particle and substep. Forward stores the last state only. "
        "Backward excludes the run that stores the states. Differences from Pliant are relative "
        "to the largest displacement and gradient. Warp runs on one thread. The total Lagrangian "
        "transfer has another grid, so its motion is compared with no other."
    )
    return Report(tables=[("Material point method", columns, rows)], notes=notes, numbers=numbers)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    print(
        json.dumps(
            {"cold": cold_start_times, "memory": gradient_memory}.get(
                what, lambda: measure(what == "quick")
            )()
        )
    )
