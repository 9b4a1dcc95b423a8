"""rhino: a planar rhinoceros from a picture, with four pressure chambers and a network, learns to
walk [Spielberg2021, section 5.2, Fig. 7]."""

from collections.abc import Mapping

from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.rhino_robot import rhino
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import Walker

CELL = 0.003633  # [m] at full size, which makes 20,000 particles within one per cent
LENGTH = 0.43  # [m]
CLUSTERS = 7  # of the k-means observer, as in the paper's listing
PAPER = PaperValues(figure="Fig. 7", particles=20000, pressures=4, time=4.0)


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the rhinoceros, with two particles along each edge of a cell."""
    return Walker(
        robot=rhino(),
        length=LENGTH,
        cell=CELL * float(settings["coarsening"]),
        observer=CentroidObserver(k=CLUSTERS),
    )


EXPERIMENT = walker_experiment(
    "rhino",
    walker,
    PAPER,
    shows="a rhinoceros from a picture, with two pressure chambers in each foot and a network, "
    "learns to walk",
    size="20,000 particles, 4 pressures, 18,400 substeps",
    takes="12 h",
    settings={"dt": 0.005, "steps": 800},
    quick={"coarsening": 6.0, "dt": 0.02, "steps": 10},
)
