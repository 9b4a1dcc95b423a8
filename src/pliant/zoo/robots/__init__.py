"""Ready robots, one file each."""

from pliant.zoo.robots.line_arm import line_arm

__all__ = ["line_arm"]
