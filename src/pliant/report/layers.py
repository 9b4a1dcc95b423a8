"""The layers of a picture of a robot: body, cables, effectors and targets. Each function draws
one."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgb, to_rgba

from pliant.core import Array
from pliant.report import palette
from pliant.report.camera import Camera, depth, project
from pliant.report.particle_dots import draw_dots
from pliant.report.projection import Stage, stroke_width
from pliant.report.scene import DrawnScene
from pliant.report.skin import Skin, corner_normals, light, normals, outward

# A sequential colour map with decreasing lightness, so that it also reads in greyscale.
SHADES = LinearSegmentedColormap.from_list(
    "pliant", ["#DCE6EC", "#F6D9A2", "#F0985C", "#C63F4C", "#6D1A55"]
)
# A diverging colour map, pale at zero.
SIGNED = LinearSegmentedColormap.from_list(
    "pliant-signed", ["#163A70", "#6F9CCB", "#DCE6EC", "#F0985C", "#8E2350"]
)
MAX_OUTLINED_FACETS = 5000  # with more facets, the lines between them would darken the body


@dataclass(frozen=True, kw_only=True)
class Polygons:
    """Projected triangles, sorted by facet: row i has those of facet i."""

    shapes: Array  # (m, k, 3, 2) corners in the picture plane [m]
    faces: Array  # (m, k, 4) RGBA of the interior
    edges: Array  # (m, k, 4) RGBA of the outline
    near: Array  # (m, k) [m], larger is closer to the camera


def paint_skin(axes: Axes, scene: DrawnScene, k: int, stage: Stage, skin: Skin) -> None:
    """Draw the surface of a body from far to near, with lines between its facets."""
    seen, facing = _visible(scene, k, stage.camera, skin)
    corners = scene.frames[k][skin.facets[seen]]
    patches = np.einsum("spc,mcd->mspd", skin.patches, corners)
    middle = skin.patches.mean(axis=1)
    colours = np.einsum("sc,mcd->msd", middle, _colours(scene, k, stage, skin.facets[seen]))
    if scene.dim == 3:
        colours = light(colours, np.einsum("sc,mcd->msd", middle, facing))
    opaque = np.concatenate([colours, np.ones((*colours.shape[:2], 1))], axis=-1)
    near = depth(stage.camera, patches.mean(axis=2))
    body = Polygons(shapes=project(stage.camera, patches), faces=opaque, edges=opaque, near=near)
    _add_polygons(axes, stage, body, _facet_lines(skin, seen, corners, near, stage))


def paint_bars(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw bars from far to near as round strokes with a dark rim and a highlight."""
    points = scene.frames[k]
    order = np.argsort(depth(stage.camera, points[scene.facets]).mean(axis=1), kind="stable")
    facets = scene.facets[order]
    strokes, base = (
        project(stage.camera, points)[facets],
        _colours(scene, k, stage, facets).mean(axis=1),
    )
    width = stroke_width(scene, stage)
    for colour, share in ((0.62 * base, 1.0), (base, 0.82), (0.55 * base + 0.45, 0.24)):
        layer = LineCollection(
            list(strokes), colors=colour, linewidths=share * width, capstyle="round", zorder=2
        )
        axes.add_collection(layer, autolim=False)


