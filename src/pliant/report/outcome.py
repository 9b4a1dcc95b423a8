"""Outcomes: the metrics, plots and scene of a result, and the files that show them."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.progress import Progress, silent
from pliant.report.animation import animate
from pliant.report.drawing import write_picture
from pliant.report.figures import Heatmap, Plot
from pliant.report.page import PageTable, write_report
from pliant.report.scene import DrawnScene
from pliant.store import Header, Trajectory, TrajectoryWriter, read_trajectory

ANIMATION = "drawing the animation"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a result, beside the number that the paper reports (None: no number)."""

    value: float | int | bool
    unit: str = "-"
    paper: float | str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The metrics, plots and scene of a result. If the goal was not reached, `reached` is False
    and `message` says why."""

    metrics: Mapping[str, Metric]
    plots: Sequence[Plot] = ()
    scene: DrawnScene | None = None
    reached: bool = True
    message: str = "done"
    notes: Sequence[str] = ()  # printed below the result, such as the certificate of a plan
    tables: Sequence[PageTable] = ()
    heatmaps: Sequence[Heatmap] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # further content of result.json


def result_content(outcome: Outcome, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of result.json. `fields` has `name`, `paper`, `shows`, `seed`,
    `settings`, `seconds` and `versions`."""
    return {
        **fields,
        "status": "done" if outcome.reached else f"not reached: {outcome.message}",
        "message": outcome.message,
        "metrics": {
            name: {"value": m.value, "unit": m.unit, "paper": m.paper}
            for name, m in outcome.metrics.items()
        },
        "notes": list(outcome.notes),
        **outcome.data,
    }


def write_page(
    folder: Path, content: Mapping[str, Any], outcome: Outcome, media: Sequence[str] = ()
) -> Path:
    """Write report.html for the content of result.json. `media` are the names of animations and
    pictures in the folder."""
    notes = [*([] if outcome.message == "done" else [outcome.message]), *outcome.notes]
    paper = content.get("paper")
    page = {**content, "paper": None if paper is None else f"paper {paper}"}
    return write_report(
        folder,
        page,
        outcome.plots,
        media=media,
        notes=notes,
        tables=outcome.tables,
        heatmaps=outcome.heatmaps,
    )


def write_animation(
    folder: Path, scene: DrawnScene | None, *, small: bool = False, progress: Progress = silent
) -> list[str]:
    """Write animation.mp4, animation.gif and picture.png of a scene. Return the names of the files
    that the page shows."""
    if scene is None:
        return []
    progress(ANIMATION, 0, 1)
    options: dict[str, Any] = (
        {"fps": 3.0, "seconds_limit": 2.0, "size": (480, 360)}
        if small
        else {"seconds_limit": 8.0, "size": (960, 720)}
    )
    files = animate(scene, folder, **options)
    write_picture(scene, most_deformed_frame(scene), folder / "picture.png")
    progress(ANIMATION, 1, 1)
    return [files[0].name]


def most_deformed_frame(scene: DrawnScene) -> int:
    """Return the index of the frame whose largest displacement from the first frame is largest."""
    return int(np.argmax(np.abs(scene.frames - scene.frames[0]).max(axis=(1, 2))))


def write_trajectory(
    folder: Path, states: Array, controls: Array, *, dt: float, key: str
) -> Trajectory:
    """Write states (steps + 1, n_state) and controls (steps, n_controls) into
    `folder`/trajectory."""
    header = Header(
        key=key,
        dt=dt,
        n_state=states.shape[1],
        n_controls=controls.shape[1],
        scalars=(),
        chunk=20,
    )
    with TrajectoryWriter.start(folder, states[0], header, replace=True) as writer:
        for x, u in zip(states[1:], controls, strict=True):
            writer.append(x, u)
    return read_trajectory(folder)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a number may depend on."""
    found = {"python": platform.python_version()}
    for name in ("pliant", "numpy", "scipy", "numba", "cvxopt"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
