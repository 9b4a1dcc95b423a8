"""The cable-driven biped of [Spielberg2021]: a body on two legs, each with two cables."""

import numpy as np

from pliant.actuators import Cable
from pliant.contact import Contact, plane
from pliant.core import require_positive
from pliant.geometry import Polygon
from pliant.materials import Material
from pliant.robot import Effector, Robot

# In units of 1/92 of the body length; the area is 5,024 squares, as many as the paper has
# particles. Bevels avoid sharp corners between leg and body, where the material would tear.
LENGTH, HEIGHT, WIDTH, LEG, BEVEL, INSET, LOW, POINTS = 92, 32, 26, 40, 10.5, 3, 8, 8
# of the rest length; with stronger contraction the lower end of a cable tears out
MIN_CABLE_LENGTH = 0.65


def biped(
    *, length: float = 0.4, E: float = 5e4, friction: float = 0.9, stiffness: float = 1.6e4
) -> Robot:
    """Return a planar walker of unit depth.

    Each control is the length of a cable over its rest length. `length` [m] is the body length,
    `stiffness` [N] that of the cables.
    """
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
            limits=(MIN_CABLE_LENGTH, 1.0),
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