def paint_dots(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw particles as discs, in 3D as shaded balls from far to near."""
    points, facets = scene.frames[k][scene.facets[:, 0]], scene.facets
    order = np.argsort(depth(stage.camera, points), kind="stable")
    left, _, _, top = stage.camera.window
    scale = stage.pixels_per_metre
    centres = (project(stage.camera, points[order]) - [left, top]) * [scale, -scale]
    base = _colours(scene, k, stage, facets[order])[:, 0]
    patch = draw_dots(
        centres, base, 0.5 * stroke_width(scene, stage) / 0.72, stage.size, balls=scene.dim == 3
    )
    if patch is None:
        return
    (row, column), (h, w) = patch.corner, patch.pixels.shape[:2]
    extent = (
        left + column / scale,
        left + (column + w) / scale,
        top - (row + h) / scale,
        top - row / scale,
    )
    axes.imshow(patch.pixels, extent=extent, aspect="auto", interpolation="nearest", zorder=2)


def paint_lines(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw cables and paths above the body, also where it hides them. A pale outline separates
    them from any colour."""
    for line in scene.lines:
        x, y = project(stage.camera, line.points[k]).T
        style = (0, (4, 3)) if line.dashed else "solid"
        colour, width = to_rgb(line.colour), 2.2 * stage.unit
        if line.relative_tension is not None:
            colour = tuple(
                np.array(to_rgb(palette.SLACK))
                + line.relative_tension[k] * np.subtract(colour, to_rgb(palette.SLACK))
            )
            width = (1.6 + 3.6 * line.relative_tension[k]) * stage.unit
        axes.plot(
            x,
            y,
            color="white",
            alpha=0.45,
            lw=width + 2.8 * stage.unit,
            solid_capstyle="round",
            zorder=3,
        )
        axes.plot(x, y, color=colour, alpha=0.9, lw=width, ls=style, zorder=3)


def paint_markers(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw targets as crosses in circles, effectors as dots, and the past path of the effectors."""
    if scene.targets is not None:
        _paint_targets(axes, scene.targets, stage)
    if scene.markers is None:
        return
    path = project(stage.camera, scene.markers[: k + 1])  # (k + 1, markers, 2)
    if scene.trail and k > 0:
        _paint_trail(axes, path, stage)
    x, y = path[-1].T
    size, rim = (11 * stage.unit) ** 2, 1.3 * stage.unit
    axes.scatter(x, y, s=size, color=palette.MARKER, edgecolors="white", linewidths=rim, zorder=6)


def _paint_targets(axes: Axes, targets: Array, stage: Stage) -> None:
    x, y = project(stage.camera, targets).T
    ring, cross, width = (19 * stage.unit) ** 2, (27 * stage.unit) ** 2, 2 * stage.unit
    axes.scatter(
        x, y, s=ring, facecolors="none", edgecolors=palette.TARGET, linewidths=width, zorder=5
    )
    axes.scatter(x, y, s=cross, marker="+", color=palette.TARGET, linewidths=width, zorder=5)


def _paint_trail(axes: Axes, path: Array, stage: Stage) -> None:
    # (steps * markers, 2, 2), the oldest segments first
    pieces = np.stack([path[:-1], path[1:]], axis=2).reshape(-1, 2, 2)
    fade = np.repeat(np.linspace(0.08, 0.95, len(path) - 1) ** 1.5, path.shape[1])
    colours = [to_rgba(palette.MARKER, alpha) for alpha in fade]
    trail = LineCollection(list(pieces), colors=colours, linewidths=2.2 * stage.unit, zorder=4)
    axes.add_collection(trail, autolim=False)


def _visible(scene: DrawnScene, k: int, camera: Camera, skin: Skin) -> tuple[Array, Array]:
    """Return the indices (j,) of the facets to draw and, in 3D, their corner normals (j, 3, 3) in
    camera coordinates."""
    if scene.dim == 2:
        return np.arange(len(skin.facets)), np.zeros(0)
    corners = scene.frames[k][skin.facets]
    cosine = normals(corners) @ camera.toward
    front = outward(corners) * cosine > 0.0
    seen = np.flatnonzero(front) if skin.closed else np.arange(len(cosine))
    sign = np.where(cosine < 0.0, -1.0, 1.0)[:, None, None]  # light both sides of an open sheet
    facing = sign * corner_normals(skin, corners) @ np.vstack([camera.plane, camera.toward]).T
    return seen, facing[seen]


def _colours(scene: DrawnScene, k: int, stage: Stage, facets: Array) -> Array:
    """Return the RGB colour (*facets.shape, 3) at each vertex of each facet: that of its value, or
    of the body if the scene has no values."""
    if scene.values is None or stage.shades is None:
        return np.broadcast_to(to_rgb(scene.colour), (*facets.shape, 3))
    return stage.colours(stage.shades(scene.values[k]))[:, :3][facets]


def _facet_lines(skin: Skin, seen: Array, corners: Array, near: Array, stage: Stage) -> Polygons:
    """Return the lines between facets, dark at creases and boundary edges. Each line has the depth
    of the patch at which it lies."""
    ends = project(stage.camera, np.einsum("bec,mcd->mbed", skin.seams, corners))
    faint = 0.12 if len(skin.facets) <= MAX_OUTLINED_FACETS else 0.0
    colours = np.full((*ends.shape[:2], 4), to_rgba(palette.TEXT))
    colours[..., 3] = np.where(skin.sharp[seen][:, skin.side], 0.55, faint)
    return Polygons(
        shapes=ends[:, :, [0, 1, 1]],
        faces=np.zeros_like(colours),
        edges=colours,
        near=near[:, skin.owner],
    )


def _add_polygons(axes: Axes, stage: Stage, *groups: Polygons) -> None:
    """Draw all groups as one collection from far to near, so that near patches hide far lines."""
    order = np.argsort(np.concatenate([group.near.ravel() for group in groups]), kind="stable")
    shapes = np.concatenate([group.shapes.reshape(-1, 3, 2) for group in groups])[order]
    faces = np.concatenate([group.faces.reshape(-1, 4) for group in groups])[order]
    edges = np.concatenate([group.edges.reshape(-1, 4) for group in groups])[order]
    # An array instead of the list in the type stub: matplotlib needs a third of the time.
    skin = PolyCollection(
        shapes,  # type: ignore[arg-type]
        facecolors=faces,
        edgecolors=edges,
        linewidths=stage.unit,
        zorder=2,
    )
    axes.add_collection(skin, autolim=False)
