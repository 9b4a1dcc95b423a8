"""The outcome of trained walkers: distances with intervals over the seeds, gains of co-design, and
learning curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from pliant.core import Array
from pliant.design import RobotDesign
from pliant.mpm import MaterialPoint
from pliant.report import DrawnScene, Plot
from pliant.report.control_plots import control_plots
from pliant.report.particle_scene import particle_scene
from pliant.zoo.experiment import ExperimentRun, Metric, Outcome
from pliant.zoo.walker_training import MakeWalker, WalkerTraining, train_walkers, walker_design
from pliant.zoo.walkers import FIELDS, NONE

CONFIDENCE = 0.9  # of the intervals, as in the paper
LEAST_WALK = 0.1  # [body lengths] of control alone, below which a gain says nothing
ORDER = ("E", "density", "nu")  # of the gains by one field, from large to small, in the paper


@dataclass(frozen=True, kw_only=True)
class PaperValues:
    """What the paper reports about a walker; None: nothing."""

    figure: str  # such as "Fig. 11"
    particles: int
    pressures: int
    time: float  # [s]
    gain: str | None = None  # of the co-design of all fields [%]


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkerMotion:
    """The motion of a trained walker."""

    model: MaterialPoint
    states: Array  # (steps + 1, n_state)
    controls: Array  # (steps, n_controls) [Pa]
    title: str

    @classmethod
    def of(cls, design: RobotDesign, training: WalkerTraining) -> "WalkerMotion":
        """Return the motion of the best design of a training."""
        loop: Any = design.problem.model
        states = design.simulate().states
        return cls(
            model=loop.model,
            states=states[:, : loop.model.space.size],
            controls=np.array([loop.space.split(x).controls for x in states[1:]]),
            title=f"{loop.model.robot.name}, {training.combination}, seed {training.seed}",
        )

    @property
    def gap(self) -> float:
        """The largest gap [cells] between particles that are neighbours at rest."""
        return max(self.model.neighbour_gap(x) for x in self.states) / self.model.cell

    def scene(self) -> DrawnScene:
        """Return the scene, in which colours show the pressures."""
        return particle_scene(
            self.model,
            self.states,
            controls=self.controls,
            title=self.title,
            colour="actuation",
        )

    def control_plots(self) -> list[Plot]:
        """Return the plots of the pressures."""
        times = self.model.dt * np.arange(len(self.states))
        return control_plots(self.model.robot, times, self.controls, x="time [s]")


def walker_outcome(run: ExperimentRun, make: MakeWalker, paper: PaperValues) -> Outcome:
    """Train the walkers of a run, simulate the best one, and return the outcome."""
    found = train_walkers(run, make)
    groups = by_combination(found)
    best = max(found, key=lambda one: one.distances[-1])
    design = walker_design(make, run.settings, best)
    if design.fields:
        design.export(run.folder / "design")
    motion = WalkerMotion.of(design, best)
    run.save_trajectory(motion.states, motion.controls, dt=motion.model.dt)
    reached, message = _judged(float(best.distances[-1]), float(run.settings["min_distance"]))
    return Outcome(
        metrics={
            **_size_metrics(motion, paper),
            "largest gap between neighbouring particles": Metric(value=motion.gap, unit="cells"),
            **distance_metrics(groups, paper),
            **_cost_metrics(found),
        },
        plots=[*learning_plots(groups, paper.figure), *motion.control_plots()],
        scene=motion.scene(),
        reached=reached,
        message=message,
    )


def _judged(farthest: float, least: float) -> tuple[bool, str]:
    """Return whether the farthest walker moved far enough [body lengths], and the message."""
    if farthest >= least:
        return True, "done"
    return False, (
        f"the farthest walker moved {farthest:.2f} body lengths, below {least:g}; allow more "
        "iterations or seeds"
    )


def by_combination(found: Sequence[WalkerTraining]) -> dict[str, list[WalkerTraining]]:
    """Return the trainings of each combination, in the order of their seeds."""
    out: dict[str, list[WalkerTraining]] = {}
    for one in found:
        out.setdefault(one.combination, []).append(one)
    return out


def half_interval(values: Array) -> float:
    """Return half the width of the interval of a mean by Student's t; NaN for a single value."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return np.nan
    quantile = student.ppf(0.5 + 0.5 * CONFIDENCE, len(values) - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(len(values)))


