"""quadruped, hexapod, octoped: walkers in space with four pressure chambers in each leg, alone and
together with their material [Spielberg2021, section 5.3.2, Fig. 12 to 14]."""

from collections.abc import Mapping
from functools import partial

from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Experiment, Setting
from pliant.zoo.robots.block_walkers import LEG, TIME, legged_walker
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import Walker

COUNT = 15  # particles along each edge of a block at full size
PER_CELL = 3  # particles along the height of a cell
TABLE = {
    "quadruped": PaperValues(
        figure="Fig. 12", particles=84375, pressures=16, time=3.0, gain="about 33"
    ),
    "hexapod": PaperValues(
        figure="Fig. 13", particles=111375, pressures=24, time=3.0, gain="about 33"
    ),
    "octoped": PaperValues(
        figure="Fig. 14", particles=138375, pressures=32, time=3.0, gain="about 33"
    ),
}


def make_walker(name: str, settings: Mapping[str, Setting]) -> Walker:
    """Return a walker. The legs have PER_CELL particles along the height of a cell, and twice as
    many across; the body has at least two along a cell."""
    blocks = legged_walker(name)
    robot, count = blocks.robot(), round(COUNT / float(settings["coarsening"]))
    return Walker(
        robot=robot,
        length=blocks.length,
        cell=PER_CELL * LEG / count,
        observer=CentroidObserver(groups=list(blocks.blocks), relative_axes=(0, 1)),
        particles=blocks.particles(robot, count),
    )


def experiment(name: str) -> Experiment:
    """Return the experiment of a walker."""
    paper = TABLE[name]
    return walker_experiment(
        name,
        partial(make_walker, name),
        paper,
        shows=f"{'an' if name == 'octoped' else 'a'} {name} with four pressure chambers in each "
        "leg and a network learns to walk, and farther with a material of its own",
        size=f"{paper.particles:,} particles, {paper.pressures} pressures, 1,620 substeps",
        takes="days",
        settings={
            "dt": 0.05 * TIME,
            "steps": 60,
            "seeds": 6,
            "combinations": "all",
        },
        quick={"coarsening": 3.0, "steps": 4, "combinations": "none,E+nu+density"},
    )


EXPERIMENTS = tuple(experiment(name) for name in TABLE)
