"""Walkers with controls as functions of time: optimisation by growing horizons with several seeds,
and its metrics and plots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import Adam, OptimisationResult, optimise_growing_horizon
from pliant.problem import Problem
from pliant.report import Plot
from pliant.store import remove_files
from pliant.zoo.experiment import ExperimentRun, Metric
from pliant.zoo.walker_report import half_interval
from pliant.zoo.walkers import forward_position

LENGTHS = "body lengths"


@dataclass(frozen=True, kw_only=True, eq=False)
class Walk:
    """The walk that one seed has found."""

    seed: int
    results: tuple[OptimisationResult, ...]  # of each horizon
    states: Array  # (steps + 1, n_state)
    start: float  # [m] mean position along x at rest
    length: float  # [m] of the body
    gap: float  # [cells] largest distance of particles that are neighbours at rest

    @property
    def controls(self) -> Array:
        """The controls (steps, n_controls)."""
        return self.results[-1].values["controls"]

    @property
    def distance(self) -> float:
        """The distance [body lengths] at the end of the last horizon. The effort in the objective
        is below 1e-4 of it."""
        return float(self.horizon_distances(self.results[-1])[-1])

    def horizon_distances(self, result: OptimisationResult) -> Array:
        """Return the longest distance [body lengths] so far at the end of a horizon
        (iterations + 1,)."""
        values = [row.value for row in result.history]
        return -(np.minimum.accumulate(values) + self.start) / self.length

    @property
    def iterations(self) -> int:
        """The number of iterations of all horizons."""
        return sum(len(result.history) - 1 for result in self.results)

    @property
    def seconds(self) -> float:
        """The time [s] of all iterations."""
        return sum(result.history[-1].seconds for result in self.results)

    @property
    def failures(self) -> int:
        """The number of trial simulations that failed; they are taken back."""
        return sum(bool(row.failed) for result in self.results for row in result.history)

    def curves(self) -> tuple[Array, Array, Array]:
        """Return the iteration, the time [s] and the longest distance [body lengths] so far at the
        end of the current horizon, with gaps (NaN) where the horizon grows."""
        pieces, n, seconds = [], 0, 0.0
        for result in self.results:
            count = np.arange(len(result.history), dtype=float)
            time = np.array([row.seconds for row in result.history])
            pieces.append(np.array([n + count, seconds + time, self.horizon_distances(result)]))
            pieces.append(np.full((3, 1), np.nan))
            n, seconds = n + len(count) - 1, seconds + float(time[-1])
        iteration, time, distance = np.concatenate(pieces[:-1], axis=1)
        return iteration, time, distance


def optimise_walks(
    run: ExperimentRun,
    problem_for: Callable[[int], Problem],
    horizons: Sequence[int],
    guess: Callable[[int, int], Array],
    *,
    length: float,
    periods: Sequence[int],
    kept: Sequence[float] = (1.0,),
) -> list[Walk]:
    """Optimise a walk for each seed of the settings, with checkpoints in folders of the run.

    `problem_for(steps)` is the problem, `guess(steps, seed)` the first controls; `periods` and
    `kept` are those of `continue_periodically`. The settings "iterations" and "last_iterations" are
    the numbers of iterations of the earlier horizons and of the last one, "rate" and "later_rate"
    the rates of Adam of the first horizon and of the later ones, which start with a gait. A seed
    ends at "enough_distance".
    """
    s, walks = run.settings, []
    problems = [problem_for(steps) for steps in horizons]
    model: MaterialPoint = problems[-1].model  # type: ignore[assignment]
    start = forward_position(model, problems[-1].initial_state)
    n = len(horizons) - 1
    for seed in range(run.seed, run.seed + int(s["seeds"])):
        folder = run.folder / f"seed-{seed}"
        if not run.resume:
            remove_files(folder, "*")
        results = optimise_growing_horizon(
            problems,
            [Adam(rate=float(s["rate"])), *[Adam(rate=float(s["later_rate"]))] * n],
            iterations=[int(s["iterations"])] * n + [int(s["last_iterations"])],
            periods=periods,
            kept=kept,
            start=problems[0].layout.blocks[0].scaled(guess(horizons[0], seed).ravel()),
            target=-(start + float(s["enough_distance"]) * length),
            folder=folder,
            resume=run.resume,
            progress=run.progress,
        )
        if results[-1].interrupted:
            raise KeyboardInterrupt
        states = simulate(model, results[-1].values["controls"], progress=False).states
        gap = max(model.neighbour_gap(x) for x in states) / model.cell
        walks.append(
            Walk(seed=seed, results=results, states=states, start=start, length=length, gap=gap)
        )
    return walks


def walk_metrics(walks: Sequence[Walk], least: float) -> dict[str, Metric]:
    """Return the distances of all seeds, with the interval of their mean, and the counts."""
    distances = np.array([walk.distance for walk in walks])
    half = half_interval(distances)
    interval = {
        "half width of the 90 % interval of the mean": Metric(value=half, unit=LENGTHS),
        "shortest walking distance over seeds": Metric(value=float(distances.min()), unit=LENGTHS),
        f"seeds that walk {least:g} body lengths": Metric(value=int(np.sum(distances >= least))),
    }
    return {
        "walking distance": Metric(value=float(distances.max()), unit=LENGTHS, paper="2 in 5 min"),
        "mean walking distance over seeds": Metric(value=float(distances.mean()), unit=LENGTHS),
        **(interval if len(walks) > 1 else {}),
        "largest gap between neighbouring particles": Metric(
            value=float(max(walk.gap for walk in walks)), unit="cells"
        ),
        "failed trial simulations": Metric(value=sum(walk.failures for walk in walks)),
        "iterations": Metric(value=max(walk.iterations for walk in walks)),
        "longest time of the iterations of a seed": Metric(
            value=max(walk.seconds for walk in walks), unit="s", paper=300
        ),
    }


def walk_note(walk: Walk) -> str:
    """Return one line about the walk of a seed."""
    counts = " + ".join(str(len(result.history) - 1) for result in walk.results)
    return (
        f"seed {walk.seed}: {walk.distance:.2f} body lengths, {counts} iterations in "
        f"{walk.seconds:.0f} s, failed trials {walk.failures}, largest gap {walk.gap:.2f} cells"
    )


def walk_plots(walks: Sequence[Walk], figure: str) -> list[Plot]:
    """Return the learning curves over the iterations and over the time."""
    curves = {f"seed {walk.seed}": walk.curves() for walk in walks}
    return [
        Plot(
            title=f"{figure}: longest distance so far",
            x=label,
            y="distance at the end of the horizon [body lengths]",
            kind="both",
            series={name: (curve[axis], curve[2]) for name, curve in curves.items()},
        )
        for axis, label in enumerate(("iteration", "time [s]"))
    ]
