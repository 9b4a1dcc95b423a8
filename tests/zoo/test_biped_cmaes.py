"""biped-cmaes: counts of simulations, and the variables of each search."""

from types import SimpleNamespace

import numpy as np
import pytest

from pliant.core import InputError
from pliant.zoo.experiments.biped_cable import BODY_LENGTH, walker
from pliant.zoo.experiments.biped_cmaes import (
    EXPERIMENT,
    Search,
    check_settings,
    controls_objective,
    fewest_ratio,
    sine_objective,
)
from pliant.zoo.robots.biped_robot import MIN_CABLE_LENGTH

SETTINGS = {**EXPERIMENT.resolve_settings(quick=True), "coarsening": 3.0}


def result(distances, each):
    """Return an optimisation with these distances [body lengths] from 0.2 m, one after `each`
    simulations of 2 s."""
    rows = [
        SimpleNamespace(value=-0.2 - BODY_LENGTH * d, simulations=each * k, seconds=2.0 * each * k)
        for k, d in enumerate(distances, start=1)
    ]
    return SimpleNamespace(history=rows)


def searches(cmaes):
    """Return a search with three seeds, and one with other variables that is worse."""
    adam = [result(d, 2) for d in ([0.1, 0.6], [0.2, 0.1, 0.5], [0.0, 0.5])]
    slow = {"Adam": [result([0.1], 2)], "CMA-ES": [result([0.2, 0.1], 50)]}
    return [
        Search(name="all", size=9, results={"Adam": adam, "CMA-ES": cmaes}, start=0.2),
        Search(name="few", size=3, results=slow, start=0.2),
    ]


def test_counts_are_those_of_the_first_row_that_is_far_enough():
    one = searches([])[0]
    np.testing.assert_allclose(one.counts("Adam", 0.49), [[4, 6, 4], [8, 12, 8]])
    assert one.counts("Adam", 0.55)[0].tolist() == [4, np.inf, np.inf]
    np.testing.assert_allclose(one.longest("Adam"), [0.6, 0.5, 0.5])
    np.testing.assert_allclose(one.distances(one.results["Adam"][1]), [0.2, 0.2, 0.5])


def test_ratio_is_that_of_the_best_variables_of_each_method():
    slow = searches([result([0.1, 0.2, 0.5], 20)] * 3)
    assert fewest_ratio(slow, 0.49) == (60 / 4, False)


def test_ratio_is_a_lower_bound_if_cmaes_does_not_walk_so_far():
    assert fewest_ratio(searches([result([0.1, 0.2], 20)] * 3), 0.49) == (100 / 4, True)
    assert fewest_ratio(searches([result([0.9], 20)] * 3), 0.8) == (0.0, False)


def test_every_search_starts_with_admissible_cables_and_moves():
    model = walker(SETTINGS)
    for objective, size in (
        (controls_objective(model, 10, 0), 40),
        (sine_objective(model, 10, 0), 16),
    ):
        assert len(objective.start) == size
        lower, upper = objective.bounds
        assert np.all((lower <= objective.start) & (objective.start <= upper))
        found = objective.gradient(objective.start)
        assert not found.failed
        assert np.abs(found.gradient).max() > 0.0
    inputs = controls_objective(model, 10, 0).layout.inputs(np.zeros(40), 0)
    assert MIN_CABLE_LENGTH <= inputs.controls.min() <= inputs.controls.max() <= 1.0


def test_a_distance_that_is_not_positive_is_an_error():
    with pytest.raises(InputError, match="distance is 0"):
        check_settings({**SETTINGS, "distance": 0.0})
