"""Experiments, one per file. `pliant.zoo.registry` lists them."""
