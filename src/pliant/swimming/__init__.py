"""Swimming robots: rigid links with hinges in potential flow."""

from pliant.swimming.gaits import PrescribedMotion, SineAngles, prescribed_motion
from pliant.swimming.link_distances import LinkContactError, closest_links, link_distance
from pliant.swimming.link_gaps import smallest_gap
from pliant.swimming.link_shapes import ClosedSurface, EllipsoidShape, LinkShape
from pliant.swimming.linked_robot import Hinge, Link, LinkedRobot, LinkPoint
from pliant.swimming.placement import Placement
from pliant.swimming.potential_flow import FlowSolution, PotentialFlow
from pliant.swimming.swimmer_model import SwimmerModel

__all__ = [
    "ClosedSurface",
    "EllipsoidShape",
    "FlowSolution",
    "Hinge",
    "Link",
    "LinkContactError",
    "LinkPoint",
    "LinkShape",
    "LinkedRobot",
    "Placement",
    "PotentialFlow",
    "PrescribedMotion",
    "SineAngles",
    "SwimmerModel",
    "closest_links",
    "link_distance",
    "prescribed_motion",
    "smallest_gap",
]
