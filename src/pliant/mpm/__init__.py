"""The material point method (MLS-MPM): grid, transfers, boundaries, time step and adjoint."""

from pliant.mpm.material_point import MaterialPoint

__all__ = ["MaterialPoint"]
