"""A figure of several pictures side by side, all seen by one eye and in one scale of colours."""

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pliant.core import Array
from pliant.report import Scene, draw, make_stage
from pliant.report.figures import STYLE
from pliant.store import write_atomic

SIZE = (640, 480)  # [pixels] of one picture, before it is trimmed
PAD = 12  # [pixels] left white around what is drawn
DPI = 100.0


def pictures(
    scene: Scene, *, targets: Array | None = None, size: tuple[int, int] = SIZE
) -> list[Array]:
    """(height, width, 3) every frame of a scene, with its own row of targets (frames, dim) [m]."""
    stage = make_stage(scene if targets is None else replace(scene, targets=targets), size)
    out = []
    for k in range(len(scene.frames)):
        one = slice(k, k + 1)
        alone = replace(
            scene,
            frames=scene.frames[one],
            lines=(),
            targets=None if targets is None else targets[one],
            values=None if scene.values is None else scene.values[one],
            markers=None if scene.markers is None else scene.markers[one],
        )
        out.append(draw(alone, 0, stage=stage))
    return out


def trimmed(row: Sequence[Array]) -> list[Array]:
    """Pictures of one size (height, width, 3) without the white that all of them have around."""
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
    """A PNG file of rows of pictures (height, width, 3), each with its title; the pictures of a row
    have one size."""
    cut = [trimmed(row) for row in rows]
    wide, high = (
        max(sum(p.shape[1] for p in row) for row in cut),
        sum(row[0].shape[0] + 44 for row in cut),
    )
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(wide / DPI, high / DPI), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            len(cut),
            max(map(len, cut)),
            squeeze=False,
            height_ratios=[row[0].shape[0] for row in cut],
        )
        for place in axes.flat:
            place.set_axis_off()
        for row, names, places in zip(cut, titles, axes, strict=True):
            for picture, name, place in zip(row, names, places, strict=False):
                place.imshow(picture, interpolation="none")
                place.set_title(name, fontsize=14, pad=6)
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path
