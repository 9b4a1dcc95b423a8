"""Planners: each turns a Problem into a Plan; `plan` picks one.

>>> import pliant as pl
>>> robot = pl.Robot(
...     shape=pl.PointMass(points=[[0.0, 0.0]]),
...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
... )
>>> terms = [pl.Goal(effector="tip", target=(0.1, 0.0), time=0.5), pl.Effort(weight=1e-6)]
>>> problem = pl.Problem(model=pl.ImplicitEuler(robot, dt=0.1), steps=5, terms=terms)
>>> pl.planners.ddp(problem).status.ok
True
"""

from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.certificate import Certificate
from pliant.planners.choose import plan
from pliant.planners.collocation_planner import collocation
from pliant.planners.ddp_planner import ddp
from pliant.planners.evaluation import Evaluation, evaluate
from pliant.planners.gauss_newton_planner import gauss_newton
from pliant.planners.gradient_planner import gradient
from pliant.planners.hierarchy import Level, RefinedPlan, plan_refined, refine
from pliant.planners.inverse_control import (
    CONSTRAINT_VIOLATED,
    MANUAL,
    MOVING,
    REACHED,
    READY,
    UNREACHABLE,
    ContactForceLimit,
    ControlState,
    InverseController,
)
from pliant.planners.model_summary import ModelSummary, summarise
from pliant.planners.newton_planner import newton
from pliant.planners.nonlinear_horizon import (
    NonlinearController,
    NonlinearControllerState,
    nonlinear_mpc,
)
from pliant.planners.plan_result import Iteration, Options, Plan, SearchLog, load_controls
from pliant.planners.receding_horizon import ControllerState, RecedingHorizonController, mpc
from pliant.planners.trust_region import project_to_limits

__all__ = [
    "CONSTRAINT_VIOLATED",
    "MANUAL",
    "MOVING",
    "REACHED",
    "READY",
    "UNREACHABLE",
    "Certificate",
    "ContactForceLimit",
    "ControlState",
    "ControllerState",
    "Evaluation",
    "InverseController",
    "Iteration",
    "Level",
    "ModelSummary",
    "NonlinearController",
    "NonlinearControllerState",
    "Options",
    "Plan",
    "RecedingHorizonController",
    "RefinedPlan",
    "SearchLog",
    "collocation",
    "ddp",
    "evaluate",
    "gauss_newton",
    "gradient",
    "load_controls",
    "mpc",
    "newton",
    "nonlinear_mpc",
    "plan",
    "plan_refined",
    "plan_with_constraints",
    "project_to_limits",
    "refine",
    "summarise",
]
