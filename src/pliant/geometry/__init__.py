"""Meshes, shapes and surfaces of bodies at rest [m], and the readers of their files.

>>> import pliant as pl
>>> mesh = pl.geometry.Cylinder(radius=0.01, length=0.05).mesh(cell=0.01)
>>> mesh.points.shape[1]
3
"""

from pliant.geometry.cavities import find_cavities
from pliant.geometry.cavity_names import name_cavities, name_cavities_if_present
from pliant.geometry.cells import merge_points, orient_cells, remove_unused_points
from pliant.geometry.chambered_cylinder import ChamberedCylinder
from pliant.geometry.closed_cylinder import ClosedCylinder
from pliant.geometry.cylinders import Cylinder, Disc, Ellipsoid
from pliant.geometry.extrusion import extrude
from pliant.geometry.fill_report import FillReport, FillTolerances, compare_fill
from pliant.geometry.filling import fill
from pliant.geometry.load import FileLimits, load_mesh, load_surface
from pliant.geometry.mesh import Mesh, add_surface
from pliant.geometry.particle_sampling import (
    ParticleSamples,
    displaced,
    displaced_vjp,
    sample_particles,
)
from pliant.geometry.polygon import Polygon
from pliant.geometry.quality import MeshQuality, find_weak_connections, mesh_quality, scale_warnings
from pliant.geometry.repair import repair_surface
from pliant.geometry.rods import Rods
from pliant.geometry.sections import CircularSection, CrossSection, RectangularSection
from pliant.geometry.shapes import Box, Domain, Rectangle, Shape, Strip
from pliant.geometry.silhouette import load_silhouette
from pliant.geometry.surface import RepairReport, Surface, check_closed
from pliant.geometry.surface_shapes import hare_surface, icosphere
from pliant.geometry.tubes import Annulus, Tube
from pliant.geometry.union import Union

__all__ = [
    "Annulus",
    "Box",
    "ChamberedCylinder",
    "CircularSection",
    "ClosedCylinder",
    "CrossSection",
    "Cylinder",
    "Disc",
    "Domain",
    "Ellipsoid",
    "FileLimits",
    "FillReport",
    "FillTolerances",
    "Mesh",
    "MeshQuality",
    "ParticleSamples",
    "Polygon",
    "Rectangle",
    "RectangularSection",
    "RepairReport",
    "Rods",
    "Shape",
    "Strip",
    "Surface",
    "Tube",
    "Union",
    "add_surface",
    "check_closed",
    "compare_fill",
    "displaced",
    "displaced_vjp",
    "extrude",
    "fill",
    "find_cavities",
    "find_weak_connections",
    "hare_surface",
    "icosphere",
    "load_mesh",
    "load_silhouette",
    "load_surface",
    "merge_points",
    "mesh_quality",
    "name_cavities",
    "name_cavities_if_present",
    "orient_cells",
    "remove_unused_points",
    "repair_surface",
    "sample_particles",
    "scale_warnings",
]
