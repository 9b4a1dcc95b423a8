"""Experiments by name."""

from difflib import get_close_matches

from pliant.core import InputError
from pliant.zoo.experiment import Experiment
from pliant.zoo.experiments import arm_reach, block_drop, cantilever

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (arm_reach, cantilever, block_drop)}


def find(name: str) -> Experiment:
    """The experiment of a name, or a sentence with the nearest one."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(EXPERIMENTS)}."
    raise InputError(f"There is no experiment '{name}'. {hint}")
