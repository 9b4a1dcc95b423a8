"""The surroundings of a robot in a picture: obstacles, the ground with its grid and the shadow, and
distance marks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from pliant.core import Array
from pliant.report import palette
from pliant.report.camera import project, project_to_ground
from pliant.report.particle_dots import draw_dots
from pliant.report.projection import Stage, stroke_width
from pliant.report.scene import DrawnScene

SHADOW_BLUR = 0.009  # standard deviation of the blur, as a fraction of the picture height
GRID_CELLS = 12  # on each side of the robot; the grid fades out before its last line


def paint_surroundings(axes: Axes, scene: DrawnScene, stage: Stage) -> None:
    """Draw the obstacles: filled regions in 2D, lines in 3D. In 2D, also draw the distance marks of
    a camera that follows the body."""
    if scene.dim == 2 and scene.follow:
        _paint_distance_marks(axes, scene, stage)
    curves = [project(stage.camera, curve) for curve in scene.surroundings]
    if not curves:
        return
    if scene.dim == 3:
        axes.add_collection(
            LineCollection(
                curves, colors=palette.GROUND, alpha=0.6, linewidths=stage.unit, zorder=0.5
            ),
            autolim=False,
        )
        return
    # One compound path: a curve with the opposite orientation is a hole.
    shape = Path.make_compound_path(*(Path(curve, closed=True) for curve in curves))
    axes.add_patch(
        PathPatch(
            shape,
            facecolor=palette.GRID,
            edgecolor=palette.GROUND,
            linewidth=1.6 * stage.unit,
            zorder=0,
        )
    )


def _paint_distance_marks(axes: Axes, scene: DrawnScene, stage: Stage) -> None:
    """Draw faint vertical lines at round distances from the initial position of the body."""
    left, right, bottom, top = stage.camera.window
    start = float(project(stage.camera, scene.frames[0]).mean(axis=0)[0])
    step = round_length((right - left) / 5)
    # no marks behind the colour bar
    last = right - (0.0 if stage.shades is None else 0.14 * (right - left))
    height = (
        bottom + 0.1 * (top - bottom)
        if scene.ground is None
        else scene.ground - 0.012 * (top - bottom)
    )
    for n in range(int(np.ceil((left - start) / step)), int(np.floor((last - start) / step)) + 1):
        axes.axvline(start + n * step, color=palette.GRID, lw=1.6 * stage.unit, zorder=-1)
        axes.text(
            start + n * step,
            height,
            length_label(n * step),
            ha="center",
            va="top",
            fontsize=16 * stage.unit,
            color=palette.SECONDARY,
            zorder=7,
            clip_on=True,
        )


def paint_ground(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw the ground: in 3D a grid that fades out with the distance from the robot, in 2D a line
    with a filled region below."""
    if scene.ground is None:
        return
    left, right, bottom, _ = stage.camera.window
    if scene.dim == 2:
        axes.fill_between([left, right], bottom, scene.ground, color=palette.GRID, lw=0, zorder=0)
        axes.axhline(scene.ground, color=palette.GROUND, lw=1.6 * stage.unit, zorder=0.1)
        return
    segments, fade = _ground_grid(
        scene, right - left, scene.frames[k : k + 1] if scene.follow else scene.frames
    )
    colours = [to_rgba(palette.GROUND, 0.55 * alpha) for alpha in fade]
    grid = LineCollection(
        list(project(stage.camera, segments)), colors=colours, linewidths=stage.unit, zorder=0.5
    )
    axes.add_collection(grid, autolim=False)


