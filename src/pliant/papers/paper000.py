"""[Jia2019]: the first row of Table I and Fig. 5 (a), the soft arm with and without the grid of
equilibrium shapes."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pliant.dynamics import ImplicitEuler
from pliant.papers.experiment_results import MeasuredMetrics, write_paper_result
from pliant.progress import Progress
from pliant.zoo.experiment import ExperimentRun, Metric, Setting
from pliant.zoo.experiments import arm_circle
from pliant.zoo.laser import LaserPlan, optional_metric, plan_laser, plots
from pliant.zoo.registry import find

SHOWS = "Table I, first row (the soft arm), and Fig. 5 (a)"
PAPER = arm_circle.PAPER
# Table I: [s] of one evaluation of f, g and g~ (g on the grid), and of one iteration with and
# without the grid
F, G, G_GRID, WITH_GRID, WITHOUT_GRID = 1.5, 1.51, 0.05, 5.5, 305.0
SPEEDUP = 20.0  # that the paper states for all robots
N_CALLS = 20  # timed calls of each function


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Plan arm-circle, measure every column of its row, and write the result folder."""
    start = time.perf_counter()
    experiment = find("arm-circle")
    context = ExperimentRun(
        settings=experiment.resolve_settings(quick=quick),
        folder=folder,
        identity="paper-000",
        progress=progress,
    )
    planned = plan_laser(context, arm_circle.task(context.settings))
    measured = table_one(planned, context.settings, quick, progress)
    return write_paper_result(
        folder, "000", SHOWS, measured, quick=quick, start=start, plots=plots(planned)
    )


def table_one(
    planned: LaserPlan, settings: Mapping[str, Setting], quick: bool, progress: Progress
) -> MeasuredMetrics:
    """Return the first row of Table I beside the values of the paper."""
    refined = planned.refined
    model, plan, c = planned.model, refined.plan, refined.certificate
    seconds = _call_times(planned, progress)
    without_grid, runs, steps = _iteration_time_without_grid(planned, quick, progress)
    with_grid = refined.seconds / refined.iterations
    radius, lead = float(settings["radius"]), planned.task.steps // 5
    distances = np.linalg.norm(planned.replayed_spots[lead:], axis=1)
    error = float(np.abs(distances - radius).max() / radius)
    metrics = {
        "unknowns N": Metric(value=planned.positions.shape[1], paper=PAPER["unknowns"]),
        "controls": Metric(value=model.n_controls, paper=4),
        "time of f, exact shape with derivative": Metric(value=seconds["f"], unit="s", paper=F),
        "time of g, step with exact shapes": Metric(value=seconds["g"], unit="s", paper=G),
        "time of the full implicit Euler step": Metric(value=seconds["full"], unit="s"),
        "time of g~, step on the grid": Metric(value=seconds["grid"], unit="s", paper=G_GRID),
        "time per iteration with the grid": Metric(value=with_grid, unit="s", paper=WITH_GRID),
        "time per iteration without the grid": Metric(
            value=without_grid, unit="s", paper=WITHOUT_GRID
        ),
        "speed-up of an iteration": Metric(
            value=without_grid / with_grid, paper=f"{SPEEDUP:g}, for all robots"
        ),
        "exact evaluations with the grid": Metric(
            value=refined.evaluations, paper=PAPER["evaluations"]
        ),
        "exact evaluations without the grid (shape queries)": Metric(
            value=refined.queries, paper=PAPER["queries"]
        ),
        "simulated steps (the paper's count of evaluations)": Metric(
            value=plan.controls.shape[0] * _rollouts(planned), paper=PAPER["queries"]
        ),
        "reduction factor of evaluations": Metric(
            value=refined.queries / refined.evaluations, paper=PAPER["reduction"]
        ),
        **optional_metric("step error", c.step_error, "of the positions", PAPER["error"]),
        **optional_metric(
            "step error relative to its increment", c.increment_error, "of the increment"
        ),
        "refinement levels": Metric(value=len(refined.levels), paper=PAPER["levels"]),
        "total iterations": Metric(value=refined.iterations),
        "largest radial error of the replay": Metric(value=error, unit="of the radius"),
        "circle reached": Metric(value=error <= float(settings["max_error"])),
    }
    notes = [
        f"Without the grid: {runs} iteration(s) with exact shapes were timed along the plan, each "
        f"with {steps} of the {len(plan.controls)} steps and their derivatives. The time is scaled "
        "to all steps. The number of the paper is an estimate, too.",
        "The paper counts one evaluation per simulated step. A step of Pliant queries several "
        "shapes, one per Newton iteration. Both counts are given.",
        "The times of Table I were measured on another machine, so only their ratios are "
        f"comparable. Times of f, g and g~ are medians of {N_CALLS} calls. Exact shapes start from "
        "the nearest corner of the grid.",
        *c.lines(),
    ]
    return MeasuredMetrics(metrics=metrics, notes=notes)


def _rollouts(planned: LaserPlan) -> int:
    """Return the number of simulations of the horizon: one per initial guess and iteration."""
    return sum(len(level.result.history) for level in planned.refined.levels)


def _call_times(planned: LaserPlan, progress: Progress) -> dict[str, float]:
    """Return the median time [s] of a call of f, g, the full step and g~, along the plan."""
    model, plan = planned.model, planned.refined.plan
    exact, shapes = model.exact(), model.manifold.equilibrium_map
    full = ImplicitEuler(planned.task.robot, dt=planned.task.dt)
    sampled = np.linspace(0, len(plan.controls) - 1, N_CALLS).astype(int)
    latent = [model.space.split(plan.states[k]).latent.copy() for k in sampled]
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
        "grid": lambda j: model.step(plan.states[sampled[j]], plan.controls[sampled[j]]),
    }
    out = {}
    for i, (name, call) in enumerate(calls.items()):
        progress("Table I: timing", i, len(calls))
        seconds = []
        for j in range(N_CALLS):
            model.manifold.clear_cache()  # type: ignore[attr-defined]
            start = time.perf_counter()
            call(j)
            seconds.append(time.perf_counter() - start)
        out[name] = float(np.median(seconds))
    progress("Table I: timing", len(calls), len(calls))
    return out


def _iteration_time_without_grid(
    planned: LaserPlan, quick: bool, progress: Progress
) -> tuple[float, int, int]:
    """Return the time [s] of an iteration with exact shapes, and the numbers of iterations and
    steps that were timed.

    An iteration is a simulation along the plan with its derivatives.
    """
    plan, model = planned.refined.plan, planned.model
    runs, steps = (1, 5) if quick else (2, len(plan.controls))
    first = len(plan.controls) - steps  # the beam moves in the last steps
    start = time.perf_counter()
    for run in range(runs):
        exact, x = model.exact(), plan.states[first]
        for k in range(first, len(plan.controls)):
            progress("iterations without the grid", run * steps + k - first, runs * steps)
            step = exact.step(x, plan.controls[k], k=k)
            exact.linearize(step)
            x = step.x
    progress("iterations without the grid", runs * steps, runs * steps)
    return (time.perf_counter() - start) / runs * len(plan.controls) / steps, runs, steps