def _size_metrics(motion: WalkerMotion, paper: PaperValues) -> dict[str, Metric]:
    model, time = motion.model, len(motion.controls) * motion.model.dt
    return {
        "particles": Metric(value=model.body.n_particles, paper=paper.particles),
        "pressures": Metric(value=model.n_controls, paper=paper.pressures),
        "simulated time": Metric(value=time, unit="s", paper=paper.time),
        "substeps of a step": Metric(value=model.substeps),
    }


def _cost_metrics(found: Sequence[WalkerTraining]) -> dict[str, Metric]:
    last = [one.result.history for one in found]
    seconds = [rows[-1].seconds / max(len(rows) - 1, 1) for rows in last]
    return {
        "failed simulations": Metric(value=sum(one.failures for one in found)),
        "iterations": Metric(value=max(int(one.iterations[-1]) for one in found)),
        "iterations of all starts": Metric(value=sum(one.search.iterations for one in found)),
        "time per iteration of the longest horizon": Metric(
            value=float(np.mean(seconds)), unit="s"
        ),
        "longest time of a training": Metric(
            value=max(one.search.seconds for one in found), unit="s", paper=300
        ),
    }


def distance_metrics(
    groups: Mapping[str, Sequence[WalkerTraining]], paper: PaperValues
) -> dict[str, Metric]:
    """Return the mean distance of each combination and its gain over control alone, each with half
    the width of its interval over the seeds. Gains compare equal seeds, if control alone walks."""
    out, last = {}, {name: _last(group) for name, group in groups.items()}
    for name, distances in last.items():
        label = f"distance, {_label(name)}"
        out[f"mean {label}"] = Metric(value=float(distances.mean()), unit="body lengths")
        out |= _interval(label, distances, "body lengths")
    if NONE not in last or last[NONE].mean() < LEAST_WALK:
        return out
    for name, distances in last.items():
        if name != NONE:
            change = 100.0 * (distances - last[NONE]) / last[NONE].mean()
            complete = paper.gain if name == "+".join(FIELDS) else None
            label = f"gain of co-design, {name}"
            out[label] = Metric(value=float(change.mean()), unit="%", paper=complete)
            out |= _interval(label, change, "%")
    if set(ORDER) <= set(last):
        means = [last[name].mean() for name in ORDER]
        ordered = bool(means[0] > means[1] > means[2])
        out["gains in the order E, density, nu"] = Metric(value=ordered, paper="True")
    return out


def _last(group: Sequence[WalkerTraining]) -> Array:
    return np.array([one.distances[-1] for one in group])


def _interval(label: str, values: Array, unit: str) -> dict[str, Metric]:
    half = half_interval(values)
    name = f"half width of the 90 % interval, {label}"
    return {name: Metric(value=half, unit=unit)} if np.isfinite(half) else {}


def _label(name: str) -> str:
    return "control alone" if name == NONE else name


def learning_plots(groups: Mapping[str, Sequence[WalkerTraining]], figure: str) -> list[Plot]:
    """Return the plots of the paper: the longest distance so far over the iterations and over the
    time, mean and interval over the seeds."""
    curves = {_label(name): _mean_curve(group) for name, group in groups.items()}
    return [
        Plot(
            title=f"{figure}: distance, mean and 90 % interval over the seeds",
            x=label,
            y="longest distance so far [body lengths]",
            series={name: (curve[axis], curve["mean"]) for name, curve in curves.items()},
            bands={name: (curve["low"], curve["high"]) for name, curve in curves.items()},
        )
        for axis, label in (("iteration", "iteration"), ("seconds", "time of a training [s]"))
    ]


def _mean_curve(group: Sequence[WalkerTraining]) -> dict[str, Array]:
    """Return the mean and interval over the seeds; a training that ended early keeps its
    distance."""
    longest = max(group, key=lambda one: len(one.distances))
    count = len(longest.distances)
    rows = np.array(
        [np.pad(one.distances, (0, count - len(one.distances)), "edge") for one in group]
    )
    seconds = np.array(
        [np.pad(one.seconds, (0, count - len(one.seconds)), "edge") for one in group]
    )
    mean = rows.mean(axis=0)
    half = np.nan_to_num([half_interval(column) for column in rows.T])
    return {
        "iteration": longest.iterations,
        "seconds": seconds.mean(axis=0),
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
    }
