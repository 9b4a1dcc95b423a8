"""[Zimmermann2021]: Table I with the results of Pliant, and the figures that compare planners."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.bench.planning import measure
from pliant.core import MissingExtra
from pliant.papers.experiment_results import MeasuredMetrics, write_paper_result
from pliant.papers.explicit_integration import explicit_integration
from pliant.papers.panels import frame_row, write_panels
from pliant.planners import Options, Plan, collocation, ddp, gauss_newton, newton
from pliant.problem import Problem
from pliant.progress import Progress
from pliant.report import Plot
from pliant.zoo.experiment import Metric, run
from pliant.zoo.experiments import lay_cloth, pendulum, whip, whip_feedback
from pliant.zoo.gripper_tasks import problem_of
from pliant.zoo.registry import find

SHOWS = (
    "Table I with results, Fig. 3, 5, 8 and 9, the instability of eq. 2, and a simulated "
    "sim-to-real comparison beside Fig. 7"
)
TABLE = (
    "pendulum-1",
    "pendulum-2",
    "pendulum-4",
    "whip-1",
    "whip-2",
    "cloth-thin",
    "cloth-toss",
    "cloth-flip",
)
# metrics of an experiment that the table contains
TABLE_METRICS = (
    "nodes",
    "arms",
    "steps",
    "time",
    "largest target error",
    "iterations",
    "time per iteration",
)
COLD_START_ITERATIONS = 60  # of collocation on the whole rod, about three minutes
REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
FIGURE_SEVEN = (
    "fig-7.png shows the whip instead of the foam sheet of Fig. 7: the plan, and the same controls "
    "on a simulated real rod of a finer mesh, with another modulus and damping. The paper gives no "
    "number for its mismatch."
)
TASK_FACTORIES = {
    **pendulum.TASK_FACTORIES,
    **whip.TASK_FACTORIES,
    **lay_cloth.TASK_FACTORIES,
}


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Reproduce the table and the figures and write the result folder."""
    start = time.perf_counter()
    optima, notes = compare_optima(quick, progress)
    metrics = {**table_one(folder, quick, progress), **optima}
    plots, figure_notes = figures(quick, progress)
    real, real_plots, media = sim_to_real(folder, quick, progress)
    explicit, explicit_plot, explicit_note = explicit_integration()
    return write_paper_result(
        folder,
        "003",
        SHOWS,
        MeasuredMetrics(
            metrics={**metrics, **real, **explicit},
            notes=[*notes, *figure_notes, FIGURE_SEVEN, explicit_note],
        ),
        quick=quick,
        start=start,
        plots=[*plots, explicit_plot, *real_plots],
        media=media,
        failure="an experiment of Table I did not reach its goal, or the optima differ",
    )


def table_one(folder: Path, quick: bool, progress: Progress) -> dict[str, Metric]:
    """Return Table I: each experiment with its default planner, beside the paper's values."""
    out: dict[str, Metric] = {}
    for k, name in enumerate(TABLE):
        progress("Table I", k, len(TABLE))
        result = run(
            find(name), out=folder / name, quick=quick, overrides={"small_animation": "true"}
        )
        for key in TABLE_METRICS:
            m = result["metrics"][key]
            out[f"{name}: {key}"] = Metric(value=m["value"], unit=m["unit"], paper=m["paper"])
        out[f"{name}: targets reached"] = Metric(value=result["status"] == "done")
    progress("Table I", len(TABLE), len(TABLE))
    return out


def sim_to_real(
    folder: Path, quick: bool, progress: Progress
) -> tuple[dict[str, Metric], list[Plot], list[str]]:
    """Return metrics, plots and pictures of the plan of the whip on a simulated real rod, beside
    Fig. 7."""
    progress("sim-to-real", 0, 1)
    settings = find("whip-feedback").resolve_settings(quick=quick)
    task = whip_feedback.task_of(settings)
    problem = problem_of(task, task.model)
    plan = whip_feedback.plan_with_gains(problem, Options(progress=progress))
    compared = {
        name: whip_feedback.compare(robot, problem, plan)
        for name, robot in whip_feedback.rods(settings).items()
    }
    rows = [frame_row(whip_feedback.plan_scene(task, plan), "plan")] + [
        frame_row(
            whip_feedback.rod_scene(compared[whip_feedback.REAL], way, task, ""), f"real rod, {way}"
        )
        for way in compared[whip_feedback.REAL].runs
    ]
    panels = write_panels(
        folder / "fig-7.png", [row.pictures for row in rows], [row.titles for row in rows]
    )
    target = np.asarray(task.targets[0].target, float)[-1]
    metrics = whip_feedback.feedback_metrics(problem, plan, compared, target)
    progress("sim-to-real", 1, 1)
    return (
        {f"sim-to-real, {name}": metric for name, metric in metrics.items()},
        whip_feedback.tip_plots(problem, plan, compared),
        [panels.name],
    )


