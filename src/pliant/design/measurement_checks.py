"""Checks of measurements against a model: the time base, units, and repeated measurements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from pliant.core import Array, Dynamics, InputError
from pliant.design.recording import MarkerRecording
from pliant.design.static_test import StaticTest

# of the extent, the distance or the displacement of markers to the size of the robot; more is a
# wrong unit
LARGEST_RATIO = 20.0
MAX_STEPS = 100_000  # of a recording; more is a wrong unit of time
UNIT_REMEDY = "Check the unit: load_recordings(..., units='mm'), or 'tip.x [mm]' in the file"


def steps_of(recording: MarkerRecording, dt: float, largest_offset: float) -> int:
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
    _check_rate(recording.name, clock, dt)
    return max(1, steps)


def _check_rate(name: str, clock: Array, dt: float) -> None:
    """Raise InputError for numbers of frames, and for times that are all in the first step."""
    if len(clock) >= 10 and dt <= 0.1 and np.array_equal(clock, clock[0] + np.arange(len(clock))):
        raise InputError(
            f"The times of {name} are {clock[0]:g}, {clock[1]:g}, {clock[2]:g}, ... as numbers of "
            "frames are. Divide them by the frame rate [Hz]; if they are seconds, use a model with "
            "dt above 0.1 s."
        )
    if len(clock) > 2 and clock[-1] < dt * (1.0 - 1e-6):
        raise InputError(
            f"{name} has {len(clock)} samples in {clock[-1]:g} s, less than one step of {dt:g} s. "
            "Use a smaller dt; a fast motion needs ImplicitEuler or BDF2."
        )


def body_size(model: Any) -> float:
    """Return the diagonal [m] of the body at rest."""
    body = model.body
    rest = body.rest.reshape(-1, body.dim)[body.is_position]
    return float(np.linalg.norm(np.ptp(rest, axis=0))) or 1.0


def check_units(recording: MarkerRecording, weights: sp.csr_matrix, model: Any) -> None:
    """Raise InputError if markers are spread much wider or narrower than on the robot, or are far
    from it. `weights` (m, n_nodes) are those of the nodes in the positions of the markers."""
    size = body_size(model)
    _check_extent(recording, size)
    if recording.x0 is not None:
        return
    rest = weights @ model.body.rest.reshape(-1, model.body.dim)
    distances = np.linalg.norm(np.asarray(recording.positions) - rest, axis=2)
    nearest_sample = np.nanmin(distances, axis=0)
    k = int(np.argmax(nearest_sample))
    if nearest_sample[k] > LARGEST_RATIO * size:
        marker = (recording.markers or ())[k]
        raise InputError(
            f"The marker '{marker}' of {recording.name} is always {nearest_sample[k]:.3g} m or "
            f"more from its place at rest, but the robot is {size:.3g} m large. {UNIT_REMEDY}. "
            "Check the origin of the coordinates too; if the robot starts there, give x0=."
        )


def _check_extent(recording: MarkerRecording, size: float) -> None:
    middle = np.nanmedian(np.asarray(recording.positions), axis=0)
    extent = float(np.linalg.norm(np.ptp(middle, axis=0)))
    if recording.points is not None:
        known = float(np.linalg.norm(np.ptp(np.asarray(recording.points), axis=0)))
        ratio = extent / known if known > 0.01 * size else 1.0
    else:
        ratio = max(extent / size, 1.0)
    if not 1.0 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
        raise InputError(
            f"The markers of {recording.name} are {extent:.3g} m apart, {ratio:.3g} times as far "
            f"as on the robot at rest. {UNIT_REMEDY}."
        )


def check_size(test: StaticTest, model: Dynamics) -> None:
    """Raise InputError for displacements that are much larger than the robot."""
    if test.cavity is not None:
        return
    largest, size = float(np.abs(np.asarray(test.values)).max()), body_size(model)
    if largest > LARGEST_RATIO * size:
        raise InputError(
            f"{test.name} has a displacement of {largest:.3g} m, but the robot is {size:.3g} m "
            "large. Check the unit: 'displacement [mm]' in the file, or units='mm'."
        )


def check_different(
    fitted: Sequence[MarkerRecording | StaticTest], held_out: Sequence[MarkerRecording | StaticTest]
) -> None:
    """Raise InputError for a measurement that is given twice, or both fitted and held out."""
    places: dict[int, str] = {}
    for place, measurements in (("fitted", fitted), ("held out", held_out)):
        for one in measurements:
            if id(one) in places:
                what = "twice" if places[id(one)] == place else "both to fit and to hold out"
                raise InputError(
                    f"The measurement '{one.name}' is given {what}, which makes the fit look more "
                    "certain than it is. Give it once."
                )
            places[id(one)] = place
