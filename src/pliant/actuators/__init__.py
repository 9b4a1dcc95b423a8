"""Actuators, each written once for every body: what a unit of control does to it, and what the
motor can do."""

from pliant.actuators.arm import Arm, Joint
from pliant.actuators.arm_file import load_arm
from pliant.actuators.cable import AttachedCable, Cable
from pliant.actuators.continued import Continued, ContinuedTerm
from pliant.actuators.fibres import AttachedFibres, Fibres
from pliant.actuators.frames import Frame, MovingFrame
from pliant.actuators.gripper import AttachedGripper, AttachedTether, Driven, Gripper, Tether
from pliant.actuators.hydraulic import AttachedLiquid, Hydraulic, liquid_of, merged_constraint
from pliant.actuators.muscle import AttachedStress, Fluidic, Muscle
from pliant.actuators.pressure import AttachedPressure, Pressure
from pliant.actuators.servo import AttachedServo, Servo
from pliant.actuators.thrust import AttachedThrust, Thrust

__all__ = [
    "Arm",
    "AttachedCable",
    "AttachedFibres",
    "AttachedGripper",
    "AttachedLiquid",
    "AttachedPressure",
    "AttachedServo",
    "AttachedStress",
    "AttachedTether",
    "AttachedThrust",
    "Cable",
    "Continued",
    "ContinuedTerm",
    "Driven",
    "Fibres",
    "Fluidic",
    "Frame",
    "Gripper",
    "Hydraulic",
    "Joint",
    "MovingFrame",
    "Muscle",
    "Pressure",
    "Servo",
    "Tether",
    "Thrust",
    "liquid_of",
    "load_arm",
    "merged_constraint",
]
