"""Measurements as scenes: a simulation, and the part of its states that was measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError
from pliant.design.marker_sampling import marker_observations, marker_points, marker_sampling
from pliant.design.recording import MarkerRecording, checked_noise, control_table
from pliant.design.static_scene import TestedQuantity, static_model, tested_quantity
from pliant.design.static_test import StaticTest, controls_of_rows
from pliant.design.unused_parameters import WithUnusedParameters
from pliant.problem import Observation
from pliant.store import content_key

Measurement = MarkerRecording | StaticTest
# Without a known noise, residuals are counted in units of this fraction of the robot's size or of
# the largest measured value; the unit of length of a fit has no effect on its result.
UNIT_OF_RESIDUALS = 1e-3
LARGEST_RATIO = 20.0  # of the extent of the markers to that of the robot; more is a wrong unit
MAX_STEPS = 100_000  # of a recording; more is a wrong unit of time


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredScene:
    """A measurement on a model: its simulation and its measured values (n, m, c), of m markers with
    c coordinates at n times."""

    name: str
    model: Dynamics
    steps: int
    controls: Array  # (steps, n_controls)
    x0: Array | None
    values: Array  # (n, m, c), NaN where missing
    axis: Array  # (n,) times, or factors or numbers of the rows
    axis_label: str
    markers: tuple[str, ...]
    unit: str
    scale: Array  # (m,) noise, or the unit of the residuals
    known_noise: bool
    observations: Callable[[float], tuple[Observation, ...]]  # of a time offset [s]
    # the derivatives of these observations by the offset [1/s]; None: no times
    rates: Callable[[float], tuple[Observation, ...]] | None
    predict: Callable[[Array, float], Array]  # (states, time offset [s]) -> (n, m, c)

    @property
    def digest(self) -> str:
        """Digits that are equal for equal data, to recognise a fit that is resumed."""
        values = np.nan_to_num(self.values)
        parts = {"values": values, "scale": self.scale}
        return content_key({**parts, "controls": self.controls, "axis": self.axis})[:16]

    @property
    def count(self) -> int:
        """The number of measured coordinates."""
        return int((~np.isnan(self.values)).sum())

    @property
    def size(self) -> float:
        """The norm of the measured values, in units of the noise."""
        return float(np.sqrt(np.nansum((self.values / self.scale[:, None]) ** 2)))


def measured_scene(
    measurement: Measurement,
    model: Dynamics,
    *,
    name: str,
    noise: float | None,
    largest_offset: float,
) -> MeasuredScene:
    """Return a measurement on a model, under a name. Raises InputError if it does not fit the
    model."""
    if isinstance(measurement, StaticTest):
        return replace(_tested_scene(measurement, model), name=name)
    return replace(_recorded_scene(measurement, model, noise, largest_offset), name=name)


def _recorded_scene(
    recording: MarkerRecording, model: Dynamics, noise: float | None, largest_offset: float
) -> MeasuredScene:
    model = recording.model or model
    sampling = marker_sampling(marker_points(recording, model), model, recording.dim)
    least, steps = (_steps(recording, model.dt, offset) for offset in (0.0, largest_offset))
    markers = tuple(recording.markers or ())
    levels = recording.noise
    if levels is None and noise is not None:
        levels = checked_noise(recording.name, noise, len(markers))
    body_size = _body_size(model)
    _check_units(recording, body_size)
    scale = np.full(len(markers), UNIT_OF_RESIDUALS * body_size) if levels is None else levels
    values = np.asarray(recording.positions)

    def predict(states: Array, offset: float) -> Array:
        return sampling.positions(states, recording.clock(offset)).reshape(values.shape)

    return MeasuredScene(
        name=recording.name,
        model=model,
        steps=steps,
        controls=_held(control_table(recording, model, least, model.dt), steps),
        x0=None if recording.x0 is None else np.asarray(recording.x0, float),
        values=values,
        axis=recording.clock(),
        axis_label="time [s]",
        markers=markers,
        unit="m",
        scale=np.asarray(scale),
        known_noise=levels is not None,
        observations=lambda offset: marker_observations(
            recording, sampling, np.asarray(scale), offset
        ),
        rates=lambda offset: marker_observations(
            recording, sampling, np.asarray(scale), offset, rates=True
        ),
        predict=predict,
    )


def _held(controls: Array, steps: int) -> Array:
    """Return controls (steps, n_controls) that keep their last value."""
    return np.concatenate([controls, np.tile(controls[-1:], (steps - len(controls), 1))])


def _steps(recording: MarkerRecording, dt: float, largest_offset: float) -> int:
    """Return the number of steps [dt s] of a recording. Raises InputError for a wrong time base."""
    clock = recording.clock()
    if clock[0] < -1e-9:
        raise InputError(
            f"{recording.name} starts at {clock[0]:g} s, before time zero of the model. Shift its "
            "times, or give offset=."
        )
    steps = int(np.ceil((clock[-1] + largest_offset) / dt - 1e-6))
    if steps > MAX_STEPS:
        raise InputError(
            f"{recording.name} lasts {clock[-1]:g} s, which is {steps} steps of {dt:g} s. If its "
            "times are in another unit, write it, as in 'time [ms]'; else cut it into pieces."
        )
    if len(clock) >= 10 and dt <= 0.1 and np.array_equal(clock, clock[0] + np.arange(len(clock))):
        raise InputError(
            f"The times of {recording.name} are {clock[0]:g}, {clock[1]:g}, {clock[2]:g}, ... as "
            "numbers of frames are. Divide them by the frame rate [Hz]; if they are seconds, use a "
            "model with dt above 0.1 s."
        )
    return max(1, steps)


def _body_size(model: Any) -> float:
    """Return the diagonal [m] of the body at rest."""
    body = model.body
    rest = body.rest.reshape(-1, body.dim)[body.is_position]
    return float(np.linalg.norm(np.ptp(rest, axis=0))) or 1.0


def _check_units(recording: MarkerRecording, body_size: float) -> None:
    """Raise InputError if markers are spread much wider or narrower than the robot."""
    first = np.asarray(recording.positions)
    middle = np.nanmedian(first, axis=0)
    extent = float(np.linalg.norm(np.ptp(middle, axis=0)))
    if recording.points is not None:
        known = float(np.linalg.norm(np.ptp(np.asarray(recording.points), axis=0)))
        ratio = extent / known if known > 0.01 * body_size else 1.0
    else:
        ratio = max(extent / body_size, 1.0)
    if not 1.0 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
        raise InputError(
            f"The markers of {recording.name} are {extent:.3g} m apart, {ratio:.3g} times as far "
            "as on the robot at rest. Check the unit: load_recordings(..., units='mm'), or "
            "'tip.x [mm]' in the file."
        )


def _tested_scene(test: StaticTest, model: Dynamics) -> MeasuredScene:
    quasistatic = static_model(test, model)
    same = quasistatic.params.size == model.params.size
    made: Dynamics = (
        quasistatic if same else WithUnusedParameters(model=quasistatic, params=model.params)
    )
    names = [control.name for control in quasistatic.robot.controls]
    controls = controls_of_rows(test, names, quasistatic.neutral_controls())
    values = np.asarray(test.values)
    unit = test.noise or UNIT_OF_RESIDUALS * (float(np.abs(values).max()) or 1.0)
    measured: TestedQuantity = tested_quantity(test, quasistatic)
    observations = measured.observations(test.name, values, unit)
    numbers = np.arange(1.0, len(values) + 1.0)
    return MeasuredScene(
        name=test.name,
        model=made,
        steps=len(controls),
        controls=controls,
        x0=None,
        values=values[:, None, :],
        axis=numbers if test.factors is None else np.asarray(test.factors),
        axis_label="row" if test.factors is None else "factor of the load",
        markers=(test.effector or test.cavity or "point",),
        unit=test.unit,
        scale=np.array([unit]),
        known_noise=test.noise is not None,
        observations=lambda offset: observations,
        rates=None,
        predict=lambda states, offset: measured.values(states)[:, None, :],
    )
