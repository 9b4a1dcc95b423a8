"""Surrogates: what stands in for a costly map R^d -> R^N, built from exact values and slopes."""

from pliant.surrogate.chebyshev import Chebyshev
from pliant.surrogate.corners import Corner, Corners, job
from pliant.surrogate.face import Surrogate
from pliant.surrogate.grid import Grid
from pliant.surrogate.sample import Exact, Sample, SampleError
from pliant.surrogate.store import CornerStore
from pliant.surrogate.tree import Tree

__all__ = [
    "Chebyshev",
    "Corner",
    "CornerStore",
    "Corners",
    "Exact",
    "Grid",
    "Sample",
    "SampleError",
    "Surrogate",
    "Tree",
    "job",
]
