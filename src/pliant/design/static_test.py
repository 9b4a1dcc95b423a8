"""Static tests: loads or controls against displacements or volumes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, finite_array, quoted, require_kind, require_positive
from pliant.design.marker_columns import (
    AXES,
    check_present,
    control_columns,
    control_factors,
    control_units,
)
from pliant.design.recording_files import recording_paths
from pliant.design.recording_table import (
    LENGTHS,
    VOLUMES,
    Table,
    check_control_units,
    read_table,
)
from pliant.robot import MomentLoad, PointLoad, SurfaceLoad

TestLoad = PointLoad | SurfaceLoad | MomentLoad
QUANTITIES = ("displacement", "volume")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StaticTest:
    """Equilibria under a series of loads or controls: force-displacement and pressure-volume
    curves, or the deflection of a tip.

    All measured values are changes since the equilibrium without test load and with neutral
    controls. The rows are equilibria one after the other.

    Parameters
    ----------
    values : (n,) or (n, dim) measured displacements [m], or (n,) changes of a volume [m^3]
    load : a constant load of the test, such as PointLoad(point=..., force=(0, 0, -1)) for 1 N
    factors : (n,) by which the load is multiplied in each row
    controls : (n, n_controls), or columns (n,) by the name of the control; None: neutral
    control_units : units of columns of controls in a file, to compare them with the robot's
    effector, point : whose displacement was measured: an effector, or a material point (dim,) [m]
    direction : (dim,) along which `values` (n,) are measured; None: all coordinates (n, dim)
    cavity : a Pressure actuator; `values` are the changes of the volume of its cavity
    noise : standard deviation of a value [m or m^3]; None: unknown

    Raises InputError if the parts do not fit together.

    >>> import pliant as pl
    >>> from pliant.design import StaticTest
    >>> StaticTest(
    ...     values=[0.001, 0.0021],
    ...     load=pl.PointLoad(point=(0.1, 0.01), force=(0.0, -1.0)),
    ...     factors=[0.1, 0.2],
    ...     effector="tip",
    ...     direction=(0.0, -1.0),
    ... )
    <StaticTest: 2 rows, displacement of tip>
    """

    values: ArrayLike
    load: TestLoad | None = None
    factors: ArrayLike | None = None
    controls: ArrayLike | Mapping[str, ArrayLike] | None = None
    control_units: Mapping[str, str] | None = None
    effector: str | None = None
    point: ArrayLike | None = None
    direction: ArrayLike | None = None
    cavity: str | None = None
    noise: float | None = None
    name: str = "static test"

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.effector, self.point, self.cavity)) != 1:
            raise InputError(
                f"{self.name}: give exactly one of effector, point and cavity, which say what was "
                "measured."
            )
        vector = self.cavity is None and self.direction is None
        shape = (None, None) if vector else (None,)
        values = finite_array(f"{self.name}: the array of values", self.values, shape, self.unit)
        if not len(values):
            raise InputError(f"{self.name} has no rows; give a value for each load.")
        object.__setattr__(self, "values", values if vector else values[:, None])
        if self.noise is not None:
            require_positive(f"{self.name}: the noise", self.noise, self.unit)
        self._check_load(len(values))
        if self.direction is not None:
            along = finite_array(f"{self.name}: the direction", self.direction, (None,))
            if not np.linalg.norm(along) > 0.0:
                raise InputError(f"{self.name}: the direction is zero; give a vector.")
            object.__setattr__(self, "direction", along / np.linalg.norm(along))

    def _check_load(self, n: int) -> None:
        if (self.load is None) != (self.factors is None):
            raise InputError(
                f"{self.name}: give load and factors together: the load of one unit, and its "
                "multiple in each row."
            )
        if self.load is None and self.controls is None:
            raise InputError(
                f"{self.name} has neither a load nor controls, so nothing moves the robot. Give "
                "load= with factors=, or controls=."
            )
        if self.load is None:
            return
        require_kind(
            f"{self.name}: the load", self.load, (PointLoad, SurfaceLoad, MomentLoad), "give a load"
        )
        if self.load.is_time_dependent:
            raise InputError(
                f"{self.name}: the load is a function of time. Give a constant load, and its "
                "multiples as factors."
            )
        factors = finite_array(f"{self.name}: the array of factors", self.factors, (n,))
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        what = self.effector or self.cavity or f"the point {self.point}"
        title = "" if self.name == "static test" else f" {self.name}"
        return (
            f"<StaticTest{title}: {len(np.asarray(self.values))} rows, {self.quantity} of {what}>"
        )

    @property
    def quantity(self) -> str:
        return "volume" if self.cavity is not None else "displacement"

    @property
    def unit(self) -> str:
        return "m^3" if self.cavity is not None else "m"

    def scaled_load(self) -> TestLoad | None:
        """Return the load as a function of time [s]: nothing at 1 s, row k at k + 2 s."""
        if self.load is None:
            return None
        factors = np.concatenate([[0.0], np.asarray(self.factors)])
        times = np.arange(1.0, len(factors) + 1.0)

        def scaled(vector: ArrayLike | Callable[[float], ArrayLike]) -> Callable[[float], Array]:
            return lambda t: np.interp(t, times, factors) * np.asarray(vector, float)

        if isinstance(self.load, PointLoad):
            return replace(self.load, force=scaled(self.load.force))
        if isinstance(self.load, SurfaceLoad):
            return replace(self.load, traction=scaled(self.load.traction))
        return replace(self.load, moment=scaled(self.load.moment))


def load_static_tests(
    files: str | Path | Sequence[str | Path], *, units: str | None = None, **parts: Any
) -> list[StaticTest]:
    """Return the static tests in CSV files, one for each file.

    The columns are `load` (the factors of the load), `u.CONTROL` for each control, and either
    `displacement` along the direction, or `x`, `y` (and `z`), or `volume`. Units are given as in
    recordings; `units` is the one of displacements, if the file does not say it. The other
    arguments are those of StaticTest, for all files. Raises InputError with the file, the line and
    the remedy.

    >>> import pliant as pl
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from pliant.design import load_static_tests
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "bending.csv"
    ...     _ = file.write_text("load,displacement [mm]\\n0.1,1.0\\n0.2,2.1\\n")
    ...     load = pl.PointLoad(point=(0.1, 0.01), force=(0.0, -1.0))
    ...     load_static_tests(file, load=load, effector="tip", direction=(0.0, -1.0))
    [<StaticTest bending: 2 rows, displacement of tip>]
    """
    return [_static_test(path, units, parts) for path in recording_paths(files)]


def _static_test(path: Path, units: str | None, parts: Mapping[str, Any]) -> StaticTest:
    table = read_table(path)
    controls = control_columns(table)
    measured = _measured_columns(table, {*controls.values()})
    factors = control_factors(table, [*controls.values(), *_columns(table, "load")])
    for k, default in measured.items():
        volume = table.columns[k] == "volume"
        factors[k] = table.scale(k, VOLUMES if volume else LENGTHS, default or units or "m")
    rows = []
    for line, cells in table.rows:
        row = {k: table.number(line, k, cells[k]) * f for k, f in factors.items()}
        check_present(table, line, row)
        rows.append([row.get(k, 0.0) for k in range(len(cells))])
    values = np.array(rows)
    found = values[:, list(measured)]
    _check_quantity(table, parts)
    try:
        return StaticTest(
            values=found if len(measured) > 1 else found[:, 0],
            factors=values[:, table.columns.index("load")] if "load" in table.columns else None,
            controls={name: values[:, k] for name, k in controls.items()} or None,
            control_units=control_units(table),
            name=path.stem,
            **parts,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_quantity(table: Table, parts: Mapping[str, Any]) -> None:
    """Raise InputError for displacements of a test of a volume, and the reverse."""
    cavity = parts.get("cavity")
    if cavity is not None and "volume" not in table.columns:
        raise InputError(
            f"{table.file} has no column 'volume', but the test measures the volume of the cavity "
            f"{quoted(cavity)}. Rename its column, or give an effector or a point instead."
        )
    if cavity is None and "volume" in table.columns:
        raise InputError(
            f"{table.file} has a column 'volume', but the test measures a displacement. Give "
            "cavity= instead of the effector or point, or rename the column."
        )


def _columns(table: Table, *names: str) -> list[int]:
    return [k for k, column in enumerate(table.columns) if column in names]


def _measured_columns(table: Table, controls: set[int]) -> dict[int, str]:
    """Return the columns of measured values with their default units."""
    for name in table.columns:
        if table.columns.count(name) > 1:
            raise InputError(f"{table.file} has two columns '{name}'. Give each its own name.")
    for k, name in enumerate(table.columns):
        if k not in controls and name not in ("load", *QUANTITIES, *AXES):
            raise InputError(
                f"{table.file}: the column {quoted(name)} is not 'load', 'u.CONTROL', "
                "'displacement', 'x', 'y', 'z' or 'volume'. Rename or remove it."
            )
    found = [_columns(table, "displacement"), _columns(table, *AXES), _columns(table, "volume")]
    if sum(bool(columns) for columns in found) != 1:
        raise InputError(
            f"{table.file} needs the measured values in one way: a column 'displacement', the "
            "columns 'x', 'y', 'z', or a column 'volume'."
        )
    return {k: "m^3" if columns is found[2] else "" for columns in found for k in columns}


def controls_of_rows(test: StaticTest, controls: Sequence[Any], neutral: Array) -> Array:
    """Return the controls (n + 1, n_controls) of the rows, first the neutral ones. Raises
    InputError for controls that the robot does not have."""
    n, names = len(np.asarray(test.values)), [control.name for control in controls]
    if test.controls is None:
        return np.tile(neutral, (n + 1, 1))
    if isinstance(test.controls, Mapping):
        if set(test.controls) != set(names):
            raise InputError(
                f"{test.name} has the controls {quoted(', '.join(test.controls))}, but the robot "
                f"has {quoted(', '.join(names))}. Give a column for each control."
            )
        check_control_units(test.name, test.control_units or {}, controls)
        columns = [
            finite_array(f"{test.name}: the control '{name}'", test.controls[name], (n,))
            for name in names
        ]
        rows = np.stack(columns, axis=1)
    else:
        rows = finite_array(f"{test.name}: its table of controls", test.controls, (n, len(names)))
    return np.concatenate([neutral[None], rows])
