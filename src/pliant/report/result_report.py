"""Reports of the results of a user: the files that built-in experiments write, for any robot."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pliant.core import Array, Dynamics, InputError, counted, require_kind
from pliant.design import Fit, RobotDesign
from pliant.design.design_body import body_model
from pliant.dynamics import Rollout
from pliant.learning import SeedResults, TrainingResult
from pliant.optimisation.result import OptimisationResult
from pliant.planners import Plan
from pliant.planners.inverse_control import UNREACHABLE, ControllerLog
from pliant.problem import Goal, Problem
from pliant.report.design_report import design_outcome
from pliant.report.drawing import draw, make_stage
from pliant.report.figures import Plot
from pliant.report.fit_report import fit_outcome
from pliant.report.link_scene import link_scene, rest_pose
from pliant.report.model_plots import (
    Motion,
    final_position_metrics,
    model_motion,
    motion_plots,
    motion_scene,
)
from pliant.report.outcome import (
    Metric,
    Outcome,
    result_content,
    versions,
    write_animation,
    write_page,
    write_trajectory,
)
from pliant.report.page import metrics_table
from pliant.report.result_folder import RESULT, checked_folder, lock_result_folder, replace_result
from pliant.report.robot_scene import robot_scene
from pliant.report.scene import DrawnScene
from pliant.robot import Robot
from pliant.store import check_path, content_key, write_json
from pliant.swimming import LinkedRobot

PICTURE = (640, 480)  # [pixels] of an environment
MAX_NOTES = 5  # of unreachable targets; the last ones are shown
MAX_TARGETS = 12  # more targets of one goal are drawn as a path
NO_ANIMATION = (
    "There is no animation, because the plan was loaded without its model. Load it with "
    "Plan.load(folder, model)."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultReport:
    """A result in the form that the report writes."""

    name: str
    shows: str
    outcome: Outcome
    motion: Motion | None  # None: the result has no trajectory
    settings: Mapping[str, Any]
    seconds: float


def write_result_report(
    result: Any, folder: str | Path, *, title: str | None = None, small: bool = False
) -> Path:
    """Write report.html, result.json, the animation and the trajectory of a result. Return the path
    of the page.

    An earlier result in the folder is replaced when the new one is complete. `small` draws a
    smaller and shorter animation. Raises `InputError` if the folder holds files of something else,
    and for a folder or a title that is not text.
    """
    if title is not None:
        require_kind("The title of a report", title, str, "give text, or None for the default")
    out = check_path("The result folder", folder)
    report = _report_of(result, title)
    target = checked_folder(out, report.name)
    with lock_result_folder(target), replace_result(target) as work:
        _write(report, result, work, small=small)
    return target / "report.html"


def _write(report: ResultReport, result: Any, folder: Path, *, small: bool) -> None:
    motion, outcome = report.motion, report.outcome
    made = {"settings": dict(report.settings)}
    key = content_key(made if motion is None else {**made, "controls": motion.controls})
    if motion is not None:
        write_trajectory(folder, motion.states, motion.controls, dt=motion.summary.dt, key=key)
    if isinstance(result, Plan | TrainingResult | OptimisationResult | Fit):
        result.save(folder)
    if isinstance(result, RobotDesign):
        result.result.save(folder)
        result.export(folder / "design")
    if isinstance(result, Plan):
        result.to_csv(folder / "plan.csv")
    media = write_animation(folder, outcome.scene, small=small)
    fields = {
        "name": report.name,
        "paper": None,
        "shows": report.shows,
        "key": key,
        "seed": 0,
        "settings": dict(report.settings),
        "versions": versions(),
        "seconds": round(report.seconds, 3),
    }
    content = result_content(outcome, fields)
    write_page(folder, content, outcome, media)
    write_json(folder / RESULT, content)


def result_outcome(result: Any, *, title: str) -> Outcome:
    """Return metrics, plots and scene of a plan, a simulation or a controller log."""
    return _report_of(result, title).outcome


def notebook_html(result: Any) -> str:
    """Return a picture and a table of metrics as HTML."""
    scene: DrawnScene | None
    if isinstance(result, LinkedRobot):
        scene = link_scene(result, rest_pose(result), dt=None, title=result.name)
        table = metrics_table(_linked_robot_facts(result))
    elif isinstance(result, Robot):
        rest = result.body().rest
        scene = robot_scene(result, rest[None], dt=None, title=result.name)
        table = metrics_table(_robot_facts(result))
    else:
        report = _report_of(result, None)
        scene, table = report.outcome.scene, metrics_table(_values(report.outcome))
    picture = "" if scene is None else _png_tag(draw(scene, -1, (640, 480)), scene.title)
    return f"<div>{picture}{table}</div>"


def _values(outcome: Outcome) -> dict[str, Any]:
    return {name: {"value": m.value, "unit": m.unit} for name, m in outcome.metrics.items()}


def _robot_facts(robot: Robot) -> dict[str, Any]:
    return {
        "degrees of freedom": {"value": int(robot.body().rest.size), "unit": "-"},
        "controls": {"value": robot.n_controls, "unit": "-"},
        "actuators": {"value": ", ".join(robot.actuators) or "none", "unit": "-"},
        "effectors": {"value": ", ".join(robot.effectors) or "none", "unit": "-"},
    }


def _linked_robot_facts(robot: LinkedRobot) -> dict[str, Any]:
    return {
        "links": {"value": ", ".join(robot.links), "unit": "-"},
        "hinges": {"value": ", ".join(robot.hinges) or "none", "unit": "-"},
        "mass": {"value": robot.mass, "unit": "kg"},
        "effectors": {"value": ", ".join(robot.effector_names), "unit": "-"},
    }


def _png_tag(pixels: Array, text: str) -> str:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    alt = text.replace("&", "&amp;").replace('"', "&quot;")
    return f'<img alt="{alt}" width="480" src="data:image/png;base64,{data}">'


def _report_of(result: Any, title: str | None) -> ResultReport:
    make = next((make for kind, make in _REPORTS.items() if isinstance(result, kind)), None)
    if make is None:
        known = ", ".join(kind.__name__ for kind in _REPORTS)
        raise InputError(f"A {type(result).__name__} has no report. Give one of: {known}.")
    return make(result, title)


def _rollout_report(rollout: Rollout, title: str | None) -> ResultReport:
    if rollout.model is None:
        raise InputError(
            "This rollout has no model, so it cannot be drawn. Make it with simulate(model, ...)."
        )
    motion = model_motion(rollout.model, rollout.states, rollout.controls)
    name = motion.summary.robot
    steps = len(rollout.controls)
    metrics = {**final_position_metrics(motion), "steps": Metric(value=steps)}
    text = rollout.status.text
    return ResultReport(
        name=title or f"{name} simulation",
        shows=f"Simulation of {name} over {counted(steps, 'step')}.",
        outcome=Outcome(
            metrics=metrics,
            plots=motion_plots(motion),
            scene=motion_scene(motion, title=title or name),
            notes=() if text in ("", "converged") else (f"{text[0].upper()}{text[1:]}.",),
        ),
        motion=motion,
        settings=_settings(motion),
        seconds=rollout.seconds,
    )


def _plan_report(plan: Plan, title: str | None) -> ResultReport:
    motion = _plan_motion(plan)
    name = motion.summary.robot
    targets, paths = _goal_targets(plan.problem)
    scene = motion_scene(motion, title=title or name, targets=targets, paths=paths)
    outcome = Outcome(
        metrics={**_plan_metrics(plan), **final_position_metrics(motion)},
        plots=[*motion_plots(motion), *_goal_plots(plan, motion), *_cost_plots(plan)],
        scene=scene,
        reached=plan.status.ok,
        message="done" if plan.status.ok else plan.status.text,
        notes=(plan.summary(), *(() if plan.dynamics is not None else (NO_ANIMATION,))),
    )
    return ResultReport(
        name=title or f"{name} {plan.method}",
        shows=f"Plan for {name} over {counted(len(plan.controls), 'step')}, by {plan.method}.",
        outcome=outcome,
        motion=motion,
        settings={"method": plan.method, **_settings(motion)},
        seconds=plan.history[-1].seconds if plan.history else 0.0,
    )


def _plan_motion(plan: Plan) -> Motion:
    if plan.model is None:
        raise InputError(
            "This plan has no model, so its numbers have no names. Make it with "
            "model=pl.planners.summarise(model)."
        )
    return Motion(
        summary=plan.model,
        states=plan.states,
        controls=plan.controls,
        positions=plan.positions,
        model=plan.dynamics,
        previous_control=plan.previous_control,
    )


def _settings(motion: Motion) -> dict[str, Any]:
    duration = {} if motion.summary.quasistatic else {"dt": motion.summary.dt}
    return {"steps": len(motion.controls), **duration}


def _plan_metrics(plan: Plan) -> dict[str, Metric]:
    errors = [error for _, _, error in plan.goal_errors]
    worst = {"largest goal error": Metric(value=max(errors), unit="m")} if errors else {}
    cost = {"cost": Metric(value=float(plan.cost))} if np.isfinite(plan.cost) else {}
    return {
        **worst,
        **cost,
        "control limit violation": Metric(value=float(plan.limit_violation)),
        "constraint violation": Metric(value=float(plan.constraint_violation)),
        "iterations": Metric(value=int(plan.status.iterations)),
    }


def _goal_plots(plan: Plan, motion: Motion) -> list[Plot]:
    """Return a plot of the goal errors over time, a series for each effector."""
    if not plan.goal_errors:
        return []
    series = {}
    for name in dict.fromkeys(name for name, _, _ in plan.goal_errors):
        rows = np.array([(time, error) for who, time, error in plan.goal_errors if who == name])
        series[name] = (rows[:, 0], rows[:, 1])
    return [
        Plot(
            title="Goal errors",
            x=motion.time_label,
            y="distance to the target [m]",
            series=series,
            kind="both",
        )
    ]


def _cost_plots(plan: Plan) -> list[Plot]:
    costs = np.array([row.cost for row in plan.history], float)
    if len(costs) < 2:
        return []
    positive = bool((costs > 0.0).all())
    series = {"cost": (np.arange(len(costs)), costs)}
    return [Plot(title="Convergence", x="iteration", y="cost", series=series, log_y=positive)]


def _goal_targets(problem: Problem | None) -> tuple[Array | None, list[Array]]:
    """Return the targets (k, dim) [m] of the position goals, and their target paths (k, dim)."""
    points, paths = [], []
    for goal in () if problem is None else problem.terms:
        if not isinstance(goal, Goal) or goal.quantity != "position":
            continue
        assert problem is not None
        seen = goal.attach(problem.model, problem.steps)
        rows = np.array([observation.loss.target for observation in seen])  # type: ignore[attr-defined]
        if rows.shape[1] != problem.model.effector_rows(goal.effector).shape[0]:
            continue  # a goal for some coordinates has no target point
        rows = np.unique(rows, axis=0) if len(np.unique(rows, axis=0)) <= MAX_TARGETS else rows
        points += list(rows) if len(rows) <= MAX_TARGETS else []
        paths += [] if len(rows) <= MAX_TARGETS else [rows]
    return (np.array(points) if points else None), paths


def _log_report(log: ControllerLog, title: str | None) -> ResultReport:
    motion = model_motion(log.model, log.states, log.controls)
    name, steps = motion.summary.robot, len(log.controls)
    last = np.unique(log.targets[-1], axis=0)
    paths = [np.unique(log.targets[:, j], axis=0) for j in range(len(log.effectors))]
    drawn = [log.targets[:, j] for j, path in enumerate(paths) if len(path) > 1]
    outcome = Outcome(
        metrics=_log_metrics(log) | final_position_metrics(motion),
        plots=[_tracking_plot(log, motion), *motion_plots(motion)],
        scene=motion_scene(motion, title=title or name, targets=last, paths=drawn),
        reached=log.status.ok,
        message="done" if log.status.ok else log.status.text,
        notes=_log_notes(log),
    )
    return ResultReport(
        name=title or f"{name} inverse control",
        shows=f"Inverse control of {name} over {counted(steps, 'control step')}.",
        outcome=outcome,
        motion=motion,
        settings=_settings(motion),
        seconds=float(log.seconds.sum()),
    )


def _log_notes(log: ControllerLog) -> tuple[str, ...]:
    """Return the messages about unreachable targets, and the last message."""
    steps = zip(log.messages, log.outcomes, strict=True)
    unreachable = [message for message, outcome in steps if outcome == UNREACHABLE]
    distinct = dict.fromkeys((*unreachable[-MAX_NOTES:], log.messages[-1]))
    return tuple(f"{message[0].upper()}{message[1:]}." for message in distinct)


def _log_metrics(log: ControllerLog) -> dict[str, Metric]:
    milliseconds = 1e3 * log.seconds
    return {
        "final distance to target": Metric(value=float(log.errors[-1]), unit="m"),
        "largest distance to target": Metric(value=float(log.errors.max()), unit="m"),
        "median time of a control step": Metric(value=float(np.median(milliseconds)), unit="ms"),
        "control steps": Metric(value=len(log.controls)),
    }


def _tracking_plot(log: ControllerLog, motion: Motion) -> Plot:
    """Return the distance of every effector from its target over time."""
    distances = np.linalg.norm(log.positions[1:] - log.targets, axis=2)
    series = {name: (motion.times[1:], distances[:, j]) for j, name in enumerate(log.effectors)}
    return Plot(
        title="Tracking error in all coordinates",
        x=motion.time_label,
        y="distance to the target [m]",
        series=series,
    )


def _training_report(result: TrainingResult, title: str | None) -> ResultReport:
    return _learning_report(result, title, {result.method: result})


def _seeds_report(found: SeedResults, title: str | None) -> ResultReport:
    curves = {f"seed {result.seed}": result for result in found.results}
    notes = [line for one in found.certificates for line in one.lines()]
    return _learning_report(found.best, title, curves, notes)


def _learning_report(
    best: TrainingResult,
    title: str | None,
    curves: Mapping[str, TrainingResult],
    notes: Sequence[str] = (),
) -> ResultReport:
    """Return the report of trainings: their learning curves, and an episode of the best one."""
    results = list(curves.values())
    episodes = best.on_model()
    run = episodes.run(best.weights, episodes.starts[0])
    motion = model_motion(episodes.loop.model, run.states, run.controls)
    name = motion.summary.robot
    targets, paths = _goal_targets(episodes.problem)
    return ResultReport(
        name=title or f"{name} training",
        shows=f"Training of a controller of {name} by {best.method}.",
        outcome=Outcome(
            metrics=_training_metrics(results, best) | final_position_metrics(motion),
            plots=[*_learning_curves(curves), *motion_plots(motion)],
            scene=motion_scene(motion, title=title or name, targets=targets, paths=paths),
            reached=best.status.ok,
            message="done" if best.status.ok else best.status.text,
            notes=(*(result.summary() for result in results), *notes),
        ),
        motion=motion,
        settings={"method": best.method, **dict(best.settings), **_settings(motion)},
        seconds=sum(result.history[-1].seconds for result in results),
    )


def _training_metrics(results: Sequence[TrainingResult], best: TrainingResult) -> dict[str, Metric]:
    returns = [result.mean_return for result in results]
    several = {"mean return of all seeds": Metric(value=float(np.mean(returns)))}
    return {
        "mean return": Metric(value=best.mean_return),
        **(several if len(results) > 1 else {}),
        "mean return before training": Metric(value=best.history[0].mean_return),
        "environment steps": Metric(value=best.steps),
        "iterations": Metric(value=best.status.iterations),
        "time of training": Metric(value=round(best.history[-1].seconds, 3), unit="s"),
    }


def _learning_curves(curves: Mapping[str, TrainingResult]) -> list[Plot]:
    """Return the mean return over environment steps and over time, a series for each training.

    Iterations with failed episodes leave a gap: their returns are those of shorter episodes.
    """
    return [
        Plot(
            title=f"Learning curve over {what}",
            x=label,
            y="mean return",
            series={
                name: (
                    np.array([getattr(row, key) for row in result.history], float),
                    np.array([np.nan if row.failed else row.mean_return for row in result.history]),
                )
                for name, result in curves.items()
            },
        )
        for what, label, key in (
            ("environment steps", "environment steps", "steps"),
            ("time", "time [s]", "seconds"),
        )
    ]


def _optimisation_report(result: OptimisationResult, title: str | None) -> ResultReport:
    ok = result.status.ok
    variables = counted(len(result.z), "variable")
    return ResultReport(
        name=title or f"Optimisation by {result.method}",
        shows=f"Optimisation of {variables} by {result.method}.",
        outcome=Outcome(
            metrics=_optimisation_metrics(result),
            plots=_convergence_plots(result),
            reached=ok,
            message="done" if ok else result.status.text,
            notes=(result.summary(),),
        ),
        motion=None,
        settings={"method": result.method, **_filled(result.identity["settings"])},
        seconds=result.history[-1].seconds,
    )


def _filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _optimisation_metrics(result: OptimisationResult) -> dict[str, Metric]:
    first, last = result.history[0], result.history[-1]
    numbers = {
        "value": result.best.value,
        "value at the start": first.value,
        "gradient norm": last.gradient_norm,
        "constraint violation": result.best.violation,
        "iterations": result.status.iterations,
        "simulations": result.simulations,
    }
    metrics = {name: Metric(value=value) for name, value in numbers.items() if np.isfinite(value)}
    few = {
        name: float(np.ravel(values)[0])
        for name, values in result.values.items()
        if np.size(values) == 1
    }
    return metrics | {name: Metric(value=value, unit="") for name, value in few.items()}


def _convergence_plots(result: OptimisationResult | Fit) -> list[Plot]:
    """Return plots of the value and the gradient norm over the iterations."""
    rows = np.arange(len(result.history))
    plots = []
    for title, label, found in (
        ("Convergence", "value", [row.value for row in result.history]),
        ("Gradient", "largest entry", [row.gradient_norm for row in result.history]),
        ("Constraints", "violation", [row.constraint_violation for row in result.history]),
    ):
        values = np.array(found, float)
        values[~np.isfinite(values)] = np.nan  # a gap
        seen = values[np.isfinite(values)]
        if len(seen) > 1 and (title == "Convergence" or seen.any()):
            log = bool((seen > 0.0).all())
            series = {label: (rows, values)}
            plots.append(Plot(title=title, x="iteration", y=label, series=series, log_y=log))
    return plots


def _fit_report(fit: Fit, title: str | None) -> ResultReport:
    name = title or f"{fit.identity['robot']} identification"
    outcome, motion = fit_outcome(fit, name)
    count = counted(len(fit.predictions), "measurement")
    return ResultReport(
        name=name,
        shows=f"Identification of {', '.join(fit.values)} from {count}, by {fit.method}.",
        outcome=replace(outcome, plots=[*outcome.plots, *_convergence_plots(fit)]),
        motion=motion,
        settings={"method": fit.method, **_filled(fit.settings)},
        seconds=fit.history[-1].seconds,
    )


def _design_report(design: RobotDesign, title: str | None) -> ResultReport:
    name = title or f"{body_model(design.problem.model).robot.name} design"
    outcome, motion = design_outcome(design, name)
    names = ", ".join(design.problem.variable_names)
    return ResultReport(
        name=name,
        shows=f"Co-design of {names} by {design.result.method}.",
        outcome=replace(outcome, plots=[*_convergence_plots(design.result), *outcome.plots]),
        motion=motion,
        settings={
            "method": design.result.method,
            **_filled(design.result.identity["settings"]),
        },
        seconds=design.result.history[-1].seconds,
    )


_REPORTS: dict[type, Callable[[Any, str | None], ResultReport]] = {
    Plan: _plan_report,
    Rollout: _rollout_report,
    ControllerLog: _log_report,
    TrainingResult: _training_report,
    SeedResults: _seeds_report,
    OptimisationResult: _optimisation_report,
    Fit: _fit_report,
    RobotDesign: _design_report,
}


def draw_states(model: Dynamics, states: Array, controls: Array) -> Array:
    """Return a picture (height, width, 3) uint8 of the last of some states (frames, n_state) under
    controls (frames - 1, n_controls). The camera sees all of them.

    Raises `InputError` if the model was not made of a robot."""
    title = getattr(getattr(model, "robot", None), "name", "")
    last = model_motion(model, states[-1:], controls[:0], previous_control=controls[-1])
    every, scene = (
        motion_scene(motion, title=title)
        for motion in (model_motion(model, states, controls), last)
    )
    if every is None or scene is None:
        raise InputError(
            f"There is no picture of {type(model).__name__}, because it was not made of a robot. "
            "Give draw=..., a function (model, states, controls) -> (height, width, 3) uint8."
        )
    return draw(scene, 0, stage=make_stage(every, PICTURE))
