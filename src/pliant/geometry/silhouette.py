"""Flat or extruded meshes from a picture of a body's outline."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.ndimage import label as connected_pixels

from pliant.core import Array, MeshError, require_positive
from pliant.geometry.colours import cells_by_region, figure_coverage, label_pixels, parse_colours
from pliant.geometry.extrusion import extrude
from pliant.geometry.fill_report import FillTolerances
from pliant.geometry.lattice import validate_cell_size
from pliant.geometry.load import FileLimits, read_in_subprocess
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import label_pieces
from pliant.geometry.stuffing import TooCoarseError, stuff_isosurface
from pliant.store import check_path

BLUR_WIDTH = 0.8  # [pixels], smooths the steps of a black-and-white outline
BISECTIONS = 20  # of a lattice edge, to locate the outline


def load_silhouette(
    path: str | Path,
    *,
    height: float,
    cell: float,
    thickness: float | None = None,
    regions: Mapping[str, str] | None = None,
    limits: FileLimits | None = None,
) -> Mesh:
    """Load a mesh of the figure in a PNG picture, `height` [m] tall, lower left corner at the
    origin.

    If any pixel is transparent, the figure is the opaque part (alpha over one half), else the dark
    part (luminance under one half). Without `thickness` the mesh is flat, with surface "outside".
    With it [m] the figure is extruded along z, with surfaces "outside", "bottom" and "top".

    `regions` maps colours, by name or as "#rrggbb", to region names: each cell gets the region of
    the colour at its centre. A figure without transparent pixels is then the part with these
    colours.
    """
    require_positive("The height of the silhouette", height, "m")
    cell = validate_cell_size(cell, 0.0)
    if thickness is not None:
        thickness = require_positive("The thickness of the silhouette", thickness, "m")
    colours = None if regions is None else parse_colours(regions)
    picture = read_in_subprocess(
        "picture" if colours is None else "colours",
        check_path("The path of the file", path),
        limits or FileLimits(),
    )
    try:
        cover = picture["cover"] if colours is None else figure_coverage(picture["rgba"], colours)
        held, frame = crop_figure(cover)
        mesh = figure_mesh(
            gaussian_filter(np.pad(cover[frame] / 255.0, 4), BLUR_WIDTH), height, cell
        )
        if regions is not None and colours is not None:
            label = label_pixels(picture["rgba"], held, colours)[frame]
            mesh = replace(
                mesh,
                regions=cells_by_region(
                    regions, label[pixels_at_centres(mesh, label.shape, height)]
                ),
            )
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
    if thickness is None:
        return mesh
    # The wall of a hole is that of a cavity in the plane, but lies outside once extruded.
    mesh = replace(mesh, surfaces={"outside": mesh.boundary()})
    return extrude(mesh, thickness=thickness, layers=max(1, round(thickness / cell)))


def crop_figure(cover: Array) -> tuple[Array, tuple[slice, slice]]:
    """Return which pixels lie inside, and the rows and columns that the figure spans."""
    held = cover >= 128
    if held.all() or not held.any():
        raise MeshError(
            f"The picture has no outline: all {held.size} pixels are "
            f"{'inside' if held.all() else 'outside'}. Draw the body dark on white, or opaque on "
            "transparent."
        )
    rows, columns = np.flatnonzero(held.any(axis=1)), np.flatnonzero(held.any(axis=0))
    return held, (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))


def pixels_at_centres(mesh: Mesh, shape: tuple[int, int], height: float) -> tuple[Array, Array]:
    """Return (rows, columns) of the pixels at the cell centres; rows count downward."""
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
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            within = inside(start + middle[:, None] * (end - start))
            low, high = np.where(within, middle, low), np.where(within, high, middle)
        return 0.5 * (low + high)

    try:
        mesh = stuff_isosurface(
            inside, crossing, (np.zeros(2), np.array([columns * pixel, height])), cell
        )
    except TooCoarseError as error:
        raise MeshError(f"{error} Choose a smaller cell.") from None
    for message in figure_warnings(mesh, cover > 0.5, pixel):
        warnings.warn(message, stacklevel=3)
    return mesh


def figure_warnings(mesh: Mesh, held: Array, pixel: float) -> list[str]:
    """Return warnings about features of the pixels `held`, of edge `pixel` [m], that the mesh
    loses."""
    ratio = float(mesh.volumes().sum()) / (held.sum() * pixel**2)
    n_pieces, n_parts = (
        int(label_pieces(mesh).max()) + 1,
        connected_pixels(held, np.ones((3, 3)))[1],
    )
    found = []
    if abs(ratio - 1.0) > FillTolerances.volume_warning:
        found.append(f"it has {100 * ratio:.0f} % of the area of the figure")
    if n_pieces > n_parts:
        found.append(f"it falls into {n_pieces} pieces instead of {n_parts}")
    return [f"The mesh is too coarse: {', '.join(found)}. Choose a smaller cell."] if found else []
