"""What an experiment is, and what running one writes."""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, is_whole, nearest, quoted, require_seed
from pliant.dynamics.simulate import Policy, march
from pliant.linalg import available
from pliant.parallel import Cluster
from pliant.progress import Progress, reporting, silent
from pliant.report import Plot, Scene, animate, still, write_report
from pliant.store import (
    Header,
    Trajectory,
    TrajectoryWriter,
    content_key,
    holds_trajectory,
    read_json,
    read_trajectory,
    remove,
    write_json,
)
from pliant.zoo.result_folder import (
    ORIGIN,
    RESULT,
    UNFINISHED,
    check_origin,
    checked_folder,
    held,
    read_result,
    replaced,
)

Setting = float | int | str | bool


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a result, beside what the paper reports (None: it does not)."""

    value: float | int | bool
    unit: str = "-"
    paper: float | str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What an experiment found. `reached` is False when it did not reach its goal, and then
    `sentence` says why."""

    metrics: Mapping[str, Metric]
    plots: Sequence[Plot] = ()
    scene: Scene | None = None
    reached: bool = True
    sentence: str = "done"
    notes: Sequence[
        str
    ] = ()  # said below the result and in the report, such as a plan's certificate


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
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
            "solvers": list(available()),
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
            "solvers": list(available()),
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
        if self.resume and holds_trajectory(self.folder):
            writer, done = TrajectoryWriter.resume(
                self.folder, key=self.key, header=header, initial=x, most=count
            )
            x = done.path[-1]
        else:
            writer = TrajectoryWriter.start(self.folder, x, header, replace=True)
        with writer:
            for u, step in march(model, controls, count - writer.steps, x, first=writer.steps):
                writer.append(step.x, u, iterations=step.status.iterations)
                self.progress("simulating", writer.steps, count)
        return read_trajectory(self.folder)

    def keep(self, states: Array, controls: Array, *, dt: float) -> Trajectory:
        """Write a run that was simulated elsewhere: states (steps + 1, n_state), controls (steps,
        n_controls)."""
        header = Header(
            key=self.key,
            dt=dt,
            n_state=states.shape[1],
            n_controls=controls.shape[1],
            scalars=(),
            chunk=20,
        )
        with TrajectoryWriter.start(self.folder, states[0], header, replace=True) as writer:
            for x, u in zip(states[1:], controls, strict=True):
                writer.append(x, u)
        return read_trajectory(self.folder)


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """A named piece of work: what it shows, its settings with defaults, and the function that does
    it."""

    name: str
    shows: str  # one line
    size: str  # such as "525 vertices, 4 controls"
    takes: str  # typical run time, such as "20 s"
    perform: Callable[[Run], Outcome]
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
    if kind is int and not is_whole(value):
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
    here = Run(
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
    with held(folder):
        finished = read_result(folder / RESULT) if resume and (folder / RESULT).is_file() else None
        if finished is not None and finished["key"] == here.key:
            return finished
        if finished is not None and not (folder / UNFINISHED).is_dir():
            check_origin(folder, here.origin, finished)
        with replaced(folder, resume=resume) as work, reporting(progress) as report:
            return _perform(experiment, replace(here, folder=work, progress=report))


def _perform(experiment: Experiment, here: Run) -> dict[str, Any]:
    start = time.perf_counter()
    if here.resume and (here.folder / ORIGIN).is_file():
        check_origin(here.folder, here.origin, read_json(here.folder / ORIGIN))
    write_json(here.folder / ORIGIN, here.origin)
    outcome = experiment.perform(here)
    media = _film(here, outcome)
    result: dict[str, Any] = {
        "name": experiment.name,
        "paper": experiment.paper,
        "shows": experiment.shows,
        "status": "done" if outcome.reached else f"not reached: {outcome.sentence}",
        "sentence": outcome.sentence,
        **here.origin,
        "seconds": round(time.perf_counter() - start, 3),
        "metrics": {
            name: {"value": m.value, "unit": m.unit, "paper": m.paper}
            for name, m in outcome.metrics.items()
        },
        "notes": list(outcome.notes),
    }
    notes = [*([] if outcome.sentence == "done" else [outcome.sentence]), *outcome.notes]
    shown = {**result, "paper": None if experiment.paper is None else f"paper {experiment.paper}"}
    write_report(here.folder, shown, outcome.plots, media=media, notes=notes)
    remove(here.folder, ORIGIN)
    write_json(here.folder / RESULT, result)  # last: a folder with a result is whole
    return result


def _film(here: Run, outcome: Outcome) -> list[str]:
    """Draw animation and picture; gives what the report shows."""
    if outcome.scene is None:
        return []
    here.progress("drawing the animation", 0, 1)
    small = bool(here.settings.get("small_film", False))
    how: dict[str, Any] = (
        {"fps": 3.0, "seconds_limit": 2.0, "size": (480, 360)}
        if small
        else {"seconds_limit": 8.0, "size": (960, 720)}
    )
    films = animate(outcome.scene, here.folder, **how)
    moved = np.abs(outcome.scene.frames - outcome.scene.frames[0]).max(axis=(1, 2))
    still(outcome.scene, int(np.argmax(moved)), here.folder / "picture.png")
    here.progress("drawing the animation", 1, 1)
    return [films[0].name]


def versions() -> dict[str, str]:
    """What a number may depend on."""
    found = {"python": platform.python_version()}
    for name in ("pliant", "numpy", "scipy", "numba", "cvxopt"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
