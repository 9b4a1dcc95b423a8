"""Liquids at rest in closed surfaces: volume, weight, pressure load and its derivatives."""

from pliant.hydrostatics.closed_surface_checks import check_closed_surface
from pliant.hydrostatics.free_surface import FreeSurface, solve_free_surface
from pliant.hydrostatics.pressure_load import (
    HydrostaticLoad,
    VolumeProperties,
    hydrostatic_load,
    hydrostatic_stiffness,
    volume_properties,
)
from pliant.hydrostatics.weight_columns import ColumnWeights, column_weights

__all__ = [
    "ColumnWeights",
    "FreeSurface",
    "HydrostaticLoad",
    "VolumeProperties",
    "check_closed_surface",
    "column_weights",
    "hydrostatic_load",
    "hydrostatic_stiffness",
    "solve_free_surface",
    "volume_properties",
]
