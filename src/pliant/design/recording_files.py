"""Read recordings from CSV files, in a wide and a long layout."""

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, counted, nearest, quoted, require_kind
from pliant.design.marker_columns import MarkerColumns, read_long, read_wide
from pliant.design.recording import MarkerRecording
from pliant.design.recording_table import LENGTHS, Table, read_table

LAYOUTS = {"wide": read_wide, "long": read_long}
MAX_FILES = 10_000
FirstPoints = Mapping[str, ArrayLike] | str | None


def load_recordings(
    files: str | Path | Sequence[str | Path],
    *,
    units: str | None = None,
    layout: str | None = None,
    points: FirstPoints = None,
    noise: float | Mapping[str, float] | None = None,
) -> list[MarkerRecording]:
    """Return the recordings in CSV files, one for each file, sorted by path.

    The wide layout has the columns `time`, `NAME.x`, `NAME.y`, `NAME.z` of every marker and
    `u.CONTROL` of every control. The long layout has `time`, `marker`, `x`, `y`, `z`. In both, a
    row with `rest` in place of a time gives rest points. Empty cells are missing samples.
    docs/guide/identification.md describes both.

    Parameters
    ----------
    files : a path, a pattern such as "mocap/*.csv", or a list of them
    units : "m" or "mm" (or "cm", "um") of the positions, if the file does not say it; None: "m"
    layout : "wide" or "long"; None: by the columns
    points : rest points (dim,) [m] by the name of the marker; or "first": the first sample is the
        rest shape. None: the rest row of the file, or effectors of the same names
    noise : standard deviation [m] of a coordinate, for all markers or by name; None: unknown

    Raises InputError with the file, the line and the remedy.

    >>> import pliant as pl
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "swing.csv"
    ...     _ = file.write_text("time,tip.x [mm],tip.y [mm]\\n0,100,0\\n0.01,99,2\\n")
    ...     pl.load_recordings(file)
    [<MarkerRecording swing: 2 times over 0.01 s, 1 marker, 2D>]
    """
    if units is not None and units not in LENGTHS:
        raise InputError(f"There is no unit {quoted(units)}; {nearest(units, LENGTHS)}")
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"There is no layout {quoted(layout)}; {nearest(layout, LAYOUTS)}")
    return [
        _recording(path, units=units, layout=layout, points=points, noise=noise)
        for path in recording_paths(files)
    ]


def recording_paths(files: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that paths and patterns name, sorted."""
    require_kind("The files", files, (str, Path, list, tuple), "give a path or a pattern")
    found: list[str] = []
    for pattern in [files] if isinstance(files, str | Path) else files:
        text = str(pattern)
        matches = [text] if Path(text).exists() else glob.glob(text, recursive=True)
        if not matches:
            raise InputError(
                f"No file matches '{text}'. Check the path; it is relative to {Path.cwd()}."
            )
        found += matches
    if len(set(found)) > MAX_FILES:
        raise InputError(f"{quoted(files)} names {len(found)} files; give {MAX_FILES} at most.")
    if not found:
        raise InputError("The list of files is empty; give a path or a pattern.")
    return [Path(name) for name in sorted(set(found))]


def _recording(
    path: Path,
    *,
    units: str | None,
    layout: str | None,
    points: FirstPoints,
    noise: float | Mapping[str, float] | None,
) -> MarkerRecording:
    table = read_table(path)
    _check_columns(table)
    found = layout or ("long" if "marker" in table.columns else "wide")
    if (found == "long") != ("marker" in table.columns):
        has = "has no" if found == "long" else "has a"
        raise InputError(f"{path} {has} column 'marker', so its layout is not '{found}'.")
    read = LAYOUTS[found](table, units)
    try:
        return MarkerRecording(
            times=read.times,
            positions=read.positions,
            markers=read.markers,
            points=_rest_points(read, points),
            controls=read.controls or None,
            control_units=read.control_units,
            noise=_noise(read.markers, noise),
            name=path.stem,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_columns(table: Table) -> None:
    """Raise InputError without a column of times, or for a repeated or nameless column."""
    if "time" not in table.columns:
        raise InputError(
            f"{table.file} has no column 'time'; its first columns are "
            f"{quoted(', '.join(table.columns[:4]))}. Name the column of times [s] 'time'."
        )
    for k, name in enumerate(table.columns):
        if not name or name in table.columns[:k]:
            what = "no name" if not name else f"the name '{name}' of another column"
            raise InputError(f"{table.file}: column {k + 1} has {what}. Give it its own name.")


def _rest_points(read: MarkerColumns, points: FirstPoints) -> Array | None:
    """Return the rest points (m, dim) [m] of the markers, or None."""
    markers, positions = read.markers, read.positions
    if points is None:
        return read.rest
    if isinstance(points, str):
        if points != "first":
            raise InputError(f"The points are {quoted(points)}; give 'first' or a dict by name.")
        unseen = np.flatnonzero(np.isnan(positions[0]).any(axis=1))
        if unseen.size:
            raise InputError(
                f"the marker '{markers[unseen[0]]}' is missing in the first sample, which would "
                "be its rest point. Give its rest point."
            )
        return positions[0]
    require_kind("The points", points, Mapping, "give a dict from marker to rest point [m]")
    for name in points:
        if name not in markers:
            raise InputError(
                f"there is a rest point for '{name}', but no such marker; {nearest(name, markers)}"
            )
    absent = [name for name in markers if name not in points]
    if absent:
        raise InputError(
            f"there are {counted(len(markers), 'marker')}, but "
            f"{counted(len(points), 'rest point')}: '{absent[0]}' has none. Give one for each."
        )
    return np.array([np.asarray(points[name], float) for name in markers])


def _noise(markers: Sequence[str], noise: Any) -> Any:
    if not isinstance(noise, Mapping):
        return noise
    absent = [name for name in markers if name not in noise]
    if absent:
        raise InputError(f"there is no noise for the marker '{absent[0]}'. Give one for each.")
    return [noise[name] for name in markers]
