"""Warnings about closed surfaces that are probably not intended."""

import numpy as np

from pliant.core import Array, MeshError, counted, counted_of
from pliant.geometry.nesting import find_nesting
from pliant.geometry.self_intersection import find_intersecting_pair
from pliant.geometry.surface import Surface

# Length of a spike over the width of the ring of vertices around its tip. A cone of this
# slenderness (2 mm radius, 100 mm long) is reported too: it has the same triangles as a misplaced
# vertex, so this is a warning and not an error.
MIN_SLENDERNESS = 10.0
MIN_SPIKE_FRACTION = 0.05  # of the size; shorter spikes are ignored


def find_surface_warnings(surface: Surface) -> list[str]:
    """Return warnings about overlapping parts and spikes; empty for a good surface.

    Raises `MeshError` for a part that is outward inside another, or inward outside all others: it
    is ambiguous whether it is a cavity, an insert or a mistake.
    """
    points, triangles = surface.points, surface.triangles
    pair = find_intersecting_pair(points, triangles)
    if pair is None:
        check_nesting(points, triangles)
        return spike_warnings(points, triangles)
    place = points[triangles[pair[0]]].mean(axis=0).round(9).tolist()
    return [
        f"The surface crosses or touches itself (first: triangles {pair[0]} and {pair[1]}, near "
        f"{place} m), so parts overlap. They are filled as one body; if this is not intended, join "
        "them in the program that wrote the file.",
        *spike_warnings(points, triangles),
    ]


def check_nesting(points: Array, triangles: Array) -> None:
    found = find_nesting(points, triangles)
    if found.n_parts > 1 and found.misoriented.size:
        first = found.misoriented[0]
        way = "outward inside another part" if found.outward[first] else "inward outside all others"
        raise MeshError(
            "Of the surface, "
            f"{counted_of(found.misoriented.size, found.n_parts, 'part', ('has', 'have'))} the "
            f"wrong orientation (first: near {found.sample_points[first].round(9).tolist()} m, "
            f"{way}). Reverse its triangles (inward makes a cavity), or remove the part."
        )


def spike_warnings(points: Array, triangles: Array) -> list[str]:
    """Return a warning if vertices form long thin spikes."""
    n = len(points)
    a, b = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()  # each vertex of a ring once
    count = np.bincount(a, minlength=n)
    total = np.stack([np.bincount(a, x[b], minlength=n) for x in points.T], axis=1)
    centre = total / np.maximum(count, 1)[:, None]
    width = np.zeros(n)
    np.maximum.at(width, a, np.linalg.norm(points[b] - centre[a], axis=1))
    length = np.linalg.norm(points - centre, axis=1)
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    sharp = np.flatnonzero(
        (length > MIN_SLENDERNESS * 2.0 * width) & (length > MIN_SPIKE_FRACTION * size)
    )
    if not sharp.size:
        return []
    tip = sharp[length[sharp].argmax()]
    return [
        f"The surface has {counted(sharp.size, 'spike')} (longest: {length[tip]:.3g} m, to "
        f"{points[tip].round(9).tolist()} m). If they are not intended, "
        "move or remove their vertices."
    ]
