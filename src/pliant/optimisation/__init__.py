"""Optimisation: objectives of scaled variables, and optimisers behind one function."""

from pliant.optimisation.cmaes import CMAES
from pliant.optimisation.descent import SGD, Adam
from pliant.optimisation.driver import optimise
from pliant.optimisation.functions import (
    ConstrainedObjective,
    FunctionObjective,
    ResidualObjective,
)
from pliant.optimisation.gauss_newton import GaussNewton
from pliant.optimisation.growing_horizon import optimise_growing_horizon
from pliant.optimisation.halving import HalvingResult, successive_halving
from pliant.optimisation.interior_point import InteriorPoint
from pliant.optimisation.lbfgsb import LBFGSB
from pliant.optimisation.methods import OptimisationMethod
from pliant.optimisation.objective import (
    BatchObjective,
    Constrained,
    Described,
    LeastSquares,
    Objective,
    ObjectiveEvaluation,
)
from pliant.optimisation.periodic_continuation import continue_periodically
from pliant.optimisation.problem_objective import ProblemObjective
from pliant.optimisation.rates import CosineRate
from pliant.optimisation.result import OptimisationResult, OptimisationRow
from pliant.optimisation.sqp import SQP

__all__ = [
    "CMAES",
    "LBFGSB",
    "SGD",
    "SQP",
    "Adam",
    "BatchObjective",
    "Constrained",
    "ConstrainedObjective",
    "CosineRate",
    "Described",
    "FunctionObjective",
    "GaussNewton",
    "HalvingResult",
    "InteriorPoint",
    "LeastSquares",
    "Objective",
    "ObjectiveEvaluation",
    "OptimisationMethod",
    "OptimisationResult",
    "OptimisationRow",
    "ProblemObjective",
    "ResidualObjective",
    "continue_periodically",
    "optimise",
    "optimise_growing_horizon",
    "successive_halving",
]
