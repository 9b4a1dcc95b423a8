"""Every experiment by name; a new file is enrolled here."""

from pliant.zoo.experiments import arm_reach

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (arm_reach,)}
