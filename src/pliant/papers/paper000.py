"""[Jia2019]: the first row of Table I and Fig. 5 (a), the soft arm with and without the grid of its
shapes."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pliant.dynamics import ImplicitEuler
from pliant.papers.experiment_results import Found, written
from pliant.progress import Progress
from pliant.zoo.experiment import ExperimentRun, Metric, Setting
from pliant.zoo.experiments import arm_circle
from pliant.zoo.laser import Planned, known, plan_laser, plots
from pliant.zoo.registry import find

SHOWS = "Table I, first row (the soft arm), and Fig. 5 (a)"
PAPER = arm_circle.PAPER
F, G, G_GRID, WITH, WITHOUT, SPEEDUP = 1.5, 1.51, 0.05, 5.5, 305.0, 20.0  # [s] of Table I
TIMED = 20  # calls of each function; the paper's seconds are of one call too


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """The arm's plan, then every column of its row measured beside."""
    began = time.perf_counter()
    experiment = find("arm-circle")
    here = ExperimentRun(
        settings=experiment.chosen(quick=quick),
        folder=folder,
        identity="paper-000",
        progress=progress,
    )
    planned = plan_laser(here, arm_circle.task(here.settings))
    found = table_one(planned, here.settings, quick, progress)
    return written(folder, "000", SHOWS, found, quick=quick, began=began, plots=plots(planned))


def table_one(
    planned: Planned, settings: Mapping[str, Setting], quick: bool, progress: Progress
) -> Found:
    """The first row of Table I: theirs beside ours."""
    refined = planned.refined
    model, plan, c = refined.levels[-1].model, refined.plan, refined.certificate
    costs = _costs(planned, progress)
    without, runs, steps = _without(planned, quick, progress)
    one = refined.seconds / refined.iterations
    radius, lead = float(settings["radius"]), planned.task.steps // 5
    off = float(np.abs(np.linalg.norm(planned.replayed[lead:], axis=1) - radius).max() / radius)
    metrics = {
        "unknowns N": Metric(value=planned.positions.shape[1], paper=PAPER["unknowns"]),
        "controls": Metric(value=model.n_controls, paper=4),
        "time of f, exact shape with derivative": Metric(value=costs["f"], unit="s", paper=F),
        "time of g, step with exact shapes": Metric(value=costs["g"], unit="s", paper=G),
        "time of g, implicit Euler step of all nodes": Metric(value=costs["full"], unit="s"),
        "time of g~, step on the grid": Metric(value=costs["grid"], unit="s", paper=G_GRID),
        "time per iteration with the grid": Metric(value=one, unit="s", paper=WITH),
        "time per iteration without the grid": Metric(value=without, unit="s", paper=WITHOUT),
        "speed-up of an iteration": Metric(
            value=without / one, unit="times", paper=f"{SPEEDUP:g} claimed for all"
        ),
        "exact evaluations with the grid": Metric(
            value=refined.evaluations, paper=PAPER["evaluations"]
        ),
        "shape queries, each exact without the grid": Metric(
            value=refined.shape_queries, paper=PAPER["without"]
        ),
        "simulated steps, counted as in the paper": Metric(
            value=plan.controls.shape[0] * _rollouts(planned), paper=PAPER["without"]
        ),
        "reduction factor of evaluations": Metric(
            value=refined.shape_queries / refined.evaluations, unit="times", paper=PAPER["fewer"]
        ),
        **known(
            "error of a step, the paper's norm", c.step_error, "of the positions", PAPER["error"]
        ),
        **known("step error relative to its increment", c.increment_error, "of the increment"),
        "executions": Metric(value=len(refined.levels), paper=PAPER["executions"]),
        "total iterations": Metric(value=refined.iterations),
        "radial error on replay": Metric(value=off, unit="of the radius"),
        "reached": Metric(value=off <= float(settings["wanted"])),
    }
    notes = [
        f"Without the grid: {runs} iteration(s), each a run of {steps} of the "
        f"{len(plan.controls)} steps with its derivatives, were measured with exact shapes along "
        "the plan and scaled to all steps; the paper's number is an estimate too.",
        "The paper counts one evaluation a step and run. A step here asks for several shapes, "
        "one for each iteration of its Newton's method; both counts are given.",
        "Table I gives seconds of one machine, these are of another: ratios within a column are "
        f"what compares. Seconds of f, g and g~ are medians of {TIMED} calls; exact shapes start "
        "from the nearest corner of the grid.",
        *c.lines(),
    ]
    return Found(metrics=metrics, notes=notes)


def _rollouts(planned: Planned) -> int:
    """Runs of the whole horizon that the plans took: one for each guess, and one for each
    iteration."""
    return sum(len(level.result.history) for level in planned.refined.levels)


def _costs(planned: Planned, progress: Progress) -> dict[str, float]:
    """[s] medians along the plan."""
    model, plan = planned.refined.levels[-1].model, planned.refined.plan
    exact, shapes = model.exact(), model.manifold.equilibrium_map
    full = ImplicitEuler(planned.task.robot, dt=planned.task.dt)
    places = np.linspace(0, len(plan.controls) - 1, TIMED).astype(int)
    latent = [model.space.split(plan.states[k]).latent.copy() for k in places]
    near = model.surrogate.corners.nearest
    states = [
        full.state(
            planned.positions[k],
            (planned.positions[k] - planned.positions[max(k - 1, 0)]) / full.dt,
        )
        for k in places
    ]
    timed: dict[str, Callable[[int], Any]] = {
        "f": lambda j: shapes(latent[j], near(latent[j])),
        "g": lambda j: exact.step(plan.states[places[j]], plan.controls[places[j]]),
        "full": lambda j: full.step(states[j], plan.controls[places[j]]),
        "grid": lambda j: model.step(plan.states[places[j]], plan.controls[places[j]]),
    }
    out = {}
    for i, (name, call) in enumerate(timed.items()):
        progress("Table I: timing", i, len(timed))
        seconds = []
        for j in range(TIMED):
            model.manifold.clear_cache()  # type: ignore[attr-defined]
            began = time.perf_counter()
            call(j)
            seconds.append(time.perf_counter() - began)
        out[name] = float(np.median(seconds))
    progress("Table I: timing", len(timed), len(timed))
    return out


def _without(planned: Planned, quick: bool, progress: Progress) -> tuple[float, int, int]:
    """([s] an iteration with exact shapes, how many were measured, of how many steps): a run along
    the plan and its derivatives."""
    plan, model = planned.refined.plan, planned.refined.levels[-1].model
    runs, steps = (1, 5) if quick else (2, len(plan.controls))
    first = len(plan.controls) - steps  # where the beam moves
    began = time.perf_counter()
    for run in range(runs):
        exact, x = model.exact(), plan.states[first]
        for k in range(first, len(plan.controls)):
            progress("iterations without the grid", run * steps + k - first, runs * steps)
            step = exact.step(x, plan.controls[k], k=k)
            exact.linearize(step)
            x = step.x
    progress("iterations without the grid", runs * steps, runs * steps)
    return (time.perf_counter() - began) / runs * len(plan.controls) / steps, runs, steps
