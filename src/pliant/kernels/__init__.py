"""Compiled code: 3 x 3 matrices as tuples, SIMD vectors, sparse factorisation, and its cache."""

from pathlib import Path

from pliant.kernels.cache import use_kernel_cache
from pliant.kernels.threads import limit_spinning

use_kernel_cache(Path(__file__).parents[1])  # before the first function is compiled
limit_spinning()  # before the first function runs

from pliant.kernels.matrix import (  # noqa: E402
    FAST,
    FUSED,
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
    "FUSED",
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
