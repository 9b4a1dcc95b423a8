"""Stepping rules: each makes a robot into a Dynamics, the waist that every planner speaks to."""

from pliant.dynamics.condensed import Condensed
from pliant.dynamics.gradcheck import Check, gradcheck
from pliant.dynamics.implicit import BDF2, ImplicitEuler, Quasistatic
from pliant.dynamics.latent import Latent
from pliant.dynamics.material_point import MaterialPoint
from pliant.dynamics.newton import Newton
from pliant.dynamics.semi_implicit import SemiImplicit
from pliant.dynamics.simulate import Rollout, equilibrium, pullback, simulate

__all__ = [
    "BDF2",
    "Check",
    "Condensed",
    "ImplicitEuler",
    "Latent",
    "MaterialPoint",
    "Newton",
    "Quasistatic",
    "Rollout",
    "SemiImplicit",
    "equilibrium",
    "gradcheck",
    "pullback",
    "simulate",
]