def paint_shadow(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    """Draw the blurred shadow of the body, vertically below it. Only in 3D."""
    if scene.ground is None or scene.dim == 2:
        return
    mask = _shadow_mask(scene, k, stage)
    dark = np.empty((*mask.shape, 4), dtype=np.uint8)
    dark[..., :3] = np.round(255 * np.array(to_rgb(palette.SHADOW)))
    dark[..., 3] = 0.30 * gaussian_filter(mask, SHADOW_BLUR * len(mask))
    axes.imshow(dark, extent=stage.camera.window, aspect="auto", interpolation="bilinear", zorder=1)


def round_length(length: float) -> float:
    """Return the largest length [m] of the form 1, 2 or 5 times a power of ten that is at most
    `length` [m]."""
    decade = 10.0 ** np.floor(np.log10(length))
    return float(
        decade * max(step for step in (1.0, 2.0, 5.0) if step * decade <= length * (1 + 1e-9))
    )


def length_label(length: float) -> str:
    """Return a length [m] as text, in the largest metric unit that is not above it."""
    for unit, size in (("km", 1e3), ("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("µm", 1e-6)):
        if abs(length) >= 0.999 * size:
            return f"{length / size:.3g} {unit}"
    return f"{length:.1g} m"


def _shadow_mask(scene: DrawnScene, k: int, stage: Stage) -> Array:
    """Return the shadow (h, w): 255 below the body and 0 elsewhere. It has half the resolution of
    the picture, which the blur hides."""
    left, _, _, top = stage.camera.window
    scale = 0.5 * stage.pixels_per_metre
    flat = (project(stage.camera, project_to_ground(scene, scene.frames[k])) - [left, top]) * [
        scale,
        -scale,
    ]
    size, width = (
        (stage.size[0] // 2, stage.size[1] // 2),
        max(1, round(0.5 * stroke_width(scene, stage) / 0.72)),
    )
    mask = Image.new("L", size)
    if scene.facets.shape[1] == 1:
        dots = flat[scene.facets[:, 0]]
        patch = draw_dots(dots, np.zeros((len(dots), 3)), 0.5 * width, size, balls=False)
        if patch is not None:
            mask.paste(Image.fromarray(patch.pixels[..., 3]), patch.corner[::-1])
        return np.asarray(mask, dtype=float)
    pen = ImageDraw.Draw(mask)
    for shape in flat[scene.facets].reshape(len(scene.facets), -1).tolist():
        if stage.skin is None:
            pen.line(shape, fill=255, width=width)
        else:
            pen.polygon(shape, fill=255)
    return np.asarray(mask, dtype=float)


def _ground_grid(scene: DrawnScene, span: float, frames: Array) -> tuple[Array, Array]:
    """Return short segments (k, 2, 3) [m] of the grid lines, and the opacity (k,) of each: 1 at
    the robot, 0 far away."""
    flat = [(scene.axis + 1) % 3, (scene.axis + 2) % 3]
    middle = _middle(frames[..., flat])
    cell = round_length(span / 8)
    # (2, lines) [m] coordinates of the grid lines along each horizontal axis
    lines = cell * (np.arange(-GRID_CELLS, GRID_CELLS + 1) + np.round(middle[:, None] / cell))
    fine = np.linspace(lines[:, 0], lines[:, -1], 6 * GRID_CELLS + 1, axis=1)
    pieces = [_parallel_lines(lines[i], fine[1 - i], flat[i], flat[1 - i], scene) for i in (0, 1)]
    segments = np.concatenate(pieces)
    distance = np.linalg.norm(segments.mean(axis=1)[:, flat] - middle, axis=1)
    fade = np.clip(1.15 * np.exp(-((distance / (0.45 * span)) ** 2)) - 0.05, 0.0, 1.0)
    return segments[fade > 0.0], fade[fade > 0.0]


def _middle(flat: Array) -> Array:
    return (flat.min(axis=(0, 1)) + flat.max(axis=(0, 1))) / 2


def _parallel_lines(at: Array, along: Array, fixed: int, free: int, scene: DrawnScene) -> Array:
    """Return segments (k, 2, 3) [m] of ground lines at the values `at` of coordinate `fixed`. Each
    line is split at the values `along` of coordinate `free`."""
    ends = np.zeros((len(at), len(along) - 1, 2, 3))
    ends[..., scene.axis] = scene.ground
    ends[..., fixed] = at[:, None, None]
    ends[..., free] = np.stack([along[:-1], along[1:]], axis=1)
    return ends.reshape(-1, 2, 3)
