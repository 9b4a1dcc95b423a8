"""Draw one frame of a scene as a picture, without the global figures of matplotlib."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from pliant.core import Array, InputError
from pliant.report import ground, layers, palette
from pliant.report.camera import camera_path, fit_camera
from pliant.report.ground import length_label, round_length
from pliant.report.layers import SHADES, SIGNED
from pliant.report.projection import Stage
from pliant.report.scene import DrawnScene
from pliant.report.skin import make_skin
from pliant.store import write_atomic

SIZE = (960, 720)  # [pixels] width, height


def make_stage(scene: DrawnScene, size: tuple[int, int] = SIZE) -> Stage:
    """Return the camera, skin and colour scale for all frames of a scene. Raises `InputError` if
    the picture is too small."""
    if min(size) < 64:
        raise InputError(
            f"A picture of {size[0]} x {size[1]} pixels is too small to draw a scene. Use at "
            "least 64 x 64."
        )
    skin = make_skin(scene.facets, scene.frames[0]) if scene.facets.shape[1] == 3 else None
    shades, colours = _shades(scene)
    path = camera_path(scene)
    return Stage(
        size=size,
        camera=fit_camera(scene, size, path),
        skin=skin,
        shades=shades,
        colours=colours,
        path=path,
    )


def draw(
    scene: DrawnScene,
    k: int,
    size: tuple[int, int] = SIZE,
    *,
    stage: Stage | None = None,
    note: str = "",
) -> Array:
    """Return frame k as a picture (height, width, 3) uint8. Reuse `stage` for many frames. `note`
    is shown after the time."""
    if not -len(scene.frames) <= k < len(scene.frames):
        raise InputError(
            f"The scene has no frame {k}. Give a number from 0 to {len(scene.frames) - 1}."
        )
    k %= len(scene.frames)
    stage = (stage or make_stage(scene, size)).at(k)
    figure = Figure(
        figsize=(stage.size[0] / 100, stage.size[1] / 100), dpi=100, facecolor=palette.BACKGROUND
    )
    canvas = FigureCanvasAgg(figure)
    axes = _empty_axes(figure, stage)
    _paint(axes, scene, k, stage)
    _label(figure, axes, scene, stage, f"{_time_text(scene, k)} {note}".strip())
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def write_picture(
    scene: DrawnScene, k: int, path: str | Path, size: tuple[int, int] = (1600, 1200)
) -> Path:
    """Write frame k as a PNG file and return its path."""
    buffer = BytesIO()
    Image.fromarray(draw(scene, k, size)).save(buffer, format="PNG")
    write_atomic(path, buffer.getvalue())
    return Path(path)


def _paint(axes: Axes, scene: DrawnScene, k: int, stage: Stage) -> None:
    ground.paint_surroundings(axes, scene, stage)
    ground.paint_ground(axes, scene, k, stage)
    ground.paint_shadow(axes, scene, k, stage)
    if stage.skin is not None:
        layers.paint_skin(axes, scene, k, stage, stage.skin)
    elif scene.facets.shape[1] == 2:
        layers.paint_bars(axes, scene, k, stage)
    else:
        layers.paint_dots(axes, scene, k, stage)
    layers.paint_lines(axes, scene, k, stage)
    layers.paint_markers(axes, scene, k, stage)


def _empty_axes(figure: Figure, stage: Stage) -> Axes:
    left, right, bottom, top = stage.camera.window
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_autoscale_on(False)
    return axes


def _shades(scene: DrawnScene) -> tuple[Normalize | None, Colormap]:
    """Return the colour scale. It is symmetric if the values have both signs."""
    if scene.values is None:
        return None, SHADES
    low, high = scene.value_limits or np.percentile(scene.values, (0.5, 99.5))
    if low < 0.0 < high:
        most = max(-low, high)
        return Normalize(-most, most, clip=True), SIGNED
    return Normalize(low, high if high > low else low + 1.0, clip=True), SHADES


def _time_text(scene: DrawnScene, k: int) -> str:
    if len(scene.frames) == 1:
        return ""
    if scene.dt is None:
        return f"step {k}"
    last = scene.dt * (len(scene.frames) - 1)
    digits = int(np.clip(2 - np.floor(np.log10(last)), 0, 6))
    return f"t = {scene.dt * k:.{digits}f} s"


def _label(figure: Figure, axes: Axes, scene: DrawnScene, stage: Stage, time_text: str) -> None:
    """Draw the title, the time, the key, the scale bar and the colour bar."""
    text: dict[str, Any] = {"fontsize": 22 * stage.unit, "color": palette.TEXT, "parse_math": False}
    figure.text(0.035, 0.955, scene.title, weight="bold", va="top", **text)
    figure.text(0.965, 0.955, time_text, va="top", ha="right", **text)
    figure.text(0.965, 0.035, scene.key, ha="right", **{**text, "fontsize": 17 * stage.unit})
    if not (scene.follow and scene.dim == 2):  # there the distance marks show lengths
        _scale_bar(axes, stage)
    if stage.shades is not None:
        _colour_bar(figure, axes, scene.value_label, stage, stage.shades)


def _colour_bar(figure: Figure, axes: Axes, label: str, stage: Stage, shades: Normalize) -> None:
    """Draw the colour bar. The one of matplotlib adds axes, which are slow to create for every
    picture."""
    left, right, bottom, top = 0.905, 0.921, 0.25, 0.75  # fractions of the picture
    ramp = stage.colours(np.linspace(1.0, 0.0, 256))[:, None]
    axes.imshow(
        ramp,
        extent=(left, right, bottom, top),
        transform=axes.transAxes,
        aspect="auto",
        interpolation="nearest",
        zorder=7,
    )
    low, high = float(shades.vmin or 0.0), float(shades.vmax or 0.0)
    ticks = np.asarray(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    text: dict[str, Any] = {"color": palette.TEXT, "parse_math": False}
    for tick in ticks[(ticks >= low - 1e-9 * (high - low)) & (ticks <= high + 1e-9 * (high - low))]:
        height = bottom + (top - bottom) * (tick - low) / (high - low)
        figure.text(
            right + 0.005,
            height,
            _number(tick, high - low),
            va="center",
            fontsize=16 * stage.unit,
            **text,
        )
    figure.text(
        (left + right) / 2, top + 0.02, label, ha="center", fontsize=17 * stage.unit, **text
    )


def _number(tick: float, span: float) -> str:
    return "0" if abs(tick) < 1e-9 * span else f"{tick:.6g}".replace("-", "−")


def _scale_bar(axes: Axes, stage: Stage) -> None:
    left, right, bottom, top = stage.camera.window
    length = round_length(0.16 * (right - left))
    x, y = left + 0.035 * (right - left), bottom + 0.05 * (top - bottom)
    axes.plot(
        [x, x + length],
        [y, y],
        color=palette.TEXT,
        lw=3.2 * stage.unit,
        solid_capstyle="butt",
        zorder=7,
    )
    axes.text(
        x + length / 2,
        y + 0.014 * (top - bottom),
        length_label(length),
        ha="center",
        va="bottom",
        fontsize=17 * stage.unit,
        color=palette.TEXT,
        zorder=7,
    )
