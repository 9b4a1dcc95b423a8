"""Objects that robot arms manipulate in [Zimmermann2021]: a ball on a cable, a foam rod, foam
sheets.

Nodes and materials are those of Table I. The paper gives no sizes; here the objects hang freely in
front of the robot, above the table at z = 0.
"""

from typing import Any

import numpy as np

from pliant.actuators import Arm, Gripper, Tether
from pliant.bodies import PointMass
from pliant.contact import Contact, plane
from pliant.geometry import Box
from pliant.materials import from_moduli
from pliant.robot import Effector, Patch, Robot
from pliant.zoo.robots.irb14000_arm import irb14000

GRAVITY = (0.0, 0.0, -9.81)
# [rad] the gripper points down at (0.35, -0.15, 0.55) m, at least 0.77 rad from all joint limits
START_ANGLES = (-0.322, -1.42, 0.4, 0.628, -0.323, 1.524, 0.0)
MIRROR = (-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0)  # signs of the left arm's joint angles


def raised_arm(side: str) -> Arm:
    """Return an arm of the IRB 14000 with its gripper high in front of the body."""
    return irb14000(
        side, start=START_ANGLES if side == "right" else np.multiply(START_ANGLES, MIRROR)
    )


def pendulum(*, length: float = 0.3, mass: float = 0.045) -> Robot:
    """Return a ball of `mass` [kg] on a cable of `length` [m], held by the right arm."""
    arm = raised_arm("right")
    grip = arm.positions(np.zeros((1, 3)), arm.start)[0]
    ball = grip - np.array([0.0, 0.0, length])
    return Robot(
        name="pendulum",
        shape=PointMass(points=ball[None], mass_each=mass),
        gravity=GRAVITY,
        actuators={
            "right": Tether(point=ball, frame=arm, length=length, stiffness=1e3, onset=0.02)
        },
        effectors={"ball": Effector(point=ball)},
    )


def soft_rod(*, layers: int = 16, length: float = 0.48, width: float = 0.03) -> Robot:
    """Return a foam rod that hangs from the right arm, with 4 nodes per layer, 68 by default."""
    arm = raised_arm("right")
    grip = arm.positions(np.zeros((1, 3)), arm.start)[0]
    origin = grip - np.array([width / 2, width / 2, length])
    return Robot(
        name="soft_rod",
        shape=Box(size=(width, width, length), origin=tuple(origin)),
        divisions=(1, 1, layers),
        order=1,
        material=from_moduli(mu=21149.0, kappa=98696.0, density=34.722),
        gravity=GRAVITY,
        actuators={"right": Gripper(surface="z+", frame=arm)},
        effectors={"tip": Effector(surface="z-")},
    )


def thin_cloth(
    *,
    divisions: tuple[int, int, int] = (1, 3, 14),
    size: tuple[float, float, float] = (0.015, 0.09, 0.42),
    friction: float = 0.5,
) -> Robot:
    """Return a foam strip that hangs from the right arm above a table with friction.

    It has 120 nodes by default.
    """
    arm = raised_arm("right")
    grip = arm.positions(np.zeros((1, 3)), arm.start)[0]
    origin = grip - np.array([size[0] / 2, size[1] / 2, size[2]])
    return Robot(
        name="thin_cloth",
        shape=Box(size=size, origin=tuple(origin)),
        divisions=divisions,
        order=1,
        material=from_moduli(mu=35714.0, kappa=166667.0, density=50.71),
        gravity=GRAVITY,
        contacts=[_table(friction)],
        actuators={"right": Gripper(surface="z+", frame=arm)},
        effectors=_lower_corners(origin, size),
    )


def cloth(
    *,
    divisions: tuple[int, int, int] = (1, 7, 9),
    size: tuple[float, float, float] = (0.02, 0.36, 0.4),
    friction: float = 0.5,
) -> Robot:
    """Return a foam sheet that hangs by its upper corners from both arms above a table with
    friction.

    It has 160 nodes by default.
    """
    arms = {side: raised_arm(side) for side in ("right", "left")}
    grips = {side: arm.positions(np.zeros((1, 3)), arm.start)[0] for side, arm in arms.items()}
    middle = 0.5 * (grips["right"] + grips["left"])
    origin = middle - np.array([size[0] / 2, size[1] / 2, size[2]])
    top, ends = origin[2] + size[2], (origin[1], origin[1] + size[1])
    grip_width, pad = 1.01 * size[1] / divisions[1] * max(1, divisions[1] // 4), 1e-3
    grip_ranges = {
        "right": (ends[0] - pad, ends[0] + grip_width),
        "left": (ends[1] - grip_width, ends[1] + pad),
    }
    patches = {
        f"{side} grip": Patch(
            lower=(origin[0] - pad, a, top - pad), upper=(origin[0] + size[0] + pad, b, top + pad)
        )
        for side, (a, b) in grip_ranges.items()
    }
    return Robot(
        name="cloth",
        shape=Box(size=size, origin=tuple(origin)),
        divisions=divisions,
        order=1,
        surfaces=patches,
        material=from_moduli(mu=35714.0, kappa=166667.0, density=50.588),
        gravity=GRAVITY,
        contacts=[_table(friction)],
        actuators={side: Gripper(surface=f"{side} grip", frame=arm) for side, arm in arms.items()},
        effectors={
            **_lower_corners(origin, size),
            **{name: Effector(surface=name) for name in patches},
        },
    )


def _table(friction: float) -> Contact:
    """Return the contact with the table at z = 0."""
    ground = plane((0.0, 0.0, 1.0))
    return Contact(obstacle=ground, stiffness=5e4, layer=0.02, friction=friction)


def _lower_corners(origin: Any, size: Any) -> dict[str, Effector]:
    """Return effectors at both ends of the lower edge, at half the thickness."""
    x = origin[0] + 0.5 * size[0]
    return {
        name: Effector(point=(x, y, origin[2]))
        for name, y in (("right corner", origin[1]), ("left corner", origin[1] + size[1]))
    }
