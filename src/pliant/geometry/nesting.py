"""Parts of a closed surface that lie in one another."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.surface import enclosed_volume
from pliant.geometry.winding import clusters, winding_numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Nesting:
    """The parts of a surface that share no point, and which of them lie in others."""

    label: Array  # (n_triangles,) the part of each triangle
    places: Array  # (n_parts, 3) [m] a point of each part
    around: Array  # (n_parts,) how often the other parts wind around it: 1 in one outward part
    outward: Array  # (n_parts,) bool, whether the part encloses a positive volume

    @property
    def n_parts(self) -> int:
        return len(self.places)

    @property
    def wrong(self) -> Array:
        """The parts that are outward inside another, or inward outside of all."""
        return np.flatnonzero(np.abs(self.around - np.where(self.outward, 0.0, 1.0)) > 0.5)


def nesting(points: Array, triangles: Array) -> Nesting:
    """Find the parts of a closed surface whose parts do not cross."""
    ends = triangles[:, [0, 1, 1, 2]].reshape(-1, 2).T
    links = sp.coo_array((np.ones(len(ends[0])), tuple(ends)), shape=2 * (len(points),))
    found = connected_components(links, directed=False)[1][triangles[:, 0]]
    label = np.unique(found, return_inverse=True)[1]
    order = np.argsort(label, kind="stable")
    parts = [triangles[rows] for rows in np.split(order, np.flatnonzero(np.diff(label[order])) + 1)]
    places, around = points[[part[0, 0] for part in parts]], np.zeros(len(parts))
    for k, part in enumerate(parts if len(parts) > 1 else []):
        lower, upper = points[part].min(axis=(0, 1)), points[part].max(axis=(0, 1))
        near = ((places >= lower) & (places <= upper)).all(axis=1)
        near[k] = False
        if near.any():
            around[near] += winding_numbers(clusters(points[part]), places[near])
    outward = np.array([enclosed_volume(points, part) > 0.0 for part in parts])
    return Nesting(label=label, places=places, around=around, outward=outward)
