"""Inverse control (paper 002): effectors follow targets, one linearisation a tick."""

from pliant.planners.inverse.controller import Inverse
from pliant.planners.inverse.pose import Pose
from pliant.planners.inverse.setup import inverse

__all__ = ["Inverse", "Pose", "inverse"]
