"""The experiments of [Menager2024]: plans of a task with several derivatives, their metrics, plots
and animation."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from pliant.core import Array, InputError
from pliant.dynamics import SemiImplicit
from pliant.planners import Options
from pliant.report import DrawnScene, Line, Plot
from pliant.report.control_plots import control_plots
from pliant.report.robot_scene import robot_scene
from pliant.zoo.condensed_tasks import (
    DERIVATIVES,
    GOAL_TOLERANCE,
    ReachResult,
    ReachTask,
    equilibrium_positions,
    plan_reach,
)
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

TaskFactory = Callable[[Mapping[str, Setting]], ReachTask]


def experiment(
    name: str,
    make_task: TaskFactory,
    *,
    shows: str,
    size: str,
    takes: str,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting] | None = None,
    probe_share: float = 0.1,
) -> Experiment:
    """Return an experiment of [Menager2024].

    The setting `derivatives` lists the derivatives to plan with, separated by spaces. The animation
    shows the last plan. The derivatives of its model are checked after a motion with controls that
    differ by `probe_share` of their range.
    """
    return Experiment(
        name=name,
        paper="001",
        shows=shows,
        size=size,
        takes=takes,
        probe=_make_probe(make_task, probe_share),
        check_settings=check_derivatives,
        perform=lambda run: perform(run, make_task(run.settings)),
        settings={
            "derivatives": "linear",
            "search": "line",
            "iterations": 200,
            "dt": 0.01,
            **settings,
            "small_animation": False,
        },
        quick={**(quick or {}), "small_animation": True},
    )


def check_derivatives(settings: Mapping[str, Setting]) -> None:
    """Raise `InputError` if the setting `derivatives` is invalid."""
    names = str(settings["derivatives"]).split()
    if not names or any(name not in DERIVATIVES for name in names):
        raise InputError(
            f"The setting derivatives is '{settings['derivatives']}'. Give one or more of "
            f"{', '.join(DERIVATIVES)}, separated by spaces."
        )


def perform(run: ExperimentRun, task: ReachTask) -> Outcome:
    """Plan with each derivative, write the trajectory of the last plan, and return the metrics."""
    model, results = SemiImplicit(task.robot, dt=task.dt), plan_all(run, task)
    last = list(results.values())[-1]
    path = run.save_trajectory(last.plan.states, last.plan.controls, dt=task.dt)
    metrics: dict[str, Metric] = {}
    for derivative, result in results.items():
        metrics |= plan_metrics(task, derivative, result)
    metrics["nodes"] = Metric(value=len(task.robot.body().rest) // task.robot.body().dim)
    failed = {
        derivative: result
        for derivative, result in results.items()
        if result.largest_goal_error > GOAL_TOLERANCE or result.plan.limit_violation > 1e-9
    }
    message = (
        "done"
        if not failed
        else "; ".join(
            f"the largest goal error of the {derivative} plan is "
            f"{100.0 * result.largest_goal_error:.2g} % of the path length "
            f"({result.plan.status.text})"
            for derivative, result in failed.items()
        )
        + ". Allow more iterations, or move the goal closer."
    )
    return Outcome(
        metrics=metrics,
        plots=plots(task, results),
        reached=not failed,
        message=message,
        scene=_scene(run, task, path.path[:, : model.space.n_dofs]),
        notes=[f"{name}: {result.plan.status.text}" for name, result in results.items()],
    )


def plan_all(run: ExperimentRun, task: ReachTask) -> dict[str, ReachResult]:
    """Plan with each derivative of the settings. Each plan is saved in the folder of the run."""
    q0 = equilibrium_positions(task.robot, task.initial_controls)
    x0 = SemiImplicit(task.robot, dt=task.dt).state(q0)
    results = {}
    for derivative in str(run.settings["derivatives"]).split():
        options = Options(
            iterations=int(run.settings["iterations"]),
            progress=run.progress,
            folder=run.folder / f"plan-{derivative}",
            resume=run.resume,
        )
        results[derivative] = plan_reach(
            task, derivative, options=options, search=str(run.settings["search"]), x0=x0
        )
    return results


def plan_metrics(task: ReachTask, derivative: str, result: ReachResult) -> dict[str, Metric]:
    """Return the metrics of one plan."""
    out = {
        "largest goal error": Metric(value=result.largest_goal_error, unit="of the path length"),
        "iterations": Metric(value=len(result.plan.history) - 1, paper=task.paper.get(derivative)),
        "planning time": Metric(value=result.planning_time, unit="s"),
        "share of controls at a bound": Metric(value=result.saturated_share),
        "control bound violation": Metric(
            value=result.plan.limit_violation, unit="of the control range"
        ),
    }
    if result.prediction_error is not None:
        out["prediction error of the condensed step"] = Metric(
            value=result.prediction_error, unit="of the path length"
        )
    return {f"{derivative}: {name}": metric for name, metric in out.items()}


def plots(task: ReachTask, results: Mapping[str, ReachResult]) -> list[Plot]:
    """Return plots of position and velocity along each axis, controls and convergence."""
    out = []
    for name in task.paths:
        for axis in "xyz":
            out += [
                position_plot(task, results, name, axis),
                velocity_plot(task, results, name, axis),
            ]
    out += bounded_control_plots(task, list(results.values())[-1])
    costs = {
        derivative: np.array([row.cost for row in result.plan.history])
        for derivative, result in results.items()
    }
    return [
        *out,
        Plot(
            title="Convergence",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series={name: (np.arange(len(cost)), cost) for name, cost in costs.items()},
        ),
    ]


def position_plot(
    task: ReachTask, results: Mapping[str, ReachResult], effector: str, axis: str
) -> Plot:
    """Return a plot of an effector coordinate and its reference over time."""
    times, k = task.dt * np.arange(task.steps + 1), "xyz".index(axis)
    reference = np.array([task.paths[effector](t)[k] for t in times])
    positions = {
        name: (times, result.positions[effector][:, k]) for name, result in results.items()
    }
    return Plot(
        title=f"{effector}: {axis}",
        x="time [s]",
        y=f"{axis} [m]",
        series={"reference": (times, reference), **positions},
    )


def velocity_plot(
    task: ReachTask, results: Mapping[str, ReachResult], effector: str, axis: str
) -> Plot:
    """Return a plot of an effector velocity component over time."""
    times, k = task.dt * np.arange(task.steps + 1), "xyz".index(axis)
    return Plot(
        title=f"{effector}: velocity along {axis}",
        x="time [s]",
        y="velocity [m/s]",
        series={
            name: (times, result.velocities[effector][:, k]) for name, result in results.items()
        },
    )


def bounded_control_plots(task: ReachTask, result: ReachResult) -> list[Plot]:
    """Return plots of the controls and their bounds over time, one for each unit."""
    times = task.dt * np.arange(task.steps + 1)
    return control_plots(task.robot, times, result.plan.controls, x="time [s]", bounds=True)


def _scene(run: ExperimentRun, task: ReachTask, positions: Array) -> DrawnScene:
    references = [
        np.array([path(task.dt * k) for k in range(task.steps + 1)]) for path in task.paths.values()
    ]
    targets = np.concatenate(
        [np.array([path(t) for t in task.times]) for path in task.paths.values()]
    )
    scene = robot_scene(
        task.robot,
        positions,
        dt=task.dt,
        title=run.identity,
        targets=targets,
        marked=tuple(task.paths),
    )
    curves = [Line(points=points, dashed=True) for points in references]
    return replace(scene, lines=(*scene.lines, *curves))


def _make_probe(make_task: TaskFactory, share: float) -> Callable[[Mapping[str, Setting]], tuple]:
    """Return a probe: the model after three steps of a motion."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        task = make_task(settings)
        model = SemiImplicit(task.robot, dt=task.dt)
        lower, upper = model.control_limits()
        x, u = (
            model.initial_state(),
            0.5 * (lower + upper) + share * (upper - lower) * np.cos(np.arange(lower.size)),
        )
        for k in range(3):
            x = model.step(x, u, None, k).x
        return model, x, u

    return probe
