"""Iteration: one entry of a planner's history."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One iteration of a planner."""

    cost: float
    step: float  # largest accepted change of a control
    regulariser: float
    seconds: float  # since the start of the search
    failed: int = 0  # number of trial steps that failed to simulate and were shortened
    infeasibility: float = 0.0  # largest violation of the dynamics or constraints
