"""Ready robots, one file each."""

from pliant.zoo.robots.biped import biped
from pliant.zoo.robots.diamond import diamond
from pliant.zoo.robots.irb14000 import irb14000
from pliant.zoo.robots.liandford import liandford
from pliant.zoo.robots.line_arm import line_arm, plane_arm
from pliant.zoo.robots.stiff_flop import stiff_flop

__all__ = ["biped", "diamond", "irb14000", "liandford", "line_arm", "plane_arm", "stiff_flop"]
