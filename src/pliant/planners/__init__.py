"""Planners: each turns a Problem into a Plan; `plan` picks one."""

from pliant.planners.certificate import Certificate
from pliant.planners.choose import plan
from pliant.planners.collocation import collocation
from pliant.planners.ddp import ddp
from pliant.planners.gauss_newton import gauss_newton
from pliant.planners.gradient import gradient
from pliant.planners.hierarchy import Level, Refined, plan_refined, refine
from pliant.planners.inverse import (
    BEYOND,
    BY_HAND,
    MOVING,
    READY,
    THERE,
    UNKEPT,
    Inverse,
    Pose,
    inverse,
)
from pliant.planners.lagrangian import constrained
from pliant.planners.model_summary import ModelSummary, summarise
from pliant.planners.mpc import Memory, Receding, mpc
from pliant.planners.newton import newton
from pliant.planners.plan import Evaluation, Iteration, Options, Plan, evaluate, load_controls

__all__ = [
    "BEYOND",
    "BY_HAND",
    "MOVING",
    "READY",
    "THERE",
    "UNKEPT",
    "Certificate",
    "Evaluation",
    "Inverse",
    "Iteration",
    "Level",
    "Memory",
    "ModelSummary",
    "Options",
    "Plan",
    "Pose",
    "Receding",
    "Refined",
    "collocation",
    "constrained",
    "ddp",
    "evaluate",
    "gauss_newton",
    "gradient",
    "inverse",
    "load_controls",
    "mpc",
    "newton",
    "plan",
    "plan_refined",
    "refine",
    "summarise",
]
