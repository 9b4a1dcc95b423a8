"""The wide and the long layout of recordings of markers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, InputError
from pliant.design.recording_table import CONTROLS, LENGTHS, TIMES, Table

AXES = ("x", "y", "z")
CONTROL = "u."  # prefix of the columns of controls
REST = "rest"  # in the column of times: a row with rest points


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkerColumns:
    """The content of a recording file, in SI units."""

    times: Array  # (n,) [s]
    positions: Array  # (n, m, dim) [m], NaN where missing
    markers: tuple[str, ...]
    rest: Array | None  # (m, dim) [m]
    controls: Mapping[str, Array]  # (n,) each
    control_units: Mapping[str, str]  # as in the file; empty where it gives none


def control_columns(table: Table) -> dict[str, int]:
    """Return the columns of the controls, by the names of the controls."""
    return {
        name.removeprefix(CONTROL): k
        for k, name in enumerate(table.columns)
        if name.startswith(CONTROL)
    }


def control_units(table: Table) -> dict[str, str]:
    """Return the units of the columns of controls, as they are in the file."""
    return {name: table.units[k] for name, k in control_columns(table).items() if table.units[k]}


def read_wide(table: Table, units: str | None) -> MarkerColumns:
    """Read one row for each time, with columns of every marker."""
    time, controls = table.columns.index("time"), control_columns(table)
    places = _marker_columns(table, {time, *controls.values()})
    factors = control_factors(table, controls.values())
    factors |= {k: _length(table, k, units) for at in places.values() for k in at}
    factors[time] = table.scale(time, TIMES, "s")
    rows: list[list[float]] = []
    rest = None
    for line, cells in table.rows:
        if cells[time].lower() == REST:
            if rest is not None:
                raise table.error(line, "this is a second row 'rest'. Remove one of them.")
            rest = _rest_row(table, line, cells, places, factors)
            continue
        row = [table.number(line, k, cell) * factors[k] for k, cell in enumerate(cells)]
        check_time(table, line, row[time], rows[-1][time] if rows else -math.inf)
        check_present(table, line, {k: row[k] for k in controls.values()})
        rows.append(row)
    _check_rows(table, len(rows))
    values = np.array(rows)
    return MarkerColumns(
        times=values[:, time],
        positions=np.stack([values[:, list(at)] for at in places.values()], axis=1),
        markers=tuple(places),
        rest=rest,
        controls={name: values[:, k] for name, k in controls.items()},
        control_units=control_units(table),
    )


def _marker_columns(table: Table, used: set[int]) -> dict[str, tuple[int, ...]]:
    """Return the columns of the coordinates of every marker."""
    found: dict[str, dict[str, int]] = {}
    for k, column in enumerate(table.columns):
        if k in used:
            continue
        marker, _, axis = column.rpartition(".")
        if axis.lower() not in AXES or not marker:
            raise InputError(
                f"{table.file}: the column '{column}' is not 'time', 'NAME.x', 'NAME.y', 'NAME.z' "
                "or 'u.CONTROL'. Rename or remove it."
            )
        found.setdefault(marker, {})[axis.lower()] = k
    if not found:
        raise InputError(f"{table.file} has no marker. Add columns such as 'tip.x' and 'tip.y'.")
    dim = 3 if any("z" in axes for axes in found.values()) else 2
    for marker, axes in found.items():
        absent = [axis for axis in AXES[:dim] if axis not in axes]
        if absent:
            raise InputError(
                f"{table.file}: the marker '{marker}' has no column '{marker}.{absent[0]}'. Give "
                f"all {dim} coordinates of every marker."
            )
    return {marker: tuple(axes[axis] for axis in AXES[:dim]) for marker, axes in found.items()}


def _length(table: Table, column: int, units: str | None) -> float:
    """Return the factor from the unit of a coordinate to metres."""
    given = table.units[column]
    if given and units is not None and given != units:
        raise InputError(
            f"{table.file}: the column '{table.columns[column]}' is in {given}, but "
            f"units={units!r}. Leave out units, or correct the file."
        )
    return table.scale(column, LENGTHS, units or "m")


def _rest_row(
    table: Table,
    line: int,
    cells: Sequence[str],
    places: Mapping[str, Sequence[int]],
    factors: Mapping[int, float],
) -> Array:
    """Return the rest points (m, dim) [m] of a row."""
    points = np.array(
        [[table.number(line, k, cells[k]) * factors[k] for k in at] for at in places.values()]
    )
    if np.isnan(points).any():
        marker = list(places)[int(np.argwhere(np.isnan(points))[0][0])]
        raise table.error(
            line, f"the rest point of '{marker}' is missing. Give all its coordinates."
        )
    return points


def control_factors(table: Table, columns: Iterable[int]) -> dict[int, float]:
    """Return the factors from the units of columns of controls to SI units."""
    return {k: table.scale(k, CONTROLS, "-") for k in columns}


def check_time(table: Table, line: int, time: float, before: float) -> None:
    """Raise InputError unless a time [s] is after the one before it."""
    if math.isnan(time):
        raise table.error(line, "the time is missing. Write the time of every row.")
    if not time > before:
        raise table.error(
            line, f"the time {time:g} s is not after {before:g} s before it. Sort the rows by time."
        )


def check_present(table: Table, line: int, values: Mapping[int, float]) -> None:
    """Raise InputError for a missing value in a column that must be complete."""
    for k, value in values.items():
        if math.isnan(value):
            raise table.error(
                line,
                f"'{table.columns[k]}' is missing. Write it in every row; only positions may be "
                "missing.",
            )


def _check_rows(table: Table, count: int) -> None:
    if not count:
        raise InputError(f"{table.file} has no row with a time. Add rows of measured positions.")


def read_long(table: Table, units: str | None) -> MarkerColumns:
    """Read one row for each time and marker."""
    time, marker, axes, controls = _long_columns(table)
    factors = [_length(table, k, units) for k in axes]
    scale, inputs = table.scale(time, TIMES, "s"), control_factors(table, controls.values())
    rest: dict[str, Array] = {}
    samples: dict[float, dict[str, Array]] = {}
    values: dict[float, list[float]] = {}
    names: dict[str, None] = {}
    before = -math.inf
    for line, cells in table.rows:
        name = _marker_name(table, line, cells[marker], names)
        point = np.array(
            [table.number(line, k, cells[k]) * f for k, f in zip(axes, factors, strict=True)]
        )
        if cells[time].lower() == REST:
            if name in rest:
                raise table.error(line, f"the marker '{name}' has two rest points. Remove one.")
            rest[name] = point
            continue
        at = table.number(line, time, cells[time]) * scale
        if at != before:
            check_time(table, line, at, before)
        before = at
        if name in samples.setdefault(at, {}):
            raise table.error(line, f"the marker '{name}' has two positions at {at:g} s.")
        samples[at][name] = point
        row = {k: table.number(line, k, cells[k]) * f for k, f in inputs.items()}
        check_present(table, line, row)
        if values.setdefault(at, list(row.values())) != list(row.values()):
            raise table.error(line, f"the controls at {at:g} s differ from those above.")
    _check_rows(table, len(samples))
    missing = np.full(len(axes), np.nan)
    return MarkerColumns(
        times=np.array(list(samples)),
        positions=np.array([[at.get(n, missing) for n in names] for at in samples.values()]),
        markers=tuple(names),
        rest=_long_rest(table, rest, names),
        controls={
            name: np.array([row[j] for row in values.values()]) for j, name in enumerate(controls)
        },
        control_units=control_units(table),
    )


def _marker_name(table: Table, line: int, name: str, names: dict[str, None]) -> str:
    if not name:
        raise table.error(line, "the marker has no name. Write its name.")
    names[name] = None
    return name


def _long_columns(table: Table) -> tuple[int, int, list[int], dict[str, int]]:
    """Return the columns of time, marker, coordinates and controls."""
    controls = control_columns(table)
    found = {name.lower(): k for k, name in enumerate(table.columns) if k not in controls.values()}
    for name in found:
        if name not in ("time", "marker", *AXES):
            raise InputError(
                f"{table.file}: the column '{name}' is not 'time', 'marker', 'x', 'y', 'z' or "
                "'u.CONTROL'. Rename or remove it."
            )
    if "x" not in found or "y" not in found:
        raise InputError(f"{table.file} has no columns 'x' and 'y' of the positions. Add them.")
    axes = [found[axis] for axis in AXES if axis in found]
    return found["time"], found["marker"], axes, controls


def _long_rest(table: Table, rest: Mapping[str, Array], names: Iterable[str]) -> Array | None:
    """Return the rest points (m, dim) [m] of all markers, or None."""
    if not rest:
        return None
    for name in names:
        if name not in rest or np.isnan(rest[name]).any():
            raise InputError(
                f"{table.file}: the marker '{name}' has no rest point, but others have. Add a row "
                "with 'rest' as its time."
            )
    return np.array([rest[name] for name in names])
