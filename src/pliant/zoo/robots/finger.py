"""The soft finger of paper 002, Fig. 5: a long cavity below its middle bends it upwards, and the
weight of a liquid holds against that."""

import numpy as np

from pliant.actuators import Fibres
from pliant.core import Array, InputError, is_whole, quoted
from pliant.geometry import Box, Mesh, compacted, with_cavities, with_surface
from pliant.geometry.chambers import ticks
from pliant.geometry.lattice import grid_of, kuhn
from pliant.geometry.shapes import within
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_in

LENGTH, CAP = 0.11, 0.01  # [m] along x, and of each solid end
WIDTH, WALL = 0.024, 0.004  # [m] along y, and beside the cavity
FLOOR, HOLLOW, BACK = 0.003, 0.012, 0.009  # [m] heights below, in and above the cavity
LOWEST = -0.5 * (FLOOR + HOLLOW + BACK)  # [m]


def hydraulic_finger(
    *,
    fluid: str = "water",
    along: int = 5,
    order: int = 2,
    E: float = 1.5e5,
    winding: float = 3e6,
    highest: float = 1.8e4,
) -> Robot:
    """A silicone finger along x, clamped at its left end, with one cavity of 17 ml under a thick
    back; 1,188 nodes by default.

    `fluid` is "water" or "air", `along` the cells along the cavity, E Young's modulus [Pa]. The
    control is the pressure of the fluid, up to `highest` [Pa]. A thread of the modulus `winding`
    [Pa] goes around the cavity, without which it would swell to a balloon instead of bending the
    finger. The effector "tip" is the middle of the free end. The paper gives neither sizes nor
    materials.
    """
    if not is_whole(along) or along < 2:
        raise InputError(
            f"The finger has {quoted(along)} cells along its cavity; give a whole number, 2 or "
            "more."
        )
    return Robot(
        name="hydraulic_finger",
        shape=_mesh(along),
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0),
        supports=[Support(region="base")],
        actuators={
            "pump": fluid_in(fluid, "cavity", drive="pressure", limits=(0.0, highest)),
            "winding": Fibres(region=_wound(), stiffness=winding, direction=around_cavity),
        },
        effectors={"tip": Effector(surface="end")},
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def around_cavity(points: Array) -> Array:
    """(k, 3) the direction around the cavity's long axis at points (k, 3) [m]."""
    _, y, z = points.T
    return np.stack([np.zeros_like(y), LOWEST + FLOOR + 0.5 * HOLLOW - z, y], axis=1)


def _wound() -> Box:
    """The walls of the cavity, with as much of the back as one layer of cells."""
    return Box(
        size=(LENGTH - 2 * CAP, WIDTH, FLOOR + HOLLOW + BACK / 2), origin=(CAP, -WIDTH / 2, LOWEST)
    )


def _mesh(along: int) -> Mesh:
    """Surfaces "base", "end" and "cavity"."""
    x = ticks([(CAP, 1), (LENGTH - 2 * CAP, along), (CAP, 1)])
    y = ticks([(WALL, 1), (WIDTH - 2 * WALL, 2), (WALL, 1)]) - WIDTH / 2
    z = ticks([(FLOOR, 1), (HOLLOW, 1), (BACK, 2)]) + LOWEST
    counts = (len(x) - 1, len(y) - 1, len(z) - 1)
    lattice, cells = kuhn(counts)
    hollow = within(grid_of(counts) + 0.5, np.array([1, 1, 1]), np.array([1 + along, 3, 2]))
    lattice, cells = compacted(lattice, cells[np.repeat(~hollow, 6)])
    points = np.stack(
        [axis[index] for axis, index in zip((x, y, z), lattice.T, strict=True)], axis=1
    )
    mesh = with_cavities(Mesh(points=points, cells=cells), ["cavity"])
    mesh = with_surface(mesh, "base", lambda centres: centres[:, 0] == 0.0)
    return with_surface(mesh, "end", lambda centres: np.isclose(centres[:, 0], LENGTH))
