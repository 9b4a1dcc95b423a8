"""creature-stl: a four-legged creature from an STL file, with a pressure chamber in each leg and a
network, learns to walk [Spielberg2021, section 5.2, Fig. 9]."""

from collections.abc import Mapping

from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.block_walkers import TIME
from pliant.zoo.robots.creature_robot import creature
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import Walker

CELL = 0.01649  # [m] at full size, which makes 22,084 particles within one per cent
LENGTH = 0.4  # [m]
CLUSTERS = 7  # of the k-means observer, as in the paper's listing
PAPER = PaperValues(figure="Fig. 9", particles=22084, pressures=4, time=4.0)


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the creature, with two particles along each edge of a cell."""
    return Walker(
        robot=creature(length=LENGTH),
        length=LENGTH,
        cell=CELL * float(settings["coarsening"]),
        observer=CentroidObserver(k=CLUSTERS, relative_axes=(0,)),
    )


EXPERIMENT = walker_experiment(
    "creature-stl",
    walker,
    PAPER,
    shows="a four-legged creature from an STL file, with a pressure chamber in each leg and a "
    "network, learns to walk",
    size="22,084 particles, 4 pressures, 2,400 substeps",
    takes="1 h",
    settings={"dt": 0.005 * TIME, "steps": 800},
    quick={"coarsening": 3.0, "dt": 0.02 * TIME, "steps": 10},
)
