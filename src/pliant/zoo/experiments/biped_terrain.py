"""biped-terrain: a planar biped with pressure chambers and a network learns to walk over bumps of a
terrain that consists of particles too [Spielberg2021, section 5.2, Fig. 8]."""

from collections.abc import Mapping

from pliant.core import InputError, quoted
from pliant.learning import CentroidObserver
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.block_walkers import LEG
from pliant.zoo.robots.terrain_robot import COLUMNS, ROWS, WALKER, terrain_biped
from pliant.zoo.walker_experiment import walker_experiment
from pliant.zoo.walker_report import PaperValues
from pliant.zoo.walkers import NONE, Walker, check_walker

COUNT = 40  # particles along each edge of a block at full size
PER_CELL = 8  # particles along an edge of a cell
GAP = 1.5  # [cells] between soles and terrain at first; closer bodies are in contact
PAPER = PaperValues(figure="Fig. 8", particles=36200, pressures=4, time=4.0)


def walker(settings: Mapping[str, Setting]) -> Walker:
    """Return the biped above the terrain, with at least PER_CELL particles along an edge of a
    cell."""
    coarsening = float(settings["coarsening"])
    count = round(COUNT / coarsening)
    cell = PER_CELL * LEG / count
    terrain = terrain_biped(GAP * cell)
    robot = terrain.robot()
    return Walker(
        robot=robot,
        length=terrain.blocks.length,
        cell=cell,
        observer=CentroidObserver(groups=list(terrain.blocks.blocks), relative_axes=(0,)),
        place=CentroidObserver(groups=WALKER, quantities="position"),
        particles=terrain.particles(
            robot, count, round(COLUMNS / coarsening), round(ROWS / coarsening)
        ),
    )


def check(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for fields of the material, which the terrain would have too."""
    check_walker(settings)
    if settings["combinations"] != NONE or settings["transfer"] != "updated":
        raise InputError(
            f"The settings are combinations={quoted(settings['combinations'])} and transfer="
            f"{quoted(settings['transfer'])}, but robot and terrain are two bodies of one grid; "
            "take combinations=none and transfer=updated."
        )


EXPERIMENT = walker_experiment(
    "biped-terrain",
    walker,
    PAPER,
    shows="a biped with four pressure chambers and a network learns to walk over bumps of "
    "particles",
    size="36,200 particles, 4 pressures, 1,600 substeps",
    takes="30 min",
    check=check,
    settings={},
    quick={"coarsening": 2.5, "steps": 10},
)