def compare_optima(quick: bool, progress: Progress) -> tuple[dict[str, Metric], list[str]]:
    """Compare the optima that the exact methods find for the whip.

    All methods start from constant controls except collocation. At full size it does not converge
    from there in 100 iterations, so it starts from a gauss_newton plan with a tolerance of 0.1. Its
    cost is that of its own nonlinear program.
    """
    task, options = problem("whip-1", quick), Options(iterations=100)
    first = gauss_newton(task, options=options)
    coarse = gauss_newton(task, options=Options(tolerance=0.1))
    methods: dict[str, Callable[[], Plan]] = {
        "batch Gauss-Newton": lambda: newton(task, options=options, second_order=False),
        "batch Newton": lambda: newton(task, options=options),
        "DDP (iLQR)": lambda: ddp(task, options=options),
        "collocation": lambda: collocation(
            task, guess=coarse.controls, options=options, second_order=True
        ),
    }
    out, notes = {"whip-1: objective of gauss_newton": Metric(value=first.cost)}, []
    for k, (name, method) in enumerate(methods.items()):
        progress("comparison of optima", k, len(methods))
        try:
            plan = method()
        except MissingExtra as error:
            notes.append(f"{name} was skipped: {error}")
            continue
        cost = float(plan.notes.get("nlp cost", plan.cost))
        out[f"whip-1: relative objective difference of {name}"] = Metric(
            value=abs(cost - first.cost) / first.cost
        )
        out[f"whip-1: {name}: same optimum reached"] = Metric(
            value=bool(plan.status) and abs(cost - first.cost) <= 1e-6 * first.cost
        )
    progress("comparison of optima", len(methods), len(methods))
    return out, notes


def problem(name: str, quick: bool, **changes: Any) -> Problem:
    """Return the planning problem of an experiment, with changed settings."""
    experiment = find(name)
    task = TASK_FACTORIES[name]({**experiment.resolve_settings(quick=quick), **changes})
    return problem_of(task, task.model)


def figures(quick: bool, progress: Progress) -> tuple[list[Plot], list[str]]:
    """Return the plots of all figures and notes about them."""
    work: Sequence[tuple[str, Callable[[bool], tuple[list[Plot], list[str]]]]] = (
        ("Fig. 5", figure_five),
        ("Fig. 8", figure_eight),
        ("Fig. 9", figure_nine),
        ("Fig. 9 at full size", figure_nine_at_full_size),
        ("Fig. 3", figure_three),
    )
    plots: list[Plot] = []
    notes: list[str] = []
    for k, (name, figure) in enumerate(work):
        progress(f"figures ({name})", k, len(work))
        new_plots, new_notes = figure(quick)
        plots = [*new_plots, *plots] if name == "Fig. 3" else [*plots, *new_plots]
        notes += new_notes
    progress("figures", len(work), len(work))
    return plots, notes


def figure_three(quick: bool) -> tuple[list[Plot], list[str]]:
    """Return Fig. 3: time per iteration over the horizon, for each method and body."""
    rows = [
        row for row in measure(quick, ("rod", "cloth", "strip", "pendulum")) if "seconds" in row
    ]
    plots = []
    for body in dict.fromkeys(row["body"] for row in rows):
        series = {}
        for method in dict.fromkeys(row["method"] for row in rows if row["body"] == body):
            own = [row for row in rows if row["body"] == body and row["method"] == method]
            series[method] = (
                np.array([row["steps"] for row in own]),
                np.array([row["seconds"] for row in own]),
            )
        plots.append(
            Plot(
                title=f"Fig. 3: time per iteration, {body}",
                x="steps n_t",
                y="time per iteration [s]",
                log_y=True,
                kind="both",
                series=series,
            )
        )
    return plots, []


