"""Experiments from robot files: simulate, plan, follow or identify according to [task]."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from pliant.bodies import Beams, Solid
from pliant.core import InputError, Linearizable, counted
from pliant.dynamics.overlaps import overlap_note
from pliant.planners import Options, plan
from pliant.planners.choose import planner_named
from pliant.planners.inverse_control import InverseController, inverse_control
from pliant.report import Plot
from pliant.report.control_plots import control_plots
from pliant.report.outcome import write_trajectory
from pliant.report.result_report import result_outcome
from pliant.report.robot_scene import robot_scene
from pliant.robot_files import LinkedTask, Task, load_task
from pliant.robot_files.identification_task import IdentificationObjective
from pliant.robot_files.task import QUASISTATIC, FollowingObjective, PlanningObjective
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.identification import check_identification, data_digest, perform_identification
from pliant.zoo.linked_task import linked_task_experiment


def task_experiment(path: Path) -> Experiment:
    """Return the experiment of a robot file. Raises `InputError` if the file is invalid."""
    task = load_task(path)
    if not re.fullmatch(r"\w[\w .-]*", path.stem):
        raise InputError(
            f"The file name '{path.name}' gives no name for its results. Rename it, for example "
            "to robot.toml."
        )
    try:
        if isinstance(task, LinkedTask):
            return linked_task_experiment(path, task)
        model = task.model()
        _check_objective(task, model)
    except InputError as error:
        raise InputError(f"{path.name}, task: {error}") from None
    mesh_bytes = b"".join(
        np.ascontiguousarray(part).tobytes()
        for part in (task.robot.body().rest, task.robot.body().pairs)
    )

    def perform(run: ExperimentRun) -> Outcome:
        if isinstance(task.objective, IdentificationObjective):
            return perform_identification(run, task, model)
        chosen = replace(task, steps=int(run.settings["steps"]))
        if isinstance(task.objective, PlanningObjective):
            return _plan(run, chosen, model)
        if isinstance(task.objective, FollowingObjective):
            return _follow(run, chosen, model)
        return _simulate(run, chosen, model)

    def probe(settings: Mapping[str, Setting]) -> tuple:
        checked = task.model(
            design=tuple(
                f"{name}.{key}"
                for name in task.robot.body().material_cells
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
        size=f"{counted(model.space.n_dofs, 'unknown')}, {counted(model.n_controls, 'control')}",
        takes="seconds",
        # the content of the file and a digest of its mesh
        source=f"{path.read_bytes().hex()} {sha256(mesh_bytes).hexdigest()}{_data(task)}",
        perform=perform,
        probe=probe,
        settings=_settings(task),
        quick=_quick(task),
    )


def _data(task: Task) -> str:
    """Return a digest of the measurements of a task, "" for one without."""
    measured = isinstance(task.objective, IdentificationObjective)
    return f" {data_digest(task.objective)}" if measured else ""  # type: ignore[arg-type]


def _settings(task: Task) -> dict[str, Setting]:
    if isinstance(task.objective, IdentificationObjective):
        return {"iterations": task.objective.iterations, "small_animation": False}
    planning = isinstance(task.objective, PlanningObjective)
    iterations = {"iterations": task.objective.iterations} if planning else {}  # type: ignore[union-attr]
    return {"steps": task.steps, **iterations, "small_animation": False}


def _quick(task: Task) -> dict[str, Setting]:
    """Return settings that run in seconds. A plan keeps its steps because its goals have times."""
    if isinstance(task.objective, IdentificationObjective):
        return {"iterations": min(task.objective.iterations, 5), "small_animation": True}
    if isinstance(task.objective, PlanningObjective):
        return {"iterations": min(task.objective.iterations, 20), "small_animation": True}
    return {"steps": min(task.steps, 10), "small_animation": True}


def _plan(run: ExperimentRun, task: Task, model: Linearizable) -> Outcome:
    assert isinstance(task.objective, PlanningObjective)
    options = Options(
        iterations=int(run.settings["iterations"]),
        folder=run.folder / "plan",
        resume=run.resume,
        progress=run.progress,
    )
    found = plan(task.problem(model), method=task.objective.method, options=options)
    found.to_csv(run.folder / "plan.csv")
    write_trajectory(run.folder, found.states, found.controls, dt=task.dt, key=run.key)
    return result_outcome(found, title=task.robot.name)


def _check_objective(task: Task, model: Linearizable) -> None:
    """Raise `InputError` for an invalid planner, controller or measurement before the run
    starts."""
    if isinstance(task.objective, IdentificationObjective):
        check_identification(task, model)
    if isinstance(task.objective, PlanningObjective) and task.objective.method is not None:
        planner_named(task.objective.method)
    if isinstance(task.objective, FollowingObjective):
        _controller(task.objective, model)


def _controller(following: FollowingObjective, model: Linearizable) -> InverseController:
    return inverse_control(
        model,  # type: ignore[arg-type]  # following_task admits these rules only
        effectors=[path.effector for path in following.paths],
        weights=[path.weight for path in following.paths],
        directions=[path.axes for path in following.paths],
        limits=following.limits,
        strokes=following.strokes,
        fixed=following.fixed,
        obstacles=following.obstacles,
    )


def _follow(run: ExperimentRun, task: Task, model: Linearizable) -> Outcome:
    following = task.objective
    assert isinstance(following, FollowingObjective)
    controller = _controller(following, model)
    targets = following.targets(task.steps, task.dt)
    log = controller.track(targets, progress=run.progress)
    write_trajectory(run.folder, log.states, log.controls, dt=task.dt, key=run.key)
    outcome, error = result_outcome(log, title=task.robot.name), float(log.errors[-1])
    if outcome.reached and error > following.tolerance:
        message = (
            f"the final distance to the target is {error:.3g} m, more than the tolerance of "
            f"{following.tolerance:.3g} m ({log.messages[-1]}). Use more steps, a closer target or "
            "tolerance = ..."
        )
        return replace(outcome, reached=False, message=message)
    return outcome


def _simulate(run: ExperimentRun, task: Task, model: Linearizable) -> Outcome:
    robot, body = task.robot, task.robot.body()
    path = run.simulate(model, lambda k, x: task.control(k), count=task.steps, dt=task.dt)
    positions = path.path[:, : model.space.n_dofs]
    times = np.concatenate([[0.0], path.times])
    tracks = {
        name: np.stack([robot.effector_position(name, q) for q in positions])
        for name in robot.effectors
    }
    metrics = {
        f"final {axis} of {name}": Metric(value=float(track[-1, k]), unit="m")
        for name, track in tracks.items()
        for k, axis in enumerate("xyz"[: body.dim])
    }
    metrics["largest number of Newton iterations"] = Metric(
        value=int(path.scalars["iterations"].max(initial=0))
    )
    axes = "xyz"[: body.dim]
    time_label = "step" if task.rule == QUASISTATIC else "time [s]"
    plots = [
        Plot(
            title=f"Effector {name}",
            x=time_label,
            y="position [m]",
            series={axis: (times, track[:, k]) for k, axis in enumerate(axes)},
        )
        for name, track in tracks.items()
    ]
    plots += control_plots(robot, times, path.controls, x=time_label)
    scene = (
        robot_scene(
            robot, positions, dt=None if task.rule == QUASISTATIC else task.dt, title=robot.name
        )
        if isinstance(body, Solid | Beams)
        else None
    )
    note = overlap_note(model, path.path)
    notes = [f"{note[0].upper()}{note[1:]}."] if note else []
    return Outcome(metrics=metrics, plots=plots, scene=scene, notes=notes)
