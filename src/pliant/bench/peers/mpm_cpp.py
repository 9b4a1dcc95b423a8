"""The C++ loop of mpm_loop.cpp, compiled at run time and called through ctypes."""

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
    """Run the scene with the C++ loop and its adjoint, with OpenMP for several threads."""
    check_run(scene, threads=threads, repeats=repeats)
    n, dim = scene.x.shape
    start = np.concatenate([a.reshape(n, -1) for a in (scene.x, scene.v, scene.C, scene.F)], axis=1)
    material = np.stack([scene.mass, scene.volume, scene.mu, scene.lam], axis=1)
    positions, gradient, seconds = np.empty((n, dim)), np.empty((n, dim)), np.empty((repeats, 3))
    struct = CScene(
        n,
        scene.substeps,
        threads,
        _padded_to_three(scene.origin, ctypes.c_int64),
        _padded_to_three(scene.shape, ctypes.c_int64),
        scene.cell,
        scene.tau,
        scene.floor,
        _padded_to_three(scene.gravity, ctypes.c_double),
    )
    library, version = _compile(threads > 1)
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
def _compile(openmp: bool) -> tuple[Any, str]:
    """Return the compiled library and the version of the compiler. The file is removed after
    loading."""
    compiler = which("g++")
    if compiler is None:
        raise MissingExtra(
            "The C++ compiler g++ was not found. Install it, on Debian and Ubuntu by: "
            "apt-get install g++."
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mpm_loop.so"
        openmp_flag = ["-fopenmp"] if openmp else []
        command = [compiler, *FLAGS, *openmp_flag, str(SOURCE), "-o", str(path)]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            reason = next(
                (line for line in built.stderr.splitlines() if "error" in line), "no reason given"
            )
            raise PliantError(
                f"g++ did not compile mpm_loop.cpp ({reason.strip()}). Install g++ 9 or "
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
        raise TypeError(f"an array of {a.dtype} with strides {a.strides} cannot be passed to C++")
    return a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _padded_to_three(a: Array, kind: Any) -> Any:
    """Return the entries of a, one per axis, padded with zeros to three."""
    return (kind * 3)(*a.tolist())
