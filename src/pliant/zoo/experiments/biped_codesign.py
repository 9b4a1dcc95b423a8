"""biped-codesign: a planar biped with pressure chambers and a network learns to walk, alone and
together with its material [Spielberg2021, section 5.3.2, Fig. 11]."""

from collections.abc import Mapping

from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.block_walkers import LEG, block_biped
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import Walker

COUNT = 40  # particles along each edge of a block at full size
# Particles along an edge of a cell; a leg has five cells at full size. With eight, gradients over
# the whole time were useless.
PER_CELL = 8
PAPER = PaperValues(figure="Fig. 11", particles=12800, pressures=4, time=4.0, gain="about 50")


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the biped, with at least PER_CELL particles along each edge of a cell."""
    blocks = block_biped()
    robot, count = blocks.robot(), round(COUNT / float(settings["coarsening"]))
    return Walker(
        robot=robot,
        length=blocks.length,
        cell=PER_CELL * LEG / count,
        observer=CentroidObserver(groups=list(blocks.blocks), relative_axes=(0,)),
        particles=blocks.particles(robot, count),
    )


EXPERIMENT = walker_experiment(
    "biped-codesign",
    walker,
    PAPER,
    shows="a soft biped with a network learns to walk, and farther if its stiffness, Poisson's "
    "ratio and density are optimised too",
    size="12,800 particles, 4 pressures, 2,200 substeps",
    takes="8 h",
    # with more, soles fray: the particles are an eighth of a cell apart at rest
    settings={"combinations": "all", "seeds": 10, "max_gap": 1.0},
    quick={"coarsening": 2.5, "combinations": "none,E+nu+density"},
)
