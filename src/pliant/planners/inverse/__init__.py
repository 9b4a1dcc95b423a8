"""Inverse control (paper 002): effectors follow targets, one linearisation a tick."""

from pliant.planners.inverse.controller import Inverse
from pliant.planners.inverse.pose import BEYOND, BY_HAND, MOVING, READY, THERE, UNKEPT, Pose
from pliant.planners.inverse.setup import inverse

__all__ = ["BEYOND", "BY_HAND", "MOVING", "READY", "THERE", "UNKEPT", "Inverse", "Pose", "inverse"]
