"""Ready robots, one file each."""

from pliant.zoo.robots.biped import biped
from pliant.zoo.robots.irb14000 import irb14000
from pliant.zoo.robots.line_arm import line_arm, plane_arm

__all__ = ["biped", "irb14000", "line_arm", "plane_arm"]
