"""The silicone cylinder of [Rodriguez2017, Fig. 4]: clamped at one end and filled with a fluid."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pliant.core import Array
from pliant.geometry import ClosedCylinder
from pliant.geometry.cavities import signed_enclosed_volume
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_actuator

RADIUS, WALL, LENGTH, CAP = 0.016, 0.004, 0.12, 0.006  # [m]


def silicone_cylinder(
    *,
    fluid: str = "water",
    divisions: Sequence[int] = (6, 2, 1),
    order: int = 2,
    E: float = 2e5,
    growth: float = 1.5e-5,
) -> Robot:
    """Return a closed silicone tube along x, clamped at its left end, with a cavity of 49 ml.

    `fluid` is "water" or "air", E [Pa] is Young's modulus, and `growth` [m^3] is the volume that
    the pump can add: 15 ml, as in the paper. The control is the relative volume increase. The
    effector "tip" is the centre of the free end; "neck" is a point on the axis before it.
    `tip_angle` returns the inclination of the line between them, within one degree of a mesh four
    times as fine. The mesh has 366 nodes by default. The paper gives neither sizes nor material
    parameters.
    """
    can = ClosedCylinder(radius=RADIUS, wall=WALL, length=LENGTH, cap=CAP).mesh(
        divisions=divisions, order=order
    )
    max_growth = 1.0 - growth / signed_enclosed_volume(
        can.points, can.facets("cavity")
    )  # facets point into the cavity
    return Robot(
        name="silicone_cylinder",
        shape=replace(can, points=np.roll(can.points, 1, axis=1)),  # its axis from z to x
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0),
        supports=[Support(region="bottom")],
        actuators={"pump": fluid_actuator(fluid, "cavity", limits=(1.0, max_growth), bulk=1e7)},
        effectors={
            "tip": Effector(surface="top"),
            "neck": Effector(point=(LENGTH - CAP, 0.0, 0.0)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def tip_angle(robot: Robot, q: Array) -> float:
    """Return the downward angle [degrees] of the free end, for positions q (n_dofs,) [m]."""
    direction = robot.effector_position("tip", q) - robot.effector_position("neck", q)
    return float(np.degrees(np.arctan2(-direction[2], direction[0])))
