"""Swimming robots: rigid links with hinges in potential flow."""

from pliant.swimming.linked_robot import Hinge, Link, LinkedRobot, LinkPoint
from pliant.swimming.placement import Placement

__all__ = ["Hinge", "Link", "LinkPoint", "LinkedRobot", "Placement"]
