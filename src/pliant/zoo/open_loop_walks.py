"""Walkers with controls as functions of time: optimisation by growing horizons from several starts
of each seed, and its metrics and plots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import Adam, HalvingResult, OptimisationResult, successive_halving
from pliant.optimisation.result import OPTIMISATION
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
    search: HalvingResult  # of all starts
    states: Array  # (steps + 1, n_state)
    start: float  # [m] mean position along x at rest
    length: float  # [m] of the body
    gap: float  # [cells] largest distance of particles that are neighbours at rest

    @property
    def results(self) -> tuple[OptimisationResult, ...]:
        """The results of the best start, one for each horizon."""
        return self.search.results

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
        """The number of iterations of all starts and horizons."""
        return self.search.iterations

    @property
    def seconds(self) -> float:
        """The time [s] of all iterations of all starts."""
        return self.search.seconds

    @property
    def failures(self) -> int:
        """The number of trial simulations that failed; they are taken back."""
        trials = [result for results in self.search.trials for result in results]
        return sum(bool(row.failed) for result in trials for row in result.history)

    def curves(self) -> tuple[Array, Array, Array]:
        """Return the iteration, the time [s] and the longest distance [body lengths] so far at the
        end of the current horizon of the best start, with gaps (NaN) where the horizon grows."""
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
    guess: Callable[[int, np.random.Generator], Array],
    *,
    length: float,
    periods: Sequence[int],
    kept: Sequence[float] = (1.0,),
) -> list[Walk]:
    """Optimise a walk for each seed of the settings, with checkpoints in folders of the run.

    `problem_for(steps)` is the problem, `guess(steps, rng)` returns random first controls;
    `periods` and `kept` are those of `continue_periodically`. The setting "starts" is the number of
    first controls of a seed. "iterations" and "last_iterations" are the numbers of iterations of
    the earlier horizons and of the last one, "rate" and "later_rate" the rates of Adam of the first
    horizon and of the later ones, which start with a gait. A seed ends at "enough_distance".
    """
    s, walks = run.settings, []
    problems = [problem_for(steps) for steps in horizons]
    model: MaterialPoint = problems[-1].model  # type: ignore[assignment]
    start = forward_position(model, problems[-1].initial_state)
    n = len(horizons) - 1
    for seed in range(run.seed, run.seed + int(s["seeds"])):
        folder = run.folder / f"seed-{seed}"
        if not run.resume:
            remove_files(folder, f"**/{OPTIMISATION.noun}*")
        search = successive_halving(
            problems,
            [Adam(rate=float(s["rate"])), *[Adam(rate=float(s["later_rate"]))] * n],
            iterations=[int(s["iterations"])] * n + [int(s["last_iterations"])],
            periods=periods,
            kept=kept,
            starts=[
                problems[0].layout.blocks[0].scaled(controls.ravel())
                for controls in first_controls(guess, horizons[0], seed, int(s["starts"]))
            ],
            target=-(start + float(s["enough_distance"]) * length),
            folder=folder,
            resume=run.resume,
            progress=run.progress,
        )
        if search.interrupted:
            raise KeyboardInterrupt
        states = simulate(model, search.results[-1].values["controls"], progress=False).states
        gap = max(model.neighbour_gap(x) for x in states) / model.cell
        walks.append(
            Walk(seed=seed, search=search, states=states, start=start, length=length, gap=gap)
        )
    return walks


def first_controls(
    guess: Callable[[int, np.random.Generator], Array], steps: int, seed: int, count: int
) -> list[Array]:
    """Return the first controls (steps, n_controls) of each start of a seed. The first one does not
    depend on their number."""
    sequences = [np.random.SeedSequence([seed, k] if k else seed) for k in range(count)]
    return [guess(steps, np.random.default_rng(one)) for one in sequences]


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
