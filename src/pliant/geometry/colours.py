"""Regions of a silhouette by the colours of its pixels."""

from collections.abc import Mapping

import numpy as np
from scipy.ndimage import distance_transform_edt

from pliant.core import Array, InputError, MeshError, counted_of, require_kind

COLOUR_TOLERANCE = 60.0  # RGB distance (255 per channel) up to which a pixel matches a colour
SEAM_WIDTH = 2.0  # [pixels] of mixed colours between two areas or along the outline


def parse_colours(regions: Mapping[str, str]) -> Array:
    """Return red, green and blue (k, 3), 0 to 255, of colours given by name or as "#rrggbb"."""
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


def figure_coverage(rgba: Array, colours: Array) -> Array:
    """Return the coverage (rows, columns) uint8 of the figure: 255 inside and 0 outside.

    It is alpha if any pixel is transparent, else the blend factor from white to one of the colours
    (k, 3).
    """
    if rgba[:, :, 3].min() < 255:
        return rgba[:, :, 3]
    ink = 255.0 - colours
    pale = np.flatnonzero(np.linalg.norm(ink, axis=1) <= COLOUR_TOLERANCE)
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
    return np.where(miss > COLOUR_TOLERANCE, 255, np.round(255 * share)).astype(
        np.uint8
    )  # an unknown colour counts as inside and raises an error later


def label_pixels(rgba: Array, inside: Array, colours: Array) -> Array:
    """Return the colour index (rows, columns) of each pixel of the figure.

    Pixels of mixed colour get the index of the closest pixel with a known colour.
    """
    best, apart = np.zeros(inside.shape, np.int64), np.full(inside.shape, np.inf)
    for k, colour in enumerate(colours):
        away = np.linalg.norm(rgba[:, :, :3] - colour, axis=2)
        best, apart = np.where(away < apart, k, best), np.minimum(away, apart)
    clear = inside & (apart <= COLOUR_TOLERANCE)
    if clear.any():
        far, (row, column) = distance_transform_edt(~clear, return_indices=True)
        best = best[row, column]
    else:
        far = np.full(inside.shape, np.inf)
    strange = np.argwhere(inside & (far > SEAM_WIDTH))
    if len(strange):
        row, column = strange[0]
        raise MeshError(
            "Inside the figure, "
            f"{counted_of(len(strange), inside.sum(), 'pixel', ('has', 'have'))} none of the "
            f"colours of the regions (first: row {row}, column {column}, "
            f"{_hex(rgba[row, column, :3])}; given: {', '.join(map(_hex, colours))}). Give that "
            "colour a region too, or repaint it."
        )
    return best


def cells_by_region(regions: Mapping[str, str], label: Array) -> dict[str, Array]:
    """Return region -> cells, for the colour index (n_cells,) of each cell."""
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
