"""Planning problems: objective terms, control limits, constraints and paths.

>>> import pliant as pl
>>> away = pl.problem.Constraint(
...     effector="tip", function=lambda y: y[1:2], inside=pl.problem.Interval(lower=0.0)
... )
"""

from pliant.problem import paths
from pliant.problem.constraints import (
    AugmentedLagrangianLoss,
    Ball,
    Constraint,
    ConstraintRow,
    ConstraintTerm,
    Interval,
    StateConstraint,
    keep_out,
)
from pliant.problem.limits import ControlBound, Limit
from pliant.problem.observations import (
    ControlCost,
    LeastSquaresLoss,
    LinearLoss,
    Loss,
    Observation,
    QuadraticLoss,
    apply_stencil,
)
from pliant.problem.problem import Problem, tracking_terms
from pliant.problem.stroke_limits import StrokeLimit
from pliant.problem.terms import Effort, Goal, Residual, Reward, StateGoal, Term

__all__ = [
    "AugmentedLagrangianLoss",
    "Ball",
    "Constraint",
    "ConstraintRow",
    "ConstraintTerm",
    "ControlBound",
    "ControlCost",
    "Effort",
    "Goal",
    "Interval",
    "LeastSquaresLoss",
    "Limit",
    "LinearLoss",
    "Loss",
    "Observation",
    "Problem",
    "QuadraticLoss",
    "Residual",
    "Reward",
    "StateConstraint",
    "StateGoal",
    "StrokeLimit",
    "Term",
    "apply_stencil",
    "keep_out",
    "paths",
    "tracking_terms",
]
