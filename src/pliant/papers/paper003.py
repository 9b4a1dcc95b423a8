"""[Zimmermann2021]: Table I with what our plans reach, and the figures about planners."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.bench.planning import measure
from pliant.core import MissingExtra
from pliant.papers.experiment_results import Found, written
from pliant.planners import Options, Plan, collocation, ddp, gauss_newton, newton
from pliant.problem import Problem
from pliant.progress import Progress
from pliant.report import Plot
from pliant.zoo.experiment import Metric, run
from pliant.zoo.experiments import lay_cloth, pendulum, whip
from pliant.zoo.gripper_tasks import problem_of
from pliant.zoo.registry import find

SHOWS = "Table I with results, and Fig. 3, 5, 8 and 9"
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
SHOWN = (
    "nodes",
    "arms",
    "steps",
    "time",
    "largest target error",
    "iterations",
    "time per iteration",
)
REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
MAKERS = {**pendulum.MAKERS, **whip.MAKERS, **lay_cloth.MAKERS}


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Everything of [Zimmermann2021], in one folder."""
    began = time.perf_counter()
    same, notes = agreement(quick, progress)
    metrics = {**table_one(folder, quick, progress), **same}
    plots, said = figures(quick, progress)
    return written(
        folder,
        "003",
        SHOWS,
        Found(metrics=metrics, notes=[*notes, *said]),
        quick=quick,
        began=began,
        plots=plots,
        missed="an experiment of Table I missed its goal, or a method another optimum",
    )


def table_one(folder: Path, quick: bool, progress: Progress) -> dict[str, Metric]:
    """Table I: each experiment planned by default, with the paper's numbers beside ours."""
    out: dict[str, Metric] = {}
    for k, name in enumerate(TABLE):
        progress("Table I", k, len(TABLE))
        found = run(
            find(name), out=folder / name, quick=quick, overrides={"small_animation": "true"}
        )
        for key in SHOWN:
            m = found["metrics"][key]
            out[f"{name}: {key}"] = Metric(value=m["value"], unit=m["unit"], paper=m["paper"])
        out[f"{name}: reached"] = Metric(value=found["status"] == "done")
    progress("Table I", len(TABLE), len(TABLE))
    return out


def agreement(quick: bool, progress: Progress) -> tuple[dict[str, Metric], list[str]]:
    """Do all exact methods reach the same optimum on the whip? All start from standing but
    collocation, which at full size does not find there in 100 iterations, and starts from a plan of
    gauss_newton to a tenth; what counts is the cost that its own program ends with."""
    task, tight = problem("whip-1", quick), Options(iterations=100)
    first, near = (
        gauss_newton(task, options=tight),
        gauss_newton(task, options=Options(tolerance=0.1)),
    )
    methods: dict[str, Callable[[], Plan]] = {
        "batch Gauss-Newton": lambda: newton(task, options=tight, second_order=False),
        "batch Newton": lambda: newton(task, options=tight),
        "DDP (iLQR)": lambda: ddp(task, options=tight),
        "collocation": lambda: collocation(
            task, guess=near.controls, options=tight, second_order=True
        ),
    }
    out, notes = {"whip-1: optimum by gauss_newton": Metric(value=first.cost)}, []
    for k, (name, method) in enumerate(methods.items()):
        progress("agreement on the whip", k, len(methods))
        try:
            plan = method()
        except MissingExtra as error:
            notes.append(f"{name} was left out: {error}")
            continue
        cost = float(plan.notes.get("nlp cost", plan.cost))
        out[f"whip-1: {name} beside it"] = Metric(
            value=abs(cost - first.cost) / first.cost, unit="relative"
        )
        out[f"whip-1: {name} agrees to 1e-6: reached"] = Metric(
            value=bool(plan.status) and abs(cost - first.cost) <= 1e-6 * first.cost
        )
    progress("agreement on the whip", len(methods), len(methods))
    return out, notes


def problem(name: str, quick: bool, **changes: Any) -> Problem:
    """The problem of an experiment."""
    experiment = find(name)
    task = MAKERS[name]({**experiment.chosen(quick=quick), **changes})
    return problem_of(task, task.model)


