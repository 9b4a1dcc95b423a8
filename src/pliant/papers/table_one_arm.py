"""The first row of Table I of [Jia2019]: the soft arm traces a circle with its laser."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, counted
from pliant.dynamics import ImplicitEuler
from pliant.papers.panels import frame_row
from pliant.papers.paper_run import PaperRun
from pliant.papers.table_one import PaperRow, RowTimes, TableRow, median_times, time_metrics
from pliant.planners import Options, gauss_newton
from pliant.problem import Problem
from pliant.progress import Progress
from pliant.zoo.experiment import Metric
from pliant.zoo.experiments import arm_circle
from pliant.zoo.laser import LaserPlan, plan_laser
from pliant.zoo.laser_report import QUERIES, plots, scene
from pliant.zoo.refinement_report import count_metrics, error_metrics

PAPER = PaperRow(
    f=1.5,
    g=1.51,
    g_surrogate="0.01 (illegible; fits the other columns)",
    iteration=5.5,
    iteration_exact=305.0,
    speedup="20, from the counts",
)
N_CALLS = 20  # timed calls of each function
EXACT_ITERATIONS = 2  # timed with exact shapes
FULL_ITERATIONS = 3  # timed with the model of all nodes


def arm_row(run: PaperRun) -> TableRow:
    """Plan arm-circle and measure every column of its row."""
    context = run.experiment("arm-circle")
    with context.resources:
        planned = plan_laser(context, arm_circle.task(context.settings))
        return table_row(planned, context.settings, run.quick, run.progress)


def table_row(
    planned: LaserPlan, settings: Mapping[str, Any], quick: bool, progress: Progress
) -> TableRow:
    """Return the row of a planned circle."""
    refined, task, paper = planned.refined, planned.task, arm_circle.PAPER
    calls = _call_times(planned, progress)
    without, timed = _iteration_time_with_exact_shapes(planned, quick, progress)
    full = _iteration_with_all_nodes(planned, progress)
    times = RowTimes(
        f=calls["f"],
        g=calls["g"],
        g_surrogate=calls["g~"],
        iteration=refined.seconds / refined.iterations,
        iteration_exact=without,
    )
    errors = arm_circle.circle_errors(planned.replayed_spots, task, float(settings["radius"]))
    reached = float(errors["timed path error"].value) <= float(settings["max_error"])
    metrics = {
        "unknowns N": Metric(value=planned.positions.shape[1], paper=paper["unknowns"]),
        "controls": Metric(value=planned.model.n_controls, paper=4),
        **time_metrics(times, PAPER),
        "time of a step of all nodes, ImplicitEuler": Metric(value=calls["full"], unit="s"),
        "time per iteration on ImplicitEuler": Metric(value=full.seconds, unit="s"),
        "speed-up of an iteration over ImplicitEuler": Metric(value=full.seconds / times.iteration),
        "time of all plans with the grid": Metric(value=refined.seconds, unit="s"),
        **count_metrics(refined, paper, QUERIES),
        **error_metrics(refined, paper),
        "refinement levels": Metric(value=len(refined.levels), paper=paper["levels"]),
        "iterations": Metric(value=refined.iterations),
        **{f"largest {name} of the replay": metric for name, metric in errors.items()},
        "circle reached": Metric(value=reached),
    }
    notes = [
        "size and stiffness of the arm, radius and height of the circle, and the cell are our "
        "choice, because the paper does not state them; so its 216 evaluations and ours do not "
        "belong to the same task.",
        f"iterations with exact shapes: {timed} The number of the paper is an estimate, too.",
        f"iterations on ImplicitEuler, which one would use without the grid: "
        f"{full.iterations} of Gauss-Newton from constant tensions were timed.",
        f"times of f, g and g~ are medians of {N_CALLS} calls; exact shapes start from the nearest "
        "corner of the grid.",
        *refined.certificate.lines(),
    ]
    return TableRow(
        robot="soft arm",
        metrics=metrics,
        notes=notes,
        plots=plots(planned),
        frames=[frame_row(scene(planned, ""), "(a) arm")],
    )


def _call_times(planned: LaserPlan, progress: Progress) -> dict[str, float]:
    """Return the median time [s] of a call of f, g, the full step and g~, along the plan."""
    model, plan = planned.model, planned.refined.plan
    exact, shapes = model.exact(), model.manifold.equilibrium_map
    full = ImplicitEuler(planned.task.robot, dt=planned.task.dt)
    sampled = np.linspace(0, len(plan.controls) - 1, N_CALLS).astype(int)
    latent = [model.query_point(plan.states[k]) for k in sampled]
    nearest = model.surrogate.corners.nearest
    states = [
        full.state(
            planned.positions[k],
            (planned.positions[k] - planned.positions[max(k - 1, 0)]) / full.dt,
        )
        for k in sampled
    ]
    calls: dict[str, Callable[[int], Any]] = {
        "f": lambda j: shapes(latent[j], nearest(latent[j])),
        "g": lambda j: exact.step(plan.states[sampled[j]], plan.controls[sampled[j]]),
        "full": lambda j: full.step(states[j], plan.controls[sampled[j]]),
        "g~": lambda j: model.step(plan.states[sampled[j]], plan.controls[sampled[j]]),
    }
    clear = model.manifold.clear_cache  # type: ignore[attr-defined]
    return median_times(
        {
            name: (range(N_CALLS), lambda j, call=call: (clear(), call(j)))  # type: ignore[misc]
            for name, call in calls.items()
        },
        progress,
    )


def _iteration_time_with_exact_shapes(
    planned: LaserPlan, quick: bool, progress: Progress
) -> tuple[float, str]:
    """Return the time [s] of an iteration with exact shapes, and what was timed.

    An iteration is a simulation along the plan with its derivatives.
    """
    plan, model = planned.refined.plan, planned.model
    total = len(plan.controls)
    runs, steps = (1, 5) if quick else (EXACT_ITERATIONS, total)
    first = total - steps  # the beam moves in the last steps
    start = time.perf_counter()
    for run in range(runs):
        exact, x = model.exact(), plan.states[first]
        for k in range(first, total):
            progress("iterations with exact shapes", run * steps + k - first, runs * steps)
            step = exact.step(x, plan.controls[k], k=k)
            exact.linearize(step)
            x = step.x
    progress("iterations with exact shapes", runs * steps, runs * steps)
    seconds = (time.perf_counter() - start) / runs * total / steps
    return seconds, (
        f"{steps} of {total} steps of the plan were timed, each {counted(runs, 'time')}, with "
        "their derivatives, and scaled to all steps."
    )


@dataclass(frozen=True, kw_only=True)
class FullIterations:
    """Timed iterations on the model of all nodes."""

    seconds: float  # of one iteration
    iterations: int


def _iteration_with_all_nodes(planned: LaserPlan, progress: Progress) -> FullIterations:
    """Time Gauss-Newton iterations on ImplicitEuler for the same task, from the same guess."""
    task, model = planned.task, ImplicitEuler(planned.task.robot, dt=planned.task.dt)
    first: Array = planned.positions[0]
    problem: Problem = replace(task.problem(planned.model), model=model, x0=model.state(first))
    found = gauss_newton(
        problem,
        guess=np.tile(task.start, (task.steps, 1)),
        options=Options(iterations=FULL_ITERATIONS, progress=progress),
    )
    iterations = max(1, len(found.history) - 1)
    return FullIterations(seconds=found.history[-1].seconds / iterations, iterations=iterations)
