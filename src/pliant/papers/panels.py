"""Figures of several pictures side by side, with the same camera and colour scale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pliant.core import Array
from pliant.report import DrawnScene, draw, make_stage
from pliant.report.figures import STYLE
from pliant.store import write_atomic

SIZE = (640, 480)  # [pixels] of one picture, before it is trimmed
PAD = 12  # [pixels] of white margin around the drawing
DPI = 100.0
FRAMES = 4  # of an animation in a row


def pictures(
    scene: DrawnScene, *, targets: Array | None = None, size: tuple[int, int] = SIZE
) -> list[Array]:
    """Return a picture (height, width, 3) of each frame of a scene.

    `targets` (frames, dim) [m] has one target for each frame.
    """
    stage = make_stage(scene if targets is None else replace(scene, targets=targets), size)
    out = []
    for k in range(len(scene.frames)):
        one = slice(k, k + 1)
        single = replace(
            scene,
            frames=scene.frames[one],
            lines=(),
            targets=None if targets is None else targets[one],
            values=None if scene.values is None else scene.values[one],
            markers=None if scene.markers is None else scene.markers[one],
        )
        out.append(draw(single, 0, stage=stage))
    return out


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """A row of pictures (height, width, 3) of equal size, each with a title."""

    pictures: Sequence[Array]
    titles: Sequence[str]


def frame_row(scene: DrawnScene, name: str, count: int = FRAMES) -> PanelRow:
    """Return some frames of an animation, at equal intervals from the first to the last, with the
    name above the first one. Each picture shows its time."""
    plain = replace(scene, title="", key="")
    stage = make_stage(plain, SIZE)
    chosen = np.unique(np.linspace(0, len(scene.frames) - 1, count).astype(int))
    pictures = [draw(plain, k, stage=stage) for k in chosen]
    return PanelRow(pictures=pictures, titles=[name, *("" for _ in chosen[1:])])


def trimmed(row: Sequence[Array]) -> list[Array]:
    """Return pictures (height, width, 3) of equal size without their common white margin."""
    ink = np.any([(picture < 255).any(axis=2) for picture in row], axis=0)
    (top, *_, bottom), (left, *_, right) = (
        np.flatnonzero(ink.any(axis=1)),
        np.flatnonzero(ink.any(axis=0)),
    )
    return [
        picture[max(top - PAD, 0) : bottom + PAD, max(left - PAD, 0) : right + PAD]
        for picture in row
    ]


def write_panels(
    path: Path, rows: Sequence[Sequence[Array]], titles: Sequence[Sequence[str]]
) -> Path:
    """Write a PNG file of rows of pictures (height, width, 3) with titles, and return its path.

    The pictures of a row have equal size.
    """
    cut = [trimmed(row) for row in rows]
    width, height = (
        max(sum(p.shape[1] for p in row) for row in cut),
        sum(row[0].shape[0] + 44 for row in cut),
    )
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            len(cut),
            max(map(len, cut)),
            squeeze=False,
            height_ratios=[row[0].shape[0] for row in cut],
        )
        for panel in axes.flat:
            panel.set_axis_off()
        for row, names, panels in zip(cut, titles, axes, strict=True):
            for picture, name, panel in zip(row, names, panels, strict=False):
                panel.imshow(picture, interpolation="none")
                panel.set_title(name, fontsize=14, pad=6)
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path
