"""Pliant: describe a soft robot once, then simulate it and differentiate it. SI units everywhere."""

from pliant import geometry
from pliant.actuators import Cable, Thrust
from pliant.bodies import PointMass
from pliant.contact import Contact, capsule, plane, sphere
from pliant.core import InputError, MeshError, PliantError, StepError
from pliant.dynamics import BDF2, ImplicitEuler, Newton, Quasistatic, SemiImplicit, equilibrium, gradcheck, pullback, simulate
from pliant.geometry import Box, Cylinder, Disc, Ellipsoid, Mesh, Rectangle, Ring, Strip, Tube, Union
from pliant.materials import Material
from pliant.robot import Damping, Effector, PointLoad, Robot, Support, SurfaceLoad
from pliant.robot_files import load_robot
from pliant.zoo import robots

__version__ = "0.1.0"

__all__ = [
    "BDF2", "Box", "Cable", "Contact", "Cylinder", "Damping", "Disc", "Effector", "Ellipsoid", "ImplicitEuler", "InputError",
    "Material", "Mesh", "MeshError", "Newton", "PliantError", "PointLoad", "PointMass", "Quasistatic", "Rectangle", "Ring",
    "Robot", "SemiImplicit", "StepError", "Strip", "Support", "SurfaceLoad", "Thrust", "Tube", "Union", "capsule", "equilibrium",
    "geometry", "gradcheck", "load_robot", "plane", "pullback", "robots", "simulate", "sphere",
]  # fmt: skip
