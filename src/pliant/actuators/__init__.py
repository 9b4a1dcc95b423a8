"""Actuators: what their controls do to a body, and the limits of their motors.

>>> import pliant as pl
>>> thrust = pl.actuators.Thrust(point=(0.0, 0.0, 0.1), limits=(-1.0, 1.0))
"""

from pliant.actuators.added_elasticity import AddedElasticity, AttachedElasticity, ElasticLaw
from pliant.actuators.arm import Arm, Joint
from pliant.actuators.arm_file import load_arm
from pliant.actuators.cable import AttachedCable, Cable
from pliant.actuators.extrapolated import ExtrapolatedActuator, ExtrapolatedPotential
from pliant.actuators.fibres import AttachedFibres, Fibres
from pliant.actuators.frames import Frame, MovingFrame
from pliant.actuators.gripper import AttachedGripper, AttachedTether, FrameActuator, Gripper, Tether
from pliant.actuators.hydraulic import (
    AttachedLiquid,
    Hydraulic,
    cavity_of,
    liquid_of,
    merged_constraint,
)
from pliant.actuators.muscle import AttachedStress, Fluidic, Muscle
from pliant.actuators.polyline import Polyline
from pliant.actuators.pressure import AttachedPressure, Pressure
from pliant.actuators.servo import AttachedServo, Servo
from pliant.actuators.thrust import AttachedThrust, Thrust

__all__ = [
    "AddedElasticity",
    "Arm",
    "AttachedCable",
    "AttachedElasticity",
    "AttachedFibres",
    "AttachedGripper",
    "AttachedLiquid",
    "AttachedPressure",
    "AttachedServo",
    "AttachedStress",
    "AttachedTether",
    "AttachedThrust",
    "Cable",
    "ElasticLaw",
    "ExtrapolatedActuator",
    "ExtrapolatedPotential",
    "Fibres",
    "Fluidic",
    "Frame",
    "FrameActuator",
    "Gripper",
    "Hydraulic",
    "Joint",
    "MovingFrame",
    "Muscle",
    "Polyline",
    "Pressure",
    "Servo",
    "Tether",
    "Thrust",
    "cavity_of",
    "liquid_of",
    "load_arm",
    "merged_constraint",
]
