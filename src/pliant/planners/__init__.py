"""Planners: each turns a Problem into a Plan; `plan` picks one."""

from pliant.planners.choose import plan
from pliant.planners.collocation import collocation
from pliant.planners.ddp import ddp
from pliant.planners.gauss_newton import gauss_newton
from pliant.planners.gradient import gradient
from pliant.planners.lagrangian import constrained
from pliant.planners.newton import newton
from pliant.planners.plan import Evaluation, Iteration, Options, Plan, evaluate, load_controls

__all__ = [
    "Evaluation", "Iteration", "Options", "Plan", "collocation", "constrained", "ddp", "evaluate", "gauss_newton", "gradient",
    "load_controls", "newton", "plan",
]  # fmt: skip
