"""A picture of a body's outline becomes a flat or an extruded mesh."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.ndimage import label as connected_pixels

from pliant.core import Array, MeshError, require_positive
from pliant.geometry.colours import figure_cover, labels, named_cells, palette
from pliant.geometry.extrude import extruded
from pliant.geometry.fill_report import FillTolerances
from pliant.geometry.lattice import checked_cell
from pliant.geometry.load import Limits, path_of, read_foreign
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import pieces
from pliant.geometry.stuffing import TooCoarse, stuffed

BLUR = 0.8  # [pixels], turns the stairs of a black-and-white outline into a straight line
HALVINGS = 20  # of a lattice edge, to find the outline on it


def load_silhouette(
    path: str | Path,
    *,
    height: float,
    cell: float,
    thickness: float | None = None,
    regions: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Mesh:
    """A mesh of the figure in a PNG picture, `height` [m] tall, its lower left corner at the
    origin.

    If any pixel is transparent, the figure is where the picture is opaque (alpha over one half);
    otherwise where it is dark (luminance under one half). Without `thickness` the mesh is flat,
    with surface "outside"; with it [m] the figure is extruded along z, with surfaces "outside",
    "bottom" and "top".

    `regions` maps colours, by name or as "#rrggbb", to names of regions: each cell has the region
    of the colour at its centre. A figure without transparent pixels is then where the picture has
    one of these colours, and not white.
    """
    require_positive("The height of the silhouette", height, "m")
    cell = checked_cell(cell, 0.0)
    if thickness is not None:
        thickness = require_positive("The thickness of the silhouette", thickness, "m")
    colours = None if regions is None else palette(regions)
    picture = read_foreign(
        "picture" if colours is None else "colours", path_of(path), limits or Limits()
    )
    try:
        cover = picture["cover"] if colours is None else figure_cover(picture["rgba"], colours)
        held, frame = framed(cover)
        mesh = figure_mesh(gaussian_filter(np.pad(cover[frame] / 255.0, 4), BLUR), height, cell)
        if regions is not None and colours is not None:
            label = labels(picture["rgba"], held, colours)[frame]
            mesh = replace(
                mesh, regions=named_cells(regions, label[pixels_of(mesh, label.shape, height)])
            )
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
    if thickness is None:
        return mesh
    # The wall of a hole is that of a cavity in the plane, but lies outside once extruded.
    mesh = replace(mesh, surfaces={"outside": mesh.boundary()})
    return extruded(mesh, thickness=thickness, layers=max(1, round(thickness / cell)))


def framed(cover: Array) -> tuple[Array, tuple[slice, slice]]:
    """(which pixels lie inside, the rows and columns that the figure spans)."""
    held = cover >= 128
    if held.all() or not held.any():
        raise MeshError(
            f"The picture has no outline: all {held.size} pixels are "
            f"{'inside' if held.all() else 'outside'}. Draw the body dark on white, or opaque on "
            "transparent."
        )
    rows, columns = np.flatnonzero(held.any(axis=1)), np.flatnonzero(held.any(axis=0))
    return held, (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))


def pixels_of(mesh: Mesh, shape: tuple[int, int], height: float) -> tuple[Array, Array]:
    """(rows, columns) of the pixels under the centres of the cells; rows run downward."""
    x, y = (mesh.points[mesh.corners].mean(axis=1).T / (height / shape[0])).astype(int)
    return np.clip(shape[0] - 1 - y, 0, shape[0] - 1), np.clip(x, 0, shape[1] - 1)


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

    try:
        mesh = stuffed(inside, crossing, (np.zeros(2), np.array([columns * pixel, height])), cell)
    except TooCoarse as error:
        raise MeshError(f"{error} Choose a smaller cell.") from None
    for doubt in figure_doubts(mesh, cover > 0.5, pixel):
        warnings.warn(doubt, stacklevel=3)
    return mesh


def figure_doubts(mesh: Mesh, held: Array, pixel: float) -> list[str]:
    """Return what the mesh loses of the pixels of edge `pixel` [m] where `held`."""
    ratio = float(mesh.volumes().sum()) / (held.sum() * pixel**2)
    n_pieces, n_parts = int(pieces(mesh).max()) + 1, connected_pixels(held, np.ones((3, 3)))[1]
    found = []
    if abs(ratio - 1.0) > FillTolerances.doubtful_volume:
        found.append(f"it has {100 * ratio:.0f} % of the area of the figure")
    if n_pieces > n_parts:
        found.append(f"it falls into {n_pieces} pieces instead of {n_parts}")
    return [f"The mesh is too coarse: {', '.join(found)}. Choose a smaller cell."] if found else []
