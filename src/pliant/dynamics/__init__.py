"""Stepping rules: each makes a robot into a `Dynamics`, the interface of every planner."""

from pliant.dynamics.condensed import Condensed
from pliant.dynamics.energy_minimisation import SolverOptions
from pliant.dynamics.gradient_check import Check, gradcheck
from pliant.dynamics.implicit import BDF2, ImplicitEuler, Quasistatic
from pliant.dynamics.latent import Latent
from pliant.dynamics.semi_implicit import SemiImplicit
from pliant.dynamics.simulation import Rollout, equilibrium, pullback, simulate

__all__ = [
    "BDF2",
    "Check",
    "Condensed",
    "ImplicitEuler",
    "Latent",
    "Quasistatic",
    "Rollout",
    "SemiImplicit",
    "SolverOptions",
    "equilibrium",
    "gradcheck",
    "pullback",
    "simulate",
]
