"""The cable-driven biped of paper 004: a body on two legs, with a cable along the front and the back of each."""

import numpy as np

from pliant.actuators import Cable
from pliant.contact import Contact, plane
from pliant.core import require_positive
from pliant.geometry import Polygon
from pliant.materials import Material
from pliant.robot import Effector, Robot

# In 5,024 squares: the body is 80 x 28 of them, each leg 24 x 58
LENGTH, HEIGHT, WIDTH, LEG, INSET, POINTS = 80, 28, 24, 58, 3, 8


def biped(*, length: float = 0.8, E: float = 1e5, friction: float = 0.9, stiffness: float = 6e3) -> Robot:
    """A plane walker of a body length [m], as deep as a metre; each control is a cable's length as a share of its rest length."""
    s = require_positive("The length of the biped", length, "m") / LENGTH
    outline = [(0, 0), (WIDTH, 0), (WIDTH, LEG), (LENGTH - WIDTH, LEG), (LENGTH - WIDTH, 0), (LENGTH, 0), (LENGTH, LEG + HEIGHT),
               (0, LEG + HEIGHT)]  # fmt: skip
    heights = np.linspace(INSET, LEG + 0.5 * HEIGHT, POINTS)
    places = {f"{leg} leg, {side}": first + (INSET if side == "back" else WIDTH - INSET)
              for leg, first in (("back", 0), ("front", LENGTH - WIDTH)) for side in ("back", "front")}  # fmt: skip
    cables = {name: Cable(points=s * np.stack([np.full(POINTS, x), heights], axis=1), drive="length", stiffness=stiffness,
                          limits=(0.6, 1.0)) for name, x in places.items()}  # fmt: skip
    return Robot(name="biped", shape=Polygon(points=tuple((s * x, s * y) for x, y in outline)), cell=6 * s, order=1,
                 material=Material(E=E, nu=0.3), gravity=(0.0, -9.81), actuators=cables,
                 contacts=[Contact(obstacle=plane((0.0, 1.0)), friction=friction)],
                 effectors={"body": Effector(region="body")})  # fmt: skip
