"""A picture of a body's outline becomes a flat or an extruded mesh."""

from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from pliant.core import Array, MeshError, require_positive
from pliant.geometry.extrude import extruded
from pliant.geometry.lattice import checked_cell
from pliant.geometry.load import Limits, read_foreign
from pliant.geometry.mesh import Mesh
from pliant.geometry.stuffing import stuffed

BLUR = 0.8  # [pixels], turns the stairs of a black-and-white outline into a straight line
HALVINGS = 20  # of a lattice edge, to find the outline on it


def load_silhouette(path: str | Path, *, height: float, cell: float, thickness: float | None = None,
                    limits: Limits | None = None) -> Mesh:  # fmt: skip
    """A mesh of the figure in a PNG picture, `height` [m] tall, its lower left corner at the origin.

    If any pixel is transparent, the figure is where the picture is opaque (alpha over one half); otherwise where it is
    dark (luminance under one half). Without `thickness` the mesh is flat, with surface "outside"; with it [m] the
    figure is extruded along z, with surfaces "outside", "bottom" and "top".
    """
    require_positive("The height of the silhouette", height, "m")
    cell = checked_cell(cell, 0.0)
    cover = read_foreign("picture", Path(path), limits or Limits())["cover"]
    held = cover >= 128
    if held.all() or not held.any():
        raise MeshError(f"{path} has no outline: all {held.size} pixels are {'inside' if held.all() else 'outside'}. "
                        "Draw the body dark on white, or opaque on transparent.")  # fmt: skip
    mesh = figure_mesh(trimmed(cover, held), height, cell)
    if thickness is None:
        return mesh
    thickness = require_positive("The thickness of the silhouette", thickness, "m")
    return extruded(mesh, thickness=thickness, layers=max(1, round(thickness / cell)))


def trimmed(cover: Array, held: Array) -> Array:
    """The picture cut to the figure with a margin of outside pixels, as numbers from 0 to 1."""
    rows, columns = np.flatnonzero(held.any(axis=1)), np.flatnonzero(held.any(axis=0))
    cut = cover[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / 255.0
    return gaussian_filter(np.pad(cut, 4), BLUR)


def figure_mesh(cover: Array, height: float, cell: float) -> Mesh:
    rows, columns = np.array(cover.shape) - 8
    pixel = height / rows

    def inside(points: Array) -> Array:
        x, y = points.T / pixel  # pixel centres lie at half numbers, and rows run downward
        return map_coordinates(cover, [rows - y + 3.5, x + 3.5], order=1, cval=0.0) > 0.5

    def crossing(start: Array, end: Array) -> Array:
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            within = inside(start + middle[:, None] * (end - start))
            low, high = np.where(within, middle, low), np.where(within, high, middle)
        return 0.5 * (low + high)

    return stuffed(inside, crossing, (np.zeros(2), np.array([columns * pixel, height])), cell)
