"""The plain C++ loop of mpm_loop.cpp as a peer: compiled in the run, called through ctypes."""

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pliant.bench.mpm_scene import MpmScene
from pliant.bench.peers.mpm_run import MpmRun, check_run
from pliant.core import Array, MissingExtra, PliantError, StepError

SOURCE = Path(__file__).with_name("mpm_loop.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


class CScene(ctypes.Structure):
    """The struct Scene of mpm_loop.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("particles", "substeps", "threads")),
        *((name, ctypes.c_int64 * 3) for name in ("origin", "shape")),
        *((name, ctypes.c_double) for name in ("cell", "tau", "floor")),
        ("gravity", ctypes.c_double * 3),
    )


def run_with_cpp(scene: MpmScene, *, threads: int = 1, repeats: int = 3) -> MpmRun:
    """The scene by our C++ loop and its hand-derived adjoint; more than one thread is by OpenMP."""
    check_run(scene, threads=threads, repeats=repeats)
    n, dim = scene.x.shape
    start = np.concatenate([a.reshape(n, -1) for a in (scene.x, scene.v, scene.C, scene.F)], axis=1)
    material = np.stack([scene.mass, scene.volume, scene.mu, scene.lam], axis=1)
    positions, gradient, seconds = np.empty((n, dim)), np.empty((n, dim)), np.empty((repeats, 3))
    struct = CScene(
        n,
        scene.substeps,
        threads,
        _three(scene.origin, ctypes.c_int64),
        _three(scene.shape, ctypes.c_int64),
        scene.cell,
        scene.tau,
        scene.floor,
        _three(scene.gravity, ctypes.c_double),
    )
    library, version = _compiled(threads > 1)
    done = library.mpm_run(
        dim,
        ctypes.byref(struct),
        *map(_pointer, (start, material, scene.weights)),
        repeats,
        *map(_pointer, (positions, gradient, seconds)),
    )
    if done < scene.substeps:
        raise StepError(
            f"A particle left the grid in substep {done} of {scene.substeps}. Shorten the "
            "substep tau or widen the grid."
        )
    in_place, forward, backward = seconds.T
    return MpmRun(
        name=f"C++ ({version})",
        threads=threads,
        positions=positions,
        loss=float(np.sum(scene.weights * positions)),
        gradient=gradient,
        in_place=in_place,
        forward=forward,
        backward=backward,
    )


@cache
def _compiled(openmp: bool) -> tuple[Any, str]:
    """(the library, the compiler's version); the file may go once it is loaded."""
    compiler = which("g++")
    if compiler is None:
        raise MissingExtra(
            "There is no C++ compiler g++ here. Install one, on Debian and Ubuntu by: apt-get "
            "install g++."
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mpm_loop.so"
        words = [compiler, *FLAGS, *(["-fopenmp"] if openmp else []), str(SOURCE), "-o", str(path)]
        built = subprocess.run(words, capture_output=True, text=True)
        if built.returncode:
            said = next(
                (line for line in built.stderr.splitlines() if "error" in line), "no reason given"
            )
            raise PliantError(
                f"g++ did not compile mpm_loop.cpp ({said.strip()}). It takes g++ 9 or "
                f"newer{' with OpenMP' * openmp}."
            )
        library = ctypes.CDLL(str(path))
    library.mpm_run.restype = ctypes.c_int64
    doubles = [ctypes.POINTER(ctypes.c_double)] * 3
    library.mpm_run.argtypes = [
        ctypes.c_int64,
        ctypes.POINTER(CScene),
        *doubles,
        ctypes.c_int64,
        *doubles,
    ]
    version = subprocess.run(
        [compiler, "-dumpfullversion"], capture_output=True, text=True
    ).stdout.strip()
    return library, f"g++ {version}"


def _pointer(a: Array) -> Any:
    if a.dtype != np.float64 or not a.flags.c_contiguous:
        raise TypeError(f"an array of {a.dtype} with strides {a.strides} cannot go to C++ as it is")
    return a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _three(a: Array, kind: Any) -> Any:
    """The entries of a, one an axis, filled up with zeros."""
    return (kind * 3)(*a.tolist())
