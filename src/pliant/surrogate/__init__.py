"""Surrogates of an expensive map R^d -> R^N, built from exact values and slopes.

>>> import numpy as np, pliant as pl
>>> def f(x, near):  # the value (1,) and the Jacobian (1, 1) at x (1,)
...     return np.sin(x), np.cos(x)[:, None]
>>> grid = pl.surrogate.Grid(pl.surrogate.Corners(f, dim=1), cell=0.25)
>>> value, jacobian = grid(np.array([0.3]))
>>> bool(abs(value[0] - np.sin(0.3)) < 1e-4)
True
"""

from pliant.surrogate.chebyshev import Chebyshev
from pliant.surrogate.corners import Corner, Corners, evaluation_job
from pliant.surrogate.grid import Grid
from pliant.surrogate.protocol import Surrogate
from pliant.surrogate.sample import ExactMap, Sample, SampleError
from pliant.surrogate.store import CornerStore
from pliant.surrogate.symmetry import SignSymmetry
from pliant.surrogate.tree import Tree

__all__ = [
    "Chebyshev",
    "Corner",
    "CornerStore",
    "Corners",
    "ExactMap",
    "Grid",
    "Sample",
    "SampleError",
    "SignSymmetry",
    "Surrogate",
    "Tree",
    "evaluation_job",
]
