"""The cable-driven biped of paper 004: a body on two legs, with a cable along the front and the
back of each."""

import numpy as np

from pliant.actuators import Cable
from pliant.contact import Contact, plane
from pliant.core import require_positive
from pliant.geometry import Polygon
from pliant.materials import Material
from pliant.robot import Effector, Robot

# In 5,024 squares: the body is 92 x 32 of them, each leg 26 x 40. What fills the corner of leg and
# body, where a sharp one would tear, is cut from the body's upper corners.
LENGTH, HEIGHT, WIDTH, LEG, BEVEL, INSET, LOW, POINTS = 92, 32, 26, 40, 10.5, 3, 8, 8
SHORTEST = 0.65  # of a cable's rest length; a cable that pulls harder tears its lower end out


def biped(
    *, length: float = 0.4, E: float = 5e4, friction: float = 0.9, stiffness: float = 1.6e4
) -> Robot:
    """A plane walker of a body length [m], as deep as a metre; each control is a cable's length as
    a share of its rest length."""
    s = require_positive("The length of the biped", length, "m") / LENGTH
    half = [
        (WIDTH + BEVEL, LEG),
        (WIDTH, LEG - BEVEL),
        (WIDTH, 0),
        (0, 0),
        (0, LEG + HEIGHT - BEVEL),
        (BEVEL, LEG + HEIGHT),
    ]
    outline = [*reversed(half), *((LENGTH - x, y) for x, y in half)]
    heights = np.linspace(LOW, LEG + 0.5 * HEIGHT, POINTS)
    places = {
        f"{leg} leg, {side}": first + (INSET if side == "back" else WIDTH - INSET)
        for leg, first in (("back", 0), ("front", LENGTH - WIDTH))
        for side in ("back", "front")
    }
    cables = {
        name: Cable(
            points=s * np.stack([np.full(POINTS, x), heights], axis=1),
            drive="length",
            stiffness=stiffness,
            limits=(SHORTEST, 1.0),
        )
        for name, x in places.items()
    }
    return Robot(
        name="biped",
        shape=Polygon(points=tuple((s * x, s * y) for x, y in outline)),
        cell=6 * s,
        order=1,
        material=Material(E=E, nu=0.3),
        gravity=(0.0, -9.81),
        actuators=cables,
        contacts=[Contact(obstacle=plane((0.0, 1.0)), friction=friction)],
        effectors={"body": Effector(region="body")},
    )
