"""What is wanted of a model: objective terms, limits, constraints and paths, gathered in a
Problem."""

from pliant.problem import paths
from pliant.problem.constraints import (
    Ball,
    Band,
    Constrains,
    Constraint,
    Interval,
    Limit,
    Penalty,
    Watch,
)
from pliant.problem.looks import LeastSquares, Linear, Look, Loss, Quadratic, Smooth, stencilled
from pliant.problem.problem import Problem, track
from pliant.problem.strokes import Stroke, keep_out
from pliant.problem.terms import Effort, Goal, Residual, Reward, StateGoal, Term

__all__ = [
    "Ball",
    "Band",
    "Constrains",
    "Constraint",
    "Effort",
    "Goal",
    "Interval",
    "LeastSquares",
    "Limit",
    "Linear",
    "Look",
    "Loss",
    "Penalty",
    "Problem",
    "Quadratic",
    "Residual",
    "Reward",
    "Smooth",
    "StateGoal",
    "Stroke",
    "Term",
    "Watch",
    "keep_out",
    "paths",
    "stencilled",
    "track",
]
