"""Actuators, each written once for every body: what a unit of control does to it, and what the motor can do."""

from pliant.actuators.cable import AttachedCable, Cable
from pliant.actuators.thrust import AttachedThrust, Thrust

__all__ = ["AttachedCable", "AttachedThrust", "Cable", "Thrust"]
