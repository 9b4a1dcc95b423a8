"""What an experiment is, and what running one writes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, is_integer, nearest, quoted, require_seed
from pliant.dynamics.simulate import Policy, iterate_steps
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
    """The surroundings of one run: its settings, folder and random numbers, and a trajectory that
    survives a crash."""

    settings: Mapping[str, Setting]
    folder: Path
    identity: str  # of what is run, such as the text of a robot file
    seed: int = 0
    resume: bool = False
    cluster: str | None = None  # address of workers for exact evaluations; changes no number
    progress: Progress = silent

    @property
    def key(self) -> str:
        """The same for the same experiment, settings and seed."""
        made_by = {
            "pliant": versions().get("pliant", ""),
            "solvers": list(available_solvers()),
        }  # other ones give other bits
        return content_key(
            {
                "identity": self.identity,
                "settings": dict(self.settings),
                "seed": self.seed,
                **made_by,
            }
        )

    @property
    def origin(self) -> dict[str, Any]:
        """What a resumed run must have in common with the first one."""
        return {
            "key": self.key,
            "seed": self.seed,
            "settings": dict(self.settings),
            "solvers": list(available_solvers()),
            "versions": versions(),
        }

    def simulate(
        self,
        model: Dynamics,
        controls: Array | Policy,
        *,
        count: int,
        dt: float,
        x0: Array | None = None,
    ) -> Trajectory:
        """`count` steps written in chunks as they are made; with `resume`, those on disk are read
        instead of made again."""
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

    def keep(self, states: Array, controls: Array, *, dt: float) -> Trajectory:
        """Write a run that was simulated elsewhere: states (steps + 1, n_state), controls (steps,
        n_controls)."""
        return write_trajectory(self.folder, states, controls, dt=dt, key=self.key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """A named piece of work: what it shows, its settings with defaults, and the function that does
    it."""

    name: str
    shows: str  # one line
    size: str  # such as "525 vertices, 4 controls"
    takes: str  # typical run time, such as "20 s"
    perform: Callable[[ExperimentRun], Outcome]
    probe: Callable[
        [Mapping[str, Setting]], tuple[Any, Array, Array]
    ]  # (model, state, control) whose derivatives gradcheck looks at
    paper: str | None = None  # such as "000"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    quick: Mapping[str, Setting] = field(
        default_factory=dict
    )  # settings that bring minutes down to seconds
    source: str = ""  # what a robot file says, where it was made from one
    clustered: bool = False  # can it use the workers of a cluster?
    prepare: Callable[[Mapping[str, Setting]], object] = lambda settings: (
        None
    )  # says what is wrong with settings

    def chosen(
        self, overrides: Mapping[str, str] | None = None, *, quick: bool = False
    ) -> dict[str, Setting]:
        """The settings with overrides, given as text, read in the type of their defaults."""
        settings = {**self.settings, **(self.quick if quick else {})}
        for key, text in (overrides or {}).items():
            if key not in settings:
                raise InputError(f"{self.name} has no setting '{key}'; {nearest(key, settings)}")
            settings[key] = _read(key, text, settings[key])
        return settings


_KINDS = {bool: "true or false,", int: "a whole number", float: "a number", str: "text"}


def _read(key: str, text: str, default: Setting) -> Setting:
    kind = type(default)
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InputError(
            f"The setting {key} takes {_KINDS[kind]} such as {default}, not {quoted(text)}."
        ) from None
    if isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"The setting {key} is {text[:60]}; it must be a finite number.")
    if kind is int and not is_integer(value):
        raise InputError(f"The setting {key} is {text[:60]}; it must be below {2**63}.")
    if (kind is int and value < 1) or (key in ("dt", "tolerance") and value <= 0.0):  # type: ignore[operator]
        raise InputError(
            f"The setting {key} is {text}; it must be {'1 or more' if kind is int else 'positive'}."
        )
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
    """Run an experiment and write its result folder; gives the content of result.json. With
    `resume`, a finished run is only read; `cluster` is the address of a dask scheduler;
    `progress` is as in `plan`. An old result stays in the folder until the new one is complete."""
    if cluster is not None and not experiment.clustered:
        raise InputError(
            f"{experiment.name} makes no exact evaluations that a cluster could share; run it "
            "without --cluster."
        )
    folder = checked_folder(out, experiment.name)
    here = ExperimentRun(
        settings=experiment.chosen(overrides, quick=quick),
        folder=folder,
        identity=experiment.name + experiment.source,
        seed=require_seed(seed),
        resume=resume,
        cluster=cluster,
    )
    experiment.prepare(here.settings)  # what is wrong is said before anything is removed
    if cluster is not None:
        Cluster(abs, cluster).close()
    with lock_result_folder(folder):
        finished = read_result(folder / RESULT) if resume and (folder / RESULT).is_file() else None
        if finished is not None and finished["key"] == here.key:
            return finished
        if finished is not None and not (folder / UNFINISHED).is_dir():
            check_origin(folder, here.origin, finished)
        with replace_result(folder, resume=resume) as work, reporting(progress) as report:
            return _perform(experiment, replace(here, folder=work, progress=report))


def _perform(experiment: Experiment, here: ExperimentRun) -> dict[str, Any]:
    start = time.perf_counter()
    if here.resume and (here.folder / ORIGIN).is_file():
        check_origin(here.folder, here.origin, read_json(here.folder / ORIGIN))
    write_json(here.folder / ORIGIN, here.origin)
    outcome = experiment.perform(here)
    small = bool(here.settings.get("small_animation", False))
    media = write_animation(here.folder, outcome.scene, small=small, progress=here.progress)
    fields = {
        "name": experiment.name,
        "paper": experiment.paper,
        "shows": experiment.shows,
        **here.origin,
        "seconds": round(time.perf_counter() - start, 3),
    }
    result = result_content(outcome, fields)
    write_page(here.folder, result, outcome, media)
    remove_files(here.folder, ORIGIN)
    write_json(here.folder / RESULT, result)  # last: a folder with a result is complete
    return result
