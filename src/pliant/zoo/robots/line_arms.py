"""The soft arms of [Jia2019]: two materials, cables along the edges, a laser at the tip."""

import numpy as np

from pliant.actuators import Cable
from pliant.core import InputError
from pliant.geometry import Box, Rectangle, Union
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support

WIDTH, LENGTH = 0.04, 0.2  # [m]


def line_arm(
    *,
    layers: int = 20,
    across: int = 4,
    order: int = 1,
    law: str = "neo-hookean",
    soft: float = 2e5,
    stiff: float = 2e6,
) -> Robot:
    """Return a vertical arm of alternating soft and stiff layers with four cables.

    The laser is in the stiff layer at the tip; its beam passes through "laser base" and "laser".
    `soft` and `stiff` [Pa] are Young's moduli. The default lattice of 4 x 4 x 20 cells has the
    paper's 525 vertices. The paper gives neither moduli nor sizes; here the arm is 4 x 4 x 20 cm.
    """
    slab, half, is_stiff, heights = _slabs(layers, across)
    whole = Box(size=(WIDTH, WIDTH, LENGTH), origin=(-half, -half, 0.0))
    disks = {
        f"disk-{k}": Box(size=(WIDTH, WIDTH, slab), origin=(-half, -half, k * slab))
        for k in np.flatnonzero(is_stiff)
    }
    corners = {
        "front-left": (-1, -1),
        "front-right": (1, -1),
        "back-right": (1, 1),
        "back-left": (-1, 1),
    }
    return Robot(
        name="line_arm",
        shape=Union(parts={"stiff": Union(parts=disks), "soft": whole}),
        divisions=(across, across, layers),
        order=order,
        material={
            name: Material(E=E, nu=0.4, density=1000.0, law=law)
            for name, E in (("stiff", stiff), ("soft", soft))
        },
        supports=[Support(region="z-")],
        actuators={
            name: Cable(
                points=np.array([(half * x, half * y, z) for z in heights]), limits=(0.0, 20.0)
            )
            for name, (x, y) in corners.items()
        },
        effectors={
            name: Effector(point=np.array([0.0, 0.0, z]))
            for name, z in (("laser", LENGTH), ("laser base", LENGTH - slab))
        },
        gravity=np.array([0.0, 0.0, -9.81]),
        damping=Damping(mass=0.5, stiffness=0.004),
    )


def plane_arm(
    *,
    layers: int = 40,
    across: int = 8,
    order: int = 1,
    law: str = "neo-hookean",
    soft: float = 2e5,
    stiff: float = 2e6,
) -> Robot:
    """Return the planar arm of [Jia2019, Fig. 1], 4 cm thick, with two cables and 369 vertices."""
    slab, half, is_stiff, heights = _slabs(layers, across)
    whole = Rectangle(size=(WIDTH, LENGTH), origin=(-half, 0.0))
    disks = {
        f"disk-{k}": Rectangle(size=(WIDTH, slab), origin=(-half, k * slab))
        for k in np.flatnonzero(is_stiff)
    }
    return Robot(
        name="plane_arm",
        shape=Union(parts={"stiff": Union(parts=disks), "soft": whole}),
        divisions=(across, layers),
        order=order,
        thickness=WIDTH,
        material={
            name: Material(E=E, nu=0.4, density=1000.0, law=law)
            for name, E in (("stiff", stiff), ("soft", soft))
        },
        supports=[Support(region="y-")],
        actuators={
            name: Cable(points=np.array([(half * x, y) for y in heights]), limits=(0.0, 20.0))
            for name, x in (("left", -1), ("right", 1))
        },
        effectors={
            name: Effector(point=np.array([0.0, y]))
            for name, y in (("laser", LENGTH), ("laser base", LENGTH - slab))
        },
        gravity=np.array([0.0, -9.81]),
        damping=Damping(mass=0.5, stiffness=0.004),
    )


def _slabs(layers: int, across: int) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return layer height [m], half the width [m], mask of stiff layers, cable heights [m]."""
    if layers < 4 or layers % 4 or across < 2:
        raise InputError(
            f"The arm has {layers} layers and {across} cells across. Use a multiple of 4 layers "
            "and at least 2 cells across."
        )
    slab = LENGTH / layers
    is_stiff = np.arange(layers) % 4 == 3  # every fourth layer, including the tip
    return (
        slab,
        WIDTH / 2,
        is_stiff,
        np.concatenate([[0.0], (np.flatnonzero(is_stiff) + 0.5) * slab]),
    )
