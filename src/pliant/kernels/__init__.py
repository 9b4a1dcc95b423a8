"""Small matrices for compiled loops: a 3 x 3 matrix is a flat, row-major tuple of nine numbers."""

from pathlib import Path

from pliant.kernels.cache import use_kernel_cache
from pliant.kernels.threads import wait_quietly

use_kernel_cache(Path(__file__).parents[1])  # before the first function is compiled
wait_quietly()  # before the first one runs

from pliant.kernels.matrix import (  # noqa: E402
    FAST,
    add,
    axpy,
    cofactor,
    cross,
    det,
    dot,
    inner,
    mm,
    mmt,
    mtm,
    scale,
    sub,
    sym,
    times,
    trace,
    transposed,
)
from pliant.kernels.polar import plane_rotation, rotation, rotation_differential, spin_inverse  # noqa: E402

__all__ = [
    "FAST",
    "add",
    "axpy",
    "cofactor",
    "cross",
    "det",
    "dot",
    "inner",
    "mm",
    "mmt",
    "mtm",
    "plane_rotation",
    "rotation",
    "rotation_differential",
    "scale",
    "spin_inverse",
    "sub",
    "sym",
    "times",
    "trace",
    "transposed",
]
