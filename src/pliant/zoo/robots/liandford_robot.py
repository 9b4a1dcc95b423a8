"""The Liandford of [Menager2024]: a soft parallel robot with six legs of beams and a central
bar."""

import numpy as np

from pliant.actuators import Servo
from pliant.core import Array, InputError, is_integer, quoted
from pliant.geometry import CircularSection, Rods
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot

LEGS = 6
# [m] radius of the motor ring, arch height, width and inner radius of a leg
RING, ARCH, WIDTH, HUB = 0.1, 0.035, 0.012, 0.012
HALF = 0.03  # [m] half the length of the bar
MAX_ANGLE = 1.2  # [rad] of a motor
# [1/m] torque of a motor over E radius^4, to which the stiffness of the rods is proportional:
# enough to hold all motors at MAX_ANGLE
MAX_TORQUE = 170.0


def liandford(
    *, cells: int = 8, E: float = 3e7, radius: float = 0.002, drive: str = "rotation"
) -> Robot:
    """Return a robot with six legs, each a ladder of `cells` rungs between two rails.

    The legs lead alternately to the top and the bottom of the bar. A motor rotates the foot of each
    leg about the tangent of the ring; `drive` is "rotation" if the controls are its angles, or
    "torque". E [Pa] is Young's modulus and `radius` [m] the radius of the
    rods; the bar is 100 times stiffer. The effectors are "top", "centre" and "bottom" of the bar.
    The paper gives neither sizes nor materials.
    """
    if not is_integer(cells) or cells < 2:
        raise InputError(
            f"A leg of the liandford has {quoted(cells)} cells. Use an integer of at least 2."
        )
    points, rods, regions = (
        [np.array([[0.0, 0.0, z] for z in (-HALF, 0.0, HALF)])],
        [np.array([[0, 1], [1, 2]])],
        {},
    )
    count = 3
    for leg in range(LEGS):
        end = 2 if leg % 2 == 0 else 0  # of the bar
        places, ties = _leg(leg, cells, points[0][end, 2])
        spokes = np.array([[count + 2 * cells, end], [count + 2 * cells + 1, end]])
        regions[f"motor-{leg + 1}"] = np.array([count, count + 1])
        points.append(places)
        rods += [count + ties, spokes]
        count += len(places)
    most = MAX_ANGLE if drive == "rotation" else MAX_TORQUE * E * radius**4
    bars = {"bar": np.arange(2)}
    soft = Material(E=E, nu=0.4, density=1200.0)
    return Robot(
        name="liandford",
        shape=Rods(
            points=np.concatenate(points),
            rods=np.concatenate(rods),
            regions=regions,
            parts=bars,
            section={
                "body": CircularSection(radius=radius),
                "bar": CircularSection(radius=2.0 * radius),
            },
        ),
        material={"body": soft, "bar": Material(E=100.0 * E, nu=0.4, density=1200.0)},
        actuators={
            name: Servo(region=name, axis=_tangent(leg), drive=drive, limits=(-most, most))
            for leg, name in enumerate(regions)
        },
        effectors={
            "top": Effector(point=(0.0, 0.0, HALF)),
            "centre": Effector(point=(0.0, 0.0, 0.0)),
            "bottom": Effector(point=(0.0, 0.0, -HALF)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )


def _tangent(leg: int) -> Array:
    """Return the unit tangent (3,) of the motor ring at a leg."""
    angle = 2.0 * np.pi * leg / LEGS
    return np.array([-np.sin(angle), np.cos(angle), 0.0])


def _leg(leg: int, cells: int, height: float) -> tuple[Array, Array]:
    """Return the points (2 cells + 2, 3) [m] of a leg from its foot, and its rails and rungs."""
    s = np.linspace(0.0, 1.0, cells + 1)
    out, up = RING + s * (HUB - RING), s * height + np.sign(height) * ARCH * np.sin(np.pi * s)
    angle = 2.0 * np.pi * leg / LEGS
    middle = np.stack([out * np.cos(angle), out * np.sin(angle), up], axis=1)
    side = 0.5 * WIDTH * _tangent(leg)
    places = np.stack([middle + side, middle - side], axis=1).reshape(-1, 3)
    row = 2 * np.arange(cells + 1)
    rails = [np.stack([row[:-1] + k, row[1:] + k], axis=1) for k in (0, 1)]
    return places, np.concatenate([*rails, np.stack([row, row + 1], axis=1)])
