"""Run tasks of type "identify": read the measurements, fit, and report."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pliant.core import Linearizable, counted
from pliant.design import (
    Fit,
    MarkerRecording,
    StaticTest,
    identify,
    load_recordings,
    load_static_tests,
)
from pliant.design.identification import check_fit
from pliant.design.recording_files import recording_paths
from pliant.design.staged_fit import can_be_resumed
from pliant.optimisation.driver import checked_method, checked_stopping
from pliant.problem import FieldSmoothness, Variable
from pliant.report.outcome import write_trajectory
from pliant.report.result_report import result_outcome
from pliant.robot_files import Task
from pliant.robot_files.identification_task import IdentificationObjective
from pliant.store.files import read_bytes
from pliant.zoo.experiment import ExperimentRun, Outcome


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurements:
    """The measurements of a task."""

    fitted: tuple[MarkerRecording | StaticTest, ...]
    held_out: tuple[MarkerRecording, ...]

    def summary(self) -> str:
        """Return their numbers in words."""
        tests = sum(isinstance(one, StaticTest) for one in self.fitted)
        parts = [
            counted(len(self.fitted) - tests, "recording"),
            *([counted(tests, "static test")] if tests else []),
            *([f"{len(self.held_out)} held out"] if self.held_out else []),
        ]
        return ", ".join(parts)


def read_measurements(task: IdentificationObjective) -> Measurements:
    """Return the measurements of a task. Raises InputError for a file that is missing or wrong."""
    options: dict[str, Any] = {"units": task.units, "points": task.points}
    others = {path.resolve() for path in _paths(task.held_out)}
    # a pattern of recordings may match those that are held out
    used = [path for path in _paths(task.recordings) if path.resolve() not in others]
    recordings = load_recordings(_texts(used), **options) if used else []
    held_out = load_recordings(_texts(task.held_out), **options) if others else []
    tests = [
        one
        for part in task.tests
        for one in load_static_tests(
            _texts(part.files),
            units=part.units,
            load=part.load,
            effector=part.effector,
            point=part.point,
            direction=part.direction,
            cavity=part.cavity,
            noise=part.noise,
        )
    ]
    return Measurements(fitted=(*recordings, *tests), held_out=tuple(held_out))


def _texts(paths: Any) -> list[str]:
    return [str(path) for path in paths]


def _paths(paths: Any) -> list[Path]:
    return recording_paths(_texts(paths)) if paths else []


def data_digest(task: IdentificationObjective) -> str:
    """Return a digest of the files of the measurements."""
    patterns = [*task.recordings, *task.held_out, *(p for part in task.tests for p in part.files)]
    blob = b"".join(read_bytes(path) for path in _paths(patterns))
    return sha256(blob).hexdigest()


def fit_arguments(task: IdentificationObjective) -> dict[str, Any]:
    """Return the measurements and arguments of `identify`."""
    found = read_measurements(task)
    return {
        "measurements": list(found.fitted),
        "variables": [_variable(name, task.bounds) for name in task.variables],
        "noise": task.noise,
        "offsets": task.offsets or False,
        "held_out": list(found.held_out),
        "terms": [
            FieldSmoothness(variable=one.variable, weight=one.weight) for one in task.smoothness
        ],
        "fit_first": task.fit_first,
    }


def _variable(name: str, bounds: Mapping[str, tuple[float, float]]) -> Variable:
    lower, upper = bounds.get(name, (None, None))
    return Variable(name, lower=lower, upper=upper)


def check_identification(task: Task, model: Linearizable) -> str:
    """Return the measurements in words. Raises InputError if they do not fit the model."""
    objective = task.objective
    assert isinstance(objective, IdentificationObjective)
    checked_method(objective.method)
    checked_stopping(objective.iterations, objective.tolerance)
    arguments = fit_arguments(objective)
    check_fit(model, **arguments)
    return read_measurements(objective).summary()


def perform_identification(run: ExperimentRun, task: Task, model: Linearizable) -> Outcome:
    """Fit, write the fit into the folder "fit", and return its outcome."""
    objective = task.objective
    assert isinstance(objective, IdentificationObjective)
    folder = run.folder / "fit"
    resume = run.resume and can_be_resumed(folder)
    fit = identify(
        model,
        **fit_arguments(objective),
        method=objective.method,
        iterations=int(run.settings["iterations"]),
        tolerance=objective.tolerance,
        seed=run.seed,
        folder=folder,
        resume=resume,
        progress=run.progress,
    )
    if fit.interrupted:
        raise KeyboardInterrupt
    return _outcome(run, fit, title=task.robot.name)


def _outcome(run: ExperimentRun, fit: Fit, title: str) -> Outcome:
    moved = fit.motion
    if moved is not None and moved.model is not None:
        dt = float(moved.model.dt)
        write_trajectory(run.folder, moved.states, moved.controls, dt=dt, key=run.key)
    return result_outcome(fit, title=title)
