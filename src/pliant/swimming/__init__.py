"""Swimming robots: rigid links with hinges in potential flow."""

from pliant.swimming.link_distance import LinkContactError, closest_links, link_distance
from pliant.swimming.link_shapes import ClosedSurface, Ellipsoid, LinkShape
from pliant.swimming.linked_robot import Hinge, Link, LinkedRobot, LinkPoint
from pliant.swimming.placement import Placement
from pliant.swimming.potential_flow import FlowSolution, PotentialFlow

__all__ = [
    "ClosedSurface",
    "Ellipsoid",
    "FlowSolution",
    "Hinge",
    "Link",
    "LinkContactError",
    "LinkPoint",
    "LinkShape",
    "LinkedRobot",
    "Placement",
    "PotentialFlow",
    "closest_links",
    "link_distance",
]
