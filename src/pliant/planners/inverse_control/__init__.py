"""Inverse control [Rodriguez2017]: effectors follow targets, one linearisation a control step."""

from pliant.planners.inverse_control.contact_forces import ContactForceLimit
from pliant.planners.inverse_control.control_state import (
    CONSTRAINT_VIOLATED,
    MANUAL,
    MOVING,
    REACHED,
    READY,
    UNREACHABLE,
    ControlState,
)
from pliant.planners.inverse_control.controller import InverseController
from pliant.planners.inverse_control.controller_log import ControllerLog
from pliant.planners.inverse_control.setup import inverse_control
from pliant.planners.inverse_control.tolerances import Tolerances

__all__ = [
    "CONSTRAINT_VIOLATED",
    "MANUAL",
    "MOVING",
    "REACHED",
    "READY",
    "UNREACHABLE",
    "ContactForceLimit",
    "ControlState",
    "ControllerLog",
    "InverseController",
    "Tolerances",
    "inverse_control",
]
