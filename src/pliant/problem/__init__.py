"""Planning problems: objective terms, control limits, constraints and paths.

>>> import pliant as pl
>>> away = pl.problem.Constraint(
...     effector="tip", function=lambda y: y[1:2], inside=pl.problem.Interval(lower=0.0)
... )
"""

from pliant.problem import paths
from pliant.problem.accumulators import Accumulated, AccumulatedCost
from pliant.problem.at_rest import AtRest
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
from pliant.problem.function_costs import FinalCost, FunctionCost, RunningCost
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
from pliant.problem.problem import Problem, scenes_of, tracking_terms
from pliant.problem.scenes import Scene
from pliant.problem.smoothness import FieldSmoothness, ParameterCost
from pliant.problem.stroke_limits import StrokeLimit
from pliant.problem.terms import Effort, Goal, Residual, Reward, StateGoal, Term
from pliant.problem.variables import SceneInputs, Variable, VariableBlock, VariableLayout

__all__ = [
    "Accumulated",
    "AccumulatedCost",
    "AtRest",
    "AugmentedLagrangianLoss",
    "Ball",
    "Constraint",
    "ConstraintRow",
    "ConstraintTerm",
    "ControlBound",
    "ControlCost",
    "Effort",
    "FieldSmoothness",
    "FinalCost",
    "FunctionCost",
    "Goal",
    "Interval",
    "LeastSquaresLoss",
    "Limit",
    "LinearLoss",
    "Loss",
    "Observation",
    "ParameterCost",
    "Problem",
    "QuadraticLoss",
    "Residual",
    "Reward",
    "RunningCost",
    "Scene",
    "SceneInputs",
    "StateConstraint",
    "StateGoal",
    "StrokeLimit",
    "Term",
    "Variable",
    "VariableBlock",
    "VariableLayout",
    "apply_stencil",
    "keep_out",
    "paths",
    "scenes_of",
    "tracking_terms",
]
