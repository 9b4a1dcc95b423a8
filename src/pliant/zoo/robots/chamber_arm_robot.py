"""An arm of pressure chambers in pairs that hangs from the ceiling [Spielberg2021, section
5.3.1]."""

from pliant.actuators import Fluidic
from pliant.core import InputError, is_integer, require_positive
from pliant.geometry import Box, Rectangle, Union
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support

SEGMENTS = 4
# The arm is a lattice of 12 x 18 x 80 points. Each chamber has 6 x 18 x 16 of them, the base and
# the tip 12 x 18 x 8: ten blocks of 12^3.
WIDTH, DEPTH, HEIGHT, END = 12, 18, 16, 8
LENGTH = SEGMENTS * HEIGHT + 2 * END


def chamber_arm(
    *,
    length: float = 0.4,
    E: float = 3e5,
    pressure: float | None = None,
    damping: float = 2.0,
    plane: bool = False,
    cells: int = 1,
) -> Robot:
    """Return an arm of four segments, each with two chambers, between a base and a tip.

    It hangs from the ceiling, downwards from the origin. Each control is the pressure [Pa] of a
    chamber, at most `pressure` (default: a third of E); the chambers of a segment are side by side
    along x. Each of the ten blocks ("base", "left1", "right1", ..., "tip") is a region with a
    material of its own.
    `length` [m] is that of the arm, `damping` [1/s] damps velocities, `plane` makes it planar, and
    `cells` is the number of cells across a chamber.
    """
    s = require_positive("The length of the arm", length, "m") / LENGTH
    pressure = E / 3.0 if pressure is None else pressure
    if not is_integer(cells) or cells < 1:
        raise InputError(f"The arm has {cells} cells across a chamber; give 1 or more.")

    def block(x: float, width: float, top: float, height: float) -> Box | Rectangle:
        """Return a block; x and top are its left and upper end."""
        low = -top - height
        if plane:
            return Rectangle(size=(s * width, s * height), origin=(s * x, s * low))
        size = (s * width, s * DEPTH, s * height)
        return Box(size=size, origin=(s * x, -0.5 * s * DEPTH, s * low))

    half, bottom = WIDTH / 2, LENGTH - END
    chambers = {
        f"{side}{k + 1}": block(x, half, END + k * HEIGHT, HEIGHT)
        for k in range(SEGMENTS)
        for side, x in (("left", -half), ("right", 0.0))
    }
    blocks = {
        "base": block(-half, WIDTH, 0.0, END),
        **chambers,
        "tip": block(-half, WIDTH, bottom, END),
    }
    across, along = 2 * cells, 2 * cells * (LENGTH // HEIGHT)
    top, end = ("y+", "y-") if plane else ("z+", "z-")
    return Robot(
        name="chamber_arm",
        shape=Union(parts=blocks),
        divisions=(across, along) if plane else (across, across, along),
        order=1,
        thickness=s * DEPTH if plane else 1.0,  # unused in space
        material={name: Material(E=E, nu=0.3, density=1000.0) for name in blocks},
        supports=[Support(region=top)],
        actuators={name: Fluidic(region=name, limits=(0.0, pressure)) for name in chambers},
        effectors={"tip": Effector(surface=end)},
        gravity=(0.0, -9.81) if plane else (0.0, 0.0, -9.81),
        damping=Damping(mass=damping),
    )
