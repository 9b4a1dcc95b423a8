"""The Diamond of [Menager2024]: a soft parallel robot with four limbs and four cables."""

import numpy as np

from pliant.actuators import Cable
from pliant.core import Array, InputError
from pliant.geometry import Mesh, add_surface, merge_points, orient_cells
from pliant.geometry.lattice import kuhn_lattice
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support

# [m] edge of both blocks, and heights of their centres
BLOCK, BASE, TOP = 0.025, -0.0225, 0.1125
KNEE = np.array([0.097, 0.0, 0.045])  # [m] centre of the first knee, where its cable is fixed
PULLEY = np.array([0.01, 0.0, 0.03])  # [m] pulley of the first cable
SIDES = {"x+": 0, "y+": 1, "x-": 2, "y-": 3}  # quarter rotations about z from the first limb


def diamond(
    *,
    across: int = 2,
    along: int = 19,
    order: int = 1,
    E: float = 5e5,
    law: str = "linear-corotated",
    tension: float = 10.0,
) -> Robot:
    """Return a silicone robot of two rhombi, in the xz and yz planes, with a cable at each knee.

    `across` is the (even) number of cells across a limb, `along` the number along a limb. E [Pa] is
    Young's modulus and `tension` [N] the maximum tension. A cable runs from its knee to a pulley
    above the base. The effector "tip" is the centre of the top, 125 mm above the origin at rest.
    The mesh has 702 nodes by default and 1,638 with along = 45. At order 1 the limbs are about
    twice as stiff as at order 2. The paper gives neither size nor material.
    """
    return Robot(
        name="diamond",
        shape=_mesh(across, along),
        order=order,
        material=Material(E=E, nu=0.4, density=1200.0, law=law),
        supports=[Support(region="base")],
        actuators={
            name: Cable(
                points=_rotated(KNEE[None], quarters),
                guide=_rotated(PULLEY[None], quarters)[0],
                limits=(0.0, tension),
            )
            for name, quarters in SIDES.items()
        },
        effectors={"tip": Effector(point=np.array([0.0, 0.0, TOP + BLOCK / 2]))},
        gravity=np.array([0.0, 0.0, -9.81]),
        damping=Damping(mass=5.0, stiffness=0.03),
    )


def _mesh(across: int, along: int) -> Mesh:
    """Return the mesh with regions "base", "top", "limb x+" ... and surfaces "bottom", "tip
    face"."""
    if across < 2 or across % 2 or along < 4:
        raise InputError(
            f"The diamond has {across} cells across and {along} along a limb. Use an even "
            "number across, at least 2, and at least 4 along."
        )
    parts = {"base": _block(across, BASE), "top": _block(across, TOP)}
    points, cells = _limb(across, along)
    parts |= {
        f"limb {name}": (_rotated(points, quarters), cells) for name, quarters in SIDES.items()
    }
    first = np.cumsum([0, *(len(p) for p, _ in parts.values())])
    points = np.concatenate([p for p, _ in parts.values()])
    points, cells = merge_points(
        points, np.concatenate([c + n for (_, c), n in zip(parts.values(), first, strict=False)])
    )
    ends = np.cumsum([0, *(len(c) for _, c in parts.values())])
    regions = {name: np.arange(a, b) for name, a, b in zip(parts, ends, ends[1:], strict=False)}
    mesh = Mesh(points=points, cells=orient_cells(points, cells), regions=regions)
    centres = points[mesh.boundary()].mean(axis=1)
    bottom, tip = (
        np.abs(centres[:, 2] - height) < 1e-9 for height in (BASE - BLOCK / 2, TOP + BLOCK / 2)
    )
    return add_surface(add_surface(mesh, "bottom", bottom), "tip face", tip)


def _block(n: int, height: float) -> tuple[Array, Array]:
    """Return points and cells of a cube with n cells per edge, centred at a height [m]."""
    lattice, cells = kuhn_lattice((n, n, n))
    return BLOCK * (lattice / n - 0.5) + np.array([0.0, 0.0, height]), cells


def _limb(n: int, along: int) -> tuple[Array, Array]:
    """Return the mesh of the first limb, from the base block to the top block.

    Kuhn's subdivision of an even number of layers is symmetric, so both ends match the blocks.
    """
    lattice, cells = kuhn_lattice((along, n, n))
    lower = (along + 1) // 2
    share = np.interp(
        lattice[:, 0], (0, lower, along), (-1.0, 0.0, 1.0)
    )  # -1 at the base, 0 at the knee, 1 at the top
    y, depth = (
        BLOCK * (lattice[:, axis] / n - 0.5) for axis in (1, 2)
    )  # depth: from the outer line to the inner one
    run, rise = KNEE[0] - BLOCK / 2, 0.5 * (TOP - BASE)
    x = BLOCK / 2 + (1.0 - np.abs(share)) * (run - depth * run / rise)
    return np.stack([x, y, KNEE[2] + share * (rise - depth)], axis=1), cells


def _rotated(points: Array, quarters: int) -> Array:
    """Rotate points (k, 3) by quarter rotations about z."""
    c, s = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarters]
    x, y, z = points.T
    return np.stack([c * x - s * y, s * x + c * y, z], axis=1)
