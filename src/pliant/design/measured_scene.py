"""Measurements as scenes: a simulation, and the part of its states that was measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, Dynamics
from pliant.design.marker_sampling import marker_observations, marker_points, marker_sampling
from pliant.design.measurement_checks import body_size, check_size, check_units, steps_of
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
    weights = marker_points(recording, model)
    sampling = marker_sampling(weights, model, recording.dim)
    least, steps = (steps_of(recording, model.dt, offset) for offset in (0.0, largest_offset))
    markers = tuple(recording.markers or ())
    levels = recording.noise
    if levels is None and noise is not None:
        levels = checked_noise(recording.name, noise, len(markers))
    size = body_size(model)
    check_units(recording, weights, model)
    scale = np.full(len(markers), UNIT_OF_RESIDUALS * size) if levels is None else levels
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


def _tested_scene(test: StaticTest, model: Dynamics) -> MeasuredScene:
    quasistatic = static_model(test, model)
    same = quasistatic.params.size == model.params.size
    made: Dynamics = (
        quasistatic if same else WithUnusedParameters(model=quasistatic, params=model.params)
    )
    controls = controls_of_rows(test, quasistatic.robot.controls, quasistatic.neutral_controls())
    check_size(test, quasistatic)
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
