"""Dots for particles, drawn in one compiled loop, since matplotlib draws thousands slowly."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from pliant.core import Array
from pliant.report.skin import light

MIN_RADIUS = 0.8  # [pixels] of a drawn dot
RIM_START = 0.78  # of the radius; a flat dot is darker outside it
MIN_RIM_RADIUS = 3.0  # [pixels] of a flat dot with a rim
ROUNDNESS = 0.8  # of shaded balls: 0 flat, 1 sphere; below 1, many balls look like one body
SHADING_STEPS = 64  # of the shading table, from the centre of a dot to its edge


@dataclass(frozen=True, kw_only=True)
class PixelPatch:
    """A rectangular part of a picture, with opacity."""

    pixels: Array  # (h, w, 4) uint8
    corner: tuple[int, int]  # (row, column) of its upper left pixel in the picture


def draw_dots(
    centres: Array, colours: Array, radius: float, size: tuple[int, int], *, balls: bool
) -> PixelPatch | None:
    """Return the part of a picture of `size` (width, height) [pixels] that has dots. The centres
    (n, 2) [pixels] are measured to the right and down, and the last dot is on top. `colours` is
    (n, 3). The dots are shaded balls or flat discs. None if all are outside the picture."""
    radius = max(radius, MIN_RADIUS)
    low = np.floor(np.clip(centres.min(axis=0) - radius - 1.0, 0, size)).astype(int)
    high = np.ceil(np.clip(centres.max(axis=0) + radius + 1.0, 0, size)).astype(int)
    if (high <= low).any():
        return None
    picture = np.zeros((high[1] - low[1], high[0] - low[0], 4))
    shading = _ball_shading() if balls else _disc_shading(radius)
    _draw_discs(
        picture,
        np.ascontiguousarray(centres - low),
        np.ascontiguousarray(colours, float),
        radius,
        shading,
    )
    picture[..., :3] /= np.maximum(picture[..., 3:], 1e-9)
    return PixelPatch(
        pixels=np.round(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8),
        corner=(int(low[1]), int(low[0])),
    )


def _ball_shading() -> Array:
    """Return the brightness and the added highlight (k, k, 2) of a ball, over its rows and
    columns."""
    x, y = ROUNDNESS * _unit_disc()
    facing = np.stack([x, -y, np.sqrt(np.clip(1.0 - x * x - y * y, 0.0, 1.0))], axis=-1)
    black, grey = (
        light(np.full((*x.shape, 3), shade), facing)[..., 0] for shade in (0.0, 0.5)
    )  # light is linear in the colour
    return np.stack([2.0 * (grey - black), black], axis=-1)


def _disc_shading(radius: float) -> Array:
    """Return the brightness and the zero highlight (k, k, 2) of a flat disc with a darker rim."""
    distance = np.hypot(*_unit_disc())
    rim = np.clip((distance - RIM_START) / 0.08, 0.0, 1.0) if radius >= MIN_RIM_RADIUS else 0.0
    bright = 1.0 - 0.3 * rim + np.zeros((2 * SHADING_STEPS + 1, 2 * SHADING_STEPS + 1))
    return np.stack([bright, 0.0 * bright], axis=-1)


def _unit_disc() -> Array:
    """Return coordinates (2, k, k), to the right and down, in a disc of radius 1. Points outside
    are projected onto its edge."""
    place = np.stack(np.meshgrid(*2 * [np.linspace(-1.0, 1.0, 2 * SHADING_STEPS + 1)]))
    return place / np.maximum(np.hypot(*place), 1.0)


@njit(error_model="numpy", cache=True)
def _draw_discs(
    picture: Array, centres: Array, colours: Array, radius: float, shading: Array
) -> None:
    """Draw discs over each other, with antialiased edges, into a picture (h, w, 4) with
    premultiplied colours and opacity."""
    h, w = picture.shape[:2]
    reach, table = radius + 1.0, shading.shape[0] // 2
    for n in range(len(centres)):
        x, y = centres[n, 0], centres[n, 1]
        for i in range(max(0, int(np.floor(y - reach))), min(h, int(np.ceil(y + reach)))):
            for j in range(max(0, int(np.floor(x - reach))), min(w, int(np.ceil(x + reach)))):
                dx, dy = j + 0.5 - x, i + 0.5 - y
                coverage = min(1.0, radius + 0.5 - np.sqrt(dx * dx + dy * dy))
                if coverage <= 0.0:
                    continue
                a = min(2 * table, max(0, int(np.round((dy / radius + 1.0) * table))))
                b = min(2 * table, max(0, int(np.round((dx / radius + 1.0) * table))))
                for c in range(3):
                    lit = min(1.0, colours[n, c] * shading[a, b, 0] + shading[a, b, 1])
                    picture[i, j, c] += coverage * (lit - picture[i, j, c])
                picture[i, j, 3] += coverage * (1.0 - picture[i, j, 3])
