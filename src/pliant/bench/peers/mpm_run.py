"""What a peer of `bench mpm` gives back, and the child process that a peer with a runtime of its
own runs in."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.bench.mpm_scene import MpmScene
from pliant.core import Array, InputError, MissingExtra, StepError


@dataclass(frozen=True, kw_only=True, eq=False)
class MpmRun:
    """What a peer made of a scene. Seconds are wall clock after one whole run to warm up, one
    number a repeat.

    Clearing the grids is inside every number; setting the initial state, seeding the adjoint of x
    and clearing stored adjoints are not.
    """

    name: str  # of the peer, with its version
    threads: int
    positions: Array  # (n, dim) [m], after the last substep
    loss: float
    gradient: Array  # (n, dim) [s/m], of the loss by the initial velocities
    in_place: Array  # (repeats,) [s], all substeps, only the last state kept
    forward: (
        Array  # (repeats,) [s], all substeps, with every state and grid kept for the backward run
    )
    backward: (
        Array  # (repeats,) [s], from the kept states to the gradient, the forward run excluded
    )


def check_run(scene: MpmScene, *, threads: int, repeats: int) -> None:
    """A sentence for a run that no peer can do."""
    if threads < 1 or repeats < 1:
        raise InputError(f"threads = {threads}, repeats = {repeats}; both must be at least 1.")
    if not 2 <= scene.dim <= 3:
        raise InputError(f"The scene has {scene.dim} dimensions; the peers step 2 or 3.")


def check_inside(scene: MpmScene, positions: Array) -> None:
    """A sentence for particles that ended outside the grid, where a peer may have written past its
    memory."""
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
    """The run of `python -m module`, which serves one by `serve`, as the package keeps its threads
    and memory for a whole process."""
    check_run(scene, threads=threads, repeats=repeats)
    if find_spec(package) is None:
        raise MissingExtra(
            f"{package.capitalize()} is not installed. Run: pip install 'pliant[bench]'."
        )
    with TemporaryDirectory() as folder:
        np.savez(Path(folder) / "scene.npz", **asdict(scene))
        words = [sys.executable, "-m", module, folder, str(threads), str(repeats)]
        child = subprocess.run(words, capture_output=True, text=True)
        if child.returncode:
            said = child.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise StepError(
                f"{package.capitalize()} stopped on the scene '{scene.name}' with exit status "
                f"{child.returncode} ({said[0]}). Ask for fewer than {scene.substeps} substeps "
                "if memory was short: it keeps every state."
            )
        with np.load(Path(folder) / "run.npz") as got:
            run = MpmRun(
                **{key: got[key] if got[key].ndim else got[key].item() for key in got.files}
            )
    check_inside(scene, run.positions)
    return run


def serve(peer: Callable[[MpmScene, int, int], MpmRun], arguments: list[str]) -> None:
    """The child's side: read the scene from the folder, run the peer on it and leave the run
    there."""
    folder, threads, repeats = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    with np.load(folder / "scene.npz") as got:
        scene = MpmScene(
            **{key: got[key] if got[key].ndim else got[key].item() for key in got.files}
        )
    np.savez(folder / "run.npz", **asdict(peer(scene, threads, repeats)))
