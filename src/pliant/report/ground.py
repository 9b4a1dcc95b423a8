"""The ground under the robot: a grid and a shadow in 3D, the soil in 2D."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb, to_rgba
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from pliant.core import Array
from pliant.report import palette
from pliant.report.camera import drop, project
from pliant.report.scene import Scene
from pliant.report.stage import Stage, stroke_width

SHADOW_BLUR = 0.009  # of the picture's height
REACH = 12  # cells of the grid on each side of the robot; it has faded before


def paint_ground(axes: Axes, scene: Scene, stage: Stage) -> None:
    """A grid that fades away from the robot, or in 2D a line with the soil below it."""
    if scene.ground is None:
        return
    left, right, bottom, _ = stage.camera.window
    if scene.dim == 2:
        axes.fill_between([left, right], bottom, scene.ground, color=palette.GRID, lw=0, zorder=0)
        axes.axhline(scene.ground, color=palette.GROUND, lw=1.6 * stage.unit, zorder=0.1)
        return
    segments, fade = _grid(scene, right - left)
    colours = [to_rgba(palette.GROUND, 0.55 * alpha) for alpha in fade]
    axes.add_collection(LineCollection(list(project(stage.camera, segments)), colors=colours, linewidths=stage.unit, zorder=0.5))


def paint_shadow(axes: Axes, scene: Scene, k: int, stage: Stage) -> None:
    """A blurred shadow straight below the body."""
    if scene.ground is None or scene.dim == 2:
        return
    mask = _shadow_mask(scene, k, stage)
    dark = np.empty((*mask.shape, 4), dtype=np.uint8)
    dark[..., :3] = np.round(255 * np.array(to_rgb(palette.SHADOW)))
    dark[..., 3] = 0.30 * gaussian_filter(mask, SHADOW_BLUR * len(mask))
    axes.imshow(dark, extent=stage.camera.window, aspect="auto", interpolation="bilinear", zorder=1)


def round_length(length: float) -> float:
    """The largest of 1, 2, 5, 10... and their decades that is not above `length` [m]."""
    decade = 10.0 ** np.floor(np.log10(length))
    return float(decade * max(step for step in (1.0, 2.0, 5.0) if step * decade <= length * (1 + 1e-9)))


def _shadow_mask(scene: Scene, k: int, stage: Stage) -> Array:
    """(h, w) 255 under the body and 0 elsewhere, at half the size of the picture: the blur hides the difference."""
    left, _, _, top = stage.camera.window
    scale = 0.5 * stage.pixels_per_metre
    flat = (project(stage.camera, drop(scene, scene.frames[k])) - [left, top]) * [scale, -scale]
    mask = Image.new("L", (stage.size[0] // 2, stage.size[1] // 2))
    pen = ImageDraw.Draw(mask)
    width = max(1, round(0.5 * stroke_width(scene, stage) / 0.72))
    for shape in _segments(flat[scene.facets]).reshape(len(scene.facets), -1).tolist():
        if stage.skin is None:
            pen.line(shape, fill=255, width=width)
        else:
            pen.polygon(shape, fill=255)
    return np.asarray(mask, dtype=float)


def _segments(corners: Array) -> Array:
    """Particles (m, 1, 2) as bars (m, 2, 2) without length; bars and triangles as they are."""
    return np.repeat(corners, 2, axis=1) if corners.shape[1] == 1 else corners


def _grid(scene: Scene, span: float) -> tuple[Array, Array]:
    """Short pieces (k, 2, 3) of the lines of a ground grid, and how strong each is: 1 at the robot, 0 far away."""
    flat = [(scene.axis + 1) % 3, (scene.axis + 2) % 3]
    middle = _middle(scene.frames[..., flat])
    cell = round_length(span / 8)
    lines = cell * (np.arange(-REACH, REACH + 1) + np.round(middle[:, None] / cell))  # (2, lines), where each one crosses
    fine = np.linspace(lines[:, 0], lines[:, -1], 6 * REACH + 1, axis=1)
    pieces = [_stripes(lines[i], fine[1 - i], flat[i], flat[1 - i], scene) for i in (0, 1)]
    segments = np.concatenate(pieces)
    distance = np.linalg.norm(segments.mean(axis=1)[:, flat] - middle, axis=1)
    fade = np.clip(1.15 * np.exp(-((distance / (0.45 * span)) ** 2)) - 0.05, 0.0, 1.0)
    return segments[fade > 0.0], fade[fade > 0.0]


def _middle(flat: Array) -> Array:
    return (flat.min(axis=(0, 1)) + flat.max(axis=(0, 1))) / 2


def _stripes(at: Array, along: Array, fixed: int, free: int, scene: Scene) -> Array:
    """(k, 2, 3) the lines where coordinate `fixed` is one of `at`, each cut at `along` in coordinate `free`."""
    ends = np.zeros((len(at), len(along) - 1, 2, 3))
    ends[..., scene.axis] = scene.ground
    ends[..., fixed] = at[:, None, None]
    ends[..., free] = np.stack([along[:-1], along[1:]], axis=1)
    return ends.reshape(-1, 2, 3)
