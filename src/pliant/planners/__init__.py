"""Planners: each turns a Problem into a Plan."""

from pliant.planners.ddp import ddp
from pliant.planners.gauss_newton import gauss_newton
from pliant.planners.newton import newton
from pliant.planners.plan import Evaluation, Iteration, Options, Plan, evaluate

__all__ = ["Evaluation", "Iteration", "Options", "Plan", "ddp", "evaluate", "gauss_newton", "newton"]
