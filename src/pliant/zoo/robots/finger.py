"""The soft finger of [Rodriguez2017, Fig. 5]: a cavity below its middle bends it upwards."""

import numpy as np

from pliant.actuators import Fibres
from pliant.actuators.fibres import CircumferentialDirection
from pliant.core import InputError, is_integer, quoted
from pliant.geometry import Box, Mesh, add_surface, name_cavities, remove_unused_points
from pliant.geometry.chambered_cylinder import grid_coordinates
from pliant.geometry.lattice import grid_points, kuhn_lattice
from pliant.geometry.shapes import inside_box
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_actuator

LENGTH, CAP = 0.11, 0.01  # [m] length along x, thickness of each solid end
WIDTH, WALL = 0.024, 0.004  # [m] width along y, side wall of the cavity
FLOOR, HOLLOW, BACK = 0.003, 0.012, 0.009  # [m] heights below, of and above the cavity
BOTTOM = -0.5 * (FLOOR + HOLLOW + BACK)  # [m]
AROUND_CAVITY = CircumferentialDirection(
    axis=(1.0, 0.0, 0.0), origin=(0.0, 0.0, BOTTOM + FLOOR + 0.5 * HOLLOW)
)


def hydraulic_finger(
    *,
    fluid: str = "water",
    along: int = 5,
    order: int = 2,
    E: float = 1.5e5,
    winding: float = 3e6,
    max_pressure: float = 1.8e4,
) -> Robot:
    """Return a silicone finger along x, clamped at its left end, with one cavity of 17 ml.

    `fluid` is "water" or "air", `along` the number of cells along the cavity, E [Pa] Young's
    modulus. The control is the fluid pressure, up to `max_pressure` [Pa]. Fibres of modulus
    `winding` [Pa] around the cavity prevent radial expansion. The effector "tip" is the centre of
    the free end. The mesh has 1,188 nodes by default. The paper gives neither sizes nor materials.
    """
    if not is_integer(along) or along < 2:
        raise InputError(
            f"The finger has {quoted(along)} cells along its cavity. Use an integer of at least 2."
        )
    return Robot(
        name="hydraulic_finger",
        shape=_mesh(along),
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0),
        supports=[Support(region="base")],
        actuators={
            "pump": fluid_actuator(fluid, "cavity", drive="pressure", limits=(0.0, max_pressure)),
            "winding": Fibres(region=_fibre_region(), stiffness=winding, direction=AROUND_CAVITY),
        },
        effectors={"tip": Effector(surface="end")},
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def _fibre_region() -> Box:
    """Return the box of the cavity's walls and one layer of cells above it."""
    return Box(
        size=(LENGTH - 2 * CAP, WIDTH, FLOOR + HOLLOW + BACK / 2), origin=(CAP, -WIDTH / 2, BOTTOM)
    )


def _mesh(along: int) -> Mesh:
    """Return the mesh with surfaces "base", "end" and "cavity"."""
    x = grid_coordinates([(CAP, 1), (LENGTH - 2 * CAP, along), (CAP, 1)])
    y = grid_coordinates([(WALL, 1), (WIDTH - 2 * WALL, 2), (WALL, 1)]) - WIDTH / 2
    z = grid_coordinates([(FLOOR, 1), (HOLLOW, 1), (BACK, 2)]) + BOTTOM
    counts = (len(x) - 1, len(y) - 1, len(z) - 1)
    lattice, cells = kuhn_lattice(counts)
    hollow = inside_box(grid_points(counts) + 0.5, np.array([1, 1, 1]), np.array([1 + along, 3, 2]))
    lattice, cells = remove_unused_points(lattice, cells[np.repeat(~hollow, 6)])
    points = np.stack(
        [axis[index] for axis, index in zip((x, y, z), lattice.T, strict=True)], axis=1
    )
    mesh = name_cavities(Mesh(points=points, cells=cells), ["cavity"])
    mesh = add_surface(mesh, "base", lambda centres: centres[:, 0] == 0.0)
    return add_surface(mesh, "end", lambda centres: np.isclose(centres[:, 0], LENGTH))
