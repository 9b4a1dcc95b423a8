"""Iteration: one row of a planner's history."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One iteration of a planner."""

    cost: float
    step: float  # size of the accepted change of the controls, largest entry
    regulariser: float
    seconds: float  # since the start
    failed: int = 0  # trial rollouts that could not be simulated and were shortened
    infeasibility: float = (
        0.0  # largest violation of the dynamics or constraints, where a method allows one
    )