def figures(quick: bool, progress: Progress) -> tuple[list[Plot], list[str]]:
    work: Sequence[tuple[str, Callable[[bool], tuple[list[Plot], list[str]]]]] = (
        ("Fig. 5", figure_five),
        ("Fig. 8", figure_eight),
        ("Fig. 9", figure_nine),
        ("Fig. 3", figure_three),
    )
    plots: list[Plot] = []
    notes: list[str] = []
    for k, (name, figure) in enumerate(work):
        progress(f"figures ({name})", k, len(work))
        drawn, said = figure(quick)
        plots, notes = [*drawn, *plots] if name == "Fig. 3" else [*plots, *drawn], [*notes, *said]
    progress("figures", len(work), len(work))
    return plots, notes


def figure_three(quick: bool) -> tuple[list[Plot], list[str]]:
    """Time an iteration against the horizon, each method and body."""
    rows = [
        row for row in measure(quick, ("rod", "cloth", "strip", "pendulum")) if "seconds" in row
    ]
    plots = []
    for body in dict.fromkeys(row["body"] for row in rows):
        series = {}
        for method in dict.fromkeys(row["method"] for row in rows if row["body"] == body):
            mine = [row for row in rows if row["body"] == body and row["method"] == method]
            series[method] = (
                np.array([row["steps"] for row in mine]),
                np.array([row["seconds"] for row in mine]),
            )
        plots.append(
            Plot(
                title=f"Fig. 3: time an iteration, {body}",
                x="steps n_t",
                y="seconds",
                log_y=True,
                kind="both",
                series=series,
            )
        )
    return plots, []


def _costs(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(plan.history)), np.array([max(row.cost, 1e-300) for row in plan.history])


def _times(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    first = plan.history[0].seconds
    return np.array([row.seconds - first for row in plan.history]), np.array(
        [max(row.cost, 1e-300) for row in plan.history]
    )


def small_whip(quick: bool) -> Problem:
    """The smaller whip of Fig. 5 and 9, which only has to be at its target in time."""
    return problem("whip-1", quick, layers=4 if quick else 8, steps=12 if quick else 20, speed=0.0)


def figure_five(quick: bool) -> tuple[list[Plot], list[str]]:
    """DDP with fixed regularisers, and with the one that adapts."""
    task, options = small_whip(quick), Options(iterations=10 if quick else 40)
    series = {
        f"lambda = {value:g}": _costs(ddp(task, options=options, regulariser=value))
        for value in REGULARISERS
    }
    series["adaptive"] = _costs(ddp(task, options=options))
    return [
        Plot(
            title="Fig. 5: DDP's regulariser",
            x="iteration",
            y="objective",
            log_y=True,
            kind="both",
            series=series,
        )
    ], []


def figure_eight(quick: bool) -> tuple[list[Plot], list[str]]:
    """Convergence of the methods on the pendulum and the rod, against wall time."""
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
                x="seconds",
                y="objective",
                log_y=True,
                kind="both",
                series={label: _times(plan) for label, plan in plans.items()},
            )
        )
    return plots, []


def figure_nine(quick: bool) -> tuple[list[Plot], list[str]]:
    """Newton, DDP and Ipopt on a smaller whip: objective and violation of the dynamics against
    iterations."""
    task, options = small_whip(quick), Options(iterations=100)
    plans: dict[str, Plan] = {
        "Newton": newton(task, options=options),
        "DDP (iLQR)": ddp(task, options=options),
    }
    notes: list[str] = []
    try:
        for name, exact in (("Ipopt", False), ("Ipopt, curved", True)):
            plans[name] = collocation(task, options=Options(iterations=300), second_order=exact)
    except MissingExtra as error:
        notes.append(f"Fig. 9 without Ipopt: {error}")
    costs: Mapping[str, Any] = {label: _costs(plan) for label, plan in plans.items()}
    broken = {
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
    if broken:
        plots.append(
            Plot(
                title="Fig. 9: violated dynamics",
                x="iteration",
                y="largest residual force [N]",
                log_y=True,
                kind="both",
                series=broken,
            )
        )
    notes.append(
        "Fig. 5 and 9 are of a smaller whip without a goal for its speed; Ipopt, curved has the "
        "dynamics' curvature in its Hessian; Newton and DDP never violate the dynamics."
    )
    notes.append(
        "Fig. 9, final objective: "
        + ", ".join(f"{label} {plan.cost:.8g}" for label, plan in plans.items())
        + "."
    )
    return plots, notes
