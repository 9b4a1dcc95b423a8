"""biped-codesign: a planar biped with pressure chambers and a network learns to walk, alone and
together with its material [Spielberg2021, section 5.3.2, Fig. 11]."""

from collections.abc import Mapping

import numpy as np

from pliant.dynamics import simulate
from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Experiment, ExperimentRun, Outcome, Setting
from pliant.zoo.robots.block_walkers import LEG, block_biped
from pliant.zoo.walker_report import PaperValues, walker_outcome
from pliant.zoo.walkers import FIELDS, Walker, check_walker, walker_model

COUNT = 40  # particles along each edge of a block at full size
PAPER = PaperValues(figure="Fig. 11", particles=12800, pressures=4, time=4.0, gain="about 50")


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the biped, with at least two particles along each edge of a cell."""
    blocks = block_biped()
    robot, count = blocks.robot(), round(COUNT / float(settings["coarsening"]))
    return Walker(
        robot=robot,
        length=blocks.length,
        cell=2.0 * LEG / count,
        observer=CentroidObserver(groups=list(blocks.blocks)),
        particles=blocks.particles(robot, count),
    )


def perform(run: ExperimentRun) -> Outcome:
    return walker_outcome(run, walker, PAPER)


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse biped on the floor, with unequal pressures and all fields as parameters."""
    model = walker_model(walker({**settings, "coarsening": 10.0}), settings, tuple(FIELDS))
    u = np.array([0.2, 0.6, 0.3, 0.5]) * model.control_limits()[1]
    return model, simulate(model, np.tile(u, (5, 1))).states[-1], u


EXPERIMENT = Experiment(
    name="biped-codesign",
    paper="004",
    shows="a soft biped with a network learns to walk, and farther if its stiffness, Poisson's "
    "ratio and density are optimised too",
    size="12,800 particles, 4 pressures, 28,000 substeps",
    takes="days",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=check_walker,
    settings={
        "coarsening": 1.0,
        "dt": 0.02,
        "steps": 200,
        "combinations": "all",
        "seeds": 10,
        "iterations": 100,
        "rate": 1e-3,
        "design_rate": 0.02,
        "clock": 3.0,
        "transfer": "updated",
        "workers": 1,
        "min_distance": 1.0,
        "small_animation": False,
    },
    quick={
        "coarsening": 8.0,
        "steps": 20,
        "combinations": "none,E+nu+density",
        "seeds": 1,
        "iterations": 3,
        "min_distance": 0.0,
        "small_animation": True,
    },
)
