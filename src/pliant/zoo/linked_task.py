"""Experiments from the robot files of linked robots: simulate or plan according to [task]."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pliant.core import Array, Dynamics, counted
from pliant.planners import Options, plan, plan_refined
from pliant.planners.choose import planner_named
from pliant.planners.hierarchy import RefinedPlan
from pliant.report.model_plots import (
    Motion,
    final_position_metrics,
    model_motion,
    motion_plots,
    motion_scene,
)
from pliant.report.outcome import write_trajectory
from pliant.report.result_report import result_outcome
from pliant.robot_files.linked_task import LinkedTask
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.refinement_report import STATE, optional_metric

STORE = "added_mass.sqlite"


def linked_task_experiment(path: Path, task: LinkedTask) -> Experiment:
    """Return the experiment of the robot file of a linked robot. Raises `InputError` for links that
    touch within the joint limits."""
    model = task.model()
    if task.objective is not None and task.objective.method is not None:
        planner_named(task.objective.method)

    def perform(run: ExperimentRun) -> Outcome:
        chosen = replace(task, steps=int(run.settings["steps"]))
        made = run.closing(task.model(store=run.folder / STORE))
        return (_simulate if task.objective is None else _plan)(run, chosen, made)

    def probe(settings: Mapping[str, Setting]) -> tuple:
        x = model.initial_state()
        for k in range(2):
            x = model.step(x, task.control(k), None, k).x
        return model, x, task.control(2)

    return Experiment(
        name=path.stem,
        shows=f"{task.robot.name} under the task of {path.name}",
        size=f"{counted(len(task.robot.links), 'link')}, {counted(model.n_controls, 'control')}",
        takes="seconds",
        source=path.read_bytes().hex() + _surface_bytes(task),
        perform=perform,
        probe=probe,
        settings={"steps": task.steps, **_iterations(task), "small_animation": False},
        quick={"small_animation": True, **_quick(task)},
    )


def _surface_bytes(task: LinkedTask) -> str:
    """Return the points of all links as text: surface files are a part of the robot."""
    return "".join(
        np.ascontiguousarray(link.shape.quadrature(12)[0]).tobytes().hex()
        for link in task.robot.links.values()
        if link.shape.semi_axes is None
    )


def _iterations(task: LinkedTask) -> dict[str, Setting]:
    return {} if task.objective is None else {"iterations": task.objective.iterations}


def _quick(task: LinkedTask) -> dict[str, Setting]:
    if task.objective is None:
        return {"steps": min(task.steps, 10)}
    return {"iterations": min(task.objective.iterations, 20)}


def _simulate(run: ExperimentRun, task: LinkedTask, model: Dynamics) -> Outcome:
    path = run.simulate(model, lambda k, x: task.control(k), count=task.steps, dt=task.dt)
    motion = model_motion(model, path.path, path.controls)
    return Outcome(
        metrics={**final_position_metrics(motion), **swimming_metrics(motion)},
        plots=motion_plots(motion),
        scene=motion_scene(motion, title=task.robot.name),
    )


def _plan(run: ExperimentRun, task: LinkedTask, model: Dynamics) -> Outcome:
    assert task.objective is not None
    options = Options(
        iterations=int(run.settings["iterations"]),
        folder=run.folder / "plan",
        resume=run.resume and task.eta is None,  # a refined plan resumes by its store
        progress=run.progress,
    )
    problem, method = task.problem(model), task.objective.method  # type: ignore[arg-type]
    refined = (
        None
        if task.eta is None
        else plan_refined(problem, eta=task.eta, method=method, options=options)
    )
    found = plan(problem, method=method, options=options) if refined is None else refined.plan
    found.to_csv(run.folder / "plan.csv")
    write_trajectory(run.folder, found.states, found.controls, dt=task.dt, key=run.key)
    outcome = result_outcome(found, title=task.robot.name)
    motion = model_motion(found.dynamics or model, found.states, found.controls)
    metrics = {**outcome.metrics, **swimming_metrics(motion)}
    if refined is None:
        return replace(outcome, metrics=metrics)
    notes = (*outcome.notes, *refined.certificate.lines())
    return replace(outcome, metrics={**metrics, **_refinement_metrics(refined)}, notes=notes)


def _refinement_metrics(refined: RefinedPlan) -> dict[str, Metric]:
    return {
        "exact evaluations": Metric(value=refined.evaluations),
        "refinement levels": Metric(value=len(refined.levels)),
        **optional_metric("step error", refined.certificate.step_error, STATE),
    }


def swimming_metrics(motion: Motion) -> dict[str, Metric]:
    """Return the distance between the first and the last centre of mass, and its mean speed."""
    track: Array = motion.positions["centre of mass"]
    distance, time = float(np.linalg.norm(track[-1] - track[0])), float(motion.times[-1])
    speed = {"mean speed": Metric(value=distance / time, unit="m/s")} if time > 0.0 else {}
    return {"distance of the centre of mass": Metric(value=distance, unit="m"), **speed}
