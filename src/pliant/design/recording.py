"""Recordings: measured positions of markers over time, and the controls that the robot had."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import (
    MAX_COORDINATE,
    Array,
    Dynamics,
    InputError,
    counted,
    finite_array,
    nearest,
    quoted,
    require_kind,
    require_number,
    require_positive,
)
from pliant.design.recording_table import check_control_units

# a table (steps, n_controls), a function of time [s], or columns (n,) at the times by name
RecordedControls = ArrayLike | Callable[[float], ArrayLike] | Mapping[str, ArrayLike]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MarkerRecording:
    """Measured positions of markers over time, such as from motion capture.

    Parameters
    ----------
    times : (n,) [s], increasing
    positions : (n, m, dim) [m] of the m markers; NaN for a missing sample
    markers : names of the markers; None: m0, m1, ...
    points : (m, dim) [m] material points of the markers in the rest shape; None: markers are
        effectors of the robot, by their names
    controls : (steps, n_controls) of the model's time steps; a function of time [s]; or columns
        (n,) at `times` by the name of the control, linear between them. Step k takes the value at
        its end, as robot files do. None: neutral controls.
    control_units : units of columns of controls in a file, by name. They are compared with those of
        the robot; the columns themselves are in SI units
    noise : standard deviation [m] of a coordinate, or one for each marker; None: unknown
    offset : time [s] of the model when the clock of the recording shows zero
    x0 : state (n_state,) at time zero of the model; None: that of the model
    model : a model for this recording, with the same parameters, such as with another load

    Raises InputError if the parts do not fit together, or a marker was never seen.

    >>> import numpy as np
    >>> from pliant.design import MarkerRecording
    >>> times = np.linspace(0.0, 1.0, 11)
    >>> tip = np.stack([np.full(11, 0.1), 0.01 * np.sin(times)], axis=1)
    >>> MarkerRecording(times=times, positions=tip[:, None], points=[(0.1, 0.0)])
    <MarkerRecording: 11 times over 1 s, 1 marker, 2D>
    """

    times: ArrayLike
    positions: ArrayLike
    markers: Sequence[str] | None = None
    points: ArrayLike | None = None
    controls: RecordedControls | None = None
    control_units: Mapping[str, str] | None = None
    noise: ArrayLike | None = None
    offset: float = 0.0
    x0: ArrayLike | None = None
    model: Dynamics | None = None
    name: str = "recording"

    def __post_init__(self) -> None:
        times = _checked_times(self.name, self.times)
        positions = _checked_positions(self.name, self.positions, len(times))
        markers = _checked_markers(self.name, self.markers, positions)
        for field, value in (("times", times), ("positions", positions), ("markers", markers)):
            object.__setattr__(self, field, value)
        if self.points is not None:
            shape = (len(markers), positions.shape[2])
            points = finite_array(f"{self.name}: the array of rest points", self.points, shape, "m")
            object.__setattr__(self, "points", points)
        object.__setattr__(self, "noise", checked_noise(self.name, self.noise, len(markers)))
        offset = require_number(f"{self.name}: the time offset", self.offset, "s")
        if not np.isfinite(offset):
            raise InputError(f"{self.name}: the time offset is {offset:g} s; it must be finite.")
        object.__setattr__(self, "offset", offset)

    def __repr__(self) -> str:
        times, (_, m, dim) = np.asarray(self.times), np.shape(self.positions)
        missing = self.missing
        gaps = f", {100.0 * missing:.3g} % missing" if missing else ""
        return (
            f"<MarkerRecording{'' if self.name == 'recording' else f' {self.name}'}: "
            f"{counted(len(times), 'time')} over {times[-1] - times[0]:.3g} s, "
            f"{counted(m, 'marker')}, {dim}D{gaps}>"
        )

    @property
    def dim(self) -> int:
        return int(np.shape(self.positions)[2])

    @property
    def missing(self) -> float:
        """The fraction of missing samples."""
        return float(np.isnan(np.asarray(self.positions)).any(axis=2).mean())

    def clock(self, offset: float = 0.0) -> Array:
        """Return the times (n,) [s] on the clock of the model, with a further offset [s]."""
        return np.asarray(self.times) + (self.offset + offset)


def mean_recording(recordings: Sequence[MarkerRecording]) -> MarkerRecording:
    """Return the mean of recordings of one motion that was repeated n times.

    A fit to the mean has the same minimum and the same intervals as one to all repetitions, and
    takes one simulation instead of n. The noise is that of one recording over sqrt(n). Raises
    InputError if times, markers, rest points, tables of controls or noise differ, or samples are
    missing. Controls that are functions are taken from the first recording.

    >>> import numpy as np
    >>> from pliant.design import MarkerRecording, mean_recording
    >>> rng, times = np.random.default_rng(0), np.linspace(0.0, 1.0, 11)
    >>> def repeat():
    ...     noise = 1e-3 * rng.standard_normal((11, 1, 2))
    ...     return MarkerRecording(times=times, positions=noise, points=[(0.1, 0.0)], noise=1e-3)
    >>> mean_recording([repeat() for _ in range(25)]).noise
    array([0.0002])
    """
    require_kind("The recordings", recordings, (list, tuple), "give a list of repetitions")
    if not recordings:
        raise InputError("There are no recordings to average; give one or more.")
    first = recordings[0]
    for k, one in enumerate(recordings):
        require_kind(f"Recording {k}", one, MarkerRecording, "give a MarkerRecording")
        if one.missing:
            raise InputError(
                f"Recording {k} has missing samples, so the mean has no single noise level. Fit "
                "the recordings without averaging."
            )
        different = next((name for name in REPEATED if not _same_field(name, first, one)), None)
        if different is not None:
            raise InputError(
                f"Recording {k} differs from the first one in its {different}; average only "
                "repetitions of one motion."
            )
    noise = None if first.noise is None else np.asarray(first.noise) / np.sqrt(len(recordings))
    positions = np.mean([np.asarray(one.positions) for one in recordings], axis=0)
    return replace(first, positions=positions, noise=noise)


REPEATED = ("times", "markers", "points", "controls", "noise", "offset", "x0")


def _same_field(name: str, first: MarkerRecording, other: MarkerRecording) -> bool:
    """Return whether two recordings agree in a field. Functions are not compared."""
    a, b = getattr(first, name), getattr(other, name)
    if a is None or b is None or callable(a) or callable(b):
        return (a is None) == (b is None) and callable(a) == callable(b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


def _checked_times(name: str, times: Any) -> Array:
    at = finite_array(f"{name}: the array of times", times, (None,), "s")
    if not at.size:
        raise InputError(f"{name} has no times; give one row for each time.")
    late = np.flatnonzero(np.diff(at) <= 0.0) + 1
    if late.size:
        k = int(late[0])
        raise InputError(
            f"{name}: time {k} is {at[k]:g} s, not after {at[k - 1]:g} s before it. Sort the times "
            "and remove repeated ones."
        )
    return at


def _checked_positions(name: str, positions: Any, n: int) -> Array:
    """Return positions (n, m, dim), NaN where a coordinate is missing."""
    try:
        if np.iscomplexobj(positions):
            raise TypeError
        rows = np.array(positions, float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name}: the positions are {quoted(positions)}; give numbers [m] of shape (n, m, dim)."
        ) from None
    if rows.ndim != 3 or len(rows) != n or rows.shape[2] not in (2, 3) or not rows.shape[1]:
        raise InputError(
            f"{name}: the positions have shape {rows.shape}; give ({n}, markers, 2 or 3), one row "
            "for each time."
        )
    if (np.abs(rows) > MAX_COORDINATE).any():
        k, j, _ = np.argwhere(np.abs(rows) > MAX_COORDINATE)[0]
        raise InputError(
            f"{name}: the position of marker {j} at time {k} is {rows[k, j]} m; positions above "
            f"{MAX_COORDINATE:g} m have a wrong unit."
        )
    rows[np.isnan(rows).any(axis=2)] = np.nan
    return rows


def _checked_markers(name: str, markers: Any, positions: Array) -> tuple[str, ...]:
    count = positions.shape[1]
    if isinstance(markers, str) or (
        markers is not None and not all(isinstance(marker, str) and marker for marker in markers)
    ):
        raise InputError(f"{name}: the markers are {quoted(markers)}; give a list of names.")
    names = tuple(f"m{k}" for k in range(count)) if markers is None else tuple(markers)
    if len(names) != count or len(set(names)) != count:
        raise InputError(
            f"{name}: there are positions of {counted(count, 'marker')} and "
            f"{counted(len(set(names)), 'different name')}; give one name for each marker."
        )
    unseen = np.flatnonzero(np.isnan(positions).any(axis=2).all(axis=0))
    if unseen.size:
        raise InputError(
            f"{name}: the marker '{names[unseen[0]]}' has no sample at all. Remove it from the "
            "recording."
        )
    return names


def checked_noise(name: str, noise: Any, count: int) -> Array | None:
    """Return the noise level of each marker (count,) [m], or None. Raises InputError unless it is
    positive."""
    if noise is None:
        return None
    if np.ndim(noise) == 0:
        return np.full(count, require_positive(f"{name}: the noise", noise, "m"))
    levels = finite_array(f"{name}: the noise of the markers", noise, (count,), "m")
    if not (levels > 0.0).all():
        raise InputError(
            f"{name}: the noise of a marker is {levels.min():g} m; it must be positive. Remove "
            "markers without information."
        )
    return levels


def control_table(recording: MarkerRecording, model: Dynamics, steps: int, dt: float) -> Array:
    """Return the controls (steps, n_controls) of a recording on a model.

    Raises InputError if the recording names controls that the model does not have, or has another
    number of rows than steps."""
    given, name = recording.controls, recording.name
    if given is None:
        return np.tile(model.neutral_controls(), (steps, 1))
    ends = dt * np.arange(1, steps + 1)
    if isinstance(given, Mapping):
        return _named_controls(recording, given, model, ends)
    if callable(given):
        what = f"{name}: its control"
        return np.array(
            [finite_array(f"{what} at {t:g} s", given(t), (model.n_controls,)) for t in ends]
        )
    table = finite_array(f"{name}: its table of controls", given, (None, model.n_controls))
    if len(table) != steps:
        raise InputError(
            f"{name} lasts {counted(steps, 'step')} of {dt:g} s, but has controls for "
            f"{counted(len(table), 'step')}. Give a row for each step, with the value at its end. "
            "For values at the times of the samples give columns, controls={'NAME': ...}."
        )
    return table


def _named_controls(
    recording: MarkerRecording, columns: Mapping[str, ArrayLike], model: Dynamics, ends: Array
) -> Array:
    """Return columns of controls at the ends of the steps, in the order of the model."""
    robot: Any = getattr(model, "robot", None)
    known = [control.name for control in robot.controls] if robot is not None else []
    for column in columns:
        if column not in known:
            raise InputError(
                f"{recording.name} has a control '{column}', which the robot does not have; "
                f"{nearest(column, known)}"
            )
    absent = [control for control in known if control not in columns]
    if absent:
        raise InputError(
            f"{recording.name} has no control '{absent[0]}'. Add a column 'u.{absent[0]}', with "
            "zeros if it was not used."
        )
    check_control_units(recording.name, recording.control_units or {}, robot.controls)
    times = recording.clock()
    series = {
        name: finite_array(f"{recording.name}: the control '{name}'", columns[name], (len(times),))
        for name in known
    }
    table = [np.interp(ends, times, series[name]) for name in known]
    return np.stack(table, axis=1) if table else np.zeros((len(ends), 0))
