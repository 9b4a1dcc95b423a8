"""Closed surfaces that enclose something else than was probably meant."""

import numpy as np

from pliant.core import Array, MeshError, counted
from pliant.geometry.crossings import crossing_pair
from pliant.geometry.nesting import nesting
from pliant.geometry.surface import Surface

# A spike is so many times longer than the ring of vertices around its tip is wide. A cone as
# slender (2 mm radius, 100 mm long) is reported too: it has the same triangles as a vertex out of
# place, so this is a doubt and not an error.
SLENDER = 10.0
SPIKE = 0.05  # of the size: shorter spikes do not matter


def surface_doubts(surface: Surface) -> list[str]:
    """Return sentences on parts that overlap and on spikes; empty for a good surface.

    Raises MeshError for a part that is outward inside another, or inward outside of all: whether
    it is a cavity, an insert or a mistake is not known.
    """
    points, triangles = surface.points, surface.triangles
    pair = crossing_pair(points, triangles)
    if pair is None:
        check_nesting(points, triangles)
        return spikes(points, triangles)
    place = points[triangles[pair[0]]].mean(axis=0).round(9).tolist()
    return [
        f"The surface crosses or touches itself (first: triangles {pair[0]} and {pair[1]}, near "
        f"{place} m), so that parts overlap. They are filled as one; join them in the program that "
        "wrote the file if that is not meant.",
        *spikes(points, triangles),
    ]


def check_nesting(points: Array, triangles: Array) -> None:
    found = nesting(points, triangles)
    if found.n_parts > 1 and found.wrong.size:
        first = found.wrong[0]
        way = "outward inside another part" if found.outward[first] else "inward outside of all"
        raise MeshError(
            f"{found.wrong.size} of {found.n_parts} parts of the surface have the wrong "
            f"orientation (first: near {found.places[first].round(9).tolist()} m, {way}). Reverse "
            "its triangles (inward makes a cavity), or remove the part."
        )


def spikes(points: Array, triangles: Array) -> list[str]:
    """Return a sentence where vertices stick out on needles of triangles."""
    n = len(points)
    a, b = triangles.ravel(), triangles[:, [1, 2, 0]].ravel()  # each vertex of a ring once
    count = np.bincount(a, minlength=n)
    total = np.stack([np.bincount(a, x[b], minlength=n) for x in points.T], axis=1)
    centre = total / np.maximum(count, 1)[:, None]
    width = np.zeros(n)
    np.maximum.at(width, a, np.linalg.norm(points[b] - centre[a], axis=1))
    length = np.linalg.norm(points - centre, axis=1)
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    sharp = np.flatnonzero((length > SLENDER * 2.0 * width) & (length > SPIKE * size))
    if not sharp.size:
        return []
    tip = sharp[length[sharp].argmax()]
    return [
        f"The surface has {counted(sharp.size, 'spike')} (longest: {length[tip]:.3g} m, to "
        f"{points[tip].round(9).tolist()} m). If they are not meant, move or remove their vertices."
    ]