def _costs(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterations and their objectives."""
    return np.arange(len(plan.history)), np.array([max(row.cost, 1e-300) for row in plan.history])


def _times(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the times [s] of the iterations and their objectives."""
    first = plan.history[0].seconds
    return np.array([row.seconds - first for row in plan.history]), np.array(
        [max(row.cost, 1e-300) for row in plan.history]
    )


def small_whip(quick: bool) -> Problem:
    """Return the smaller whip problem of Fig. 5 and 9, without a velocity goal."""
    return problem("whip-1", quick, layers=4 if quick else 8, steps=12 if quick else 20, speed=0.0)


def figure_five(quick: bool) -> tuple[list[Plot], list[str]]:
    """Return Fig. 5: DDP with fixed regularisers and with the adaptive one."""
    task, options = small_whip(quick), Options(iterations=10 if quick else 40)
    series = {
        f"lambda = {value:g}": _costs(ddp(task, options=options, regulariser=value))
        for value in REGULARISERS
    }
    series["adaptive"] = _costs(ddp(task, options=options))
    return [
        Plot(
            title="Fig. 5: regulariser of DDP",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series=series,
        )
    ], []


def figure_eight(quick: bool) -> tuple[list[Plot], list[str]]:
    """Return Fig. 8: convergence of the methods over time, for the pendulum and the rod."""
    plots = []
    for name in ("pendulum-1", "whip-1"):
        task, options = problem(name, quick), Options(iterations=10 if quick else 40)
        plans = {
            "gauss_newton": gauss_newton(task, options=options),
            "DDP (iLQR)": ddp(task, options=options),
            "batch Newton": newton(task, options=options),
            "batch Gauss-Newton": newton(task, options=options, second_order=False),
        }
        plots.append(
            Plot(
                title=f"Fig. 8: convergence, {name}",
                x="time [s]",
                y="objective",
                log_y=True,
                kind="both",
                series={label: _times(plan) for label, plan in plans.items()},
            )
        )
    return plots, []


def figure_nine_at_full_size(quick: bool) -> tuple[list[Plot], list[str]]:
    """Return Fig. 9 for the whole rod with the velocity goal: objective and violation of the
    dynamics of collocation that starts from the rod at rest."""
    task, iterations = problem("whip-1", quick), 5 if quick else COLD_START_ITERATIONS
    try:
        plan = collocation(task, options=Options(iterations=iterations), second_order=True)
    except MissingExtra as error:
        return [], [f"Fig. 9 at full size was skipped: {error}"]
    number, costs = _costs(plan)
    violation = np.array([max(row.infeasibility, 1e-16) for row in plan.history])
    series = {"objective": (number, costs), "largest residual force [N]": (number, violation)}
    note = (
        f"Fig. 9 at full size: from the rod at rest, collocation has a residual force of "
        f"{violation[0]:.2g} N at first, {violation.max():.2g} N at most and {violation[-1]:.2g} N "
        f"after {len(plan.history) - 1} iterations ({plan.status.text})."
    )
    plot = Plot(
        title="Fig. 9 at full size: collocation from rest",
        x="iteration",
        y="objective [-], residual force [N]",
        log_y=True,
        kind="both",
        series=series,
    )
    return [plot], [note]


def figure_nine(quick: bool) -> tuple[list[Plot], list[str]]:
    """Return Fig. 9: objective and violation of the dynamics over the iterations of Newton, DDP and
    Ipopt, for a smaller whip."""
    task, options = small_whip(quick), Options(iterations=100)
    plans: dict[str, Plan] = {
        "Newton": newton(task, options=options),
        "DDP (iLQR)": ddp(task, options=options),
    }
    notes: list[str] = []
    try:
        for name, second_order in (("Ipopt", False), ("Ipopt, second order", True)):
            plans[name] = collocation(
                task, options=Options(iterations=300), second_order=second_order
            )
    except MissingExtra as error:
        notes.append(f"Fig. 9, Ipopt was skipped: {error}")
    costs: Mapping[str, Any] = {label: _costs(plan) for label, plan in plans.items()}
    violations = {
        label: (
            np.arange(len(plan.history)),
            np.array([max(row.infeasibility, 1e-16) for row in plan.history]),
        )
        for label, plan in plans.items()
        if label.startswith("Ipopt")
    }
    plots = [
        Plot(
            title="Fig. 9: convergence",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series=dict(costs),
        )
    ]
    if violations:
        plots.append(
            Plot(
                title="Fig. 9: violation of the dynamics",
                x="iteration",
                y="largest residual force [N]",
                log_y=True,
                kind="both",
                series=violations,
            )
        )
    notes.append(
        "Fig. 5 and 9 use a smaller whip without a velocity goal. 'Ipopt, second order' includes "
        "the second derivatives of the dynamics. Newton and DDP never violate the dynamics."
    )
    notes.append(
        "Fig. 9, final objective: "
        + ", ".join(f"{label} {plan.cost:.8g}" for label, plan in plans.items())
        + "."
    )
    return plots, notes
