"""The third row of Table I of [Jia2019]: PPO trains a controller of the swimming robot."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pliant.papers.panels import frame_row
from pliant.papers.paper_run import PaperRun
from pliant.papers.table_one import PaperRow, RowTimes, TableRow, median_times, time_metrics
from pliant.progress import Progress
from pliant.report import DrawnScene
from pliant.swimming import SwimmerModel
from pliant.zoo.experiment import Metric
from pliant.zoo.experiments import swimmer_ppo
from pliant.zoo.swimming_report import potential_scene
from pliant.zoo.swimming_training import SwimTraining, train_swimmer
from pliant.zoo.swimming_training_report import evaluation_plot, learning_plot, training_metrics

PAPER = PaperRow(
    f=0.9,
    g=0.902,
    g_surrogate="0.002 (illegible; fits the other columns)",
    iteration=42.0,
    iteration_exact=16_424.0,
    speedup=1590,
)
N_CALLS = 20  # timed calls of each function
EXACT_CALLS = 5  # of those that take longer


def ppo_row(run: PaperRun) -> TableRow:
    """Train swimmer-ppo and measure every column of its row."""
    context = run.experiment("swimmer-ppo")
    method = swimmer_ppo.method(context.settings)
    found = train_swimmer(context, method, context.seed)
    return table_row(found, method.steps, float(context.settings["min_return"]), run.progress)


def table_row(
    found: SwimTraining, iteration_steps: int, min_return: float, progress: Progress
) -> TableRow:
    """Return the row of a training with a number of steps in each iteration."""
    calls = call_times(found, progress)
    levels = found.refined.levels
    iterations = sum(len(level.result.history) - 1 for level in levels)
    iteration = sum(level.result.history[-1].seconds for level in levels) / iterations
    times = RowTimes(
        f=calls["f"],
        g=calls["g"],
        g_surrogate=calls["g~"],
        iteration=iteration,
        # every step has the exact added mass; the rest of an iteration stays
        iteration_exact=iteration + iteration_steps * (calls["g"] - calls["g~"]),
    )
    reached = found.after.mean_return >= min_return
    model = levels[-1].model.model  # type: ignore[attr-defined]
    metrics = {
        "controls": Metric(value=model.n_controls, paper=3),
        **time_metrics(times, PAPER),
        **training_metrics(found, swimmer_ppo.PAPER),
        "return reached": Metric(value=reached),
    }
    notes = [
        "sizes, limits, time step, reward, network and seed are our choice, because the paper does "
        "not state them. Its policy sees the joint angles; ours also orientation and momenta.",
        "the time of an iteration with the exact map is estimated: that with the grid, and for "
        f"each of its {iteration_steps} steps the difference of g and g~. The number of the paper "
        "is an estimate, too.",
        f"times of f, g and g~ are medians of {EXACT_CALLS} to {N_CALLS} calls. A step of the "
        "fourth-order rule takes four values of f; the paper's takes one.",
        *found.refined.certificate.lines(),
    ]
    return TableRow(
        robot="swimmer, PPO",
        metrics=metrics,
        notes=notes,
        plots=[learning_plot([found]), evaluation_plot(found, "Fig. 5 (c): exact evaluations")],
        frames=[frame_row(_scene(model, found), "(c) swimmer, PPO")],
    )


def _scene(model: SwimmerModel, found: SwimTraining) -> DrawnScene:
    """Return the scene of the first episode of the trained controller."""
    return potential_scene(model, found.refined.result.replay()[0].states, "")


def call_times(found: SwimTraining, progress: Progress) -> dict[str, float]:
    """Return the median time [s] of a call of f, g and g~, along an episode of the training."""
    result = found.refined.result
    model: Any = found.refined.levels[-1].model.model  # type: ignore[attr-defined]
    assert isinstance(model, SwimmerModel)
    episode, exact = result.replay()[0], model.exact()
    sampled = np.linspace(0, len(episode.controls) - 1, N_CALLS).astype(int)
    states, controls = episode.states[sampled], episode.controls[sampled]
    added_mass = model.added_mass.exact_map  # type: ignore[union-attr]
    some, all_steps = range(EXACT_CALLS), range(N_CALLS)
    calls: dict[str, tuple[Sequence[int], Callable[[int], Any]]] = {
        "f": (some, lambda j: added_mass(model.query_point(states[j]))),
        "g": (some, lambda j: exact.step(states[j], controls[j])),
        "g~": (all_steps, lambda j: model.step(states[j], controls[j])),
    }
    return median_times(calls, progress)
