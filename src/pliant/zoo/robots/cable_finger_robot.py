"""The planar soft finger with two cables of [Spielberg2021, section 5.1]."""

import numpy as np

from pliant.actuators import Cable
from pliant.core import require_positive
from pliant.geometry import Rectangle
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support

SLENDERNESS = 5.0  # length over width
INSET = 0.1  # of the width, from a cable to the side
POINTS = 9  # of a cable


def cable_finger(
    *,
    length: float = 0.3,
    E: float = 1e5,
    nu: float = 0.25,
    density: float = 1000.0,
    stiffness: float = 300.0,
    damping: float = 1.0,
) -> Robot:
    """Return a planar finger that hangs from the origin and bends by two cables.

    Each control is the free length of a cable over its rest length. `length` [m] is that of the
    finger, `stiffness` [N/m] that of the cables, `damping` [1/s] damps velocities. The paper gives
    neither sizes nor units; the finger is 30 x 6 cm, and as thick as it is wide.
    """
    height = require_positive("The length of the finger", length, "m")
    width = height / SLENDERNESS
    depths = -np.linspace(0.0, height, POINTS)
    return Robot(
        name="cable_finger",
        shape=Rectangle(size=(width, height), origin=(-0.5 * width, -height)),
        divisions=(3, 15),
        thickness=width,
        material=Material(E=E, nu=nu, density=density),
        supports=[Support(region="y+")],
        actuators={
            name: Cable(
                points=np.stack([np.full(POINTS, side * (0.5 - INSET) * width), depths], axis=1),
                drive="length",
                stiffness=stiffness,
                limits=(0.6, 1.4),
            )
            for name, side in (("left", -1.0), ("right", 1.0))
        },
        effectors={"tip": Effector(point=(0.0, -height))},
        gravity=(0.0, -9.81),
        damping=Damping(mass=damping),
    )
