"""Robots: a shape, its materials and everything attached to it, in rest coordinates."""

from pliant.robot.actuator import Actuator
from pliant.robot.controls import Control
from pliant.robot.description import RobotDescription
from pliant.robot.loads import Load, MomentLoad, PointLoad, SurfaceLoad
from pliant.robot.parameters import robot_with
from pliant.robot.robot import Damping, Effector, Robot
from pliant.robot.supports import Motion, Patch, Support

__all__ = [
    "Actuator",
    "Control",
    "Damping",
    "Effector",
    "Load",
    "MomentLoad",
    "Motion",
    "Patch",
    "PointLoad",
    "Robot",
    "RobotDescription",
    "Support",
    "SurfaceLoad",
    "robot_with",
]
