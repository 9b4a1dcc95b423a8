"""The zoo: ready robots and named experiments."""

from difflib import get_close_matches

from pliant.core import InputError
from pliant.zoo import robots
from pliant.zoo.experiment import Experiment, Metric, Outcome, Run, run
from pliant.zoo.experiments import EXPERIMENTS


def find(name: str) -> Experiment:
    """The experiment of a name, or a sentence with the nearest one."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = get_close_matches(name, EXPERIMENTS, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(EXPERIMENTS)}."
    raise InputError(f"There is no experiment '{name}'. {hint}")


__all__ = ["EXPERIMENTS", "Experiment", "Metric", "Outcome", "Run", "find", "robots", "run"]
