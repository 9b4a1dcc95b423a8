"""The result of a library in `pliant bench mpm`, and the process for a library with its own
runtime."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.bench.mpm_scene import MpmScene
from pliant.core import Array, InputError, MissingExtra, StepError, counted


@dataclass(frozen=True, kw_only=True, eq=False)
class MpmRun:
    """The result of a run. Times [s] are wall-clock times, one per repeat, after a warm-up run.

    They include clearing the grids, but not setting the initial state, setting the final adjoint of
    x and clearing stored adjoints.
    """

    name: str  # of the library, with its version
    threads: int
    positions: Array  # (n, dim) [m], after the last substep
    loss: float
    gradient: Array  # (n, dim) [s/m], of the loss with respect to the initial velocities
    in_place: Array  # (repeats,) [s], all substeps, only the last state is stored
    forward: Array  # (repeats,) [s], all substeps, every state and grid is stored
    backward: Array  # (repeats,) [s], from the stored states to the gradient


def check_run(scene: MpmScene, *, threads: int, repeats: int) -> None:
    """Raise `InputError` for a run that no library supports."""
    if threads < 1 or repeats < 1:
        raise InputError(f"threads is {threads} and repeats is {repeats}. Give at least 1.")
    if not 2 <= scene.dim <= 3:
        raise InputError(f"The scene has {scene.dim} dimensions. Give 2 or 3.")


def check_inside(scene: MpmScene, positions: Array) -> None:
    """Raise `StepError` if particles left the grid, since a library may then have written outside
    its arrays."""
    base = np.floor(positions / scene.cell - 0.5) - scene.origin
    bad = np.flatnonzero(~((base >= 0) & (base + 2 < scene.shape)).all(axis=1))
    if bad.size:
        raise StepError(
            f"{bad.size} of {len(positions)} particles left the grid (first: particle {bad[0]} "
            f"at {positions[bad[0]]} m). Shorten the substep tau or widen the grid."
        )


def run_in_child(
    module: str, package: str, scene: MpmScene, *, threads: int, repeats: int
) -> MpmRun:
    """Return the run of `python -m module`, which calls `run_from_folder`. It has its own process,
    because the package sets its threads and memory once per process."""
    check_run(scene, threads=threads, repeats=repeats)
    if find_spec(package) is None:
        raise MissingExtra(
            f"{package.capitalize()} is not installed. Run: pip install 'pliant[bench]'."
        )
    with TemporaryDirectory() as folder:
        np.savez(Path(folder) / "scene.npz", **asdict(scene))
        command = [sys.executable, "-m", module, folder, str(threads), str(repeats)]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode:
            lines = child.stderr.strip().splitlines()[-1:] or ["no error message"]
            raise StepError(
                f"{package.capitalize()} failed on the scene '{scene.name}' with exit status "
                f"{child.returncode} ({lines[0]}). It stores every state; if the memory was "
                f"exhausted, use fewer than {counted(scene.substeps, 'substep')}."
            )
        with np.load(Path(folder) / "run.npz") as file:
            run = MpmRun(
                **{key: file[key] if file[key].ndim else file[key].item() for key in file.files}
            )
    check_inside(scene, run.positions)
    return run


def run_from_folder(peer: Callable[[MpmScene, int, int], MpmRun], arguments: list[str]) -> None:
    """Read the scene from a folder, run a library on it and write the result to the folder."""
    folder, threads, repeats = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    with np.load(folder / "scene.npz") as file:
        scene = MpmScene(
            **{key: file[key] if file[key].ndim else file[key].item() for key in file.files}
        )
    np.savez(folder / "run.npz", **asdict(peer(scene, threads, repeats)))
