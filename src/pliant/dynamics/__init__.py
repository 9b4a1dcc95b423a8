"""Stepping rules: each makes a robot into a Dynamics, the waist that every planner speaks to."""

from pliant.dynamics.implicit import BDF2, ImplicitEuler, Quasistatic
from pliant.dynamics.newton import Newton
from pliant.dynamics.semi_implicit import SemiImplicit

__all__ = ["BDF2", "ImplicitEuler", "Newton", "Quasistatic", "SemiImplicit"]
