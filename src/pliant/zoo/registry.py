"""Experiments by name."""

from pliant.core import InputError, nearest
from pliant.zoo.experiment import Experiment
from pliant.zoo.experiments import arm_reach, block_drop, cantilever

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (arm_reach, cantilever, block_drop)}


def find(name: str) -> Experiment:
    """The experiment of a name, or a sentence with the nearest one."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    raise InputError(f"There is no experiment '{name}'; {nearest(name, EXPERIMENTS)}")
