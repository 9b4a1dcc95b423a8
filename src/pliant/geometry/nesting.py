"""Parts of a closed surface that lie inside others."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from pliant.core import Array
from pliant.geometry.surface import enclosed_volume
from pliant.geometry.winding import cluster_triangles, winding_numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Nesting:
    """The disjoint parts of a surface, and which of them lie inside others."""

    label: Array  # (n_triangles,) the part of each triangle
    sample_points: Array  # (n_parts, 3) [m] a point of each part
    winding: (
        Array  # (n_parts,) winding number of the other parts around it: 1 inside one outward part
    )
    outward: Array  # (n_parts,) bool, whether the part encloses a positive volume

    @property
    def n_parts(self) -> int:
        return len(self.sample_points)

    @property
    def misoriented(self) -> Array:
        """Return the parts that are outward inside another, or inward outside all others."""
        return np.flatnonzero(np.abs(self.winding - np.where(self.outward, 0.0, 1.0)) > 0.5)


def find_nesting(points: Array, triangles: Array) -> Nesting:
    """Return the nesting of a closed surface whose parts do not intersect."""
    ends = triangles[:, [0, 1, 1, 2]].reshape(-1, 2).T
    links = sp.coo_array((np.ones(len(ends[0])), tuple(ends)), shape=2 * (len(points),))
    found = connected_components(links, directed=False)[1][triangles[:, 0]]
    label = np.unique(found, return_inverse=True)[1]
    order = np.argsort(label, kind="stable")
    parts = [triangles[rows] for rows in np.split(order, np.flatnonzero(np.diff(label[order])) + 1)]
    sample_points, winding = points[[part[0, 0] for part in parts]], np.zeros(len(parts))
    for k, part in enumerate(parts if len(parts) > 1 else []):
        lower, upper = points[part].min(axis=(0, 1)), points[part].max(axis=(0, 1))
        near = ((sample_points >= lower) & (sample_points <= upper)).all(axis=1)
        near[k] = False
        if near.any():
            winding[near] += winding_numbers(cluster_triangles(points[part]), sample_points[near])
    outward = np.array([enclosed_volume(points, part) > 0.0 for part in parts])
    return Nesting(label=label, sample_points=sample_points, winding=winding, outward=outward)
