"""Bodies: discretised robots with their unknowns, energies and masses."""

from pliant.bodies.assembly import COMPLEX_STEP, Viscosity
from pliant.bodies.beams import Beams
from pliant.bodies.body import (
    NO_VISCOSITY,
    AttachableBody,
    Body,
    CellBody,
    DampedBody,
    DampedCellsBody,
    DampedSecondOrderBody,
    DampedSemiImplicitBody,
    LimitedBody,
    MaterialDerivatives,
    MaterialFields,
    SecondOrderBody,
    SemiImplicitBody,
    StiffnessMaterialDerivatives,
    limit_message,
    missing_members,
    named_cells,
    require_protocol,
    stiffness_per_area,
    viscous_argument,
)
from pliant.bodies.point_mass import PointMass
from pliant.bodies.potential import (
    Dissipation,
    Potential,
    complex_step_jacobian,
    one_sided_spring,
)
from pliant.bodies.solid import Solid

__all__ = [
    "COMPLEX_STEP",
    "NO_VISCOSITY",
    "AttachableBody",
    "Beams",
    "Body",
    "CellBody",
    "DampedBody",
    "DampedCellsBody",
    "DampedSecondOrderBody",
    "DampedSemiImplicitBody",
    "Dissipation",
    "LimitedBody",
    "MaterialDerivatives",
    "MaterialFields",
    "PointMass",
    "Potential",
    "SecondOrderBody",
    "SemiImplicitBody",
    "Solid",
    "StiffnessMaterialDerivatives",
    "Viscosity",
    "complex_step_jacobian",
    "limit_message",
    "missing_members",
    "named_cells",
    "one_sided_spring",
    "require_protocol",
    "stiffness_per_area",
    "viscous_argument",
]
