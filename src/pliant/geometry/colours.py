"""The colours of a picture name regions of the figure in it."""

from collections.abc import Mapping

import numpy as np
from scipy.ndimage import distance_transform_edt

from pliant.core import Array, InputError, MeshError, require_kind

TOLERANCE = 60.0  # of 255 a channel, the distance in RGB up to which a pixel has a colour
SEAM = 2.0  # [pixels] how far the mixed colours between two areas, or along the outline, may reach


def palette(regions: Mapping[str, str]) -> Array:
    """(k, 3) the red, green and blue from 0 to 255 of each colour, given by name or as
    "#rrggbb"."""
    from PIL import ImageColor

    require_kind(
        "The regions of a silhouette",
        regions,
        Mapping,
        "give a dict from colour to region, such as {'red': 'leg'}",
    )
    if not regions:
        raise InputError(
            "The regions of a silhouette are empty; give a dict from colour to region, such as "
            "{'red': 'leg'}."
        )
    found = []
    for colour, region in regions.items():
        require_kind(f"The region of colour {colour!r}", region, str, "give a name")
        try:
            found.append(ImageColor.getrgb(colour)[:3])
        except (AttributeError, TypeError, ValueError):
            raise InputError(
                f"There is no colour {colour!r}; write a name such as 'red', or '#rrggbb'."
            ) from None
    return np.array(found, float)


def figure_cover(rgba: Array, colours: Array) -> Array:
    """(rows, columns) uint8, 255 inside the figure and 0 outside: alpha where any pixel is clear,
    else how far a pixel is on its way from white to one of the colours (k, 3)."""
    if rgba[:, :, 3].min() < 255:
        return rgba[:, :, 3]
    ink = 255.0 - colours
    pale = np.flatnonzero(np.linalg.norm(ink, axis=1) <= TOLERANCE)
    if pale.size:
        raise MeshError(
            f"Colour {pale[0]} of the regions, {_hex(colours[pale[0]])}, is nearly white, which "
            "is outside a figure without transparent pixels; make the outside transparent, or "
            "take another colour."
        )
    way = 255.0 - rgba[:, :, :3]
    share, miss = np.zeros(way.shape[:2]), np.full(way.shape[:2], np.inf)
    for line in ink:
        t = np.clip(way @ line / (line @ line), 0.0, 1.0)
        apart = np.linalg.norm(way - t[:, :, None] * line, axis=2)
        share, miss = np.where(apart < miss, t, share), np.minimum(apart, miss)
    return np.where(miss > TOLERANCE, 255, np.round(255 * share)).astype(
        np.uint8
    )  # a strange colour is inside, and told of later


def labels(rgba: Array, inside: Array, colours: Array) -> Array:
    """(rows, columns) the index of the colour of each pixel of the figure, or of the nearest pixel
    that has one."""
    best, apart = np.zeros(inside.shape, np.int64), np.full(inside.shape, np.inf)
    for k, colour in enumerate(colours):
        away = np.linalg.norm(rgba[:, :, :3] - colour, axis=2)
        best, apart = np.where(away < apart, k, best), np.minimum(away, apart)
    clear = inside & (apart <= TOLERANCE)
    if clear.any():
        far, (row, column) = distance_transform_edt(~clear, return_indices=True)
        best = best[row, column]
    else:
        far = np.full(inside.shape, np.inf)
    strange = np.argwhere(inside & (far > SEAM))
    if len(strange):
        row, column = strange[0]
        raise MeshError(
            f"{len(strange)} of {inside.sum()} pixels inside the figure have none of the colours "
            f"of the regions (first: row {row}, column {column}, {_hex(rgba[row, column, :3])}; "
            f"given: {', '.join(map(_hex, colours))}). Give that colour a region too, or repaint "
            "it."
        )
    return best


def named_cells(regions: Mapping[str, str], label: Array) -> dict[str, Array]:
    """Region -> cells, for the index of each cell's colour (n_cells,)."""
    out: dict[str, Array] = {}
    for k, (colour, region) in enumerate(regions.items()):
        mine = np.flatnonzero(label == k)
        if not mine.size:
            raise MeshError(
                f"No cell has the colour {colour!r} of region '{region}'. Check the colour, or "
                "choose a smaller cell."
            )
        out[region] = np.concatenate([out.get(region, mine[:0]), mine])
    return out


def _hex(colour: Array) -> str:
    return "#" + "".join(f"{int(value):02x}" for value in colour)
