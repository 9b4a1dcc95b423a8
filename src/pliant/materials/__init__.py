"""Elastic materials and the valid ranges of material parameters."""

from pliant.materials.elastic import LAWS, Material, from_moduli, moduli, moduli_nu_derivative
from pliant.materials.ranges import (
    DENSITY,
    FRICTION,
    GRAVITY,
    MASS_DAMPING,
    STIFFNESS_DAMPING,
    YOUNGS_MODULUS,
    Range,
)

__all__ = [
    "DENSITY",
    "FRICTION",
    "GRAVITY",
    "LAWS",
    "MASS_DAMPING",
    "STIFFNESS_DAMPING",
    "YOUNGS_MODULUS",
    "Material",
    "Range",
    "from_moduli",
    "moduli",
    "moduli_nu_derivative",
]
