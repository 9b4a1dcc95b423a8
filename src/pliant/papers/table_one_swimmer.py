"""The second row of Table I of [Jia2019]: the swimming robot is planned to swim forward."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pliant.papers.panels import frame_row
from pliant.papers.paper_run import PaperRun
from pliant.papers.table_one import PaperRow, RowTimes, TableRow, median_times, time_metrics
from pliant.progress import Progress
from pliant.zoo.experiment import Metric
from pliant.zoo.experiments import swimmer_plan
from pliant.zoo.refinement_report import count_metrics, error_metrics
from pliant.zoo.swimming_report import potential_scene
from pliant.zoo.swimming_tasks import SwimmingPlan, forward_distance, plan_swimming

PAPER = PaperRow(
    f=0.9,
    g=0.902,
    g_surrogate="0.002 (illegible; fits the other columns)",
    iteration=3.1,
    iteration_exact=183.0,
    speedup="190, from the counts",
)
N_CALLS = 20  # timed calls of each function
N_EXACT_CALLS = 3  # of an exact step with its derivative, which needs second differences


def swimmer_row(run: PaperRun) -> TableRow:
    """Plan swimmer-plan and measure every column of its row."""
    context = run.experiment("swimmer-plan")
    with context.resources:
        planned = plan_swimming(context, swimmer_plan.task(context.settings))
        return table_row(planned, context.settings, run.progress)


def table_row(planned: SwimmingPlan, settings: Mapping[str, Any], progress: Progress) -> TableRow:
    """Return the row of a planned motion."""
    calls = _call_times(planned, progress)
    refined, task = planned.refined, planned.task
    times = RowTimes(
        f=calls["f"],
        g=calls["g"],
        g_surrogate=calls["g~"],
        iteration=refined.seconds / max(1, refined.iterations),
        iteration_exact=task.steps * calls["linearised g"],
    )
    swum = forward_distance(planned.model, planned.states)
    reached = swum >= float(settings["min_share"]) * task.distance
    return TableRow(
        robot="swimmer",
        metrics={
            **time_metrics(times, PAPER),
            **count_metrics(refined, swimmer_plan.PAPER, "added-mass queries"),
            **error_metrics(refined, swimmer_plan.PAPER),
            **swimmer_plan.motion_metrics(planned),
            "refinement levels": Metric(value=len(refined.levels), paper=3),
            "distance reached": Metric(value=reached),
        },
        notes=(
            "Sizes, density, time step, joint limits, springs and the reward of the paper's "
            "swimmer are not given, so they are chosen here.",
            "The time per iteration with the exact map is estimated: the time of one exact step "
            f"with its derivative, median of {N_EXACT_CALLS} calls, times {task.steps} steps. The "
            "paper's time is an estimate too. Such a step needs second derivatives of the added "
            "mass, by differences of 7 evaluations; the paper's time is that of about one. With "
            f"one evaluation a step the time would be {task.steps * calls['g']:.3g} s.",
            "The paper's evaluations belong to another task: distance, time step and tolerance of "
            "the plan are chosen here, and they determine the number.",
            "Euler steps as in the paper overestimate the distance; the distance by fourth-order "
            "steps is given too. The certificate covers the interpolation alone.",
            *refined.certificate.lines(),
        ),
        plots=swimmer_plan.plots(planned),
        frames=[
            frame_row(potential_scene(planned.model, states, ""), name)
            for name, states in (
                ("(c) swimmer, plan", planned.states),
                ("gait of at most this effort", planned.gait.states),
            )
        ],
    )


def _call_times(planned: SwimmingPlan, progress: Progress) -> dict[str, float]:
    """Return the median time [s] of a call of f, g, g with its derivative, and g~ along the
    plan."""
    model, plan = planned.model, planned.refined.plan
    sampled = np.linspace(0, len(plan.controls) - 1, N_CALLS).astype(int).tolist()
    exact_map = model.added_mass.exact_map
    few = sampled[:: N_CALLS // N_EXACT_CALLS]
    calls: dict[str, tuple[Sequence[int], Callable[[Any], Any]]] = {
        "f": (sampled, lambda k: exact_map(model.query_point(plan.states[k]))),
        "g": (sampled, lambda k: model.exact().step(plan.states[k], plan.controls[k])),
        "linearised g": (
            few,
            lambda k: _linearised(model.exact(), plan.states[k], plan.controls[k]),
        ),
        "g~": (sampled, lambda k: model.step(plan.states[k], plan.controls[k])),
    }
    return median_times(calls, progress)


def _linearised(model: Any, x: Any, u: Any) -> Any:
    return model.linearize(model.step(x, u))
