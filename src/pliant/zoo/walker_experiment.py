"""The experiments of walkers with a network in the loop: their settings, and one factory."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pliant.dynamics import simulate
from pliant.zoo.experiment import Experiment, Setting
from pliant.zoo.robots.block_walkers import TIME
from pliant.zoo.walker_report import PaperValues, walker_outcome
from pliant.zoo.walkers import FIELDS, MakeWalker, check_walker, walker_model

SETTINGS: Mapping[str, Setting] = {
    "coarsening": 1.0,  # of the distance of particles and of the grid's cell
    "dt": 0.02 * TIME,
    "steps": 200,
    "combinations": "none",  # of material fields, separated by commas; "all": eight of them
    "seeds": 3,
    "starts": 4,  # random networks of a seed, of which the better half continues after a horizon
    "iterations": 10,  # of each horizon but the last one
    "last_iterations": 30,
    "rate": 5e-3,  # largest change of a weight in an iteration of the first horizon
    "later_rate": 1e-3,  # of the later horizons, which start with a gait
    "patience": 3,  # iterations without improvement before the later horizons halve the rate
    "window": TIME,  # [s] after which gradients pass a translation only; 0: exact ones
    "design_rate": 0.06,  # largest change of a material, over half its range
    "clock": 3.0,  # [Hz] that the network sees; 0: none
    "max_gap": 2.5,  # [cells] between neighbours; a step fails beyond it
    "transfer": "updated",
    "workers": 1,  # processes, each of which trains one walker at a time
    "min_distance": 1.0,  # [body lengths] of the farthest walker
    "small_animation": False,
}
QUICK: Mapping[str, Setting] = {
    "steps": 20,
    "seeds": 1,
    "starts": 2,
    "iterations": 2,
    "last_iterations": 2,
    "min_distance": 0.0,
    "small_animation": True,
}


def walker_experiment(
    name: str,
    make: MakeWalker,
    paper: PaperValues,
    *,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting],
    check: Callable[[Mapping[str, Setting]], object] = check_walker,
    **texts: Any,
) -> Experiment:
    """Return the experiment of a walker. `settings` and `quick` replace those above; `texts` are
    `shows`, `size` and `takes`."""

    def probe(chosen: Mapping[str, Setting]) -> tuple:
        """Return the walker of the quick run on the ground, with unequal pressures and all fields
        as parameters."""
        coarse = {**chosen, "coarsening": quick["coarsening"]}
        model = walker_model(make(coarse), coarse, tuple(FIELDS))
        shares = np.linspace(0.1, 0.4, model.n_controls)
        u = shares * model.control_limits()[1]
        return model, simulate(model, np.tile(u, (8, 1))).states[-1], u

    return Experiment(
        name=name,
        paper="004",
        perform=lambda run: walker_outcome(run, make, paper),
        probe=probe,
        uses_cluster=True,
        check_settings=check,
        settings={**SETTINGS, **settings},
        quick={**QUICK, **quick},
        **texts,
    )
