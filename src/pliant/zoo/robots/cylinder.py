"""The silicone cylinder of paper 002, Fig. 4: clamped at one end, it droops under its own weight
and that of what fills it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.core import Array
from pliant.geometry import Vessel
from pliant.geometry.cavities import enclosed
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_in

RADIUS, WALL, LENGTH, CAP = 0.016, 0.004, 0.12, 0.006  # [m]


def silicone_cylinder(
    *,
    fluid: str = "water",
    divisions: Sequence[int] = (6, 2, 1),
    order: int = 2,
    E: float = 2e5,
    growth: float = 1.5e-5,
) -> Robot:
    """A closed silicone tube along x, clamped at its left end, with one cavity of 49 ml; 366 nodes
    by default.

    `fluid` is "water" or "air", E Young's modulus [Pa] and `growth` [m^3] how much more than the
    cavity holds at rest the pump can put in: 15 ml, as in the paper. The control is the volume as a
    share of that at rest. The effector "tip" is the middle of the free end and "neck" a point of
    the axis before it: `droop` gives the inclination of the line between them, to a degree of what
    a mesh four times as fine says. The paper gives neither sizes nor the material's numbers.
    """
    can = Vessel(radius=RADIUS, wall=WALL, length=LENGTH, cap=CAP).mesh(
        divisions=divisions, order=order
    )
    most = 1.0 - growth / enclosed(can.points, can.facets("cavity"))  # its facets point into it
    return Robot(
        name="silicone_cylinder",
        shape=replace(can, points=np.roll(can.points, 1, axis=1)),  # its axis from z to x
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0),
        supports=[Support(region="bottom")],
        actuators={"pump": fluid_in(fluid, "cavity", limits=(1.0, most), bulk=1e7)},
        effectors={
            "tip": Effector(surface="top"),
            "neck": Effector(point=(LENGTH - CAP, 0.0, 0.0)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def droop(robot: Robot, q: Array) -> float:
    """[degrees] how far the free end of a silicone cylinder looks down, for positions q (n_dofs,)
    [m]."""
    way = robot.place("tip", q) - robot.place("neck", q)
    return float(np.degrees(np.arctan2(-way[2], way[0])))
