"""Experiments: named tasks with settings. Running one writes a result folder."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, is_integer, nearest, quoted, require_seed
from pliant.dynamics.simulation import Policy, iterate_steps
from pliant.linalg import available_solvers
from pliant.parallel import Cluster
from pliant.progress import Progress, reporting, silent
from pliant.report import Metric as Metric
from pliant.report import Outcome as Outcome
from pliant.report import (
    result_content,
    versions,
    write_animation,
    write_page,
    write_trajectory,
)
from pliant.report.result_folder import (
    ORIGIN,
    RESULT,
    UNFINISHED,
    check_origin,
    checked_folder,
    lock_result_folder,
    read_result,
    replace_result,
)
from pliant.store import (
    Header,
    Trajectory,
    TrajectoryWriter,
    content_key,
    has_trajectory,
    read_json,
    read_trajectory,
    remove_files,
    write_json,
)

Setting = float | int | str | bool


@dataclass(frozen=True, kw_only=True, eq=False)
class ExperimentRun:
    """The settings, result folder, seed and progress of one run of an experiment."""

    settings: Mapping[str, Setting]
    folder: Path
    identity: str  # name of the experiment, followed by its source if it has one
    seed: int = 0
    resume: bool = False
    cluster: str | None = (
        None  # address of a dask scheduler for exact evaluations; results do not depend on it
    )
    progress: Progress = silent
    # what `closing` received; it is closed when the experiment ends
    resources: ExitStack = field(default_factory=ExitStack)

    @property
    def key(self) -> str:
        """A digest of the experiment, its settings, seed, version and solvers."""
        software = {
            "pliant": versions().get("pliant", ""),
            "solvers": list(available_solvers()),
        }  # results of other versions or solvers differ in the last bits
        return content_key(
            {
                "identity": self.identity,
                "settings": dict(self.settings),
                "seed": self.seed,
                **software,
            }
        )

    @property
    def origin(self) -> dict[str, Any]:
        """The data that a resumed run must share with the interrupted run."""
        return {
            "key": self.key,
            "seed": self.seed,
            "settings": dict(self.settings),
            "solvers": list(available_solvers()),
            "versions": versions(),
        }

    def closing(self, model: Any) -> Any:
        """Return a model whose store and workers are closed when the experiment ends."""
        self.resources.callback(model.close)
        return model

    def corner_file(self, folder: Path | None = None) -> Path:
        """Return the file for exact evaluations in a folder, by default that of the run. It is
        empty, unless the run is resumed."""
        store = (self.folder if folder is None else folder) / "corners.sqlite"
        if not self.resume:
            remove_files(store.parent, *(store.name + part for part in ("", "-wal", "-shm")))
        return store

    def simulate(
        self,
        model: Dynamics,
        controls: Array | Policy,
        *,
        count: int,
        dt: float,
        x0: Array | None = None,
    ) -> Trajectory:
        """Simulate `count` steps and write them in chunks. With `resume`, steps on disk are read
        instead of simulated again."""
        x = model.initial_state() if x0 is None else x0
        header = Header(
            key=self.key,
            dt=dt,
            n_state=x.size,
            n_controls=model.n_controls,
            scalars=("iterations",),
            chunk=20,
        )
        if self.resume and has_trajectory(self.folder):
            writer, done = TrajectoryWriter.resume(
                self.folder, key=self.key, header=header, initial=x, max_steps=count
            )
            x = done.path[-1]
        else:
            writer = TrajectoryWriter.start(self.folder, x, header, replace=True)
        with writer:
            for u, step in iterate_steps(
                model, controls, count - writer.steps, x, first=writer.steps
            ):
                writer.append(step.x, u, iterations=step.status.iterations)
                self.progress("simulating", writer.steps, count)
        return read_trajectory(self.folder)

    def save_trajectory(self, states: Array, controls: Array, *, dt: float) -> Trajectory:
        """Write a trajectory that was computed elsewhere: states (steps + 1, n_state), controls
        (steps, n_controls)."""
        return write_trajectory(self.folder, states, controls, dt=dt, key=self.key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """A named task: its description, settings with defaults, and the function that performs it."""

    name: str
    shows: str  # description in one line
    size: str  # such as "525 vertices, 4 controls"
    takes: str  # typical run time, such as "20 s"
    perform: Callable[[ExperimentRun], Outcome]
    # returns the (model, state, control) at which `pliant gradcheck` tests the derivatives
    probe: Callable[[Mapping[str, Setting]], tuple[Any, Array, Array]]
    paper: str | None = None  # number of the paper, such as "000"
    settings: Mapping[str, Setting] = field(default_factory=dict)  # with default values
    quick: Mapping[str, Setting] = field(default_factory=dict)  # overrides that run in seconds
    source: str = ""  # content of the robot file, if the experiment comes from one
    uses_cluster: bool = False  # whether a cluster can share exact evaluations or trainings
    # raises `InputError` if settings are invalid
    check_settings: Callable[[Mapping[str, Setting]], object] = lambda settings: None

    def resolve_settings(
        self, overrides: Mapping[str, str] | None = None, *, quick: bool = False
    ) -> dict[str, Setting]:
        """Return the settings with overrides. An override is text, read in the type of its default.

        Raises `InputError` for an unknown setting or an invalid value.
        """
        settings = {**self.settings, **(self.quick if quick else {})}
        for key, text in (overrides or {}).items():
            if key not in settings:
                raise InputError(f"{self.name} has no setting '{key}'; {nearest(key, settings)}")
            settings[key] = _parse_setting(key, text, settings[key])
        return settings


_TYPE_NAMES = {bool: "true or false,", int: "a whole number", float: "a number", str: "text"}


def _parse_setting(key: str, text: str, default: Setting) -> Setting:
    kind = type(default)
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InputError(
            f"The setting {key} takes {_TYPE_NAMES[kind]} such as {default}, not {quoted(text)}."
        ) from None
    if isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"The setting {key} is {text[:60]}. Give a finite number.")
    if kind is int and not is_integer(value):
        raise InputError(f"The setting {key} is {text[:60]}. Give a number below {2**63}.")
    if (kind is int and value < 1) or (key in ("dt", "tolerance") and value <= 0.0):  # type: ignore[operator]
        allowed = "1 or more" if kind is int else "a positive number"
        raise InputError(f"The setting {key} is {text}. Give {allowed}.")
    return value


def run(
    experiment: Experiment,
    *,
    out: str | Path | None = None,
    seed: int = 0,
    overrides: Mapping[str, str] | None = None,
    quick: bool = False,
    resume: bool = False,
    cluster: str | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, Any]:
    """Run an experiment, write its result folder and return the content of result.json.

    With `resume`, a finished result is read and an interrupted run continues. `cluster` is the
    address of a dask scheduler; `progress` is as in `plan`. An old result stays in the folder until
    the new one is complete.
    """
    if cluster is not None and not experiment.uses_cluster:
        raise InputError(
            f"{experiment.name} has no evaluations or trainings that a cluster could share. Run it "
            "without --cluster."
        )
    folder = checked_folder(out, experiment.name)
    context = ExperimentRun(
        settings=experiment.resolve_settings(overrides, quick=quick),
        folder=folder,
        identity=experiment.name + experiment.source,
        seed=require_seed(seed),
        resume=resume,
        cluster=cluster,
    )
    experiment.check_settings(context.settings)  # raises before any old result is removed
    if cluster is not None:
        Cluster(abs, cluster).close()
    with lock_result_folder(folder):
        finished = read_result(folder / RESULT) if resume and (folder / RESULT).is_file() else None
        if finished is not None and finished["key"] == context.key:
            return finished
        if finished is not None and not (folder / UNFINISHED).is_dir():
            check_origin(folder, context.origin, finished)
        with replace_result(folder, resume=resume) as work, reporting(progress) as report:
            return _perform(experiment, replace(context, folder=work, progress=report))


def _perform(experiment: Experiment, context: ExperimentRun) -> dict[str, Any]:
    start = time.perf_counter()
    if context.resume and (context.folder / ORIGIN).is_file():
        check_origin(context.folder, context.origin, read_json(context.folder / ORIGIN))
    write_json(context.folder / ORIGIN, context.origin)
    with context.resources:
        outcome = experiment.perform(context)
    small = bool(context.settings.get("small_animation", False))
    media = write_animation(context.folder, outcome.scene, small=small, progress=context.progress)
    fields = {
        "name": experiment.name,
        "paper": experiment.paper,
        "shows": experiment.shows,
        **context.origin,
        "seconds": round(time.perf_counter() - start, 3),
    }
    result = result_content(outcome, fields)
    write_page(context.folder, result, outcome, media)
    remove_files(context.folder, ORIGIN)
    write_json(context.folder / RESULT, result)  # last: a folder with a result is complete
    return result
