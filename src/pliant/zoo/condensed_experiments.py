"""The experiments of [Menager2024]: from a task to plans by several ways, their figures, plots and
animation."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from pliant.core import Array, InputError
from pliant.dynamics import SemiImplicit
from pliant.planners import Options
from pliant.report import Line, Plot, Scene
from pliant.report.control_plots import control_plots
from pliant.report.robot_scene import robot_scene
from pliant.zoo.condensed_tasks import CLOSE, WAYS, Reached, ReachTask, reach, rest
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

Maker = Callable[[Mapping[str, Setting]], ReachTask]


def experiment(
    name: str,
    make: Maker,
    *,
    shows: str,
    size: str,
    takes: str,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting] | None = None,
) -> Experiment:
    """An experiment of [Menager2024]; its setting `ways` names how to plan, the last of which is
    shown."""
    return Experiment(
        name=name,
        paper="001",
        shows=shows,
        size=size,
        takes=takes,
        probe=_probe_of(make),
        prepare=_check_ways,
        perform=lambda run: perform(run, make(run.settings)),
        settings={
            "ways": "linear",
            "search": "line",
            "iterations": 200,
            "dt": 0.01,
            **settings,
            "small_animation": False,
        },
        quick={**(quick or {}), "small_animation": True},
    )


def _check_ways(settings: Mapping[str, Setting]) -> None:
    unknown = [way for way in str(settings["ways"]).split() if way not in WAYS]
    if unknown or not str(settings["ways"]).split():
        raise InputError(
            f"The setting ways is '{settings['ways']}'; give one or more of "
            f"{', '.join(WAYS)}, separated by spaces."
        )


def perform(run: ExperimentRun, task: ReachTask) -> Outcome:
    """Plan each way, keep the run of the last, and tell how near it came."""
    model, found = SemiImplicit(task.robot, dt=task.dt), plans(run, task)
    last = list(found.values())[-1]
    path = run.keep(last.plan.states, last.plan.controls, dt=task.dt)
    metrics: dict[str, Metric] = {}
    for way, one in found.items():
        metrics |= way_metrics(task, way, one)
    metrics["nodes"] = Metric(value=len(task.robot.body().rest) // task.robot.body().dim)
    failed = {
        way: one
        for way, one in found.items()
        if one.worst > CLOSE or one.plan.limit_violation > 1e-9
    }
    sentence = (
        "done"
        if not failed
        else "; ".join(
            f"the {way} plan misses a goal by {100.0 * one.worst:.2g} % of the motion's length "
            f"({one.plan.status.text})"
            for way, one in failed.items()
        )
        + "; allow more iterations, or bring the goal nearer."
    )
    return Outcome(
        metrics=metrics,
        plots=plots(task, found),
        reached=not failed,
        message=sentence,
        scene=_scene(run, task, path.path[:, : model.space.n_dofs]),
        notes=[f"{way}: {one.plan.status.text}" for way, one in found.items()],
    )


def plans(run: ExperimentRun, task: ReachTask) -> dict[str, Reached]:
    """A plan by each of the setting's ways; every one is kept in the run's folder as it is made."""
    x0 = SemiImplicit(task.robot, dt=task.dt).state(rest(task.robot, task.first))
    found = {}
    for way in str(run.settings["ways"]).split():
        options = Options(
            iterations=int(run.settings["iterations"]),
            progress=run.progress,
            folder=run.folder / f"plan-{way}",
            resume=run.resume,
        )
        found[way] = reach(task, way, options=options, search=str(run.settings["search"]), x0=x0)
    return found


def way_metrics(task: ReachTask, way: str, one: Reached) -> dict[str, Metric]:
    """What is reported of one plan."""
    return {
        f"{way}: largest goal error": Metric(value=one.worst, unit="of the motion"),
        f"{way}: iterations": Metric(value=len(one.plan.history) - 1, paper=task.paper.get(way)),
        f"{way}: seconds": Metric(value=one.seconds, unit="s"),
        f"{way}: controls at a bound": Metric(value=one.active, unit="of all"),
        f"{way}: bound violation": Metric(value=one.plan.limit_violation, unit="of the range"),
        **(
            {}
            if one.prediction is None
            else {
                f"{way}: difference of condensed and full step": Metric(
                    value=one.prediction, unit="of the motion"
                )
            }
        ),
    }


def plots(task: ReachTask, found: Mapping[str, Reached]) -> list[Plot]:
    """Place and speed along each axis, the controls, and the convergence."""
    out = []
    for name in task.paths:
        for axis in "xyz":
            out += [place_plot(task, found, name, axis), speed_plot(task, found, name, axis)]
    out += bounded_controls(task, list(found.values())[-1])
    costs = {way: np.array([row.cost for row in one.plan.history]) for way, one in found.items()}
    return [
        *out,
        Plot(
            title="Convergence",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series={way: (np.arange(len(cost)), cost) for way, cost in costs.items()},
        ),
    ]


def place_plot(task: ReachTask, found: Mapping[str, Reached], effector: str, axis: str) -> Plot:
    """Return a plot of an effector coordinate and its target over time."""
    at, k = task.dt * np.arange(task.steps + 1), "xyz".index(axis)
    wanted = np.array([task.paths[effector](t)[k] for t in at])
    places = {way: (at, one.places[effector][:, k]) for way, one in found.items()}
    return Plot(
        title=f"{effector}: {axis}",
        x="time [s]",
        y=f"{axis} [m]",
        series={"wanted": (at, wanted), **places},
    )


def speed_plot(task: ReachTask, found: Mapping[str, Reached], effector: str, axis: str) -> Plot:
    """How fast an effector moves along an axis."""
    at, k = task.dt * np.arange(task.steps + 1), "xyz".index(axis)
    return Plot(
        title=f"{effector}: speed along {axis}",
        x="time [s]",
        y="speed [m/s]",
        series={way: (at, one.speeds[effector][:, k]) for way, one in found.items()},
    )


def bounded_controls(task: ReachTask, one: Reached) -> list[Plot]:
    """The controls with their bounds over time, a plot for each unit."""
    at = task.dt * np.arange(task.steps + 1)
    return control_plots(task.robot, at, one.plan.controls, x="time [s]", bounds=True)


def _scene(run: ExperimentRun, task: ReachTask, positions: Array) -> Scene:
    ways = [
        np.array([path(task.dt * k) for k in range(task.steps + 1)]) for path in task.paths.values()
    ]
    targets = np.concatenate(
        [np.array([path(t) for t in task.times]) for path in task.paths.values()]
    )
    drawn = robot_scene(
        task.robot,
        positions,
        dt=task.dt,
        title=run.identity,
        targets=targets,
        marked=tuple(task.paths),
    )
    return replace(drawn, lines=(*drawn.lines, *(Line(points=way, dashed=True) for way in ways)))


def _probe_of(make: Maker) -> Callable[[Mapping[str, Setting]], tuple]:
    """The model a few steps into a motion."""

    def probe(settings: Mapping[str, Setting]) -> tuple:
        task = make(settings)
        model = SemiImplicit(task.robot, dt=task.dt)
        lower, upper = model.control_limits()
        x, u = (
            model.initial_state(),
            0.5 * (lower + upper) + 0.1 * (upper - lower) * np.cos(np.arange(lower.size)),
        )
        for k in range(3):
            x = model.step(x, u, None, k).x
        return model, x, u

    return probe
