"""Bodies: a robot's matter with its unknowns, energies and masses."""

from pliant.bodies.assembly import TINY
from pliant.bodies.beams import Beams
from pliant.bodies.body import NO_VISCOSITY, Body, Fields, Matter, named_cells
from pliant.bodies.point_mass import PointMass
from pliant.bodies.solid import Solid
from pliant.bodies.term import Drag, Term, complex_slopes, one_sided

__all__ = [
    "NO_VISCOSITY",
    "TINY",
    "Beams",
    "Body",
    "Drag",
    "Fields",
    "Matter",
    "PointMass",
    "Solid",
    "Term",
    "complex_slopes",
    "named_cells",
    "one_sided",
]
