"""Swimming robots: rigid links with hinges in potential flow."""

from pliant.swimming.placement import Placement

__all__ = ["Placement"]
