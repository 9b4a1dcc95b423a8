"""A robot file as an experiment: simulate it under its own task and report on it."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from pliant.bodies import Beams, Solid
from pliant.core import InputError
from pliant.dynamics.overlaps import overlap_note
from pliant.report import Plot
from pliant.robot_files import Task, load_task
from pliant.robot_files.task import QUASISTATIC
from pliant.zoo.control_plots import control_plots
from pliant.zoo.experiment import Experiment, Metric, Outcome, Run, Setting
from pliant.zoo.pictures import scene


def task_experiment(path: Path) -> Experiment:
    """The experiment that a robot file describes."""
    task = load_task(path)
    model = task.model()
    if not re.fullmatch(r"\w[\w .-]*", path.stem):
        raise InputError(
            f"The file name '{path.name}' gives no name for its results; rename it, for example "
            "to robot.toml."
        )
    matter = b"".join(
        np.ascontiguousarray(part).tobytes()
        for part in (task.robot.body().rest, task.robot.body().pairs)
    )

    def perform(run: Run) -> Outcome:
        return _simulate(run, task, model)

    def probe(settings: Mapping[str, Setting]) -> tuple:
        checked = task.model(
            design=tuple(
                f"{name}.{key}"
                for name in task.robot.body().groups
                for key in ("E", "nu", "density")
            )
        )
        x = checked.initial_state()
        for k in range(2):
            x = checked.step(x, task.control(k), None, k).x
        return checked, x, task.control(2)

    return Experiment(
        name=path.stem,
        shows=f"{task.robot.name} under the task of {path.name}",
        size=f"{model.space.n_dofs} unknowns, {model.n_controls} controls",
        takes="seconds",
        # the file, and the meshes it may point to
        source=f"{path.read_bytes().hex()} {sha256(matter).hexdigest()}",
        perform=perform,
        probe=probe,
        settings={"steps": task.steps, "small_film": False},
        quick={"steps": min(task.steps, 10), "small_film": True},
    )


def _simulate(run: Run, task: Task, model) -> Outcome:
    robot, body = task.robot, task.robot.body()
    count = int(run.settings["steps"])
    path = run.simulate(model, lambda k, x: task.control(k), count=count, dt=task.dt)
    positions = path.path[:, : model.space.n_dofs]
    times = np.concatenate([[0.0], path.times])
    tracks = {name: np.stack([robot.place(name, q) for q in positions]) for name in robot.effectors}
    metrics = {
        f"{name} {axis} at the end": Metric(value=float(track[-1, k]), unit="m")
        for name, track in tracks.items()
        for k, axis in enumerate("xyz"[: body.dim])
    }
    metrics["largest Newton count"] = Metric(value=int(path.scalars["iterations"].max(initial=0)))
    axes = "xyz"[: body.dim]
    clock = "step" if task.rule == QUASISTATIC else "time [s]"
    plots = [
        Plot(
            title=f"Effector {name}",
            x=clock,
            y="position [m]",
            series={axis: (times, track[:, k]) for k, axis in enumerate(axes)},
        )
        for name, track in tracks.items()
    ]
    plots += control_plots(robot, times, path.controls, x=clock)
    film = (
        scene(robot, positions, dt=task.dt, title=robot.name)
        if isinstance(body, Solid | Beams)
        else None
    )
    note = overlap_note(model, path.path)
    notes = [f"{note[0].upper()}{note[1:]}."] if note else []
    return Outcome(metrics=metrics, plots=plots, scene=film, notes=notes)
