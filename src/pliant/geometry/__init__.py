"""Meshes and shapes of bodies at rest, in metres."""

from pliant.geometry.cells import compacted, merged, oriented
from pliant.geometry.discs import Cylinder, Disc, Ellipsoid
from pliant.geometry.mesh import Mesh, with_surface
from pliant.geometry.rings import Ring, Tube
from pliant.geometry.shapes import Box, Rectangle, Shape, Strip
from pliant.geometry.union import Union

__all__ = [
    "Box",
    "Cylinder",
    "Disc",
    "Ellipsoid",
    "Mesh",
    "Rectangle",
    "Ring",
    "Shape",
    "Strip",
    "Tube",
    "Union",
    "compacted",
    "merged",
    "oriented",
    "with_surface",
]
