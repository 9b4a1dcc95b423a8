"""rhino: a planar rhinoceros from a picture, with four pressure chambers and a network, learns to
walk [Spielberg2021, section 5.2, Fig. 7]."""

from collections.abc import Mapping

from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.block_walkers import TIME
from pliant.zoo.robots.rhino_robot import rhino
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import Walker

SPACING = 0.0018165  # [m] of particles, which makes 20,000 within one per cent at full size
PER_CELL = 6  # particles along an edge of a cell
LENGTH = 0.43  # [m]
CLUSTERS = 7  # of the k-means observer, as in the paper's listing
PAPER = PaperValues(figure="Fig. 7", particles=20000, pressures=4, time=4.0)


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the rhinoceros."""
    return Walker(
        robot=rhino(),
        length=LENGTH,
        cell=PER_CELL * SPACING * float(settings["coarsening"]),
        observer=CentroidObserver(k=CLUSTERS, relative_axes=(0,)),
        per_cell=PER_CELL,
    )


EXPERIMENT = walker_experiment(
    "rhino",
    walker,
    PAPER,
    shows="a rhinoceros from a picture, with two pressure chambers in each foot and a network, "
    "learns to walk",
    size="20,000 particles, 4 pressures, 3,200 substeps",
    takes="1 h",
    settings={"dt": 0.005 * TIME, "steps": 800},
    quick={"coarsening": 3.0, "dt": 0.02 * TIME, "steps": 10},
)
