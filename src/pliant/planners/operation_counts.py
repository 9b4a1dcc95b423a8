"""Estimates of the floating-point operations of one iteration, which select the linear algebra."""

import numpy as np

from pliant.core import ReducedDynamics
from pliant.planners.augmented_state import AugmentedState
from pliant.planners.horizon_reduction import PROBES
from pliant.planners.linear_quadratic import MAX_STACKED_STATES
from pliant.problem import Problem

RANK_IN_STEPS = 6  # measured ranks are 5 to 10 times the rows of a step, with a goal at every step


def estimated_operations(problem: Problem) -> dict[str, float]:
    """Estimate the floating-point operations of one iteration for each route.

    A sparse sweep counts 100 operations for each number of the state. Products of dense matrices
    are faster; a quarter of their operations counts.
    """
    n, m, N = problem.model.space.size, problem.model.n_controls, problem.steps
    layout = AugmentedState(problem=problem)
    sweep, size = 100.0 * n, layout.size
    rows = sum(observation.size for observation in problem.observations)
    banded = N * m * (rows**2 + 10.0)
    rank = min(assumed_rank(problem), size)
    reduced = rank + layout.n_past_controls * m
    out = {
        "adjoint": sweep
        * sum(observation.size * observation.step for observation in problem.observations)
        + min(banded, (N * m) ** 3),
        "forward": sweep * m * N * (N + 1) / 2 + min(banded, (N * m) ** 3),
        "riccati": N * (sweep * n + 6.0 * size**3),
        "reduced": N * ((sweep + n * rank) * (rank + PROBES + 1) + 20.0 * reduced**3),
    }
    if isinstance(problem.model, ReducedDynamics):  # its states are already few
        del out["reduced"]
    return out


def assumed_rank(problem: Problem) -> float:
    """Return a guess of the rank of a reduced horizon: the rows of a few steps."""
    observations = problem.observations
    rows, steps = sum(one.size for one in observations), {one.step for one in observations}
    return min(rows, RANK_IN_STEPS * rows / max(len(steps), 1))


def cheapest_route(problem: Problem) -> str:
    """Return the route with the fewest estimated operations."""
    costs = estimated_operations(problem)
    return min(costs, key=lambda route: costs[route])


def reduction_pays_off(problem: Problem) -> bool:
    """Return whether a backward pass over a reduced horizon is faster than one over the state.

    A compiled loop is faster for few states.
    """
    costs = {"reduced": np.inf} | estimated_operations(problem)
    is_small = AugmentedState(problem=problem).size <= MAX_STACKED_STATES
    return not is_small and costs["reduced"] < costs["riccati"]
