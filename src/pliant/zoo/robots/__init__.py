"""Predefined robots, one file each.

>>> import pliant as pl
>>> arm = pl.robots.plane_arm(layers=4, across=2)
>>> arm.n_controls
2
"""

from pliant.zoo.robots.biped_robot import biped
from pliant.zoo.robots.cable_finger_robot import cable_finger
from pliant.zoo.robots.chamber_arm_robot import chamber_arm
from pliant.zoo.robots.cylinder import silicone_cylinder
from pliant.zoo.robots.diamond_robot import diamond
from pliant.zoo.robots.finger import hydraulic_finger
from pliant.zoo.robots.irb14000_arm import irb14000
from pliant.zoo.robots.liandford_robot import liandford
from pliant.zoo.robots.line_arms import line_arm, plane_arm
from pliant.zoo.robots.pendulum_hydraulic import hydraulic_pendulum
from pliant.zoo.robots.stiff_flop_arm import stiff_flop
from pliant.zoo.robots.swimmer_robot import swimmer

__all__ = [
    "biped",
    "cable_finger",
    "chamber_arm",
    "diamond",
    "hydraulic_finger",
    "hydraulic_pendulum",
    "irb14000",
    "liandford",
    "line_arm",
    "plane_arm",
    "silicone_cylinder",
    "stiff_flop",
    "swimmer",
]
