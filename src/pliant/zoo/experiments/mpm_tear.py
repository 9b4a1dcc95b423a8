"""mpm-tear: a soft bar of material points hangs and is stretched by its weight; with few particles
in a cell it tears numerically [Spielberg2021, section 3]."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pliant.core import Array, counted
from pliant.dynamics import simulate
from pliant.geometry import Rectangle
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.report.particle_scene import particle_scene
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

PER_CELL = (1, 2, 3, 4)  # particles along an edge of a cell


@dataclass(frozen=True, kw_only=True, eq=False)
class StretchedBar:
    """The motion of a bar until its end, or until it tears."""

    model: MaterialPoint
    states: Array  # (k + 1, n_state)
    gaps: Array  # (k + 1,) [cells] largest distance of particles that are neighbours at rest
    lowest: Array  # (k + 1,) [m] height of the lowest particle
    failure: str  # empty if the bar stays whole


def label(per_cell: int) -> str:
    """Return the name of a sampling."""
    return f"{counted(per_cell, 'particle')} along a cell"


def bar(modulus: float) -> Robot:
    """Return a bar that hangs from its upper end."""
    return Robot(
        name="bar",
        shape=Rectangle(size=(0.02, 0.1)),
        cell=0.02,
        order=1,
        gravity=(0.0, -9.81),
        material=Material(E=modulus, nu=0.3, density=1000.0),
        supports=[Support(region="y+")],
        damping=Damping(mass=5.0),
        effectors={"end": Effector(surface="y-")},
    )


def bar_model(settings: Mapping[str, Setting], per_cell: int, transfer: str) -> MaterialPoint:
    """Return the bar with some particles along an edge of a cell."""
    return MaterialPoint(
        bar(float(settings["modulus"])),
        dt=float(settings["dt"]),
        cell=float(settings["cell"]),
        per_cell=per_cell,
        substeps=int(settings["substeps"]),
        transfer=transfer,
    )


def stretched(model: MaterialPoint, steps: int) -> StretchedBar:
    """Release the bar in its rest shape."""
    states, failure = [model.initial_state()], ""
    for k in range(steps):
        step = model.step(states[-1], np.zeros(0), None, k)
        if not step.status:
            failure = step.status.text
            break
        states.append(step.x)
    positions = [model.particles(x).position for x in states]
    gaps = [model.neighbour_gap(x) / model.cell for x in states]
    return StretchedBar(
        model=model,
        states=np.array(states),
        gaps=np.array(gaps),
        lowest=np.array([position[:, 1].min() for position in positions]),
        failure=failure,
    )


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    cases = {label(n): (n, "updated") for n in PER_CELL}
    cases[f"{label(2)}, total transfer"] = (2, "total")
    motions = {}
    for k, (name, (count, transfer)) in enumerate(cases.items()):
        run.progress("stretching", k, len(cases))
        motions[name] = stretched(bar_model(s, count, transfer), int(s["steps"]))
    dt = float(s["dt"])
    clock = lambda values: dt * np.arange(len(values))
    torn = [name for name, motion in motions.items() if motion.failure]
    shown = motions[torn[-1] if torn else label(PER_CELL[-1])]
    # finer sampling tears later, and the transfer with weights of the rest shape cannot
    reached = torn == [label(n) for n in PER_CELL[: len(torn)]] and 0 < len(torn) < len(PER_CELL)
    return Outcome(
        metrics={
            f"{what}, {name}": metric
            for name, motion in motions.items()
            for what, metric in _metrics(motion).items()
        },
        plots=[
            Plot(
                title="Largest distance of neighbours",
                x="time [s]",
                y="distance [cells]",
                series={name: (clock(one.gaps), one.gaps) for name, one in motions.items()},
            ),
            Plot(
                title="Lowest particle",
                x="time [s]",
                y="height [m]",
                series={name: (clock(one.lowest), one.lowest) for name, one in motions.items()},
            ),
        ],
        scene=particle_scene(shown.model, shown.states, title="mpm-tear", colour="strain"),
        reached=reached,
        message="done"
        if reached
        else f"the bars that tear are: {'; '.join(torn) or 'none'}. Change the modulus.",
        notes=tuple(f"{name}: {motions[name].failure}" for name in torn),
    )


def _metrics(motion: StretchedBar) -> dict[str, Metric]:
    whole = motion.model.dt * (len(motion.states) - 1)
    return {
        "largest gap": Metric(value=float(motion.gaps.max()), unit="cells"),
        "whole for": Metric(value=float(whole), unit="s" if motion.failure else "s (to the end)"),
        "lowest particle": Metric(value=float(motion.lowest.min()), unit="m"),
    }


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the bar with two particles along a cell while it is stretched."""
    model = bar_model(settings, 2, "updated")
    return model, simulate(model, np.zeros((4, 0)), progress=False).states[-1], np.zeros(0)


EXPERIMENT = Experiment(
    name="mpm-tear",
    paper="004",
    shows="a soft bar tears numerically with few particles in a cell, and not with more, or with "
    "the total transfer",
    size="80 to 1,280 particles, 2D, 5 samplings",
    takes="20 s",
    perform=perform,
    probe=probe,
    settings={
        "modulus": 1500.0,
        "cell": 0.005,
        "dt": 0.01,
        "steps": 80,
        "substeps": 120,
        "small_animation": False,
    },
    quick={"cell": 0.01, "substeps": 60, "steps": 40, "small_animation": True},
)
