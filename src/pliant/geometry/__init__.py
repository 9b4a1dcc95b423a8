"""Meshes, shapes and surfaces of bodies at rest, in metres; and the files that they come from."""

from pliant.geometry.cavities import cavities
from pliant.geometry.cavity_names import name_cavities, with_cavities
from pliant.geometry.cells import compacted, merged, oriented
from pliant.geometry.chambers import Chambered
from pliant.geometry.columns import Columns, column_weights
from pliant.geometry.discs import Cylinder, Disc, Ellipsoid
from pliant.geometry.extrude import extruded
from pliant.geometry.fill import fill
from pliant.geometry.fill_report import FillReport, FillTolerances, fill_report
from pliant.geometry.fluid import (
    Hydrostatics,
    Measures,
    hydrostatic_stiffness,
    hydrostatics,
    measures,
)
from pliant.geometry.free_surface import FreeSurface, partly_filled
from pliant.geometry.load import Limits, load_mesh, load_surface
from pliant.geometry.mesh import Mesh, with_surface
from pliant.geometry.polygon import Polygon
from pliant.geometry.quality import Quality, quality, scale_doubts, weak_joints
from pliant.geometry.repair import repair_surface
from pliant.geometry.rings import Ring, Tube
from pliant.geometry.rods import Rods
from pliant.geometry.sampling import Seeds, moved, moved_back, seed
from pliant.geometry.sections import Bar, Round, Section
from pliant.geometry.shapes import Box, Domain, Rectangle, Shape, Strip
from pliant.geometry.silhouette import load_silhouette
from pliant.geometry.surface import RepairReport, Surface, check_closed
from pliant.geometry.surfaces import ball, hare
from pliant.geometry.union import Union
from pliant.geometry.vessels import Vessel
from pliant.geometry.wall import check_wall

__all__ = [
    "Bar",
    "Box",
    "Chambered",
    "Columns",
    "Cylinder",
    "Disc",
    "Domain",
    "Ellipsoid",
    "FillReport",
    "FillTolerances",
    "FreeSurface",
    "Hydrostatics",
    "Limits",
    "Measures",
    "Mesh",
    "Polygon",
    "Quality",
    "Rectangle",
    "RepairReport",
    "Ring",
    "Rods",
    "Round",
    "Section",
    "Seeds",
    "Shape",
    "Strip",
    "Surface",
    "Tube",
    "Union",
    "Vessel",
    "ball",
    "cavities",
    "check_closed",
    "check_wall",
    "column_weights",
    "compacted",
    "extruded",
    "fill",
    "fill_report",
    "hare",
    "hydrostatic_stiffness",
    "hydrostatics",
    "load_mesh",
    "load_silhouette",
    "load_surface",
    "measures",
    "merged",
    "moved",
    "moved_back",
    "name_cavities",
    "oriented",
    "partly_filled",
    "quality",
    "repair_surface",
    "scale_doubts",
    "seed",
    "weak_joints",
    "with_cavities",
    "with_surface",
]
