"""Particles as dots: all of them in one compiled loop, since thousands would take a drawing library
too long."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from pliant.core import Array
from pliant.report.skin import light

LEAST = 0.8  # [pixels] a smaller radius is drawn so
RIM, RIM_FROM = (
    0.78,
    3.0,
)  # the share of the radius where a darker rim begins, on flat dots of this radius [pixels] or more
# how far the light sees a ball bulge: 0 flat, 1 round; a little flat, so that many of them look
# like one body
BULGE = 0.8
TABLE = 64  # steps from the middle of a dot to its rim at which its light is known


@dataclass(frozen=True, kw_only=True)
class PixelPatch:
    """A part of the picture, with opacity."""

    pixels: Array  # (h, w, 4) uint8
    corner: tuple[int, int]  # (row, column) of its upper left pixel in the picture


def draw_dots(
    centres: Array, colours: Array, radius: float, size: tuple[int, int], *, balls: bool
) -> PixelPatch | None:
    """Dots at centres (n, 2) [pixels to the right and down] with colours (n, 3), the last on top,
    in a picture of `size` (width, height): balls under a light, or flat discs. None: all are
    outside."""
    radius = max(radius, LEAST)
    low = np.floor(np.clip(centres.min(axis=0) - radius - 1.0, 0, size)).astype(int)
    high = np.ceil(np.clip(centres.max(axis=0) + radius + 1.0, 0, size)).astype(int)
    if (high <= low).any():
        return None
    picture = np.zeros((high[1] - low[1], high[0] - low[0], 4))
    shine = _ball() if balls else _disc(radius)
    _lay(
        picture,
        np.ascontiguousarray(centres - low),
        np.ascontiguousarray(colours, float),
        radius,
        shine,
    )
    picture[..., :3] /= np.maximum(picture[..., 3:], 1e-9)
    return PixelPatch(
        pixels=np.round(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8),
        corner=(int(low[1]), int(low[0])),
    )


def _ball() -> Array:
    """(k, k, 2) how bright a ball is and how much gloss it adds, to the right and down."""
    x, y = BULGE * _across()
    facing = np.stack([x, -y, np.sqrt(np.clip(1.0 - x * x - y * y, 0.0, 1.0))], axis=-1)
    black, grey = (
        light(np.full((*x.shape, 3), shade), facing)[..., 0] for shade in (0.0, 0.5)
    )  # light is linear in the colour
    return np.stack([2.0 * (grey - black), black], axis=-1)


def _disc(radius: float) -> Array:
    """The same for a flat disc with a darker rim."""
    rim = np.clip((np.hypot(*_across()) - RIM) / 0.08, 0.0, 1.0) if radius >= RIM_FROM else 0.0
    bright = 1.0 - 0.3 * rim + np.zeros((2 * TABLE + 1, 2 * TABLE + 1))
    return np.stack([bright, 0.0 * bright], axis=-1)


def _across() -> Array:
    """(2, k, k) places in a dot of radius 1, to the right and down; those beyond it brought to the
    rim."""
    place = np.stack(np.meshgrid(*2 * [np.linspace(-1.0, 1.0, 2 * TABLE + 1)]))
    return place / np.maximum(np.hypot(*place), 1.0)


@njit(error_model="numpy", cache=True)
def _lay(picture: Array, centres: Array, colours: Array, radius: float, shine: Array) -> None:
    """Lay discs one over the other into a picture (h, w, 4) of colours times opacity, and opacity;
    rims cover a pixel in part."""
    h, w = picture.shape[:2]
    reach, table = radius + 1.0, shine.shape[0] // 2
    for n in range(len(centres)):
        x, y = centres[n, 0], centres[n, 1]
        for i in range(max(0, int(np.floor(y - reach))), min(h, int(np.ceil(y + reach)))):
            for j in range(max(0, int(np.floor(x - reach))), min(w, int(np.ceil(x + reach)))):
                dx, dy = j + 0.5 - x, i + 0.5 - y
                share = min(1.0, radius + 0.5 - np.sqrt(dx * dx + dy * dy))
                if share <= 0.0:
                    continue
                a = min(2 * table, max(0, int(np.round((dy / radius + 1.0) * table))))
                b = min(2 * table, max(0, int(np.round((dx / radius + 1.0) * table))))
                for c in range(3):
                    lit = min(1.0, colours[n, c] * shine[a, b, 0] + shine[a, b, 1])
                    picture[i, j, c] += share * (lit - picture[i, j, c])
                picture[i, j, 3] += share * (1.0 - picture[i, j, 3])
