"""Tables of numbers in text files: separators, units and line numbers, with clear errors."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.core import InputError, counted, nearest, quoted
from pliant.store.files import translate_read_errors

MAX_BYTES = 200_000_000  # of a file; longer recordings are split or thinned out
MISSING = ("", "nan", "na", "n/a", "-", "null", "none")
# both characters that Unicode has for micro
LENGTHS = {
    "m": 1.0,
    "dm": 0.1,
    "cm": 0.01,
    "mm": 1e-3,
    "um": 1e-6,
    "\u00b5m": 1e-6,
    "\u03bcm": 1e-6,
}
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}
VOLUMES = {"m^3": 1.0, "m3": 1.0, "l": 1e-3, "ml": 1e-6, "mm^3": 1e-9, "mm3": 1e-9}
CONTROL_UNITS = {  # by the SI unit of the control
    "-": {"-": 1.0, "1": 1.0},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "Pa": {"Pa": 1.0, "kPa": 1e3, "MPa": 1e6, "bar": 1e5, "mbar": 1e2},
    "rad": {"rad": 1.0, "deg": math.pi / 180.0},
    "N m": {"N m": 1.0},
    "m": LENGTHS,
}
CONTROLS = {unit: factor for units in CONTROL_UNITS.values() for unit, factor in units.items()}
UNITS = {*LENGTHS, *TIMES, *VOLUMES, *CONTROLS}
_WITH_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^\])]*)[\])]$")


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a text file, with their line numbers."""

    file: str
    columns: tuple[str, ...]
    units: tuple[str, ...]  # of the columns; empty where the file gives none
    rows: tuple[tuple[int, tuple[str, ...]], ...]  # (line number, cells)
    decimal_comma: bool

    def number(self, line: int, column: int, text: str) -> float:
        """Return a cell as a number, NaN for a missing value. Raises InputError for other text."""
        if text.lower() in MISSING:
            return math.nan
        try:
            if "_" in text:  # which Python's float accepts
                raise ValueError
            value = float(text.replace(",", ".") if self.decimal_comma else text)
        except ValueError:
            raise self.error(
                line,
                f"the cell {quoted(text)} in column '{self.columns[column]}' is no number. Write a "
                "number, or leave it empty for a missing value.",
            ) from None
        if math.isinf(value):
            raise self.error(
                line, f"the value in column '{self.columns[column]}' is infinite. Leave it empty."
            )
        return value

    def error(self, line: int, text: str) -> InputError:
        return InputError(f"{self.file}, line {line}: {text}")

    def scale(self, column: int, known: dict[str, float], default: str) -> float:
        """Return the factor from the unit of a column to SI units."""
        unit = self.units[column] or default
        if unit not in known:
            raise InputError(
                f"{self.file}: the column '{self.columns[column]}' has the unit {quoted(unit)}; "
                f"{nearest(unit, known)}"
            )
        return known[unit]


def check_control_units(name: str, units: Mapping[str, str], controls: Sequence[Any]) -> None:
    """Raise InputError if a control has another unit than the column of its name."""
    for control in controls:
        given = units.get(control.name, "-")
        same = CONTROL_UNITS.get(control.unit, {given: 1.0})
        if given not in CONTROL_UNITS["-"] and given not in same:
            raise InputError(
                f"{name}: the control '{control.name}' is in {given}, but that of the robot is in "
                f"{'fractions (no unit)' if control.unit == '-' else control.unit}. Convert the "
                "column, or correct its unit."
            )


def read_table(path: Path) -> Table:
    """Return the table in a text file. The separator is a comma, a semicolon or a tab; after a `#`
    a line is a comment. Raises InputError for a file that is no such table."""
    lines = [
        (number, line)
        for number, line in enumerate(_text(path).splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(f"{path} is empty. Write a row of column names and rows of numbers.")
    separator = max(",;\t", key=lines[0][1].count)
    cells = [(number, _split(line, separator)) for number, line in lines]
    names, units = _header(cells[0][1])
    body = [(number, row) for number, row in cells[1:] if any(row)]
    if body and _is_units_row(body[0][1]):
        units = tuple(new or old for new, old in zip(body[0][1], units, strict=False))
        body = body[1:]
    for number, row in body:
        if len(row) != len(names):
            raise InputError(
                f"{path}, line {number}: there are {counted(len(row), 'cell')} for "
                f"{counted(len(names), 'column')}. Give one cell for each column; a missing value "
                "is an empty cell."
            )
    if not body:
        raise InputError(f"{path} has column names only. Add rows of numbers.")
    commas = separator != "," and any("," in cell for _, row in body for cell in row)
    return Table(file=str(path), columns=names, units=units, rows=tuple(body), decimal_comma=commas)


def _text(path: Path) -> str:
    with translate_read_errors(path):
        if not path.is_file():
            path.stat()  # raises for a missing file
            raise InputError(f"{path} is no regular file. Give a text file of numbers.")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"{path} is larger than {MAX_BYTES / 1e6:g} MB. Split the recording, or keep every "
                "tenth row."
            )
        blob = path.read_bytes()
    try:
        return blob.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8. Save it as CSV (UTF-8).") from None


def _split(line: str, separator: str) -> tuple[str, ...]:
    row = next(csv.reader(io.StringIO(line), delimiter=separator))
    return tuple(cell.strip() for cell in row)


def _header(cells: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and units of columns such as "tip.x [mm]"."""
    found = [_WITH_UNIT.match(cell) for cell in cells]
    names = [match["name"] if match else cell for match, cell in zip(found, cells, strict=True)]
    return (
        tuple(name.lower() if name.lower() in ("time", "marker") else name for name in names),
        tuple(match["unit"].strip() if match else "" for match in found),
    )


def _is_units_row(cells: Sequence[str]) -> bool:
    named = [cell.strip("[]()") for cell in cells if cell]
    return bool(named) and all(cell in UNITS and cell not in ("1", "-") for cell in named)
